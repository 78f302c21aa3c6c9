//! When the rules of iptables mode are checked: their canaries every `syncPeriod`, each rule as often as is cheap.
//!
//! Checks run on threads of their own and delay nothing; they cost processor time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Of the time that passes, one part in this many may be spent verifying every rule.
const CHECK_DUTY_CYCLE: u32 = 200;
/// The same where something is known to differ, and could not be corrected.
const RECHECK_DUTY_CYCLE: u32 = 5;
/// However much it costs, damage must not last.
const MAX_CHECK_INTERVAL: Duration = Duration::from_hours(1);

/// Shared between the backend, which knows the period, and the threads that check.
#[derive(Debug)]
pub struct CheckSchedule {
    period: Mutex<Duration>,
    changed: Condvar,
}

impl CheckSchedule {
    /// Checks canaries with this period.
    pub fn new(period: Duration) -> Self {
        Self { period: Mutex::new(period), changed: Condvar::new() }
    }

    /// Changes the period, also for a wait in progress.
    pub fn set_period(&self, period: Duration) {
        *self.period() = period;
        self.changed.notify_all();
    }

    /// Waits for a period, as long as it is when it ends.
    pub(super) fn wait(&self) {
        let began = Instant::now();
        let mut period = self.period();
        loop {
            let left = period.saturating_sub(began.elapsed());
            if left.is_zero() {
                return;
            }
            period = self.changed.wait_timeout(period, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// How long after all rules were verified they are verified again, if that costs so much.
    pub(super) fn interval(&self, cost: Duration) -> Duration {
        cost.saturating_mul(CHECK_DUTY_CYCLE).max(*self.period()).min(MAX_CHECK_INTERVAL)
    }

    /// The same for rules of which something is known to differ.
    pub(super) fn recheck_interval(&self, cost: Duration) -> Duration {
        cost.saturating_mul(RECHECK_DUTY_CYCLE).max(*self.period()).min(MAX_CHECK_INTERVAL)
    }

    fn period(&self) -> MutexGuard<'_, Duration> {
        // A number is never left half changed.
        self.period.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_cheap_check_comes_with_every_period_and_one_of_a_minute_with_every_hour() {
        let schedule = CheckSchedule::new(Duration::from_secs(30));
        for (cost, expected) in [(0, 30), (20, 30), (300, 60), (5000, 1000), (18_000, 3600), (60_000, 3600)] {
            assert_eq!(
                schedule.interval(Duration::from_millis(cost)),
                Duration::from_secs(expected),
                "{cost} ms"
            );
        }
        let again = |seconds| schedule.recheck_interval(Duration::from_secs(seconds));
        assert_eq!((again(1), again(60)), (Duration::from_secs(30), Duration::from_mins(5)));
    }

    #[test]
    fn another_period_counts_at_once() {
        let schedule = Arc::new(CheckSchedule::new(Duration::from_hours(1)));
        let waiting = Arc::clone(&schedule);
        let thread = std::thread::spawn(move || waiting.wait());
        schedule.set_period(Duration::from_millis(1));
        thread.join().expect("it wakes up");
    }
}
