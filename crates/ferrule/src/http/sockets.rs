//! Listening sockets. A wildcard address means both families; health checks of Services listen in one family each.

use std::io;
use std::net::{Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

const BACKLOG: i32 = 1024;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Families {
    One,
    Both,
}

/// Listens on an address; a wildcard listens in both families.
pub fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    if address.ip().is_unspecified() {
        let both = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), address.port());
        match open(both, Families::Both) {
            Ok(socket) => return Ok(socket),
            // A kernel without IPv6.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
    }
    open(address, Families::Both)
}

/// Listens in the address's family only, also for a wildcard.
pub fn listen_in_one_family(address: SocketAddr) -> io::Result<TcpListener> {
    open(address, Families::One)
}

fn open(address: SocketAddr, families: Families) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket: OwnedFd = socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, families == Families::One)?;
    }
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}
