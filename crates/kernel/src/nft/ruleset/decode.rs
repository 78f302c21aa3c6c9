//! Decodes what any program may have written. Accepts any bytes and never panics.

use super::{ElementValue, Entry, Instruction, SeenSet};
use crate::netlink::{Attribute, Attributes};
use crate::nft::constants::expression::{DATA, NAME, compare, lookup, nat, range, reject, update};
use crate::nft::constants::{chain, data, element, rule, set};
use crate::nft::decode::{expression, hook, value};
use crate::nft::{Bytes, Comparison, Expression, Family, KeyBytes, Name};

/// Expressions that count, log or classify, and let every packet go on.
const WITHOUT_EFFECT: [&str; 3] = ["counter", "log", "last"];

/// The name of an extension of iptables.
const TARGET_NAME: u16 = 1;

/// An element as it was read.
pub struct Found {
    pub key: KeyBytes,
    /// Its key is a range in each field.
    pub has_end: bool,
    pub value: ElementValue,
}

/// Where packets enter a chain.
pub fn entry(attributes: Attributes<'_>) -> Entry {
    let Some(inner) = attributes.nested(chain::HOOK) else { return Entry::Chains };
    let drops = attributes.number(chain::POLICY).is_some_and(|policy| policy != chain::ACCEPT);
    hook(attributes, inner).map_or(Entry::Unknown, |hook| Entry::Hook { hook, drops })
}

/// The instructions of a rule.
pub fn instructions(attributes: Attributes<'_>, family: Family) -> Vec<Instruction> {
    let all = attributes.nested(rule::EXPRESSIONS).into_iter().flatten();
    all.map(|each| instruction(each.nested(), family)).collect()
}

fn instruction(attributes: Attributes<'_>, family: Family) -> Instruction {
    if let Some(known) = expression(attributes, family) {
        return Instruction::Known(known);
    }
    let name = attributes.text(NAME).unwrap_or("?");
    let body = attributes.nested(DATA).unwrap_or(Attributes::new(&[]));
    let decoded = match name {
        "lookup" => not_in(body),
        "range" => between(body),
        "dynset" => remembered(body),
        "nat" => destination(body),
        "masq" => Some(Instruction::Known(Expression::Masquerade)),
        // iptables' rules in tables of nf_tables.
        "target" if body.text(TARGET_NAME) == Some("REJECT") => Some(Instruction::Known(Expression::Reject)),
        // Whatever the error is that answers the packet.
        "reject" => body.number(reject::TYPE).map(|_| Instruction::Known(Expression::Reject)),
        name if WITHOUT_EFFECT.contains(&name) => Some(Instruction::NoEffect),
        _ => None,
    };
    decoded.unwrap_or_else(|| Instruction::Other(name.to_owned()))
}

/// One with an expression, a limit say, may end the rule.
fn remembered(body: Attributes<'_>) -> Option<Instruction> {
    let is_plain = body.get(update::EXPRESSION).is_none() && body.get(update::EXPRESSIONS).is_none();
    let set = Name::new(body.text(update::SET)?);
    is_plain.then_some(Instruction::Remember { set })
}

fn not_in(body: Attributes<'_>) -> Option<Instruction> {
    let is_inverted = body.number(lookup::FLAGS)? == lookup::INVERTED && body.get(lookup::TO).is_none();
    let set = Name::new(body.text(lookup::SET)?);
    Some(Instruction::NotIn { set, from: body.number(lookup::FROM)? }).filter(|_| is_inverted)
}

fn between(body: Attributes<'_>) -> Option<Instruction> {
    let comparison = match body.number(range::OPERATION)? {
        compare::EQUAL => Comparison::Equal,
        compare::NOT_EQUAL => Comparison::NotEqual,
        _ => return None,
    };
    let bytes = |kind| Some(Bytes::from_slice(body.nested(kind)?.get(data::VALUE)?.value));
    let (low, high) = (bytes(range::LOW)?, bytes(range::HIGH)?);
    Some(Instruction::Range { comparison, from: body.number(range::FROM)?, low, high })
}

/// A destination with whatever flags beside it.
fn destination(body: Attributes<'_>) -> Option<Instruction> {
    let is_single = |first, end| body.number(end).is_none_or(|end| Some(end) == body.number(first));
    let (address, port) = (body.number(nat::ADDRESS)?, body.number(nat::PORT)?);
    let is_followed = body.number(nat::TYPE)? == nat::DESTINATION
        && is_single(nat::ADDRESS, nat::ADDRESS_END)
        && is_single(nat::PORT, nat::PORT_END);
    is_followed.then_some(Instruction::Known(Expression::DestinationNat { address, port }))
}

/// A set without its elements.
pub fn set(attributes: Attributes<'_>) -> SeenSet {
    let flags = attributes.number(set::FLAGS).unwrap_or(0);
    SeenSet {
        key_length: attributes.number(set::KEY_LENGTH).and_then(|length| length.try_into().ok()).unwrap_or(0),
        is_dynamic: flags & set::EVALUATED != 0,
        timeout_millis: attributes.get(set::TIMEOUT).and_then(Attribute::long),
        is_interval: flags & set::INTERVALS != 0,
        ..SeenSet::default()
    }
}

/// An element, unless it has expired.
pub fn element(attributes: Attributes<'_>) -> Option<Found> {
    let key = KeyBytes::from_slice(attributes.nested(element::KEY)?.get(data::VALUE)?.value);
    if attributes.get(element::EXPIRATION).and_then(Attribute::long) == Some(0) {
        return None;
    }
    let decides = [element::EXPRESSION, element::EXPRESSIONS, element::OBJECT];
    let has_expression = decides.iter().any(|kind| attributes.get(*kind).is_some());
    let is_end = attributes.number(element::FLAGS).unwrap_or(0) & element::RANGE_END != 0;
    let value = match attributes.nested(element::DATA) {
        _ if is_end => ElementValue::RangeEnd,
        _ if has_expression => ElementValue::Other,
        Some(data) => value(data).map_or(ElementValue::Other, ElementValue::To),
        None => ElementValue::Present,
    };
    Some(Found { key, has_end: attributes.get(element::KEY_END).is_some(), value })
}
