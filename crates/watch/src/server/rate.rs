//! The rate limit of requests: a token bucket.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

/// The rate at which requests may be sent to the API server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RequestRate {
    /// No limit.
    Unlimited,
    /// A token bucket.
    Limited {
        /// Tokens per second; zero or less means no limit.
        per_second: f32,
        /// Size of the bucket.
        burst: u32,
    },
}

/// The token bucket.
#[derive(Debug)]
pub(super) struct RateLimiter {
    rate: RequestRate,
    bucket: Mutex<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    as_of: Instant,
}

impl RateLimiter {
    /// The bucket is full at first.
    pub(super) fn new(rate: RequestRate) -> Self {
        let tokens = match rate {
            RequestRate::Unlimited => 0.0,
            RequestRate::Limited { burst, .. } => f64::from(burst.max(1)),
        };
        Self { rate, bucket: Mutex::new(Bucket { tokens, as_of: Instant::now() }) }
    }

    /// Takes a token, waiting for one if there is none; callers are served in order. Returns the time spent waiting, or
    /// `None` if there is no limit.
    pub(super) async fn acquire(&self) -> Option<Duration> {
        let RequestRate::Limited { per_second, burst } = self.rate else { return None };
        let per_second = f64::from(per_second);
        if per_second <= 0.0 || !per_second.is_finite() {
            return None;
        }
        let queued_at = Instant::now();
        let mut bucket = self.bucket.lock().await;
        let now = Instant::now();
        let refilled = bucket.tokens + now.duration_since(bucket.as_of).as_secs_f64() * per_second;
        let left = refilled.min(f64::from(burst.max(1))) - 1.0;
        *bucket = Bucket { tokens: left, as_of: now };
        if left < 0.0 {
            // The lock is held while waiting, so that later callers queue up behind this one.
            sleep(Duration::try_from_secs_f64(-left / per_second).unwrap_or_default()).await;
        }
        Some(queued_at.elapsed())
    }
}

#[cfg(test)]
mod tests;
