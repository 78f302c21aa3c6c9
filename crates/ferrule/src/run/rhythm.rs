//! How often the iptables rules are looked at: whether they are there every `syncPeriod`, and each of them as often as is cheap.
//!
//! The loop tells what a look costs and what the period is now; the thread that looks only asks.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Of the time that passes, one part in this many may be spent looking at every rule.
const SHARE: u32 = 200;
/// Changes wait while every rule is looked at. A look that keeps them waiting for longer comes but now and then.
const DEAR: Duration = Duration::from_millis(500);
const NOW_AND_THEN: Duration = Duration::from_hours(1);

/// Shared between the loop and the thread that looks.
#[derive(Debug)]
pub struct Rhythm {
    beat: Mutex<Beat>,
    changed: Condvar,
}

#[derive(Debug)]
struct Beat {
    period: Duration,
    /// What the last look at every rule took.
    look: Duration,
}

impl Rhythm {
    /// With this period. What a look costs shows with the first one.
    pub fn new(period: Duration) -> Self {
        Self { beat: Mutex::new(Beat { period, look: Duration::ZERO }), changed: Condvar::new() }
    }

    /// The period is another one, from now on.
    pub fn set_period(&self, period: Duration) {
        self.beat().period = period;
        self.changed.notify_all();
    }

    /// A look at every rule took so long.
    pub fn looked(&self, took: Duration) {
        self.beat().look = took;
    }

    /// Waits for a period, as long as it is when it ends.
    pub(super) fn rest(&self) {
        let began = Instant::now();
        let mut beat = self.beat();
        loop {
            let left = beat.period.saturating_sub(began.elapsed());
            if left.is_zero() {
                return;
            }
            beat = self.changed.wait_timeout(beat, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// How long after a look at every rule there is another.
    pub(super) fn between_looks(&self) -> Duration {
        let Beat { period, look } = *self.beat();
        if look > DEAR { NOW_AND_THEN } else { (look * SHARE).max(period).min(NOW_AND_THEN) }
    }

    fn beat(&self) -> MutexGuard<'_, Beat> {
        // Two numbers are never left half changed.
        self.beat.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_cheap_look_comes_with_every_period_and_a_dear_one_now_and_then() {
        let rhythm = Rhythm::new(Duration::from_secs(30));
        for (took, expected) in [(0, 30), (20, 30), (300, 60), (500, 100), (501, 3600), (60_000, 3600)] {
            rhythm.looked(Duration::from_millis(took));
            assert_eq!(rhythm.between_looks(), Duration::from_secs(expected), "{took} ms");
        }
    }

    #[test]
    fn another_period_counts_at_once() {
        let rhythm = Arc::new(Rhythm::new(Duration::from_hours(1)));
        let resting = Arc::clone(&rhythm);
        let thread = std::thread::spawn(move || resting.rest());
        rhythm.set_period(Duration::from_millis(1));
        thread.join().expect("it wakes up");
    }
}
