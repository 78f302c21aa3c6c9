//! Conntrack: listing flows and deleting single ones.
//!
//! Which flows are stale is decided by the plan. The kernel filters the listing; kernels before 5.8 cannot, and the rest is
//! filtered out here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::io::Errno;

use crate::netlink::{Attribute, Attributes, Dump, Message, NetlinkError, Protocol, Request, Socket, Writer};
use crate::nft::Family;

const GET: u16 = 1 << 8 | 1;
const DELETE: u16 = 1 << 8 | 2;
const FIXED: usize = 4;
const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const STATUS: u16 = 3;
const TUPLE_ADDRESSES: u16 = 1;
const TUPLE_PROTOCOL: u16 = 2;
const PROTOCOL_NUMBER: u16 = 1;
const SOURCE_PORT: u16 = 2;
const DESTINATION_PORT: u16 = 3;
const FILTER: u16 = 25;
const FILTER_ORIGINAL: u16 = 1;
const FILTER_REPLY: u16 = 2;
const STATUS_MASK: u16 = 26;
/// A bit of the status: packets went both ways.
const SEEN_REPLY: u32 = 1 << 1;
const PROTOCOL_STATE: u16 = 4;
/// The protocol's own state, and the one it is in after the first packet.
const TCP_STATE: u16 = 1;
const TCP_SYN_SENT: u8 = 1;
const SCTP_STATE: u16 = 3;
const SCTP_COOKIE_WAIT: u8 = 2;
const STATE: u16 = 1;
const IPV4_DESTINATION: u16 = 2;
const IPV6_DESTINATION: u16 = 4;
/// Bits of a filter: which parts of the tuple must match.
const BY_DESTINATION: u32 = 1 << 1;
const BY_PROTOCOL: u32 = 1 << 3;
const BY_DESTINATION_PORT: u32 = 1 << 5;

/// The protocol number of TCP.
pub const TCP: u8 = 6;
/// The protocol number of UDP.
pub const UDP: u8 = 17;
/// The protocol number of SCTP.
pub const SCTP: u8 = 132;

/// One connection of a protocol that has ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The protocol number.
    pub protocol: u8,
    /// Source and destination of the first packet.
    pub original: Direction,
    /// Source and destination of replies: not the reverse of the original if addresses are translated.
    pub reply: Direction,
    /// Whether it is a connection attempt of TCP or SCTP without a reply so far.
    pub is_unreplied: bool,
    /// The kernel's attributes, which identify it for deletion.
    attributes: Vec<u8>,
}

/// Source and destination of packets in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Direction {
    /// The sender's address and port.
    pub source: SocketAddr,
    /// The receiver's address and port.
    pub destination: SocketAddr,
}

/// Which flows to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowQuery {
    /// The family of their addresses.
    pub family: Family,
    /// The protocol number.
    pub protocol: u8,
    /// Which of them.
    pub filter: FlowFilter,
}

/// A condition on the original direction of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowFilter {
    /// All flows.
    All,
    /// Flows to this port of any address.
    Port(u16),
    /// Flows to this address and port.
    Destination(SocketAddr),
    /// See [`Flow::is_unreplied`].
    Unreplied,
}

impl FlowQuery {
    fn matches(&self, flow: &Flow) -> bool {
        let destination = flow.original.destination;
        let is_filtered = match self.filter {
            FlowFilter::All => true,
            FlowFilter::Port(port) => destination.port() == port,
            FlowFilter::Destination(address) => destination == address,
            FlowFilter::Unreplied => flow.is_unreplied,
        };
        flow.protocol == self.protocol && is_filtered
    }
}

/// A socket to conntrack.
#[derive(Debug)]
pub struct Conntrack {
    socket: Socket,
}

impl Conntrack {
    /// Opens the socket.
    pub fn open() -> Result<Self, NetlinkError> {
        Ok(Self { socket: Socket::open(Protocol::Netfilter, &[])? })
    }

    /// All flows of a family and protocol. An interrupted list may lack some.
    pub fn flows(&mut self, family: Family, protocol: u8) -> Result<Dump<Flow>, NetlinkError> {
        self.some_flows(FlowQuery { family, protocol, filter: FlowFilter::All }, |_| true)
    }

    /// The flows of a query that are wanted. The kernel applies the query, and only wanted flows are kept: there may be
    /// millions.
    pub fn some_flows(
        &mut self,
        query: FlowQuery,
        is_wanted: impl Fn(&Flow) -> bool,
    ) -> Result<Dump<Flow>, NetlinkError> {
        let is_match = |flow: &Flow| query.matches(flow) && is_wanted(flow);
        match self.list(&filtered(query), &is_match) {
            Err(error)
                if error.rejection().is_some_and(|rejection| {
                    rejection.is(Errno::OPNOTSUPP) || rejection.is(Errno::INVAL)
                }) =>
            {
                self.list(&fixed(query.family), &is_match)
            }
            listed => listed,
        }
    }

