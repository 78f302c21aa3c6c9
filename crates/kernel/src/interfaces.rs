//! The addresses of this host's interfaces, and notifications of their changes.
//!
//! Which of them accept NodePorts is decided by the plan. Interfaces of our own are made in [`crate::dummy`].

mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::netlink::{Message, NetlinkError, Protocol, Request, Socket};

pub use watch::{AddressWatch, InterfaceEvents, InterfaceWatch, LinkWatch};

pub(crate) const NEW_LINK: u16 = 16;
pub(crate) const DELETE_LINK: u16 = 17;
pub(crate) const GET_LINK: u16 = 18;
pub(crate) const NEW_ADDRESS: u16 = 20;
pub(crate) const DELETE_ADDRESS: u16 = 21;
pub(crate) const GET_ADDRESS: u16 = 22;
/// The fixed parts of bodies.
pub(crate) const ADDRESS_FIXED: usize = 8;
pub(crate) const LINK_FIXED: usize = 16;
/// The far end of a point-to-point link, or the address itself.
pub(crate) const ADDRESS: u16 = 1;
/// The near end, where that is a different one.
pub(crate) const LOCAL: u16 = 2;
pub(crate) const LINK_NAME: u16 = 3;

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

/// The interface on which ipvs mode has the addresses of Services, under kube-proxy's name.
pub const SERVICE_INTERFACE: &str = "kube-ipvs0";

/// The addresses of this node: all but those that [`SERVICE_INTERFACE`] alone has.
pub fn node_addresses() -> Result<Vec<InterfaceAddress>, NetlinkError> {
    // In this order: of an interface that goes in between, what is left are no addresses without a name.
    let services = names()?.into_iter().find(|(_, name)| name == SERVICE_INTERFACE);
    let mut addresses = addresses()?;
    if let Some((index, _)) = services {
        addresses.retain(|found| found.interface != index);
    }
    Ok(addresses)
}

/// The names of all interfaces by index.
pub fn names() -> Result<BTreeMap<u32, String>, NetlinkError> {
    let mut socket = Socket::open(Protocol::Route, &[])?;
    let request = Request { operation: "listing interfaces", kind: GET_LINK, body: &[0; LINK_FIXED] };
    Ok(socket.dump_whole(request, link)?.into_iter().collect())
}

/// The interfaces that packets of a family can come in on and that have no address of it to which they could be redirected: over
/// IPv6 not a link-local one. Ports of a bridge do not count: packets come in on the bridge.
pub fn without_address(is_ipv6: bool) -> Result<BTreeSet<u32>, NetlinkError> {
    let mut socket = Socket::open(Protocol::Route, &[])?;
    let request = Request { operation: "listing interfaces", kind: GET_LINK, body: &[0; LINK_FIXED] };
    let mut links: BTreeSet<u32> = socket.dump_whole(request, routed_link)?.into_iter().collect();
    let is_usable = |ip: IpAddr| match ip {
        IpAddr::V4(_) => !is_ipv6,
        IpAddr::V6(ip) => is_ipv6 && !ip.is_unicast_link_local(),
    };
    for found in addresses()?.iter().filter(|found| is_usable(found.address)) {
        links.remove(&found.interface);
    }
    Ok(links)
}

/// Deletes an interface with its addresses.
pub fn delete(interface: u32) -> Result<(), NetlinkError> {
    let mut body = [0; LINK_FIXED];
    body[4..8].copy_from_slice(&interface.to_ne_bytes());
    let request = Request { operation: "removing an interface", kind: DELETE_LINK, body: &body };
    Socket::open(Protocol::Route, &[])?.request(request)
}

/// Decodes an address; `None` if the message is not about a new one.
pub fn address(message: &Message<'_>) -> Option<InterfaceAddress> {
    (message.kind == NEW_ADDRESS).then(|| any_address(message))?
}

/// Decodes an address that an interface gains or loses; `None` if the message is about something else.
fn any_address(message: &Message<'_>) -> Option<InterfaceAddress> {
    if !matches!(message.kind, NEW_ADDRESS | DELETE_ADDRESS) {
        return None;
    }
    let [_, prefix, _, _, interface @ ..] = *message.body.first_chunk::<ADDRESS_FIXED>()?;
    let attributes = message.attributes(ADDRESS_FIXED);
    let address = attributes.get(LOCAL).or(attributes.get(ADDRESS))?.address()?;
    Some(InterfaceAddress { interface: u32::from_ne_bytes(interface), address, prefix })
}

/// Decodes the index and name of an interface; `None` if the message is not about one that exists.
pub(crate) fn link(message: &Message<'_>) -> Option<(u32, String)> {
    let name = message.attributes(LINK_FIXED).text(LINK_NAME)?.to_owned();
    let index = link_index(message)?;
    (message.kind == NEW_LINK).then_some((index, name))
}

/// The index of an interface that is up and neither loopback nor part of another.
fn routed_link(message: &Message<'_>) -> Option<u32> {
    const UP: u32 = 1;
    const LOOPBACK: u32 = 8;
    const MASTER: u16 = 10;
    let flags = u32::from_ne_bytes(*message.body.get(8..)?.first_chunk()?);
    let is_routed = flags & (UP | LOOPBACK) == UP && message.attributes(LINK_FIXED).get(MASTER).is_none();
    link_index(message).filter(|_| is_routed && message.kind == NEW_LINK)
}

/// The interface that a message is about, if it is about the interface as such and not about a port of a bridge.
fn link_index(message: &Message<'_>) -> Option<u32> {
    const UNSPECIFIED: u8 = 0;
    let [family, _, _, _, interface @ .., _, _, _, _, _, _, _, _] =
        *message.body.first_chunk::<LINK_FIXED>()?;
    (family == UNSPECIFIED).then(|| u32::from_ne_bytes(interface))
}
