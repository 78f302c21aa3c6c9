//! A list in protobuf: an envelope around a sequence of fields, most of them items.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::super::events::ReadError;
use super::super::protobuf::{MAGIC, ProtobufError, decode_type_meta, text_field};
use super::super::type_name::TypeMeta;
use super::{ListHeader, MAX_ITEM_BYTES};

/// Two varints of ten bytes each.
const MAX_FIELD_HEADER_BYTES: usize = 20;

/// Field numbers of the envelope, the list and its metadata.
const TYPE: u32 = 1;
const CONTENT: u32 = 2;
const METADATA: u32 = 1;
const ITEM: u32 = 2;
const VERSION: u32 = 2;

/// The state of the parser between two chunks.
#[derive(Debug, Default)]
pub struct ProtobufParser {
    /// The beginning of a field that is not complete.
    incomplete: Vec<u8>,
    position: Position,
    header: ListHeader,
}

/// What the next bytes are part of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Position {
    #[default]
    Magic,
    Envelope,
    List {
        left: usize,
    },
    /// Further fields of the envelope, which are ignored.
    AfterList,
}

/// Tag and length of a field.
#[derive(Clone, Copy)]
struct FieldHeader {
    /// `None` for a number: lists have none that matter.
    tag: Option<u32>,
    header_bytes: usize,
    content_bytes: usize,
}

impl ProtobufParser {
    /// Consumes more of the list; calls back for every item that is complete.
    pub fn feed(&mut self, bytes: &[u8], mut on_item: impl FnMut(&[u8])) -> Result<(), ReadError> {
        let mut all = std::mem::take(&mut self.incomplete);
        all.extend_from_slice(bytes);
        let mut consumed = 0;
        while let Some(length) = self.consume(&all[consumed..], &mut on_item)? {
            consumed += length;
        }
        all.drain(..consumed);
        self.incomplete = all;
        if self.incomplete.len() > MAX_ITEM_BYTES { Err(ReadError::TooLong) } else { Ok(()) }
    }

    pub(super) fn finish(self) -> Result<ListHeader, ReadError> {
        match self.position {
            Position::AfterList => Ok(self.header),
            Position::Magic | Position::Envelope | Position::List { .. } => Err(ReadError::EndsEarly),
        }
    }

    /// The type, which precedes the items.
    pub(super) fn type_meta(&self) -> Option<TypeMeta<'_>> {
        match self.position {
            Position::Magic | Position::Envelope => None,
            Position::List { .. } | Position::AfterList => {
                let ListHeader { api_version, kind, .. } = &self.header;
                Some(TypeMeta { api_version: api_version.into(), kind: kind.into() })
            }
        }
    }

    /// Consumes the first field; returns its length, or `None` if it is incomplete.
    fn consume(
        &mut self,
        bytes: &[u8],
        on_item: &mut impl FnMut(&[u8]),
    ) -> Result<Option<usize>, ProtobufError> {
        match self.position {
            Position::Magic => self.consume_magic(bytes),
            Position::Envelope => self.consume_envelope_field(bytes),
            Position::List { left } => self.consume_list_field(bytes, left, on_item),
            Position::AfterList => Ok(Some(bytes.len()).filter(|length| *length > 0)),
        }
    }

    fn consume_magic(&mut self, bytes: &[u8]) -> Result<Option<usize>, ProtobufError> {
        if bytes.len() < MAGIC.len() {
            return Ok(None);
        }
        if !bytes.starts_with(MAGIC) {
            return Err(ProtobufError::Missing("the magic number of an object"));
        }
        self.position = Position::Envelope;
        Ok(Some(MAGIC.len()))
    }

    fn consume_envelope_field(&mut self, bytes: &[u8]) -> Result<Option<usize>, ProtobufError> {
        let Some(field) = FieldHeader::read(bytes)? else { return Ok(None) };
        if field.tag == Some(CONTENT) {
            self.set_left(field.content_bytes);
            return Ok(Some(field.header_bytes));
        }
        let content = field.total_bytes().and_then(|total| bytes.get(field.header_bytes..total));
        let Some(content) = content else { return Ok(None) };
        if field.tag == Some(TYPE) {
            let TypeMeta { api_version, kind } = decode_type_meta(content)?;
            (self.header.api_version, self.header.kind) = (api_version.into_owned(), kind.into_owned());
        }
        Ok(field.total_bytes())
    }

    fn consume_list_field(
        &mut self,
        bytes: &[u8],
        left: usize,
        on_item: &mut impl FnMut(&[u8]),
    ) -> Result<Option<usize>, ProtobufError> {
        let Some(field) = FieldHeader::read(bytes)? else { return Ok(None) };
        let fits = field.total_bytes().and_then(|total| Some((total, left.checked_sub(total)?)));
        let (total, left) = fits.ok_or(ProtobufError::Missing("the end of a field"))?;
        let Some(content) = bytes.get(field.header_bytes..total) else { return Ok(None) };
        match field.tag {
            Some(ITEM) => on_item(content),
            Some(METADATA) => self.header.version = text_field(content, VERSION)?,
            _ => {}
        }
        self.set_left(left);
        Ok(Some(total))
    }

    fn set_left(&mut self, left: usize) {
        self.position = if left == 0 { Position::AfterList } else { Position::List { left } };
    }
}

impl FieldHeader {
    /// The header at the start of `bytes`, or `None` if it is incomplete.
    fn read(bytes: &[u8]) -> Result<Option<Self>, ProtobufError> {
        match Self::decode(bytes) {
            Ok(header) => Ok(Some(header)),
            Err(_) if bytes.len() < MAX_FIELD_HEADER_BYTES => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, prost::DecodeError> {
        let mut left = bytes;
        let (tag, wire_type) = decode_key(&mut left)?;
        let (tag, content_bytes) = if wire_type == WireType::LengthDelimited {
            (Some(tag), usize::try_from(decode_varint(&mut left)?).unwrap_or(usize::MAX))
        } else {
            skip_field(wire_type, tag, &mut left, DecodeContext::default())?;
            (None, 0)
        };
        Ok(Self { tag, header_bytes: bytes.len() - left.len(), content_bytes })
    }

    /// Header and content; `None` if no list can be that long.
    fn total_bytes(self) -> Option<usize> {
        self.header_bytes.checked_add(self.content_bytes)
    }
}

#[cfg(test)]
mod tests;
