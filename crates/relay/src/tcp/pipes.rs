//! Pipes for `splice`, kept for reuse. A connection has one only while bytes are in it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::pipe::{PipeFlags, pipe_with};

use crate::worker::shared::Shared;

/// Empty pipes that are kept.
const MAX_IDLE: usize = 32;
/// Pipes at a time, of all workers. Connections beyond that copy: so slow readers cannot use up all descriptors.
const MAX_PIPES: u64 = 1024;

/// A pipe.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) input: OwnedFd,
    pub(super) output: OwnedFd,
    relay: Arc<Shared>,
}

/// The pipes of one worker.
#[derive(Debug)]
pub(super) struct Pipes {
    idle: Vec<Pipe>,
    relay: Arc<Shared>,
}

impl Pipes {
    pub(super) fn new(relay: Arc<Shared>) -> Self {
        Self { idle: Vec::new(), relay }
    }

    /// An empty pipe, or `None` if there are too many or no descriptors for another.
    pub(super) fn take(&mut self) -> Option<Pipe> {
        if let Some(pipe) = self.idle.pop() {
            return Some(pipe);
        }
        let open = &self.relay.counters.open_pipes;
        if open.load(Ordering::Relaxed) >= MAX_PIPES || !self.relay.has_descriptors_for_stream() {
            return None;
        }
        let (output, input) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
        open.fetch_add(1, Ordering::Relaxed);
        Some(Pipe { input, output, relay: Arc::clone(&self.relay) })
    }

    /// Takes an empty pipe back. One with bytes in it must be dropped instead.
    pub(super) fn put_back(&mut self, pipe: Pipe) {
        if self.idle.len() < MAX_IDLE {
            self.idle.push(pipe);
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.relay.counters.open_pipes.fetch_sub(1, Ordering::Relaxed);
    }
}
