//! The lock that all users of the `legacy` variant share, and how long others make us wait for it.
//!
//! The programs take it themselves, wait for it as long as they are told to, and do not say how long that was. So it is looked
//! at here, before one is started: while others hold it no program of ours runs and nothing else has to wait. What is looked at is
//! let go at once, and the program then finds it free, or waits.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::subprocess;

/// Where the programs have it, unless their environment says otherwise.
const PLACE: &str = "/run/xtables.lock";
const ENVIRONMENT: &str = "XTABLES_LOCKFILE";
const STEP: Duration = Duration::from_millis(5);

/// Most holders are done sooner. Who holds it for longer is not waited for, but asked again.
const PATIENCE: Duration = Duration::from_millis(250);

/// Since when the lock is in the way of something that is to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LockWait {
    since: Option<Instant>,
}

impl LockWait {
    /// How long it was in the way once it is free; its place if it is not. Waits a moment when it is first found held.
    pub(super) fn look(&mut self) -> Result<Duration, PathBuf> {
        // As the programs are told: see [`crate::subprocess`].
        let place = subprocess::absolute(ENVIRONMENT).unwrap_or_else(|| OsString::from(PLACE));
        self.look_at(Path::new(&place), PATIENCE)
    }

    fn look_at(&mut self, place: &Path, patience: Duration) -> Result<Duration, PathBuf> {
        // Nobody has ever locked what is not there; who may not look finds out from the program.
        let Ok(file) = File::open(place) else { return Ok(Duration::ZERO) };
        let now = Instant::now();
        let until = if self.since.is_some() { now } else { now + patience };
        let since = *self.since.get_or_insert(now);
        // A shared hold is enough to see that there is no other, and it ends with the file.
        while matches!(file.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock)) {
            if Instant::now() >= until {
                return Err(place.to_owned());
            }
            std::thread::park_timeout(STEP);
        }
        self.since = None;
        Ok(since.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn a_free_lock_is_not_waited_for() {
        let mut wait = LockWait::default();
        assert_eq!(wait.look_at(Path::new("/nonexistent/xtables.lock"), LONG), Ok(Duration::ZERO));
        let file = tempfile::NamedTempFile::new().expect("a file");
        assert!(wait.look_at(file.path(), LONG).is_ok_and(|waited| waited < Duration::from_secs(1)));
    }

    #[test]
    fn a_held_lock_is_waited_for_a_moment_and_then_only_asked() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().lock().expect("the lock");
        let (mut wait, brief) = (LockWait::default(), Duration::from_millis(50));
        let began = Instant::now();
        assert_eq!(wait.look_at(file.path(), brief), Err(file.path().to_owned()));
        assert!(began.elapsed() >= brief);
        assert_eq!(wait.look_at(file.path(), LONG), Err(file.path().to_owned()), "it does not wait again");
        assert!(began.elapsed() < LONG);
        file.as_file().unlock().expect("the lock is let go");
        let waited = wait.look_at(file.path(), LONG).expect("it is free");
        assert!((brief..LONG).contains(&waited), "all of it counts: {waited:?}");
        assert_eq!(wait, LockWait::default());
    }

    #[test]
    fn a_lock_that_is_let_go_in_a_moment_is_waited_for() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().lock().expect("the lock");
        let place = file.path().to_owned();
        let waiting = std::thread::spawn(move || LockWait::default().look_at(&place, LONG));
        std::thread::park_timeout(Duration::from_millis(50));
        file.as_file().unlock().expect("the lock is let go");
        assert!(waiting.join().expect("the one who waits").is_ok_and(|waited| waited < LONG));
    }
}
