//! How a relay is started, and what can go wrong.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::NoteSink;

/// How a [`Relay`](crate::Relay) works.
#[derive(Clone)]
pub struct RelayOptions {
    /// Worker threads. `None` means one for each processor.
    pub threads: Option<usize>,
    /// How long a UDP association lives after its last datagram, either way.
    pub udp_idle_timeout: Duration,
    /// How long a TCP connection lives after its last byte once one side has ended its half.
    pub half_open_timeout: Duration,
    /// TCP connections that a relay holds, over all pools. More are refused.
    pub max_connections: usize,
    /// UDP associations that a relay holds, over all pools.
    pub max_associations: usize,
    /// Bytes that may wait for slow readers, over all pools. Beyond, no more is read than the reader takes at once.
    pub max_held_bytes: usize,
    /// Descriptors of this process that clients leave to others, at most half of its limit. New connections wait near it. Zero
    /// leaves it to the kernel to say that there are none.
    pub reserved_descriptors: u64,
    /// Receives what an operator should know.
    pub notes: Option<NoteSink>,
}

impl Default for RelayOptions {
    fn default() -> Self {
        Self {
            threads: None,
            udp_idle_timeout: Duration::from_millis(250),
            half_open_timeout: Duration::from_mins(5),
            max_connections: 1 << 20,
            max_associations: 1 << 16,
            max_held_bytes: 128 << 20,
            reserved_descriptors: 0,
            notes: None,
        }
    }
}

impl fmt::Debug for RelayOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayOptions")
            .field("threads", &self.threads)
            .field("udp_idle_timeout", &self.udp_idle_timeout)
            .field("half_open_timeout", &self.half_open_timeout)
            .field("max_connections", &self.max_connections)
            .field("max_associations", &self.max_associations)
            .field("max_held_bytes", &self.max_held_bytes)
            .field("reserved_descriptors", &self.reserved_descriptors)
            .finish_non_exhaustive()
    }
}

/// Errors of starting a relay and of serving a socket. Errors of single connections are counted, not returned.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum RelayError {
    #[error("starting worker {worker} of the relay; are there too many threads or open files?")]
    Start { worker: usize, source: io::Error },
    #[error("reading the address of a listening socket")]
    Address { source: io::Error },
    #[error("setting up the listening socket {address}: {operation}")]
    Socket { address: SocketAddr, operation: &'static str, source: io::Error },
    #[error("serving {address}: the relay has ended")]
    Ended { address: SocketAddr },
}
