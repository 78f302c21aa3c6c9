//! This node: its addresses, pod CIDRs, zone, and whether load balancers should send traffic to it.
//!
//! Holds what the Node object says and settles which addresses count; never looks at interfaces.
//! Which addresses accept NodePorts is decided in [`crate::NodePortAddresses`].

use std::net::IpAddr;

use ipnet::IpNet;

use crate::{Diagnostic, IpFamily, ObjectKind, Problem, Zone};

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

impl Node {
    /// Keeps the addresses and pod CIDRs of each family that has none any more, and says so, about the node of this name.
    ///
    /// What a node has does not vanish while it serves: a Node whose status was reset, or that was created anew and is not
    /// filled in yet, must not open NodePorts on every address or make local pods strangers.
    pub fn keep_lost(&mut self, before: &Self, name: &str) -> Vec<Diagnostic> {
        let addresses = kept(&mut self.host_ips, &before.host_ips, |ip| IpFamily::of(*ip));
        let blocks = kept(&mut self.pod_cidrs, &before.pod_cidrs, IpFamily::of_net);
        let said = |field: &str, family| Diagnostic {
            kind: ObjectKind::Node,
            object: name.to_owned(),
            field: field.to_owned(),
            problem: Problem::Missing(match family {
                IpFamily::V4 => "the last known one of IPv4 stays in use",
                IpFamily::V6 => "the last known one of IPv6 stays in use",
            }),
        };
        let addresses = addresses.into_iter().map(|family| said("status.addresses", family));
        addresses.chain(blocks.into_iter().map(|family| said("spec.podCIDRs", family))).collect()
    }
}

/// Appends what there was of families of which there is nothing now; says which.
fn kept<T: Copy>(now: &mut Vec<T>, before: &[T], family_of: impl Fn(&T) -> IpFamily) -> Vec<IpFamily> {
    let has = |list: &[T], family| list.iter().any(|entry| family_of(entry) == family);
    let mut lost = IpFamily::BOTH.to_vec();
    lost.retain(|family| has(before, *family) && !has(now, *family));
    now.extend(before.iter().copied().filter(|entry| lost.contains(&family_of(entry))));
    lost
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
