//! Encodes expressions as netlink attributes.

use super::put_verdict;
use crate::netlink::Writer;
use crate::nft::constants::expression::{
    DATA, NAME, bitwise, compare, conntrack, fib, hash, immediate, lookup, masquerade, meta, nat, payload,
    random, reference, reject, update,
};
use crate::nft::constants::{data, object};
use crate::nft::{
    Comparison, Direction, Expression, Family, FibAddress, MetaKey, Name, PayloadBase, Register, TuplePart,
    UpdateOperation,
};

/// Writes one item of a rule's list of expressions.
pub fn put_expression(writer: &mut Writer, expression: &Expression, family: Family) {
    writer.text(NAME, name(expression));
    writer.nest(DATA, |writer| put_body(writer, expression, family));
}

/// The kernel's name of an expression.
pub fn name(expression: &Expression) -> &'static str {
    match expression {
        Expression::Payload { .. } => "payload",
        Expression::Meta { .. } | Expression::MetaSet { .. } => "meta",
        Expression::Compare { .. } => "cmp",
        Expression::Bitwise { .. } => "bitwise",
        Expression::Lookup { .. } => "lookup",
        Expression::RandomNumber { .. } => "numgen",
        Expression::Hash { .. } => "hash",
        Expression::Load { .. } | Expression::Verdict(_) => "immediate",
        Expression::DestinationNat { .. } => "nat",
        Expression::Masquerade => "masq",
        Expression::Reject => "reject",
        Expression::ConnectionState { .. }
        | Expression::ConnectionStatus { .. }
        | Expression::ConnectionTuple { .. } => "ct",
        Expression::AddressType { .. } => "fib",
        Expression::Update { .. } | Expression::CountIn { .. } => "dynset",
        Expression::Counter(_) => "objref",
    }
}

fn put_body(writer: &mut Writer, expression: &Expression, family: Family) {
    match expression {
        Expression::Payload { base, offset, length, to } => writer.numbers(&[
            (payload::TO, *to),
            (payload::BASE, base.number()),
            (payload::OFFSET, *offset),
            (payload::LENGTH, *length),
        ]),
        Expression::Meta { key, to } => writer.numbers(&[(meta::KEY, key.number()), (meta::TO, *to)]),
        Expression::MetaSet { key, from } => {
            writer.numbers(&[(meta::KEY, key.number()), (meta::FROM, *from)]);
        }
        Expression::Compare { comparison, from, value } => {
            writer.numbers(&[(compare::FROM, *from), (compare::OPERATION, comparison.number())]);
            put_data(writer, compare::DATA, value);
        }
        Expression::Bitwise { from, to, mask, xor } => {
            writer.numbers(&[(bitwise::FROM, *from), (bitwise::TO, *to)]);
            put_masks(writer, mask, xor);
        }
        Expression::Lookup { set, from, to } => put_lookup(writer, set, *from, *to),
        Expression::RandomNumber { modulus, to } => put_random(writer, *modulus, *to),
        Expression::Hash { from, length, modulus, seed, to } => writer.numbers(&[
            (hash::FROM, *from),
            (hash::TO, *to),
            (hash::LENGTH, *length),
            (hash::MODULUS, *modulus),
            (hash::SEED, *seed),
            (hash::OFFSET, 0),
            (hash::TYPE, hash::JENKINS),
        ]),
        Expression::Load { value, to } => {
            writer.number(immediate::TO, *to);
            put_data(writer, immediate::DATA, value);
        }
        Expression::Verdict(verdict) => {
            writer.number(immediate::TO, immediate::VERDICT_REGISTER);
            writer.nest(immediate::DATA, |writer| put_verdict(writer, verdict));
        }
        Expression::DestinationNat { address, port } => put_nat(writer, family, *address, *port),
        Expression::Masquerade => writer.number(masquerade::FLAGS, masquerade::FULLY_RANDOM),
        Expression::Reject => put_reject(writer, family),
        Expression::ConnectionState { to } => put_connection(writer, conntrack::STATE, *to),
        Expression::ConnectionStatus { to } => put_connection(writer, conntrack::STATUS, *to),
        Expression::ConnectionTuple { direction, part, to } => {
            put_connection(writer, part.number(family), *to);
            writer.byte(conntrack::DIRECTION, direction.number());
        }
        Expression::AddressType { of, to } => put_fib(writer, *of, *to),
        Expression::Update { set, operation, key, data, timeout_millis } => {
            writer.numbers(&[(update::OPERATION, operation.number()), (update::KEY, *key)]);
            put_updated(writer, set, *data, *timeout_millis);
        }
        Expression::CountIn { set, key } => {
            writer.numbers(&[(update::OPERATION, update::REFRESH), (update::KEY, *key)]);
            writer.text(update::SET, set.as_str());
        }
        Expression::Counter(name) => put_counter_reference(writer, name),
    }
}

