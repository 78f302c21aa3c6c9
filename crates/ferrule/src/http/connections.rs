//! Limits the connections of all ports together, and evicts one when there is no room.
//!
//! Each kind of port has a reserved share, and the rest is for whichever needs it. So a client that fills one port cannot block
//! another, and a full port still accepts every new client: the least recently used connection is evicted. Having sent a request
//! without reading its response, or sending requests without end, protects no connection.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

/// The reserved share of each kind of port: all connections divided by this, within the bounds.
const SHARE_DIVISOR: usize = 8;
const MIN_SHARE: usize = 4;
const MAX_SHARE: usize = 64;
/// How long to wait for an evicted connection to close before the next one is evicted.
const EVICTION_INTERVAL: Duration = Duration::from_millis(50);
/// Connections evicted when accepting fails: other parts may need descriptors, too.
const EVICTED_WHEN_EXHAUSTED: usize = 8;
/// The memory that unread responses may take up together.
const MAX_UNREAD_BYTES: usize = 16 << 20;

/// A kind of port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortKind {
    /// `/healthz`, `/livez`, `/readyz`.
    Health,
    /// Metrics and diagnostics.
    Metrics,
    /// Load balancers' health checks of Services.
    ServiceChecks,
    /// Questions of commands, on a unix socket.
    Inspect,
}

impl PortKind {
    /// Every kind, in order.
    pub const ALL: [Self; 4] = [Self::Health, Self::Metrics, Self::ServiceChecks, Self::Inspect];

    /// The label in metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Health => "healthz",
            Self::Metrics => "metrics",
            Self::ServiceChecks => "service-health-check",
            Self::Inspect => "inspect",
        }
    }
}

/// The connections of all ports.
#[derive(Debug)]
pub struct Connections {
    common: Arc<Semaphore>,
    shares: [Arc<Semaphore>; PortKind::ALL.len()],
    open: Mutex<OpenConnections>,
    /// Whether the last attempt to accept a connection failed for lack of resources.
    is_exhausted: AtomicBool,
}

#[derive(Debug, Default)]
struct OpenConnections {
    entries: BTreeMap<u64, Entry>,
    /// In the order of eviction.
    order: BTreeSet<EvictionRank>,
    /// A logical clock: counts connections and uses of them.
    clock: u64,
    /// Bytes of unread responses.
    unread: usize,
    evicted: [u64; PortKind::ALL.len()],
}

/// Sorts connections by the order in which they are evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EvictionRank {
    /// Waits for a blocking response, which would be lost.
    is_blocking: bool,
    last_used: u64,
    id: u64,
}

#[derive(Debug)]
struct Entry {
    kind: PortKind,
    rank: EvictionRank,
    unread: usize,
    /// `None` until the task is spawned.
    task: Option<AbortHandle>,
}

