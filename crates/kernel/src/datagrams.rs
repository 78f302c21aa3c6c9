//! Datagrams in batches, with the local address that each was sent to.
//!
//! A batch is one system call. Addresses and control data are encoded and decoded here; the calls themselves are in [`crate::sys`].

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsFd;

use crate::sys;

/// At most so many datagrams in one call.
pub const MAX_DATAGRAMS: usize = 32;
/// The longest datagram that UDP can carry fits.
const MAX_PAYLOAD: usize = 1 << 16;
/// An IPv6 socket address; an IPv4 one is shorter.
pub(crate) const NAME_LENGTH: libc::socklen_t = 28;
const NAME_BYTES: usize = NAME_LENGTH as usize;
/// Room for one message about the local address.
const CONTROL_WORDS: usize = 8;
/// A length, a level and a type, in front of each control message.
const CONTROL_HEADER: usize = size_of::<usize>() + 2 * size_of::<i32>();
const CONTROL_BYTES: usize = CONTROL_WORDS * size_of::<u64>();

/// Buffers for one batch of received datagrams.
#[derive(Debug)]
pub struct DatagramBatch {
    slots: Vec<ReceiveSlot>,
    received: usize,
}

/// One datagram that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// All of it, as large as it may be.
    pub payload: &'a [u8],
    /// Who sent it. `None` if the kernel does not say, as on a connected socket.
    pub peer: Option<SocketAddr>,
    /// The local address it was sent to, if [`report_local_addresses`] was called.
    pub local: Option<LocalAddress>,
}

/// One datagram to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// The whole datagram; may be empty.
    pub payload: &'a [u8],
    /// The receiver. `None` on a connected socket.
    pub peer: Option<SocketAddr>,
    /// The source address. `None` lets the kernel choose.
    pub local: Option<LocalAddress>,
}

/// An address of this host that a datagram was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LocalAddress {
    /// The address.
    pub ip: IpAddr,
    /// The interface that it arrived at. Only link-local addresses are bound to it in replies.
    pub interface: u32,
}

/// Where the kernel puts one datagram.
#[derive(Debug)]
pub(crate) struct ReceiveSlot {
    pub(crate) payload: Box<[u8]>,
    pub(crate) length: usize,
    pub(crate) name: [u8; NAME_BYTES],
    pub(crate) name_length: usize,
    /// Words, so that it is aligned for the headers in it.
    pub(crate) control: [u64; CONTROL_WORDS],
    pub(crate) control_length: usize,
}

/// One datagram as the kernel reads it.
#[derive(Debug)]
pub(crate) struct SendSlot<'a> {
    pub(crate) payload: &'a [u8],
    name: [u8; NAME_BYTES],
    name_length: usize,
    control: [u8; CONTROL_BYTES],
    control_length: usize,
}

impl Default for DatagramBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl DatagramBatch {
    /// Memory is used as datagrams come in: pages that no datagram reached do not count.
    pub fn new() -> Self {
        Self { slots: (0..MAX_DATAGRAMS).map(|_| ReceiveSlot::new()).collect(), received: 0 }
    }

    /// Receives what is there, at most `limit` and [`MAX_DATAGRAMS`], without waiting. Returns the number of datagrams; fewer
    /// than asked for means that there were no more.
    pub fn receive(&mut self, socket: impl AsFd, limit: usize) -> io::Result<usize> {
        self.received = 0;
        let limit = limit.min(self.slots.len());
        self.received = sys::receive_datagrams(socket, &mut self.slots[..limit])?;
        Ok(self.received)
    }

    /// The datagrams of the last call.
    pub fn datagrams(&self) -> impl Iterator<Item = Received<'_>> {
        self.slots.iter().take(self.received).map(ReceiveSlot::received)
    }
}

/// Sends datagrams, at most [`MAX_DATAGRAMS`], without waiting. Returns how many were sent; an error is that of the first.
pub fn send(socket: impl AsFd, datagrams: &[Outgoing<'_>]) -> io::Result<usize> {
    if let [only] = datagrams {
        return sys::send_datagrams(socket, &[SendSlot::new(only)]);
    }
    let slots: Vec<SendSlot<'_>> = datagrams.iter().take(MAX_DATAGRAMS).map(SendSlot::new).collect();
    sys::send_datagrams(socket, &slots)
}

/// Makes a socket report the local address of each datagram.
pub fn report_local_addresses(socket: impl AsFd, address: SocketAddr) -> io::Result<()> {
    match address {
        SocketAddr::V4(_) => sys::enable_option(socket, libc::IPPROTO_IP, libc::IP_PKTINFO),
        SocketAddr::V6(_) => sys::enable_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    }
}

/// Makes a socket that is bound to an address get its port when it is connected, when fewer ports are taken.
pub fn choose_port_when_connecting(socket: impl AsFd) -> io::Result<()> {
    const IP_BIND_ADDRESS_NO_PORT: libc::c_int = 24;
    sys::enable_option(socket, libc::IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT)
}

impl ReceiveSlot {
    fn new() -> Self {
        let payload = vec![0; MAX_PAYLOAD].into_boxed_slice();
        Self {
            payload,
            length: 0,
            name: [0; NAME_BYTES],
            name_length: 0,
            control: [0; CONTROL_WORDS],
            control_length: 0,
        }
    }

    fn received(&self) -> Received<'_> {
        let payload = self.payload.get(..self.length).unwrap_or_default();
        let peer = self.name.get(..self.name_length).and_then(decode_address);
        // Only one message is asked for, and it fits; others would be cut off.
        let mut bytes = [0_u8; CONTROL_BYTES];
        for (place, word) in bytes.chunks_exact_mut(size_of::<u64>()).zip(&self.control) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        let local = bytes.get(..self.control_length).and_then(decode_local_address);
        Received { payload, peer, local }
    }
}

