//! Settings turned into what the planner wants to know about this node.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ferrule_model::{IpFamily, Node, NodeIps, NodeName};
use ferrule_plan::{LoopbackNodePorts, NodeView, Quirks};

use crate::http::ListenAddresses;
use crate::resolve::{local_detection, node_ports};
use crate::settings::{ProxyMode, Settings};

/// What is known of this node beside its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its name.
    pub name: NodeName,
    /// The families that are served.
    pub families: Vec<IpFamily>,
    /// Every address of every interface.
    pub interface_addresses: BTreeSet<IpAddr>,
}

/// This node as the planner sees it.
pub fn node_view(settings: &Settings, site: &Site) -> NodeView {
    NodeView {
        name: site.name.clone(),
        families: site.families.clone(),
        bind_address: Some(settings.bind_address).filter(|ip| !ip.is_unspecified()),
        masquerade_bit: bit_of(settings.masquerade.mark),
        masquerade_all: settings.masquerade.all,
        local_detection: local_detection(&settings.detect_local, &settings.cluster_cidrs),
        node_port_addresses: settings.node_port_addresses.clone(),
        loopback_node_ports: loopback_node_ports(settings),
        external_ips: settings.external_ips.clone(),
        quirks: quirks(settings.mode),
        interface_addresses: site.interface_addresses.clone(),
    }
}

/// Where load balancers' health checks of Services are answered in one family.
pub fn health_check_addresses(view: &NodeView, node: Option<&Node>, family: IpFamily) -> ListenAddresses {
    let host_ips = node.map_or(&[][..], |node| &node.host_ips);
    let ips = NodeIps::settle(host_ips, view.bind_address);
    let ports = node_ports(&view.node_port_addresses, &ips);
    let addresses = match family {
        IpFamily::V4 => ports.v4,
        IpFamily::V6 => ports.v6,
    };
    if addresses.match_all() {
        ListenAddresses::All
    } else {
        ListenAddresses::Only(addresses.among(view.interface_addresses.iter().copied()).into_iter().collect())
    }
}

/// The place of the one bit that is set.
fn bit_of(mark: u32) -> u8 {
    u8::try_from(mark.trailing_zeros()).unwrap_or(0)
}

fn loopback_node_ports(settings: &Settings) -> LoopbackNodePorts {
    if settings.mode == ProxyMode::Iptables && settings.localhost_node_ports {
        LoopbackNodePorts::InKernel
    } else {
        LoopbackNodePorts::NotServed
    }
}

fn quirks(mode: ProxyMode) -> Quirks {
    match mode {
        ProxyMode::Nftables => Quirks::NFTABLES,
        ProxyMode::Iptables => Quirks::IPTABLES,
        ProxyMode::Ipvs => Quirks::IPVS,
        ProxyMode::Userspace => Quirks::NONE,
    }
}
