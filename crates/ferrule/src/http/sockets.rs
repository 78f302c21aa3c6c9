//! Sockets to listen on. A wildcard means both families where there are two; health checks of Services are of one alone.

use std::io;
use std::net::{Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

const BACKLOG: i32 = 1024;

/// Listens on an address; on all of both families if it is a wildcard.
pub fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    if address.ip().is_unspecified() {
        let both = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), address.port());
        match open(both, false) {
            Ok(socket) => return Ok(socket),
            // A kernel without IPv6.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
    }
    open(address, false)
}

/// Listens on an address of one family, also if it is a wildcard.
pub fn listen_in_one_family(address: SocketAddr) -> io::Result<TcpListener> {
    open(address, true)
}

fn open(address: SocketAddr, one_family: bool) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket: OwnedFd = socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, one_family)?;
    }
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}
