//! Passes open sockets from one process to the next, so that no client that connects meanwhile is refused.
//!
//! Two ways: straight from the process that runs to the one that starts, over a socket in a directory that is root's alone; or through
//! systemd, which keeps them in between (`FileDescriptorStoreMax=`). Sockets go by names that the caller chooses.
//!
//! Of the processes that meet at a place, one serves: the one that holds the lock beside it. The lock is handed over with the sockets,
//! and the socket where processes meet as well, so that those that come while another takes over wait in its queue for their turn. The
//! kernel frees the lock when its holder dies, in whatever way. Who handed over waits for that ([`StandBy`]) and then serves again.

mod systemd;

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};

pub use systemd::{from_systemd, remove_from_systemd, store_in_systemd};

use crate::local_socket;

/// How long the other process may take for one message.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long it may take to answer at first: it may have to complete its own start.
const TURN_TIMEOUT: Duration = Duration::from_secs(30);
/// How soon a process asks again that found a place whose owner does not listen yet.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);
/// Processes that wait for their turn.
const QUEUE: i32 = 16;
/// The name of the socket where processes meet, among those handed over. Systemd never gets it.
const MEETING_POINT: &str = "meeting-point";
/// The name of the lock, which is sent last: with it the other process serves.
const LOCK: &str = "lock";
/// Longer names are cut by systemd, too.
const MAX_NAME: usize = 255;
/// More sockets than this are not passed on.
const MAX_SOCKETS: usize = 1 << 16;
/// What a process that takes over begins with.
const REQUEST: &[u8] = b"sockets of ferrule, version 2";
/// Follows the last socket.
const END: &[u8] = b"";

/// Sockets by name.
pub type NamedSockets = BTreeMap<String, OwnedFd>;

/// The place of the process that serves, where the next one asks for its sockets.
#[derive(Debug)]
pub struct Offer {
    socket: OwnedFd,
    lock: File,
    path: PathBuf,
    /// Whether the next process waits at the same place now.
    is_handed_over: bool,
}

/// What a process took over.
#[derive(Debug, Default)]
pub struct Taken {
    /// Sockets of the process before.
    pub sockets: NamedSockets,
    /// The place where it waited. Nothing if there was no such process.
    pub offer: Option<Offer>,
}

/// A process that asks for our sockets.
#[derive(Debug)]
pub struct Successor {
    socket: OwnedFd,
}

/// A process that handed its place over, and takes it back when no process has it any more.
#[derive(Debug)]
pub struct StandBy {
    lock: File,
    path: PathBuf,
}

/// Where the processes of this network namespace meet. No other user can get there, nor a container that does not have the directory.
pub fn meeting_point(directory: &Path, name: &str) -> io::Result<PathBuf> {
    local_socket::make_private_directory(directory)?;
    let namespace = std::fs::metadata("/proc/thread-self/ns/net")?.ino();
    Ok(directory.join(format!("{name}-{namespace}.sock")))
}

