//! An error as one line for the log: what failed, and why, down to the first cause.
//!
//! Lives here because every crate that reports errors depends on this one.

use std::error::Error;
use std::fmt::Write as _;

/// An error with its causes, from the outside in.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        // Writing to a String cannot fail.
        let _ = write!(text, ": {cause}");
        source = cause.source();
    }
    text
}
