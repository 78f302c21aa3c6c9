//! The kernel's table of connections: listing flows and deleting single ones.
//!
//! Which flows are stale is the plan's matter. Asks the kernel to list only what is wanted; kernels before 5.8
//! list more, and the rest is left out here.

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
/// In a status: packets went both ways.
const SEEN_REPLY: u32 = 1 << 1;
const PROTOCOL_STATE: u16 = 4;
/// In what is said of a protocol's state: which protocol, the state itself, and the one in which a first packet was seen and
/// no more.
const TCP_STATE: u16 = 1;
const TCP_SYN_SENT: u8 = 1;
const SCTP_STATE: u16 = 3;
const SCTP_COOKIE_WAIT: u8 = 2;
const STATE: u16 = 1;
const IPV4_DESTINATION: u16 = 2;
const IPV6_DESTINATION: u16 = 4;
/// In a filter: which parts of the tuple count.
const BY_DESTINATION: u32 = 1 << 1;
const BY_PROTOCOL: u32 = 1 << 3;
const BY_DESTINATION_PORT: u32 = 1 << 5;

/// TCP's number among protocols.
pub const TCP: u8 = 6;
/// UDP's.
pub const UDP: u8 = 17;
/// SCTP's.
pub const SCTP: u8 = 132;

/// One connection, as far as it has ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The number of its protocol.
    pub protocol: u8,
    /// From whom the first packet came, and to whom it was sent.
    pub original: Direction,
    /// Who answers, and to whom: differs from the original where addresses are translated.
    pub reply: Direction,
    /// Whether it is but an attempt to connect, which nobody answered yet.
    pub is_attempt: bool,
    /// All the kernel said about it, by which it is deleted.
    attributes: Vec<u8>,
}

/// The two ends of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Direction {
    /// Where packets come from.
    pub source: SocketAddr,
    /// Where packets go to.
    pub destination: SocketAddr,
}

/// Which flows are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those that were sent somewhere.
    SentTo(SentTo),
    /// Attempts to connect that nobody answered yet.
    Attempts,
}

/// Where flows were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentTo {
    /// All of the protocol.
    Anywhere,
    /// Those that were sent to this port of any address.
    Port(u16),
    /// Those that were sent here.
    Address(SocketAddr),
}

impl Which {
    fn covers(self, flow: &Flow) -> bool {
        let destination = flow.original.destination;
        match self {
            Self::SentTo(SentTo::Anywhere) => true,
            Self::SentTo(SentTo::Port(port)) => destination.port() == port,
            Self::SentTo(SentTo::Address(address)) => destination == address,
            Self::Attempts => flow.is_attempt,
        }
    }
}

/// The kernel's table of connections.
#[derive(Debug)]
pub struct Conntrack {
    socket: Socket,
}

impl Conntrack {
    /// A connection to the kernel.
    pub fn open() -> Result<Self, NetlinkError> {
        Ok(Self { socket: Socket::open(Protocol::Netfilter, &[])? })
    }

    /// The flows of a family and protocol. An interrupted list may lack some.
    pub fn flows(&mut self, family: Family, protocol: u8) -> Result<Dump<Flow>, NetlinkError> {
        self.some_flows(family, (protocol, Which::SentTo(SentTo::Anywhere)), |_| true)
    }

    /// Some of them, and of those the wanted ones. The kernel picks them, and no others are kept: it may know millions.
    pub fn some_flows(
        &mut self,
        family: Family,
        (protocol, which): (u8, Which),
        is_wanted: impl Fn(&Flow) -> bool,
    ) -> Result<Dump<Flow>, NetlinkError> {
        let is_asked_for = |flow: &Flow| flow.protocol == protocol && which.covers(flow) && is_wanted(flow);
        let fixed = [family.number(), 0, 0, 0];
        match self.list(&filtered(fixed, protocol, which), &is_asked_for) {
            Err(error)
                if error
                    .refusal()
                    .is_some_and(|refusal| refusal.is(Errno::OPNOTSUPP) || refusal.is(Errno::INVAL)) =>
            {
                self.list(&fixed, &is_asked_for)
            }
            listed => listed,
        }
    }

