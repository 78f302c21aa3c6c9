//! Bytes as text.

use std::fmt::Write as _;

/// Two digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // A string takes everything.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
