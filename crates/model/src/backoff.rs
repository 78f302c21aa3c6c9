//! Delays between retries: exponential backoff, and jitter that keeps nodes from retrying in step.
//!
//! Lives here because every crate that retries depends on this one, and because it reads no clock: the caller waits, and
//! decides when a success or a quiet period resets the delay.

use std::time::Duration;

/// Delays that double from `first` up to `longest`.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
    jitter: Option<Jitter>,
}

impl Backoff {
    /// Without jitter. If `longest` is the smaller of the two, every delay is `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first, jitter: None }
    }

    /// Extends every delay, also the longest, by this jitter.
    #[must_use]
    pub const fn with_jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = Some(jitter);
        self
    }

    /// The delay before the next retry.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.next.min(self.longest);
        self.next = delay.saturating_mul(2);
        self.jitter.as_mut().map_or(delay, |jitter| jitter.extend(delay))
    }

    /// The next delay is the first one again.
    pub const fn reset(&mut self) {
        self.next = self.first;
    }
}

/// Random extensions of a delay, drawn from a seed so that tests can repeat them.
#[derive(Clone, Debug)]
pub struct Jitter {
    share: f64,
    state: u64,
}

impl Jitter {
    /// A delay grows by up to `share` of itself: with 0.25, ten seconds become 10 to 12.5. The seed must differ between
    /// nodes, or they extend their delays alike.
    pub const fn new(share: f64, seed: u64) -> Self {
        Self { share, state: seed }
    }

    /// The delay, extended by the next random share of it. Never shorter than `delay`.
    pub fn extend(&mut self, delay: Duration) -> Duration {
        let random = f64::from((self.next_random() >> 32) as u32) / (f64::from(u32::MAX) + 1.0);
        delay.saturating_add(
            Duration::try_from_secs_f64(delay.as_secs_f64() * self.share * random).unwrap_or_default(),
        )
    }

    /// One step of SplitMix64.
    fn next_random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_millis(800);
    const LONGEST: Duration = Duration::from_secs(30);

    #[test]
    fn delays_double_up_to_the_longest_and_start_over_after_a_reset() {
        let mut backoff = Backoff::new(FIRST, LONGEST);
        let delays: Vec<u128> = (0..8).map(|_| backoff.next_delay().as_millis()).collect();
        assert_eq!(delays, [800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]);
        backoff.reset();
        assert_eq!(backoff.next_delay(), FIRST);
    }

    #[test]
    fn no_number_of_failures_overflows() {
        let mut backoff = Backoff::new(FIRST, Duration::MAX);
        for _ in 0..200 {
            backoff.next_delay();
        }
        assert_eq!(backoff.next_delay(), Duration::MAX);
        assert_eq!(Jitter::new(1.0, 7).extend(Duration::MAX), Duration::MAX);
    }

    #[test]
    fn a_first_delay_above_the_longest_is_cut() {
        assert_eq!(Backoff::new(LONGEST, FIRST).next_delay(), FIRST);
    }

    #[test]
    fn jitter_extends_by_at_most_its_share_and_not_always_alike() {
        let mut jitter = Jitter::new(0.25, 1);
        let extended: Vec<Duration> = (0..1_000).map(|_| jitter.extend(LONGEST)).collect();
        assert!(extended.iter().all(|delay| (LONGEST..LONGEST.mul_f64(1.25)).contains(delay)));
        let (low, high) = (LONGEST.mul_f64(1.02), LONGEST.mul_f64(1.23));
        assert!(extended.iter().any(|delay| *delay < low) && extended.iter().any(|delay| *delay > high));
        let mut backoff = Backoff::new(FIRST, LONGEST).with_jitter(Jitter::new(1.0, 2));
        assert!((FIRST..FIRST * 2).contains(&backoff.next_delay()));
        assert!((FIRST * 2..FIRST * 4).contains(&backoff.next_delay()));
    }
}
