//! API objects as they come over the wire, slimmed to the fields a proxy reads.
//!
//! Everything else is skipped while decoding and never allocated. Values are kept as written; what they mean, and what
//! to do about unusable ones, is [`crate::convert`]'s matter. `null` reads as absent, as Go's encoder means it.

use serde::{Deserialize, Deserializer};

/// `v1/Service`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Service {
    /// Name, labels, times.
    #[serde(deserialize_with = "or_default")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(deserialize_with = "or_default")]
    pub spec: ServiceSpec,
    /// What the load balancer controller made of it.
    #[serde(deserialize_with = "or_default")]
    pub status: ServiceStatus,
}

/// The fields of metadata a proxy reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    /// The object's name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Its namespace, empty where there is none.
    #[serde(deserialize_with = "or_default")]
    pub namespace: String,
    /// Which state of it this is, empty where nobody tells.
    #[serde(deserialize_with = "or_default")]
    pub resource_version: String,
    /// When it was created, RFC 3339.
    pub creation_timestamp: Option<String>,
    /// When its deletion was asked for, RFC 3339.
    pub deletion_timestamp: Option<String>,
    /// Labels.
    #[serde(deserialize_with = "or_default")]
    pub labels: Labels,
    /// Annotations.
    #[serde(deserialize_with = "or_default")]
    pub annotations: Annotations,
}

/// The labels a proxy reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Labels {
    /// On a slice: the Service it belongs to.
    #[serde(rename = "kubernetes.io/service-name")]
    pub service_name: Option<String>,
    /// On a Service: another proxy serves it.
    #[serde(rename = "service.kubernetes.io/service-proxy-name")]
    pub service_proxy_name: Option<String>,
    /// On a slice: its Service is headless.
    #[serde(rename = "service.kubernetes.io/headless")]
    pub headless: Option<String>,
    /// On a Node: its zone.
    #[serde(rename = "topology.kubernetes.io/zone")]
    pub zone: Option<String>,
}

/// The annotations a proxy reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Annotations {
    /// On a slice: when the change that led to it was made, RFC 3339.
    #[serde(rename = "endpoints.kubernetes.io/last-change-trigger-time")]
    pub last_change_trigger_time: Option<String>,
}

/// What is wanted of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`.
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub kind: String,
    /// The first cluster IP, `None` for headless Services.
    #[serde(rename = "clusterIP", deserialize_with = "or_default")]
    pub cluster_ip: String,
    /// The cluster IPs, in the order of `ip_families`.
    #[serde(rename = "clusterIPs", deserialize_with = "or_default")]
    pub cluster_ips: Vec<String>,
    /// `IPv4`, `IPv6`
    #[serde(deserialize_with = "or_default")]
    pub ip_families: Vec<String>,
    /// The ports.
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<ServicePort>,
    /// Addresses somebody else routes to the nodes.
    #[serde(rename = "externalIPs", deserialize_with = "or_default")]
    pub external_ips: Vec<String>,
    /// Who may use the load balancer, as CIDRs.
    #[serde(deserialize_with = "or_default")]
    pub load_balancer_source_ranges: Vec<String>,
    /// `None` or `ClientIP`
    #[serde(deserialize_with = "or_default")]
    pub session_affinity: String,
    /// For how long.
    #[serde(deserialize_with = "or_default")]
    pub session_affinity_config: SessionAffinityConfig,
    /// `Cluster` or `Local`
    #[serde(deserialize_with = "or_default")]
    pub external_traffic_policy: String,
    /// `Cluster` or `Local`
    #[serde(deserialize_with = "or_default")]
    pub internal_traffic_policy: String,
    /// Where load balancers ask whether the node has endpoints.
    #[serde(deserialize_with = "or_default")]
    pub health_check_node_port: i64,
}

/// One port of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    /// Its name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// `TCP`, `UDP`, `SCTP`
    #[serde(deserialize_with = "or_default")]
    pub protocol: String,
    /// Its number.
    #[serde(deserialize_with = "or_default")]
    pub port: i64,
    /// Its number on the nodes' addresses, 0 for none.
    #[serde(deserialize_with = "or_default")]
    pub node_port: i64,
}

/// The nesting Kubernetes has around the affinity timeout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionAffinityConfig {
    /// For `ClientIP`.
    #[serde(rename = "clientIP", deserialize_with = "or_default")]
    pub client_ip: ClientIpConfig,
}

/// How long a client keeps its endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientIpConfig {
    /// In seconds.
    pub timeout_seconds: Option<i64>,
}

