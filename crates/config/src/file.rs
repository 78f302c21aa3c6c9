//! Reads the configuration file: whatever is found under its name, reading ends, and takes little memory.
//!
//! Noticing that it changed is [`crate::file_watch`]'s work.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ferrule_kernel::threads;
use rustix::fs::{FileType, Mode, OFlags, fstat, open};

/// No ConfigMap can be larger.
const MAX_BYTES: u64 = 1 << 20;
/// How long the file system may take to answer.
const FILE_SYSTEM_TIMEOUT: Duration = Duration::from_secs(5);
/// After the first call that did not return, the next is tried this much later; after each further one, after twice the time.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// The longest time between two tries, each of which may cost another thread.
const MAX_RETRY_INTERVAL: Duration = Duration::from_hours(24);

/// Why a file cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The system says so.
    #[error("{0}")]
    System(io::ErrorKind),
    /// A pipe, a socket, a device.
    #[error("it is not a regular file")]
    NotAFile,
    /// Larger than any configuration, or without end.
    #[error("it is larger than {MAX_BYTES} bytes")]
    TooLarge,
    /// The file system does not answer.
    #[error("it does not answer; is it on a dead network file system?")]
    TimedOut,
    /// No thread could be started for the reading; the file may be well.
    #[error("no thread could be started to read it: {0}")]
    NoThread(io::ErrorKind),
}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Self {
        Self::System(error.kind())
    }
}

/// The content of the file a process starts with. A pipe is accepted, as shells make one for `<(…)`; nothing is served yet
/// that reading could hold up.
pub fn read_at_start(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let too_large = || io::Error::other(Unreadable::TooLarge);
    bounded(File::open(path)?)?.ok_or_else(too_large)
}

/// The content of the file now. It must be a regular file: opening a pipe would wait for a writer.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Unreadable> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file: OwnedFd = open(path, flags, Mode::empty()).map_err(io::Error::from)?;
    match FileType::from_raw_mode(fstat(&file).map_err(io::Error::from)?.st_mode) {
        FileType::RegularFile => bounded(file.into())?.ok_or(Unreadable::TooLarge),
        FileType::Directory => Err(Unreadable::System(io::ErrorKind::IsADirectory)),
        _ => Err(Unreadable::NotAFile),
    }
}

fn bounded(file: File) -> io::Result<Option<Vec<u8>>> {
    let mut content = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut content)?;
    Ok(Some(content).filter(|content| content.len() as u64 <= MAX_BYTES))
}

/// Runs file system calls on other threads with a time limit. Nothing can interrupt a call into a dead network file system, so
/// its thread is abandoned. Once all abandoned calls have returned, the next call is made at once. Until then further calls are
/// tried at intervals that double up to a day, since the path may lead elsewhere now: ten threads are abandoned in the first
/// eight hours, about one a day later on.
#[derive(Debug)]
pub struct BoundedCalls {
    timeout: Duration,
    last_call: Instant,
    stuck: Vec<JoinHandle<()>>,
}

/// Why a call has no result.
#[derive(Debug)]
pub enum NoResult {
    /// It did not return in time, or was not tried because others did not.
    TimedOut,
    /// No thread could be started for it.
    NoThread(io::Error),
}

impl Default for BoundedCalls {
    fn default() -> Self {
        Self::new(FILE_SYSTEM_TIMEOUT)
    }
}

impl BoundedCalls {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { timeout, last_call: Instant::now(), stuck: Vec::new() }
    }

    /// The result of `call`, if it returns in time.
    pub fn run<T: Send + 'static>(
        &mut self,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NoResult> {
        self.stuck.retain(|thread| !thread.is_finished());
        if self.last_call.elapsed() < self.retry_interval() {
            return Err(NoResult::TimedOut);
        }
        let (sender, receiver) = sync_channel(1);
        // The receiver is gone if the call took too long.
        let thread = threads::spawn("config-reader", move || drop(sender.send(call())));
        let thread = thread.map_err(NoResult::NoThread)?;
        self.last_call = Instant::now();
        receiver.recv_timeout(self.timeout).map_err(|_| {
            self.stuck.push(thread);
            NoResult::TimedOut
        })
    }

    fn retry_interval(&self) -> Duration {
        let Some(doublings) = self.stuck.len().checked_sub(1) else { return Duration::ZERO };
        let factor = u32::try_from(doublings).ok().and_then(|doublings| 2_u32.checked_pow(doublings));
        factor.map_or(MAX_RETRY_INTERVAL, |factor| {
            RETRY_INTERVAL.saturating_mul(factor).min(MAX_RETRY_INTERVAL)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn a_call_that_never_returns_is_given_up_and_not_repeated_at_once() {
        let mut calls = BoundedCalls::new(Duration::from_millis(100));
        assert_eq!(calls.run(|| 1).ok(), Some(1));
        let (release, released) = channel::<()>();
        assert!(matches!(calls.run(move || released.recv().is_ok()), Err(NoResult::TimedOut)));
        let again = calls.run(|| -> u8 { unreachable!("a call is stuck") });
        assert!(matches!(again, Err(NoResult::TimedOut)));
        drop(release);
        let deadline = Instant::now() + FILE_SYSTEM_TIMEOUT;
        while calls.run(|| 2).ok() != Some(2) {
            assert!(Instant::now() < deadline, "it is never tried again");
        }
    }

    #[test]
    fn threads_are_abandoned_ever_more_rarely_and_a_call_is_still_tried_after_many_of_them() {
        let (_never, stuck) = channel::<()>();
        let stuck = Arc::new(Mutex::new(stuck));
        let mut calls = BoundedCalls::new(Duration::from_millis(10));
        let mut time = Duration::ZERO;
        for _ in 0..16 {
            let interval = calls.retry_interval();
            assert!(interval <= MAX_RETRY_INTERVAL);
            time += interval;
            // As if no call were stuck: a machine may not have been up for a day.
            let abandoned = std::mem::take(&mut calls.stuck);
            let stuck = Arc::clone(&stuck);
            assert!(calls.run(move || stuck.lock().is_ok_and(|stuck| stuck.recv().is_ok())).is_err());
            calls.stuck.extend(abandoned);
        }
        assert_eq!(calls.stuck.len(), 16);
        assert!(time > 3 * MAX_RETRY_INTERVAL && time < 6 * MAX_RETRY_INTERVAL, "{time:?}");
    }
}
