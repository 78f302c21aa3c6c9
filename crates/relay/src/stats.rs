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
    /// Bytes that were read and wait for a slow reader, in memory and in pipes.
    pub held_bytes: u64,
    /// Reads that left what the reader does not take in the sender's socket, because too many bytes were held already.
    pub unbuffered_reads: u64,
    /// Pipes that bytes are spliced through, idle ones too. Each has two descriptors.
    pub open_pipes: u64,
    /// Times that an endpoint was set aside because it failed several times in a row.
    pub set_aside: u64,
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

/// The counters themselves; a relay has them, and so has each portal.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) open_connections: AtomicU64,
    pub(crate) open_associations: AtomicU64,
    pub(crate) accepted: AtomicU64,
    pub(crate) associated: AtomicU64,
    pub(crate) dial_failures: AtomicU64,
    pub(crate) unserved: AtomicU64,
    pub(crate) refused_by_limit: AtomicU64,
    pub(crate) not_admitted: AtomicU64,
    pub(crate) accept_pauses: AtomicU64,
    pub(crate) held_bytes: AtomicU64,
    pub(crate) unbuffered_reads: AtomicU64,
    pub(crate) open_pipes: AtomicU64,
    pub(crate) set_aside: AtomicU64,
    pub(crate) dropped_datagrams: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) wakeups: AtomicU64,
}

/// Chooses one of the counters.
pub(crate) type Counter = fn(&Counters) -> &AtomicU64;

impl Counters {
    pub(crate) fn relay_stats(&self) -> RelayStats {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RelayStats {
            open_connections: of(&self.open_connections),
            open_associations: of(&self.open_associations),
            accepted: of(&self.accepted),
            associated: of(&self.associated),
            dial_failures: of(&self.dial_failures),
            unserved: of(&self.unserved),
            refused_by_limit: of(&self.refused_by_limit),
            not_admitted: of(&self.not_admitted),
            accept_pauses: of(&self.accept_pauses),
            held_bytes: of(&self.held_bytes),
            unbuffered_reads: of(&self.unbuffered_reads),
            open_pipes: of(&self.open_pipes),
            set_aside: of(&self.set_aside),
            dropped_datagrams: of(&self.dropped_datagrams),
            bytes_in: of(&self.bytes_in),
            bytes_out: of(&self.bytes_out),
            wakeups: of(&self.wakeups),
        }
    }

    pub(crate) fn portal_stats(&self) -> PortalStats {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PortalStats {
            open_connections: of(&self.open_connections),
            open_associations: of(&self.open_associations),
            accepted: of(&self.accepted),
            associated: of(&self.associated),
            dial_failures: of(&self.dial_failures),
            unserved: of(&self.unserved),
            refused_by_limit: of(&self.refused_by_limit),
            not_admitted: of(&self.not_admitted),
            dropped_datagrams: of(&self.dropped_datagrams),
            bytes_in: of(&self.bytes_in),
            bytes_out: of(&self.bytes_out),
        }
    }
}
