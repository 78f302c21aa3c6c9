//! A file's bytes to a typed configuration: strict for the warnings, lenient for the values.
//!
//! Unknown fields, misspelt ones and keys set twice are warnings, and the file still counts; a value of the wrong
//! type is an error, and all of them are reported. Nothing is defaulted or validated here.

mod convert;

use std::collections::HashMap;
use std::fmt;

use super::fields::{self, Age};
use super::suggest::{MAX_SUGGESTIONS, closest};
use super::tree::{self, Content, Entry, Node, SyntaxError};
use super::v1alpha1::{API_VERSION, KIND, KubeProxyConfiguration};

/// A configuration as the file has it, and what a strict reader would have refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The values.
    pub configuration: KubeProxyConfiguration,
    /// One sentence for each thing that was ignored.
    pub warnings: Vec<String>,
}

/// Why a file is no configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Neither YAML nor JSON.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// Something else than a map at the top.
    #[error("line {line}: the file holds {kind} where a {KIND} is wanted")]
    NotAMap {
        /// Where.
        line: usize,
        /// What is there.
        kind: &'static str,
    },
    /// `kind` or `apiVersion` is absent or wrong.
    #[error("{field}: {problem}")]
    WrongHeader {
        /// Which of the two.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// Values of the wrong type, all of them.
    #[error("{}", Joined(.0))]
    WrongTypes(Vec<WrongType>),
}

/// A value that its field cannot take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongType {
    /// The field's path.
    pub path: String,
    /// The line, or 0 if unknown.
    pub line: usize,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for WrongType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        write!(f, "{}: {}", self.path, self.problem)
    }
}

struct Joined<'a>(&'a [WrongType]);

impl fmt::Display for Joined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, wrong_type) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            wrong_type.fmt(f)?;
        }
        Ok(())
    }
}

/// Reads a whole file.
pub fn decode(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let root = tree::parse(bytes)?;
    let entries = match root.content {
        Content::Map(entries) => entries,
        // An empty file has no kind; that is the more helpful thing to say.
        Content::Null => Vec::new(),
        other => return Err(DecodeError::NotAMap { line: root.line.max(1), kind: other.kind() }),
    };
    check_header(&entries, "kind", KIND)?;
    check_header(&entries, "apiVersion", API_VERSION)?;
    let mut walk = Walk::default();
    walk.group("", &entries);
    if walk.wrong_types.is_empty() {
        Ok(Decoded { configuration: walk.configuration, warnings: walk.warnings })
    } else {
        Err(DecodeError::WrongTypes(walk.wrong_types))
    }
}

fn check_header(entries: &[Entry], field: &'static str, wanted: &str) -> Result<(), DecodeError> {
    let refuse = |problem: String| Err(DecodeError::WrongHeader { field, problem });
    match entries.iter().rev().find(|entry| entry.key == field).map(|entry| &entry.value.content) {
        Some(Content::Text(text)) if text == wanted => Ok(()),
        Some(Content::Text(text)) if !text.is_empty() => refuse(format!("{text:?} is not {wanted:?}")),
        None | Some(Content::Null | Content::Text(_)) => refuse(format!("missing, must be {wanted:?}")),
        Some(other) => refuse(format!("wants {wanted:?}, got {}", other.kind())),
    }
}

#[derive(Default)]
struct Walk {
    configuration: KubeProxyConfiguration,
    warnings: Vec<String>,
    wrong_types: Vec<WrongType>,
    unknown: usize,
}

impl Walk {
    /// Goes through one map; of equal keys only the last counts.
    fn group(&mut self, group: &str, entries: &[Entry]) {
        let last: HashMap<&str, usize> =
            entries.iter().enumerate().map(|(index, entry)| (entry.key.as_str(), index)).collect();
        for (index, entry) in entries.iter().enumerate() {
            let path = join(group, &entry.key);
            if last.get(entry.key.as_str()) == Some(&index) {
                self.entry(group, &path, entry);
            } else if !entry.merged {
                self.warn(entry.line, format!("key {path:?} is set more than once, the last one counts"));
            }
        }
    }

    fn entry(&mut self, group: &str, path: &str, entry: &Entry) {
        if matches!(path, "kind" | "apiVersion") {
            return;
        }
        if let Some(field) = fields::find(path) {
            if let Age::Gone(since) = field.age {
                self.warn(entry.line, format!("field {path:?} is gone from the API since {since}"));
            }
            self.leaf(field, &entry.value);
        } else if fields::is_group(path) {
            self.subgroup(path, &entry.value);
        } else {
            let hint = self.guess(group, &entry.key);
            self.warn(entry.line, format!("unknown field {path:?}{hint}"));
        }
    }

    fn guess(&mut self, group: &str, key: &str) -> String {
        self.unknown += 1;
        if self.unknown > MAX_SUGGESTIONS {
            return String::new();
        }
        closest(key, fields::children(group))
            .map(|known| format!(", did you mean {:?}?", join(group, known)))
            .unwrap_or_default()
    }

    fn subgroup(&mut self, path: &str, node: &Node) {
        match &node.content {
            Content::Map(entries) => self.group(path, entries),
            Content::Null => {}
            other => self.wrong_type(path, node.line, format!("wants a map, got {}", other.kind())),
        }
    }

    fn leaf(&mut self, field: &'static fields::Field, node: &Node) {
        let mut slot = (field.slot)(&mut self.configuration);
        let mut notes = convert::Notes { path: field.path, unknown: Vec::new(), wrong_types: Vec::new() };
        convert::fill(&mut slot, node, &mut notes);
        self.wrong_types.append(&mut notes.wrong_types);
        for (line, path) in notes.unknown {
            self.warn(line, format!("unknown field {path:?}"));
        }
    }

    fn warn(&mut self, line: usize, text: String) {
        self.warnings.push(if line > 0 { format!("line {line}: {text}") } else { text });
    }

    fn wrong_type(&mut self, path: &str, line: usize, problem: String) {
        self.wrong_types.push(WrongType { path: path.to_owned(), line, problem });
    }
}

fn join(group: &str, key: &str) -> String {
    if group.is_empty() { key.to_owned() } else { format!("{group}.{key}") }
}

#[cfg(test)]
mod tests;