/// The status of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceStatus {
    /// The load balancer's.
    #[serde(deserialize_with = "or_default")]
    pub load_balancer: LoadBalancerStatus,
}

/// The status of a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancerStatus {
    /// Where it takes traffic.
    #[serde(deserialize_with = "or_default")]
    pub ingress: Vec<LoadBalancerIngress>,
}

/// One place where a load balancer takes traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancerIngress {
    /// Its address, empty if it has a host name only.
    #[serde(deserialize_with = "or_default")]
    pub ip: String,
    /// `VIP` if packets arrive with that address, which is the default; `Proxy` if they do not.
    pub ip_mode: Option<String>,
}

/// `discovery.k8s.io/v1/EndpointSlice`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlice {
    /// Name, labels, annotations.
    #[serde(deserialize_with = "or_default")]
    pub metadata: ObjectMeta,
    /// `IPv4`, `IPv6`, `FQDN`
    #[serde(deserialize_with = "or_default")]
    pub address_type: String,
    /// The ports, each for every endpoint.
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<EndpointPort>,
    /// The endpoints.
    #[serde(deserialize_with = "or_default")]
    pub endpoints: Vec<Endpoint>,
}

/// One port of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointPort {
    /// The Service port's name; empty is a name, absent is not.
    pub name: Option<String>,
    /// `TCP`, `UDP`, `SCTP`
    pub protocol: Option<String>,
    /// Its number.
    pub port: Option<i64>,
}

/// One endpoint of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// Its addresses; only the first counts.
    #[serde(deserialize_with = "or_default")]
    pub addresses: Vec<String>,
    /// How it is.
    #[serde(deserialize_with = "or_default")]
    pub conditions: EndpointConditions,
    /// Where it runs.
    pub node_name: Option<String>,
    /// Where its traffic should come from.
    #[serde(deserialize_with = "or_default")]
    pub hints: EndpointHints,
}

/// How an endpoint is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct EndpointConditions {
    /// Should get new connections.
    pub ready: Option<bool>,
    /// Can answer.
    pub serving: Option<bool>,
    /// Is on its way out.
    pub terminating: Option<bool>,
}

/// Where an endpoint's traffic should come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointHints {
    /// These zones.
    #[serde(deserialize_with = "or_default")]
    pub for_zones: Vec<Named>,
    /// These nodes.
    #[serde(deserialize_with = "or_default")]
    pub for_nodes: Vec<Named>,
}

/// An object with nothing but a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Named {
    /// The name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
}

/// `v1/Node`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Name, labels, times.
    #[serde(deserialize_with = "or_default")]
    pub metadata: ObjectMeta,
    /// What it was given.
    #[serde(deserialize_with = "or_default")]
    pub spec: NodeSpec,
    /// What it says of itself.
    #[serde(deserialize_with = "or_default")]
    pub status: NodeStatus,
}

/// What a Node was given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// The blocks its pods get addresses from.
    #[serde(rename = "podCIDRs", deserialize_with = "or_default")]
    pub pod_cidrs: Vec<String>,
    /// Why not to run things there.
    #[serde(deserialize_with = "or_default")]
    pub taints: Vec<Taint>,
}

/// A reason not to run things on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Taint {
    /// Which one.
    #[serde(deserialize_with = "or_default")]
    pub key: String,
}

/// What a Node says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// Its addresses and names.
    #[serde(deserialize_with = "or_default")]
    pub addresses: Vec<NodeAddress>,
}

/// One address or name of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeAddress {
    /// `InternalIP`, `ExternalIP`, `Hostname`, …
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub kind: String,
    /// The address or name.
    #[serde(deserialize_with = "or_default")]
    pub address: String,
}

/// `networking.k8s.io/v1/ServiceCIDR`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServiceCidr {
    /// Its name.
    #[serde(deserialize_with = "or_default")]
    pub metadata: ObjectMeta,
    /// Its blocks.
    #[serde(deserialize_with = "or_default")]
    pub spec: ServiceCidrSpec,
}

/// What a `ServiceCIDR` holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServiceCidrSpec {
    /// Blocks cluster IPs are taken from.
    #[serde(deserialize_with = "or_default")]
    pub cidrs: Vec<String>,
}

/// Go writes an absent list or object as `null` in places; it means the same as leaving it out.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(field: D) -> Result<T, D::Error> {
    Option::deserialize(field).map(Option::unwrap_or_default)
}
