//! A bounded queue between the threads that log, which never block, and the thread that writes.
//!
//! A pipe without a reader, a full disk or a frozen terminal must not stop the proxy. Lines that do not fit are dropped and
//! counted, and a line in their place says how many are missing. Writing is in [`super::writer`].

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// The capacity in bytes: some thousand lines, minutes of a troubled log.
const MAX_QUEUED_BYTES: usize = 1 << 20;
/// Capacity that only errors may use, so that a flood of other lines does not drop them.
const RESERVED_FOR_ERRORS: usize = 64 << 10;
/// After a drop, lines are accepted again once the queue is this short, so that there are few gaps.
const RESUME_BELOW: usize = MAX_QUEUED_BYTES / 2;
/// How often a held lock is retried.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// Whether a line is an error; errors are flushed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Importance {
    /// Informational lines and warnings.
    Info,
    /// Errors.
    Error,
}

/// An instruction for the writer.
#[derive(Debug, PartialEq, Eq)]
pub enum Entry {
    /// Write a line.
    Line(Importance, String),
    /// Write that this many lines are missing here.
    Dropped(u64),
    /// From now on, write informational lines to a separate stream with a buffer of this size; `None` ends that.
    InfoStream(Option<usize>),
    /// Flush the buffers.
    Flush,
}

/// Entries taken from the queue together, oldest first.
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
    /// Notified when an entry was added or the queue closed.
    filled: Condvar,
    /// Notified when entries were processed.
    drained: Condvar,
    dropped_ever: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    entries: VecDeque<Entry>,
    /// Bytes of lines that are queued or being written.
    bytes: usize,
    /// Dropped lines that were not reported yet.
    dropped: u64,
    is_overflowing: bool,
    /// Entries ever added, and how many of them were processed.
    pushed: u64,
    done: u64,
    is_closed: bool,
}

impl LineQueue {
    /// Adds a line, or drops it if there is no room. Never blocks.
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

    /// Adds an entry that is not a line and never dropped.
    pub fn push_control(&self, entry: Entry) {
        self.lock().push(entry);
        self.filled.notify_one();
    }

    /// Waits for entries; `Flush` after `idle` without any; `None` once the queue is closed and empty. Reports of dropped lines
    /// are held back while writing fails.
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

    /// A batch was processed; `lost` of its lines could not be written.
    pub fn finish(&self, batch: &Batch, lost: u64) {
        let mut state = self.lock();
        state.bytes = state.bytes.saturating_sub(batch.bytes);
        state.is_overflowing &= state.bytes > RESUME_BELOW;
        state.done += batch.entries.len() as u64;
        state.dropped += lost;
        self.drained.notify_all();
    }

    /// Counts lines that could not be written.
    pub fn count_lost(&self, lines: u64) {
        self.dropped_ever.fetch_add(lines, Ordering::Relaxed);
    }

    /// Lines dropped since the start.
    pub fn dropped_ever(&self) -> u64 {
        self.dropped_ever.load(Ordering::Relaxed)
    }

    /// Waits until everything added so far is written, at most this long. Returns whether it is.
    pub fn flush(&self, limit: Duration) -> bool {
        self.flush_from(self.lock(), Instant::now() + limit)
    }

    /// Like [`Self::flush`], for a caller that may hold the lock itself, having panicked under it.
    pub fn flush_if_unlocked(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            match self.state.try_lock() {
                Ok(state) => return self.flush_from(state, deadline),
                Err(TryLockError::Poisoned(state)) => return self.flush_from(state.into_inner(), deadline),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::park_timeout(LOCK_RETRY_INTERVAL);
                }
                Err(TryLockError::WouldBlock) => return false,
            }
        }
    }

    /// Ends the writer once it has written everything.
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
        // No panic can happen in the middle of a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_room(&mut self, importance: Importance, length: usize) -> bool {
        self.is_overflowing |= self.bytes + length > MAX_QUEUED_BYTES;
        match importance {
            Importance::Info => !self.is_overflowing,
            Importance::Error => self.bytes + length <= MAX_QUEUED_BYTES + RESERVED_FOR_ERRORS,
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