/// Permission to open one connection.
#[derive(Debug)]
pub struct ConnectionPermit(#[expect(dead_code, reason = "released when dropped")] OwnedSemaphorePermit);

/// A registered connection, unregistered when dropped.
#[derive(Debug)]
pub struct ConnectionGuard {
    connections: Arc<Connections>,
    id: u64,
    _permit: ConnectionPermit,
}

impl Connections {
    /// Allows at most `limit` connections at a time.
    pub fn new(limit: usize) -> Self {
        let share = (limit / SHARE_DIVISOR).clamp(MIN_SHARE, MAX_SHARE);
        let common = limit.saturating_sub(share * PortKind::ALL.len());
        let semaphore = |permits: usize| Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)));
        Self {
            common: semaphore(common),
            shares: PortKind::ALL.map(|_| semaphore(share)),
            open: Mutex::default(),
            is_exhausted: AtomicBool::new(false),
        }
    }

    /// Waits for a permit. If there is none, evicts the least recently used connection of the same kind of port; other kinds,
    /// which other threads may serve, are never waited for.
    pub async fn acquire(&self, kind: PortKind) -> ConnectionPermit {
        let share = &self.shares[kind as usize];
        loop {
            for permits in [share, &self.common] {
                if let Ok(permit) = Arc::clone(permits).try_acquire_owned() {
                    return ConnectionPermit(permit);
                }
            }
            self.evict(|entry| entry.kind == kind);
            let freed = tokio::select! {
                freed = Arc::clone(share).acquire_owned() => freed.ok(),
                freed = Arc::clone(&self.common).acquire_owned() => freed.ok(),
                () = tokio::time::sleep(EVICTION_INTERVAL) => None,
            };
            if let Some(permit) = freed {
                return ConnectionPermit(permit);
            }
        }
    }

    /// A connection could not be accepted for lack of descriptors or memory: evicts the least recently used connections of any
    /// port. Returns whether this is the first failure in a row.
    pub fn accept_failed(&self) -> bool {
        for _ in 0..EVICTED_WHEN_EXHAUSTED {
            self.evict(|_| true);
        }
        !self.is_exhausted.swap(true, Ordering::Relaxed)
    }

    /// A connection was accepted.
    pub fn accepted(&self) {
        self.is_exhausted.store(false, Ordering::Relaxed);
    }

    /// Whether a response of this length fits; evicts connections of the same kind that have not read theirs to make room.
    pub fn reserve_memory(&self, kind: PortKind, length: usize) -> bool {
        loop {
            let unread = self.lock().unread;
            if unread == 0 || unread.saturating_add(length) <= MAX_UNREAD_BYTES {
                return true;
            }
            if !self.evict(|entry| entry.kind == kind && entry.unread > 0) {
                return false;
            }
        }
    }

    /// Registers a new connection.
    pub fn register(self: &Arc<Self>, kind: PortKind, permit: ConnectionPermit) -> ConnectionGuard {
        let mut open = self.lock();
        open.clock += 1;
        let id = open.clock;
        let rank = EvictionRank { is_blocking: false, last_used: id, id };
        open.order.insert(rank);
        open.entries.insert(id, Entry { kind, rank, unread: 0, task: None });
        ConnectionGuard { connections: Arc::clone(self), id, _permit: permit }
    }

    /// Sets the task that serves a connection, which eviction aborts.
    pub fn set_task(&self, id: u64, task: AbortHandle) {
        if let Some(entry) = self.lock().entries.get_mut(&id) {
            entry.task = Some(task);
        }
    }

    /// The number of evicted connections of a kind of port since the start.
    pub fn evicted(&self, kind: PortKind) -> u64 {
        self.lock().evicted[kind as usize]
    }

    /// Evicts the first candidate in order and returns whether there was one.
    fn evict(&self, is_candidate: impl Fn(&Entry) -> bool) -> bool {
        let mut open = self.lock();
        let is_next = |entry: &&Entry| entry.task.is_some() && is_candidate(entry);
        let mut in_order = open.order.iter().filter_map(|rank| open.entries.get(&rank.id));
        let Some(id) = in_order.find(is_next).map(|entry| entry.rank.id) else { return false };
        if let Some(entry) = open.remove(id) {
            open.evicted[entry.kind as usize] += 1;
            entry.task.inspect(AbortHandle::abort);
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        // No panic can happen in the middle of a change.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenConnections {
    /// Marks a connection as used now; does nothing if it was evicted.
    fn touch(&mut self, id: u64, is_blocking: bool) {
        self.clock += 1;
        let last_used = self.clock;
        let Some(entry) = self.entries.get_mut(&id) else { return };
        self.order.remove(&entry.rank);
        entry.rank = EvictionRank { is_blocking, last_used, id };
        self.order.insert(entry.rank);
    }

    fn remove(&mut self, id: u64) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        self.order.remove(&entry.rank);
        self.unread -= entry.unread;
        Some(entry)
    }
}

impl ConnectionGuard {
    /// Identifies the connection in [`Connections::set_task`].
    pub fn id(&self) -> u64 {
        self.id
    }

    /// A blocking response is being made: the connection is evicted last.
    pub fn blocking_started(&self) {
        self.connections.lock().touch(self.id, true);
    }

    /// A response of this length is being sent.
    pub fn response_started(&self, length: usize) {
        let mut open = self.connections.lock();
        open.touch(self.id, false);
        if let Some(entry) = open.entries.get_mut(&self.id) {
            entry.unread += length;
            open.unread += length;
        }
    }

    /// All responses so far were written to the socket.
    pub fn responses_sent(&self) {
        let mut open = self.connections.lock();
        let sent = open.entries.get_mut(&self.id).map_or(0, |entry| std::mem::take(&mut entry.unread));
        open.unread -= sent;
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.connections.lock().remove(self.id);
    }
}

#[cfg(test)]
mod tests;
