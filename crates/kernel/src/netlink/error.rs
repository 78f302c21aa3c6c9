//! What can go wrong between us and the kernel.

use std::{fmt, io};

/// The kernel's "no".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The number of the error.
    pub errno: i32,
    /// What the kernel says about it, if it says anything.
    pub message: Option<String>,
    /// Where in the request the offending attribute starts, if the kernel tells.
    pub offset: Option<u32>,
}

impl Refusal {
    /// A refusal with nothing but its number.
    pub fn of(errno: i32) -> Self {
        Self { errno, message: None, offset: None }
    }

    /// Whether the error has this number.
    pub fn is(&self, errno: rustix::io::Errno) -> bool {
        self.errno == errno.raw_os_error()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", io::Error::from_raw_os_error(self.errno))?;
        if let Some(message) = &self.message {
            write!(f, ": {message}")?;
        }
        if let Some(offset) = self.offset {
            write!(f, " (at byte {offset} of the message)")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

/// A netlink request that failed.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// There is no socket to ask with.
    #[error("opening a netlink socket ({protocol})")]
    Open {
        /// Which protocol.
        protocol: &'static str,
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
    /// The kernel refused.
    #[error("{operation}")]
    Refused {
        /// What we were doing.
        operation: &'static str,
        /// What the kernel says.
        #[source]
        refusal: Refusal,
    },
    /// The objects changed while they were listed, every time.
    #[error("{operation}: interrupted by other programs {attempts} times")]
    Interrupted {
        /// What we were doing.
        operation: &'static str,
        /// How often we tried.
        attempts: u32,
    },
    /// An answer we cannot read, or none.
    #[error("{operation}: the kernel's answer makes no sense")]
    Unreadable {
        /// What we were doing.
        operation: &'static str,
    },
}

impl NetlinkError {
    /// The kernel's "no", if that is what it was.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused { refusal, .. } => Some(refusal),
            Self::Open { .. }
            | Self::Send { .. }
            | Self::Receive { .. }
            | Self::Interrupted { .. }
            | Self::Unreadable { .. } => None,
        }
    }
}
