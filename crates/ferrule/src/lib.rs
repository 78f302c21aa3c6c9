//! kube-proxy rebuilt: the run loop, and everything a running proxy serves, logs and reports.
//!
//! A library only for the tests in `tests/` that need a part of the process itself; the program in `main.rs` calls
//! [`app::run`]. Everything else is private, so that the compiler sees dead code. Reading order: [`app`] (one run of
//! the program), `run` (the loop), [`logging`]. Flags and configuration are in `ferrule_config`.

#![forbid(unsafe_code)]

pub mod app;
mod config_reload;
pub mod descriptors;
mod events;
mod health;
mod history;
mod host;
mod http;
pub mod logging;
mod metrics;
mod notify;
pub mod panics;
mod profiles;
mod questions;
mod run;
mod sandbox;
mod status;
