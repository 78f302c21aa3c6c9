//! How virtual and real servers are written as attributes, and read from them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;

use super::{
    FirewallMark, IpvsChange, RealServer, SeenRealServer, SeenVirtualServer, Stats, VirtualServer,
    VirtualServerId,
};
use crate::netlink::{Attribute, Attributes, MessageHeader, Writer, flags};
use crate::nft::Family;

/// The fixed part of a body: command, version, two reserved bytes.
pub(super) const FIXED: usize = 4;
pub(super) const GET_SERVICE: u8 = 4;
pub(super) const GET_SERVERS: u8 = 8;
const NEW_SERVICE: u8 = 1;
const SET_SERVICE: u8 = 2;
const DELETE_SERVICE: u8 = 3;
const NEW_SERVER: u8 = 5;
const SET_SERVER: u8 = 6;
const DELETE_SERVER: u8 = 7;
const SERVICE: u16 = 1;
const SERVER: u16 = 2;
const IPV4: u16 = 2;
const IPV6: u16 = 10;
/// The kernel has this service in its table: it says so of all of them.
const HASHED: u32 = 0x2;
const MASQUERADE: u32 = 0;

/// Attributes of a virtual server.
mod service {
    pub const FAMILY: u16 = 1;
    pub const PROTOCOL: u16 = 2;
    pub const ADDRESS: u16 = 3;
    pub const PORT: u16 = 4;
    pub const FWMARK: u16 = 5;
    pub const SCHEDULER: u16 = 6;
    pub const FLAGS: u16 = 7;
    pub const TIMEOUT: u16 = 8;
    pub const NETMASK: u16 = 9;
    pub const STATS: u16 = 10;
    pub const STATS64: u16 = 12;
}

/// Attributes of a real server.
mod server {
    pub const ADDRESS: u16 = 1;
    pub const PORT: u16 = 2;
    pub const FORWARDING: u16 = 3;
    pub const WEIGHT: u16 = 4;
    pub const UPPER_THRESHOLD: u16 = 5;
    pub const LOWER_THRESHOLD: u16 = 6;
    pub const ACTIVE: u16 = 7;
    pub const INACTIVE: u16 = 8;
    pub const PERSISTENT: u16 = 9;
    pub const STATS: u16 = 10;
    pub const FAMILY: u16 = 11;
    pub const STATS64: u16 = 12;
}

/// A service of a listing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Listed {
    Server(SeenVirtualServer),
    Fwmark(FirewallMark),
}

/// The body of a request.
pub(super) fn body(command: u8, attributes: impl FnOnce(&mut Writer)) -> Writer {
    let mut writer = Writer::new();
    begin(&mut writer, command);
    attributes(&mut writer);
    writer
}

/// The body of a request about one virtual server.
pub(super) fn body_about(command: u8, id: &VirtualServerId) -> Writer {
    body(command, |writer| write_service_id(writer, id))
}

/// Writes a change as a message.
pub(super) fn write_change(writer: &mut Writer, change: &IpvsChange, family: u16, sequence: u32) {
    let header = MessageHeader { kind: family, flags: flags::REQUEST, sequence };
    writer.message(header, |writer| match change {
        IpvsChange::AddService(server) => write_service(writer, NEW_SERVICE, server),
        IpvsChange::SetService(server) => write_service(writer, SET_SERVICE, server),
        IpvsChange::DeleteService(id) => {
            begin(writer, DELETE_SERVICE);
            write_service_id(writer, id);
        }
        IpvsChange::AddServer { service, server } => {
            begin(writer, NEW_SERVER);
            write_server(writer, service, server);
        }
        IpvsChange::SetServer { service, server } => {
            begin(writer, SET_SERVER);
            write_server(writer, service, server);
        }
        IpvsChange::DeleteServer { service, server } => {
            begin(writer, DELETE_SERVER);
            write_service_id(writer, service);
            writer.nest_unmarked(SERVER, |writer| identify_server(writer, service, server));
        }
    });
}

/// Decodes a service of a listing.
pub(super) fn listed(attributes: Attributes<'_>) -> Option<Listed> {
    let attributes = attributes.nested(SERVICE)?;
    if let Some(mark) = attributes.native_number(service::FWMARK) {
        let is_ipv6 = attributes.native_short(service::FAMILY) == Some(Family::Ip6.number().into());
        let family = if is_ipv6 { Family::Ip6 } else { Family::Ip };
        return Some(Listed::Fwmark(FirewallMark { family, mark }));
    }
    let bytes = attributes.get(service::ADDRESS)?.value;
    let id = VirtualServerId {
        address: padded_address(bytes, attributes.native_short(service::FAMILY))?,
        protocol: attributes.native_short(service::PROTOCOL)?.try_into().ok()?,
        port: attributes.get(service::PORT)?.short()?,
    };
    let flags = attributes.get(service::FLAGS)?.value.first_chunk::<4>()?;
    let server = VirtualServer {
        id,
        scheduler: attributes.text(service::SCHEDULER)?.into(),
        flags: u32::from_ne_bytes(*flags) & !HASHED,
        timeout: attributes.native_number(service::TIMEOUT)?,
    };
    let stats = stats(attributes, service::STATS64, service::STATS);
    Some(Listed::Server(SeenVirtualServer { server, stats }))
}

