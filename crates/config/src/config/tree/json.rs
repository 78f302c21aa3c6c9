//! JSON text to tree, keeping duplicate keys.
//!
//! Numbers keep Go's distinction: `1` is whole, `1.0` is not. Lines are known for syntax errors only.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::{Content, Entry, Node, SyntaxError};

/// Reads one JSON value; anything but white space after it is an error.
pub fn parse(text: &str) -> Result<Node, SyntaxError> {
    serde_json::from_str(text)
        .map_err(|error| SyntaxError { line: error.line().max(1), reason: reason(&error, text) })
}

/// The parser's message without the position at its end, and the text there; the line is reported separately.
fn reason(error: &serde_json::Error, source: &str) -> String {
    let text = error.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    let near = surroundings(source, error.line(), error.column());
    if near.is_empty() { text[..end].to_owned() } else { format!("{} near {near:?}", &text[..end]) }
}

/// The text around a position: a JSON file is often one long line, whose number says nothing.
fn surroundings(source: &str, line: usize, column: usize) -> String {
    const BEFORE: usize = 24;
    const AFTER: usize = 8;
    let text = source.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let wanted = column.saturating_sub(BEFORE)..column.saturating_add(AFTER);
    let near: String =
        text.char_indices().filter(|(at, _)| wanted.contains(at)).map(|(_, letter)| letter).collect();
    near.trim().to_owned()
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor).map(unplaced)
    }
}

fn unplaced(content: Content) -> Node {
    Node { line: 0, content }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Content, E> {
        Ok(Content::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Content, E> {
        Ok(Content::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Content, E> {
        Ok(Content::Integer(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Content, E> {
        Ok(Content::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Content, E> {
        Ok(Content::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Content, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Content::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Content, A::Error> {
        let mut map = Vec::new();
        while let Some((key, value)) = entries.next_entry()? {
            map.push(Entry { key, line: 0, value, merged: false });
        }
        Ok(Content::Map(map))
    }
}
