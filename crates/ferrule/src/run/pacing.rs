//! When the next sync may begin, and when it must.
//!
//! Its inputs are what is wanted, and what became of it; it reads no clock. A resync is due periodically, a failed sync is tried
//! again, and between two syncs there is a pause: a fixed one if the user set it, otherwise one that limits the share of time
//! spent syncing.

use std::time::{Duration, Instant};

use ferrule_model::Backoff;

/// Of the time that passes, one part in this many may be spent syncing.
const SYNC_DUTY_CYCLE: u32 = 10;
/// Syncs that cost no more than this together follow each other at once.
const COST_ALLOWANCE: Duration = Duration::from_millis(50);
/// A repair does not wait for a longer pause than this.
const MAX_REPAIR_DELAY: Duration = Duration::from_secs(1);

/// This many repairs in a row are made at once, further ones with a pause.
const MAX_REPAIR_BURST: u32 = 3;
const REPAIR_PAUSE: Duration = Duration::from_millis(500);

/// The pause between two syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Always this long, counted from the end of a sync.
    Fixed(Duration),
    /// As long as syncing takes more than its share of the time, but at most this long.
    ByCost {
        /// The longest pause.
        at_most: Duration,
    },
}

/// When a failed sync is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// After the first failure.
    pub first: Duration,
    /// Twice as long after each further one, up to this.
    pub longest: Duration,
}

/// What the pace is set by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The pause between two syncs.
    pub pause: Pause,
    /// When a failed sync is tried again.
    pub retry: Retry,
    /// How long after a sync there is another one, asked for or not.
    pub at_least_every: Duration,
}

impl Pace {
    fn backoff(&self) -> Backoff {
        Backoff::new(self.retry.first, self.retry.longest.min(self.at_least_every))
    }
}

/// The state of the pace.
#[derive(Clone, Debug)]
pub struct Pacing {
    pace: Pace,
    wanted: bool,
    urgent: bool,
    /// Before this no sync begins.
    not_before: Instant,
    /// The same for a repair.
    not_before_for_repair: Instant,
    /// When the next resync or retry is due.
    next_unasked: Instant,
    backoff: Backoff,
    /// How many syncs in a row were repairs.
    repairs: u32,
    /// Time spent syncing beyond its share, at the end of the last sync.
    debt: Duration,
    last_end: Instant,
}

impl Pacing {
    /// Nothing was done yet, so the first sync may begin at once.
    pub fn new(pace: Pace, now: Instant) -> Self {
        Self {
            pace,
            wanted: false,
            urgent: false,
            not_before: now,
            not_before_for_repair: now,
            next_unasked: now + pace.at_least_every,
            backoff: pace.backoff(),
            repairs: 0,
            debt: Duration::ZERO,
            last_end: now,
        }
    }

    /// Takes over another pace for the syncs to come.
    pub fn set(&mut self, pace: Pace) {
        if self.pace != pace {
            self.backoff = pace.backoff();
        }
        self.pace = pace;
    }

    /// Something is to be synced.
    pub fn want(&mut self) {
        self.wanted = true;
    }

    /// Something is to be repaired.
    pub fn want_repair(&mut self) {
        self.wanted = true;
        self.urgent = true;
    }

    /// When the next sync is due.
    pub fn due_at(&self) -> Instant {
        match (self.wanted, self.urgent) {
            (true, true) => self.not_before.min(self.not_before_for_repair),
            (true, false) => self.not_before,
            (false, _) => self.next_unasked.max(self.not_before),
        }
    }

    /// A sync begins; what is wanted from now on is for the next one. Returns whether this one was asked for.
    pub fn begin(&mut self) -> bool {
        self.repairs = if self.urgent { self.repairs.saturating_add(1) } else { 0 };
        self.urgent = false;
        std::mem::take(&mut self.wanted)
    }

    /// A sync that cost this much has ended now.
    pub fn end(&mut self, cost: Duration, now: Instant, succeeded: bool) {
        let earned = now.saturating_duration_since(self.last_end) / SYNC_DUTY_CYCLE;
        self.debt = (self.debt + cost).saturating_sub(earned);
        self.last_end = now;
        let pause = match self.pace.pause {
            Pause::Fixed(pause) => pause,
            Pause::ByCost { at_most } => {
                (self.debt.saturating_sub(COST_ALLOWANCE) * SYNC_DUTY_CYCLE).min(at_most)
            }
        };
        self.not_before = now + pause;
        // A program that goes on breaking things must not keep us busy.
        let between_repairs = if self.repairs > MAX_REPAIR_BURST { REPAIR_PAUSE } else { Duration::ZERO };
        self.not_before_for_repair = now + pause.min(MAX_REPAIR_DELAY).max(between_repairs);
        if self.repairs > MAX_REPAIR_BURST {
            self.not_before = self.not_before.max(self.not_before_for_repair);
        }
        self.next_unasked = now
            + if succeeded {
                self.backoff.reset();
                self.pace.at_least_every
            } else {
                self.backoff.next_delay()
            };
    }

    /// There is another sync by then, asked for or not.
    pub fn retry_by(&mut self, at: Instant) {
        self.next_unasked = self.next_unasked.min(at);
    }
}

#[cfg(test)]
mod tests;
