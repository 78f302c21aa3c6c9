//! What is told of requests, so that somebody can count them. Counting itself is no matter of ours.

use std::fmt;
use std::time::Duration;

/// Something about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// The means to send requests were made, from what certificates and credentials are now.
    Prepared,
    /// It was sent, and what came of it.
    Asked(Asked),
    /// All of an answer was read. Not told of watches, which answer for as long as they last.
    Answered {
        /// Whom it was sent to, and how.
        to: Target,
        /// The length of the answer.
        bytes: usize,
    },
}

/// Whom a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The method.
    pub method: String,
    /// The server's host and port.
    pub host: String,
}

/// A request that was sent, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Whom it was sent to, and how.
    pub to: Target,
    /// The status of the answer, or `<error>` if there was none, as kube-proxy counts it.
    pub code: String,
    /// How long the answer took to begin.
    pub took: Duration,
    /// What was sent along.
    pub bytes: usize,
    /// How it stands to others.
    pub manner: Manner,
}

/// What kind of a request it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// Whether it was a watch, which answers for as long as it lasts.
    pub is_watch: bool,
    /// Whether the same had been asked before, and the connection had broken.
    pub is_retry: bool,
    /// How long it waited for its turn, if there is a limit that it counts for.
    pub waited: Option<Duration>,
}

/// Whoever counts.
pub(super) struct Counter(pub Box<dyn Fn(&Traffic) + Send + Sync>);

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counter")
    }
}
