//! What all workers and the caller share: counters, limits, notes.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::descriptors::Descriptors;
use crate::stats::{Counter, Counters};
use crate::{Limited, Note, Pool, RelayOptions};

/// State of one relay.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: RelayOptions,
    pub(crate) counters: Counters,
    /// UDP associations over all pools. Each takes one of the ports that the host connects from.
    pub(crate) max_associations: usize,
    udp_idle_nanos: AtomicU64,
    /// Whether a thread waits until nothing is open.
    is_awaited: AtomicBool,
    exhausted: Recurring,
    at_limit: Recurring,
    at_memory_limit: Recurring,
    ended: (Mutex<()>, Condvar),
    next_portal: AtomicU64,
    pub(crate) descriptors: Descriptors,
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
        Self {
            descriptors: Descriptors::reserving(options.reserved_descriptors),
            max_associations: options.max_associations.min(local_ports() / 2),
            options,
            counters: Counters::default(),
            udp_idle_nanos,
            is_awaited: AtomicBool::new(false),
            exhausted: Recurring::default(),
            at_limit: Recurring::default(),
            at_memory_limit: Recurring::default(),
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

    /// Reports that a client ran into a limit.
    pub(super) fn limit_reached(&self, portal: SocketAddr, what: Limited, limit: usize) {
        let state = match what {
            Limited::Connections | Limited::Associations => &self.at_limit,
            Limited::HeldBytes => &self.at_memory_limit,
        };
        if state.begins() {
            self.note(Note::LimitReached { portal, what, limit });
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

    pub(super) fn something_ended(&self) {
        if self.is_awaited.load(Ordering::SeqCst) {
            let _guard = self.ended.0.lock().unwrap_or_else(PoisonError::into_inner);
            self.ended.1.notify_all();
        }
    }
}

impl PortalState {
    /// Adds to a counter of the portal and of the relay.
    pub(crate) fn count(&self, counter: Counter, more: u64) {
        counter(&self.counters).fetch_add(more, Ordering::Relaxed);
        counter(&self.relay.counters).fetch_add(more, Ordering::Relaxed);
    }

    /// Counts a failure of an endpoint that no client can have caused.
    pub(crate) fn blame(&self, endpoint: SocketAddr, now: Instant) {
        if self.pool.report_failure_at(endpoint, now) {
            self.count(|counters| &counters.set_aside, 1);
        }
    }
}

/// How many ports this host connects from. Others need them, too, such as what resolves names for the host itself.
fn local_ports() -> usize {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ends = range.split_whitespace().filter_map(|port| port.parse::<usize>().ok());
    match (ends.next(), ends.next()) {
        (Some(first), Some(last)) => (last + 1).saturating_sub(first),
        _ => usize::from(u16::MAX),
    }
}

fn as_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
