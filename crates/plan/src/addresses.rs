//! New addresses of this host's interfaces, most of which mean nothing: every pod's link has some.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ferrule_model::Cluster;

use crate::node_traffic::{node_ips, node_port_addresses, node_traffic};
use crate::{FamilyPlan, FrontendKey, NodePlan, NodeTraffic, NodeView};

/// Takes over new addresses of this host's interfaces where they mean nothing to any Service, as those of pods' own links do.
/// Otherwise changes nothing and says so: then `touched.node` is to be planned.
pub fn take_over_addresses(plan: &mut NodePlan, cluster: &Cluster, view: &NodeView) -> bool {
    let ips = node_ips(cluster, view);
    let mut taken_over = Vec::new();
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
        taken_over.push((family, node));
    }
    for (family, node) in taken_over {
        if let Some(plan) = plan.families.slot(family) {
            plan.node = node;
        }
    }
    true
}

/// Whether some Service wants to be reached at one of these addresses.
fn claims_any(plan: &FamilyPlan, addresses: &BTreeSet<IpAddr>) -> bool {
    let ports = plan.services.values().flat_map(|service| service.ports.iter());
    let mut keys = ports.flat_map(|port| port.claims.iter()).map(|claim| claim.key);
    !addresses.is_empty()
        && keys.any(|key| match key {
            FrontendKey::Address(ip, _, _) | FrontendKey::OtherPorts(ip) => addresses.contains(&ip),
            FrontendKey::NodePort(..) | FrontendKey::LoopbackNodePort(..) => false,
        })
}
