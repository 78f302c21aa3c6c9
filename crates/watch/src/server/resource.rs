//! What is watched: where each kind is found, which of its objects are wanted, and how one is read.

use std::fmt::Write as _;
use std::time::Duration;

use ferrule_model::{Change, NodeName, ObjectKind};
use http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::backoff::jittered;
use super::connection::Ask;
use super::events::{Encoding, Raw, ReadError};
use super::protobuf::{self, ProtobufError};
use super::type_name::TypeName;
use crate::api;
use crate::convert::{self, Converted};

/// A watch is renewed after five to ten minutes, as kube-proxy's are, so that its load wanders between API servers.
const SHORTEST_WATCH: Duration = Duration::from_mins(5);

/// One kind, as this proxy wants it.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    pub kind: ObjectKind,
    /// As in "watching Services".
    plural: &'static str,
    path: &'static str,
    /// Ready for a query.
    selectors: String,
    own_node: NodeName,
    /// How its objects are to be written.
    pub encoding: Encoding,
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Since<'a> {
    /// With all there is, then what changes.
    Everything,
    /// With what changed since.
    Version(&'a str),
}

/// One object, read.
#[derive(Debug)]
pub(super) struct Object {
    /// As it was written.
    pub resource_version: String,
    /// The same as a number, for comparing; 0 if it is none.
    pub version: u64,
    pub converted: Converted,
}

impl Resource {
    /// The kind with kube-proxy's selectors.
    pub(super) fn of(kind: ObjectKind, own_node: &NodeName, encoding: Encoding) -> Self {
        let (plural, path, label, field) = match kind {
            ObjectKind::Service => (
                "Services",
                "/api/v1/services",
                "!service.kubernetes.io/service-proxy-name",
                "spec.clusterIP!=None".to_string(),
            ),
            ObjectKind::EndpointSlice => (
                "EndpointSlices",
                "/apis/discovery.k8s.io/v1/endpointslices",
                "!service.kubernetes.io/headless",
                String::new(),
            ),
            ObjectKind::ServiceCidr => {
                ("ServiceCIDRs", "/apis/networking.k8s.io/v1/servicecidrs", "", String::new())
            }
            ObjectKind::Node => ("this Node", "/api/v1/nodes", "", format!("metadata.name={own_node}")),
        };
        let mut selectors = String::new();
        for (name, selector) in [("labelSelector", label), ("fieldSelector", &field)] {
            if !selector.is_empty() {
                let _ = write!(selectors, "&{name}={}", escaped(selector));
            }
        }
        Self { kind, plural, path, selectors, own_node: own_node.clone(), encoding }
    }

    /// What its objects say they are.
    pub(super) fn type_name(&self) -> TypeName {
        TypeName::of(self.kind)
    }

    /// The request of a watch, and for how long the API server is to keep it.
    pub(super) fn watch(&self, since: Since) -> (Ask, Duration) {
        let time = Duration::from_secs(jittered(SHORTEST_WATCH).as_secs());
        let begin = match since {
            Since::Everything => "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_string(),
            Since::Version(version) => format!("resourceVersion={}", escaped(version)),
        };
        let query = format!(
            "watch=true&allowWatchBookmarks=true&timeoutSeconds={}&{begin}{}",
            time.as_secs(),
            self.selectors
        );
        (self.ask("watching", &query, true), time)
    }

    /// The request of a list that is not older than a version; one that is known to have expired must not be asked for.
    pub(super) fn list(&self, not_older_than: Option<&str>) -> Ask {
        let query = match not_older_than {
            Some(version) => {
                format!(
                    "resourceVersion={}&resourceVersionMatch=NotOlderThan{}",
                    escaped(version),
                    self.selectors
                )
            }
            // The newest there is.
            None => self.selectors.trim_start_matches('&').to_string(),
        };
        self.ask("listing", &query, false)
    }

    /// Reads an object that was put.
    pub(super) fn put(&self, object: Raw<'_>) -> Result<Object, ReadError> {
        Ok(match self.kind {
            ObjectKind::Service => {
                let object = read(object, protobuf::Service::read)?;
                Object::new(&object.metadata, convert::service(&object))
            }
            ObjectKind::EndpointSlice => {
                let object = read(object, protobuf::EndpointSlice::read)?;
                Object::new(&object.metadata, convert::endpoint_slice(&object, &self.own_node))
            }
            ObjectKind::ServiceCidr => {
                let object = read(object, protobuf::ServiceCidr::read)?;
                Object::new(&object.metadata, convert::service_cidr(&object))
            }
            ObjectKind::Node => {
                let object = read(object, protobuf::Node::read)?;
                Object::new(&object.metadata, convert::node(&object))
            }
        })
    }

    /// Reads an object of which only the name counts: a deleted one, or one that cannot be read otherwise.
    pub(super) fn gone(&self, object: Raw<'_>) -> Result<(Option<Change>, api::ObjectMeta), ReadError> {
        let metadata = match object.encoding {
            Encoding::Json => serde_json::from_slice::<Bare>(object.bytes)?.metadata,
            Encoding::Protobuf => protobuf::metadata(object.bytes)?,
        };
        let change = match self.kind {
            ObjectKind::Service => convert::service_deleted(&metadata).change,
            ObjectKind::EndpointSlice => convert::endpoint_slice_deleted(&metadata).change,
            ObjectKind::ServiceCidr => convert::service_cidr_deleted(&metadata).change,
            ObjectKind::Node => Some(Change::Node(None)),
        };
        Ok((change, metadata))
    }

    fn ask(&self, doing: &str, query: &str, is_watch: bool) -> Ask {
        Ask {
            method: Method::GET,
            path: format!("{}?{query}", self.path),
            content: None,
            doing: format!("{doing} {}", self.plural),
            is_watch,
            accepts: self.encoding,
        }
    }
}

impl Object {
    fn new(metadata: &api::ObjectMeta, converted: Converted) -> Self {
        let resource_version = metadata.resource_version.clone();
        let version = resource_version.parse().unwrap_or(0);
        Self { resource_version, version, converted }
    }
}

fn read<T: DeserializeOwned>(
    object: Raw<'_>,
    from_protobuf: impl Fn(&[u8]) -> Result<T, ProtobufError>,
) -> Result<T, ReadError> {
    Ok(match object.encoding {
        Encoding::Json => serde_json::from_slice(object.bytes)?,
        Encoding::Protobuf => from_protobuf(object.bytes)?,
    })
}

/// An object of whatever kind.
#[derive(Deserialize)]
struct Bare {
    metadata: api::ObjectMeta,
}

/// Text for a query.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => escaped.push(byte.into()),
            _ => {
                let _ = write!(escaped, "%{byte:02X}");
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
