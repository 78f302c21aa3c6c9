//! Removes what modes left on the host: all of it for `--cleanup`, and at a start what the other modes left, once our own
//! rules are complete.
//!
//! ```text
//!   entry points ──► none is left: everything else
//!                ──► connections go on through some: what would be in the way of the mode that runs, and the rest after them
//! ```

use std::time::{Duration, Instant};

use ferrule_plan::ProxyMode;

use crate::counters::TableCounters;
use crate::{Backend, BackendError, InUse, Leftover, backend};

/// Rules go before what they refer to: ipvs mode's sets can be removed only when no iptables rule uses them.
const ORDER: [ProxyMode; 4] =
    [ProxyMode::Nftables, ProxyMode::Iptables, ProxyMode::Ipvs, ProxyMode::Userspace];

/// A mode that is missing above does not compile.
const _: () = assert!(ORDER.len() == ProxyMode::ALL.len(), "every mode is cleaned up");

/// How often open connections are counted.
const COUNT_INTERVAL: Duration = Duration::from_secs(10);

/// What becomes of connections that go on through what another mode left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenConnections {
    /// What they need stays until they end.
    LeftToEnd,
    /// They end.
    Cut,
}

/// What still has connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StillOpen {
    /// How many virtual servers.
    pub servers: usize,
    /// How many connections go through them.
    pub connections: usize,
}

/// What became of the ways to what a mode left.
#[derive(Debug, Default)]
pub struct EntryPoints {
    /// What was removed.
    pub removed: Vec<Leftover>,
    /// What stays for open connections.
    pub open: StillOpen,
}

/// How far the removal of leftovers has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanupProgress {
    /// Nothing is left.
    Done,
    /// Something stays until connections end.
    Draining {
        /// What.
        open: StillOpen,
        /// When to try again.
        again_in: Duration,
    },
}

impl StillOpen {
    /// Whether nothing has connections.
    pub fn is_none(&self) -> bool {
        self.servers == 0
    }

    /// Counts more.
    pub fn add(&mut self, other: Self) {
        self.servers += other.servers;
        self.connections += other.connections;
    }
}

/// What a run does not use: what other modes left, and other variants of its own.
pub struct Unused {
    in_use: InUse,
    drain_limit: Option<Duration>,
    since: Instant,
    /// Whether what would be in the way of the mode that runs is gone.
    has_no_obstacles: bool,
}

impl Unused {
    /// From now on connections are waited for.
    pub fn new(in_use: InUse, drain_limit: Option<Duration>) -> Self {
        Self { in_use, drain_limit, since: Instant::now(), has_no_obstacles: false }
    }

    /// Removes what can be removed now.
    pub fn remove(&mut self) -> (Vec<Leftover>, Result<CleanupProgress, BackendError>) {
        let mut removed = Vec::new();
        let result = self.try_remove(&mut removed);
        (removed, result)
    }

    fn try_remove(&mut self, removed: &mut Vec<Leftover>) -> Result<CleanupProgress, BackendError> {
        let left = self.drain_limit.map(|limit| limit.saturating_sub(self.since.elapsed()));
        let connections = match left {
            Some(Duration::ZERO) => OpenConnections::Cut,
            Some(_) | None => OpenConnections::LeftToEnd,
        };
        let open = remove_unless_open(removed, Some(&self.in_use), connections)?;
        if open.is_none() {
            return Ok(CleanupProgress::Done);
        }
        if !self.has_no_obstacles {
            each_mode(removed, |backend| backend.remove_obstacles(&self.in_use))?;
            self.has_no_obstacles = true;
        }
        let again_in = left.map_or(COUNT_INTERVAL, |left| left.min(COUNT_INTERVAL));
        Ok(CleanupProgress::Draining { open, again_in })
    }
}

/// Removes all that any mode left, and cuts the connections that need it.
pub fn remove_everything() -> (Vec<Leftover>, Result<(), BackendError>) {
    let mut removed = Vec::new();
    let result = remove_unless_open(&mut removed, None, OpenConnections::Cut);
    let counters = TableCounters::remove().map(|objects| {
        let what = "tables of counters";
        removed.extend((objects > 0).then_some(Leftover { mode: ProxyMode::Nftables, what, objects }));
    });
    (removed, result.map(drop).and(counters))
}

/// Removes what any mode left and is not in use, unless connections go on through some of it, which it returns. Goes on after a
/// failure, and returns the first; but where packets can still get somewhere, what may protect that stays.
fn remove_unless_open(
    removed: &mut Vec<Leftover>,
    in_use: Option<&InUse>,
    connections: OpenConnections,
) -> Result<StillOpen, BackendError> {
    let mut open = StillOpen::default();
    each_mode(removed, |backend| {
        let closed = backend.remove_entry_points(in_use, connections)?;
        open.add(closed.open);
        Ok(closed.removed)
    })?;
    if open.is_none() {
        each_mode(removed, |backend| backend.remove_leftovers(in_use))?;
    }
    Ok(open)
}

/// Tries every mode, also after a failure, and returns the first.
fn each_mode(
    removed: &mut Vec<Leftover>,
    mut remove: impl FnMut(&dyn Backend) -> Result<Vec<Leftover>, BackendError>,
) -> Result<(), BackendError> {
    let mut result = Ok(());
    for mode in ORDER {
        match remove(&*backend(mode)) {
            Ok(leftovers) => removed.extend(leftovers.into_iter().filter(|leftover| leftover.objects > 0)),
            Err(error) => result = result.and(Err(error)),
        }
    }
    result
}
