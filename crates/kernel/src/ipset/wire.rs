//! How sets and their entries are written as attributes, and read from them.
//!
//! The kernel insists on the mark of nested attributes and on that of big-endian numbers.

use std::net::IpAddr;

use ipnet::IpNet;

use super::{HASH_SIZE, MAX_ENTRIES, SeenSet, SetChange, SetEntry, SetSpec, SetType};
use crate::netlink::{Attribute, Attributes, MessageHeader, Writer, flags};

/// The fixed part of a body: family (ignored), version, two reserved bytes.
pub(super) const FIXED: usize = 4;
pub(super) const PROTOCOL: u16 = 1;
pub(super) const REVISION: u16 = 4;
/// The oldest revision, in answers about a type.
pub(super) const OLDEST: u16 = 10;
const SET_NAME: u16 = 2;
const TYPE_NAME: u16 = 3;
const FAMILY: u16 = 5;
const FLAGS: u16 = 6;
const DATA: u16 = 7;
const ENTRIES: u16 = 8;
/// In a listing: without entries.
const HEADERS_ONLY: u32 = 4;
/// The mark of numbers and addresses in network order.
const BIG_ENDIAN: u16 = 0x4000;

/// Commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Protocol = 1,
    Create = 2,
    Destroy = 3,
    List = 7,
    Add = 9,
    Delete = 10,
    Type = 13,
}

impl Command {
    /// The type of the message.
    pub fn kind(self) -> u16 {
        const SUBSYSTEM: u16 = 6 << 8;
        SUBSYSTEM | self as u16
    }
}

/// Attributes of a set and of an entry.
mod data {
    pub const IP: u16 = 1;
    pub const PORT: u16 = 4;
    pub const PORT_TO: u16 = 5;
    pub const TIMEOUT: u16 = 6;
    pub const PROTOCOL: u16 = 7;
    pub const FLAGS: u16 = 8;
    pub const HASH_SIZE: u16 = 18;
    pub const MAX_ENTRIES: u16 = 19;
    /// Of a set. The number is that of `IP2`, which is of an entry.
    pub const NETMASK: u16 = 20;
    pub const IP2: u16 = 20;
    pub const PREFIX2: u16 = 21;
    pub const ELEMENTS: u16 = 24;
    pub const REFERENCES: u16 = 25;
    pub const IPV4: u16 = 1;
    pub const IPV6: u16 = 2;
}

/// Writes the beginning of a body, which all requests have.
pub(super) fn begin(writer: &mut Writer, protocol: u8) {
    const IPV4: u8 = 2;
    writer.raw(&[IPV4, 0, 0, 0]);
    writer.byte(PROTOCOL, protocol);
}

/// The body of a request about a set.
pub(super) fn body_about(protocol: u8, name: &str) -> Writer {
    let mut writer = Writer::new();
    begin(&mut writer, protocol);
    writer.text(SET_NAME, name);
    writer
}

/// The body of a request for all sets without their entries.
pub(super) fn list_headers(protocol: u8) -> Writer {
    let mut writer = Writer::new();
    begin(&mut writer, protocol);
    writer.number(FLAGS | BIG_ENDIAN, HEADERS_ONLY);
    writer
}

/// The body of a question for the revisions of a type.
pub(super) fn type_question(protocol: u8, set: &SetSpec) -> Writer {
    let mut writer = Writer::new();
    begin(&mut writer, protocol);
    writer.text(TYPE_NAME, set.set_type.name());
    writer.byte(FAMILY, set.family_number());
    writer
}

/// The body of a request that makes a set.
pub(super) fn create(protocol: u8, set: &SetSpec, revision: u8) -> Writer {
    let mut writer = body_about(protocol, &set.name);
    writer.text(TYPE_NAME, set.set_type.name());
    writer.byte(REVISION, revision);
    writer.byte(FAMILY, set.family_number());
    writer.nest(DATA, |writer| {
        if set.set_type == SetType::BitmapPort {
            write_port(writer, data::PORT, 0);
            write_port(writer, data::PORT_TO, u16::MAX);
        } else {
            writer.number(data::HASH_SIZE | BIG_ENDIAN, HASH_SIZE);
            writer.number(data::MAX_ENTRIES | BIG_ENDIAN, MAX_ENTRIES);
        }
    });
    writer
}

