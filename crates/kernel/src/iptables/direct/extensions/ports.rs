//! `-m tcp`, `-m udp` and `-m sctp`: ports.
//!
//! Ports of TCP and UDP are expressions; without ports, and for SCTP always, there is a structure.

use std::fmt::Write as _;

use super::{Extension, print_sign};
use crate::iptables::direct::expressions::{
    ExtensionName, Payload, compare, compare_range, load_payload, matching, operation,
};
use crate::iptables::direct::option::OptionCall;
use crate::iptables::direct::structure::{Structure, byte, is_zero_from, number, short};
use crate::iptables::direct::{Context, Negatable, RuleError};
use crate::netlink::Writer;
use crate::nft::Family;
use crate::nft::constants::expression::{compare as numbers, payload};

/// A protocol with ports that iptables has a match for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the protocols' own names")]
pub enum PortProtocol {
    Tcp,
    Udp,
    Sctp,
}

/// Ports from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "said above")]
pub struct PortRange {
    pub first: u16,
    pub last: u16,
}

/// The ports of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The protocol, which the rule must match as well.
    pub protocol: PortProtocol,
    /// `--sport`
    pub source: Option<Negatable<PortRange>>,
    /// `--dport`
    pub destination: Option<Negatable<PortRange>>,
}

impl PortProtocol {
    /// That of a protocol number.
    pub fn numbered(number: u8) -> Option<Self> {
        [Self::Tcp, Self::Udp, Self::Sctp].into_iter().find(|protocol| protocol.number() == number)
    }

    /// Ports in the one form that a condition has; `None` if it is not a condition.
    pub(crate) fn condition(self, ports: Negatable<PortRange>) -> Option<Negatable<PortRange>> {
        match (self, ports.value) {
            (Self::Sctp, _) => Some(ports),
            // Every port matches, which is the default.
            (_, PortRange::ALL) if !ports.is_negated => None,
            // The kernel keeps which ports match: these are the ones behind the range.
            (_, PortRange { first: 0, last: last @ 1..u16::MAX }) if ports.is_negated => {
                Some(Negatable::plain(PortRange { first: last + 1, last: u16::MAX }))
            }
            _ => Some(ports),
        }
    }

    fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }
}

impl PortRange {
    const ALL: Self = Self { first: 0, last: u16::MAX };

    fn parse(text: &str) -> Option<Self> {
        let number = |text: &str, missing| if text.is_empty() { Some(missing) } else { text.parse().ok() };
        let (first, last) = match text.split_once(':') {
            Some((first, last)) => (number(first, 0)?, number(last, u16::MAX)?),
            None => text.parse().ok().map(|port| (port, port))?,
        };
        (first <= last).then_some(Self { first, last })
    }

    fn is_one(self) -> bool {
        self.first == self.last
    }
}

impl Ports {
    /// No ports yet.
    pub fn of(protocol: PortProtocol) -> Self {
        Self { protocol, source: None, destination: None }
    }

    pub(super) fn decode_tcp(info: &[u8]) -> Option<Self> {
        // Options and flags of the header are not known here.
        let is_known = [8, 9, 10].iter().all(|at| byte(info, *at) == Some(0));
        if is_known { Self::decode_pairs(PortProtocol::Tcp, info, byte(info, 11)?) } else { None }
    }

    pub(super) fn decode_udp(info: &[u8]) -> Option<Self> {
        Self::decode_pairs(PortProtocol::Udp, info, byte(info, 8)?)
    }

    fn decode_pairs(protocol: PortProtocol, info: &[u8], negated: u8) -> Option<Self> {
        let ports = |at: usize, flag: u8| {
            let range = PortRange { first: short(info, at)?, last: short(info, at + 2)? };
            Some(protocol.condition(Negatable { is_negated: negated & flag != 0, value: range }))
        };
        let found = Self { protocol, source: ports(0, 1)?, destination: ports(4, 2)? };
        (negated & !3 == 0).then_some(found)
    }

    /// Adds ports that were compared by expressions. `None` if there are such ports already.
    pub(crate) fn merge(&mut self, other: Self) -> Option<()> {
        let is_free = (self.source.is_none() || other.source.is_none())
            && (self.destination.is_none() || other.destination.is_none());
        if self.protocol != other.protocol || !is_free {
            return None;
        }
        self.source = self.source.or(other.source);
        self.destination = self.destination.or(other.destination);
        Some(())
    }

