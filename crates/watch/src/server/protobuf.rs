//! Objects and events as the API server writes them in protobuf: a third of the bytes of JSON, and a fraction of the work for
//! both ends.
//!
//! Only the fields of [`crate::api`] have a place here; all others are passed over while reading. Tags are those of the
//! Kubernetes API, which never change.

use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint, skip_field};

use super::connection::Refusal;
use crate::api;

/// What an object begins with, before its envelope.
const MAGIC: &[u8] = b"k8s\0";

/// Bytes that are not what they should be.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProtobufError {
    #[error(transparent)]
    Decode(#[from] prost::DecodeError),
    #[error("{0} is missing")]
    Missing(&'static str),
}

/// The kind of an event and its object, without its envelope.
pub(super) fn event(frame: &[u8]) -> Result<(&str, &[u8]), ProtobufError> {
    let kind = field(frame, 1)?.ok_or(ProtobufError::Missing("the event's type"))?;
    let kind = std::str::from_utf8(kind).map_err(|_| ProtobufError::Missing("the event's type"))?;
    let object = field(frame, 2)?.ok_or(ProtobufError::Missing("the event's object"))?;
    let object = field(object, 1)?.ok_or(ProtobufError::Missing("the event's object"))?;
    Ok((kind, unwrapped(object)?))
}

/// An object without its envelope.
pub(super) fn unwrapped(bytes: &[u8]) -> Result<&[u8], ProtobufError> {
    let envelope = bytes.strip_prefix(MAGIC).ok_or(ProtobufError::Missing("the mark of an object"))?;
    // An object with nothing in it is left out.
    Ok(field(envelope, 2)?.unwrap_or_default())
}

/// How Kubernetes says no.
pub(super) fn refusal(object: &[u8]) -> Result<Refusal, ProtobufError> {
    let Status { message, reason, code } = Status::decode(object)?;
    Ok(Refusal { code: code.try_into().unwrap_or_default(), reason, message })
}

/// The version of a bookmark, and whether it ends a streaming list.
pub(super) fn bookmark(object: &[u8]) -> Result<(String, bool), ProtobufError> {
    let Bare { metadata } = Bare::decode(object)?;
    let metadata = metadata.unwrap_or_default();
    let is_end = |entry: &Entry| entry.key == "k8s.io/initial-events-end" && entry.value == "true";
    Ok((metadata.resource_version, metadata.annotations.iter().any(is_end)))
}

/// The last field of bytes that has this tag, as it came.
fn field(mut bytes: &[u8], wanted: u32) -> Result<Option<&[u8]>, ProtobufError> {
    let mut found = None;
    while !bytes.is_empty() {
        let (tag, wire_type) = decode_key(&mut bytes)?;
        if wire_type != WireType::LengthDelimited {
            skip_field(wire_type, tag, &mut bytes, prost::encoding::DecodeContext::default())?;
            continue;
        }
        let length = usize::try_from(decode_varint(&mut bytes)?).unwrap_or(usize::MAX);
        let (content, rest) =
            bytes.split_at_checked(length).ok_or(ProtobufError::Missing("the end of a field"))?;
        if tag == wanted {
            found = Some(content);
        }
        bytes = rest;
    }
    Ok(found)
}

/// An object of whatever kind.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Bare {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Metadata>,
}

impl Bare {
    pub(super) fn read(object: &[u8]) -> Result<api::ObjectMeta, ProtobufError> {
        Ok(Self::decode(object)?.metadata.unwrap_or_default().into())
    }
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

#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(string, tag = "6")]
    resource_version: String,
    #[prost(message, optional, tag = "8")]
    creation_timestamp: Option<Time>,
    #[prost(message, optional, tag = "9")]
    deletion_timestamp: Option<Time>,
    #[prost(message, repeated, tag = "11")]
    labels: Vec<Entry>,
    #[prost(message, repeated, tag = "12")]
    annotations: Vec<Entry>,
}

/// One label or annotation.
#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Time {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

impl From<Metadata> for api::ObjectMeta {
    fn from(metadata: Metadata) -> Self {
        let mut labels = api::Labels::default();
        for Entry { key, value } in metadata.labels {
            match key.as_str() {
                "kubernetes.io/service-name" => labels.service_name = Some(value),
                "service.kubernetes.io/service-proxy-name" => labels.service_proxy_name = Some(value),
                "service.kubernetes.io/headless" => labels.headless = Some(value),
                "topology.kubernetes.io/zone" => labels.zone = Some(value),
                _ => {}
            }
        }
        let trigger = "endpoints.kubernetes.io/last-change-trigger-time";
        let last_change_trigger_time =
            metadata.annotations.into_iter().find(|entry| entry.key == trigger).map(|entry| entry.value);
        Self {
            name: metadata.name,
            namespace: metadata.namespace,
            resource_version: metadata.resource_version,
            creation_timestamp: metadata.creation_timestamp.and_then(Time::text),
            deletion_timestamp: metadata.deletion_timestamp.and_then(Time::text),
            labels,
            annotations: api::Annotations { last_change_trigger_time },
        }
    }
}

