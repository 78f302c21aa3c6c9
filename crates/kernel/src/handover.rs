//! Passes open sockets from one process to the next, so that no client that connects meanwhile is refused.
//!
//! Two ways: straight from the process that runs to the one that starts, over a socket in a directory that is root's alone; or through
//! systemd, which keeps them in between (`FileDescriptorStoreMax=`). Sockets go by names that the caller chooses.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};

use crate::sys;

/// The rights of other users.
const OTHERS: u32 = 0o077;
/// How long the other process may take for one message.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Longer names are cut by systemd, too.
const MAX_NAME: usize = 255;
/// More sockets than this are not passed on.
const MAX_SOCKETS: usize = 1 << 16;
/// What a process that takes over begins with.
const REQUEST: &[u8] = b"sockets of ferrule, version 1";
/// Follows the last socket.
const END: &[u8] = b"";

/// Sockets by name.
pub type NamedSockets = BTreeMap<String, OwnedFd>;

/// Waits for a process that takes over.
#[derive(Debug)]
pub struct Offer {
    socket: OwnedFd,
    path: PathBuf,
}

/// A process that asks for our sockets.
#[derive(Debug)]
pub struct Successor {
    socket: OwnedFd,
}

/// Where the processes of this network namespace meet. No other user can get there, nor a container that does not have the directory.
pub fn meeting_point(directory: &Path, name: &str) -> io::Result<PathBuf> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let found = std::fs::symlink_metadata(directory)?;
    let others = found.mode() & OTHERS;
    let is_private = found.is_dir() && others == 0;
    if !is_private || found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other(format!("{} is open to other users", directory.display())));
    }
    let namespace = std::fs::metadata("/proc/thread-self/ns/net")?.ino();
    Ok(directory.join(format!("{name}-{namespace}.sock")))
}

impl Offer {
    /// Offers sockets at this path. Fails if another process does so already.
    pub fn open(path: &Path) -> io::Result<Self> {
        let socket = packet_socket()?;
        let address = SocketAddrUnix::new(path)?;
        match net::bind(&socket, &address) {
            // Left by a process that was killed.
            Err(rustix::io::Errno::ADDRINUSE) if !is_in_use(&address)? => {
                std::fs::remove_file(path)?;
                net::bind(&socket, &address)?;
            }
            bound => bound?,
        }
        net::listen(&socket, 1)?;
        Ok(Self { socket, path: path.into() })
    }

    /// Waits for the next process that asks. Those of other users are turned away.
    pub fn wait(&self) -> io::Result<Successor> {
        loop {
            let socket = match net::accept_with(&self.socket, SocketFlags::CLOEXEC) {
                Ok(socket) => socket,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            if is_our_user(&socket) && set_timeouts(&socket).is_ok() && is_request(&socket) {
                return Ok(Successor { socket });
            }
        }
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        // The next process makes its own.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn is_in_use(address: &SocketAddrUnix) -> io::Result<bool> {
    match net::connect(packet_socket()?, address) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl Successor {
    /// Passes the sockets on.
    pub fn send(&self, sockets: &NamedSockets) -> io::Result<()> {
        for (name, socket) in sockets.iter().filter(|(name, _)| (1..=MAX_NAME).contains(&name.len())) {
            send_with(&self.socket, name.as_bytes(), socket.as_fd())?;
        }
        net::send(&self.socket, END, SendFlags::NOSIGNAL)?;
        // The other process confirms that it has them all.
        is_request(&self.socket).then_some(()).ok_or_else(|| io::ErrorKind::ConnectionAborted.into())
    }
}

/// Takes over the sockets of the process that runs. None if there is no such process, or it is another user's.
pub fn take(path: &Path) -> io::Result<NamedSockets> {
    let socket = packet_socket()?;
    set_timeouts(&socket)?;
    match net::connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) => {}
        Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::NOENT) => return Ok(NamedSockets::new()),
        Err(error) => return Err(error.into()),
    }
    if !is_our_user(&socket) {
        return Ok(NamedSockets::new());
    }
    net::send(&socket, REQUEST, SendFlags::NOSIGNAL)?;
    let mut sockets = NamedSockets::new();
    while let Some((name, received)) = receive_with(&socket)? {
        sockets.insert(name, received);
        if sockets.len() > MAX_SOCKETS {
            return Err(io::Error::other("too many sockets"));
        }
    }
    net::send(&socket, REQUEST, SendFlags::NOSIGNAL)?;
    Ok(sockets)
}

/// The sockets that systemd kept for us. Call it once, before other descriptors are opened in their place.
pub fn from_systemd() -> NamedSockets {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    if variable("LISTEN_PID").parse() != Ok(std::process::id()) {
        return NamedSockets::new();
    }
    let count: usize = variable("LISTEN_FDS").parse().unwrap_or(0);
    let names = variable("LISTEN_FDNAMES");
    let names = names.split(':').map(str::to_owned).chain(std::iter::repeat(String::new()));
    names.zip(sys::passed_descriptors(count.min(MAX_SOCKETS))).collect()
}

/// Has systemd keep a socket for the next process. Does nothing without systemd.
pub fn store_in_systemd(name: &str, socket: BorrowedFd<'_>) -> io::Result<()> {
    let Some(systemd) = Systemd::of_environment()? else { return Ok(()) };
    systemd.send(&format!("FDSTORE=1\nFDNAME={name}\n"), Some(socket))
}

/// Has systemd close a socket it kept. Does nothing without systemd.
pub fn remove_from_systemd(name: &str) -> io::Result<()> {
    let Some(systemd) = Systemd::of_environment()? else { return Ok(()) };
    systemd.send(&format!("FDSTOREREMOVE=1\nFDNAME={name}\n"), None)
}

/// The manager of this service.
struct Systemd {
    address: SocketAddrUnix,
}

impl Systemd {
    fn of_environment() -> io::Result<Option<Self>> {
        let path = std::env::var("NOTIFY_SOCKET").ok().filter(|path| !path.is_empty());
        path.map(|path| Self::at(&path)).transpose()
    }

    /// The socket is a path, or an abstract name after `@`.
    fn at(path: &str) -> io::Result<Self> {
        let address = match path.strip_prefix('@') {
            Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
            None => SocketAddrUnix::new(path)?,
        };
        Ok(Self { address })
    }

    fn send(&self, message: &str, passed: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let socket = net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(TIMEOUT))?;
        let fds: Vec<BorrowedFd<'_>> = passed.into_iter().collect();
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&fds));
        }
        let parts = [IoSlice::new(message.as_bytes())];
        net::sendmsg_addr(&socket, &self.address, &parts, &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

fn packet_socket() -> io::Result<OwnedFd> {
    Ok(net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

fn set_timeouts(socket: &OwnedFd) -> io::Result<()> {
    for direction in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
        sockopt::set_socket_timeout(socket, direction, Some(TIMEOUT))?;
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
