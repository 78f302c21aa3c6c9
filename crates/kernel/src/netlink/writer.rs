//! Builds netlink messages.
//!
//! Lengths are patched when a message or nested attribute is closed, so nothing is measured beforehand.

use super::aligned;

/// The header of a message, without its length and portid.
#[derive(Clone, Copy, Debug)]
pub struct MessageHeader {
    /// The message type.
    pub kind: u16,
    /// `NLM_F_*` flags.
    pub flags: u16,
    /// Identifies the reply.
    pub sequence: u32,
}

/// A buffer of messages.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    last_message: usize,
}

/// A position between two messages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Position {
    bytes: usize,
    last_message: usize,
}

impl Writer {
    /// An empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty buffer with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), last_message: 0 }
    }

    /// All bytes so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number of bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Where the next message will be.
    pub fn position(&self) -> Position {
        Position { bytes: self.bytes.len(), last_message: self.last_message }
    }

    /// Drops all messages from a position on.
    pub fn rewind(&mut self, to: Position) {
        self.bytes.truncate(to.bytes);
        self.last_message = to.last_message;
    }

    /// Replaces bytes that were written; does nothing if there are not as many.
    pub fn overwrite(&mut self, at: usize, bytes: &[u8]) {
        if let Some(there) = self.bytes.get_mut(at..at + bytes.len()) {
            there.copy_from_slice(bytes);
        }
    }

    /// Writes a message; the closure writes its body.
    pub fn message(&mut self, header: MessageHeader, body: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.last_message = start;
        self.bytes.extend(0_u32.to_ne_bytes());
        self.bytes.extend(header.kind.to_ne_bytes());
        self.bytes.extend(header.flags.to_ne_bytes());
        self.bytes.extend(header.sequence.to_ne_bytes());
        // The portid: filled in by the kernel.
        self.bytes.extend(0_u32.to_ne_bytes());
        body(self);
        let length = u32::try_from(self.bytes.len() - start).unwrap_or(u32::MAX);
        self.bytes[start..start + 4].copy_from_slice(&length.to_ne_bytes());
        self.pad();
    }

    /// Sets flags of the message that was written last.
    pub fn add_flags_to_last_message(&mut self, flags: u16) {
        let at = self.last_message + 6;
        if let Some(field) = self.bytes.get_mut(at..at + 2) {
            for (byte, more) in field.iter_mut().zip(flags.to_ne_bytes()) {
                *byte |= more;
            }
        }
    }

    /// Writes bytes as they are: the fixed part of a body.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.pad();
    }

    /// Writes a nested attribute; the closure writes what is in it.
    pub fn nest(&mut self, kind: u16, body: impl FnOnce(&mut Self)) {
        const NESTED: u16 = 0x8000;
        self.nest_unmarked(kind | NESTED, body);
    }

    /// Like [`Self::nest`], without the mark that older interfaces of the kernel do not use.
    pub fn nest_unmarked(&mut self, kind: u16, body: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.bytes.extend([0; 2]);
        self.bytes.extend(kind.to_ne_bytes());
        body(self);
        // The kernel rejects a length that does not fit. Only lists of elements could grow so long, and those are split
        // before.
        let length = u16::try_from(self.bytes.len() - start).unwrap_or(u16::MAX);
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
    }

    /// Writes an attribute.
    pub fn bytes(&mut self, kind: u16, value: &[u8]) {
        let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.pad();
    }

    /// Writes a text with its terminating zero.
    pub fn text(&mut self, kind: u16, value: &str) {
        let length = u16::try_from(4 + value.len() + 1).unwrap_or(u16::MAX);
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend_from_slice(value.as_bytes());
        self.bytes.push(0);
        self.pad();
    }

    /// Writes a single byte.
    pub fn byte(&mut self, kind: u16, value: u8) {
        self.bytes(kind, &[value]);
    }

    /// Writes a big-endian `u32`.
    pub fn number(&mut self, kind: u16, value: u32) {
        self.bytes(kind, &value.to_be_bytes());
    }

    /// Writes several big-endian `u32`s, each with its type.
    pub fn numbers(&mut self, numbers: &[(u16, u32)]) {
        for (kind, value) in numbers {
            self.number(*kind, *value);
        }
    }

    /// Writes a big-endian `u64`.
    pub fn long(&mut self, kind: u16, value: u64) {
        self.bytes(kind, &value.to_be_bytes());
    }

    fn pad(&mut self) {
        self.bytes.resize(aligned(self.bytes.len()), 0);
    }
}
