//! Reads files with a timeout, on separate threads, so that a file that blocks affects no other.
//!
//! A dead network file system, a file with a lease, or a kernel pipe behind a symbolic link can block a read for ever, and
//! such a read cannot be cancelled. After the timeout it is abandoned together with its thread; the file is not read again
//! until that thread returns. Does not interpret the bytes: see [`super::manifest`].

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

/// Limit for one file, and for listing the directory.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Limit for abandoned threads; beyond it, files that were never read before are not tried.
const MAX_STUCK: usize = 8;
/// A manifest with a hundred thousand objects is smaller.
const MAX_BYTES: u64 = 256 << 20;

/// Identifies a version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    /// `ctime`: seconds and nanoseconds.
    pub changed: (i64, i64),
}

/// Asks for the content of a file unless it still has the known stamp.
#[derive(Clone, Debug)]
pub(super) struct ReadRequest {
    pub path: PathBuf,
    pub known: Option<Stamp>,
}

/// What was found at a path.
#[derive(Debug)]
pub(super) enum FileState {
    /// No regular file.
    Absent,
    /// The file still has the known stamp.
    Unchanged,
    Content {
        stamp: Stamp,
        bytes: Vec<u8>,
    },
}

/// Reads files, and keeps track of those that block.
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

pub(super) type ReadResult = (PathBuf, io::Result<FileState>);

impl FileReader {
    pub(super) fn read(&mut self, files: Vec<ReadRequest>) -> Vec<ReadResult> {
        self.stuck.retain(|_, thread| !thread.is_finished());
        let mut read = Vec::with_capacity(files.len());
        let mut left = files;
        while !left.is_empty() {
            left = self.read_until_stuck(left, &mut read);
        }
        read
    }

    /// The names in a directory. `before` runs first, under the same timeout.
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
        let worker = Worker::start(move |results| {
            drop(results.send(before().and_then(|()| names_in(&path))));
        })?;
        worker.results.recv_timeout(self.timeout).unwrap_or_else(|_| {
            self.stuck.insert(folder.to_owned(), worker.thread);
            Err(timed_out())
        })
    }

    /// Reads files until one blocks; returns the rest.
    fn read_until_stuck(&mut self, files: Vec<ReadRequest>, read: &mut Vec<ReadResult>) -> Vec<ReadRequest> {
        let (skipped, files): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| self.is_skipped(file));
        read.extend(skipped.into_iter().map(|file| (file.path, Err(timed_out()))));
        let requests = files.clone();
        let started = Worker::start(move |results| {
            // The receiver is gone once a file took too long.
            let _ = requests.into_iter().try_for_each(|file| results.send(file.read()));
        });
        let mut files = files.into_iter();
        let worker = match started {
            Ok(worker) => worker,
            Err(error) => {
                let failed =
                    |file: ReadRequest| (file.path, Err(io::Error::new(error.kind(), error.to_string())));
                read.extend(files.map(failed));
                return Vec::new();
            }
        };
        while let Some(file) = files.next() {
            let Ok(state) = worker.results.recv_timeout(self.timeout) else {
                read.push((file.path.clone(), Err(timed_out())));
                self.stuck.insert(file.path, worker.thread);
                return files.collect();
            };
            read.push((file.path, state));
        }
        Vec::new()
    }

    /// Skips files whose reader is stuck; with many stuck readers, also files that were never read.
    fn is_skipped(&self, file: &ReadRequest) -> bool {
        self.stuck.contains_key(&file.path) || file.known.is_none() && self.stuck.len() >= MAX_STUCK
    }
}

fn timed_out() -> io::Error {
    let problem = "reading timed out; is it on a dead network file system, or not a regular file?";
    io::Error::new(io::ErrorKind::TimedOut, problem)
}

impl ReadRequest {
    fn read(&self) -> io::Result<FileState> {
        let stamp = match fs::metadata(&self.path) {
            Ok(file) if file.is_file() => Stamp::new(&file),
            Ok(_) => return Ok(FileState::Absent),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FileState::Absent),
            Err(error) => return Err(error),
        };
        if self.known == Some(stamp) {
            return Ok(FileState::Unchanged);
        }
        // Does not block on a pipe that replaced the file, nor on the holder of a lease.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&self.path)?;
        let mut bytes = Vec::with_capacity(usize::try_from(stamp.size.min(MAX_BYTES)).unwrap_or_default());
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(io::Error::other(format!("it has more than {} MiB", MAX_BYTES >> 20)));
        }
        Ok(FileState::Content { stamp, bytes })
    }
}

impl Stamp {
    fn new(file: &fs::Metadata) -> Self {
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

/// A thread and its results.
struct Worker<T> {
    results: Receiver<T>,
    thread: JoinHandle<()>,
}

impl<T: Send + 'static> Worker<T> {
    fn start(work: impl FnOnce(&SyncSender<T>) + Send + 'static) -> io::Result<Self> {
        // A capacity of one bounds the memory: the thread is at most one file ahead.
        let (results_tx, results) = sync_channel(1);
        let thread =
            thread::Builder::new().name("manifest-reader".into()).spawn(move || work(&results_tx))?;
        Ok(Self { results, thread })
    }
}

#[cfg(test)]
mod tests;
