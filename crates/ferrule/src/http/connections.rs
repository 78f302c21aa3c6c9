//! The connections of all ports together: how many there may be, and which goes when there is no room.
//!
//! Each kind of port has a share that is its own, and what is left is for whoever needs it. So nobody who fills one port keeps
//! another from answering, and a port that is full still takes every new client: the connection that was used least recently
//! goes. To have asked without reading the answer, or to ask without end, protects nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

/// A share of this part of all connections, within the bounds, is kept for each kind of port.
const SHARE: usize = 8;
const MIN_SHARE: usize = 4;
const MAX_SHARE: usize = 64;
/// How long it is waited for a connection to close before another one must go.
const EVICTION_PAUSE: Duration = Duration::from_millis(50);
/// So many connections go when a new one cannot be accepted: others may want descriptors, too.
const EVICTED_WHEN_EXHAUSTED: usize = 8;
/// Answers that clients have not read yet may take up this much memory together.
const MAX_UNREAD: usize = 16 << 20;

/// A kind of port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortKind {
    /// `/healthz`, `/livez`, `/readyz`.
    Health,
    /// Metrics and looks inside.
    Metrics,
    /// Load balancers' health checks of Services.
    ServiceChecks,
}

impl PortKind {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Health, Self::Metrics, Self::ServiceChecks];

    /// What metrics call it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Health => "healthz",
            Self::Metrics => "metrics",
            Self::ServiceChecks => "service-health-check",
        }
    }
}

/// The connections of all ports.
#[derive(Debug)]
pub struct Connections {
    common: Arc<Semaphore>,
    shares: [Arc<Semaphore>; PortKind::ALL.len()],
    open: Mutex<Open>,
    /// Whether the last attempt to accept a connection failed for want of something.
    is_exhausted: AtomicBool,
}

#[derive(Debug, Default)]
struct Open {
    entries: BTreeMap<u64, Entry>,
    /// The first to go comes first.
    order: BTreeSet<Rank>,
    /// Counts connections, and everything that happens on them.
    events: u64,
    /// Bytes of answers that were not read yet.
    unread: usize,
    evicted: [u64; PortKind::ALL.len()],
}

/// Whether a slow page is being made for a connection, when it was last used, and which one it is.
type Rank = (bool, u64, u64);

#[derive(Debug)]
struct Entry {
    kind: PortKind,
    rank: Rank,
    unread: usize,
    /// `None` in the moment before there is a task.
    task: Option<AbortHandle>,
}

