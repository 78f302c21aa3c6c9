//! The body of a watch: one event after the other, as they come, each a line of JSON or a frame of protobuf.

use std::borrow::Cow;

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::connection::Refusal;
use super::protobuf::{self, ProtobufError};
use super::type_name::TypeName;

/// Longer than any object etcd takes; an event beyond it is none.
const LONGEST_EVENT: usize = 16 << 20;
/// Before each frame: how long it is.
const LENGTH: usize = 4;

/// How objects are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As text.
    Json,
    /// As Kubernetes' own components talk to each other, where the server can.
    Protobuf,
}

impl Encoding {
    /// How an answer is written.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if media.starts_with("application/vnd.kubernetes.protobuf") { Self::Protobuf } else { Self::Json }
    }
}

/// An object as it came.
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

/// Bytes that cannot be read.
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

/// Why no more events can be had.
#[derive(Debug)]
pub(super) enum NextError {
    /// Watches break off all the time.
    Broken(hyper::Error),
    /// This is none.
    TooLong,
}

/// One event of a watch. Objects are left as they came.
#[derive(Debug)]
pub(super) enum Event<'a> {
    Put(Raw<'a>),
    Deleted(Raw<'a>),
    /// Nothing happened until this version.
    Bookmark {
        version: String,
        list_is_complete: bool,
    },
    Refused(Refusal),
    /// Of a later Kubernetes.
    Unknown,
}

/// The events of a body.
#[derive(Debug)]
pub(super) struct Events {
    body: Incoming,
    encoding: Encoding,
    rest: Vec<u8>,
}

impl Events {
    pub(super) fn new(body: Incoming, encoding: Encoding) -> Self {
        Self { body, encoding, rest: Vec::new() }
    }

    /// The next complete events, as many as came together; nothing at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Together>, NextError> {
        while let Some(frame) = self.body.frame().await {
            let Ok(data) = frame.map_err(NextError::Broken)?.into_data() else { continue };
            let seen = self.rest.len();
            self.rest.extend_from_slice(&data);
            let complete = complete(self.encoding, &self.rest, seen);
            if self.rest.len() - complete > LONGEST_EVENT {
                return Err(NextError::TooLong);
            }
            if complete > 0 {
                let rest = self.rest.split_off(complete);
                let bytes = std::mem::replace(&mut self.rest, rest);
                return Ok(Some(Together { encoding: self.encoding, bytes }));
            }
        }
        Ok(None)
    }
}

/// Events that came together.
#[derive(Debug)]
pub(super) struct Together {
    encoding: Encoding,
    bytes: Vec<u8>,
}

impl Together {
    /// Each of them.
    pub(super) fn each(&self, wanted: TypeName) -> impl Iterator<Item = Result<Event<'_>, ReadError>> {
        let mut left = &self.bytes[..];
        std::iter::from_fn(move || {
            let (event, rest) = split(self.encoding, left)?;
            left = rest;
            Some(Event::read(Raw { encoding: self.encoding, bytes: event }, wanted))
        })
    }
}

/// The first event, and what comes after it.
fn split(encoding: Encoding, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    match encoding {
        Encoding::Json => {
            let begin = bytes.iter().position(|byte| *byte != b'\n')?;
            let bytes = &bytes[begin..];
            let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
            Some(bytes.split_at(end))
        }
        Encoding::Protobuf => {
            let (length, rest) = bytes.split_first_chunk::<LENGTH>()?;
            rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
        }
    }
}

/// Where the last complete event ends. There was none in the first so many bytes.
fn complete(encoding: Encoding, bytes: &[u8], seen: usize) -> usize {
    match encoding {
        Encoding::Json => {
            let new = bytes.get(seen..).unwrap_or_default();
            new.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| seen + end + 1)
        }
        Encoding::Protobuf => {
            let mut left = bytes;
            while let Some((_, rest)) = split(encoding, left) {
                left = rest;
            }
            bytes.len() - left.len()
        }
    }
}

impl<'a> Event<'a> {
    /// Reads one event of a watch of such objects.
    pub(super) fn read(event: Raw<'a>, wanted: TypeName) -> Result<Self, ReadError> {
        match event.encoding {
            Encoding::Json => {
                let line: Line<'a> = serde_json::from_slice(event.bytes)?;
                let object = line.object.get().as_bytes();
                let is_wanted = || wanted.check(&serde_json::from_slice(object)?);
                Self::of(&line.kind, Raw::json(object), is_wanted)
            }
            Encoding::Protobuf => {
                let (kind, envelope) = protobuf::event(event.bytes)?;
                let is_wanted = || wanted.check(&protobuf::type_meta(envelope)?);
                Self::of(kind, Raw::protobuf(protobuf::unwrapped(envelope)?), is_wanted)
            }
        }
    }

    fn of(
        kind: &str,
        object: Raw<'a>,
        is_wanted: impl FnOnce() -> Result<(), ReadError>,
    ) -> Result<Self, ReadError> {
        Ok(match kind {
            "ADDED" | "MODIFIED" => {
                is_wanted()?;
                Self::Put(object)
            }
            "DELETED" => {
                is_wanted()?;
                Self::Deleted(object)
            }
            "BOOKMARK" => {
                is_wanted()?;
                let (version, list_is_complete) = match object.encoding {
                    Encoding::Json => bookmark(object.bytes)?,
                    Encoding::Protobuf => protobuf::bookmark(object.bytes)?,
                };
                Self::Bookmark { version, list_is_complete }
            }
            "ERROR" => Self::Refused(match object.encoding {
                Encoding::Json => serde_json::from_slice(object.bytes)?,
                Encoding::Protobuf => protobuf::refusal(object.bytes)?,
            }),
            _ => Self::Unknown,
        })
    }
}

/// The version of a bookmark, and whether it ends a streaming list.
fn bookmark(json: &[u8]) -> Result<(String, bool), serde_json::Error> {
    let Mark { metadata } = serde_json::from_slice(json)?;
    let list_is_complete = metadata.annotations.list_is_complete.as_deref() == Some("true");
    Ok((metadata.resource_version, list_is_complete))
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Mark {
    metadata: MarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MarkMeta {
    resource_version: String,
    #[serde(default)]
    annotations: MarkAnnotations,
}

#[derive(Default, Deserialize)]
struct MarkAnnotations {
    #[serde(rename = "k8s.io/initial-events-end")]
    list_is_complete: Option<String>,
}

#[cfg(test)]
mod tests;
