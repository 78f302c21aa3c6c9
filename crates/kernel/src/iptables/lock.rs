//! The lock that all users of the `legacy` variant share, and how long others make us wait for it.
//!
//! The programs take it themselves and do not tell how long they waited. So it is waited for here, before one is started, and
//! let go at once: what is measured is others' hold on it, and the program then finds it free, or waits for the rest of the time.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::subprocess;

/// Where the programs have it, unless their environment says otherwise.
const PLACE: &str = "/run/xtables.lock";
const ENVIRONMENT: &str = "XTABLES_LOCKFILE";
const STEP: Duration = Duration::from_millis(5);

/// Waits until nobody holds the lock, or so long; how long that was.
pub(super) fn wait(patience: Duration) -> Duration {
    // As the programs are told: see [`crate::subprocess`].
    let place = subprocess::absolute(ENVIRONMENT).unwrap_or_else(|| OsString::from(PLACE));
    wait_at(Path::new(&place), patience)
}

fn wait_at(place: &Path, patience: Duration) -> Duration {
    let began = Instant::now();
    // Nobody has ever locked what is not there; who may not look finds out from the program.
    let Ok(file) = File::open(place) else { return Duration::ZERO };
    // A shared hold is enough to see that there is no other, and it ends with the file.
    while matches!(file.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock)) {
        if began.elapsed() >= patience {
            break;
        }
        std::thread::park_timeout(STEP);
    }
    began.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn a_free_lock_is_not_waited_for() {
        assert_eq!(wait_at(Path::new("/nonexistent/xtables.lock"), LONG), Duration::ZERO);
        let file = tempfile::NamedTempFile::new().expect("a file");
        assert!(wait_at(file.path(), LONG) < Duration::from_secs(1));
    }

    #[test]
    fn a_held_lock_is_waited_for_until_it_is_free_and_no_longer_than_patience_lasts() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().lock().expect("the lock");
        let brief = Duration::from_millis(50);
        assert!(wait_at(file.path(), brief) >= brief);
        let place = file.path().to_owned();
        let waiting = std::thread::spawn(move || wait_at(&place, LONG));
        std::thread::park_timeout(brief);
        file.as_file().unlock().expect("the lock is let go");
        let waited = waiting.join().expect("the one who waits");
        assert!(waited < LONG, "{waited:?}");
    }
}
