//! How long to wait before the next try: longer each time, and never the same on two nodes.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use tokio::time::Instant;

/// As kube-proxy's: the first wait, the longest, and after which quiet time it begins anew.
const FIRST: Duration = Duration::from_millis(800);
const LONGEST: Duration = Duration::from_secs(30);
const FORGOTTEN_AFTER: Duration = Duration::from_mins(2);

/// The waits of one watch.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    last: Option<(Duration, Instant)>,
}

impl Backoff {
    /// The next wait: between its nominal length and twice that.
    pub(super) fn next(&mut self) -> Duration {
        let now = Instant::now();
        let nominal = match self.last {
            Some((last, at)) if now.duration_since(at) < FORGOTTEN_AFTER => (last * 2).min(LONGEST),
            _ => FIRST,
        };
        self.last = Some((nominal, now));
        jittered(nominal)
    }

    /// All is well again.
    pub(super) fn reset(&mut self) {
        self.last = None;
    }
}

/// A time of at least `duration` and less than twice that.
pub(super) fn jittered(duration: Duration) -> Duration {
    duration + random_part(duration)
}

/// A time of at least `duration` and less than a tenth more.
pub(super) fn slightly_jittered(duration: Duration) -> Duration {
    duration + random_part(duration / 10)
}

/// Less than the whole.
fn random_part(whole: Duration) -> Duration {
    // The standard library's only source of randomness is the seed of its hash maps.
    let random = RandomState::new().hash_one(0_u8);
    let share = u32::try_from(random >> 32).map_or(0.0, f64::from) / (f64::from(u32::MAX) + 1.0);
    whole.mul_f64(share)
}
