//! Counters of a relay and of each portal.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a relay has done since it was started. "In" is from clients to endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayStats {
    /// TCP connections of clients that are open now, those that are being dialled too.
    pub open_connections: u64,
    /// UDP associations that are open now.
    pub open_associations: u64,
    /// TCP connections accepted.
    pub accepted: u64,
    /// UDP associations created.
    pub associated: u64,
    /// Dials of an endpoint that failed or timed out; a client may have several.
    pub dial_failures: u64,
    /// TCP clients that were reset because no endpoint could be reached.
    pub unserved: u64,
    /// Clients refused because a limit was reached: connections that were reset, datagrams that were dropped.
    pub refused_by_limit: u64,
    /// Clients refused because their address is not admitted.
    pub not_admitted: u64,
    /// Times that accepting was paused because no descriptor was left.
    pub accept_pauses: u64,
    /// UDP datagrams dropped: no endpoint, or the socket's queue was full.
    pub dropped_datagrams: u64,
    /// Bytes from clients to endpoints.
    pub bytes_in: u64,
    /// Bytes from endpoints to clients.
    pub bytes_out: u64,
    /// Times that a worker woke up.
    pub wakeups: u64,
}

/// What one portal has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortalStats {
    /// TCP connections accepted here that are open now.
    pub open_connections: u64,
    /// UDP associations that are open now.
    pub open_associations: u64,
    /// TCP connections accepted.
    pub accepted: u64,
    /// UDP associations created.
    pub associated: u64,
    /// Dials of an endpoint that failed or timed out.
    pub dial_failures: u64,
    /// TCP clients that were reset because no endpoint could be reached.
    pub unserved: u64,
    /// Clients refused because a limit was reached.
    pub refused_by_limit: u64,
    /// Clients refused because their address is not admitted.
    pub not_admitted: u64,
    /// UDP datagrams dropped.
    pub dropped_datagrams: u64,
    /// Bytes from clients to endpoints.
    pub bytes_in: u64,
    /// Bytes from endpoints to clients.
    pub bytes_out: u64,
}
