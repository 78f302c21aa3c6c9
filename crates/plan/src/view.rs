//! This node as the operator configured it and as its interfaces are: what planning needs beyond the cluster's state.
//!
//! Plain resolved values. Where they come from (flags, files, netlink) is not known here.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ferrule_model::{IpFamily, NodeName, NodePortSelector};
use ipnet::IpNet;

use crate::{LocalPods, Quirks};

/// How this node is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// This node's name, for node hints.
    pub name: NodeName,
    /// The families to serve.
    pub families: Vec<IpFamily>,
    /// The configured address of this node, which wins over what its Node object says.
    pub bind_address: Option<IpAddr>,
    /// The bit of the packet mark that asks for masquerading, 0 to 31.
    pub masquerade_bit: u8,
    /// Whether all traffic to cluster IPs is masqueraded.
    pub masquerade_all: bool,
    /// How traffic from this node's own pods is recognized.
    pub local_detection: LocalDetection,
    /// The addresses that accept NodePorts; empty means all.
    pub node_port_addresses: Vec<NodePortSelector>,
    /// What becomes of NodePorts on loopback addresses.
    pub loopback_node_ports: LoopbackNodePorts,
    /// Which `spec.externalIPs` are served.
    pub external_ips: ExternalIps,
    /// The differences between kube-proxy's modes to reproduce; each backend declares its own.
    pub quirks: Quirks,
    /// Every address of every interface of this host.
    pub interface_addresses: BTreeSet<IpAddr>,
}

impl NodeView {
    /// Both families and kube-proxy's defaults, no detection, no interface addresses.
    pub fn new(name: NodeName) -> Self {
        Self {
            name,
            families: IpFamily::BOTH.to_vec(),
            bind_address: None,
            masquerade_bit: 14,
            masquerade_all: false,
            local_detection: LocalDetection::None,
            node_port_addresses: Vec::new(),
            loopback_node_ports: LoopbackNodePorts::NotServed,
            external_ips: ExternalIps::All,
            quirks: Quirks::NONE,
            interface_addresses: BTreeSet::new(),
        }
    }
}

/// Which `spec.externalIPs` are served. Anyone who may write Services can claim any address with them, and hijack traffic
/// meant for others (CVE-2020-8554).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExternalIps {
    /// All that a Service lists.
    All,
    /// None (gate `AllowServiceExternalIPs` off).
    None,
    /// Those in these blocks.
    Within(Vec<IpNet>),
}

impl ExternalIps {
    /// Whether an address is served.
    pub fn allow(&self, ip: IpAddr) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Within(blocks) => blocks.iter().any(|block| block.contains(&ip)),
        }
    }
}

/// `detectLocalMode`: how traffic from this node's pods is recognized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalDetection {
    /// Not at all: no traffic counts as a local pod's.
    None,
    /// By source address, the cluster's pod ranges (the first of each family counts).
    ClusterCidrs(Vec<IpNet>),
    /// By source address, this Node's pod CIDRs (the first of each family counts).
    NodeCidrs,
    /// By the bridge the packet came in on.
    BridgeInterface(String),
    /// By the beginning of the name of the interface the packet came in on.
    InterfaceNamePrefix(String),
}

impl LocalDetection {
    /// How local pods are recognized in one family, on a node whose pods get addresses from these blocks.
    pub fn local_pods(&self, pod_cidrs: &[IpNet], family: IpFamily) -> Option<LocalPods> {
        let first = |blocks: &[IpNet]| {
            blocks.iter().find(|net| IpFamily::of_net(net) == family).map(|net| LocalPods::From(net.trunc()))
        };
        match self {
            Self::None => None,
            Self::ClusterCidrs(blocks) => first(blocks),
            Self::NodeCidrs => first(pod_cidrs),
            Self::BridgeInterface(name) => Some(LocalPods::ByInterface(name.clone())),
            Self::InterfaceNamePrefix(prefix) => Some(LocalPods::ByInterfacePrefix(prefix.clone())),
        }
    }
}

/// What becomes of NodePorts on loopback addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopbackNodePorts {
    /// Not handled: a local process may listen there.
    NotServed,
    /// Served by the kernel, IPv4 only, where `nodePortAddresses` reaches loopback (iptables mode).
    InKernel,
    /// Served by a process of ours in both families, where `nodePortAddresses` reaches loopback (userspace mode).
    Relayed,
    /// TCP and UDP forwarded by a process of ours where loopback is listed outright, all else rejected (nftables and ipvs mode with
    /// gate `KubeProxyNFTablesLocalhostNodePorts`).
    ForwardedOrRejected,
}
