//! Encodes nf_tables objects as netlink attributes.
//!
//! Encodes as `nft` itself does, so that its listings can be read and loaded again. Pure. Decoding is in [`super::decode`],
//! the order of messages in `super::batch`.

mod expression;

pub use expression::{port_unreachable, put_expression};

use super::constants::{chain, data, element, expression as expressions, kind, object, rule, set, table};
use super::user_data;
use super::{
    Chain, ChainKind, CountedElement, Element, Family, Field, HookPoint, Name, Rule, Set, SetData, Value,
    Verdict,
};
use crate::netlink::{MessageHeader, Writer, flags};

/// The table all objects are in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableName {
    /// `ip` or `ip6`.
    pub family: Family,
    /// Unique within the family.
    pub name: Name,
}

/// A message about an object of the table.
#[derive(Clone, Copy, Debug)]
pub struct ObjectMessage {
    /// The message type within nf_tables.
    pub message: u16,
    /// Flags beside those that every request has.
    pub flags: u16,
}

impl ObjectMessage {
    /// Writes an object; fails if one of the same name exists and differs.
    pub fn create(message: u16) -> Self {
        Self { message, flags: flags::CREATE }
    }

    /// Deletes something.
    pub fn delete(message: u16) -> Self {
        Self { message, flags: 0 }
    }

    pub(super) fn header(self, sequence: u32) -> MessageHeader {
        MessageHeader { kind: kind(self.message), flags: flags::REQUEST | self.flags, sequence }
    }
}

/// Writes the table itself.
pub fn put_table(writer: &mut Writer, name: &TableName, comment: &str) {
    writer.text(table::NAME, name.name.as_str());
    writer.number(table::FLAGS, 0);
    writer.bytes(table::USER_DATA, &user_data::with_comment(Some(comment)));
}

/// Writes a set or map. The id distinguishes the sets of one batch.
pub fn put_set(writer: &mut Writer, table: &TableName, set: &Set, id: u32) {
    writer.text(set::TABLE, table.name.as_str());
    writer.text(set::NAME, set.name.as_str());
    writer.number(set::FLAGS, set_flags(set));
    writer.number(set::KEY_TYPE, fields_type(&set.key));
    writer.number(set::KEY_LENGTH, fields_length(&set.key));
    match &set.data {
        None => {}
        Some(SetData::Verdict) => {
            writer.number(set::DATA_TYPE, set::VERDICT_TYPE);
            writer.number(set::DATA_LENGTH, 0);
        }
        Some(SetData::Fields(fields)) => {
            writer.number(set::DATA_TYPE, fields_type(fields));
            writer.number(set::DATA_LENGTH, fields_length(fields));
        }
    }
    writer.number(set::ID, id);
    if let Some(size) = set.size {
        writer.nest(set::DESCRIPTION, |writer| writer.number(set::DESCRIPTION_SIZE, size));
    }
    if set.counted {
        writer.nest(set::EXPRESSION, |writer| put_count(writer, 0, 0));
    }
    writer.bytes(set::USER_DATA, &user_data::for_set(set));
}

/// Writes a chain without its rules.
pub fn put_chain(writer: &mut Writer, table: &TableName, chain: &Chain) {
    writer.text(chain::TABLE, table.name.as_str());
    writer.text(chain::NAME, chain.name.as_str());
    if let Some(hook) = chain.hook {
        writer.text(chain::TYPE, hook.kind.name());
        writer.nest(chain::HOOK, |writer| {
            writer.number(chain::HOOK_NUMBER, hook.point.number());
            writer.number(chain::HOOK_PRIORITY, hook.priority.cast_unsigned());
        });
        // An existing chain keeps its policy unless a message sets it.
        writer.number(chain::POLICY, chain::ACCEPT);
    }
    put_comment(writer, chain::USER_DATA, chain.comment.as_deref());
}

/// Writes a rule of a chain.
pub fn put_rule(writer: &mut Writer, table: &TableName, chain: &Name, rule: &Rule) {
    writer.text(rule::TABLE, table.name.as_str());
    writer.text(rule::CHAIN, chain.as_str());
    writer.nest(rule::EXPRESSIONS, |writer| {
        for expression in &rule.expressions {
            writer.nest(element::ITEM, |writer| put_expression(writer, expression, table.family));
        }
    });
    put_comment(writer, rule::USER_DATA, rule.comment.as_deref());
}

