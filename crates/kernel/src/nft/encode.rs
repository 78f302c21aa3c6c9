//! Objects of nf_tables as netlink attributes.
//!
//! Writes what `nft` itself would write, so that its listings can be read and loaded again. Pure; the way back is
//! [`super::decode`], what is sent in which order [`super::Transaction`].

mod expression;

pub use expression::{port_unreachable, put_expression};

use super::numbers::{chain, data, element, kind, object, rule, set, table};
use super::user_data;
use super::{Chain, ChainKind, Element, Family, Field, HookPoint, Name, Rule, Set, SetData, Value, Verdict};
use crate::netlink::{MessageHeader, Writer, flags};

/// The table all objects are in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableName {
    /// Its family.
    pub family: Family,
    /// Its name in the family.
    pub name: Name,
}

/// Where a message stands in a batch.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Its sequence number.
    pub sequence: u32,
    /// Flags beside those every request has.
    pub flags: u16,
}

/// Writes one message about an object of the table.
pub fn put_message(
    writer: &mut Writer,
    table: &TableName,
    (message, place): (u16, Place),
    body: impl FnOnce(&mut Writer),
) {
    let header =
        MessageHeader { kind: kind(message), flags: flags::REQUEST | place.flags, sequence: place.sequence };
    writer.message(header, |writer| {
        writer.raw(&[table.family.number(), 0, 0, 0]);
        body(writer);
    });
}

/// The table itself.
pub fn put_table(writer: &mut Writer, name: &TableName, comment: &str) {
    writer.text(table::NAME, name.name.as_str());
    writer.number(table::FLAGS, 0);
    writer.bytes(table::USER_DATA, &user_data::of_commented(Some(comment)));
}

/// A set or map. The id tells sets of one batch apart.
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
    writer.bytes(set::USER_DATA, &user_data::of_set(set));
}

/// A chain without its rules.
pub fn put_chain(writer: &mut Writer, table: &TableName, chain: &Chain) {
    writer.text(chain::TABLE, table.name.as_str());
    writer.text(chain::NAME, chain.name.as_str());
    if let Some(hook) = chain.hook {
        writer.text(chain::TYPE, hook.kind.name());
        writer.nest(chain::HOOK, |writer| {
            writer.number(chain::HOOK_NUMBER, hook.point.number());
            writer.number(chain::HOOK_PRIORITY, hook.priority.cast_unsigned());
        });
        // A chain that is there keeps its policy unless it is told another.
        writer.number(chain::POLICY, chain::ACCEPT);
    }
    put_notes(writer, chain::USER_DATA, chain.comment.as_deref());
}

/// A rule of a chain.
pub fn put_rule(writer: &mut Writer, table: &TableName, chain: &Name, rule: &Rule) {
    writer.text(rule::TABLE, table.name.as_str());
    writer.text(rule::CHAIN, chain.as_str());
    writer.nest(rule::EXPRESSIONS, |writer| {
        for expression in &rule.expressions {
            writer.nest(element::ITEM, |writer| put_expression(writer, expression, table.family));
        }
    });
    put_notes(writer, rule::USER_DATA, rule.comment.as_deref());
}

/// What an element of a list of elements is.
pub fn put_element(writer: &mut Writer, element: &Element) {
    put_key(writer, &element.key);
    if let Some(value) = &element.value {
        writer.nest(element::DATA, |writer| match value {
            Value::Data(bytes) => writer.bytes(data::VALUE, bytes),
            Value::Verdict(verdict) => put_verdict(writer, verdict),
        });
    }
}

/// The key of an element.
pub fn put_key(writer: &mut Writer, key: &[u8]) {
    writer.nest(element::KEY, |writer| writer.bytes(data::VALUE, key));
}

/// A counter with a name, at zero.
pub fn put_counter(writer: &mut Writer, table: &TableName, name: &Name) {
    writer.text(object::TABLE, table.name.as_str());
    writer.text(object::NAME, name.as_str());
    writer.number(object::TYPE, object::COUNTER);
    writer.nest(object::DATA, |writer| {
        writer.long(object::COUNTER_BYTES, 0);
        writer.long(object::COUNTER_PACKETS, 0);
    });
}

/// A verdict as a value.
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
    let dynamic = if set.dynamic { set::TIMEOUTS | set::EVALUATED } else { 0 };
    map | dynamic
}

/// The number of a type: six bits for each field.
pub fn fields_type(fields: &[Field]) -> u32 {
    fields.iter().fold(0, |number, field| number << 6 | field.number())
}

/// How many bytes fields take.
pub fn fields_length(fields: &[Field]) -> u32 {
    match fields {
        // A lone field is not padded.
        [Field::Protocol] => 1,
        [Field::Port] => 2,
        fields => fields.iter().map(|field| if *field == Field::Ipv6Addr { 16 } else { 4 }).sum(),
    }
}

fn put_notes(writer: &mut Writer, kind: u16, comment: Option<&str>) {
    if comment.is_some() {
        writer.bytes(kind, &user_data::of_commented(comment));
    }
}

impl Field {
    /// The number `nft` knows the field's type by.
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
    /// The number the kernel knows the family by.
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
