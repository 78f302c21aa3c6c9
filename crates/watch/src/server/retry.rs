//! When a failed watch is retried, and randomness for other delays towards the API server.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use ferrule_model::{Backoff, Jitter};
use tokio::time::Instant;

/// Kube-proxy's values: first and longest delay, and the quiet period after which they start over.
const FIRST_DELAY: Duration = Duration::from_millis(800);
const LONGEST_DELAY: Duration = Duration::from_secs(30);
const RESET_AFTER: Duration = Duration::from_mins(2);

/// The backoff of one watch.
#[derive(Debug)]
pub(super) struct WatchBackoff {
    backoff: Backoff,
    last_failure: Option<Instant>,
}

impl WatchBackoff {
    pub(super) fn new() -> Self {
        let backoff = Backoff::new(FIRST_DELAY, LONGEST_DELAY).with_jitter(Jitter::new(1.0, random_seed()));
        Self { backoff, last_failure: None }
    }

    /// Counts a failure; returns the delay before the retry.
    pub(super) fn next_delay(&mut self) -> Duration {
        let now = Instant::now();
        let last = self.last_failure.replace(now);
        if last.is_some_and(|last| now.duration_since(last) >= RESET_AFTER) {
            self.backoff.reset();
        }
        self.backoff.next_delay()
    }

    pub(super) fn reset(&mut self) {
        self.last_failure = None;
        self.backoff.reset();
    }
}

/// Extends a delay at random, by up to `share` of itself.
pub(super) fn jittered(delay: Duration, share: f64) -> Duration {
    Jitter::new(share, random_seed()).extend(delay)
}

/// The seed of a hash map is the standard library's only source of randomness.
fn random_seed() -> u64 {
    RandomState::new().hash_one(0_u8)
}