/// Room for one connection.
#[derive(Debug)]
pub struct Room(#[expect(dead_code, reason = "it is given back when it is dropped")] OwnedSemaphorePermit);

/// A connection among the others; it leaves them when this is dropped.
#[derive(Debug)]
pub struct Place {
    connections: Arc<Connections>,
    id: u64,
    _room: Room,
}

impl Connections {
    /// At most this many at a time.
    pub fn new(limit: usize) -> Self {
        let share = (limit / SHARE).clamp(MIN_SHARE, MAX_SHARE);
        let common = limit.saturating_sub(share * PortKind::ALL.len());
        let semaphore = |permits: usize| Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)));
        Self {
            common: semaphore(common),
            shares: PortKind::ALL.map(|_| semaphore(share)),
            open: Mutex::default(),
            is_exhausted: AtomicBool::new(false),
        }
    }

    /// Room for one more connection to a kind of port; if there is none, the connection of this kind that was used least recently
    /// is closed. Ports of other kinds, which other threads may serve, are never waited for.
    pub async fn room(&self, kind: PortKind) -> Room {
        let share = &self.shares[kind as usize];
        loop {
            for permits in [share, &self.common] {
                if let Ok(permit) = Arc::clone(permits).try_acquire_owned() {
                    return Room(permit);
                }
            }
            self.evict(|entry| entry.kind == kind);
            let freed = tokio::select! {
                freed = Arc::clone(share).acquire_owned() => freed.ok(),
                freed = Arc::clone(&self.common).acquire_owned() => freed.ok(),
                () = tokio::time::sleep(EVICTION_PAUSE) => None,
            };
            if let Some(permit) = freed {
                return Room(permit);
            }
        }
    }

    /// A connection could not be accepted, since there are no descriptors left or no memory: of all connections to any port
    /// those go that were used least recently. Says whether this is news.
    pub fn is_exhausted(&self) -> bool {
        for _ in 0..EVICTED_WHEN_EXHAUSTED {
            self.evict(|_| true);
        }
        !self.is_exhausted.swap(true, Ordering::Relaxed)
    }

    /// A connection could be accepted.
    pub fn is_not_exhausted(&self) {
        self.is_exhausted.store(false, Ordering::Relaxed);
    }

    /// Whether memory may be spent on an answer of this length; those who read theirs slowest make room for it.
    pub fn has_memory_for(&self, kind: PortKind, length: usize) -> bool {
        loop {
            let unread = self.lock().unread;
            if unread == 0 || unread.saturating_add(length) <= MAX_UNREAD {
                return true;
            }
            if !self.evict(|entry| entry.kind == kind && entry.unread > 0) {
                return false;
            }
        }
    }

    /// A new connection.
    pub fn enter(self: &Arc<Self>, kind: PortKind, room: Room) -> Place {
        let mut open = self.lock();
        open.events += 1;
        let id = open.events;
        let rank = (false, id, id);
        open.order.insert(rank);
        open.entries.insert(id, Entry { kind, rank, unread: 0, task: None });
        Place { connections: Arc::clone(self), id, _room: room }
    }

    /// The task that serves a connection, to be ended should it have to go.
    pub fn served_by(&self, id: u64, task: AbortHandle) {
        if let Some(entry) = self.lock().entries.get_mut(&id) {
            entry.task = Some(task);
        }
    }

    /// How many connections of a kind of port were closed to make room, since the start.
    pub fn evicted(&self, kind: PortKind) -> u64 {
        self.lock().evicted[kind as usize]
    }

    /// Closes the most dispensable connection that is meant; says whether there was one.
    fn evict(&self, is_meant: impl Fn(&Entry) -> bool) -> bool {
        let mut open = self.lock();
        let is_next = |entry: &&Entry| entry.task.is_some() && is_meant(entry);
        let mut in_order = open.order.iter().filter_map(|(_, _, id)| open.entries.get(id));
        let Some(id) = in_order.find(is_next).map(|entry| entry.rank.2) else { return false };
        if let Some(entry) = open.remove(id) {
            open.evicted[entry.kind as usize] += 1;
            entry.task.inspect(AbortHandle::abort);
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // Nothing behind this lock is ever left half changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Notes that a connection is used now, and whether a slow page is being made for it. One that was closed stays so.
    fn used(&mut self, id: u64, is_page_slow: bool) {
        self.events += 1;
        let now = self.events;
        let Some(entry) = self.entries.get_mut(&id) else { return };
        self.order.remove(&entry.rank);
        entry.rank = (is_page_slow, now, id);
        self.order.insert(entry.rank);
    }

    fn remove(&mut self, id: u64) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        self.order.remove(&entry.rank);
        self.unread -= entry.unread;
        Some(entry)
    }
}

impl Place {
    /// Which connection this is.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// A slow page is being made for it, which would be lost.
    pub fn waits_for_slow_page(&self) {
        self.connections.lock().used(self.id, true);
    }

    /// An answer of this length was made, and is being sent.
    pub fn is_answered(&self, length: usize) {
        let mut open = self.connections.lock();
        open.used(self.id, false);
        if let Some(entry) = open.entries.get_mut(&self.id) {
            entry.unread += length;
            open.unread += length;
        }
    }

    /// All that was answered so far is on its way.
    pub fn is_sent(&self) {
        let mut open = self.connections.lock();
        let sent = open.entries.get_mut(&self.id).map_or(0, |entry| std::mem::take(&mut entry.unread));
        open.unread -= sent;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.lock().remove(self.id);
    }
}

#[cfg(test)]
mod tests;