    fn put_expressions(&self, writer: &mut Writer) {
        let at = |offset, length| Payload { base: payload::TRANSPORT, offset, length };
        if let (Some(source), Some(destination)) = (self.source, self.destination)
            && source.value.is_one()
            && destination.value.is_one()
            && source.is_negated == destination.is_negated
        {
            load_payload(writer, at(0, 4));
            let [first, second] = source.value.first.to_be_bytes();
            let [third, fourth] = destination.value.first.to_be_bytes();
            return compare(writer, operation(source.is_negated), &[first, second, third, fourth]);
        }
        for (offset, ports) in [(0, self.source), (2, self.destination)] {
            let Some(Negatable { is_negated, value: range }) = ports else { continue };
            load_payload(writer, at(offset, 2));
            let (first, last) = (range.first.to_be_bytes(), range.last.to_be_bytes());
            if range.is_one() {
                compare(writer, operation(is_negated), &first);
            } else if range.first == 0 && !is_negated {
                compare(writer, numbers::LESS_OR_EQUAL, &last);
            } else {
                compare_range(writer, is_negated, &first, &last);
            }
        }
    }
}

impl<'a> Extension<'a> for Ports {
    fn take(&mut self, call: &mut OptionCall<'_, 'a>) -> Result<bool, RuleError> {
        let place = match call.name {
            "--sport" | "--source-port" => &mut self.source,
            "--dport" | "--destination-port" => &mut self.destination,
            _ => return Ok(false),
        };
        if place.is_some() {
            return Err(RuleError::Repeated(call.name.to_owned()));
        }
        let range = call.parsed(PortRange::parse)?;
        *place = self.protocol.condition(call.negatable(range));
        Ok(true)
    }

    fn print(&self, _: Family, out: &mut String) {
        out.push_str("-m ");
        out.push_str(self.protocol.name());
        for (option, ports) in [(" --sport", self.source), (" --dport", self.destination)] {
            let Some(Negatable { is_negated, value: range }) = ports else { continue };
            print_sign(is_negated, out);
            // Writing to memory does not fail.
            let _ = write!(out, "{option} {}", range.first);
            if !range.is_one() {
                let _ = write!(out, ":{}", range.last);
            }
        }
    }

    fn put(&self, writer: &mut Writer, _: &Context<'_>) -> Result<(), RuleError> {
        let name = ExtensionName { name: self.protocol.name(), revision: 0 };
        match self.protocol {
            PortProtocol::Sctp => matching(writer, name, self.sctp().as_bytes()),
            PortProtocol::Tcp | PortProtocol::Udp if self.source.is_none() && self.destination.is_none() => {
                let every = u16::MAX.to_ne_bytes();
                let info = Structure::<16>::new().with(2, &every).with(6, &every);
                matching(writer, name, info.as_bytes());
            }
            PortProtocol::Tcp | PortProtocol::Udp => self.put_expressions(writer),
        }
        Ok(())
    }
}

/// `xt_sctp_info`: ports, a map of chunk types, and what is asked about them.
mod sctp {
    pub(super) const SIZE: usize = 296;
    pub(super) const DESTINATION: usize = 0;
    pub(super) const SOURCE: usize = 4;
    pub(super) const CHUNK_FLAGS: usize = 268;
    pub(super) const MATCHED: usize = 284;
    pub(super) const NEGATED: usize = 288;
    pub(super) const BY_SOURCE: u32 = 1;
    pub(super) const BY_DESTINATION: u32 = 2;
}

impl Ports {
    fn sctp(&self) -> Structure<{ sctp::SIZE }> {
        // No chunk has this type: no flags of chunks are asked for.
        const NO_CHUNK: [u8; 12] = [0xff, 0, 0, 0xff, 0, 0, 0xff, 0, 0, 0xff, 0, 0];
        let mut info = Structure::new().with(sctp::CHUNK_FLAGS, &NO_CHUNK);
        let (mut matched, mut negated) = (0, 0);
        let sides = [
            (self.source, sctp::SOURCE, sctp::BY_SOURCE),
            (self.destination, sctp::DESTINATION, sctp::BY_DESTINATION),
        ];
        for (ports, at, flag) in sides {
            if let Some(Negatable { is_negated, value: range }) = ports {
                matched |= flag;
                negated |= if is_negated { flag } else { 0 };
                info = info.with(at, &range.first.to_ne_bytes()).with(at + 2, &range.last.to_ne_bytes());
            }
        }
        info.with(sctp::MATCHED, &matched.to_ne_bytes()).with(sctp::NEGATED, &negated.to_ne_bytes())
    }

    pub(super) fn decode_sctp(info: &[u8]) -> Option<Self> {
        let (matched, negated) = (number(info, sctp::MATCHED)?, number(info, sctp::NEGATED)?);
        let both = sctp::BY_SOURCE | sctp::BY_DESTINATION;
        if matched & !both != 0 || negated & !matched != 0 || !is_zero_from(info, sctp::NEGATED + 4) {
            return None;
        }
        let ports = |at: usize, flag: u32| {
            let value = PortRange { first: short(info, at)?, last: short(info, at + 2)? };
            let ports = Negatable { is_negated: negated & flag != 0, value };
            Some((matched & flag != 0).then_some(ports))
        };
        Some(Self {
            protocol: PortProtocol::Sctp,
            source: ports(sctp::SOURCE, sctp::BY_SOURCE)?,
            destination: ports(sctp::DESTINATION, sctp::BY_DESTINATION)?,
        })
    }
}
