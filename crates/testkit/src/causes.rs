//! An error as one line: what failed, and why, down to the first cause.

use std::error::Error;
use std::fmt::Write as _;

pub(crate) fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}
