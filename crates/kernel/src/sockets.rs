//! Listening sockets of one family, and the address this host would send from.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, RecvFlags, SocketFlags, SocketType, bind, listen, recv, socket_with, sockopt,
};

use crate::sys;

/// The kernel lowers it to `net.core.somaxconn`.
const BACKLOG: i32 = i32::MAX;

/// A TCP socket that listens on this address alone: one of all IPv6 addresses leaves IPv4 to others.
pub fn listen_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = bound(address, SocketType::STREAM)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// A TCP socket that is bound to this address alone and does not listen yet.
pub fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    Ok(bound(address, SocketType::STREAM)?.into())
}

/// Forgets the datagrams that a socket has received so far.
pub fn discard_received(socket: &UdpSocket) {
    // A sender that never stops is none of our business: some are enough.
    const LIMIT: usize = 1 << 16;
    let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
    let is_more = |_: &usize| recv(socket, &mut [0; 1][..], flags).is_ok();
    (0..LIMIT).take_while(is_more).for_each(drop);
}

/// A UDP socket that is bound to this address alone.
pub fn bind_udp(address: SocketAddr) -> io::Result<UdpSocket> {
    Ok(bound(address, SocketType::DGRAM)?.into())
}

/// Whether a socket of an IP family listens for connections; false if it is one for datagrams. Nothing for anything else.
pub fn is_listener(socket: &OwnedFd) -> Option<bool> {
    let domain = sockopt::socket_domain(socket).ok()?;
    let is_ip = domain == AddressFamily::INET || domain == AddressFamily::INET6;
    match sockopt::socket_type(socket).ok()? {
        SocketType::STREAM if is_ip => sockopt::socket_acceptconn(socket).ok().filter(|listens| *listens),
        SocketType::DGRAM if is_ip => Some(false),
        _ => None,
    }
}

/// The address from which this host would reach the rest of the world. Sends nothing.
pub fn default_source(is_ipv6: bool) -> Option<IpAddr> {
    // Addresses for documentation, which the default route is for.
    let (own, peer): (IpAddr, IpAddr) = if is_ipv6 {
        (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into())
    } else {
        (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into())
    };
    let socket = UdpSocket::bind((own, 0)).ok()?;
    socket.connect((peer, 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

fn bound(address: SocketAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    if kind == SocketType::STREAM {
        // Connections of an earlier run that are being closed do not keep us from the port.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    if address.ip().is_loopback() {
        keep_to_host(&socket)?;
    }
    bind(&socket, &address)?;
    Ok(socket)
}

/// Takes packets of this host alone: where `route_localnet` is on, others can send to loopback addresses, and from them.
fn keep_to_host(socket: &OwnedFd) -> io::Result<()> {
    // The kernel's own number for it, in every namespace.
    const LOOPBACK: i32 = 1;
    match sys::bind_to_interface(socket, LOOPBACK) {
        // Older kernels want a right for it that this process gives up; then the addresses of clients have to do.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_families_have_the_same_port_to_themselves() {
        let v4 = listen_tcp("0.0.0.0:0".parse().unwrap()).unwrap();
        let port = v4.local_addr().unwrap().port();
        listen_tcp(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port)).unwrap();
        let error = listen_tcp(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        bind_udp(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)).unwrap();
    }
}
