//! What is shipped: the static program where there is nothing else, the manifests, the rules for monitoring.
//!
//! Images are tested where they are written, in `xtask`.
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

mod empty_root;
mod manifests;
mod monitoring;
mod names;
mod plugin;
mod render;
mod tools;