impl Offer {
    /// Offers sockets at this path. Fails with [`io::ErrorKind::AddrInUse`] if another process does so already.
    pub fn open(path: &Path) -> io::Result<Self> {
        let lock = path.with_extension("lock");
        let lock = File::options().create(true).truncate(false).write(true).mode(0o600).open(lock)?;
        match lock.try_lock() {
            Ok(()) => Self::listening(lock, path),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::AddrInUse.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Listens, with the lock held. What is at the path was left by a process that was killed.
    fn listening(lock: File, path: &Path) -> io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let socket = packet_socket()?;
        net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        net::listen(&socket, QUEUE)?;
        Ok(Self { socket, lock, path: path.into(), is_handed_over: false })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the next process that asks. Those of other users are turned away.
    pub fn wait(&self) -> io::Result<Successor> {
        loop {
            let socket = match net::accept_with(&self.socket, SocketFlags::CLOEXEC) {
                Ok(socket) => socket,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            if is_our_user(&socket) && set_timeouts(&socket, TIMEOUT).is_ok() && is_request(&socket) {
                return Ok(Successor { socket });
            }
        }
    }

    /// Passes the sockets on, and this place with them. After a failure they are still ours alone.
    pub fn hand_over(
        mut self,
        next: &Successor,
        sockets: &NamedSockets,
    ) -> Result<StandBy, (Self, io::Error)> {
        match self.pass_on(next, sockets) {
            Ok(stand_by) => {
                self.is_handed_over = true;
                Ok(stand_by)
            }
            Err(error) => Err((self, error)),
        }
    }

    fn pass_on(&self, next: &Successor, sockets: &NamedSockets) -> io::Result<StandBy> {
        // First of all: without it, no process would serve if the other process died.
        let stand_by = StandBy { lock: reopened(&self.lock)?, path: self.path.clone() };
        let is_sent = |(name, _): &(&String, &OwnedFd)| (1..=MAX_NAME).contains(&name.len());
        for (name, socket) in sockets.iter().filter(is_sent) {
            send_with(&next.socket, name.as_bytes(), socket.as_fd())?;
        }
        send_with(&next.socket, MEETING_POINT.as_bytes(), self.socket.as_fd())?;
        net::send(&next.socket, END, SendFlags::NOSIGNAL)?;
        // The other process confirms that it has them all. It serves if, and only if, it gets the lock: the kernel frees one that
        // no process receives.
        if !is_request(&next.socket) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        send_with(&next.socket, LOCK.as_bytes(), self.lock.as_fd())?;
        Ok(stand_by)
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        if !self.is_handed_over {
            // The next process makes its own.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl StandBy {
    /// Waits until no process has the place. From then on it is ours.
    pub fn wait(&self) {
        while self.lock.lock().is_err() {
            // Interrupted, or the kernel lacks memory for it.
            std::thread::park_timeout(RETRY_INTERVAL);
        }
    }

    /// Offers sockets there again, after [`Self::wait`].
    pub fn offer(self) -> io::Result<Offer> {
        Offer::listening(self.lock, &self.path)
    }
}

/// The same file, even if it was removed, with a lock of its own.
fn reopened(file: &File) -> io::Result<File> {
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Takes over the sockets of the process that runs, or is the first at this place. Either way those that come later wait here. Waits
/// while that process completes its own start, or others take over before us.
pub fn take_or_offer(path: &Path) -> io::Result<Taken> {
    let deadline = Instant::now() + TURN_TIMEOUT;
    loop {
        match Offer::open(path) {
            Ok(offer) => return Ok(Taken { sockets: NamedSockets::new(), offer: Some(offer) }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
        if let Some(taken) = take(path)? {
            return Ok(taken);
        }
        // Its owner does not listen yet, or has just died.
        if Instant::now() >= deadline {
            return Err(io::Error::other(format!("no process answers at {}", path.display())));
        }
        std::thread::park_timeout(RETRY_INTERVAL);
    }
}

/// Takes over from the process that listens, if there is one and it does not die meanwhile.
fn take(path: &Path) -> io::Result<Option<Taken>> {
    let socket = packet_socket()?;
    set_timeouts(&socket, TURN_TIMEOUT)?;
    match net::connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) => {}
        Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    if !is_our_user(&socket) {
        return Ok(None);
    }
    match receive_all(&socket, path) {
        Ok(taken) => Ok(Some(taken)),
        Err(error) if is_ended(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Asks for all sockets, confirms that they arrived, and waits for the lock.
fn receive_all(socket: &OwnedFd, path: &Path) -> io::Result<Taken> {
    net::send(socket, REQUEST, SendFlags::NOSIGNAL)?;
    let mut sockets = NamedSockets::new();
    while let Some((name, received)) = receive_with(socket)? {
        set_timeouts(socket, TIMEOUT)?;
        sockets.insert(name, received);
        if sockets.len() > MAX_SOCKETS {
            return Err(io::Error::other("too many sockets"));
        }
    }
    // The end of the connection looks like the end of the list.
    let meeting_point = sockets.remove(MEETING_POINT).ok_or(io::ErrorKind::ConnectionReset)?;
    net::send(socket, REQUEST, SendFlags::NOSIGNAL)?;
    match receive_with(socket)? {
        Some((name, lock)) if name == LOCK => {
            let offer =
                Offer { socket: meeting_point, lock: lock.into(), path: path.into(), is_handed_over: false };
            Ok(Taken { sockets, offer: Some(offer) })
        }
        Some(_) => Err(io::Error::other("a socket after the last one")),
        None => Err(io::ErrorKind::ConnectionReset.into()),
    }
}

fn is_ended(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

fn packet_socket() -> io::Result<OwnedFd> {
    Ok(net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

fn set_timeouts(socket: &OwnedFd, timeout: Duration) -> io::Result<()> {
    for direction in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
        sockopt::set_socket_timeout(socket, direction, Some(timeout))?;
    }
    Ok(())
}

/// The directory keeps others out already.
fn is_our_user(socket: &OwnedFd) -> bool {
    sockopt::socket_peercred(socket).is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}

fn is_request(socket: &OwnedFd) -> bool {
    let mut buffer = [0; REQUEST.len() + 1];
    let received = net::recv(socket, &mut buffer[..], RecvFlags::empty());
    received.is_ok_and(|(length, _)| &buffer[..length] == REQUEST)
}

fn send_with(socket: &OwnedFd, message: &[u8], passed: BorrowedFd<'_>) -> io::Result<()> {
    let fds = [passed];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    net::sendmsg(socket, &[IoSlice::new(message)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// A name with its socket; nothing at the end.
fn receive_with(socket: &OwnedFd) -> io::Result<Option<(String, OwnedFd)>> {
    let mut buffer = [0; MAX_NAME];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut buffer)];
    let received = net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let length = received.bytes;
    let passed = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    match passed {
        Some(passed) => Ok(Some((String::from_utf8_lossy(&buffer[..length]).into_owned(), passed))),
        None if length == 0 => Ok(None),
        None => Err(io::Error::other("a name without a socket")),
    }
}

#[cfg(test)]
mod tests;
