//! The form of an Event, as kube-proxy's client library writes it.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::health::Moment;

/// Where Events about objects without a namespace are kept.
const DEFAULT_NAMESPACE: &str = "default";

/// Something that happened to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// How bad it is.
    pub severity: Severity,
    /// Why there is an Event, in one word.
    pub reason: &'static str,
    /// What was being done.
    pub action: &'static str,
    /// The object.
    pub regarding: Regarding,
    /// For people; may be empty.
    pub note: String,
    /// When.
    pub at: Moment,
}

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Not at all.
    Normal,
    /// Somebody should look.
    Warning,
}

/// An object by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Regarding {
    /// Its kind.
    pub kind: &'static str,
    /// The group and version of the kind.
    pub api_version: &'static str,
    /// Its namespace, where there is one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// Who tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reporter {
    /// The controller and the host it runs on.
    pub instance: String,
}

impl Reporter {
    /// What tools filter by.
    pub const CONTROLLER: &str = "kube-proxy";

    /// The proxy on this host; its own name counts, not `--hostname-override`.
    pub fn on(host: &str) -> Self {
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

impl Occurrence {
    /// The name of its Event: the object's, and the time so that no two are the same.
    pub fn event_name(&self) -> String {
        format!("{}.{:x}", self.regarding.name, self.at.shown.as_nanosecond())
    }

    /// The collection its Event is created in.
    pub fn collection(&self) -> String {
        format!("/apis/events.k8s.io/v1/namespaces/{}/events", self.regarding.event_namespace())
    }

    /// Its Event.
    pub fn to_json(&self, reporter: &Reporter) -> Value {
        let mut event = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": { "name": self.event_name(), "namespace": self.regarding.event_namespace() },
            "eventTime": micro_time(self.at.shown),
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

/// How often it happened, and when last.
pub fn series(count: u32, last: Timestamp) -> Value {
    json!({ "count": count, "lastObservedTime": micro_time(last) })
}

/// Always with six digits, as the API server reads it.
fn micro_time(at: Timestamp) -> String {
    format!("{at:.6}")
}

/// The API server takes no more than 1024 bytes.
fn cut(note: &str) -> &str {
    const LONGEST: usize = 1024;
    &note[..note.floor_char_boundary(LONGEST)]
}
