//! The addresses of this host's interfaces, and notifications of their changes.
//!
//! Which of them accept NodePorts is decided by the plan.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};

use crate::netlink::{Incoming, Message, NetlinkError, Protocol, Request, Socket};

const GET_LINK: u16 = 18;
const GET_ADDRESS: u16 = 22;
const NEW_LINK: u16 = 16;
const DELETE_LINK: u16 = 17;
const NEW_ADDRESS: u16 = 20;
const IPV4_ADDRESSES: u32 = 5;
const IPV6_ADDRESSES: u32 = 9;
/// The fixed parts of bodies.
const ADDRESS_FIXED: usize = 8;
const LINK_FIXED: usize = 16;
/// The far end of a point-to-point link, or the address itself.
const ADDRESS: u16 = 1;
/// The near end, where that is a different one.
const LOCAL: u16 = 2;
const LINK_NAME: u16 = 3;

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterfaceAddress {
    /// The interface index.
    pub interface: u32,
    /// The address; on point-to-point links our own end.
    pub address: IpAddr,
    /// The prefix length.
    pub prefix: u8,
}

/// All addresses of all interfaces, whatever their state.
pub fn addresses() -> Result<Vec<InterfaceAddress>, NetlinkError> {
    let mut socket = Socket::open(Protocol::Route, &[])?;
    let operation = "listing the addresses of interfaces";
    let request = Request { operation, kind: GET_ADDRESS, body: &[0; ADDRESS_FIXED] };
    socket.dump_whole(request, address)
}

/// The names of all interfaces by index.
pub fn names() -> Result<BTreeMap<u32, String>, NetlinkError> {
    let mut socket = Socket::open(Protocol::Route, &[])?;
    let request = Request { operation: "listing interfaces", kind: GET_LINK, body: &[0; LINK_FIXED] };
    Ok(socket.dump_whole(request, link)?.into_iter().collect())
}

/// Deletes an interface with its addresses.
pub fn delete(interface: u32) -> Result<(), NetlinkError> {
    let mut body = [0; LINK_FIXED];
    body[4..8].copy_from_slice(&interface.to_ne_bytes());
    let request = Request { operation: "removing an interface", kind: DELETE_LINK, body: &body };
    Socket::open(Protocol::Route, &[])?.request(request)
}

/// Receives notifications of address changes.
#[derive(Debug)]
pub struct AddressWatch {
    socket: Socket,
}

impl AddressWatch {
    /// Receives every change from now on.
    pub fn open() -> Result<Self, NetlinkError> {
        Ok(Self { socket: Socket::open(Protocol::Route, &[IPV4_ADDRESSES, IPV6_ADDRESSES])? })
    }

    /// Whether any address changed since the last call, without waiting. To wait, poll the descriptor for reading.
    pub fn changed(&mut self) -> Result<bool, NetlinkError> {
        let mut changed = false;
        loop {
            match self.socket.receive_now(|_| {})? {
                Incoming::Messages | Incoming::Overrun => changed = true,
                Incoming::Nothing => return Ok(changed),
            }
        }
    }
}

impl AsFd for AddressWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Decodes an address; `None` if the message is not about a new one.
pub fn address(message: &Message<'_>) -> Option<InterfaceAddress> {
    let [_, prefix, _, _, interface @ ..] = *message.body.first_chunk::<ADDRESS_FIXED>()?;
    let attributes = message.attributes(ADDRESS_FIXED);
    let bytes = attributes.get(LOCAL).or(attributes.get(ADDRESS))?.value;
    let address = match bytes.len() {
        4 => IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        _ => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
    };
    let interface = u32::from_ne_bytes(interface);
    (message.kind == NEW_ADDRESS).then_some(InterfaceAddress { interface, address, prefix })
}

fn link(message: &Message<'_>) -> Option<(u32, String)> {
    let [_, _, _, _, interface @ .., _, _, _, _, _, _, _, _] = *message.body.first_chunk::<LINK_FIXED>()?;
    let name = message.attributes(LINK_FIXED).text(LINK_NAME)?.to_owned();
    (message.kind == NEW_LINK).then_some((u32::from_ne_bytes(interface), name))
}