    /// Deletes a flow. It does not matter if it is gone already.
    pub fn delete(&mut self, flow: &Flow) -> Result<(), NetlinkError> {
        let family = if flow.original.source.is_ipv4() { Family::Ip } else { Family::Ip6 };
        let mut body = vec![family.number(), 0, 0, 0];
        body.extend_from_slice(&flow.attributes);
        let request = Request { operation: "deleting a flow from conntrack", kind: DELETE, body: &body };
        match self.socket.request(request) {
            Err(error) if error.refusal().is_some_and(|refusal| refusal.is(Errno::NOENT)) => Ok(()),
            deleted => deleted,
        }
    }

    fn list(
        &mut self,
        body: &[u8],
        is_asked_for: &dyn Fn(&Flow) -> bool,
    ) -> Result<Dump<Flow>, NetlinkError> {
        let request = Request { operation: "listing conntrack's flows", kind: GET, body };
        self.socket.dump(request, |message| flow(message).filter(is_asked_for))
    }
}

/// The flow a message tells of; `None` for those without ports.
pub fn flow(message: &Message<'_>) -> Option<Flow> {
    let attributes = message.attributes(FIXED);
    let (protocol, original) = direction(attributes.nested(ORIGINAL)?)?;
    let (_, reply) = direction(attributes.nested(REPLY)?)?;
    let is_attempt = is_attempt(protocol, attributes);
    let attributes = message.body.get(FIXED..).unwrap_or_default().to_vec();
    Some(Flow { protocol, original, reply, is_attempt, attributes })
}

/// What the kernel does not say so of is no attempt.
fn is_attempt(protocol: u8, attributes: Attributes<'_>) -> bool {
    let is_unanswered = attributes.number(STATUS).is_some_and(|status| status & SEEN_REPLY == 0);
    let (of_protocol, first) = match protocol {
        TCP => (TCP_STATE, TCP_SYN_SENT),
        SCTP => (SCTP_STATE, SCTP_COOKIE_WAIT),
        _ => return false,
    };
    let state = attributes.nested(PROTOCOL_STATE).and_then(|states| states.nested(of_protocol));
    let state = state.and_then(|state| state.get(STATE)).and_then(Attribute::byte);
    is_unanswered && state == Some(first)
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

/// Asks for some flows of one protocol.
fn filtered(fixed: [u8; FIXED], protocol: u8, which: Which) -> Vec<u8> {
    let (parts, address, port) = match which {
        Which::Attempts | Which::SentTo(SentTo::Anywhere) => (BY_PROTOCOL, None, None),
        Which::SentTo(SentTo::Port(port)) => (BY_PROTOCOL | BY_DESTINATION_PORT, None, Some(port)),
        Which::SentTo(SentTo::Address(to)) => {
            (BY_PROTOCOL | BY_DESTINATION | BY_DESTINATION_PORT, Some(to.ip()), Some(to.port()))
        }
    };
    let mut writer = Writer::new();
    writer.raw(&fixed);
    writer.nest(ORIGINAL, |writer| {
        if let Some(address) = address {
            writer.nest(TUPLE_ADDRESSES, |writer| match address {
                IpAddr::V4(ip) => writer.bytes(IPV4_DESTINATION, &ip.octets()),
                IpAddr::V6(ip) => writer.bytes(IPV6_DESTINATION, &ip.octets()),
            });
        }
        writer.nest(TUPLE_PROTOCOL, |writer| {
            writer.byte(PROTOCOL_NUMBER, protocol);
            if let Some(port) = port {
                writer.bytes(DESTINATION_PORT, &port.to_be_bytes());
            }
        });
    });
    if which == Which::Attempts {
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