fn put_updated(writer: &mut Writer, set: &Name, data: Register, timeout_millis: Option<u64>) {
    writer.number(update::DATA, data);
    if let Some(timeout) = timeout_millis {
        writer.long(update::TIMEOUT, timeout);
    }
    writer.text(update::SET, set.as_str());
}

fn put_masks(writer: &mut Writer, mask: &[u8], xor: &[u8]) {
    writer.number(bitwise::LENGTH, u32::try_from(mask.len()).unwrap_or(u32::MAX));
    put_data(writer, bitwise::MASK, mask);
    put_data(writer, bitwise::XOR, xor);
}

fn put_lookup(writer: &mut Writer, set: &Name, from: Register, to: Option<Register>) {
    writer.number(lookup::FROM, from);
    if let Some(to) = to {
        writer.number(lookup::TO, to);
    }
    writer.text(lookup::SET, set.as_str());
}

fn put_random(writer: &mut Writer, modulus: u32, to: Register) {
    writer.numbers(&[
        (random::TO, to),
        (random::MODULUS, modulus),
        (random::TYPE, random::RANDOM),
        (random::OFFSET, 0),
    ]);
}

fn put_nat(writer: &mut Writer, family: Family, address: Register, port: Register) {
    writer.numbers(&[
        (nat::TYPE, nat::DESTINATION),
        (nat::FAMILY, family.number().into()),
        (nat::ADDRESS, address),
        (nat::PORT, port),
    ]);
}

fn put_reject(writer: &mut Writer, family: Family) {
    writer.number(reject::TYPE, reject::ICMP_UNREACHABLE);
    writer.byte(reject::CODE, port_unreachable(family));
}

fn put_fib(writer: &mut Writer, of: FibAddress, to: Register) {
    writer.numbers(&[(fib::FLAGS, of.number()), (fib::RESULT, fib::ADDRESS_TYPE), (fib::TO, to)]);
}

fn put_counter_reference(writer: &mut Writer, name: &Name) {
    writer.number(reference::TYPE, object::COUNTER);
    writer.text(reference::NAME, name.as_str());
}

/// The ICMP or ICMPv6 code of "port unreachable".
pub fn port_unreachable(family: Family) -> u8 {
    match family {
        Family::Ip => reject::PORT_IPV4,
        Family::Ip6 => reject::PORT_IPV6,
    }
}

fn put_connection(writer: &mut Writer, key: u32, to: Register) {
    writer.numbers(&[(conntrack::KEY, key), (conntrack::TO, to)]);
}

fn put_data(writer: &mut Writer, kind: u16, value: &[u8]) {
    writer.nest(kind, |writer| writer.bytes(data::VALUE, value));
}

impl PayloadBase {
    fn number(self) -> u32 {
        match self {
            Self::Network => payload::NETWORK,
            Self::Transport => payload::TRANSPORT,
        }
    }
}

impl MetaKey {
    fn number(self) -> u32 {
        match self {
            Self::Mark => meta::MARK,
            Self::L4Protocol => meta::L4_PROTOCOL,
            Self::InputInterfaceName => meta::INPUT_INTERFACE_NAME,
            Self::Priority => meta::PRIORITY,
        }
    }
}

impl Comparison {
    fn number(self) -> u32 {
        match self {
            Self::Equal => compare::EQUAL,
            Self::NotEqual => compare::NOT_EQUAL,
        }
    }
}

impl FibAddress {
    fn number(self) -> u32 {
        match self {
            Self::Source => fib::SOURCE,
            Self::Destination => fib::DESTINATION,
        }
    }
}

impl UpdateOperation {
    fn number(self) -> u32 {
        match self {
            Self::Refresh => update::REFRESH,
            Self::Delete => update::DELETE,
        }
    }
}

impl Direction {
    fn number(self) -> u8 {
        match self {
            Self::Original => conntrack::ORIGINAL,
            Self::Reply => conntrack::REPLY,
        }
    }
}

impl TuplePart {
    /// The kernel's number of this part, by the table's family.
    pub(in crate::nft) fn number(self, family: Family) -> u32 {
        match (self, family) {
            (Self::SourceAddress, Family::Ip) => conntrack::SOURCE_IPV4,
            (Self::SourceAddress, Family::Ip6) => conntrack::SOURCE_IPV6,
            (Self::DestinationAddress, Family::Ip) => conntrack::DESTINATION_IPV4,
            (Self::DestinationAddress, Family::Ip6) => conntrack::DESTINATION_IPV6,
            (Self::SourcePort, _) => conntrack::SOURCE_PORT,
            (Self::DestinationPort, _) => conntrack::DESTINATION_PORT,
        }
    }
}
