//! What an operator should know. The relay does not log; it hands these to its caller.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// Receives notes, on a worker thread. It must not block.
pub type NoteSink = Arc<dyn Fn(Note) + Send + Sync>;

/// A change of state that is worth a line in the log. Each is reported once when it begins, not for every
/// connection, and again only if it was over for a minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// No descriptor was left for a new connection. Open connections live on; new ones wait in the kernel's queue.
    DescriptorsExhausted {
        /// The socket whose client waits.
        portal: SocketAddr,
        /// What the kernel said.
        error: String,
    },
    /// A pool has as many connections or associations as its limits permit; more are refused.
    LimitReached {
        /// The socket that the first refused client used.
        portal: SocketAddr,
        /// The limit.
        limit: usize,
    },
    /// A socket cannot be read any more. It is no longer served.
    SocketFailed {
        /// The socket.
        portal: SocketAddr,
        /// What the kernel said.
        error: String,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DescriptorsExhausted { portal, error } => write!(
                f,
                "no file descriptor left for new connections to {portal} ({error}): they wait until others end; \
                 raise RLIMIT_NOFILE"
            ),
            Self::LimitReached { portal, limit } => {
                write!(f, "{portal} has {limit} connections, the limit; more are refused")
            }
            Self::SocketFailed { portal, error } => write!(f, "serving {portal} ended: {error}"),
        }
    }
}
