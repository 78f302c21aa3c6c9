//! Pipes for `splice`, kept for reuse. A connection has one only while bytes are in it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::pipe::{PipeFlags, pipe_with};

/// Empty pipes that are kept.
const MAX_IDLE: usize = 32;
/// Pipes in use at a time, by one worker. Connections beyond that copy: so slow readers cannot use up all descriptors.
const MAX_PIPES: usize = 512;

/// A pipe.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) input: OwnedFd,
    pub(super) output: OwnedFd,
    /// Given back when the pipe is closed.
    _ticket: Arc<()>,
}

/// The pipes of one worker.
#[derive(Debug, Default)]
pub(super) struct Pipes {
    idle: Vec<Pipe>,
    tickets: Arc<()>,
}

impl Pipes {
    /// An empty pipe, or `None` if there are too many or no descriptors for another.
    pub(super) fn take(&mut self) -> Option<Pipe> {
        if let Some(pipe) = self.idle.pop() {
            return Some(pipe);
        }
        if Arc::strong_count(&self.tickets) > MAX_PIPES {
            return None;
        }
        let (output, input) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
        Some(Pipe { input, output, _ticket: Arc::clone(&self.tickets) })
    }

    /// Takes an empty pipe back. One with bytes in it must be dropped instead.
    pub(super) fn put_back(&mut self, pipe: Pipe) {
        if self.idle.len() < MAX_IDLE {
            self.idle.push(pipe);
        }
    }
}
