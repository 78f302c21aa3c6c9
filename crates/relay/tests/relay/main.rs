//! The relay over loopback: connections, datagrams, failing endpoints, hostile peers.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::duration_suboptimal_units,
    clippy::wildcard_imports,
    reason = "a test stops at the first surprise, and its clients say what they saw"
)]

mod datagrams;
mod failures;
mod limits;
mod servers;
mod streams;
