//! The body of a watch: a stream of events, each a line of JSON or a length-prefixed frame of protobuf.

use std::borrow::Cow;

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::api_status::ApiStatus;
use super::protobuf::{self, ProtobufError};
use super::type_name::TypeName;

/// Larger than any object etcd stores; a longer event is a broken stream.
const MAX_EVENT_BYTES: usize = 16 << 20;
/// Size of the length before each protobuf frame.
const LENGTH_BYTES: usize = 4;

/// The wire format of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Understood by every API server.
    Json,
    /// A third of the bytes of JSON; API servers fall back to JSON where they cannot.
    Protobuf,
}

impl Encoding {
    pub(super) fn from_headers(headers: &HeaderMap) -> Self {
        let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if media.starts_with("application/vnd.kubernetes.protobuf") { Self::Protobuf } else { Self::Json }
    }
}

/// An object that is not decoded yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Raw<'a> {
    pub encoding: Encoding,
    pub bytes: &'a [u8],
}

impl<'a> Raw<'a> {
    pub(super) fn json(bytes: &'a [u8]) -> Self {
        Self { encoding: Encoding::Json, bytes }
    }

    pub(super) fn protobuf(bytes: &'a [u8]) -> Self {
        Self { encoding: Encoding::Protobuf, bytes }
    }
}

/// Why a list, an event or an object cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Protobuf(#[from] ProtobufError),
    #[error("it is longer than any object can be")]
    TooLong,
    #[error("it ends too early")]
    EndsEarly,
    #[error("it is \"{found}\", not \"{wanted}\"")]
    OtherType { found: String, wanted: String },
    #[error("it has no version")]
    NoVersion,
}

/// Why a stream of events ended.
#[derive(Debug)]
pub(super) enum StreamError {
    /// The connection broke. Normal for a watch.
    Broken(hyper::Error),
    /// An event exceeds the limit. Not normal.
    TooLong,
}

/// One event of a watch. Its object is not decoded yet.
#[derive(Debug)]
pub(super) enum Event<'a> {
    Put(Raw<'a>),
    Deleted(Raw<'a>),
    /// All changes up to this version have been sent.
    Bookmark(Bookmark),
    Error(ApiStatus),
    /// A type that later versions of Kubernetes may add.
    Unknown,
}

/// The content of a bookmark event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bookmark {
    pub version: String,
    /// Set on the bookmark that ends the initial events of a streaming list.
    pub ends_list: bool,
}

/// The stream of events in the body of a response.
#[derive(Debug)]
pub(super) struct EventStream {
    body: Incoming,
    encoding: Encoding,
    incomplete: Vec<u8>,
}

impl EventStream {
    pub(super) fn new(body: Incoming, encoding: Encoding) -> Self {
        Self { body, encoding, incomplete: Vec::new() }
    }

    /// Waits for at least one complete event; returns all that arrived with it. `None` at the end of the body.
    pub(super) async fn next(&mut self) -> Result<Option<EventFrame>, StreamError> {
        while let Some(frame) = self.body.frame().await {
            let Ok(data) = frame.map_err(StreamError::Broken)?.into_data() else { continue };
            let scanned = self.incomplete.len();
            self.incomplete.extend_from_slice(&data);
            let complete = complete_length(self.encoding, &self.incomplete, scanned);
            if self.incomplete.len() - complete > MAX_EVENT_BYTES {
                return Err(StreamError::TooLong);
            }
            if complete > 0 {
                let rest = self.incomplete.split_off(complete);
                let bytes = std::mem::replace(&mut self.incomplete, rest);
                return Ok(Some(EventFrame { encoding: self.encoding, bytes }));
            }
        }
        Ok(None)
    }
}

/// Complete events that arrived together, and are reported together.
#[derive(Debug)]
pub(super) struct EventFrame {
    encoding: Encoding,
    bytes: Vec<u8>,
}

