//! What a comparison of a loaded value means in a rule.

use std::borrow::Cow;

use super::super::super::Block;
use super::super::encode::{address_offsets, prefix_mask};
use super::super::expressions::exact;
use super::super::extensions::{MarkMatch, MaskedMark, PortProtocol, PortRange, Ports};
use super::super::parse::network;
use super::super::print::address_of;
use super::super::structure::{is_printable, number};
use super::super::{Match, Negatable, XtRule};
use super::padded;
use crate::nft::Family;
use crate::nft::constants::expression::{meta, payload};

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loaded {
    Meta(u32),
    Payload { base: u32, offset: u32, length: u32 },
    Value([u8; 4]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    InRange,
    NotInRange,
}

/// A comparison of a value with one bound or two.
pub(super) struct Comparison<'a> {
    pub loaded: Loaded,
    pub mask: Option<[u8; 16]>,
    pub operator: Operator,
    /// The same twice unless it is a range.
    pub bounds: (&'a [u8], &'a [u8]),
}

impl<'a> Comparison<'a> {
    /// Adds the condition to the rule; `None` if a rule cannot have it.
    pub(super) fn apply(&self, rule: &mut XtRule<'a>, family: Family) -> Option<()> {
        let (source, destination) = address_offsets(family);
        match self.loaded {
            Loaded::Meta(meta::INPUT_INTERFACE_NAME) => set(&mut rule.input, self.interface()?),
            Loaded::Meta(meta::OUTPUT_INTERFACE_NAME) => set(&mut rule.output, self.interface()?),
            Loaded::Meta(meta::L4_PROTOCOL) => set(&mut rule.protocol, self.protocol()?),
            Loaded::Meta(meta::MARK) => {
                rule.matches.push(Match::Mark(self.mark()?));
                Some(())
            }
            Loaded::Payload { base: payload::NETWORK, offset, length } => {
                // Newer versions of iptables read the protocol from the header of IPv4, older ones in both families.
                let protocol = if family == Family::Ip { 9 } else { 6 };
                match offset {
                    offset if offset == protocol && length == 1 => set(&mut rule.protocol, self.protocol()?),
                    offset if offset == source => set(&mut rule.source, self.block(length, family)?),
                    offset if offset == destination => {
                        set(&mut rule.destination, self.block(length, family)?)
                    }
                    _ => None,
                }
            }
            Loaded::Payload { base: payload::TRANSPORT, offset, length } => {
                let protocol = rule.protocol.filter(|protocol| !protocol.is_negated)?;
                let protocol = PortProtocol::numbered(protocol.value)?;
                add_ports(rule, self.ports(protocol, offset, length)?)
            }
            Loaded::Meta(_) | Loaded::Payload { .. } | Loaded::Value(_) => None,
        }
    }

    fn is_negated(&self) -> Option<bool> {
        match self.operator {
            Operator::Equal => Some(false),
            Operator::NotEqual => Some(true),
            _ => None,
        }
    }

    fn interface(&self) -> Option<Negatable<Cow<'a, str>>> {
        let name = str::from_utf8(self.bounds.0).ok().filter(|_| self.mask.is_none())?;
        let value = match name.find('\0') {
            // Longer than the name: zeros up to the end.
            Some(end) if name[end..].bytes().all(|byte| byte == 0) => Cow::Borrowed(&name[..end]),
            Some(_) => return None,
            None => Cow::Owned(format!("{name}+")),
        };
        let is_name = !value.is_empty() && value.len() < 16 && value != "+" && is_printable(&value);
        // A name that ends with a plus sign of its own would be printed as a wildcard.
        let is_name = is_name && !(matches!(value, Cow::Borrowed(_)) && value.ends_with('+'));
        is_name.then_some(Negatable { is_negated: self.is_negated()?, value })
    }

    fn protocol(&self) -> Option<Negatable<u8>> {
        let [value] = exact(self.bounds.0)?;
        (self.mask.is_none() && value != 0).then_some(Negatable { is_negated: self.is_negated()?, value })
    }

    fn mark(&self) -> Option<MarkMatch> {
        let bits = MaskedMark {
            mark: u32::from_ne_bytes(exact(self.bounds.0)?),
            mask: self.mask.map_or(u32::MAX, |mask| number(&mask, 0).unwrap_or_default()),
        };
        Some(MarkMatch { is_negated: self.is_negated()?, bits })
    }

    fn block(&self, loaded: u32, family: Family) -> Option<Negatable<Block>> {
        let bits = family.address_bits();
        let loaded = u8::try_from(loaded).ok()?.checked_mul(8).filter(|loaded| *loaded <= bits)?;
        if self.bounds.0.len() != usize::from(loaded / 8) {
            return None;
        }
        let length = match self.mask {
            Some(mask) if loaded == bits => (0..=bits).find(|length| prefix_mask(*length) == mask)?,
            Some(_) => return None,
            None => loaded,
        };
        let address = address_of(&padded(self.bounds.0), family);
        let is_negated = self.is_negated()?;
        // Bits behind the prefix would make it match nothing, and without a prefix everything matches.
        let is_condition = network(address, length) == address && (length > 0 || is_negated);
        is_condition.then_some(Negatable { is_negated, value: Block { address, length } })
    }

    fn ports(&self, protocol: PortProtocol, offset: u32, length: u32) -> Option<Ports> {
        let none = Ports::of(protocol);
        if self.mask.is_some() {
            return None;
        }
        match (offset, length) {
            (0, 2) => Some(Ports { source: protocol.condition(self.port_range()?), ..none }),
            (2, 2) => Some(Ports { destination: protocol.condition(self.port_range()?), ..none }),
            (0, 4) => {
                let [first, second, third, fourth] = exact(self.bounds.0)?;
                let is_negated = self.is_negated()?;
                let one = |port| PortRange { first: port, last: port };
                let port = |bytes| Some(Negatable { is_negated, value: one(u16::from_be_bytes(bytes)) });
                let (source, destination) = (port([first, second]), port([third, fourth]));
                Some(Ports { protocol, source, destination })
            }
            _ => None,
        }
    }

    fn port_range(&self) -> Option<Negatable<PortRange>> {
        let bound = |bytes: &[u8]| exact(bytes).map(u16::from_be_bytes);
        let (first, last) = (bound(self.bounds.0)?, bound(self.bounds.1)?);
        let (is_negated, first, last) = match self.operator {
            Operator::Equal | Operator::InRange => (false, first, last),
            Operator::NotEqual | Operator::NotInRange => (true, first, last),
            Operator::Less => (false, 0, first.checked_sub(1)?),
            Operator::LessOrEqual => (false, 0, first),
            Operator::Greater => (false, first.checked_add(1)?, u16::MAX),
            Operator::GreaterOrEqual => (false, first, u16::MAX),
        };
        (first <= last).then_some(Negatable { is_negated, value: PortRange { first, last } })
    }
}

/// A condition that a rule has at most once.
fn set<T>(place: &mut Option<T>, value: T) -> Option<()> {
    if place.is_some() {
        return None;
    }
    *place = Some(value);
    Some(())
}

/// Ports belong to the match of their protocol, whether they were compared together or not.
fn add_ports(rule: &mut XtRule<'_>, found: Ports) -> Option<()> {
    for part in &mut rule.matches {
        if let Match::Ports(ports) = part
            && ports.protocol == found.protocol
        {
            return ports.merge(found);
        }
    }
    rule.matches.push(Match::Ports(found));
    Some(())
}
