//! gzip, which shrinks a scrape to a tenth.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

/// Compresses; `None` if that fails.
pub fn gzipped(plain: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory does not fail; if it did, the plain body would do.
    encoder.write_all(plain).and_then(|()| encoder.finish()).ok()
}
