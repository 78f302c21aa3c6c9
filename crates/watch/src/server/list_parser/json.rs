//! A list in JSON. Finds only where an item begins and ends; whether it is a valid object shows when it is decoded.

use std::ops::Range;

use serde::Deserialize;

use super::super::events::ReadError;
use super::super::type_name::TypeMeta;
use super::{ListHeader, MAX_ITEM_BYTES};

/// The state of the parser between two chunks.
#[derive(Debug, Default)]
pub struct JsonParser {
    /// The list without its items.
    frame: Vec<u8>,
    /// The frame as it was when the items began, closed to be valid JSON.
    head: Option<Vec<u8>>,
    /// The item that is arriving.
    item: Vec<u8>,
    depth: usize,
    in_items: bool,
    string: StringState,
    /// Range of the last string in the frame, quotes included.
    last_string: Range<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StringState {
    #[default]
    Outside,
    Inside,
    AfterBackslash,
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

impl JsonParser {
    /// Consumes more of the list; calls back for every item that is complete.
    pub fn feed(&mut self, bytes: &[u8], mut on_item: impl FnMut(&[u8])) -> Result<(), ReadError> {
        for byte in bytes {
            self.push(*byte);
            if self.in_items
                && self.depth == 2
                && !self.item.is_empty()
                && self.string == StringState::Outside
            {
                on_item(&self.item);
                self.item.clear();
            }
        }
        if self.item.len().max(self.frame.len()) > MAX_ITEM_BYTES { Err(ReadError::TooLong) } else { Ok(()) }
    }

    pub(super) fn finish(self) -> Result<ListHeader, ReadError> {
        let frame: Frame = serde_json::from_slice(&self.frame).map_err(|error| match error {
            error if error.is_eof() => ReadError::EndsEarly,
            error => error.into(),
        })?;
        let Frame { api_version, kind, metadata } = frame;
        Ok(ListHeader { api_version, kind, version: metadata.resource_version })
    }

    /// The type, if the list stated it before its items.
    pub(super) fn type_meta(&self) -> Option<TypeMeta<'_>> {
        let head = str::from_utf8(self.head.as_deref()?).ok()?;
        // With one of them missing, the rest may follow the items.
        serde_json::from_str(head)
            .ok()
            .filter(|found: &TypeMeta<'_>| !found.kind.is_empty() && !found.api_version.is_empty())
    }

    fn push(&mut self, byte: u8) {
        use StringState::{AfterBackslash, Inside, Outside};
        let before = self.string;
        self.string = match (before, byte) {
            (Inside, b'\\') => AfterBackslash,
            (Inside, b'"') => Outside,
            (Outside, b'"') | (Inside | AfterBackslash, _) => Inside,
            (Outside, _) => Outside,
        };
        if before == Outside && self.string == Outside {
            self.push_structure(byte);
        } else {
            self.push_string(byte, before);
        }
    }

    fn push_structure(&mut self, byte: u8) {
        match byte {
            b'[' if self.depth == 1 && self.last_key() == b"\"items\"" => {
                self.depth = 2;
                self.in_items = true;
                self.frame.push(byte);
                self.head = Some([&self.frame[..], b"]}"].concat());
                return;
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        if self.in_items && self.depth < 2 {
            self.in_items = false;
        }
        match (self.in_items, self.depth, byte) {
            (false, ..) => self.frame.push(byte),
            // Separators between items.
            (true, 2, b',' | b' ' | b'\n' | b'\r' | b'\t') if self.item.is_empty() => {}
            (true, ..) => self.item.push(byte),
        }
    }

    fn push_string(&mut self, byte: u8, before: StringState) {
        if self.in_items {
            self.item.push(byte);
            return;
        }
        if before == StringState::Outside {
            self.last_string.start = self.frame.len();
        }
        self.frame.push(byte);
        self.last_string.end = self.frame.len();
    }

    /// The last string, if nothing but a colon followed it.
    fn last_key(&self) -> &[u8] {
        let since = self.frame.get(self.last_string.end..).unwrap_or_default();
        let is_key = since.iter().all(|byte| *byte == b':' || byte.is_ascii_whitespace());
        if is_key { self.frame.get(self.last_string.clone()).unwrap_or_default() } else { b"" }
    }
}

#[cfg(test)]
mod tests;
