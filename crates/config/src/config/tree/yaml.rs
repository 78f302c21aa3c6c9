//! YAML text to tree: anchors, aliases, merge keys and core tags, for the first document only.
//!
//! Works through the parser's events with a stack of its own, so that no input can exhaust the call stack; nesting
//! and the total size after aliases are bounded.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Span, Tag};

use super::scalar::{Scalar, resolve};
use super::{Content, Entry, Node, SyntaxError};

/// Deeper than any configuration; Go's own limit is far above what anyone writes.
const MAX_DEPTH: usize = 100;
/// Aliases can multiply a small file; a real one has some hundred values.
const MAX_NODES: usize = 100_000;

/// Reads the first document of a YAML file; an empty file is null.
pub fn parse(text: &str) -> Result<Node, SyntaxError> {
    let mut builder = Builder::default();
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event
            .map_err(|error| SyntaxError { line: error.marker().line().max(1), reason: error.info() })?;
        if let Progress::Complete = builder.take(event, span)? {
            break;
        }
    }
    Ok(builder.document.unwrap_or(Node { line: 1, content: Content::Null }))
}

/// What one event did for the document.
enum Progress {
    More,
    Complete,
}

/// A list or map whose end has not come yet.
struct Open {
    line: usize,
    anchor: usize,
    items: Items,
}

enum Items {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, merged: Vec<Entry>, key: Option<Key> },
}

/// A map key that waits for its value.
enum Key {
    Name { text: String, line: usize },
    Merge { line: usize },
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    document: Option<Node>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<Progress, SyntaxError> {
        let line = span.start.line().max(1);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let merge_key = style == ScalarStyle::Plain && text == "<<" && self.expects_key();
                if merge_key {
                    self.set_key(Key::Merge { line });
                    return Ok(Progress::More);
                }
                let content = scalar(&text, style, tag.as_deref()).map_err(|reason| at(line, reason))?;
                if matches!(content, Content::Float(value) if !value.is_finite()) && !self.expects_key() {
                    // Go turns the whole file into JSON first, which has no word for these.
                    return Err(at(line, "infinity and NaN are not allowed"));
                }
                self.add(Node { line, content }, anchor)?;
            }
            Event::SequenceStart(_, anchor, _) => {
                self.begin(Open { line, anchor, items: Items::List(Vec::new()) })?;
            }
            Event::MappingStart(_, anchor, _) => {
                let items = Items::Map { entries: Vec::new(), merged: Vec::new(), key: None };
                self.begin(Open { line, anchor, items })?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.end()?,
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned();
                let node = node.ok_or_else(|| at(line, "an alias refers to its own anchor"))?;
                self.count(size(&node), line)?;
                self.add(node, 0)?;
            }
            Event::DocumentEnd => return Ok(Progress::Complete),
            _ => {}
        }
        Ok(Progress::More)
    }

    fn expects_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { items: Items::Map { key: None, .. }, .. }))
    }

    fn set_key(&mut self, new: Key) {
        if let Some(Open { items: Items::Map { key, .. }, .. }) = self.open.last_mut() {
            *key = Some(new);
        }
    }

    fn begin(&mut self, open: Open) -> Result<(), SyntaxError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(at(open.line, "nested too deeply"));
        }
        self.open.push(open);
        Ok(())
    }

    fn end(&mut self) -> Result<(), SyntaxError> {
        let Some(Open { line, anchor, items }) = self.open.pop() else { return Ok(()) };
        let content = match items {
            Items::List(list) => Content::List(list),
            Items::Map { entries, merged, .. } => Content::Map(with_merged(entries, merged)),
        };
        self.add(Node { line, content }, anchor)
    }

    /// Puts a finished value where it belongs: into the list, as key, as value of the waiting key, or as the document.
    fn add(&mut self, node: Node, anchor: usize) -> Result<(), SyntaxError> {
        self.count(1, node.line)?;
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.document = Some(node);
            return Ok(());
        };
        match &mut open.items {
            Items::List(list) => list.push(node),
            Items::Map { entries, merged, key } => match key.take() {
                None => *key = Some(Key::Name { line: node.line, text: key_text(node)? }),
                Some(Key::Name { text, line }) => {
                    entries.push(Entry { key: text, line, value: node, merged: false });
                }
                Some(Key::Merge { line }) => merged.extend(merge_entries(node, line)?),
            },
        }
        Ok(())
    }

    fn count(&mut self, nodes: usize, line: usize) -> Result<(), SyntaxError> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MAX_NODES { Err(at(line, "the document is too large")) } else { Ok(()) }
    }
}

