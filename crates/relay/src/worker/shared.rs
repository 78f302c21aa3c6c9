//! What all workers and the caller share: counters, limits, notes.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};

use crate::stats::{Counter, Counters};
use crate::{Note, Pool, RelayOptions};

/// State of one relay.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: RelayOptions,
    pub(crate) counters: Counters,
    udp_idle_nanos: AtomicU64,
    /// Whether a thread waits until nothing is open.
    is_awaited: AtomicBool,
    exhausted: Recurring,
    at_limit: Recurring,
    ended: (Mutex<()>, Condvar),
    next_portal: AtomicU64,
    /// Descriptors that connections and associations may use together.
    descriptors: u64,
}

/// A state that clients run into repeatedly while it lasts, and that is reported once.
#[derive(Debug, Default)]
struct Recurring {
    last: Mutex<Option<Instant>>,
}

/// A state that was not met for this long is over.
const QUIET: Duration = Duration::from_mins(1);

impl Recurring {
    /// Whether the state was not met recently, so that it begins now.
    fn begins(&self) -> bool {
        let now = Instant::now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.replace(now).is_none_or(|last| now.saturating_duration_since(last) >= QUIET)
    }
}

/// State of one portal, shared by the caller, the workers and the connections accepted there.
#[derive(Debug)]
pub(crate) struct PortalState {
    pub(crate) id: u64,
    pub(crate) address: SocketAddr,
    pub(crate) pool: Arc<Pool>,
    pub(crate) counters: Counters,
    pub(crate) relay: Arc<Shared>,
}

impl Shared {
    pub(crate) fn new(options: RelayOptions) -> Self {
        let udp_idle_nanos = AtomicU64::new(as_nanos(options.udp_idle_timeout));
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let descriptors = limit - options.reserved_descriptors.min(limit / 2);
        Self {
            descriptors,
            options,
            counters: Counters::default(),
            udp_idle_nanos,
            is_awaited: AtomicBool::new(false),
            exhausted: Recurring::default(),
            at_limit: Recurring::default(),
            ended: (Mutex::new(()), Condvar::new()),
            next_portal: AtomicU64::new(0),
        }
    }

