//! The command line: kube-proxy's flags with pflag's habits, and what is made from the same table.
//!
//! [`flags`] is the table; [`parse()`] reads arguments by it; [`help`], [`completion`], [`man`] and [`docs`] print it.
//! What the values mean together with a configuration file is decided in [`crate::config::complete()`].

pub mod completion;
pub mod docs;
pub mod flags;
pub mod help;
pub mod man;
mod parse;
pub(crate) mod values;
pub mod version;

pub(crate) use flags::Flag;
pub use parse::{CommandLine, FlagError, parse};
