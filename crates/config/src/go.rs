//! Go's text forms of values, which kube-proxy's flags and files are written in.
//!
//! Only the spelling lives here; what a value means for the proxy is decided in [`crate::settings`].

mod duration;
mod float;
mod number;
mod quantity;
mod quote;

pub(crate) use duration::GoDuration;
pub(crate) use float::{format_float32, parse_float32};
pub(crate) use number::{parse_bool, parse_digits, parse_int32};
pub(crate) use quantity::Quantity;
pub use quote::{escaped, is_printable, quoted};
