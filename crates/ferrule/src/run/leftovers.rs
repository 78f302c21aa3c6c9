//! Removes what other modes left, once our own rules are complete, on a thread of its own and until it succeeds.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ferrule_backends::{BackendError, Cleanup, CleanupProgress, Leftover, StillOpen};
use ferrule_kernel::sys::release_code;
use ferrule_kernel::threads;
use tracing::{info, warn};

use crate::status::Status;
use ferrule_model::{Backoff, with_causes};

/// Tries grow this far apart: what does not go may stay for good, if another program owns it.
const MAX_RETRY_INTERVAL: Duration = Duration::from_hours(1);

/// Removes what is not in use. Programs that wait for a lock must not keep the loop waiting, hence the thread; after
/// a failure it tries again, a period later at first. What open connections need is removed after them.
pub(super) fn remove(mut cleanup: Cleanup, period: Duration, status: Arc<Status>) {
    let attempt = move || {
        let (removed, result) = cleanup();
        log_removed(&removed);
        result
    };
    let work = move || {
        until_gone(period, attempt, |error| report(&status, error));
        // The start is over. Where pages cannot be given back, more memory is resident, and nothing else is wrong.
        let _ = release_code();
    };
    if let Err(error) = threads::spawn("cleanup", work) {
        warn!(err = with_causes(&error), "Leftovers of other proxy modes are not removed");
    }
}

/// One line for each kind of thing that was removed.
pub fn log_removed(removed: &[Leftover]) {
    for Leftover { mode, what, objects } in removed {
        info!(mode = mode.name(), what, objects, "Removed leftovers");
    }
}

fn report(status: &Status, error: &BackendError) {
    warn!(err = with_causes(error), "Leftovers of another proxy mode stay in effect, trying again later");
    if let Some(family) = error.family() {
        status.metrics.leftovers_stay(family);
    }
    error.findings.samples.iter().for_each(|sample| status.metrics.record(sample));
}

fn until_gone<E>(
    period: Duration,
    mut attempt: impl FnMut() -> Result<CleanupProgress, E>,
    report: impl Fn(&E),
) {
    let first = period.max(Duration::from_millis(1));
    let mut backoff = Backoff::new(first, MAX_RETRY_INTERVAL.max(first));
    let (mut failures, mut has_drained) = (0_u32, false);
    loop {
        match attempt() {
            Ok(CleanupProgress::Done) => break,
            Ok(CleanupProgress::Draining { open, again_in }) => {
                if !has_drained {
                    let StillOpen { servers, connections } = open;
                    info!(
                        servers,
                        connections, "Virtual servers of ipvs mode stay until their connections end"
                    );
                }
                has_drained = true;
                wait(again_in);
            }
            Err(error) => {
                failures += 1;
                report(&error);
                wait(backoff.next_delay());
            }
        }
    }
    if failures > 0 || has_drained {
        info!(failures, "Nothing is left of other modes");
    }
}

/// Waits. Threads that wait for a program's output leave a wake-up behind, so one `park` may end at once.
fn wait(time: Duration) {
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
        let (tries, reports) = (Cell::new(0), Cell::new(0));
        let attempt = || {
            tries.set(tries.get() + 1);
            if tries.get() < 4 { Err("the lock is held") } else { Ok(CleanupProgress::Done) }
        };
        until_gone(Duration::from_millis(1), attempt, |_| reports.set(reports.get() + 1));
        assert_eq!((tries.get(), reports.get()), (4, 3));
    }

    #[test]
    fn what_has_connections_is_tried_again_until_they_have_ended() {
        let (tries, reports) = (Cell::new(0), Cell::new(0));
        let open = StillOpen { servers: 1, connections: 2 };
        let attempt = || {
            tries.set(tries.get() + 1);
            match tries.get() {
                1 | 3 => Ok(CleanupProgress::Draining { open, again_in: Duration::from_millis(1) }),
                2 => Err("the lock is held"),
                _ => Ok(CleanupProgress::Done),
            }
        };
        until_gone(Duration::from_millis(1), attempt, |_| reports.set(reports.get() + 1));
        assert_eq!((tries.get(), reports.get()), (4, 1));
    }

    #[test]
    fn a_wake_up_that_was_left_behind_does_not_shorten_a_pause() {
        let (began, pause) = (Instant::now(), Duration::from_millis(30));
        thread::current().unpark();
        wait(pause);
        assert!(began.elapsed() >= pause);
    }
}