/// Writes a change as a message.
pub(super) fn write_change(writer: &mut Writer, change: &SetChange<'_>, protocol: u8, sequence: u32) {
    let kind = if change.add { Command::Add } else { Command::Delete }.kind();
    writer.message(MessageHeader { kind, flags: flags::REQUEST, sequence }, |writer| {
        begin(writer, protocol);
        writer.text(SET_NAME, &change.set.name);
        writer.nest(DATA, |writer| write_entry(writer, &change.entry));
    });
}

/// Decodes a set without its entries.
pub(super) fn seen_set(attributes: Attributes<'_>) -> Option<SeenSet> {
    let header = attributes.nested(DATA)?;
    let has_extensions =
        [data::TIMEOUT, data::FLAGS, data::NETMASK].into_iter().any(|kind| header.get(kind).is_some());
    Some(SeenSet {
        has_extensions,
        name: attributes.text(SET_NAME)?.to_owned(),
        type_name: attributes.text(TYPE_NAME)?.to_owned(),
        family: attributes.get(FAMILY)?.byte()?,
        maxelem: header.number(data::MAX_ENTRIES),
        references: header.number(data::REFERENCES).unwrap_or_default(),
        elements: header.number(data::ELEMENTS).unwrap_or_default(),
    })
}

/// Decodes the entries in one message of a listing. Those of other types are left out.
pub(super) fn entries(attributes: Attributes<'_>, set_type: SetType) -> Vec<SetEntry> {
    let list = attributes.nested(ENTRIES);
    list.into_iter().flatten().filter_map(|item| entry(item.nested(), set_type)).collect()
}

fn write_entry(writer: &mut Writer, entry: &SetEntry) {
    match *entry {
        SetEntry::Ip(ip) => write_address(writer, data::IP, ip),
        SetEntry::IpPort { ip, protocol, port } => write_ip_port(writer, ip, protocol, port),
        SetEntry::IpPortIp { ip, protocol, port, ip2 } => {
            write_ip_port(writer, ip, protocol, port);
            write_address(writer, data::IP2, ip2);
        }
        SetEntry::IpPortNet { ip, protocol, port, net } => {
            write_ip_port(writer, ip, protocol, port);
            write_address(writer, data::IP2, net.network());
            writer.byte(data::PREFIX2, net.prefix_len());
        }
        SetEntry::Port(port) => write_port(writer, data::PORT, port),
    }
}

fn write_ip_port(writer: &mut Writer, ip: IpAddr, protocol: u8, port: u16) {
    write_address(writer, data::IP, ip);
    writer.byte(data::PROTOCOL, protocol);
    write_port(writer, data::PORT, port);
}

fn write_address(writer: &mut Writer, kind: u16, address: IpAddr) {
    writer.nest(kind, |writer| match address {
        IpAddr::V4(address) => writer.bytes(data::IPV4 | BIG_ENDIAN, &address.octets()),
        IpAddr::V6(address) => writer.bytes(data::IPV6 | BIG_ENDIAN, &address.octets()),
    });
}

fn write_port(writer: &mut Writer, kind: u16, port: u16) {
    writer.bytes(kind | BIG_ENDIAN, &port.to_be_bytes());
}

fn entry(attributes: Attributes<'_>, set_type: SetType) -> Option<SetEntry> {
    let address = |kind| {
        let address = attributes.nested(kind)?;
        address.get(data::IPV4).or_else(|| address.get(data::IPV6))?.address()
    };
    let ip = || address(data::IP);
    let port = || attributes.get(data::PORT).and_then(Attribute::short);
    let protocol = || attributes.get(data::PROTOCOL).and_then(Attribute::byte);
    Some(match set_type {
        SetType::HashIp => SetEntry::Ip(ip()?),
        SetType::HashIpPort => SetEntry::IpPort { ip: ip()?, protocol: protocol()?, port: port()? },
        SetType::HashIpPortIp => {
            let ip2 = address(data::IP2)?;
            SetEntry::IpPortIp { ip: ip()?, protocol: protocol()?, port: port()?, ip2 }
        }
        SetType::HashIpPortNet => {
            let of_net = address(data::IP2)?;
            let prefix = attributes.get(data::PREFIX2).and_then(Attribute::byte);
            let net = match prefix {
                Some(prefix) => IpNet::new(of_net, prefix).ok()?.trunc(),
                None => IpNet::from(of_net),
            };
            SetEntry::IpPortNet { ip: ip()?, protocol: protocol()?, port: port()?, net }
        }
        SetType::BitmapPort => SetEntry::Port(port()?),
    })
}
