//! How many requests may be sent: a bucket of tokens that fills at a steady rate.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

/// How many requests may be sent to the API server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RequestRate {
    /// As many as come up.
    Unlimited,
    /// A token bucket.
    Limited {
        /// Tokens per second.
        per_second: f32,
        /// Size of the bucket.
        burst: u32,
    },
}

/// The bucket.
#[derive(Debug)]
pub(super) struct RateLimit {
    rate: RequestRate,
    /// What was in it when, to be filled up since.
    level: Mutex<(f64, Instant)>,
}

impl RateLimit {
    /// A full one.
    pub(super) fn new(rate: RequestRate) -> Self {
        let level = match rate {
            RequestRate::Unlimited => 0.0,
            RequestRate::Limited { burst, .. } => f64::from(burst.max(1)),
        };
        Self { rate, level: Mutex::new((level, Instant::now())) }
    }

    /// Takes a token, waiting for one if there is none. Who comes first is served first. Says how long that took, if there is
    /// a limit.
    pub(super) async fn take(&self) -> Option<Duration> {
        let RequestRate::Limited { per_second, burst } = self.rate else { return None };
        let per_second = f64::from(per_second);
        if per_second <= 0.0 || !per_second.is_finite() {
            return None;
        }
        let came = Instant::now();
        let mut level = self.level.lock().await;
        let now = Instant::now();
        let filled = level.0 + now.duration_since(level.1).as_secs_f64() * per_second;
        let left = filled.min(f64::from(burst.max(1))) - 1.0;
        *level = (left, now);
        if left < 0.0 {
            // Held while waiting, so that the next one waits behind.
            sleep(Duration::try_from_secs_f64(-left / per_second).unwrap_or_default()).await;
        }
        Some(came.elapsed())
    }
}

#[cfg(test)]
mod tests;
