//! Errors of netlink requests.

use std::{fmt, io};

use crate::ipset;

/// A request that the kernel rejected, with its extended acknowledgement if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The error code.
    pub errno: i32,
    /// The kernel's message, if it sent one.
    pub message: Option<String>,
    /// Where in the request the offending attribute starts, if the kernel says so.
    pub offset: Option<u32>,
}

impl Rejection {
    /// A rejection without message and offset.
    pub fn from_errno(errno: i32) -> Self {
        Self { errno, message: None, offset: None }
    }

    /// Whether it is about us or the whole kernel, not about the object of the request.
    pub fn is_general(&self) -> bool {
        use rustix::io::Errno;
        [Errno::PERM, Errno::NOMEM, Errno::NOBUFS].into_iter().any(|errno| self.is(errno))
    }

    /// Whether there is no such thing.
    pub fn is_not_found(&self) -> bool {
        self.is(rustix::io::Errno::NOENT) || self.is(rustix::io::Errno::SRCH)
    }

    /// Whether there is such a thing already.
    pub fn is_there(&self) -> bool {
        self.is(rustix::io::Errno::EXIST)
    }

    /// Whether this is the error code.
    pub fn is(&self, errno: rustix::io::Errno) -> bool {
        self.errno == errno.raw_os_error()
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match ipset::describe(self.errno) {
            Some(description) => f.write_str(description)?,
            None => write!(f, "{}", io::Error::from_raw_os_error(self.errno))?,
        }
        if let Some(message) = &self.message {
            write!(f, ": {message}")?;
        }
        if let Some(offset) = self.offset {
            write!(f, " (at byte {offset} of the message)")?;
        }
        Ok(())
    }
}

impl std::error::Error for Rejection {}

/// A netlink request that failed.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// The socket could not be opened.
    #[error("opening a netlink socket ({protocol})")]
    Open {
        /// The netlink protocol.
        protocol: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Notifications cannot be subscribed to.
    #[error("subscribing to notifications of the kernel")]
    Subscribe {
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The request did not reach the kernel.
    #[error("{operation}: sending {bytes} bytes to the kernel")]
    Send {
        /// What we were doing.
        operation: &'static str,
        /// How much was to be sent.
        bytes: usize,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The answer did not reach us.
    #[error("{operation}: waiting for the kernel's answer")]
    Receive {
        /// What we were doing.
        operation: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The kernel rejected the request.
    #[error("{operation}")]
    Rejected {
        /// What we were doing.
        operation: &'static str,
        /// The kernel's reply.
        #[source]
        rejection: Rejection,
    },
    /// The objects changed while they were listed, every time.
    #[error("{operation}: interrupted by other programs {attempts} times")]
    Interrupted {
        /// What we were doing.
        operation: &'static str,
        /// How often we tried.
        attempts: u32,
    },
    /// A reply that cannot be decoded, or none at all.
    #[error("{operation}: the kernel's answer makes no sense")]
    Unreadable {
        /// What we were doing.
        operation: &'static str,
    },
}

impl NetlinkError {
    /// The kernel's rejection, if that is what it was.
    pub fn rejection(&self) -> Option<&Rejection> {
        match self {
            Self::Rejected { rejection, .. } => Some(rejection),
            Self::Open { .. }
            | Self::Subscribe { .. }
            | Self::Send { .. }
            | Self::Receive { .. }
            | Self::Interrupted { .. }
            | Self::Unreadable { .. } => None,
        }
    }
}
