//! The xtables lock that all users of the `legacy` variant share, and how long others make us wait for it.
//!
//! The commands take the lock themselves, wait for it as long as their arguments say, and do not report how long that was. So it
//! is probed here before a command starts: while another program holds it, no command of ours runs and nothing else has to
//! wait. The probe releases the lock at once; the command then finds it free, or waits.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::subprocess;

/// The default of the iptables commands.
const DEFAULT_PATH: &str = "/run/xtables.lock";
const PATH_VARIABLE: &str = "XTABLES_LOCKFILE";
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Most holders are done sooner. After that the caller tries again later instead of waiting.
const MAX_WAIT: Duration = Duration::from_millis(250);

/// Since when the lock has kept a change from being written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LockWait {
    since: Option<Instant>,
}

impl LockWait {
    /// How long the lock was in the way, once it is free; its path if it is not. Waits for up to 250 ms when it is first found held.
    pub(super) fn probe(&mut self) -> Result<Duration, PathBuf> {
        // The same path that the commands are given: see [`crate::subprocess`].
        let path =
            subprocess::absolute_variable(PATH_VARIABLE).unwrap_or_else(|| OsString::from(DEFAULT_PATH));
        self.probe_path(Path::new(&path), MAX_WAIT)
    }

    fn probe_path(&mut self, path: &Path, max_wait: Duration) -> Result<Duration, PathBuf> {
        // A missing file was never locked; if we may not open it, the command will report that.
        let Ok(file) = File::open(path) else { return Ok(Duration::ZERO) };
        let now = Instant::now();
        let until = if self.since.is_some() { now } else { now + max_wait };
        let since = *self.since.get_or_insert(now);
        // A shared lock is enough to see that no program holds it, and it ends with the file.
        while matches!(file.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock)) {
            if Instant::now() >= until {
                return Err(path.to_owned());
            }
            std::thread::park_timeout(POLL_INTERVAL);
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
        assert_eq!(wait.probe_path(Path::new("/nonexistent/xtables.lock"), LONG), Ok(Duration::ZERO));
        let file = tempfile::NamedTempFile::new().expect("a file");
        assert!(wait.probe_path(file.path(), LONG).is_ok_and(|waited| waited < Duration::from_secs(1)));
    }

    #[test]
    fn a_held_lock_is_waited_for_once_and_then_only_probed() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().lock().expect("the lock");
        let (mut wait, brief) = (LockWait::default(), Duration::from_millis(50));
        let began = Instant::now();
        assert_eq!(wait.probe_path(file.path(), brief), Err(file.path().to_owned()));
        assert!(began.elapsed() >= brief);
        assert_eq!(wait.probe_path(file.path(), LONG), Err(file.path().to_owned()), "it does not wait again");
        assert!(began.elapsed() < LONG);
        file.as_file().unlock().expect("the lock is released");
        let waited = wait.probe_path(file.path(), LONG).expect("it is free");
        assert!((brief..LONG).contains(&waited), "all of it counts: {waited:?}");
        assert_eq!(wait, LockWait::default());
    }

    #[test]
    fn a_lock_that_is_released_soon_is_waited_for() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().lock().expect("the lock");
        let path = file.path().to_owned();
        let waiting = std::thread::spawn(move || LockWait::default().probe_path(&path, LONG));
        std::thread::park_timeout(Duration::from_millis(50));
        file.as_file().unlock().expect("the lock is released");
        assert!(waiting.join().expect("no panic").is_ok_and(|waited| waited < LONG));
    }
}
