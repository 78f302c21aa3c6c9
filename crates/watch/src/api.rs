//! Kubernetes API objects, reduced to the fields a proxy reads.
//!
//! All other fields are skipped while decoding and never allocated. Values are kept as written: [`crate::convert`] parses
//! them and reports invalid ones. `null` decodes as absent, as Go's encoder means it.

#![expect(missing_docs, reason = "types and fields have the names and the meaning of the Kubernetes API")]

use serde::{Deserialize, Deserializer};

/// `v1/Service`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Service {
    #[serde(deserialize_with = "or_default")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "or_default")]
    pub spec: ServiceSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: ServiceStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Empty for kinds without a namespace.
    #[serde(deserialize_with = "or_default")]
    pub namespace: String,
    /// Empty in manifests.
    #[serde(deserialize_with = "or_default")]
    pub resource_version: String,
    /// RFC 3339.
    pub creation_timestamp: Option<String>,
    /// RFC 3339; set while the object is being deleted.
    pub deletion_timestamp: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub labels: Labels,
    #[serde(deserialize_with = "or_default")]
    pub annotations: Annotations,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Labels {
    /// Of EndpointSlices: the Service they belong to.
    #[serde(rename = "kubernetes.io/service-name")]
    pub service_name: Option<String>,
    /// Of Services: the name of another proxy that serves it.
    #[serde(rename = "service.kubernetes.io/service-proxy-name")]
    pub service_proxy_name: Option<String>,
    /// Of EndpointSlices: set if the Service is headless.
    #[serde(rename = "service.kubernetes.io/headless")]
    pub headless: Option<String>,
    /// Of Nodes.
    #[serde(rename = "topology.kubernetes.io/zone")]
    pub zone: Option<String>,
    /// Of Services: `true` if connections are to be counted.
    #[serde(rename = "ferrule.dev/counters")]
    pub counters: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Annotations {
    /// Of EndpointSlices and Endpoints: time of the change that triggered this version, RFC 3339.
    #[serde(rename = "endpoints.kubernetes.io/last-change-trigger-time")]
    pub last_change_trigger_time: Option<String>,
    /// Of Endpoints: `truncated` if there are more than the object holds. Older controllers wrote `warning` and left none out.
    #[serde(rename = "endpoints.kubernetes.io/over-capacity")]
    pub over_capacity: Option<String>,
    /// Of Services: as the label of the same name.
    #[serde(rename = "ferrule.dev/counters")]
    pub counters: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`.
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub kind: String,
    /// Equal to the first of `cluster_ips`; `None` for headless Services.
    #[serde(rename = "clusterIP", deserialize_with = "or_default")]
    pub cluster_ip: String,
    /// In the order of `ip_families`.
    #[serde(rename = "clusterIPs", deserialize_with = "or_default")]
    pub cluster_ips: Vec<String>,
    /// `IPv4`, `IPv6`
    #[serde(deserialize_with = "or_default")]
    pub ip_families: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<ServicePort>,
    /// Routed to the nodes by means outside of Kubernetes.
    #[serde(rename = "externalIPs", deserialize_with = "or_default")]
    pub external_ips: Vec<String>,
    /// CIDRs of the clients that may use the load balancer.
    #[serde(deserialize_with = "or_default")]
    pub load_balancer_source_ranges: Vec<String>,
    /// `None` or `ClientIP`
    #[serde(deserialize_with = "or_default")]
    pub session_affinity: String,
    #[serde(deserialize_with = "or_default")]
    pub session_affinity_config: SessionAffinityConfig,
    /// `Cluster` or `Local`
    #[serde(deserialize_with = "or_default")]
    pub external_traffic_policy: String,
    /// `Cluster` or `Local`
    #[serde(deserialize_with = "or_default")]
    pub internal_traffic_policy: String,
    /// Port on which load balancers check whether this node has endpoints.
    #[serde(deserialize_with = "or_default")]
    pub health_check_node_port: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// `TCP`, `UDP`, `SCTP`
    #[serde(deserialize_with = "or_default")]
    pub protocol: String,
    #[serde(deserialize_with = "or_default")]
    pub port: i64,
    /// 0 for none.
    #[serde(deserialize_with = "or_default")]
    pub node_port: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionAffinityConfig {
    #[serde(rename = "clientIP", deserialize_with = "or_default")]
    pub client_ip: ClientIpConfig,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientIpConfig {
    pub timeout_seconds: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceStatus {
    #[serde(deserialize_with = "or_default")]
    pub load_balancer: LoadBalancerStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancerStatus {
    #[serde(deserialize_with = "or_default")]
    pub ingress: Vec<LoadBalancerIngress>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancerIngress {
    /// Empty if there is only a host name.
    #[serde(deserialize_with = "or_default")]
    pub ip: String,
    /// `VIP`, the default: packets arrive with that destination address. `Proxy`: they do not.
    pub ip_mode: Option<String>,
}

/// `discovery.k8s.io/v1/EndpointSlice`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlice {
    #[serde(deserialize_with = "or_default")]
    pub metadata: ObjectMeta,
    /// `IPv4`, `IPv6`, `FQDN`
    #[serde(deserialize_with = "or_default")]
    pub address_type: String,
    /// Apply to every endpoint.
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<EndpointPort>,
    #[serde(deserialize_with = "or_default")]
    pub endpoints: Vec<Endpoint>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointPort {
    /// The name of the Service port. An empty name is valid, an absent one is not.
    pub name: Option<String>,
    /// `TCP`, `UDP`, `SCTP`
    pub protocol: Option<String>,
    pub port: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// Only the first is used.
    #[serde(deserialize_with = "or_default")]
    pub addresses: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub conditions: EndpointConditions,
    pub node_name: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub hints: EndpointHints,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct EndpointConditions {
    /// May receive new connections.
    pub ready: Option<bool>,
    /// Can serve, also while terminating.
    pub serving: Option<bool>,
    /// Is shutting down.
    pub terminating: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointHints {
    #[serde(deserialize_with = "or_default")]
    pub for_zones: Vec<Named>,
    #[serde(deserialize_with = "or_default")]
    pub for_nodes: Vec<Named>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Named {
    #[serde(deserialize_with = "or_default")]
    pub name: String,
}

/// `v1/Endpoints`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Endpoints {
    #[serde(deserialize_with = "or_default")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "or_default")]
    pub subsets: Vec<EndpointSubset>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSubset {
    /// Ready to receive connections.
    #[serde(deserialize_with = "or_default")]
    pub addresses: Vec<EndpointAddress>,
    #[serde(deserialize_with = "or_default")]
    pub not_ready_addresses: Vec<EndpointAddress>,
    /// Apply to every address of the subset.
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<EndpointPort>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointAddress {
    #[serde(deserialize_with = "or_default")]
    pub ip: String,
    pub node_name: Option<String>,
}

/// `v1/Node`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Node {
    #[serde(deserialize_with = "or_default")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "or_default")]
    pub spec: NodeSpec,
    #[serde(deserialize_with = "or_default")]
    pub status: NodeStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// Address ranges of its pods.
    #[serde(rename = "podCIDRs", deserialize_with = "or_default")]
    pub pod_cidrs: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub taints: Vec<Taint>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Taint {
    #[serde(deserialize_with = "or_default")]
    pub key: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    #[serde(deserialize_with = "or_default")]
    pub addresses: Vec<NodeAddress>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeAddress {
    /// `InternalIP`, `ExternalIP`, `Hostname`, …
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub kind: String,
    #[serde(deserialize_with = "or_default")]
    pub address: String,
}

/// `networking.k8s.io/v1/ServiceCIDR`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServiceCidr {
    #[serde(deserialize_with = "or_default")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "or_default")]
    pub spec: ServiceCidrSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServiceCidrSpec {
    /// Ranges of cluster IPs.
    #[serde(deserialize_with = "or_default")]
    pub cidrs: Vec<String>,
}

/// Go encodes an absent list or object as `null` in places.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(field: D) -> Result<T, D::Error> {
    Option::deserialize(field).map(Option::unwrap_or_default)
}
