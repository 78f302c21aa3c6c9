//! What other modes and the other variant of iptables left goes once our own rules are complete, however often it takes.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ferrule_kernel::iptables::Programs;
use ferrule_model::PerFamily;
use tracing::{info, warn};

use crate::causes::with_causes;
use crate::cleanup::{self, CleanupError};
use crate::settings::ProxyMode;
use crate::status::Status;
use crate::threads;

/// Tries grow this far apart: what does not go may stay for good, if another program owns it.
const LONGEST: Duration = Duration::from_hours(1);

/// Removes it on a thread of its own: programs that wait for a lock must not keep the loop waiting. Tries again after each
/// failure, a period later at first.
pub fn remove(mode: ProxyMode, used: PerFamily<Programs>, (period, status): (Duration, Arc<Status>)) {
    let attempt = move || {
        let modes = cleanup::other_modes(mode);
        let variants = cleanup::other_variants(used);
        modes.and(variants)
    };
    let work = move || until_gone(period, attempt, |error| tell(&status, error));
    if let Err(error) = threads::spawn("cleanup", work) {
        warn!(err = with_causes(&error), "Rules of another mode are not looked for");
    }
}

fn tell(status: &Status, error: &CleanupError) {
    warn!(err = with_causes(error), "Rules of another mode stay in effect, their removal is tried again");
    if let Some(family) = error.family() {
        status.metrics.leftovers_stay(family, matches!(error, CleanupError::Iptables(_)));
    }
}

fn until_gone<E>(period: Duration, mut attempt: impl FnMut() -> Result<(), E>, tell: impl Fn(&E)) {
    let mut pause = period.max(Duration::from_millis(1));
    let mut failures = 0_u32;
    while let Err(error) = attempt() {
        failures += 1;
        tell(&error);
        pass(pause);
        pause = (pause * 2).min(LONGEST.max(period));
    }
    if failures > 0 {
        info!(failures, "Nothing is left of other modes");
    }
}

/// Lets a time pass. Threads that wait for a program's output leave a wake-up behind, so one wait may end at once.
fn pass(time: Duration) {
    let since = Instant::now();
    while let Some(left) = time.checked_sub(since.elapsed()).filter(|left| !left.is_zero()) {
        thread::park_timeout(left);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_does_not_go_at_once_is_tried_again_until_it_goes() {
        let (tries, told) = (Cell::new(0), Cell::new(0));
        let attempt = || {
            tries.set(tries.get() + 1);
            if tries.get() < 4 { Err("the lock is held") } else { Ok(()) }
        };
        until_gone(Duration::from_millis(1), attempt, |_| told.set(told.get() + 1));
        assert_eq!((tries.get(), told.get()), (4, 3));
    }

    #[test]
    fn a_wake_up_that_was_left_behind_does_not_shorten_a_pause() {
        let (began, pause) = (Instant::now(), Duration::from_millis(30));
        thread::current().unpark();
        pass(pause);
        assert!(began.elapsed() >= pause);
    }
}
