//! What every object says of itself.
//!
//! Taken out by hand: an object may carry labels and annotations of any size and, being bytes to the API server, of any form,
//! and none of those that are not wanted may cost anything, least of all the object.

use prost::Message as _;

use super::{ProtobufError, each_field, field};
use crate::api;

const TRIGGER: &[u8] = b"endpoints.kubernetes.io/last-change-trigger-time";
const END_OF_LIST: &[u8] = b"k8s.io/initial-events-end";

/// The metadata of an object of whatever kind.
pub fn metadata(object: &[u8]) -> Result<api::ObjectMeta, ProtobufError> {
    let mut read = api::ObjectMeta::default();
    let (mut created, mut deleted, mut entries) = (None, None, Vec::new());
    each_field(field(object, 1)?.unwrap_or_default(), |tag, content| match tag {
        1 => read.name = text(content),
        3 => read.namespace = text(content),
        6 => read.resource_version = text(content),
        8 => created = Some(content),
        9 => deleted = Some(content),
        11 | 12 => entries.push((tag, content)),
        _ => {}
    })?;
    read.creation_timestamp = time(created)?;
    read.deletion_timestamp = time(deleted)?;
    for (tag, entry) in entries {
        let key = field(entry, 1)?.unwrap_or_default();
        let place = match (tag, key) {
            (11, b"kubernetes.io/service-name") => &mut read.labels.service_name,
            (11, b"service.kubernetes.io/service-proxy-name") => &mut read.labels.service_proxy_name,
            (11, b"service.kubernetes.io/headless") => &mut read.labels.headless,
            (11, b"topology.kubernetes.io/zone") => &mut read.labels.zone,
            (12, TRIGGER) => &mut read.annotations.last_change_trigger_time,
            _ => continue,
        };
        *place = Some(text(field(entry, 2)?.unwrap_or_default()));
    }
    Ok(read)
}

/// The version of a bookmark, and whether it ends a streaming list.
pub fn bookmark(object: &[u8]) -> Result<(String, bool), ProtobufError> {
    let (mut version, mut annotations) = (String::new(), Vec::new());
    each_field(field(object, 1)?.unwrap_or_default(), |tag, content| match tag {
        6 => version = text(content),
        12 => annotations.push(content),
        _ => {}
    })?;
    let mut is_end = false;
    for entry in annotations {
        is_end |= field(entry, 1)? == Some(END_OF_LIST) && field(entry, 2)? == Some(b"true");
    }
    Ok((version, is_end))
}

/// A field of a message, as text.
pub fn text_field(message: &[u8], tag: u32) -> Result<String, ProtobufError> {
    Ok(text(field(message, tag)?.unwrap_or_default()))
}

/// As the JSON of the same object would have it.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Time {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

/// As JSON has it. No time at all is written as nothing, which reads as zero.
fn time(message: Option<&[u8]>) -> Result<Option<String>, ProtobufError> {
    let Time { seconds } = Time::decode(message.unwrap_or_default())?;
    let time = jiff::Timestamp::from_second(seconds).ok();
    Ok(time.filter(|_| seconds != 0).map(|time| time.to_string()))
}
