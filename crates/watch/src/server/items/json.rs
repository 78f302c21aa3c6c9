//! A list as text. Finds out only where an item begins and ends; whether it is one is for the reader of it to say.

use serde::Deserialize;

use super::super::events::ReadError;
use super::super::type_name::TypeMeta;
use super::{About, LONGEST_ITEM};

/// The part of a list that has come in.
#[derive(Debug, Default)]
pub struct Items {
    /// The list without its items.
    frame: Vec<u8>,
    /// The same as it was when the items began, made complete.
    head: Option<Vec<u8>>,
    /// The item that is coming in.
    item: Vec<u8>,
    depth: usize,
    is_inside: bool,
    text: Text,
    /// Where in the frame the last text began and ended.
    last_text: (usize, usize),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Text {
    #[default]
    Outside,
    Inside,
    /// After a backslash.
    Escaped,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Frame {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    metadata: ListMeta,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    resource_version: String,
}

impl Items {
    /// Takes more of the list and hands out every item that is complete.
    pub fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), ReadError> {
        for byte in bytes {
            self.take(*byte);
            if self.is_inside && self.depth == 2 && !self.item.is_empty() && self.text == Text::Outside {
                each(&self.item);
                self.item.clear();
            }
        }
        if self.item.len().max(self.frame.len()) > LONGEST_ITEM { Err(ReadError::TooLong) } else { Ok(()) }
    }

    /// What the list says of itself, after all of it came.
    pub(super) fn finish(self) -> Result<About, ReadError> {
        let frame: Frame = serde_json::from_slice(&self.frame).map_err(|error| match error {
            error if error.is_eof() => ReadError::EndsEarly,
            error => error.into(),
        })?;
        let Frame { api_version, kind, metadata } = frame;
        Ok(About { api_version, kind, version: metadata.resource_version })
    }

    /// What the list has said of its type before its items, once those begin.
    pub(super) fn type_meta(&self) -> Option<TypeMeta<'_>> {
        let begun = str::from_utf8(self.head.as_deref()?).ok()?;
        // Both, or it may come later.
        serde_json::from_str(begun)
            .ok()
            .filter(|found: &TypeMeta<'_>| !found.kind.is_empty() && !found.api_version.is_empty())
    }

    fn take(&mut self, byte: u8) {
        let was = self.text;
        self.text = match (was, byte) {
            (Text::Inside, b'\\') => Text::Escaped,
            (Text::Inside, b'"') => Text::Outside,
            (Text::Outside, b'"') | (Text::Inside | Text::Escaped, _) => Text::Inside,
            (Text::Outside, _) => Text::Outside,
        };
        if was == Text::Outside && self.text == Text::Outside {
            self.take_structure(byte);
        } else {
            self.take_text(byte, was);
        }
    }

    fn take_structure(&mut self, byte: u8) {
        match byte {
            b'[' if self.depth == 1 && self.last_key() == b"\"items\"" => {
                self.depth = 2;
                self.is_inside = true;
                self.frame.push(byte);
                self.head = Some([&self.frame[..], b"]}"].concat());
                return;
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        if self.is_inside && self.depth < 2 {
            self.is_inside = false;
        }
        match (self.is_inside, self.depth, byte) {
            (false, ..) => self.frame.push(byte),
            // Between items.
            (true, 2, b',' | b' ' | b'\n' | b'\r' | b'\t') if self.item.is_empty() => {}
            (true, ..) => self.item.push(byte),
        }
    }

    fn take_text(&mut self, byte: u8, was: Text) {
        if self.is_inside {
            self.item.push(byte);
            return;
        }
        if was == Text::Outside {
            self.last_text.0 = self.frame.len();
        }
        self.frame.push(byte);
        self.last_text.1 = self.frame.len();
    }

    /// The text before, if nothing but a colon has come since.
    fn last_key(&self) -> &[u8] {
        let (from, to) = self.last_text;
        let since = self.frame.get(to..).unwrap_or_default();
        let is_key = since.iter().all(|byte| *byte == b':' || byte.is_ascii_whitespace());
        if is_key { self.frame.get(from..to).unwrap_or_default() } else { b"" }
    }
}

#[cfg(test)]
mod tests;
