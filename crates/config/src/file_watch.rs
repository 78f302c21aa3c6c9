//! Notices that the configuration file has new content, by inotify on the directories it lives in.
//!
//! Directories are watched and not the file, since a ConfigMap is updated by swapping the symlink `..data`, and
//! editors replace files by renaming. Whatever happens, the content is read again once things are quiet and compared
//! with the last: one change is reported once, and touching or re-writing the same bytes is no change.
//! What cannot be watched is read every second. Every call into a file system has a time limit; one that does not answer is tried
//! ever more rarely, and at once when the calls into it return. What the new content means is for [`crate::judge`] to say.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ferrule_kernel::inotify::{AlsoReport, Burst, Debounce, Event, Inotify};

use crate::file::{self, BoundedCalls, NoResult, Unreadable};

/// kubelet's swap takes several steps; a directory where things keep happening must not put the reading off for ever.
const DEBOUNCE: Debounce = Debounce { quiet: Duration::from_millis(100), at_most: Duration::from_secs(2) };

/// How often the file is read while no event would tell of a change.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// What became of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileChange {
    /// It has this content now.
    Content(Vec<u8>),
    /// It cannot be read any more; reported once, until it can be read again or fails in another way.
    Unreadable(Unreadable),
    /// Its directory is there and cannot be watched, for this reason; the file is read every second. Reported once,
    /// until it could be watched again.
    Unwatched(String),
}

/// A watch on one file. It cannot fail: what cannot be watched is polled.
#[derive(Debug)]
pub struct FileWatch {
    path: PathBuf,
    /// Watches the file's directories. Absent if that failed: the file is polled.
    inotify: Option<Inotify>,
    failure: WatchFailure,
    last: Result<Vec<u8>, Unreadable>,
    calls: BoundedCalls,
}

/// Whether a failure to watch must be reported.
#[derive(Debug, PartialEq, Eq)]
enum WatchFailure {
    None,
    Unreported(String),
    Reported,
}

impl FileWatch {
    /// Starts watching; `content` is what the file held when it was read for use, so that an edit made between that
    /// and now is noticed.
    pub fn new(path: &Path, content: Vec<u8>) -> Self {
        let mut watch = Self {
            path: path.to_owned(),
            inotify: None,
            failure: WatchFailure::None,
            last: Ok(content),
            calls: BoundedCalls::default(),
        };
        watch.watch_directories();
        watch
    }

    /// Waits for the next change, at most this long and the time until all writers are done; `None` if nothing changed.
    pub fn next(&mut self, timeout: Duration) -> Option<FileChange> {
        let started = Instant::now();
        let mut happened = self.wait(Duration::ZERO);
        loop {
            // Without an event the file may still differ: it may have changed before the watch began.
            if happened || self.inotify.is_none() || self.differs() {
                self.debounce();
                self.watch_directories();
                if let Some(change) = self.failure_report().or_else(|| self.changed_content()) {
                    return Some(change);
                }
            }
            let left = timeout.saturating_sub(started.elapsed());
            let is_polled = self.must_poll() && left > POLL_INTERVAL;
            happened = self.wait(if is_polled { POLL_INTERVAL } else { left });
            if !happened && !is_polled {
                return None;
            }
        }
    }

    /// Whether a change may come without an event: nothing is watched, or the file was never read. A file system that answers
    /// again raises no event.
    fn must_poll(&self) -> bool {
        self.inotify.is_none() || matches!(self.last, Err(Unreadable::TimedOut | Unreadable::NoThread(_)))
    }

    /// Swallows events until none come for a while and writers have closed the file: half a file is no configuration.
    fn debounce(&mut self) {
        let Some(inotify) = &self.inotify else {
            self.wait(DEBOUNCE.quiet);
            return;
        };
        let mut being_written: BTreeSet<Option<OsString>> = BTreeSet::new();
        let result = inotify.debounce(DEBOUNCE, |event: Event<'_>| {
            let name = event.name.map(ToOwned::to_owned);
            if event.is_write() {
                being_written.insert(name);
            } else if event.is_close_after_write() {
                being_written.remove(&name);
            }
            if being_written.is_empty() { Burst::MayEnd } else { Burst::GoesOn }
        });
        if let Err(error) = result {
            self.poll_instead(&error);
        }
    }

    fn differs(&mut self) -> bool {
        self.read() != self.last
    }

    fn read(&mut self) -> Result<Vec<u8>, Unreadable> {
        let path = self.path.clone();
        self.calls.run(move || file::read(&path)).unwrap_or_else(|reason| {
            Err(match reason {
                NoResult::TimedOut => Unreadable::TimedOut,
                NoResult::NoThread(error) => Unreadable::NoThread(error.kind()),
            })
        })
    }

    fn failure_report(&mut self) -> Option<FileChange> {
        let WatchFailure::Unreported(error) = &mut self.failure else { return None };
        let error = std::mem::take(error);
        self.failure = WatchFailure::Reported;
        Some(FileChange::Unwatched(error))
    }

    fn changed_content(&mut self) -> Option<FileChange> {
        let now = self.read();
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
        let path = self.path.clone();
        let opened = self.calls.run(move || new_watch(&path));
        let opened = opened.unwrap_or_else(|reason| {
            Err(match reason {
                NoResult::TimedOut => io::ErrorKind::TimedOut.into(),
                NoResult::NoThread(error) => error,
            })
        });
        match opened {
            Ok(inotify) => (self.inotify, self.failure) = (Some(inotify), WatchFailure::None),
            Err(error) => self.poll_instead(&error),
        }
    }

    /// A directory that is not there or does not answer needs no report of its own: the file cannot be read either.
    fn poll_instead(&mut self, error: &io::Error) {
        self.inotify = None;
        let shows_in_reading = matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::TimedOut
        );
        if !shows_in_reading && self.failure == WatchFailure::None {
            self.failure = WatchFailure::Unreported(error.to_string());
        }
    }

    /// Whether an event is there within this time. Without a watch there is none.
    fn wait(&mut self, timeout: Duration) -> bool {
        let Some(inotify) = &self.inotify else {
            let started = Instant::now();
            while started.elapsed() < timeout {
                std::thread::park_timeout(timeout.saturating_sub(started.elapsed()));
            }
            return false;
        };
        match inotify.wait(timeout) {
            Ok(happened) => happened,
            Err(error) => {
                self.poll_instead(&error);
                false
            }
        }
    }
}

/// A new instance, so that directories that are no longer on the way are forgotten.
fn new_watch(path: &Path) -> io::Result<Inotify> {
    let inotify = Inotify::new()?;
    for directory in link_directories(path) {
        // A link may point into a directory that is gone this very moment; the next event leads to another try.
        if let Err(error) = inotify.watch_directory(&directory, AlsoReport::Writes)
            && directory == parent(path)
        {
            return Err(error);
        }
    }
    Ok(inotify)
}

/// The directories in which a name on the way to the file is looked up, following links by hand.
fn link_directories(path: &Path) -> Vec<PathBuf> {
    const MAX_LINKS: usize = 16;
    let mut directories = Vec::new();
    let mut to_visit = vec![path.to_owned()];
    let mut steps = 0;
    while let Some(at) = to_visit.pop() {
        steps += 1;
        if steps > MAX_LINKS {
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
