//! This node: its addresses, pod CIDRs, zone, and whether load balancers should send traffic to it.
//!
//! Holds what the Node object says and settles which addresses count; never looks at interfaces.
//! Which addresses accept NodePorts is decided in [`crate::NodePortAddresses`].

use std::net::IpAddr;

use ipnet::IpNet;

use crate::{IpFamily, Zone};

/// What the Node object says, as far as a proxy cares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The node's addresses in the order of preference: first the primary one, then the first of the other family.
    pub host_ips: Vec<IpAddr>,
    /// The blocks pods on this node get their addresses from, in the order of the object.
    pub pod_cidrs: Vec<IpNet>,
    /// The label `topology.kubernetes.io/zone`; present but empty is kept as empty.
    pub zone: Option<Zone>,
    /// Whether the node is on its way out: being deleted, or tainted by the cluster autoscaler.
    pub leaving: bool,
}

/// The kinds of Node addresses a proxy looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeAddressKind {
    /// `InternalIP`
    Internal,
    /// `ExternalIP`
    External,
}

/// Chooses a node's host addresses: internal before external, then the first of the other family.
pub fn host_ips(addresses: &[(NodeAddressKind, IpAddr)]) -> Vec<IpAddr> {
    let of_kind = |wanted| addresses.iter().filter(move |(kind, _)| *kind == wanted).map(|(_, ip)| *ip);
    let candidates: Vec<IpAddr> =
        of_kind(NodeAddressKind::Internal).chain(of_kind(NodeAddressKind::External)).collect();
    let Some(&primary) = candidates.first() else { return Vec::new() };
    let other = IpFamily::of(primary).other();
    let secondary = candidates.into_iter().find(|ip| IpFamily::of(*ip) == other);
    std::iter::once(primary).chain(secondary).collect()
}

/// The one address per family that stands for this node, and which family comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeIps {
    /// The family of the node's first address.
    pub primary: IpFamily,
    /// The IPv4 address; 127.0.0.1 if unknown.
    pub v4: IpAddr,
    /// The IPv6 address; `::1` if unknown.
    pub v6: IpAddr,
}

impl NodeIps {
    /// Settles the node's addresses from the Node object and the configured bind address, which wins.
    pub fn settle(host_ips: &[IpAddr], bind_address: Option<IpAddr>) -> Self {
        let mut ips =
            Self { primary: IpFamily::V4, v4: IpFamily::V4.loopback(), v6: IpFamily::V6.loopback() };
        for ip in host_ips.iter().rev() {
            ips.put_first(*ip);
        }
        if let Some(bind) = bind_address.filter(|ip| !ip.is_unspecified()) {
            ips.put_first(bind);
        }
        ips
    }

    /// The address of one family; loopback stands for "unknown".
    pub fn get(&self, family: IpFamily) -> IpAddr {
        match family {
            IpFamily::V4 => self.v4,
            IpFamily::V6 => self.v6,
        }
    }

    /// The address of one family, if it is known.
    pub fn known(&self, family: IpFamily) -> Option<IpAddr> {
        Some(self.get(family)).filter(|ip| !ip.is_loopback())
    }

    fn put_first(&mut self, ip: IpAddr) {
        self.primary = IpFamily::of(ip);
        match ip {
            IpAddr::V4(_) => self.v4 = ip,
            IpAddr::V6(_) => self.v6 = ip,
        }
    }
}

#[cfg(test)]
mod tests;
