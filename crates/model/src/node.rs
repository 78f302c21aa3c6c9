//! This node: its addresses, pod CIDRs, zone, and whether load balancers should send traffic to it.
//!
//! Holds what the Node object says and chooses the addresses that count; never reads interfaces.
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

/// Something that a Node object had, lacks now, and that stays in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptNodeField {
    /// The addresses of a family in `status.addresses`.
    Addresses(IpFamily),
    /// The blocks of a family in `spec.podCIDRs`.
    PodCidrs(IpFamily),
}

impl KeptNodeField {
    /// The same, to be reported about the node of this name.
    pub fn diagnostic(self, node: &str) -> Diagnostic {
        let (field, family) = match self {
            Self::Addresses(family) => ("status.addresses", family),
            Self::PodCidrs(family) => ("spec.podCIDRs", family),
        };
        Diagnostic {
            kind: ObjectKind::Node,
            object: node.to_owned(),
            field: field.to_owned(),
            problem: Problem::Missing(match family {
                IpFamily::V4 => "the last known one of IPv4 stays in use",
                IpFamily::V6 => "the last known one of IPv6 stays in use",
            }),
        }
    }
}

impl Node {
    /// Keeps the addresses and pod CIDRs of each family that has none any more, and says which.
    ///
    /// A Node whose status was reset, or that was recreated and is not filled in yet, must not open NodePorts on every
    /// address, nor make local pods look like outsiders.
    pub fn keep_missing(&mut self, before: &Self) -> Vec<KeptNodeField> {
        let addresses = keep_families(&mut self.host_ips, &before.host_ips, |ip| IpFamily::of(*ip));
        let blocks = keep_families(&mut self.pod_cidrs, &before.pod_cidrs, IpFamily::of_net);
        let addresses = addresses.into_iter().map(KeptNodeField::Addresses);
        addresses.chain(blocks.into_iter().map(KeptNodeField::PodCidrs)).collect()
    }
}

/// Appends the entries of families that have none any more; says which families.
fn keep_families<T: Copy>(
    now: &mut Vec<T>,
    before: &[T],
    family_of: impl Fn(&T) -> IpFamily,
) -> Vec<IpFamily> {
    let has = |list: &[T], family| list.iter().any(|entry| family_of(entry) == family);
    let mut missing = IpFamily::BOTH.to_vec();
    missing.retain(|family| has(before, *family) && !has(now, *family));
    now.extend(before.iter().copied().filter(|entry| missing.contains(&family_of(entry))));
    missing
}

/// The kinds of Node addresses a proxy uses.
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
    /// Chooses the node's addresses from the Node object and the configured bind address, which wins.
    pub fn resolve(host_ips: &[IpAddr], bind_address: Option<IpAddr>) -> Self {
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
