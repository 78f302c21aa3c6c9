//! Objects and events in protobuf: a third of the bytes of JSON, and a fraction of the work for both ends.
//!
//! Decodes the envelopes. `metadata`, common to all objects, and `messages` decode their content: only the fields of
//! [`crate::api`], all others are skipped. Field numbers are those of the Kubernetes API and never change.

mod endpoints;
mod messages;
mod metadata;

use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::api_status::ApiStatus;
use super::type_name::TypeMeta;

pub(super) use endpoints::Endpoints;
pub(super) use messages::{EndpointSlice, Node, Service, ServiceCidr};
pub(super) use metadata::{bookmark, metadata, text_field};

/// Precedes the envelope of every object.
pub(super) const MAGIC: &[u8] = b"k8s\0";

#[derive(Debug, thiserror::Error)]
pub(super) enum ProtobufError {
    #[error(transparent)]
    Decode(#[from] prost::DecodeError),
    #[error("{0} is missing")]
    Missing(&'static str),
}

/// The type of an event, and its object, still in its envelope.
pub(super) fn event(frame: &[u8]) -> Result<(&str, &[u8]), ProtobufError> {
    let kind = field(frame, 1)?.ok_or(ProtobufError::Missing("the event's type"))?;
    let kind = std::str::from_utf8(kind).map_err(|_| ProtobufError::Missing("the event's type"))?;
    let object = field(frame, 2)?.ok_or(ProtobufError::Missing("the event's object"))?;
    let object = field(object, 1)?.ok_or(ProtobufError::Missing("the event's object"))?;
    Ok((kind, object))
}

/// The object inside an envelope.
pub(super) fn strip_envelope(bytes: &[u8]) -> Result<&[u8], ProtobufError> {
    let envelope =
        bytes.strip_prefix(MAGIC).ok_or(ProtobufError::Missing("the magic number of an object"))?;
    // The field is absent for an object without content.
    Ok(field(envelope, 2)?.unwrap_or_default())
}

/// The type of an object in its envelope.
pub(super) fn type_meta(bytes: &[u8]) -> Result<TypeMeta<'_>, ProtobufError> {
    let envelope =
        bytes.strip_prefix(MAGIC).ok_or(ProtobufError::Missing("the magic number of an object"))?;
    decode_type_meta(field(envelope, 1)?.unwrap_or_default())
}

/// Decodes the `TypeMeta` message of an envelope.
pub(super) fn decode_type_meta(bytes: &[u8]) -> Result<TypeMeta<'_>, ProtobufError> {
    let text = |tag| Ok::<_, ProtobufError>(String::from_utf8_lossy(field(bytes, tag)?.unwrap_or_default()));
    Ok(TypeMeta { api_version: text(1)?, kind: text(2)? })
}

pub(super) fn api_status(object: &[u8]) -> Result<ApiStatus, ProtobufError> {
    let Status { message, reason, code } = Status::decode(object)?;
    Ok(ApiStatus { code: code.try_into().unwrap_or_default(), reason, message })
}

/// The content of the last field with this tag.
fn field(bytes: &[u8], wanted: u32) -> Result<Option<&[u8]>, ProtobufError> {
    let mut found = None;
    each_field(bytes, |tag, content| {
        if tag == wanted {
            found = Some(content);
        }
    })?;
    Ok(found)
}

/// Calls back for every length-delimited field; numbers are skipped.
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
