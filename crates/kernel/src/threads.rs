//! Threads: each has a name.
//!
//! The one place that starts threads in the program (`cargo xtask tidy` checks it). A panic on any of them ends the process,
//! which is the program's own affair.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a thread. Linux shows the first fifteen bytes of the name.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.to_owned()).spawn(work)
}
