//! Decodes nf_tables objects from netlink attributes.
//!
//! Returns `None` for whatever we would not have written ourselves, down to the last flag, so that a comparison with the
//! wanted object fails. Accepts any bytes and never panics. Encoding is in [`super::encode`].

mod expression;

pub use expression::expression;

use super::constants::{chain, data, element, expression as expressions, object, rule, set, table};
use super::encode::{fields_length, fields_type, set_flags};
use super::user_data;
use super::{
    Chain, ChainKind, CountedElement, Element, Family, Field, Hook, HookPoint, KeyBytes, Name, Rule, Set,
    SetData, Value, Verdict,
};
use crate::netlink::{Attribute, Attributes};

/// A table as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenTable {
    /// Its name.
    pub name: Name,
    /// The flag `dormant`: no chain of the table is hooked.
    pub dormant: bool,
    /// The netlink portid of the program that alone may change it.
    pub owner: Option<u32>,
    /// It has flags besides these two.
    pub has_other_flags: bool,
}

/// A rule as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenRule {
    /// The chain it is in.
    pub chain: Name,
    /// The rule, if it is one that we could have written.
    pub rule: Option<Rule>,
}

/// An element as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeenElement {
    /// One that we could have written.
    Known(Element),
    /// One with a value that we would not write.
    Foreign(KeyBytes),
    /// One that has expired.
    Expired,
}

/// A named counter with its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterReading {
    /// Its name.
    pub name: Name,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A table.
pub fn seen_table(attributes: Attributes<'_>) -> Option<SeenTable> {
    let flags = attributes.number(table::FLAGS).unwrap_or(0);
    Some(SeenTable {
        name: Name::new(attributes.text(table::NAME)?),
        dormant: flags & table::DORMANT != 0,
        owner: (flags & table::OWNED != 0).then(|| attributes.number(table::OWNER).unwrap_or(0)),
        has_other_flags: flags & !(table::DORMANT | table::OWNED) != 0,
    })
}

/// A set, if it is one that we could have written.
pub fn set(attributes: Attributes<'_>) -> Option<Set> {
    let notes = attributes.get(set::USER_DATA).map_or(&[][..], |notes| notes.value);
    let flags = attributes.number(set::FLAGS).unwrap_or(0);
    let set = Set {
        name: Name::new(attributes.text(set::NAME)?),
        key: fields(attributes.number(set::KEY_TYPE)?)?,
        data: if flags & set::MAP == 0 { None } else { Some(set_data(attributes)?) },
        dynamic: flags & set::EVALUATED != 0,
        counted: is_counted(attributes),
        size: attributes.nested(set::DESCRIPTION).and_then(|inner| inner.number(set::DESCRIPTION_SIZE)),
        comment: user_data::set_comment(notes),
    };
    // The kernel keeps each of these when a set is written again.
    let kept = [set::POLICY, set::TIMEOUT, set::GC_INTERVAL, set::OBJECT_TYPE, set::EXPRESSIONS];
    let plain = kept.iter().all(|kind| attributes.get(*kind).is_none())
        && attributes.get(set::EXPRESSION).is_some() == set.counted;
    let ours = plain
        && set_flags(&set) == flags
        && attributes.number(set::KEY_LENGTH) == Some(fields_length(&set.key))
        // Without user data a set works, but its listing cannot be loaded again.
        && user_data::for_set(&set) == notes;
    ours.then_some(set)
}

/// Whether each element of a set has a counter.
fn is_counted(set: Attributes<'_>) -> bool {
    let name = set.nested(set::EXPRESSION).and_then(|inner| inner.text(expressions::NAME));
    name == Some(expressions::counter::NAME)
}

/// An element of a set whose elements have counters. Elements without one are left out.
pub fn counted_element(attributes: Attributes<'_>, set: &Name) -> Option<CountedElement> {
    let key = KeyBytes::from_slice(attributes.nested(element::KEY)?.get(data::VALUE)?.value);
    let counter = attributes.nested(element::EXPRESSION)?;
    let values = counter.nested(expressions::DATA)?;
    let notes = attributes.get(element::USER_DATA).map_or(&[][..], |notes| notes.value);
    let long = |kind| values.get(kind).and_then(Attribute::long);
    (counter.text(expressions::NAME)? == expressions::counter::NAME).then_some(())?;
    Some(CountedElement {
        set: set.clone(),
        key,
        comment: user_data::comment(notes),
        packets: long(expressions::counter::PACKETS)?,
        bytes: long(expressions::counter::BYTES)?,
    })
}

/// A chain, still without rules, if it is one that we could have written.
pub fn chain(attributes: Attributes<'_>) -> Option<Chain> {
    let hook = match attributes.nested(chain::HOOK) {
        Some(inner) => Some(hook(attributes, inner)?),
        None => None,
    };
    let flags = attributes.number(chain::FLAGS).unwrap_or(0);
    let notes = attributes.get(chain::USER_DATA).map_or(&[][..], |notes| notes.value);
    let ours = flags & !chain::BASE == 0
        && attributes.number(chain::POLICY).unwrap_or(chain::ACCEPT) == chain::ACCEPT;
    let name = Name::new(attributes.text(chain::NAME)?);
    ours.then(|| Chain { name, hook, rules: Vec::new(), comment: user_data::comment(notes) })
}

