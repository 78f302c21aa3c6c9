//! A list in protobuf: an envelope, and in it one field after the other, most of them items.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::super::events::ReadError;
use super::super::protobuf::{MAGIC, ProtobufError, text_field, type_meta_of};
use super::super::type_name::TypeMeta;
use super::{About, LONGEST_ITEM};

/// No tag with its length takes more bytes.
const LONGEST_HEAD: usize = 20;

/// The tags of an envelope, of a list, and of what they say of themselves.
const TYPE: u32 = 1;
const CONTENT: u32 = 2;
const METADATA: u32 = 1;
const ITEM: u32 = 2;
const VERSION: u32 = 2;

/// The part of a list that has come in.
#[derive(Debug, Default)]
pub struct Items {
    /// What has come and is not complete.
    rest: Vec<u8>,
    place: Place,
    about: About,
}

/// Where in the list its next byte belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Beginning,
    Envelope,
    List {
        left: usize,
    },
    /// What comes then says nothing.
    AfterTheList,
}

/// What comes before a field's content.
#[derive(Clone, Copy)]
struct Head {
    /// Nothing for a number: no list has any that counts.
    tag: Option<u32>,
    before: usize,
    content: usize,
}

impl Items {
    /// Takes more of the list and hands out every item that is complete.
    pub fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), ReadError> {
        let mut all = std::mem::take(&mut self.rest);
        all.extend_from_slice(bytes);
        let mut taken = 0;
        while let Some(length) = self.take(&all[taken..], &mut each)? {
            taken += length;
        }
        all.drain(..taken);
        self.rest = all;
        if self.rest.len() > LONGEST_ITEM { Err(ReadError::TooLong) } else { Ok(()) }
    }

    /// What the list says of itself, after all of it came.
    pub(super) fn finish(self) -> Result<About, ReadError> {
        match self.place {
            Place::AfterTheList => Ok(self.about),
            Place::Beginning | Place::Envelope | Place::List { .. } => Err(ReadError::EndsEarly),
        }
    }

    /// What the list has said of its type, once its items begin.
    pub(super) fn type_meta(&self) -> Option<TypeMeta<'_>> {
        match self.place {
            Place::Beginning | Place::Envelope => None,
            Place::List { .. } | Place::AfterTheList => {
                let About { api_version, kind, .. } = &self.about;
                Some(TypeMeta { api_version: api_version.into(), kind: kind.into() })
            }
        }
    }

    /// Takes the first part of what has come; says how long it was, or nothing if more must come first.
    fn take(&mut self, bytes: &[u8], each: &mut impl FnMut(&[u8])) -> Result<Option<usize>, ProtobufError> {
        match self.place {
            Place::Beginning => self.begin(bytes),
            Place::Envelope => self.take_envelope(bytes),
            Place::List { left } => self.take_field(bytes, left, each),
            Place::AfterTheList => Ok(Some(bytes.len()).filter(|length| *length > 0)),
        }
    }

    fn begin(&mut self, bytes: &[u8]) -> Result<Option<usize>, ProtobufError> {
        if bytes.len() < MAGIC.len() {
            return Ok(None);
        }
        if !bytes.starts_with(MAGIC) {
            return Err(ProtobufError::Missing("the mark of an object"));
        }
        self.place = Place::Envelope;
        Ok(Some(MAGIC.len()))
    }

    fn take_envelope(&mut self, bytes: &[u8]) -> Result<Option<usize>, ProtobufError> {
        let Some(head) = Head::read(bytes)? else { return Ok(None) };
        if head.tag == Some(CONTENT) {
            self.enter(head.content);
            return Ok(Some(head.before));
        }
        let content = head.whole().and_then(|whole| bytes.get(head.before..whole));
        let Some(content) = content else { return Ok(None) };
        if head.tag == Some(TYPE) {
            let TypeMeta { api_version, kind } = type_meta_of(content)?;
            (self.about.api_version, self.about.kind) = (api_version.into_owned(), kind.into_owned());
        }
        Ok(head.whole())
    }

    fn take_field(
        &mut self,
        bytes: &[u8],
        left: usize,
        each: &mut impl FnMut(&[u8]),
    ) -> Result<Option<usize>, ProtobufError> {
        let Some(head) = Head::read(bytes)? else { return Ok(None) };
        let fits = head.whole().and_then(|whole| Some((whole, left.checked_sub(whole)?)));
        let (whole, left) = fits.ok_or(ProtobufError::Missing("the end of a field"))?;
        let Some(content) = bytes.get(head.before..whole) else { return Ok(None) };
        match head.tag {
            Some(ITEM) => each(content),
            Some(METADATA) => self.about.version = text_field(content, VERSION)?,
            _ => {}
        }
        self.enter(left);
        Ok(Some(whole))
    }

    fn enter(&mut self, left: usize) {
        self.place = if left == 0 { Place::AfterTheList } else { Place::List { left } };
    }
}

impl Head {
    /// The head that bytes begin with, or nothing if more must come first.
    fn read(bytes: &[u8]) -> Result<Option<Self>, ProtobufError> {
        match Self::decode(bytes) {
            Ok(head) => Ok(Some(head)),
            Err(_) if bytes.len() < LONGEST_HEAD => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, prost::DecodeError> {
        let mut left = bytes;
        let (tag, wire_type) = decode_key(&mut left)?;
        let (tag, content) = if wire_type == WireType::LengthDelimited {
            (Some(tag), usize::try_from(decode_varint(&mut left)?).unwrap_or(usize::MAX))
        } else {
            skip_field(wire_type, tag, &mut left, DecodeContext::default())?;
            (None, 0)
        };
        Ok(Self { tag, before: bytes.len() - left.len(), content })
    }

    /// How long the field is, if it can be.
    fn whole(self) -> Option<usize> {
        self.before.checked_add(self.content)
    }
}

#[cfg(test)]
mod tests;
