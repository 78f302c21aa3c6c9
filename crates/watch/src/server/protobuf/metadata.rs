//! The metadata of objects and bookmarks.
//!
//! Decoded by hand. Labels and annotations may be of any size and, since the API server does not check them, any bytes:
//! those that are not needed must cost nothing, least of all the object.

use prost::Message as _;

use super::super::events::Bookmark;
use super::{ProtobufError, each_field, field};
use crate::api;

const TRIGGER: &[u8] = b"endpoints.kubernetes.io/last-change-trigger-time";
const OVER_CAPACITY: &[u8] = b"endpoints.kubernetes.io/over-capacity";
const COUNTERS: &[u8] = b"ferrule.dev/counters";
const END_OF_LIST: &[u8] = b"k8s.io/initial-events-end";

/// The metadata of an object of any kind.
pub fn metadata(object: &[u8]) -> Result<api::ObjectMeta, ProtobufError> {
    let mut decoded = api::ObjectMeta::default();
    let (mut created, mut deleted, mut entries) = (None, None, Vec::new());
    each_field(field(object, 1)?.unwrap_or_default(), |tag, content| match tag {
        1 => decoded.name = text(content),
        3 => decoded.namespace = text(content),
        6 => decoded.resource_version = text(content),
        8 => created = Some(content),
        9 => deleted = Some(content),
        11 | 12 => entries.push((tag, content)),
        _ => {}
    })?;
    decoded.creation_timestamp = time(created)?;
    decoded.deletion_timestamp = time(deleted)?;
    for (tag, entry) in entries {
        let key = field(entry, 1)?.unwrap_or_default();
        let target = match (tag, key) {
            (11, b"kubernetes.io/service-name") => &mut decoded.labels.service_name,
            (11, b"service.kubernetes.io/service-proxy-name") => &mut decoded.labels.service_proxy_name,
            (11, b"service.kubernetes.io/headless") => &mut decoded.labels.headless,
            (11, b"topology.kubernetes.io/zone") => &mut decoded.labels.zone,
            (11, COUNTERS) => &mut decoded.labels.counters,
            (12, COUNTERS) => &mut decoded.annotations.counters,
            (12, TRIGGER) => &mut decoded.annotations.last_change_trigger_time,
            (12, OVER_CAPACITY) => &mut decoded.annotations.over_capacity,
            _ => continue,
        };
        *target = Some(text(field(entry, 2)?.unwrap_or_default()));
    }
    Ok(decoded)
}

/// The content of a bookmark event.
pub fn bookmark(object: &[u8]) -> Result<Bookmark, ProtobufError> {
    let (mut version, mut annotations) = (String::new(), Vec::new());
    each_field(field(object, 1)?.unwrap_or_default(), |tag, content| match tag {
        6 => version = text(content),
        12 => annotations.push(content),
        _ => {}
    })?;
    let mut ends_list = false;
    for entry in annotations {
        ends_list |= field(entry, 1)? == Some(END_OF_LIST) && field(entry, 2)? == Some(b"true");
    }
    Ok(Bookmark { version, ends_list })
}

/// A field of a message, as text.
pub fn text_field(message: &[u8], tag: u32) -> Result<String, ProtobufError> {
    Ok(text(field(message, tag)?.unwrap_or_default()))
}

/// Lossy, as the JSON of the same object would be.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
struct Time {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

/// A time in the form JSON has. An absent time decodes as zero.
fn time(message: Option<&[u8]>) -> Result<Option<String>, ProtobufError> {
    let Time { seconds } = Time::decode(message.unwrap_or_default())?;
    let time = jiff::Timestamp::from_second(seconds).ok();
    Ok(time.filter(|_| seconds != 0).map(|time| time.to_string()))
}
