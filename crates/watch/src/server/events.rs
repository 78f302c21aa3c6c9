//! The body of a watch: one event a line, as the lines come.

use std::borrow::Cow;
use std::error::Error;
use std::io;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::connection::Refusal;

/// Longer than any object etcd takes; a line beyond it is none.
const LONGEST_LINE: usize = 16 << 20;

/// One event of a watch. Objects are left as they came.
#[derive(Debug)]
pub(super) enum Event<'a> {
    Put(&'a [u8]),
    Deleted(&'a [u8]),
    /// Nothing happened until this version.
    Bookmark {
        version: String,
        list_is_complete: bool,
    },
    Refused(Refusal),
    /// Of a later Kubernetes.
    Unknown,
}

/// The lines of a body.
#[derive(Debug)]
pub(super) struct Lines {
    body: Incoming,
    rest: Vec<u8>,
}

impl Lines {
    pub(super) fn new(body: Incoming) -> Self {
        Self { body, rest: Vec::new() }
    }

    /// The next complete lines, as many as came together; nothing at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>, Box<dyn Error + Send + Sync>> {
        while let Some(frame) = self.body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            let end = data.iter().rposition(|byte| *byte == b'\n');
            if let Some(end) = end {
                let mut lines = std::mem::take(&mut self.rest);
                lines.extend_from_slice(&data[..=end]);
                self.rest.extend_from_slice(&data[end + 1..]);
                return Ok(Some(lines));
            }
            if self.rest.len() + data.len() > LONGEST_LINE {
                return Err(io::Error::other("an event longer than any object can be").into());
            }
            self.rest.extend_from_slice(&data);
        }
        Ok(None)
    }
}

impl<'a> Event<'a> {
    /// Reads one line.
    pub(super) fn read(line: &'a [u8]) -> Result<Self, serde_json::Error> {
        let line: Line = serde_json::from_slice(line)?;
        let object = line.object.get().as_bytes();
        Ok(match &*line.kind {
            "ADDED" | "MODIFIED" => Self::Put(object),
            "DELETED" => Self::Deleted(object),
            "BOOKMARK" => {
                let Mark { metadata } = serde_json::from_slice(object)?;
                let list_is_complete = metadata.annotations.list_is_complete.as_deref() == Some("true");
                Self::Bookmark { version: metadata.resource_version, list_is_complete }
            }
            "ERROR" => Self::Refused(serde_json::from_slice(object)?),
            _ => Self::Unknown,
        })
    }
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
