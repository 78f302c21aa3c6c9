//! The JSON of an Event, as kube-proxy's client library writes it.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::health::Moment;

/// The namespace of Events about objects that have none.
const DEFAULT_NAMESPACE: &str = "default";

/// An Event that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// Its type in the API.
    pub severity: Severity,
    /// In one word, for programs.
    pub reason: &'static str,
    /// What was being done.
    pub action: &'static str,
    /// The object.
    pub regarding: Regarding,
    /// Text for people; may be empty.
    pub note: String,
    /// When it happened.
    pub at: Moment,
}

/// The type of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// For information.
    Normal,
    /// An operator should know.
    Warning,
}

/// A reference to an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Regarding {
    /// Its kind.
    pub kind: &'static str,
    /// Group and version.
    pub api_version: &'static str,
    /// Its namespace, where there is one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// Who reports Events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reporter {
    /// The controller and the host it runs on.
    pub instance: String,
}

impl Reporter {
    /// The controller name that tools filter by.
    pub const CONTROLLER: &str = "kube-proxy";

    /// The proxy on this host, by the host's own name and not `--hostname-override`.
    pub fn on_host(host: &str) -> Self {
        Self { instance: format!("{}-{host}", Self::CONTROLLER) }
    }
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

impl Regarding {
    /// The namespace of Events about it.
    pub fn event_namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE)
    }

    fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("kind".into(), self.kind.into());
        object.insert("name".into(), self.name.as_str().into());
        object.insert("apiVersion".into(), self.api_version.into());
        object.extend(self.namespace.iter().map(|namespace| ("namespace".into(), namespace.as_str().into())));
        Value::Object(object)
    }
}

impl EventRecord {
    /// The Event's name: the object's, and the time to make it unique.
    pub fn event_name(&self) -> String {
        format!("{}.{:x}", self.regarding.name, self.at.wall.as_nanosecond())
    }

    /// The path of the collection that it is created in.
    pub fn collection(&self) -> String {
        format!("/apis/events.k8s.io/v1/namespaces/{}/events", self.regarding.event_namespace())
    }

    /// The Event as an API object.
    pub fn to_json(&self, reporter: &Reporter) -> Value {
        let mut event = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": { "name": self.event_name(), "namespace": self.regarding.event_namespace() },
            "eventTime": micro_time(self.at.wall),
            "reportingController": Reporter::CONTROLLER,
            "reportingInstance": reporter.instance,
            "action": self.action,
            "reason": self.reason,
            "regarding": self.regarding.to_json(),
            "type": self.severity.word(),
        });
        if !self.note.is_empty() {
            event["note"] = cut(&self.note).into();
        }
        event
    }
}

/// The `series` field: the count, and the time of the last one.
pub fn series(count: u32, last: Timestamp) -> Value {
    json!({ "count": count, "lastObservedTime": micro_time(last) })
}

/// Always with six decimals, as the API server requires.
fn micro_time(at: Timestamp) -> String {
    format!("{at:.6}")
}

/// The API server accepts at most 1024 bytes.
fn cut(note: &str) -> &str {
    const MAX_BYTES: usize = 1024;
    &note[..note.floor_char_boundary(MAX_BYTES)]
}
