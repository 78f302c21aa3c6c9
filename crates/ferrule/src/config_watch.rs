//! Notices that the configuration file has new content, by inotify on the directories it lives in.
//!
//! Directories are watched and not the file, since a ConfigMap is updated by swapping the symlink `..data`, and
//! editors replace files by renaming. Whatever happens, the content is read again once things are quiet and compared
//! with the last: one change is reported once, and touching or re-writing the same bytes is no change.
//! What the new content means is for [`crate::config::reload`] to say.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;

/// How long nothing must happen before the file is read again: kubelet's swap takes several steps.
const QUIET: Duration = Duration::from_millis(100);
/// A directory where things keep happening must not put the reading off for ever.
const LONGEST_DELAY: Duration = Duration::from_secs(2);

/// The kernel's clock types cannot hold every duration; a longer wait is made of several.
const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// How often it is looked for a directory that is not there.
const LOOK_WHEN_BLIND: Duration = Duration::from_secs(1);

/// What became of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileChange {
    /// It has this content now.
    Content(Vec<u8>),
    /// It cannot be read any more; said once, until it can be read again.
    Unreadable(io::ErrorKind),
}

/// A watch on one file.
#[derive(Debug)]
pub struct ConfigWatch {
    path: PathBuf,
    inotify: OwnedFd,
    /// Whether the file's own directory is not there to be watched.
    is_blind: bool,
    last: Result<Vec<u8>, io::ErrorKind>,
}

impl ConfigWatch {
    /// Starts watching; `content` is what the file held when it was read for use, so that an edit made between that
    /// and now is noticed.
    pub fn new(path: &Path, content: Vec<u8>) -> io::Result<Self> {
        let mut watch = Self { path: path.to_owned(), inotify: open()?, is_blind: false, last: Ok(content) };
        watch.watch_directories()?;
        Ok(watch)
    }

    /// Begins anew after a failure; what changed meanwhile will be noticed.
    pub fn reopen(&mut self) -> io::Result<()> {
        self.inotify = open()?;
        self.watch_directories()
    }

    /// Waits for the next change, at most this long and the time it takes until nobody writes any more; `None` if
    /// nothing changed.
    pub fn next(&mut self, timeout: Duration) -> io::Result<Option<FileChange>> {
        let started = Instant::now();
        let mut happened = self.wait_readable(Duration::ZERO)?;
        loop {
            // Without an event the file may still differ: it may have changed before the watch began.
            if happened || self.is_blind || self.differs() {
                self.settle()?;
                self.watch_directories()?;
                if let Some(change) = self.look() {
                    return Ok(Some(change));
                }
            }
            let left = timeout.saturating_sub(started.elapsed());
            let longest = if self.is_blind { LOOK_WHEN_BLIND } else { LONGEST_WAIT };
            happened = self.wait_readable(left.min(longest))?;
            if !happened && left <= longest {
                return Ok(None);
            }
        }
    }

    /// Swallows events until none come for a while and whoever wrote has closed the file: what a slow writer has
    /// written so far is no configuration.
    fn settle(&self) -> io::Result<()> {
        let latest = Instant::now() + LONGEST_DELAY;
        let mut being_written = BTreeSet::new();
        loop {
            self.drain(&mut being_written)?;
            let left = latest.saturating_duration_since(Instant::now());
            let quiet = if being_written.is_empty() { QUIET.min(left) } else { left };
            if !self.wait_readable(quiet)? {
                return Ok(());
            }
            if left.is_zero() {
                return self.drain(&mut being_written);
            }
        }
    }

    fn differs(&self) -> bool {
        self.read() != self.last
    }

    fn read(&self) -> Result<Vec<u8>, io::ErrorKind> {
        std::fs::read(&self.path).map_err(|error| error.kind())
    }

    /// Reads the file; tells what is new about it.
    fn look(&mut self) -> Option<FileChange> {
        let now = self.read();
        if now == self.last {
            return None;
        }
        self.last.clone_from(&now);
        Some(match now {
            Ok(content) => FileChange::Content(content),
            Err(kind) => FileChange::Unreadable(kind),
        })
    }

    /// Watches the directory of every link on the way to the file; after a swap these are others.
    fn watch_directories(&mut self) -> io::Result<()> {
        let flags = inotify::WatchFlags::CREATE
            | inotify::WatchFlags::MOVED_TO
            | inotify::WatchFlags::MOVED_FROM
            | inotify::WatchFlags::CLOSE_WRITE
            | inotify::WatchFlags::MODIFY
            | inotify::WatchFlags::DELETE
            | inotify::WatchFlags::DELETE_SELF
            | inotify::WatchFlags::MOVE_SELF
            | inotify::WatchFlags::ONLYDIR;
        self.is_blind = false;
        for directory in directories_on_the_way(&self.path) {
            match inotify::add_watch(&self.inotify, &directory, flags) {
                Ok(_) => {}
                // A link may point into a directory that is gone this very moment; the next event looks again.
                Err(_) if directory != parent(&self.path) => {}
                // Removed or renamed, it may come again; only looking tells.
                Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => self.is_blind = true,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Swallows the events that are there, and keeps book of the names that were written to and not closed since.
    fn drain(&self, being_written: &mut BTreeSet<Option<CString>>) -> io::Result<()> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        loop {
            match events.next() {
                Ok(event) => {
                    let name = event.file_name().map(CStr::to_owned);
                    if event.events().contains(inotify::ReadFlags::MODIFY) {
                        being_written.insert(name);
                    } else if event.events().contains(inotify::ReadFlags::CLOSE_WRITE) {
                        being_written.remove(&name);
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether an event is there within this time; a signal does not shorten it.
    fn wait_readable(&self, timeout: Duration) -> io::Result<bool> {
        let started = Instant::now();
        let mut descriptors = [PollFd::new(&self.inotify, PollFlags::IN)];
        loop {
            let left = timeout.saturating_sub(started.elapsed());
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            match poll(&mut descriptors, Some(&left)) {
                Ok(ready) => return Ok(ready > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for ConfigWatch {
    /// Readable when something happened near the file; for an event loop, followed by `next(Duration::ZERO)`.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

fn open() -> io::Result<OwnedFd> {
    Ok(inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?)
}

/// The directories in which a name on the way to the file is looked up, following links by hand.
fn directories_on_the_way(path: &Path) -> Vec<PathBuf> {
    const LONGEST_CHAIN: usize = 16;
    let mut directories = Vec::new();
    let mut to_visit = vec![path.to_owned()];
    let mut steps = 0;
    while let Some(at) = to_visit.pop() {
        steps += 1;
        if steps > LONGEST_CHAIN {
            break;
        }
        let directory = parent(&at);
        if let Ok(target) = std::fs::read_link(&directory) {
            to_visit.push(parent(&directory).join(target));
        }
        if let Ok(target) = std::fs::read_link(&at) {
            to_visit.push(directory.join(target));
        }
        // The directory's own name can be a link too, as `..data` is.
        directories.push(parent_if_link(&directory));
        directories.push(directory);
    }
    directories.dedup();
    directories
}

fn parent_if_link(directory: &Path) -> PathBuf {
    let is_link = std::fs::symlink_metadata(directory).is_ok_and(|metadata| metadata.is_symlink());
    if is_link { parent(directory) } else { directory.to_owned() }
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests;