/// Decodes a real server.
pub(super) fn seen_server(attributes: Attributes<'_>) -> Option<SeenRealServer> {
    let attributes = attributes.nested(SERVER)?;
    let count = |kind| attributes.native_number(kind).unwrap_or_default();
    let bytes = attributes.get(server::ADDRESS)?.value;
    // Kernels before 3.18 do not say the family.
    let address = padded_address(bytes, attributes.native_short(server::FAMILY))?;
    let address = SocketAddr::new(address, attributes.get(server::PORT)?.short()?);
    Some(SeenRealServer {
        server: RealServer { address, weight: attributes.native_number(server::WEIGHT)? },
        forwarding: count(server::FORWARDING),
        active: count(server::ACTIVE),
        inactive: count(server::INACTIVE),
        persistent: count(server::PERSISTENT),
        stats: stats(attributes, server::STATS64, server::STATS),
    })
}

fn begin(writer: &mut Writer, command: u8) {
    writer.raw(&[command, 1, 0, 0]);
}

fn write_service(writer: &mut Writer, command: u8, server: &VirtualServer) {
    begin(writer, command);
    writer.nest_unmarked(SERVICE, |writer| {
        identify_service(writer, &server.id);
        writer.text(service::SCHEDULER, &server.scheduler);
        let mut flags = [0xff; 8];
        flags[..4].copy_from_slice(&server.flags.to_ne_bytes());
        writer.bytes(service::FLAGS, &flags);
        writer.bytes(service::TIMEOUT, &server.timeout.to_ne_bytes());
        // All bits of an IPv4 address, but the length of an IPv6 prefix.
        let netmask = if server.id.address.is_ipv4() { u32::MAX } else { Ipv6Addr::BITS };
        writer.bytes(service::NETMASK, &netmask.to_ne_bytes());
    });
}

fn write_service_id(writer: &mut Writer, id: &VirtualServerId) {
    writer.nest_unmarked(SERVICE, |writer| identify_service(writer, id));
}

fn identify_service(writer: &mut Writer, id: &VirtualServerId) {
    writer.bytes(service::FAMILY, &family_of(id.address).to_ne_bytes());
    writer.bytes(service::PROTOCOL, &u16::from(id.protocol).to_ne_bytes());
    write_address(writer, service::ADDRESS, id.address);
    writer.bytes(service::PORT, &id.port.to_be_bytes());
}

fn write_server(writer: &mut Writer, service: &VirtualServerId, server: &RealServer) {
    write_service_id(writer, service);
    writer.nest_unmarked(SERVER, |writer| {
        identify_server(writer, service, &server.address);
        writer.bytes(server::FORWARDING, &MASQUERADE.to_ne_bytes());
        writer.bytes(server::WEIGHT, &server.weight.to_ne_bytes());
        writer.bytes(server::UPPER_THRESHOLD, &0_u32.to_ne_bytes());
        writer.bytes(server::LOWER_THRESHOLD, &0_u32.to_ne_bytes());
    });
}

fn identify_server(writer: &mut Writer, service: &VirtualServerId, address: &SocketAddr) {
    write_address(writer, server::ADDRESS, address.ip());
    writer.bytes(server::PORT, &address.port().to_be_bytes());
    if address.is_ipv4() != service.address.is_ipv4() {
        // Said so that the kernel rejects it: it would take a part of the address for one of the other family.
        writer.bytes(server::FAMILY, &family_of(address.ip()).to_ne_bytes());
    }
}

fn family_of(address: IpAddr) -> u16 {
    if address.is_ipv4() { IPV4 } else { IPV6 }
}

fn write_address(writer: &mut Writer, kind: u16, address: IpAddr) {
    match address {
        IpAddr::V4(address) => writer.bytes(kind, &address.octets()),
        IpAddr::V6(address) => writer.bytes(kind, &address.octets()),
    }
}

/// The kernel always sends sixteen bytes, of which an IPv4 address uses the first four.
fn padded_address(bytes: &[u8], family: Option<u16>) -> Option<IpAddr> {
    const REST: Range<usize> = 4..16;
    let is_ipv4 = match family {
        Some(family) => family == IPV4,
        None => bytes.get(REST).is_none_or(|rest| rest.iter().all(|byte| *byte == 0)),
    };
    if is_ipv4 {
        bytes.first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets).into())
    } else {
        bytes.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets).into())
    }
}

/// The counters, from the nest in which all have 64 bits, or else (before Linux 4.1) the one in which only bytes do.
fn stats(attributes: Attributes<'_>, long: u16, short: u16) -> Stats {
    let Some(counters) = attributes.nested(long).or_else(|| attributes.nested(short)) else {
        return Stats::default();
    };
    let counter = |kind| {
        let attribute = counters.get(kind)?;
        Attribute::native_long(attribute).or_else(|| attribute.native_number().map(u64::from))
    };
    let counter = |kind| counter(kind).unwrap_or_default();
    Stats {
        connections: counter(1),
        in_packets: counter(2),
        out_packets: counter(3),
        in_bytes: counter(4),
        out_bytes: counter(5),
    }
}
