//! The worker threads, as the caller sees them.

use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use crate::{Pool, Portal, RelayError, RelayOptions, RelayStats};

/// Worker threads that relay. Dropping it ends them, and with them all open connections.
#[derive(Debug)]
pub struct Relay {}

impl Relay {
    /// Starts the worker threads.
    pub fn start(options: RelayOptions) -> Result<Self, RelayError> {
        let _ = options;
        Ok(Self {})
    }

    /// Relays what this socket accepts to `pool`. The socket is made non-blocking.
    pub fn serve_tcp(&self, listener: TcpListener, pool: Arc<Pool>) -> Result<Portal, RelayError> {
        let _ = pool;
        let address = listener.local_addr().map_err(|source| RelayError::Address { source })?;
        Err(RelayError::Ended { address })
    }

    /// Relays what this socket receives to `pool`, with an association for each client address. The socket is made
    /// non-blocking.
    pub fn serve_udp(&self, socket: UdpSocket, pool: Arc<Pool>) -> Result<Portal, RelayError> {
        let _ = pool;
        let address = socket.local_addr().map_err(|source| RelayError::Address { source })?;
        Err(RelayError::Ended { address })
    }

    /// What it has done so far.
    pub fn stats(&self) -> RelayStats {
        RelayStats::default()
    }

    /// Stops accepting and lets connections finish. Returns when all have ended, or after `grace`. Listening sockets stay
    /// open, so that clients wait in their queues for a process that takes them over.
    pub fn drain(&self, grace: Duration) {
        let _ = grace;
    }

    /// Changes how long UDP associations live after their last datagram, those that are open too.
    pub fn set_udp_idle_timeout(&self, timeout: Duration) {
        let _ = timeout;
    }
}
