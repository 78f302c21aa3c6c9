//! Lines on their way out: a bounded queue between those who log, who never wait, and the thread that writes.
//!
//! A pipe that nobody reads, a full disk or a frozen terminal must not stop the proxy. What does not fit is dropped and
//! counted, and the count stands in the log where the lines are missing. Writing is [`super::writer`]'s work.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Bytes that may wait: some thousand lines, the log of minutes of trouble.
const MAX_QUEUED: usize = 1 << 20;
/// Room that only errors may use, so that they are not lost behind a flood of other lines.
const KEPT_FOR_ERRORS: usize = 64 << 10;
/// After lines were dropped, new ones are taken again once this little is left, so that few lines tell of gaps.
const RESUME_BELOW: usize = MAX_QUEUED / 2;
/// How often a lock is tried that somebody holds.
const LOCK_RETRY: Duration = Duration::from_millis(1);

/// Whether a line is an error; errors are never held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Importance {
    /// Informational lines and warnings.
    Info,
    /// Errors.
    Error,
}

/// What the writer is to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Entry {
    /// Write a line.
    Line(Importance, String),
    /// Say that so many lines are missing here.
    Dropped(u64),
    /// Write informational lines to a stream of their own from now on, with a buffer of this size, or no longer.
    InfoStream(Option<usize>),
    /// Write out what is buffered.
    Flush,
}

/// Entries that were taken out together, oldest first.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The entries.
    pub entries: Vec<Entry>,
    bytes: usize,
}

/// The queue.
#[derive(Debug, Default)]
pub struct LineQueue {
    state: Mutex<State>,
    /// Something was put in, or the queue was closed.
    filled: Condvar,
    /// Something was dealt with.
    drained: Condvar,
    dropped_ever: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    entries: VecDeque<Entry>,
    /// Bytes of lines that wait or are being written.
    bytes: usize,
    /// Lines dropped and not told of.
    dropped: u64,
    is_overflowing: bool,
    /// How many entries were ever put in, and how many of them were dealt with.
    pushed: u64,
    done: u64,
    is_closed: bool,
}

impl LineQueue {
    /// Puts a line in, or drops it if there is no room. Never waits.
    pub fn push_line(&self, importance: Importance, line: String) {
        let mut state = self.lock();
        if !state.has_room(importance, line.len()) {
            state.dropped += 1;
            self.dropped_ever.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if state.dropped > 0 {
            let dropped = std::mem::take(&mut state.dropped);
            state.push(Entry::Dropped(dropped));
        }
        state.bytes += line.len();
        state.push(Entry::Line(importance, line));
        self.filled.notify_one();
    }

    /// Puts in something that is not a line; it is never dropped.
    pub fn push_order(&self, order: Entry) {
        self.lock().push(order);
        self.filled.notify_one();
    }

    /// What there is to do, once there is something; `Flush` after `idle` without anything; `None` once the queue is
    /// closed and empty. While writing fails there is no use in saying what was dropped.
    pub fn next(&self, idle: Option<Duration>, is_writing_well: bool) -> Option<Batch> {
        let mut state = self.lock();
        while state.entries.is_empty() {
            if state.dropped > 0 && is_writing_well {
                let dropped = std::mem::take(&mut state.dropped);
                state.push(Entry::Dropped(dropped));
                break;
            }
            if state.is_closed {
                return None;
            }
            let Some(idle) = idle else {
                state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let waited = self.filled.wait_timeout(state, idle).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            if waited.1.timed_out() && state.entries.is_empty() {
                state.push(Entry::Flush);
            }
        }
        let entries: Vec<Entry> = std::mem::take(&mut state.entries).into();
        let bytes = entries.iter().map(Entry::bytes).sum();
        Some(Batch { entries, bytes })
    }

    /// A batch was dealt with; so many of its lines could not be written.
    pub fn finish(&self, batch: &Batch, lost: u64) {
        let mut state = self.lock();
        state.bytes = state.bytes.saturating_sub(batch.bytes);
        state.is_overflowing &= state.bytes > RESUME_BELOW;
        state.done += batch.entries.len() as u64;
        state.dropped += lost;
        self.drained.notify_all();
    }

    /// Notes lines that could not be written, beside those of former reports that could not.
    pub fn count_lost(&self, lines: u64) {
        self.dropped_ever.fetch_add(lines, Ordering::Relaxed);
    }

    /// Lines dropped since the start.
    pub fn dropped_ever(&self) -> u64 {
        self.dropped_ever.load(Ordering::Relaxed)
    }

    /// Waits until everything put in so far is written out, at most this long; says whether it is.
    pub fn flush(&self, limit: Duration) -> bool {
        self.flush_from(self.lock(), Instant::now() + limit)
    }

    /// The same where the caller may itself hold the lock, having panicked under it.
    pub fn flush_if_unlocked(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            match self.state.try_lock() {
                Ok(state) => return self.flush_from(state, deadline),
                Err(TryLockError::Poisoned(state)) => return self.flush_from(state.into_inner(), deadline),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::park_timeout(LOCK_RETRY);
                }
                Err(TryLockError::WouldBlock) => return false,
            }
        }
    }

    /// Nothing more comes; the writer ends once it has written what there is.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_one();
    }

    fn flush_from<'a>(&'a self, mut state: MutexGuard<'a, State>, deadline: Instant) -> bool {
        state.push(Entry::Flush);
        self.filled.notify_one();
        let target = state.pushed;
        while state.done < target {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.drained.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing behind this lock is ever left half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_room(&mut self, importance: Importance, length: usize) -> bool {
        self.is_overflowing |= self.bytes + length > MAX_QUEUED;
        match importance {
            Importance::Info => !self.is_overflowing,
            Importance::Error => self.bytes + length <= MAX_QUEUED + KEPT_FOR_ERRORS,
        }
    }

    fn push(&mut self, entry: Entry) {
        self.entries.push_back(entry);
        self.pushed += 1;
    }
}

impl Entry {
    fn bytes(&self) -> usize {
        match self {
            Self::Line(_, line) => line.len(),
            Self::Dropped(_) | Self::InfoStream(_) | Self::Flush => 0,
        }
    }
}

#[cfg(test)]
mod tests;
