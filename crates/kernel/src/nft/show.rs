//! Formats transactions as text, for errors and dry runs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Element, Family, Field, Name, Operation, Set, SetData, Transaction, Value, Verdict};

/// The sets by name, whose fields give keys and values their types.
pub type KnownSets = BTreeMap<Name, Set>;

/// An operation as a phrase for errors.
pub fn doing(operation: &Operation) -> String {
    match operation {
        Operation::AddTable => "adding the table".to_owned(),
        Operation::DeleteTable => "deleting the table".to_owned(),
        Operation::AddSet(set) => format!("adding set {}", set.name),
        Operation::DeleteSet(name) => format!("deleting set {name}"),
        Operation::FlushSet(name) => format!("emptying set {name}"),
        Operation::AddChain(chain) => format!("adding chain {}", chain.name),
        Operation::RefillChain(chain) => format!("refilling chain {}", chain.name),
        Operation::DeleteChain(name) => format!("deleting chain {name}"),
        Operation::AddElements(elements) => {
            let set = elements.first().map_or("?", |element| element.set.as_str());
            format!("adding {} elements to {set}", elements.len())
        }
        Operation::AddCounted(elements) => {
            let set = elements.first().map_or("?", |element| element.set.as_str());
            format!("adding {} counted elements to {set}", elements.len())
        }
        Operation::DeleteElements { set, keys } => format!("deleting {} elements of {set}", keys.len()),
        Operation::AddCounter(name) => format!("adding counter {name}"),
        Operation::DeleteCounter(name) => format!("deleting counter {name}"),
        Operation::DeleteOther(object) => format!("deleting {object}"),
    }
}

/// A transaction, one line for each operation. Sets that it adds itself need not be known.
pub fn lines(transaction: &Transaction, known: &KnownSets) -> Vec<String> {
    let mut known = known.clone();
    let mut lines = Vec::new();
    for operation in transaction.operations() {
        if let Operation::AddSet(set) = operation {
            known.insert(set.name.clone(), set.clone());
        }
        operation_lines(operation, &known, &mut lines);
    }
    lines
}

fn operation_lines(operation: &Operation, known: &KnownSets, lines: &mut Vec<String>) {
    match operation {
        Operation::AddTable => lines.push("add table".to_owned()),
        Operation::DeleteTable => lines.push("delete table".to_owned()),
        Operation::AddSet(set) => lines.push(format!("add set {} {}", set.name, declaration(set))),
        Operation::DeleteSet(name) => lines.push(format!("delete set {name}")),
        Operation::FlushSet(name) => lines.push(format!("flush set {name}")),
        Operation::DeleteChain(name) => lines.push(format!("delete chain {name}")),
        Operation::AddCounter(name) => lines.push(format!("add counter {name}")),
        Operation::DeleteCounter(name) => lines.push(format!("delete counter {name}")),
        Operation::DeleteOther(object) => lines.push(format!("delete {object}")),
        Operation::AddChain(chain) | Operation::RefillChain(chain) => {
            let verb = if matches!(operation, Operation::AddChain(_)) { "add" } else { "refill" };
            lines.push(format!("{verb} chain {}", chain.name));
            lines.extend(chain.rules.iter().map(|rule| format!("  rule {:?}", rule.expressions)));
        }
        Operation::AddElements(elements) => {
            lines.extend(elements.iter().map(|element| {
                let text = element_text(element, known.get(&element.set));
                format!("add element {} {text}", element.set)
            }));
        }
        Operation::AddCounted(elements) => lines.extend(elements.iter().map(|element| {
            let fields = known.get(&element.set).map(|set| set.key.as_slice());
            let key = bytes_text(&element.key, fields);
            format!("add element {} {key} counter packets {}", element.set, element.packets)
        })),
        Operation::DeleteElements { set, keys } => {
            let fields = known.get(set).map(|set| set.key.as_slice());
            lines.extend(keys.iter().map(|key| format!("delete element {set} {}", bytes_text(key, fields))));
        }
    }
}

/// An element as `nft` would print it, if its set is known.
pub fn element_text(element: &Element, set: Option<&Set>) -> String {
    let key = bytes_text(&element.key, set.map(|set| set.key.as_slice()));
    let data = match set.and_then(|set| set.data.as_ref()) {
        Some(SetData::Fields(fields)) => Some(fields.as_slice()),
        Some(SetData::Verdict) | None => None,
    };
    match &element.value {
        None => key,
        Some(Value::Data(bytes)) => format!("{key} : {}", bytes_text(bytes, data)),
        Some(Value::Verdict(verdict)) => format!("{key} : {verdict}"),
    }
}

fn declaration(set: &Set) -> String {
    let mut text = format!("{{ {}", fields_text(&set.key));
    match &set.data {
        None => {}
        Some(SetData::Verdict) => text.push_str(" : verdict"),
        Some(SetData::Fields(fields)) => {
            text.push_str(" : ");
            text.push_str(&fields_text(fields));
        }
    }
    text.push_str(if set.dynamic { "; dynamic }" } else { " }" });
    text
}

fn fields_text(fields: &[Field]) -> String {
    fields.iter().map(|field| field.name()).collect::<Vec<_>>().join(" . ")
}

/// Bytes formatted by their fields, or as hexadecimal digits if those are unknown or do not fit.
fn bytes_text(bytes: &[u8], fields: Option<&[Field]>) -> String {
    fields
        .and_then(|fields| values(bytes, fields))
        .map_or_else(|| hexadecimal(bytes), |values| values.join(" . "))
}

fn values(bytes: &[u8], fields: &[Field]) -> Option<Vec<String>> {
    let mut rest = bytes;
    let mut values = Vec::new();
    for field in fields {
        let width = if *field == Field::Ipv6Addr { 16 } else { 4.min(rest.len()) };
        let (value, behind) = rest.split_at_checked(width)?;
        values.push(value_text(*field, value)?);
        rest = behind;
    }
    rest.is_empty().then_some(values)
}

fn value_text(field: Field, bytes: &[u8]) -> Option<String> {
    let number = || bytes.try_into().ok().map(u32::from_ne_bytes);
    Some(match field {
        Field::Ipv4Addr => Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).to_string(),
        Field::Ipv6Addr => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_string(),
        Field::Port => u16::from_be_bytes(*bytes.first_chunk::<2>()?).to_string(),
        Field::Slot => number()?.to_string(),
        Field::Priority => format!("{:#x}", number()?),
        Field::Protocol => match bytes.first()? {
            6 => "tcp".to_owned(),
            17 => "udp".to_owned(),
            132 => "sctp".to_owned(),
            other => other.to_string(),
        },
    })
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::from("0x");
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

impl Field {
    fn name(self) -> &'static str {
        match self {
            Self::Ipv4Addr => "ipv4_addr",
            Self::Ipv6Addr => "ipv6_addr",
            Self::Protocol => "inet_proto",
            Self::Port => "inet_service",
            Self::Slot => "slot",
            Self::Priority => "priority",
        }
    }
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ip => "ip",
            Self::Ip6 => "ip6",
        })
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Goto(chain) => write!(f, "goto {chain}"),
            Self::Jump(chain) => write!(f, "jump {chain}"),
            Self::Return => f.write_str("return"),
            Self::Drop => f.write_str("drop"),
            Self::Accept => f.write_str("accept"),
        }
    }
}
