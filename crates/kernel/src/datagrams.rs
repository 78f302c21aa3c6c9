//! Datagrams in batches, with the local address that each was sent to.
//!
//! A batch is one system call. Datagrams of one size to one peer can go through the kernel as one message that it splits at the end
//! (`UDP_SEGMENT`), and can be received merged (`UDP_GRO`). Which ones go together is decided in `merging`, what they look like to
//! the kernel in `control`; the calls themselves are in [`crate::sys`].

mod control;
mod merging;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsFd;

use crate::sys;
use control::{decode_control, encode_local_address, encode_segment_size};
pub use merging::{Merging, Sent, send};

/// At most so many messages in one call.
pub const MAX_DATAGRAMS: usize = 64;
/// The longest datagram that UDP can carry fits.
const MAX_PAYLOAD: usize = 1 << 16;
/// An IPv6 socket address; an IPv4 one is shorter.
pub(crate) const NAME_LENGTH: libc::socklen_t = 28;
const NAME_BYTES: usize = NAME_LENGTH as usize;
/// Room for a control message about the local address, and one about the size of merged datagrams.
const CONTROL_WORDS: usize = 8;
const CONTROL_BYTES: usize = CONTROL_WORDS * size_of::<u64>();

/// Buffers for one batch of received datagrams.
#[derive(Debug)]
pub struct DatagramBatch {
    slots: Vec<ReceiveSlot>,
    received: usize,
}

/// One datagram that was received, or several of one sender that were received merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// All of it, as large as it may be.
    pub payload: &'a [u8],
    /// The size of each of several datagrams, of which the last may be shorter; otherwise that of the payload.
    pub segment: usize,
    /// Who sent it. `None` if the kernel does not say, as on a connected socket.
    pub peer: Option<SocketAddr>,
    /// The local address it was sent to, if [`report_local_addresses`] was called.
    pub local: Option<LocalAddress>,
}

/// One datagram to be sent, or several of one size.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// The whole datagram, which may be empty, or several.
    pub payload: &'a [u8],
    /// The size of each datagram, of which the last may be shorter.
    pub segment: usize,
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

/// One message as the kernel reads it.
#[derive(Debug)]
pub(crate) struct SendSlot<'a> {
    /// Sent as one message.
    pub(crate) pieces: &'a [Outgoing<'a>],
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

/// Makes a socket report the local address of each datagram.
pub fn report_local_addresses(socket: impl AsFd, address: SocketAddr) -> io::Result<()> {
    match address {
        SocketAddr::V4(_) => sys::enable_option(socket, libc::IPPROTO_IP, libc::IP_PKTINFO),
        SocketAddr::V6(_) => sys::enable_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    }
}

/// Makes a socket receive datagrams merged that a sender passed to the kernel in one piece, or that came in together.
pub fn receive_merged(socket: impl AsFd) -> io::Result<()> {
    sys::enable_option(socket, libc::IPPROTO_UDP, libc::UDP_GRO)
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
        if self.control_length == 0 {
            return Received { payload, segment: payload.len(), peer, local: None };
        }
        // No others are asked for, and both fit; more would be cut off.
        let mut bytes = [0_u8; CONTROL_BYTES];
        for (place, word) in bytes.chunks_exact_mut(size_of::<u64>()).zip(&self.control) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        let control = decode_control(bytes.get(..self.control_length).unwrap_or_default());
        let segment = control.segment.filter(|size| *size > 0).unwrap_or(payload.len());
        Received { payload, segment, peer, local: control.local }
    }
}

impl<'a> SendSlot<'a> {
    /// A message of these, which have one peer. Those of several datagrams are split by the kernel.
    fn new(pieces: &'a [Outgoing<'a>]) -> Self {
        let mut slot = Self {
            pieces,
            name: [0; NAME_BYTES],
            name_length: 0,
            control: [0; CONTROL_BYTES],
            control_length: 0,
        };
        let Some(first) = pieces.first() else { return slot };
        if let Some(peer) = first.peer {
            slot.name_length = encode_address(peer, &mut slot.name);
        }
        if let Some(local) = first.local {
            slot.control_length = encode_local_address(local, &mut slot.control);
        }
        if pieces.iter().map(Outgoing::count).sum::<usize>() > 1 {
            let rest = slot.control.get_mut(slot.control_length..).unwrap_or_default();
            slot.control_length += encode_segment_size(first.segment, rest);
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

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests;
