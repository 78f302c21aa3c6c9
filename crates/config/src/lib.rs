//! The command line and the configuration file, read as kube-proxy reads them.
//!
//! Reading order: [`cli`] (what was asked), `config` (flags and file joined into one effective configuration, written
//! down again, and compared with a changed file), [`settings`] (what it means, every choice made), [`resolve`] (what it
//! means on this node). [`mod@file`] and [`file_watch`] read the file and notice that it changed; all else is pure.
//! Acting on settings is the program's work: see `crates/ferrule`.

#![forbid(unsafe_code)]

pub mod cli;
mod config;
pub mod file;
pub mod file_watch;
pub mod gates;
pub mod go;
pub mod resolve;
pub mod settings;

pub use config::configz;
pub use config::docs;
pub use config::encode::encode;
pub use config::reload::{InvalidFile, Judgement, Reload, judge};
pub use config::suggest::closest;
pub use config::{CompleteError, Completed, Effective, KubeProxyConfiguration, complete, complete_with_file};

#[cfg(test)]
mod tests;
