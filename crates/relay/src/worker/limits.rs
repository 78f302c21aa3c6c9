//! What clients may open and hold: a limit for each pool, and one for the whole relay.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::shared::PortalState;
use crate::Limited;

/// UDP associations that every socket may have, however many others have.
pub(crate) const GUARANTEED_ASSOCIATIONS: usize = 16;

/// What a client opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    Connection,
    Association,
}

/// Where something that was opened is counted, and how many there may be.
struct Count<'a> {
    of_pool: &'a AtomicUsize,
    pool_limit: usize,
    of_portal: &'a AtomicU64,
    of_relay: &'a AtomicU64,
    relay_limit: usize,
}

impl PortalState {
    fn count_of(&self, opened: Opened) -> Count<'_> {
        let (limits, options) = (self.pool.limits(), &self.relay.options);
        let (usage, own, all) = (&self.pool.usage, &self.counters, &self.relay.counters);
        match opened {
            Opened::Connection => Count {
                of_pool: &usage.connections,
                pool_limit: limits.max_connections,
                of_portal: &own.open_connections,
                of_relay: &all.open_connections,
                relay_limit: options.max_connections,
            },
            Opened::Association => Count {
                of_pool: &usage.associations,
                pool_limit: limits.max_associations,
                of_portal: &own.open_associations,
                of_relay: &all.open_associations,
                relay_limit: if own.open_associations.load(Ordering::Relaxed) < GUARANTEED_ASSOCIATIONS as u64
                {
                    usize::MAX
                } else {
                    self.relay.max_associations
                },
            },
        }
    }

    /// Takes a place, or says which limit is reached.
    pub(crate) fn open(&self, opened: Opened) -> Result<(), usize> {
        let count = self.count_of(opened);
        let in_pool = count.of_pool.fetch_add(1, Ordering::Relaxed);
        let in_relay = count.of_relay.load(Ordering::Relaxed);
        let reached = if in_pool >= count.pool_limit {
            Some(count.pool_limit)
        } else {
            usize::try_from(in_relay).is_ok_and(|all| all >= count.relay_limit).then_some(count.relay_limit)
        };
        if let Some(limit) = reached {
            count.of_pool.fetch_sub(1, Ordering::Relaxed);
            return Err(limit);
        }
        count.of_portal.fetch_add(1, Ordering::Relaxed);
        count.of_relay.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Takes the place of something that gave way.
    pub(crate) fn replace(&self, opened: Opened) {
        let count = self.count_of(opened);
        count.of_pool.fetch_add(1, Ordering::Relaxed);
        count.of_portal.fetch_add(1, Ordering::Relaxed);
        count.of_relay.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives a place back.
    pub(crate) fn close(&self, opened: Opened) {
        let count = self.count_of(opened);
        count.of_pool.fetch_sub(1, Ordering::Relaxed);
        count.of_portal.fetch_sub(1, Ordering::Relaxed);
        count.of_relay.fetch_sub(1, Ordering::SeqCst);
        self.relay.something_ended();
    }

    /// Counts a client that a limit turned away.
    pub(crate) fn refused(&self, opened: Opened, limit: usize) {
        self.pool.usage.refused.fetch_add(1, Ordering::Relaxed);
        self.count(|counters| &counters.refused_by_limit, 1);
        let what = match opened {
            Opened::Connection => Limited::Connections,
            Opened::Association => Limited::Associations,
        };
        self.relay.limit_reached(self.address, what, limit);
    }
}

/// Bytes that wait for a slow reader, counted for as long as this lives.
#[derive(Debug)]
pub(crate) struct Reservation {
    portal: Arc<PortalState>,
    bytes: usize,
}

impl PortalState {
    /// Whether more bytes may be read than the reader takes now.
    pub(crate) fn may_hold(&self) -> bool {
        self.memory_limit_reached().is_none()
    }

    fn memory_limit_reached(&self) -> Option<usize> {
        let (of_pool, of_relay) = (&self.pool.usage.held_bytes, &self.relay.counters.held_bytes);
        let (pool_limit, relay_limit) =
            (self.pool.limits().max_held_bytes, self.relay.options.max_held_bytes);
        if of_pool.load(Ordering::Relaxed) >= pool_limit {
            return Some(pool_limit);
        }
        let all = of_relay.load(Ordering::Relaxed);
        usize::try_from(all).is_ok_and(|all| all >= relay_limit).then_some(relay_limit)
    }

    /// Counts bytes that wait. A worker asks [`Self::may_hold`] before it reads, so the limit is exceeded by one read at most.
    pub(crate) fn hold(self: &Arc<Self>, bytes: usize) -> Reservation {
        self.pool.usage.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.count(|counters| &counters.held_bytes, bytes as u64);
        Reservation { portal: Arc::clone(self), bytes }
    }

    /// Counts a read that held nothing, for lack of memory.
    pub(crate) fn read_unbuffered(&self) {
        self.count(|counters| &counters.unbuffered_reads, 1);
        if let Some(limit) = self.memory_limit_reached() {
            self.relay.limit_reached(self.address, Limited::HeldBytes, limit);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let (portal, bytes) = (&self.portal, self.bytes);
        portal.pool.usage.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
        portal.counters.held_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
        portal.relay.counters.held_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    }
}
