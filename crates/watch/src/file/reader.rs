//! Reads files on threads of their own, so that one that never answers costs nothing but itself.
//!
//! A dead network file system, a file with a lease, or a pipe of the kernel under a link can hold a reader for ever, and
//! nothing can call it back. Such a file is given up on after a while and left to its thread; while that is stuck, the file
//! is not asked again. What the bytes mean is not known here: see [`super::manifest`].

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::fs::OFlags;

/// How long one file, or the list of the folder, may take.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// More threads than this are not given away to files that never answered.
const MAX_STUCK: usize = 8;
/// A manifest with a hundred thousand objects has less.
const MAX_BYTES: u64 = 256 << 20;

/// By what a changed file is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    /// When the file or what is known of it last changed: seconds and nanoseconds.
    pub changed: (i64, i64),
}

/// A file to be read unless it still has this stamp.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub path: PathBuf,
    pub known: Option<Stamp>,
}

/// What there is at a path.
#[derive(Debug)]
pub(super) enum Found {
    /// No file: it went, or is something else.
    Nothing,
    /// The file with the stamp that is known.
    Unchanged,
    /// A file, and the bytes in it.
    File { stamp: Stamp, bytes: Vec<u8> },
}

/// Reads files, and remembers those that do not answer.
#[derive(Debug)]
pub(super) struct FileReader {
    timeout: Duration,
    stuck: BTreeMap<PathBuf, JoinHandle<()>>,
}

impl Default for FileReader {
    fn default() -> Self {
        Self { timeout: READ_TIMEOUT, stuck: BTreeMap::new() }
    }
}

/// What was read of a file.
pub(super) type ReadFile = (PathBuf, io::Result<Found>);

impl FileReader {
    /// Reads files.
    pub(super) fn read(&mut self, files: Vec<Wanted>) -> Vec<ReadFile> {
        self.stuck.retain(|_, thread| !thread.is_finished());
        let mut read = Vec::with_capacity(files.len());
        let mut left = files;
        while !left.is_empty() {
            left = self.read_until_stuck(left, &mut read);
        }
        read
    }

    /// The names in a folder, after something else was done with it that may take as long.
    pub(super) fn names(
        &mut self,
        folder: &Path,
        before: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<Vec<OsString>> {
        self.stuck.retain(|_, thread| !thread.is_finished());
        if self.stuck.contains_key(folder) {
            return Err(timed_out());
        }
        let path = folder.to_owned();
        let work = Work::begin(move |answer| {
            drop(answer.send(before().and_then(|()| names_in(&path))));
        })?;
        work.answers.recv_timeout(self.timeout).unwrap_or_else(|_| {
            self.stuck.insert(folder.to_owned(), work.thread);
            Err(timed_out())
        })
    }

    /// Reads files until one does not answer; gives those that are left.
    fn read_until_stuck(&mut self, files: Vec<Wanted>, read: &mut Vec<ReadFile>) -> Vec<Wanted> {
        let (refused, files): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| self.is_refused(file));
        read.extend(refused.into_iter().map(|file| (file.path, Err(timed_out()))));
        let todo = files.clone();
        let begun = Work::begin(move |answer| {
            // Nobody takes the answer any more once one took too long.
            let _ = todo.into_iter().try_for_each(|file| answer.send(file.examine()));
        });
        let mut files = files.into_iter();
        let work = match begun {
            Ok(work) => work,
            Err(error) => {
                let failed = |file: Wanted| (file.path, Err(io::Error::new(error.kind(), error.to_string())));
                read.extend(files.map(failed));
                return Vec::new();
            }
        };
        while let Some(file) = files.next() {
            let Ok(found) = work.answers.recv_timeout(self.timeout) else {
                read.push((file.path.clone(), Err(timed_out())));
                self.stuck.insert(file.path, work.thread);
                return files.collect();
            };
            read.push((file.path, found));
        }
        Vec::new()
    }

    /// A file that is stuck is not asked again; where many are, no file that never answered is.
    fn is_refused(&self, file: &Wanted) -> bool {
        self.stuck.contains_key(&file.path) || file.known.is_none() && self.stuck.len() >= MAX_STUCK
    }
}

fn timed_out() -> io::Error {
    let problem = "it does not answer; is it on a dead network file system, or no ordinary file?";
    io::Error::new(io::ErrorKind::TimedOut, problem)
}

impl Wanted {
    /// Looks at the file, and reads it if it is another than the known one.
    fn examine(&self) -> io::Result<Found> {
        let stamp = match fs::metadata(&self.path) {
            Ok(file) if file.is_file() => Stamp::of(&file),
            Ok(_) => return Ok(Found::Nothing),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(error) => return Err(error),
        };
        if self.known == Some(stamp) {
            return Ok(Found::Unchanged);
        }
        // A pipe that took the file's place is not waited for, nor is the holder of a lease.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&self.path)?;
        let mut bytes = Vec::with_capacity(usize::try_from(stamp.size.min(MAX_BYTES)).unwrap_or_default());
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(io::Error::other(format!("it has more than {} MiB", MAX_BYTES >> 20)));
        }
        Ok(Found::File { stamp, bytes })
    }
}

impl Stamp {
    fn of(file: &fs::Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            size: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}

fn names_in(folder: &Path) -> io::Result<Vec<OsString>> {
    fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name())).collect()
}

/// A thread at work, and what comes of it.
struct Work<T> {
    answers: Receiver<T>,
    thread: JoinHandle<()>,
}

impl<T: Send + 'static> Work<T> {
    fn begin(work: impl FnOnce(&SyncSender<T>) + Send + 'static) -> io::Result<Self> {
        // One at a time: what was read waits here until it is taken in.
        let (answer, answers) = sync_channel(1);
        let thread = thread::Builder::new().name("manifest-reader".into()).spawn(move || work(&answer))?;
        Ok(Self { answers, thread })
    }
}

#[cfg(test)]
mod tests;
