//! Deadlines of one worker. A timer is not cancelled: what it is about checks, when it fires, whether it still matters.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

/// What a timer is about. The serial number tells a connection from an earlier one with the same index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Alarm {
    /// The dial under way has taken too long.
    Dial { connection: usize, serial: u64 },
    /// Time to ask for a descriptor again.
    Descriptor { connection: usize, serial: u64 },
    /// Connections with one half ended may have been idle for too long. One for all of them: one for each would outlive it, and
    /// most connections end this way.
    HalfOpen,
    /// Time to accept again.
    Accept { listener: usize, serial: u64 },
    /// The oldest association of a UDP socket may have expired.
    Expiry { portal: usize, serial: u64 },
}

#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, Alarm)>>,
}

impl Timers {
    pub(crate) fn set(&mut self, at: Instant, alarm: Alarm) {
        self.heap.push(Reverse((at, alarm)));
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// The next timer that has expired.
    pub(crate) fn pop_expired(&mut self, now: Instant) -> Option<Alarm> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, alarm))| alarm)
    }
}