fn at(line: usize, reason: &str) -> SyntaxError {
    SyntaxError { line, reason: reason.to_owned() }
}

/// What a scalar is, by its tag, its quotes and its text.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Content, &'static str> {
    let Some(tag) = tag else {
        return Ok(if style == ScalarStyle::Plain { meaning(text) } else { Content::Text(text.to_owned()) });
    };
    let found = resolve(text);
    let fits = match tag.core_suffix() {
        Some("int") => matches!(found, Scalar::Integer(_)),
        Some("float") => matches!(found, Scalar::Integer(_) | Scalar::Float(_)),
        Some("bool") => matches!(found, Scalar::Bool(_)),
        Some("null") => found == Scalar::Null,
        _ if tag.suffix() == "binary" => return Err("the tag !!binary is not supported"),
        _ => return Ok(Content::Text(text.to_owned())),
    };
    if fits { Ok(meaning(text)) } else { Err("the value does not fit its tag") }
}

fn meaning(text: &str) -> Content {
    match resolve(text) {
        Scalar::Null => Content::Null,
        Scalar::Bool(value) => Content::Bool(value),
        Scalar::Integer(value) => Content::Integer(value),
        Scalar::Float(value) => whole_or_float(value),
        Scalar::Text => Content::Text(text.to_owned()),
    }
}

/// On its way through JSON a float without fraction becomes a whole number, up to where JSON gets an exponent.
fn whole_or_float(value: f64) -> Content {
    if value.fract() == 0.0 && value.abs() < 1e21 {
        // Exact: the value is whole and far inside the range of i128.
        #[expect(clippy::cast_possible_truncation)]
        return Content::Integer(value as i128);
    }
    Content::Float(value)
}

fn key_text(node: Node) -> Result<String, SyntaxError> {
    match node.content {
        Content::Text(text) => Ok(text),
        Content::Bool(value) => Ok(value.to_string()),
        Content::Integer(value) => Ok(value.to_string()),
        Content::Float(value) => Ok(value.to_string()),
        other => Err(at(node.line, &format!("{} cannot be a key", other.kind()))),
    }
}

fn merge_entries(node: Node, line: usize) -> Result<Vec<Entry>, SyntaxError> {
    let refusal = || at(line, "a merge key needs a map or a list of maps");
    match node.content {
        Content::Map(entries) => Ok(entries),
        Content::List(list) => {
            let mut all = Vec::new();
            // The first map of the list wins, so it comes last.
            for item in list.into_iter().rev() {
                let Content::Map(entries) = item.content else { return Err(refusal()) };
                all.extend(entries);
            }
            Ok(all)
        }
        _ => Err(refusal()),
    }
}

/// Merged entries come first, so that the map's own keys, which come later, win.
fn with_merged(entries: Vec<Entry>, merged: Vec<Entry>) -> Vec<Entry> {
    let merged = merged.into_iter().map(|entry| Entry { merged: true, ..entry });
    merged.chain(entries).collect()
}

fn size(node: &Node) -> usize {
    match &node.content {
        Content::List(list) => 1 + list.iter().map(size).sum::<usize>(),
        Content::Map(entries) => 1 + entries.iter().map(|entry| 1 + size(&entry.value)).sum::<usize>(),
        _ => 1,
    }
}
