//! One value of the tree into one field: which kinds of values each type of field takes.
//!
//! `null` leaves a field as if it were absent, except for plain durations, which Go's reader refuses to take it for.

use std::collections::BTreeMap;

use super::WrongType;
use crate::config::mode::WrittenMode;
use crate::config::slot::Slot;
use crate::config::tree::{Content, Node};
use crate::config::v1alpha1::{FlushFrequency, FlushSpelling, VModuleItem};
use crate::go::{GoDuration, Quantity};

/// What is found on the way.
pub struct Notes {
    /// The field's path.
    pub path: &'static str,
    /// Unknown fields inside the value, with their lines.
    pub unknown: Vec<(usize, String)>,
    /// What does not fit.
    pub wrong_types: Vec<WrongType>,
}

impl Notes {
    fn refuse(&mut self, node: &Node, at: &str, problem: String) {
        let path = format!("{}{at}", self.path);
        self.wrong_types.push(WrongType { path, line: node.line, problem });
    }

    /// Keeps the value, or the reason why there is none.
    fn keep<T>(&mut self, node: &Node, at: &str, value: Result<T, String>) -> Option<T> {
        value.map_err(|problem| self.refuse(node, at, problem)).ok()
    }
}

/// Fills a field from the file's value.
pub fn fill(slot: &mut Slot<'_>, node: &Node, notes: &mut Notes) {
    if node.content == Content::Null {
        if let Slot::Duration(_) = slot {
            notes.refuse(node, "", "wants a duration such as \"30s\", got null".to_owned());
        }
        return;
    }
    match slot {
        Slot::Bool(place) => set(*place, notes.keep(node, "", boolean(node))),
        Slot::OptionalBool(place) => **place = notes.keep(node, "", boolean(node)),
        Slot::Int32(place) => set(*place, notes.keep(node, "", integer(node))),
        Slot::OptionalInt32(place) => **place = notes.keep(node, "", integer(node)),
        Slot::Uint32(place) => set(*place, notes.keep(node, "", integer(node))),
        Slot::Float32(place) => set(*place, notes.keep(node, "", float(node))),
        Slot::Text(place) => set(*place, notes.keep(node, "", text(node))),
        Slot::Mode(place) => {
            set(*place, notes.keep(node, "", text(node)).map(|word| WrittenMode::parse(&word)));
        }
        Slot::Duration(place) => set(*place, notes.keep(node, "", duration(node))),
        Slot::OptionalDuration(place) => **place = notes.keep(node, "", duration(node)),
        Slot::Flush(place) => set(*place, notes.keep(node, "", flush(node))),
        Slot::Quantity(place) => set(*place, notes.keep(node, "", quantity(node))),
        Slot::TextList(place) => **place = Some(list(node, notes, text_item)),
        Slot::VModule(place) => **place = list(node, notes, vmodule_item),
        Slot::Gates(place) => **place = gates(node, notes),
    }
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

fn wants<T>(what: &str, node: &Node) -> Result<T, String> {
    Err(format!("wants {what}, got {}", node.content.kind()))
}

fn boolean(node: &Node) -> Result<bool, String> {
    match node.content {
        Content::Bool(value) => Ok(value),
        _ => wants("true or false", node),
    }
}

fn integer<T: TryFrom<i128>>(node: &Node) -> Result<T, String> {
    match node.content {
        Content::Integer(value) => T::try_from(value).map_err(|_| format!("{value} is out of range")),
        Content::Float(value) => Err(format!("wants a whole number, got {value}")),
        _ => wants("a whole number", node),
    }
}

fn float(node: &Node) -> Result<f32, String> {
    // Narrowing is the point: the field has 32 bits, and what overflows them is refused.
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
    let value = match node.content {
        Content::Integer(value) => value as f32,
        Content::Float(value) => value as f32,
        _ => return wants("a number", node),
    };
    if value.is_finite() { Ok(value) } else { Err("the number is out of range".to_owned()) }
}

fn text(node: &Node) -> Result<String, String> {
    match &node.content {
        Content::Text(value) => Ok(value.clone()),
        _ => wants("a string (put it in quotes)", node),
    }
}

fn duration(node: &Node) -> Result<GoDuration, String> {
    match &node.content {
        Content::Text(value) => GoDuration::parse(value).map_err(|error| error.to_string()),
        _ => wants("a duration such as \"30s\"", node),
    }
}

fn flush(node: &Node) -> Result<FlushFrequency, String> {
    match &node.content {
        Content::Integer(value) => i64::try_from(*value)
            .map(|value| FlushFrequency {
                every: GoDuration::nanoseconds(value),
                spelling: FlushSpelling::Nanoseconds,
            })
            .map_err(|_| format!("{value} is out of range")),
        _ => duration(node).map(|every| FlushFrequency { every, spelling: FlushSpelling::Text }),
    }
}

fn quantity(node: &Node) -> Result<Quantity, String> {
    let written = match &node.content {
        Content::Text(value) => value.clone(),
        Content::Integer(value) => value.to_string(),
        Content::Float(value) => value.to_string(),
        _ => return wants("a quantity such as \"64Ki\"", node),
    };
    Quantity::parse(&written).map_err(|error| error.to_string())
}

fn list<T>(node: &Node, notes: &mut Notes, item: fn(&Node, &str, &mut Notes) -> Option<T>) -> Vec<T> {
    let Content::List(items) = &node.content else {
        notes.refuse(node, "", format!("wants a list, got {}", node.content.kind()));
        return Vec::new();
    };
    let kept = items.iter().enumerate();
    kept.filter_map(|(index, each)| item(each, &format!("[{index}]"), notes)).collect()
}

fn text_item(node: &Node, at: &str, notes: &mut Notes) -> Option<String> {
    match node.content {
        Content::Null => Some(String::new()),
        _ => notes.keep(node, at, text(node)),
    }
}

fn vmodule_item(node: &Node, at: &str, notes: &mut Notes) -> Option<VModuleItem> {
    let mut item = VModuleItem::default();
    let entries = match &node.content {
        Content::Null => return Some(item),
        Content::Map(entries) => entries,
        other => {
            notes.refuse(
                node,
                at,
                format!("wants a map with filePattern and verbosity, got {}", other.kind()),
            );
            return None;
        }
    };
    for entry in entries.iter().filter(|entry| entry.value.content != Content::Null) {
        let at = format!("{at}.{}", entry.key);
        match entry.key.as_str() {
            "filePattern" => set(&mut item.file_pattern, notes.keep(&entry.value, &at, text(&entry.value))),
            "verbosity" => set(&mut item.verbosity, notes.keep(&entry.value, &at, integer(&entry.value))),
            _ => notes.unknown.push((entry.line, format!("{}{at}", notes.path))),
        }
    }
    Some(item)
}

fn gates(node: &Node, notes: &mut Notes) -> BTreeMap<String, bool> {
    let Content::Map(entries) = &node.content else {
        notes.refuse(node, "", format!("wants a map of gate names, got {}", node.content.kind()));
        return BTreeMap::new();
    };
    let mut gates = BTreeMap::new();
    for entry in entries {
        let value = match entry.value.content {
            Content::Null => Some(false),
            _ => notes.keep(&entry.value, &format!(".{}", entry.key), boolean(&entry.value)),
        };
        if let Some(value) = value {
            gates.insert(entry.key.clone(), value);
        }
    }
    gates
}
