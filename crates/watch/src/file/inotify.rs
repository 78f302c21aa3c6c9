//! Tells that something in a folder has changed, milliseconds after it did.
//!
//! The folder is watched, not its files: editors that write another file and rename it, and the swapped symbolic link of a
//! mounted ConfigMap, change the folder. It does not tell what has changed: see [`super::ManifestFolder::read`].

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

/// A change is told once nothing more has come for this long, so that many files make one change …
const QUIET: Duration = Duration::from_millis(2);
/// … but no later than this, whatever comes.
const LATEST: Duration = Duration::from_millis(20);

/// A wait without end is a wait of a century, which clocks can count.
const LONGEST: Duration = Duration::from_hours(100 * 365 * 24);

/// A watch on one folder.
#[derive(Debug)]
pub(super) struct FolderWatch {
    path: PathBuf,
    events: Arc<OwnedFd>,
}

impl FolderWatch {
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let watch = Self { path: path.to_path_buf(), events: Arc::new(events) };
        watch.renewal()()?;
        Ok(watch)
    }

    /// Watches whatever folder is at the path now. Costs nothing if it is the same one.
    pub(super) fn renewal(&self) -> impl FnOnce() -> io::Result<()> + Send + use<> {
        let (events, path) = (Arc::clone(&self.events), self.path.clone());
        move || {
            let what = WatchFlags::CLOSE_WRITE
                | WatchFlags::CREATE
                | WatchFlags::DELETE
                | WatchFlags::MOVED_FROM
                | WatchFlags::MOVED_TO
                | WatchFlags::ATTRIB
                | WatchFlags::DELETE_SELF
                | WatchFlags::MOVE_SELF
                | WatchFlags::ONLYDIR;
            inotify::add_watch(&*events, &path, what)?;
            Ok(())
        }
    }

    /// Waits for a change; says whether there was one.
    pub(super) fn wait(&self, timeout: Duration) -> io::Result<bool> {
        let until = Instant::now() + timeout.min(LONGEST);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if !self.is_readable_within(left)? {
                return Ok(false);
            }
            if self.drain()? {
                break;
            }
        }
        let latest = Instant::now() + LATEST;
        while Instant::now() < latest && self.is_readable_within(QUIET)? {
            self.drain()?;
        }
        Ok(true)
    }

    /// Takes all events there are, without waiting; says whether one of them means a change.
    pub(super) fn drain(&self) -> io::Result<bool> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&*self.events, &mut buffer);
        let mut changed = false;
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| std::ffi::OsStr::from_bytes(name.to_bytes()));
                    changed |= !self.is_still_being_written(event.events(), name.map(Path::new));
                }
                Err(Errno::AGAIN) => return Ok(changed),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// A new file says another time when it is complete; new links and folders do not.
    fn is_still_being_written(&self, events: ReadFlags, name: Option<&Path>) -> bool {
        let created = events.contains(ReadFlags::CREATE) && !events.contains(ReadFlags::ISDIR);
        let file = name.filter(|_| created).and_then(|name| self.path.join(name).symlink_metadata().ok());
        file.is_some_and(|file| file.is_file() && file.nlink() == 1)
    }

    fn is_readable_within(&self, timeout: Duration) -> io::Result<bool> {
        let until = Instant::now() + timeout;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            match poll(&mut [PollFd::from_borrowed_fd(self.events.as_fd(), PollFlags::IN)], Some(&left)) {
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for FolderWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}
