//! The watched kinds, each with the fields a proxy reads.

use prost::Message;

use super::{ProtobufError, metadata};
use crate::api;

/// `v1/Service`
#[derive(Clone, PartialEq, Message)]
pub struct Service {
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
    /// Decodes an object without its envelope.
    pub fn decode_object(object: &[u8]) -> Result<api::Service, ProtobufError> {
        let Self { spec, status } = Self::decode(object)?;
        let ingress = status.and_then(|status| status.load_balancer).map(|status| status.ingress);
        let ingress = ingress.into_iter().flatten();
        let ingress = ingress
            .map(|LoadBalancerIngress { ip, ip_mode }| api::LoadBalancerIngress { ip, ip_mode })
            .collect();
        Ok(api::Service {
            metadata: metadata(object)?,
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

/// `discovery.k8s.io/v1/EndpointSlice`
#[derive(Clone, PartialEq, Message)]
pub struct EndpointSlice {
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
    /// Decodes an object without its envelope.
    pub fn decode_object(object: &[u8]) -> Result<api::EndpointSlice, ProtobufError> {
        let Self { endpoints, ports, address_type } = Self::decode(object)?;
        let ports = ports.into_iter().map(|EndpointPort { name, protocol, port }| api::EndpointPort {
            name,
            protocol,
            port: port.map(i64::from),
        });
        Ok(api::EndpointSlice {
            metadata: metadata(object)?,
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

/// `networking.k8s.io/v1/ServiceCIDR`
#[derive(Clone, PartialEq, Message)]
pub struct ServiceCidr {
    #[prost(message, optional, tag = "2")]
    spec: Option<ServiceCidrSpec>,
}

#[derive(Clone, PartialEq, Message)]
struct ServiceCidrSpec {
    #[prost(string, repeated, tag = "1")]
    cidrs: Vec<String>,
}

impl ServiceCidr {
    /// Decodes an object without its envelope.
    pub fn decode_object(object: &[u8]) -> Result<api::ServiceCidr, ProtobufError> {
        let Self { spec } = Self::decode(object)?;
        let mut decoded = api::ServiceCidr { metadata: metadata(object)?, ..Default::default() };
        decoded.spec.cidrs = spec.unwrap_or_default().cidrs;
        Ok(decoded)
    }
}

/// `v1/Node`
#[derive(Clone, PartialEq, Message)]
pub struct Node {
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
    /// Decodes an object without its envelope.
    pub fn decode_object(object: &[u8]) -> Result<api::Node, ProtobufError> {
        let Self { spec, status } = Self::decode(object)?;
        let NodeSpec { taints, pod_cidrs } = spec.unwrap_or_default();
        let addresses = status.unwrap_or_default().addresses.into_iter();
        let addresses = addresses.map(|NodeAddress { kind, address }| api::NodeAddress { kind, address });
        Ok(api::Node {
            metadata: metadata(object)?,
            spec: api::NodeSpec {
                pod_cidrs,
                taints: taints.into_iter().map(|Taint { key }| api::Taint { key }).collect(),
            },
            status: api::NodeStatus { addresses: addresses.collect() },
        })
    }
}
