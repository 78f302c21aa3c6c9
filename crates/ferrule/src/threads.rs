//! Threads: each has a name, and none can be lost unseen.
//!
//! The one place that starts threads in this program (`cargo xtask tidy` checks it). A panic on any of them ends the process:
//! see [`crate::panics`].

use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a thread. Linux shows the first fifteen bytes of the name.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.to_owned()).spawn(work)
}
