//! Notices that the configuration file has new content, by inotify on the directories it lives in.
//!
//! Directories are watched and not the file, since a ConfigMap is updated by swapping the symlink `..data`, and
//! editors replace files by renaming. Whatever happens, the content is read again once things are quiet and compared
//! with the last: one change is reported once, and touching or re-writing the same bytes is no change.
//! What cannot be watched is read every second. What the new content means is for [`crate::config::reload`] to say.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, WatchFlags};
use tracing::warn;

use crate::config_file::{self, Unreadable};

/// How long nothing must happen before the file is read again: kubelet's swap takes several steps.
const QUIET: Duration = Duration::from_millis(100);
/// A directory where things keep happening must not put the reading off for ever.
const LONGEST_DELAY: Duration = Duration::from_secs(2);

/// The kernel's clock types cannot hold every duration; a longer wait is made of several.
const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// How often the file is read while its directory cannot be watched.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// What became of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileChange {
    /// It has this content now.
    Content(Vec<u8>),
    /// It cannot be read any more; said once, until it can be read again or fails in another way.
    Unreadable(Unreadable),
}

/// A watch on one file. It cannot fail: what cannot be watched is read now and then.
#[derive(Debug)]
pub struct ConfigWatch {
    path: PathBuf,
    /// `None` while there is none to be had.
    inotify: Option<OwnedFd>,
    /// Whether the file's own directory is not watched.
    is_blind: bool,
    /// Whether it was told that watching fails.
    is_failure_told: bool,
    last: Result<Vec<u8>, Unreadable>,
}

impl ConfigWatch {
    /// Starts watching; `content` is what the file held when it was read for use, so that an edit made between that
    /// and now is noticed.
    pub fn new(path: &Path, content: Vec<u8>) -> Self {
        let mut watch = Self {
            path: path.to_owned(),
            inotify: None,
            is_blind: true,
            is_failure_told: false,
            last: Ok(content),
        };
        watch.watch_directories();
        watch
    }

    /// Waits for the next change, at most this long and the time it takes until nobody writes any more; `None` if
    /// nothing changed.
    pub fn next(&mut self, timeout: Duration) -> Option<FileChange> {
        let started = Instant::now();
        let mut happened = self.wait(Duration::ZERO);
        loop {
            // Without an event the file may still differ: it may have changed before the watch began.
            if happened || self.is_blind || self.differs() {
                self.settle();
                self.watch_directories();
                if let Some(change) = self.look() {
                    return Some(change);
                }
            }
            let left = timeout.saturating_sub(started.elapsed());
            let longest = if self.is_blind { POLL_INTERVAL } else { LONGEST_WAIT };
            happened = self.wait(left.min(longest));
            if !happened && left <= longest {
                return None;
            }
        }
    }

    /// Swallows events until none come for a while and whoever wrote has closed the file: what a slow writer has
    /// written so far is no configuration.
    fn settle(&mut self) {
        let latest = Instant::now() + LONGEST_DELAY;
        let mut being_written = BTreeSet::new();
        loop {
            self.drain(&mut being_written);
            let left = latest.saturating_duration_since(Instant::now());
            let quiet = if being_written.is_empty() { QUIET.min(left) } else { left };
            if !self.wait(quiet) {
                return;
            }
            if left.is_zero() {
                return self.drain(&mut being_written);
            }
        }
    }

    fn differs(&self) -> bool {
        config_file::read(&self.path) != self.last
    }

    /// Reads the file; tells what is new about it.
    fn look(&mut self) -> Option<FileChange> {
        let now = config_file::read(&self.path);
        if now == self.last {
            return None;
        }
        self.last.clone_from(&now);
        Some(match now {
            Ok(content) => FileChange::Content(content),
            Err(reason) => FileChange::Unreadable(reason),
        })
    }

    /// Watches the directory of every link on the way to the file; after a swap these are others. What happened before is seen
    /// by reading the file afterwards.
    fn watch_directories(&mut self) {
        let result = self.watch_anew();
        self.note(result);
    }

    /// With a new instance, so that directories that are no longer on the way are forgotten.
    fn watch_anew(&mut self) -> rustix::io::Result<()> {
        let flags = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::MODIFY
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        self.inotify = None;
        let inotify = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        for directory in directories_on_the_way(&self.path) {
            // A link may point into a directory that is gone this very moment; the next event looks again.
            if let Err(error) = inotify::add_watch(&inotify, &directory, flags)
                && directory == parent(&self.path)
            {
                return Err(error);
            }
        }
        self.inotify = Some(inotify);
        Ok(())
    }

    /// Without a watch the file is read every second, which is told unless the directory itself is not there.
    fn note(&mut self, result: rustix::io::Result<()>) {
        self.is_blind = result.is_err();
        match result {
            Ok(()) => self.is_failure_told = false,
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => {}
            Err(error) => {
                if !std::mem::replace(&mut self.is_failure_told, true) {
                    let (err, file) = (error.to_string(), self.path.display());
                    warn!(err, %file, "Cannot watch the configuration file, it is read every second");
                }
            }
        }
    }

    /// Swallows the events that are there, and keeps book of the names that were written to and not closed since.
    fn drain(&mut self, being_written: &mut BTreeSet<Option<CString>>) {
        let Some(inotify) = &self.inotify else { return };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(inotify, &mut buffer);
        let failure = loop {
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
                Err(rustix::io::Errno::AGAIN) => return,
                Err(error) => break error,
            }
        };
        self.inotify = None;
        self.note(Err(failure));
    }

    /// Whether an event is there within this time; a signal does not shorten it. Without a watch there is none.
    fn wait(&mut self, timeout: Duration) -> bool {
        let started = Instant::now();
        let failure = loop {
            let left = timeout.saturating_sub(started.elapsed());
            // The limits of the callers fit.
            let left = Timespec::try_from(left).unwrap_or_default();
            let mut descriptors: Vec<PollFd<'_>> =
                self.inotify.iter().map(|inotify| PollFd::new(inotify, PollFlags::IN)).collect();
            match poll(&mut descriptors, Some(&left)) {
                Ok(ready) => return ready > 0,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => break error,
            }
        };
        self.inotify = None;
        self.note(Err(failure));
        false
    }
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
