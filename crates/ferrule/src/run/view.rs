//! Settings turned into what the planner and the backend need to know about this node.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use ferrule_backends::{Backend, IpvsOptions, ModeOptions, PortRange, UserspaceOptions};
use ferrule_kernel::ipvs::Timeouts;
use ferrule_model::{IpFamily, Node, NodeIps, NodeName};
use ferrule_plan::NodeView;

use crate::http::ListenAddresses;
use ferrule_config::resolve::{local_detection, node_ports};
use ferrule_config::settings::{self, IpvsSettings, KernelValue, Settings, UserspaceSettings};

/// What is known of this node beside its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Site {
    /// Its name.
    pub name: NodeName,
    /// The families that are served.
    pub families: Vec<IpFamily>,
    /// Every address of every interface.
    pub interface_addresses: BTreeSet<IpAddr>,
}

/// The settings that backends need.
pub(super) fn mode_options(settings: &Settings, host_ips: &[IpAddr]) -> ModeOptions {
    let ips = NodeIps::resolve(host_ips, Some(settings.bind_address));
    ModeOptions {
        sync_period: settings.sync.period,
        localhost_node_ports: settings.localhost_node_ports,
        relayed_localhost_node_ports: settings.gates.is_on("KubeProxyNFTablesLocalhostNodePorts"),
        node_port_blocks: node_ports(&settings.node_port_addresses, &ips).blocks,
        ipvs: ipvs_options(&settings.ipvs),
        userspace: userspace_options(settings),
    }
}

fn userspace_options(settings: &Settings) -> UserspaceOptions {
    let UserspaceSettings { ports, udp_idle_timeout } = settings.userspace;
    let ports = match ports {
        settings::PortRange::Any => PortRange::Any,
        settings::PortRange::Between { first, last } => PortRange::Between { first, last },
    };
    let bind_address = Some(settings.bind_address).filter(|ip| !ip.is_unspecified());
    UserspaceOptions { ports, udp_idle_timeout, bind_address }
}

fn ipvs_options(settings: &IpvsSettings) -> IpvsOptions {
    // Parts of a second are left out, as kube-proxy does; 0 leaves the kernel's value.
    let seconds = |timeout: KernelValue<Duration>| match timeout {
        KernelValue::Keep => 0,
        KernelValue::Set(timeout) => u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX),
    };
    IpvsOptions {
        scheduler: settings.scheduler.clone(),
        exclude_cidrs: settings.exclude_cidrs.clone(),
        strict_arp: settings.strict_arp,
        timeouts: Timeouts {
            tcp: seconds(settings.tcp_timeout),
            tcp_fin: seconds(settings.tcp_fin_timeout),
            udp: seconds(settings.udp_timeout),
        },
        drain_limit: settings.drain_limit,
    }
}

/// This node as the planner sees it.
pub(super) fn node_view(
    settings: &Settings,
    options: &ModeOptions,
    backend: &dyn Backend,
    site: &Site,
) -> NodeView {
    NodeView {
        name: site.name.clone(),
        families: site.families.clone(),
        bind_address: Some(settings.bind_address).filter(|ip| !ip.is_unspecified()),
        masquerade_bit: bit_of(settings.masquerade.mark),
        masquerade_all: settings.masquerade.all,
        local_detection: local_detection(&settings.detect_local, &settings.cluster_cidrs),
        node_port_addresses: settings.node_port_addresses.clone(),
        loopback_node_ports: backend.loopback_node_ports(options),
        external_ips: settings.external_ips.clone(),
        quirks: backend.quirks(),
        interface_addresses: site.interface_addresses.clone(),
    }
}

/// Where load balancers' health checks of Services are answered in one family.
pub(super) fn health_check_addresses(
    view: &NodeView,
    node: Option<&Node>,
    family: IpFamily,
) -> ListenAddresses {
    let host_ips = node.map_or(&[][..], |node| &node.host_ips);
    let ips = NodeIps::resolve(host_ips, view.bind_address);
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