    pub(crate) fn next_portal_id(&self) -> u64 {
        self.next_portal.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn udp_idle_timeout(&self) -> Duration {
        Duration::from_nanos(self.udp_idle_nanos.load(Ordering::Relaxed))
    }

    pub(crate) fn set_udp_idle_timeout(&self, timeout: Duration) {
        self.udp_idle_nanos.store(as_nanos(timeout), Ordering::Relaxed);
    }

    /// Reports that no descriptor was left.
    pub(crate) fn descriptors_exhausted(&self, portal: SocketAddr, error: &io::Error) {
        if self.exhausted.begins() {
            self.note(Note::DescriptorsExhausted { portal, error: error.to_string() });
        }
    }

    /// Reports that a client was turned away by a limit.
    fn limit_reached(&self, portal: SocketAddr, limit: usize) {
        if self.at_limit.begins() {
            self.note(Note::LimitReached { portal, limit });
        }
    }

    pub(crate) fn note(&self, note: Note) {
        if let Some(sink) = &self.options.notes {
            sink(note);
        }
    }

    /// Waits until every connection and association has ended, at most this long.
    pub(crate) fn wait_until_idle(&self, grace: Duration) {
        let deadline = Instant::now() + grace;
        let (lock, changed) = &self.ended;
        self.is_awaited.store(true, Ordering::SeqCst);
        let mut guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
        while self.open() > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            guard = changed.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn open(&self) -> u64 {
        self.counters.open_connections.load(Ordering::SeqCst)
            + self.counters.open_associations.load(Ordering::SeqCst)
    }

    fn something_ended(&self) {
        if self.is_awaited.load(Ordering::SeqCst) {
            let _guard = self.ended.0.lock().unwrap_or_else(PoisonError::into_inner);
            self.ended.1.notify_all();
        }
    }
}

impl Shared {
    /// Whether one more connection leaves others their descriptors.
    pub(crate) fn has_descriptors(&self) -> bool {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let used = 2 * of(&self.counters.open_connections) + of(&self.counters.open_associations);
        self.options.reserved_descriptors == 0 || used + 2 <= self.descriptors
    }
}

impl PortalState {
    /// Adds to a counter of the portal and of the relay.
    pub(crate) fn count(&self, counter: Counter, more: u64) {
        counter(&self.counters).fetch_add(more, Ordering::Relaxed);
        counter(&self.relay.counters).fetch_add(more, Ordering::Relaxed);
    }

    /// Takes a place for a connection, or says which limit is reached.
    pub(crate) fn open_connection(&self) -> Result<(), usize> {
        let limit = self.pool.limits().max_connections;
        let before = self.pool.usage.connections.fetch_add(1, Ordering::Relaxed);
        let all = self.relay.counters.open_connections.load(Ordering::Relaxed);
        let relay_limit = self.relay.options.max_connections;
        let reached = if before >= limit {
            Some(limit)
        } else {
            usize::try_from(all).is_ok_and(|all| all >= relay_limit).then_some(relay_limit)
        };
        if let Some(limit) = reached {
            self.pool.usage.connections.fetch_sub(1, Ordering::Relaxed);
            return Err(limit);
        }
        self.count(|counters| &counters.open_connections, 1);
        Ok(())
    }

    pub(crate) fn close_connection(&self) {
        self.pool.usage.connections.fetch_sub(1, Ordering::Relaxed);
        self.counters.open_connections.fetch_sub(1, Ordering::Relaxed);
        self.relay.counters.open_connections.fetch_sub(1, Ordering::SeqCst);
        self.relay.something_ended();
    }

    /// Takes a place for an association, or says which limit is reached.
    pub(crate) fn open_association(&self) -> Result<(), usize> {
        let limit = self.pool.limits().max_associations;
        let before = self.pool.usage.associations.fetch_add(1, Ordering::Relaxed);
        let all = self.relay.counters.open_associations.load(Ordering::Relaxed);
        let relay_limit = self.relay.options.max_associations;
        let reached = if before >= limit {
            Some(limit)
        } else {
            usize::try_from(all).is_ok_and(|all| all >= relay_limit).then_some(relay_limit)
        };
        if let Some(limit) = reached {
            self.pool.usage.associations.fetch_sub(1, Ordering::Relaxed);
            return Err(limit);
        }
        self.count(|counters| &counters.open_associations, 1);
        Ok(())
    }

    pub(crate) fn close_association(&self) {
        self.pool.usage.associations.fetch_sub(1, Ordering::Relaxed);
        self.counters.open_associations.fetch_sub(1, Ordering::Relaxed);
        self.relay.counters.open_associations.fetch_sub(1, Ordering::SeqCst);
        self.relay.something_ended();
    }

    /// Counts a client that a limit turned away.
    pub(crate) fn refused(&self, limit: usize) {
        self.pool.usage.refused.fetch_add(1, Ordering::Relaxed);
        self.count(|counters| &counters.refused_by_limit, 1);
        self.relay.limit_reached(self.address, limit);
    }
}

fn as_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_others_their_descriptors() {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let shared = |reserved| {
            Shared::new(RelayOptions { reserved_descriptors: reserved, ..RelayOptions::default() })
        };
        let with = |shared: &Shared, connections: u64| {
            shared.counters.open_connections.store(connections, Ordering::Relaxed);
            shared.has_descriptors()
        };
        let some = shared(100);
        assert!(with(&some, (limit - 100) / 2 - 1));
        assert!(!with(&some, (limit - 100) / 2));
        // However many are to be left, half of them are for connections.
        let all = shared(u64::MAX);
        assert!(with(&all, limit / 4 - 1));
        assert!(!with(&all, limit / 4 + 1));
        assert!(with(&shared(0), limit), "the kernel says when there are none");
    }
}
