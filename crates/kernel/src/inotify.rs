//! inotify on directories: says that something in them changed, and when they have gone quiet again.
//!
//! Directories are watched and not files, since editors and mounted ConfigMaps replace files instead of writing to them.
//! What changed is not said; the caller reads the files afterwards.

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

/// Longer timeouts do not fit the kernel's clock types. No wait lasts a century.
const MAX_TIMEOUT: Duration = Duration::from_hours(100 * 365 * 24);

/// An inotify instance. It never blocks a reader.
#[derive(Debug)]
pub struct Inotify {
    events: OwnedFd,
}

/// What a watch reports beside names that come and go and files that are closed after they were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlsoReport {
    /// Each write to a file, so that one that is still being written is known ([`Event::is_write`]).
    Writes,
    /// Changes of owners, permissions and link counts.
    Attributes,
}

/// One event in a watched directory.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// The name it is about; absent if it is about the directory itself.
    pub name: Option<&'a OsStr>,
    flags: ReadFlags,
}

impl Event<'_> {
    /// A file was written to; it may be written to again.
    pub fn is_write(self) -> bool {
        self.flags.contains(ReadFlags::MODIFY)
    }

    /// A file was closed by a process that could write to it.
    pub fn is_close_after_write(self) -> bool {
        self.flags.contains(ReadFlags::CLOSE_WRITE)
    }

    /// A name appeared that is no directory's: of a new file, of a link, or of another kind of node.
    pub fn is_new_file(self) -> bool {
        self.flags.contains(ReadFlags::CREATE) && !self.flags.contains(ReadFlags::ISDIR)
    }
}

/// When a burst of events counts as over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debounce {
    /// Once none has come for this long …
    pub quiet: Duration,
    /// … but no later than this after the wait began, whatever comes.
    pub at_most: Duration,
}

/// What the caller makes of a burst so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Burst {
    /// It may be over when it is quiet.
    MayEnd,
    /// It is not over, however quiet it is: something has begun that ends with an event.
    GoesOn,
}

impl Inotify {
    /// A new instance that watches nothing yet. A user can have a limited number of them.
    pub fn new() -> io::Result<Self> {
        Ok(Self { events: inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)? })
    }

    /// Watches the directory that is at the path now. Costs nothing if that one is watched already.
    pub fn watch_directory(&self, path: &Path, also: AlsoReport) -> io::Result<()> {
        let also = match also {
            AlsoReport::Writes => WatchFlags::MODIFY,
            AlsoReport::Attributes => WatchFlags::ATTRIB,
        };
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR
            | also;
        inotify::add_watch(&self.events, path, flags)?;
        Ok(())
    }

    /// Whether an event is there within this time; a signal does not shorten it.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + timeout.min(MAX_TIMEOUT);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            match poll(&mut [PollFd::new(&self.events, PollFlags::IN)], Some(&left)) {
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes all events there are, without waiting for one.
    pub fn drain(&self, mut each: impl FnMut(Event<'_>)) -> io::Result<()> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.events, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                    each(Event { name, flags: event.events() });
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes events until the burst is over. `each` is called for every event, and its last answer counts.
    pub fn debounce(
        &self,
        Debounce { quiet, at_most }: Debounce,
        mut each: impl FnMut(Event<'_>) -> Burst,
    ) -> io::Result<()> {
        let deadline = Instant::now() + at_most;
        let mut burst = Burst::MayEnd;
        loop {
            self.drain(|event| burst = each(event))?;
            let left = deadline.saturating_duration_since(Instant::now());
            let wait = match burst {
                Burst::MayEnd => quiet.min(left),
                Burst::GoesOn => left,
            };
            if !self.wait(wait)? {
                return Ok(());
            }
            if left.is_zero() {
                return self.drain(|event| {
                    each(event);
                });
            }
        }
    }
}

impl AsFd for Inotify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);
    const BRIEFLY: Debounce = Debounce { quiet: Duration::from_millis(1), at_most: SOON };

    fn watched() -> (tempfile::TempDir, Inotify) {
        let folder = tempfile::tempdir().expect("a folder");
        let inotify = Inotify::new().expect("an instance");
        inotify.watch_directory(folder.path(), AlsoReport::Writes).expect("a folder can be watched");
        (folder, inotify)
    }

    #[test]
    fn a_new_file_is_seen_with_its_name_and_a_new_folder_is_none() {
        let (folder, inotify) = watched();
        assert!(!inotify.wait(Duration::ZERO).expect("it can be asked"));
        fs::write(folder.path().join("file"), "text").expect("written");
        fs::create_dir(folder.path().join("folder")).expect("made");
        assert!(inotify.wait(SOON).expect("it can be asked"));
        let mut created = Vec::new();
        inotify
            .drain(|event| created.extend(event.name.filter(|_| event.is_new_file()).map(OsStr::to_owned)))
            .expect("it can be read");
        assert_eq!(created, ["file"]);
        assert!(!inotify.wait(Duration::ZERO).expect("it can be asked"), "all events were taken");
    }

    #[test]
    fn a_burst_that_goes_on_is_waited_for_although_it_is_quiet() {
        let (folder, inotify) = watched();
        let mut file = fs::File::create(folder.path().join("file")).expect("made");
        file.write_all(b"one").expect("written");
        let closing = std::thread::spawn(move || {
            std::thread::park_timeout(Duration::from_millis(50));
            drop(file);
        });
        let mut closed = false;
        inotify
            .debounce(BRIEFLY, |event| {
                closed |= event.is_close_after_write();
                if closed { Burst::MayEnd } else { Burst::GoesOn }
            })
            .expect("it can be read");
        closing.join().expect("the writer ends");
        assert!(closed);
    }

    #[test]
    fn a_burst_without_end_is_over_at_the_deadline() {
        let (folder, inotify) = watched();
        fs::write(folder.path().join("file"), "text").expect("written");
        let limits = Debounce { at_most: Duration::from_millis(20), ..BRIEFLY };
        inotify.debounce(limits, |_| Burst::GoesOn).expect("it can be read");
        assert!(!inotify.wait(Duration::ZERO).expect("it can be asked"));
    }

    #[test]
    fn only_directories_can_be_watched() {
        let (folder, inotify) = watched();
        let file = folder.path().join("file");
        fs::write(&file, "text").expect("written");
        let refusal = inotify.watch_directory(&file, AlsoReport::Attributes).expect_err("it is a file");
        assert_eq!(refusal.kind(), io::ErrorKind::NotADirectory);
        let refusal = inotify.watch_directory(&folder.path().join("gone"), AlsoReport::Attributes);
        assert_eq!(refusal.expect_err("it is not there").kind(), io::ErrorKind::NotFound);
    }
}
