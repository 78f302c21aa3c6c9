//! Objects and events as the API server writes them in protobuf: a third of the bytes of JSON, and a fraction of the work for
//! both ends.
//!
//! Here are the envelopes. What is in them is in `metadata`, which every object has, and in `messages`. Only the fields of
//! [`crate::api`] have a place there; all others are passed over while reading. Tags are those of the Kubernetes API, which
//! never change.

mod messages;
mod metadata;

use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::connection::Refusal;
use super::type_name::TypeMeta;

pub(super) use messages::{EndpointSlice, Node, Service, ServiceCidr};
pub(super) use metadata::{bookmark, metadata, text_field};

/// What an object begins with, before its envelope.
pub(super) const MAGIC: &[u8] = b"k8s\0";

/// Bytes that are not what they should be.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProtobufError {
    #[error(transparent)]
    Decode(#[from] prost::DecodeError),
    #[error("{0} is missing")]
    Missing(&'static str),
}

/// The kind of an event and its object, in its envelope.
pub(super) fn event(frame: &[u8]) -> Result<(&str, &[u8]), ProtobufError> {
    let kind = field(frame, 1)?.ok_or(ProtobufError::Missing("the event's type"))?;
    let kind = std::str::from_utf8(kind).map_err(|_| ProtobufError::Missing("the event's type"))?;
    let object = field(frame, 2)?.ok_or(ProtobufError::Missing("the event's object"))?;
    let object = field(object, 1)?.ok_or(ProtobufError::Missing("the event's object"))?;
    Ok((kind, object))
}

/// An object without its envelope.
pub(super) fn unwrapped(bytes: &[u8]) -> Result<&[u8], ProtobufError> {
    let envelope = bytes.strip_prefix(MAGIC).ok_or(ProtobufError::Missing("the mark of an object"))?;
    // An object with nothing in it is left out.
    Ok(field(envelope, 2)?.unwrap_or_default())
}

/// What an object in its envelope says of its type.
pub(super) fn type_meta(bytes: &[u8]) -> Result<TypeMeta<'_>, ProtobufError> {
    let envelope = bytes.strip_prefix(MAGIC).ok_or(ProtobufError::Missing("the mark of an object"))?;
    type_meta_of(field(envelope, 1)?.unwrap_or_default())
}

/// The same, from the part of the envelope that says so.
pub(super) fn type_meta_of(bytes: &[u8]) -> Result<TypeMeta<'_>, ProtobufError> {
    let text = |tag| Ok::<_, ProtobufError>(String::from_utf8_lossy(field(bytes, tag)?.unwrap_or_default()));
    Ok(TypeMeta { api_version: text(1)?, kind: text(2)? })
}

/// How Kubernetes says no.
pub(super) fn refusal(object: &[u8]) -> Result<Refusal, ProtobufError> {
    let Status { message, reason, code } = Status::decode(object)?;
    Ok(Refusal { code: code.try_into().unwrap_or_default(), reason, message })
}

/// The last field of bytes that has this tag, as it came.
fn field(bytes: &[u8], wanted: u32) -> Result<Option<&[u8]>, ProtobufError> {
    let mut found = None;
    each_field(bytes, |tag, content| {
        if tag == wanted {
            found = Some(content);
        }
    })?;
    Ok(found)
}

/// Every field that has a length, as it came; the others are numbers.
fn each_field<'a>(mut bytes: &'a [u8], mut each: impl FnMut(u32, &'a [u8])) -> Result<(), ProtobufError> {
    while !bytes.is_empty() {
        let (tag, wire_type) = decode_key(&mut bytes)?;
        if wire_type != WireType::LengthDelimited {
            skip_field(wire_type, tag, &mut bytes, DecodeContext::default())?;
            continue;
        }
        let length = usize::try_from(decode_varint(&mut bytes)?).unwrap_or(usize::MAX);
        let (content, rest) =
            bytes.split_at_checked(length).ok_or(ProtobufError::Missing("the end of a field"))?;
        each(tag, content);
        bytes = rest;
    }
    Ok(())
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "3")]
    message: String,
    #[prost(string, tag = "4")]
    reason: String,
    #[prost(int32, tag = "6")]
    code: i32,
}

#[cfg(test)]
mod tests;