    /// Deletes a flow; succeeds if it is gone already.
    pub fn delete(&mut self, flow: &Flow) -> Result<(), NetlinkError> {
        let family = if flow.original.source.is_ipv4() { Family::Ip } else { Family::Ip6 };
        let mut body = fixed(family).to_vec();
        body.extend_from_slice(&flow.attributes);
        let request = Request { operation: "deleting a flow from conntrack", kind: DELETE, body: &body };
        match self.socket.request(request) {
            Err(error) if error.rejection().is_some_and(|rejection| rejection.is(Errno::NOENT)) => Ok(()),
            deleted => deleted,
        }
    }

    fn list(&mut self, body: &[u8], is_match: &dyn Fn(&Flow) -> bool) -> Result<Dump<Flow>, NetlinkError> {
        let request = Request { operation: "listing conntrack's flows", kind: GET, body };
        self.socket.dump(request, |message| flow(message).filter(is_match))
    }
}

/// Decodes a flow; `None` if its protocol has no ports.
pub fn flow(message: &Message<'_>) -> Option<Flow> {
    let attributes = message.attributes(FIXED);
    let (protocol, original) = direction(attributes.nested(ORIGINAL)?)?;
    let (_, reply) = direction(attributes.nested(REPLY)?)?;
    let is_unreplied = is_unreplied(protocol, attributes);
    let attributes = message.body.get(FIXED..).unwrap_or_default().to_vec();
    Some(Flow { protocol, original, reply, is_unreplied, attributes })
}

/// Without a state from the kernel it is taken to be replied.
fn is_unreplied(protocol: u8, attributes: Attributes<'_>) -> bool {
    let has_no_reply = attributes.number(STATUS).is_some_and(|status| status & SEEN_REPLY == 0);
    let (of_protocol, first) = match protocol {
        TCP => (TCP_STATE, TCP_SYN_SENT),
        SCTP => (SCTP_STATE, SCTP_COOKIE_WAIT),
        _ => return false,
    };
    let state = attributes.nested(PROTOCOL_STATE).and_then(|states| states.nested(of_protocol));
    let state = state.and_then(|state| state.get(STATE)).and_then(Attribute::byte);
    has_no_reply && state == Some(first)
}

fn direction(tuple: Attributes<'_>) -> Option<(u8, Direction)> {
    let (source, destination) = addresses(tuple.nested(TUPLE_ADDRESSES)?)?;
    let protocol = tuple.nested(TUPLE_PROTOCOL)?;
    let port = |kind| protocol.get(kind).and_then(Attribute::short);
    let number = protocol.get(PROTOCOL_NUMBER).and_then(Attribute::byte)?;
    let source = SocketAddr::new(source, port(SOURCE_PORT)?);
    let destination = SocketAddr::new(destination, port(DESTINATION_PORT)?);
    Some((number, Direction { source, destination }))
}

fn addresses(attributes: Attributes<'_>) -> Option<(IpAddr, IpAddr)> {
    let ipv4 = |kind| {
        let octets = <[u8; 4]>::try_from(attributes.get(kind)?.value).ok()?;
        Some(IpAddr::from(Ipv4Addr::from(octets)))
    };
    let ipv6 = |kind| {
        let octets = <[u8; 16]>::try_from(attributes.get(kind)?.value).ok()?;
        Some(IpAddr::from(Ipv6Addr::from(octets)))
    };
    ipv4(1).zip(ipv4(2)).or_else(|| ipv6(3).zip(ipv6(4)))
}

fn fixed(family: Family) -> [u8; FIXED] {
    [family.number(), 0, 0, 0]
}

/// A request that has the kernel apply the query.
fn filtered(query: FlowQuery) -> Vec<u8> {
    let (parts, address, port) = match query.filter {
        FlowFilter::Unreplied | FlowFilter::All => (BY_PROTOCOL, None, None),
        FlowFilter::Port(port) => (BY_PROTOCOL | BY_DESTINATION_PORT, None, Some(port)),
        FlowFilter::Destination(to) => {
            (BY_PROTOCOL | BY_DESTINATION | BY_DESTINATION_PORT, Some(to.ip()), Some(to.port()))
        }
    };
    let mut writer = Writer::new();
    writer.raw(&fixed(query.family));
    writer.nest(ORIGINAL, |writer| {
        if let Some(address) = address {
            writer.nest(TUPLE_ADDRESSES, |writer| match address {
                IpAddr::V4(ip) => writer.bytes(IPV4_DESTINATION, &ip.octets()),
                IpAddr::V6(ip) => writer.bytes(IPV6_DESTINATION, &ip.octets()),
            });
        }
        writer.nest(TUPLE_PROTOCOL, |writer| {
            writer.byte(PROTOCOL_NUMBER, query.protocol);
            if let Some(port) = port {
                writer.bytes(DESTINATION_PORT, &port.to_be_bytes());
            }
        });
    });
    if query.filter == FlowFilter::Unreplied {
        writer.bytes(STATUS, &0_u32.to_be_bytes());
        writer.bytes(STATUS_MASK, &SEEN_REPLY.to_be_bytes());
    }
    writer.nest(FILTER, |writer| {
        // These two are in host order, unlike all else here.
        writer.bytes(FILTER_ORIGINAL, &parts.to_ne_bytes());
        writer.bytes(FILTER_REPLY, &0_u32.to_ne_bytes());
    });
    writer.as_bytes().to_vec()
}
