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
    /// A limit of a pool or of the relay is reached.
    LimitReached {
        /// The socket that the first client used that ran into it.
        portal: SocketAddr,
        /// What is limited.
        what: Limited,
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

/// What a limit is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limited {
    /// TCP connections: more are reset.
    Connections,
    /// UDP associations: the one that was idle longest ends.
    Associations,
    /// Bytes that wait for slow readers.
    HeldBytes,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DescriptorsExhausted { portal, error } => write!(
                f,
                "no file descriptor left for new connections to {portal} ({error}): they wait until others end; \
                 raise RLIMIT_NOFILE"
            ),
            Self::LimitReached { portal, what: Limited::Connections, limit } => {
                write!(f, "{portal} has {limit} connections, the limit; more are refused")
            }
            Self::LimitReached { portal, what: Limited::Associations, limit } => {
                write!(
                    f,
                    "{portal} has {limit} UDP clients, the limit; those that were idle longest give way"
                )
            }
            Self::LimitReached { portal, what: Limited::HeldBytes, limit } => write!(
                f,
                "{portal} has {limit} bytes that wait for slow readers, the limit; no more is read than readers take"
            ),
            Self::SocketFailed { portal, error } => write!(f, "serving {portal} ended: {error}"),
        }
    }
}
