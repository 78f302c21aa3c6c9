//! kube-proxy rebuilt: flags, configuration, logging, and the run loop.
//!
//! A library so that tests can reach every part; the program in `main.rs` only calls [`app::run`]. Reading order:
//! [`cli`] (what was asked), [`config`] (what is in effect), [`settings`] (what it means), [`resolve`] (what it means on
//! this node), [`run`] (the loop), [`logging`], [`config_watch`].

#![forbid(unsafe_code)]

pub mod app;
pub mod causes;
pub mod cleanup;
pub mod cli;
pub mod config;
pub mod config_file;
pub mod config_watch;
pub mod descriptors;
pub mod events;
pub mod gates;
pub mod go;
pub mod health;
pub mod host;
pub mod http;
pub mod logging;
pub mod metrics;
pub mod notify;
pub mod panics;
pub mod profiles;
pub mod resolve;
pub mod run;
mod sandbox;
pub mod settings;
pub mod status;
pub mod threads;
