//! One watched kind: its path and selectors, its requests, and how its objects are decoded.

use std::fmt::Write as _;
use std::time::Duration;

use ferrule_model::{Change, NodeName, ObjectKind};
use http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::connection::ApiRequest;
use super::events::{Encoding, Raw, ReadError};
use super::protobuf::{self, ProtobufError};
use super::retry::jittered;
use super::type_name::TypeName;
use crate::api;
use crate::convert::{self, Converted};

/// Watches last five to ten minutes, as kube-proxy's do, so that load moves between API servers.
const MIN_WATCH_TIMEOUT: Duration = Duration::from_mins(5);

/// One kind with the selectors of this proxy.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    pub kind: ObjectKind,
    /// For messages: "watching Services".
    plural: &'static str,
    path: &'static str,
    /// Encoded for a query, each with a leading `&`.
    selectors: String,
    own_node: NodeName,
    /// The format to request.
    pub encoding: Encoding,
}

/// The state a watch starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchStart<'a> {
    /// The whole current state as initial events, then changes.
    InitialEvents,
    /// Changes after this version.
    Version(&'a str),
}

/// A watch request, and how long the API server is asked to keep it open.
pub(super) struct WatchRequest {
    pub request: ApiRequest,
    pub timeout: Duration,
}

/// A decoded object.
#[derive(Debug)]
pub(super) struct DecodedObject {
    /// As sent.
    pub resource_version: String,
    /// The same as a number, for comparison; 0 if it is not one.
    pub version: u64,
    pub converted: Converted,
}

/// A deleted object, or one of which only the metadata can be decoded.
#[derive(Debug)]
pub(super) struct Deletion {
    /// Removes the object; `None` if its name cannot be used.
    pub change: Option<Change>,
    pub metadata: api::ObjectMeta,
}

impl Resource {
    /// The selectors are kube-proxy's.
    pub(super) fn new(kind: ObjectKind, own_node: &NodeName, encoding: Encoding) -> Self {
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
            ObjectKind::Endpoints => (
                "Endpoints",
                "/api/v1/endpoints",
                "!service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name",
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
                let _ = write!(selectors, "&{name}={}", percent_encoded(selector));
            }
        }
        Self { kind, plural, path, selectors, own_node: own_node.clone(), encoding }
    }

    pub(super) fn type_name(&self) -> TypeName {
        TypeName::for_kind(self.kind)
    }

    pub(super) fn watch_request(&self, start: WatchStart) -> WatchRequest {
        let timeout = Duration::from_secs(jittered(MIN_WATCH_TIMEOUT, 1.0).as_secs());
        let start = match start {
            WatchStart::InitialEvents => {
                "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_string()
            }
            WatchStart::Version(version) => format!("resourceVersion={}", percent_encoded(version)),
        };
        let query = format!(
            "watch=true&allowWatchBookmarks=true&timeoutSeconds={}&{start}{}",
            timeout.as_secs(),
            self.selectors
        );
        WatchRequest { request: self.request("watching", &query, true), timeout }
    }

    /// A list of a state that is not older than a version; of the newest state without one. The version must not be one
    /// that is known to have expired.
    pub(super) fn list_request(&self, not_older_than: Option<&str>) -> ApiRequest {
        let query = match not_older_than {
            Some(version) => {
                format!(
                    "resourceVersion={}&resourceVersionMatch=NotOlderThan{}",
                    percent_encoded(version),
                    self.selectors
                )
            }
            None => self.selectors.trim_start_matches('&').to_string(),
        };
        self.request("listing", &query, false)
    }

    pub(super) fn decode(&self, object: Raw<'_>) -> Result<DecodedObject, ReadError> {
        Ok(match self.kind {
            ObjectKind::Service => {
                let object = decode(object, protobuf::Service::decode_object)?;
                DecodedObject::new(&object.metadata, convert::service(&object))
            }
            ObjectKind::EndpointSlice => {
                let object = decode(object, protobuf::EndpointSlice::decode_object)?;
                DecodedObject::new(&object.metadata, convert::endpoint_slice(&object, &self.own_node))
            }
            ObjectKind::Endpoints => {
                let object = decode(object, protobuf::Endpoints::decode_object)?;
                DecodedObject::new(&object.metadata, convert::endpoints(&object, &self.own_node))
            }
            ObjectKind::ServiceCidr => {
                let object = decode(object, protobuf::ServiceCidr::decode_object)?;
                DecodedObject::new(&object.metadata, convert::service_cidr(&object))
            }
            ObjectKind::Node => {
                let object = decode(object, protobuf::Node::decode_object)?;
                DecodedObject::new(&object.metadata, convert::node(&object))
            }
        })
    }

    /// Decodes the metadata alone, which is enough to delete an object, or to name one that cannot be decoded.
    pub(super) fn decode_deletion(&self, object: Raw<'_>) -> Result<Deletion, ReadError> {
        let metadata = match object.encoding {
            Encoding::Json => serde_json::from_slice::<MetadataOnly>(object.bytes)?.metadata,
            Encoding::Protobuf => protobuf::metadata(object.bytes)?,
        };
        let change = match self.kind {
            ObjectKind::Service => convert::service_deleted(&metadata).change,
            ObjectKind::EndpointSlice => convert::endpoint_slice_deleted(&metadata).change,
            ObjectKind::Endpoints => convert::endpoints_deleted(&metadata).change,
            ObjectKind::ServiceCidr => convert::service_cidr_deleted(&metadata).change,
            ObjectKind::Node => Some(Change::Node(None)),
        };
        Ok(Deletion { change, metadata })
    }

    fn request(&self, verb: &str, query: &str, is_watch: bool) -> ApiRequest {
        ApiRequest {
            method: Method::GET,
            path: format!("{}?{query}", self.path),
            content: None,
            operation: format!("{verb} {}", self.plural),
            is_watch,
            accepts: self.encoding,
        }
    }
}

impl DecodedObject {
    fn new(metadata: &api::ObjectMeta, converted: Converted) -> Self {
        let resource_version = metadata.resource_version.clone();
        let version = resource_version.parse().unwrap_or(0);
        Self { resource_version, version, converted }
    }
}

fn decode<T: DeserializeOwned>(
    object: Raw<'_>,
    from_protobuf: impl Fn(&[u8]) -> Result<T, ProtobufError>,
) -> Result<T, ReadError> {
    Ok(match object.encoding {
        Encoding::Json => serde_json::from_slice(object.bytes)?,
        Encoding::Protobuf => from_protobuf(object.bytes)?,
    })
}

#[derive(Deserialize)]
struct MetadataOnly {
    metadata: api::ObjectMeta,
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(byte.into()),
            _ => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests;
