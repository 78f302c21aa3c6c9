//! Takes the objects out of a list while it comes in, so that it is never held as a whole.

mod json;
mod protobuf;

use super::events::{Encoding, Raw, ReadError};

/// Longer than any object etcd takes.
const LONGEST_ITEM: usize = 16 << 20;

/// A list that is coming in.
#[derive(Debug)]
pub(super) enum Items {
    Json(json::Items),
    Protobuf(protobuf::Items),
}

impl Items {
    pub(super) fn written_in(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Json => Self::Json(json::Items::default()),
            Encoding::Protobuf => Self::Protobuf(protobuf::Items::default()),
        }
    }

    /// Takes more of the list and hands out every item that is complete.
    pub(super) fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(Raw<'_>)) -> Result<(), ReadError> {
        match self {
            Self::Json(items) => items.feed(bytes, |item| each(Raw::json(item))),
            Self::Protobuf(items) => items.feed(bytes, |item| each(Raw::protobuf(item))),
        }
    }

    /// The version of the list, after all of it came.
    pub(super) fn finish(self) -> Result<String, ReadError> {
        match self {
            Self::Json(items) => Ok(items.finish()?),
            Self::Protobuf(items) => Ok(items.finish()?),
        }
    }
}
