//! Opens sockets for servers and probes.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use ferrule_model::Protocol;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, ipproto};

/// A socket that never blocks, in the namespace this thread is in; without a protocol, one for echo requests.
pub(super) fn open(address: IpAddr, protocol: Option<Protocol>) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let (kind, number) = match protocol {
        Some(Protocol::Tcp) => (SocketType::STREAM, ipproto::TCP),
        Some(Protocol::Udp) => (SocketType::DGRAM, ipproto::UDP),
        Some(Protocol::Sctp) => (SocketType::STREAM, ipproto::SCTP),
        None if address.is_ipv4() => (SocketType::DGRAM, ipproto::ICMP),
        None => (SocketType::DGRAM, ipproto::ICMPV6),
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(net::socket_with(family, kind, flags, Some(number))?)
}

/// Whether an error means that this kernel lacks the protocol.
pub(super) fn is_unsupported(error: &io::Error) -> bool {
    let unsupported = [Errno::PROTONOSUPPORT, Errno::SOCKTNOSUPPORT, Errno::AFNOSUPPORT];
    unsupported.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