impl<'a> SendSlot<'a> {
    fn new(datagram: &Outgoing<'a>) -> Self {
        let mut slot = Self {
            payload: datagram.payload,
            name: [0; NAME_BYTES],
            name_length: 0,
            control: [0; CONTROL_BYTES],
            control_length: 0,
        };
        if let Some(peer) = datagram.peer {
            slot.name_length = encode_address(peer, &mut slot.name);
        }
        if let Some(local) = datagram.local {
            slot.control_length = encode_local_address(local, &mut slot.control);
        }
        slot
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.name[..self.name_length]
    }

    pub(crate) fn control(&self) -> &[u8] {
        &self.control[..self.control_length]
    }
}

/// A socket address as the kernel writes it: the family in the machine's order, the rest as on the wire.
fn decode_address(name: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(array(name, 0)?));
    let port = u16::from_be_bytes(array(name, 2)?);
    match family {
        libc::AF_INET => Some(SocketAddrV4::new(Ipv4Addr::from(array::<4>(name, 4)?), port).into()),
        libc::AF_INET6 => {
            let flow = u32::from_ne_bytes(array(name, 4)?);
            let scope = u32::from_ne_bytes(array(name, 24)?);
            Some(SocketAddrV6::new(Ipv6Addr::from(array::<16>(name, 8)?), port, flow, scope).into())
        }
        _ => None,
    }
}

fn encode_address(address: SocketAddr, name: &mut [u8; NAME_BYTES]) -> usize {
    name[2..4].copy_from_slice(&address.port().to_be_bytes());
    match address {
        SocketAddr::V4(address) => {
            name[..2].copy_from_slice(&family_bytes(libc::AF_INET));
            name[4..8].copy_from_slice(&address.ip().octets());
            16
        }
        SocketAddr::V6(address) => {
            name[..2].copy_from_slice(&family_bytes(libc::AF_INET6));
            name[8..24].copy_from_slice(&address.ip().octets());
            name[24..28].copy_from_slice(&address.scope_id().to_ne_bytes());
            NAME_BYTES
        }
    }
}

fn family_bytes(family: i32) -> [u8; 2] {
    u16::try_from(family).unwrap_or_default().to_ne_bytes()
}

/// The first control message, if it is about the local address.
fn decode_local_address(control: &[u8]) -> Option<LocalAddress> {
    let level = i32::from_ne_bytes(array(control, size_of::<usize>())?);
    let kind = i32::from_ne_bytes(array(control, size_of::<usize>() + size_of::<i32>())?);
    let data = control.get(CONTROL_HEADER..)?;
    match (level, kind) {
        // The interface, the address to reply from, the destination in the header.
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            let interface = u32::from_ne_bytes(array(data, 0)?);
            Some(LocalAddress { ip: Ipv4Addr::from(array::<4>(data, 4)?).into(), interface })
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let interface = u32::from_ne_bytes(array(data, 16)?);
            Some(LocalAddress { ip: Ipv6Addr::from(array::<16>(data, 0)?).into(), interface })
        }
        _ => None,
    }
}

fn encode_local_address(local: LocalAddress, control: &mut [u8; CONTROL_BYTES]) -> usize {
    let (level, kind, data_length) = match local.ip {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_PKTINFO, 12),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, 20),
    };
    let length = CONTROL_HEADER + data_length;
    control[..size_of::<usize>()].copy_from_slice(&length.to_ne_bytes());
    control[size_of::<usize>()..][..4].copy_from_slice(&level.to_ne_bytes());
    control[size_of::<usize>() + 4..][..4].copy_from_slice(&kind.to_ne_bytes());
    match local.ip {
        // No interface: the reply follows the routes, which may lead out of another one.
        IpAddr::V4(ip) => control[CONTROL_HEADER + 4..][..4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => {
            control[CONTROL_HEADER..][..16].copy_from_slice(&ip.octets());
            if ip.is_unicast_link_local() {
                control[CONTROL_HEADER + 16..][..4].copy_from_slice(&local.interface.to_ne_bytes());
            }
        }
    }
    // The kernel wants room for the message up to the next aligned one.
    length.next_multiple_of(size_of::<usize>())
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests;
