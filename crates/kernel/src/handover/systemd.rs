//! Sockets that systemd keeps between two processes (`FileDescriptorStoreMax=`).

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::net::{
    self, AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, sockopt,
};

use super::{MAX_SOCKETS, NamedSockets, TIMEOUT};
use crate::sys;

/// The sockets that systemd kept for us, the first time; nothing afterwards. Programs that this process starts do not get them.
pub fn from_systemd() -> NamedSockets {
    static IS_CALLED: AtomicBool = AtomicBool::new(false);
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let is_ours = variable("LISTEN_PID").parse() == Ok(std::process::id());
    if !is_ours || IS_CALLED.swap(true, Ordering::SeqCst) {
        return NamedSockets::new();
    }
    let count: usize = variable("LISTEN_FDS").parse().unwrap_or(0);
    let names = variable("LISTEN_FDNAMES");
    let names = names.split(':').map(str::to_owned).chain(std::iter::repeat(String::new()));
    let passed = sys::passed_descriptors(count.min(MAX_SOCKETS));
    for socket in &passed {
        // One that cannot be kept from programs is passed to them, which end soon.
        let _ = rustix::io::fcntl_setfd(socket, rustix::io::FdFlags::CLOEXEC);
    }
    names.zip(passed).collect()
}

/// Has systemd keep a socket for the next process. Does nothing without systemd.
pub fn store_in_systemd(name: &str, socket: BorrowedFd<'_>) -> io::Result<()> {
    let Some(systemd) = Systemd::of_environment()? else { return Ok(()) };
    // Without polling, an error that a socket reports does not make systemd forget it.
    systemd.send(&format!("FDSTORE=1\nFDNAME={name}\nFDPOLL=0\n"), Some(socket))
}

/// Has systemd close a socket it kept. Does nothing without systemd.
pub fn remove_from_systemd(name: &str) -> io::Result<()> {
    let Some(systemd) = Systemd::of_environment()? else { return Ok(()) };
    systemd.send(&format!("FDSTOREREMOVE=1\nFDNAME={name}\n"), None)
}

/// The manager of this service.
pub(super) struct Systemd {
    address: SocketAddrUnix,
}

impl Systemd {
    fn of_environment() -> io::Result<Option<Self>> {
        let path = std::env::var("NOTIFY_SOCKET").ok().filter(|path| !path.is_empty());
        path.map(|path| Self::at(&path)).transpose()
    }

    /// The socket is a path, or an abstract name after `@`.
    pub(super) fn at(path: &str) -> io::Result<Self> {
        let address = match path.strip_prefix('@') {
            Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
            None => SocketAddrUnix::new(path)?,
        };
        Ok(Self { address })
    }

    pub(super) fn send(&self, message: &str, passed: Option<BorrowedFd<'_>>) -> io::Result<()> {
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
