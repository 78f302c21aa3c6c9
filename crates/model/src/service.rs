//! A Service, as far as a proxy cares: its addresses, ports and traffic policies.
//!
//! Everything is parsed and canonical: two objects that mean the same to a proxy are equal here. What a policy does to
//! a packet is decided in the plan.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::{IpFamily, PerFamily, PortName, Protocol, Timestamp};

/// One Service that is proxied (headless and `ExternalName` Services never become one of these).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// When it was created; the older of two Services that claim one address has it.
    pub created: Timestamp,
    /// The cluster IP of each family.
    pub cluster_ips: PerFamily<IpAddr>,
    /// `spec.externalIPs`, both families, in the object's order.
    pub external_ips: Box<[IpAddr]>,
    /// Load-balancer addresses that packets arrive with (`ipMode: VIP`), in the object's order.
    pub load_balancer_vips: Box<[IpAddr]>,
    /// `spec.loadBalancerSourceRanges`: who may use the load-balancer addresses.
    pub source_ranges: SourceRanges,
    /// Which endpoints traffic to the cluster IP may use.
    pub internal_policy: TrafficPolicy,
    /// Which endpoints traffic from outside may use; `Local` only on Services that can be reached from outside.
    pub external_policy: TrafficPolicy,
    /// How long a client stays with its endpoint, in seconds, for `sessionAffinity: ClientIP`.
    pub affinity_seconds: Option<u32>,
    /// Where load balancers ask whether this node has endpoints.
    pub health_check_port: Option<u16>,
    /// Whether its connections are to be counted where only those of chosen Services are.
    pub is_counted: bool,
    /// The ports, ordered by name and protocol; no two share a name and protocol, or a number and protocol.
    pub ports: Box<[ServicePort]>,
}

/// One port of a Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServicePort {
    /// Its name, empty if the Service has just one.
    pub name: PortName,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its number on the cluster IP, external IPs and load-balancer addresses.
    pub number: u16,
    /// Its number on the node's own addresses, whatever the Service's type.
    pub node_port: Option<u16>,
}

/// Who may use a Service's load-balancer addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SourceRanges {
    /// Everyone.
    #[default]
    Anyone,
    /// Sources in these blocks, in the object's order. A family with no block here is not restricted.
    Only(Box<[IpNet]>),
    /// No one: the Service has ranges, and none of them can be parsed.
    Nobody,
}

impl SourceRanges {
    /// The blocks of one family, if it is restricted.
    pub fn of_family(&self, family: IpFamily) -> Option<Vec<IpNet>> {
        match self {
            Self::Anyone => None,
            Self::Nobody => Some(Vec::new()),
            Self::Only(blocks) => {
                let ours: Vec<IpNet> =
                    blocks.iter().copied().filter(|net| IpFamily::of_net(net) == family).collect();
                (!ours.is_empty()).then_some(ours)
            }
        }
    }
}

/// Which endpoints traffic may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrafficPolicy {
    /// Any endpoint of the cluster.
    #[default]
    Cluster,
    /// Endpoints on this node only.
    Local,
}

impl Service {
    /// The external IPs of one family.
    pub fn external_ips(&self, family: IpFamily) -> impl Iterator<Item = IpAddr> {
        of_family(&self.external_ips, family)
    }

    /// The load-balancer addresses of one family.
    pub fn load_balancer_vips(&self, family: IpFamily) -> impl Iterator<Item = IpAddr> {
        of_family(&self.load_balancer_vips, family)
    }

    /// Whether a port can be reached by anything but the cluster IP in one family.
    pub fn is_externally_accessible(&self, port: &ServicePort, family: IpFamily) -> bool {
        port.node_port.is_some()
            || self.load_balancer_vips(family).next().is_some()
            || self.external_ips(family).next().is_some()
    }

    /// Whether a port's traffic may ever go to any endpoint of the cluster, short-circuited traffic included.
    pub fn uses_cluster_endpoints(&self, port: &ServicePort, family: IpFamily) -> bool {
        self.internal_policy == TrafficPolicy::Cluster || self.is_externally_accessible(port, family)
    }

    /// Whether a port's traffic may ever be restricted to endpoints on this node.
    pub fn uses_local_endpoints(&self, port: &ServicePort, family: IpFamily) -> bool {
        self.internal_policy == TrafficPolicy::Local
            || (self.external_policy == TrafficPolicy::Local && self.is_externally_accessible(port, family))
    }
}

fn of_family(ips: &[IpAddr], family: IpFamily) -> impl Iterator<Item = IpAddr> {
    ips.iter().copied().filter(move |ip| IpFamily::of(*ip) == family)
}