/// A rule and the chain it is in.
pub fn seen_rule(attributes: Attributes<'_>, family: Family) -> Option<SeenRule> {
    let chain = Name::new(attributes.text(rule::CHAIN)?);
    Some(SeenRule { chain, rule: rule(attributes, family) })
}

/// An element of a set.
pub fn seen_element(attributes: Attributes<'_>, set: &Name) -> Option<SeenElement> {
    let key = KeyBytes::from_slice(attributes.nested(element::KEY)?.get(data::VALUE)?.value);
    if attributes.get(element::EXPIRATION).and_then(Attribute::long) == Some(0) {
        return Some(SeenElement::Expired);
    }
    // A stateful expression, a limit say, decides whether a lookup finds the element at all.
    let beside_key_and_data =
        [element::KEY_END, element::EXPRESSION, element::EXPRESSIONS, element::OBJECT, element::USER_DATA];
    let special = beside_key_and_data.iter().any(|kind| attributes.get(*kind).is_some())
        || attributes.number(element::FLAGS).unwrap_or(0) != 0;
    let value = attributes.nested(element::DATA).map(value);
    Some(match value {
        _ if special => SeenElement::Foreign(key),
        Some(None) => SeenElement::Foreign(key),
        Some(value) => SeenElement::Known(Element { set: set.clone(), key, value }),
        None => SeenElement::Known(Element { set: set.clone(), key, value: None }),
    })
}

/// A named counter.
pub fn counter(attributes: Attributes<'_>) -> Option<CounterReading> {
    if attributes.number(object::TYPE) != Some(object::COUNTER) {
        return None;
    }
    let readings = attributes.nested(object::DATA)?;
    Some(CounterReading {
        name: Name::new(attributes.text(object::NAME)?),
        packets: readings.get(object::COUNTER_PACKETS)?.long()?,
        bytes: readings.get(object::COUNTER_BYTES)?.long()?,
    })
}

/// A verdict, of those we know.
pub fn verdict(attributes: Attributes<'_>) -> Option<Verdict> {
    let chain = || attributes.text(data::VERDICT_CHAIN).map(Name::new);
    Some(match attributes.number(data::VERDICT_CODE)? {
        data::GOTO => Verdict::Goto(chain()?),
        data::JUMP => Verdict::Jump(chain()?),
        data::RETURN => Verdict::Return,
        data::DROP => Verdict::Drop,
        data::ACCEPT => Verdict::Accept,
        _ => return None,
    })
}

/// The value of a map's element.
pub(super) fn value(attributes: Attributes<'_>) -> Option<Value> {
    if let Some(inner) = attributes.nested(data::VERDICT) {
        return verdict(inner).map(Value::Verdict);
    }
    let bytes = attributes.get(data::VALUE)?.value;
    Some(Value::Data(bytes.into()))
}

fn rule(attributes: Attributes<'_>, family: Family) -> Option<Rule> {
    if attributes.get(rule::COMPAT).is_some() {
        return None;
    }
    let expressions = attributes.nested(rule::EXPRESSIONS).into_iter().flatten();
    let notes = attributes.get(rule::USER_DATA).map_or(&[][..], |notes| notes.value);
    Some(Rule {
        expressions: expressions.map(|each| expression(each.nested(), family)).collect::<Option<_>>()?,
        comment: user_data::comment(notes),
    })
}

fn set_data(attributes: Attributes<'_>) -> Option<SetData> {
    match attributes.number(set::DATA_TYPE)? {
        set::VERDICT_TYPE => Some(SetData::Verdict),
        number => {
            let fields = fields(number)?;
            let fits = attributes.number(set::DATA_LENGTH) == Some(fields_length(&fields));
            fits.then_some(SetData::Fields(fields))
        }
    }
}

fn fields(number: u32) -> Option<Vec<Field>> {
    const EVERY: [Field; 6] =
        [Field::Ipv4Addr, Field::Ipv6Addr, Field::Protocol, Field::Port, Field::Slot, Field::Priority];
    let mut fields = Vec::new();
    let mut rest = number;
    while rest != 0 {
        fields.push(*EVERY.iter().find(|field| field.number() == rest & 0x3f)?);
        rest >>= 6;
    }
    fields.reverse();
    (!fields.is_empty() && fields_type(&fields) == number).then_some(fields)
}

/// Where packets enter a base chain.
pub(super) fn hook(chain: Attributes<'_>, hook: Attributes<'_>) -> Option<Hook> {
    if hook.get(chain::HOOK_DEVICE).is_some() || hook.get(chain::HOOK_DEVICES).is_some() {
        return None;
    }
    let point = match hook.number(chain::HOOK_NUMBER)? {
        0 => HookPoint::Prerouting,
        1 => HookPoint::Input,
        2 => HookPoint::Forward,
        3 => HookPoint::Output,
        4 => HookPoint::Postrouting,
        _ => return None,
    };
    let kind = match chain.text(chain::TYPE)? {
        "filter" => ChainKind::Filter,
        "nat" => ChainKind::Nat,
        _ => return None,
    };
    Some(Hook { kind, point, priority: hook.number(chain::HOOK_PRIORITY)?.cast_signed() })
}
