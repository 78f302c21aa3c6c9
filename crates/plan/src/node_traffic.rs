//! What holds for the whole node: local pods, NodePort addresses, masquerading, guarded ranges.
//!
//! Combines the configuration with the Node object; what it means for a Service is in [`crate::policy`].

use ferrule_model::{Cluster, IpFamily, NodeIps, NodePortAddresses, expand};

use crate::{NodePortScope, NodeTraffic, NodeView, Quirk};

/// This node's own address in each family.
pub(crate) fn node_ips(cluster: &Cluster, view: &NodeView) -> NodeIps {
    let host_ips = cluster.node().map_or(&[][..], |node| &node.host_ips);
    NodeIps::resolve(host_ips, view.bind_address)
}

/// The NodePort addresses of one family.
pub(crate) fn node_port_addresses(ips: &NodeIps, view: &NodeView, family: IpFamily) -> NodePortAddresses {
    NodePortAddresses::new(family, &expand(&view.node_port_addresses, ips))
}

/// What holds for the whole node in one family.
pub(crate) fn node_traffic(cluster: &Cluster, view: &NodeView, addresses: &NodePortAddresses) -> NodeTraffic {
    let (family, quirks) = (addresses.family(), view.quirks);
    let pod_cidrs = cluster.node().map_or(&[][..], |node| &node.pod_cidrs);
    let ours = view.interface_addresses.iter().copied().filter(|ip| IpFamily::of(*ip) == family);
    NodeTraffic {
        family,
        masquerade_mark: 1_u32.checked_shl(view.masquerade_bit.into()).unwrap_or_default(),
        masquerade_all: view.masquerade_all,
        local_pods: view.local_detection.local_pods(pod_cidrs, family),
        node_port_addresses: node_port_scope(view, addresses),
        loopback_node_ports: view.loopback_node_ports,
        loopback_addresses: loopback_scope(view, addresses),
        guarded_service_cidrs: if quirks.has(Quirk::DropUnallocatedClusterIps) {
            cluster.service_cidrs(family)
        } else {
            std::collections::BTreeSet::new()
        },
        host_addresses: ours.collect(),
        quirks,
    }
}

fn node_port_scope(view: &NodeView, addresses: &NodePortAddresses) -> NodePortScope {
    let listed = view.quirks.has(Quirk::NodePortAddressesListed);
    if addresses.match_all() && !listed {
        return NodePortScope::All;
    }
    let mut accepting = addresses.among(view.interface_addresses.iter().copied());
    accepting.retain(|ip| !ip.is_loopback());
    if addresses.match_all() {
        accepting.retain(|ip| !is_ipv6_link_local(*ip));
    }
    NodePortScope::Only(accepting)
}

/// A list of addresses admits the loopback addresses on it that are on an interface; no list admits all of them.
fn loopback_scope(view: &NodeView, addresses: &NodePortAddresses) -> NodePortScope {
    if addresses.match_all() {
        return NodePortScope::All;
    }
    let on_interfaces = view.interface_addresses.iter().copied().filter(std::net::IpAddr::is_loopback);
    NodePortScope::Only(addresses.among(on_interfaces))
}

fn is_ipv6_link_local(ip: std::net::IpAddr) -> bool {
    matches!(ip, std::net::IpAddr::V6(v6) if v6.is_unicast_link_local())
}
