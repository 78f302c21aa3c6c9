//! A configuration file as a tree of plain values with line numbers, before any field gives it meaning.
//!
//! YAML and JSON come out as the same tree, with the scalar rules Go's readers have: a YAML number is no string, `yes`
//! is a boolean, the last of two equal keys counts. Nothing here knows a field name; see [`crate::config::decode`].

mod json;
mod scalar;
mod yaml;

pub use scalar::{Scalar, resolve};

/// One value of the tree and the line it starts on, counted from 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The line; 0 if the reader does not know it (JSON).
    pub line: usize,
    /// The value.
    pub content: Content,
}

/// The kinds of values JSON has.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// `null`, or nothing at all.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i128),
    /// A number with a fraction or an exponent.
    Float(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A map in the order of the file; equal keys are kept, the last counts.
    Map(Vec<Entry>),
}

/// One key of a map.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key as text.
    pub key: String,
    /// Its line.
    pub line: usize,
    /// Its value.
    pub value: Node,
    /// Whether it came in through a YAML merge key; such a one may be overridden without a warning.
    pub merged: bool,
}

/// Why a text is neither YAML nor JSON as we read them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct SyntaxError {
    /// Where, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub reason: String,
}

impl Content {
    /// What a person would call this kind of value.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) | Self::Float(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

/// Reads the first document of a file. A file that begins with `{` is JSON and nothing else, as in kube-proxy.
pub fn parse(bytes: &[u8]) -> Result<Node, SyntaxError> {
    let text = std::str::from_utf8(bytes).map_err(|error| SyntaxError {
        line: line_of(bytes, error.valid_up_to()),
        reason: "the file is not UTF-8 text".to_owned(),
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_start().starts_with('{') { json::parse(text) } else { yaml::parse(text) }
}

fn line_of(bytes: &[u8], at: usize) -> usize {
    1 + bytes.iter().take(at).filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests;
