//! Notices that something in the directory changed, milliseconds after it did.
//!
//! [`super::ManifestFolder::read`] finds out what.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrule_kernel::inotify::{AlsoReport, Burst, Debounce, Event, Inotify};

/// Files that are written together make one change.
const DEBOUNCE: Debounce = Debounce { quiet: Duration::from_millis(2), at_most: Duration::from_millis(20) };

/// Stands for a wait without end, which an `Instant` cannot hold.
const MAX_TIMEOUT: Duration = Duration::from_hours(100 * 365 * 24);

/// A watch on one directory.
#[derive(Debug)]
pub(super) struct FolderWatch {
    path: PathBuf,
    events: Arc<Inotify>,
}

impl FolderWatch {
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        let watch = Self { path: path.to_path_buf(), events: Arc::new(Inotify::new()?) };
        watch.renewal()()?;
        Ok(watch)
    }

    /// Watches the directory that is at the path when this is called. Costs nothing if it is the same one.
    pub(super) fn renewal(&self) -> impl FnOnce() -> io::Result<()> + Send + use<> {
        let (events, path) = (Arc::clone(&self.events), self.path.clone());
        move || events.watch_directory(&path, AlsoReport::Attributes)
    }

    /// Waits for a change; returns false on timeout.
    pub(super) fn wait(&self, timeout: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + timeout.min(MAX_TIMEOUT);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if !self.events.wait(left)? {
                return Ok(false);
            }
            if self.drain()? {
                break;
            }
        }
        self.events.debounce(DEBOUNCE, |_| Burst::MayEnd)?;
        Ok(true)
    }

    /// Consumes all pending events without waiting; returns whether one of them means a change.
    pub(super) fn drain(&self) -> io::Result<bool> {
        let mut changed = false;
        self.events.drain(|event| changed |= !self.is_still_being_written(event))?;
        Ok(changed)
    }

    /// A new file has another event when its writer closes it; new links and folders do not.
    fn is_still_being_written(&self, event: Event<'_>) -> bool {
        let name = event.name.filter(|_| event.is_new_file());
        let file = name.and_then(|name| self.path.join(name).symlink_metadata().ok());
        file.is_some_and(|file| file.is_file() && file.nlink() == 1)
    }
}

impl AsFd for FolderWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}
