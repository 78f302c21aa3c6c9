//! The schedule of dials for one client: up to four, each with more time than the one before.

use std::net::SocketAddr;
use std::time::Duration;

use crate::pool::Attempt;

/// How long each attempt may take.
const TIMEOUTS: [Duration; 4] =
    [Duration::from_millis(250), Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];

/// What was tried for one client so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Dial {
    tried: Vec<SocketAddr>,
}

impl Dial {
    /// How long the next attempt may take; `None` if there are no more.
    pub(super) fn next_timeout(&self) -> Option<Duration> {
        TIMEOUTS.get(self.tried.len()).copied()
    }

    pub(super) fn attempt(&self) -> Attempt {
        if self.tried.is_empty() { Attempt::First } else { Attempt::Again }
    }

    pub(super) fn tried(&self) -> &[SocketAddr] {
        &self.tried
    }

    /// An attempt has begun.
    pub(super) fn begun(&mut self, endpoint: SocketAddr) {
        self.tried.push(endpoint);
    }
}