impl EventFrame {
    /// Decodes the events one by one; fails for objects that are not of the `wanted` type.
    pub(super) fn events(&self, wanted: TypeName) -> impl Iterator<Item = Result<Event<'_>, ReadError>> {
        let mut left = &self.bytes[..];
        std::iter::from_fn(move || {
            let (event, rest) = split_first(self.encoding, left)?;
            left = rest;
            Some(Event::decode(Raw { encoding: self.encoding, bytes: event }, wanted))
        })
    }
}

/// The first event, and the bytes after it.
fn split_first(encoding: Encoding, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    match encoding {
        Encoding::Json => {
            let begin = bytes.iter().position(|byte| *byte != b'\n')?;
            let bytes = &bytes[begin..];
            let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
            Some(bytes.split_at(end))
        }
        Encoding::Protobuf => {
            let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
            rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
        }
    }
}

/// The end of the last complete event. The first `scanned` bytes are known to hold no end of one.
fn complete_length(encoding: Encoding, bytes: &[u8], scanned: usize) -> usize {
    match encoding {
        Encoding::Json => {
            let new = bytes.get(scanned..).unwrap_or_default();
            new.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| scanned + end + 1)
        }
        Encoding::Protobuf => {
            let mut left = bytes;
            while let Some((_, rest)) = split_first(encoding, left) {
                left = rest;
            }
            bytes.len() - left.len()
        }
    }
}

impl<'a> Event<'a> {
    /// Decodes the envelope of one event and checks the type of its object.
    pub(super) fn decode(event: Raw<'a>, wanted: TypeName) -> Result<Self, ReadError> {
        match event.encoding {
            Encoding::Json => {
                let envelope: JsonEnvelope<'a> = serde_json::from_slice(event.bytes)?;
                let object = envelope.object.get().as_bytes();
                let check_type = || wanted.check_object(&serde_json::from_slice(object)?);
                Self::from_parts(&envelope.kind, Raw::json(object), check_type)
            }
            Encoding::Protobuf => {
                let (kind, envelope) = protobuf::event(event.bytes)?;
                let check_type = || wanted.check_object(&protobuf::type_meta(envelope)?);
                Self::from_parts(kind, Raw::protobuf(protobuf::strip_envelope(envelope)?), check_type)
            }
        }
    }

    fn from_parts(
        kind: &str,
        object: Raw<'a>,
        check_type: impl FnOnce() -> Result<(), ReadError>,
    ) -> Result<Self, ReadError> {
        Ok(match kind {
            "ADDED" | "MODIFIED" => {
                check_type()?;
                Self::Put(object)
            }
            "DELETED" => {
                check_type()?;
                Self::Deleted(object)
            }
            "BOOKMARK" => {
                check_type()?;
                Self::Bookmark(match object.encoding {
                    Encoding::Json => bookmark(object.bytes)?,
                    Encoding::Protobuf => protobuf::bookmark(object.bytes)?,
                })
            }
            "ERROR" => Self::Error(match object.encoding {
                Encoding::Json => serde_json::from_slice(object.bytes)?,
                Encoding::Protobuf => protobuf::api_status(object.bytes)?,
            }),
            _ => Self::Unknown,
        })
    }
}

fn bookmark(json: &[u8]) -> Result<Bookmark, serde_json::Error> {
    let BookmarkObject { metadata } = serde_json::from_slice(json)?;
    let ends_list = metadata.annotations.initial_events_end.as_deref() == Some("true");
    Ok(Bookmark { version: metadata.resource_version, ends_list })
}

#[derive(Deserialize)]
struct JsonEnvelope<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct BookmarkObject {
    metadata: BookmarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: String,
    #[serde(default)]
    annotations: BookmarkAnnotations,
}

#[derive(Default, Deserialize)]
struct BookmarkAnnotations {
    #[serde(rename = "k8s.io/initial-events-end")]
    initial_events_end: Option<String>,
}

#[cfg(test)]
mod tests;
