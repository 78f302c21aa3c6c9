//! The status page in a real browser, on a node that serves a folder of manifests.
#![allow(clippy::print_stderr, reason = "a skipped test must say so")]

mod browser;
mod cluster;
mod limits;
#[path = "../standalone/stand.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod stand;
mod views;