/// Writes one item of a list of elements.
pub fn put_element(writer: &mut Writer, element: &Element) {
    put_key(writer, &element.key);
    if let Some(value) = &element.value {
        writer.nest(element::DATA, |writer| match value {
            Value::Data(bytes) => writer.bytes(data::VALUE, bytes),
            Value::Verdict(verdict) => put_verdict(writer, verdict),
        });
    }
}

/// Writes one item of a list of elements that have counters.
pub fn put_counted_element(writer: &mut Writer, element: &CountedElement) {
    put_key(writer, &element.key);
    writer.nest(element::EXPRESSION, |writer| put_count(writer, element.packets, element.bytes));
    put_comment(writer, element::USER_DATA, element.comment.as_deref());
}

/// Writes an anonymous counter that begins with these values.
fn put_count(writer: &mut Writer, packets: u64, bytes: u64) {
    writer.text(expressions::NAME, expressions::counter::NAME);
    writer.nest(expressions::DATA, |writer| {
        writer.long(expressions::counter::BYTES, bytes);
        writer.long(expressions::counter::PACKETS, packets);
    });
}

/// Writes the key of an element.
pub fn put_key(writer: &mut Writer, key: &[u8]) {
    writer.nest(element::KEY, |writer| writer.bytes(data::VALUE, key));
}

/// Writes a named counter with the value zero.
pub fn put_counter(writer: &mut Writer, table: &TableName, name: &Name) {
    writer.text(object::TABLE, table.name.as_str());
    writer.text(object::NAME, name.as_str());
    writer.number(object::TYPE, object::COUNTER);
    writer.nest(object::DATA, |writer| {
        writer.long(object::COUNTER_BYTES, 0);
        writer.long(object::COUNTER_PACKETS, 0);
    });
}

/// Writes a verdict as a value.
pub fn put_verdict(writer: &mut Writer, verdict: &Verdict) {
    let (code, chain) = match verdict {
        Verdict::Goto(chain) => (data::GOTO, Some(chain)),
        Verdict::Jump(chain) => (data::JUMP, Some(chain)),
        Verdict::Return => (data::RETURN, None),
        Verdict::Drop => (data::DROP, None),
        Verdict::Accept => (data::ACCEPT, None),
    };
    writer.nest(data::VERDICT, |writer| {
        writer.number(data::VERDICT_CODE, code);
        if let Some(chain) = chain {
            writer.text(data::VERDICT_CHAIN, chain.as_str());
        }
    });
}

/// The flags of a set.
///
/// Concatenations carry no flag and no list of fields: `nft` writes those for ranges only, and hash maps do not need them.
pub fn set_flags(set: &Set) -> u32 {
    let map = if set.data.is_some() { set::MAP } else { 0 };
    let expires = if set.counted { 0 } else { set::TIMEOUTS };
    let dynamic = if set.dynamic { expires | set::EVALUATED } else { 0 };
    map | dynamic
}

/// The type number of concatenated fields: six bits for each.
pub fn fields_type(fields: &[Field]) -> u32 {
    fields.iter().fold(0, |number, field| number << 6 | field.number())
}

/// The length of concatenated fields in bytes.
pub fn fields_length(fields: &[Field]) -> u32 {
    match fields {
        // A lone field is not padded.
        [Field::Protocol] => 1,
        [Field::Port] => 2,
        fields => fields.iter().map(|field| if *field == Field::Ipv6Addr { 16 } else { 4 }).sum(),
    }
}

fn put_comment(writer: &mut Writer, kind: u16, comment: Option<&str>) {
    if comment.is_some() {
        writer.bytes(kind, &user_data::with_comment(comment));
    }
}

impl Field {
    /// The type number that `nft` uses.
    pub(super) fn number(self) -> u32 {
        match self {
            Self::Slot => 4,
            Self::Ipv4Addr => 7,
            Self::Ipv6Addr => 8,
            Self::Protocol => 12,
            Self::Port => 13,
            Self::Priority => 23,
        }
    }
}

impl Family {
    /// The kernel's number (`NFPROTO_*`).
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Ip => 2,
            Self::Ip6 => 10,
        }
    }
}

impl ChainKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Nat => "nat",
        }
    }
}

impl HookPoint {
    /// Its name, as `nft` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prerouting => "prerouting",
            Self::Input => "input",
            Self::Forward => "forward",
            Self::Output => "output",
            Self::Postrouting => "postrouting",
        }
    }

    pub(super) fn number(self) -> u32 {
        match self {
            Self::Prerouting => 0,
            Self::Input => 1,
            Self::Forward => 2,
            Self::Output => 3,
            Self::Postrouting => 4,
        }
    }
}
