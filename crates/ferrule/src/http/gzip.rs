//! Compression for those who accept it: a scrape shrinks to a tenth.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

/// The compressed form.
pub fn gzipped(plain: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory does not fail; should it, the plain body does as well.
    encoder.write_all(plain).and_then(|()| encoder.finish()).ok()
}