impl Time {
    /// As JSON has it. No time at all is written as nothing, which reads as zero.
    fn text(self) -> Option<String> {
        let time = jiff::Timestamp::from_second(self.seconds).ok();
        time.filter(|_| self.seconds != 0).map(|time| time.to_string())
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Service {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Metadata>,
    #[prost(message, optional, tag = "2")]
    spec: Option<ServiceSpec>,
    #[prost(message, optional, tag = "3")]
    status: Option<ServiceStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct ServiceSpec {
    #[prost(message, repeated, tag = "1")]
    ports: Vec<ServicePort>,
    #[prost(string, tag = "3")]
    cluster_ip: String,
    #[prost(string, tag = "4")]
    kind: String,
    #[prost(string, repeated, tag = "5")]
    external_ips: Vec<String>,
    #[prost(string, tag = "7")]
    session_affinity: String,
    #[prost(string, repeated, tag = "9")]
    load_balancer_source_ranges: Vec<String>,
    #[prost(string, tag = "11")]
    external_traffic_policy: String,
    #[prost(int32, tag = "12")]
    health_check_node_port: i32,
    #[prost(message, optional, tag = "14")]
    session_affinity_config: Option<SessionAffinityConfig>,
    #[prost(string, repeated, tag = "18")]
    cluster_ips: Vec<String>,
    #[prost(string, repeated, tag = "19")]
    ip_families: Vec<String>,
    #[prost(string, tag = "22")]
    internal_traffic_policy: String,
}

#[derive(Clone, PartialEq, Message)]
struct ServicePort {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    protocol: String,
    #[prost(int32, tag = "3")]
    port: i32,
    #[prost(int32, tag = "5")]
    node_port: i32,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct SessionAffinityConfig {
    #[prost(message, optional, tag = "1")]
    client_ip: Option<ClientIpConfig>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct ClientIpConfig {
    #[prost(int32, optional, tag = "1")]
    timeout_seconds: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct ServiceStatus {
    #[prost(message, optional, tag = "1")]
    load_balancer: Option<LoadBalancerStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct LoadBalancerStatus {
    #[prost(message, repeated, tag = "1")]
    ingress: Vec<LoadBalancerIngress>,
}

#[derive(Clone, PartialEq, Message)]
struct LoadBalancerIngress {
    #[prost(string, tag = "1")]
    ip: String,
    #[prost(string, optional, tag = "3")]
    ip_mode: Option<String>,
}

impl Service {
    pub(super) fn read(object: &[u8]) -> Result<api::Service, ProtobufError> {
        let Self { metadata, spec, status } = Self::decode(object)?;
        let ingress = status.and_then(|status| status.load_balancer).map(|status| status.ingress);
        let ingress = ingress.into_iter().flatten();
        let ingress = ingress
            .map(|LoadBalancerIngress { ip, ip_mode }| api::LoadBalancerIngress { ip, ip_mode })
            .collect();
        Ok(api::Service {
            metadata: metadata.unwrap_or_default().into(),
            spec: spec.unwrap_or_default().into(),
            status: api::ServiceStatus { load_balancer: api::LoadBalancerStatus { ingress } },
        })
    }
}

impl From<ServiceSpec> for api::ServiceSpec {
    fn from(spec: ServiceSpec) -> Self {
        let ports = spec.ports.into_iter().map(|ServicePort { name, protocol, port, node_port }| {
            api::ServicePort { name, protocol, port: port.into(), node_port: node_port.into() }
        });
        let client_ip = spec.session_affinity_config.and_then(|config| config.client_ip);
        let timeout_seconds = client_ip.and_then(|config| config.timeout_seconds).map(i64::from);
        Self {
            kind: spec.kind,
            cluster_ip: spec.cluster_ip,
            cluster_ips: spec.cluster_ips,
            ip_families: spec.ip_families,
            ports: ports.collect(),
            external_ips: spec.external_ips,
            load_balancer_source_ranges: spec.load_balancer_source_ranges,
            session_affinity: spec.session_affinity,
            session_affinity_config: api::SessionAffinityConfig {
                client_ip: api::ClientIpConfig { timeout_seconds },
            },
            external_traffic_policy: spec.external_traffic_policy,
            internal_traffic_policy: spec.internal_traffic_policy,
            health_check_node_port: spec.health_check_node_port.into(),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct EndpointSlice {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Metadata>,
    #[prost(message, repeated, tag = "2")]
    endpoints: Vec<Endpoint>,
    #[prost(message, repeated, tag = "3")]
    ports: Vec<EndpointPort>,
    #[prost(string, tag = "4")]
    address_type: String,
}

#[derive(Clone, PartialEq, Message)]
struct Endpoint {
    #[prost(string, repeated, tag = "1")]
    addresses: Vec<String>,
    #[prost(message, optional, tag = "2")]
    conditions: Option<EndpointConditions>,
    #[prost(string, optional, tag = "6")]
    node_name: Option<String>,
    #[prost(message, optional, tag = "8")]
    hints: Option<EndpointHints>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct EndpointConditions {
    #[prost(bool, optional, tag = "1")]
    ready: Option<bool>,
    #[prost(bool, optional, tag = "2")]
    serving: Option<bool>,
    #[prost(bool, optional, tag = "3")]
    terminating: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
struct EndpointHints {
    #[prost(message, repeated, tag = "1")]
    for_zones: Vec<Named>,
    #[prost(message, repeated, tag = "2")]
    for_nodes: Vec<Named>,
}

#[derive(Clone, PartialEq, Message)]
struct Named {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct EndpointPort {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    protocol: Option<String>,
    #[prost(int32, optional, tag = "3")]
    port: Option<i32>,
}

impl EndpointSlice {
    pub(super) fn read(object: &[u8]) -> Result<api::EndpointSlice, ProtobufError> {
        let Self { metadata, endpoints, ports, address_type } = Self::decode(object)?;
        let ports = ports.into_iter().map(|EndpointPort { name, protocol, port }| api::EndpointPort {
            name,
            protocol,
            port: port.map(i64::from),
        });
        Ok(api::EndpointSlice {
            metadata: metadata.unwrap_or_default().into(),
            address_type,
            ports: ports.collect(),
            endpoints: endpoints.into_iter().map(api::Endpoint::from).collect(),
        })
    }
}

impl From<Endpoint> for api::Endpoint {
    fn from(endpoint: Endpoint) -> Self {
        let EndpointConditions { ready, serving, terminating } = endpoint.conditions.unwrap_or_default();
        let EndpointHints { for_zones, for_nodes } = endpoint.hints.unwrap_or_default();
        let names = |all: Vec<Named>| all.into_iter().map(|Named { name }| api::Named { name }).collect();
        Self {
            addresses: endpoint.addresses,
            conditions: api::EndpointConditions { ready, serving, terminating },
            node_name: endpoint.node_name,
            hints: api::EndpointHints { for_zones: names(for_zones), for_nodes: names(for_nodes) },
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ServiceCidr {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Metadata>,
    #[prost(message, optional, tag = "2")]
    spec: Option<ServiceCidrSpec>,
}

#[derive(Clone, PartialEq, Message)]
struct ServiceCidrSpec {
    #[prost(string, repeated, tag = "1")]
    cidrs: Vec<String>,
}

impl ServiceCidr {
    pub(super) fn read(object: &[u8]) -> Result<api::ServiceCidr, ProtobufError> {
        let Self { metadata, spec } = Self::decode(object)?;
        let mut read =
            api::ServiceCidr { metadata: metadata.unwrap_or_default().into(), ..Default::default() };
        read.spec.cidrs = spec.unwrap_or_default().cidrs;
        Ok(read)
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Node {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Metadata>,
    #[prost(message, optional, tag = "2")]
    spec: Option<NodeSpec>,
    #[prost(message, optional, tag = "3")]
    status: Option<NodeStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct NodeSpec {
    #[prost(message, repeated, tag = "5")]
    taints: Vec<Taint>,
    #[prost(string, repeated, tag = "7")]
    pod_cidrs: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Taint {
    #[prost(string, tag = "1")]
    key: String,
}

#[derive(Clone, PartialEq, Message)]
struct NodeStatus {
    #[prost(message, repeated, tag = "5")]
    addresses: Vec<NodeAddress>,
}

#[derive(Clone, PartialEq, Message)]
struct NodeAddress {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(string, tag = "2")]
    address: String,
}

impl Node {
    pub(super) fn read(object: &[u8]) -> Result<api::Node, ProtobufError> {
        let Self { metadata, spec, status } = Self::decode(object)?;
        let NodeSpec { taints, pod_cidrs } = spec.unwrap_or_default();
        let addresses = status.unwrap_or_default().addresses.into_iter();
        let addresses = addresses.map(|NodeAddress { kind, address }| api::NodeAddress { kind, address });
        Ok(api::Node {
            metadata: metadata.unwrap_or_default().into(),
            spec: api::NodeSpec {
                pod_cidrs,
                taints: taints.into_iter().map(|Taint { key }| api::Taint { key }).collect(),
            },
            status: api::NodeStatus { addresses: addresses.collect() },
        })
    }
}

#[cfg(test)]
mod tests;
