//! Passive health: endpoints that fail several times in a row are set aside for a while.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// So many failures in a row set an endpoint aside.
const FAILURES_TO_SET_ASIDE: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// After its pause an endpoint is tried with one client; others wait this long for the outcome.
const TRIAL: Duration = Duration::from_secs(1);

/// Endpoints that failed since their last success.
#[derive(Debug, Default)]
pub(super) struct Health {
    failing: HashMap<SocketAddr, Failing>,
}

#[derive(Debug)]
struct Failing {
    in_a_row: u32,
    pause: Duration,
    aside_until: Option<Instant>,
}

impl Health {
    /// Whether it is set aside by this failure.
    pub(super) fn failed(&mut self, endpoint: SocketAddr, now: Instant) -> bool {
        let failing = self.failing.entry(endpoint).or_insert(Failing {
            in_a_row: 0,
            pause: FIRST_PAUSE,
            aside_until: None,
        });
        failing.in_a_row = failing.in_a_row.saturating_add(1);
        // Failures of dials that were under way when it was set aside do not count again.
        let is_trial = failing.in_a_row > FAILURES_TO_SET_ASIDE;
        let is_set_aside = failing.in_a_row == FAILURES_TO_SET_ASIDE;
        let failed_trial = is_trial && failing.aside_until.is_none_or(|until| until <= now + TRIAL);
        if failed_trial {
            failing.pause = (failing.pause * 2).min(LONGEST_PAUSE);
        }
        if is_set_aside || failed_trial {
            failing.aside_until = Some(now + failing.pause);
        }
        is_set_aside
    }

    pub(super) fn succeeded(&mut self, endpoint: SocketAddr) {
        self.failing.remove(&endpoint);
    }

    /// Must be called when an endpoint is chosen: one whose pause is over is on trial, and set aside for others meanwhile.
    pub(super) fn picked(&mut self, endpoint: SocketAddr, now: Instant) {
        if let Some(failing) = self.failing.get_mut(&endpoint)
            && failing.aside_until.is_some_and(|until| until <= now)
        {
            failing.aside_until = Some(now + TRIAL);
        }
    }

    pub(super) fn is_set_aside(&self, endpoint: SocketAddr, now: Instant) -> bool {
        let failing = if self.failing.is_empty() { None } else { self.failing.get(&endpoint) };
        failing.is_some_and(|failing| failing.aside_until.is_some_and(|until| until > now))
    }

    pub(super) fn forget(&mut self, vanished: &[SocketAddr]) {
        for endpoint in vanished {
            self.failing.remove(endpoint);
        }
    }

    pub(super) fn set_aside(&self, now: Instant) -> usize {
        self.failing.keys().filter(|endpoint| self.is_set_aside(**endpoint, now)).count()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.failing.is_empty()
    }
}
