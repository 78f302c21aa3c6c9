//! New addresses of this host's interfaces. Most are irrelevant: every pod's link has some.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ferrule_model::Cluster;

use crate::node_traffic::{node_ips, node_port_addresses, node_traffic};
use crate::{FamilyPlan, FrontendKey, NodePlan, NodeTraffic, NodeView};

/// Adopts new addresses of this host's interfaces if they matter to no Service, as those of pods' own links.
/// Otherwise changes nothing and returns false: the caller must set `touched.node` and replan.
pub fn adopt_addresses(plan: &mut NodePlan, cluster: &Cluster, view: &NodeView) -> bool {
    let ips = node_ips(cluster, view);
    let mut adopted = Vec::new();
    for family in view.families.iter().copied() {
        let Some(plan) = plan.families.get(family) else { return false };
        let node = node_traffic(cluster, view, &node_port_addresses(&ips, view, family));
        let addresses = plan.node.host_addresses.clone();
        let changed: BTreeSet<_> = node.host_addresses.symmetric_difference(&addresses).copied().collect();
        if (NodeTraffic { host_addresses: addresses, ..node.clone() }) != plan.node
            || claims_any(plan, &changed)
        {
            return false;
        }
        adopted.push((family, node));
    }
    for (family, node) in adopted {
        if let Some(plan) = plan.families.slot(family) {
            plan.node = node;
        }
    }
    true
}

/// Whether some Service claims one of these addresses.
fn claims_any(plan: &FamilyPlan, addresses: &BTreeSet<IpAddr>) -> bool {
    let ports = plan.services.values().flat_map(|service| service.ports.iter());
    let mut keys = ports.flat_map(|port| port.claims.iter()).map(|claim| claim.key);
    !addresses.is_empty()
        && keys.any(|key| match key {
            FrontendKey::Address(ip, _, _) | FrontendKey::UnmatchedPorts(ip) => addresses.contains(&ip),
            FrontendKey::NodePort(..) | FrontendKey::LoopbackNodePort(..) => false,
        })
}
