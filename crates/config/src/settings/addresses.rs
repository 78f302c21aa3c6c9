//! Settings that are addresses: where the process listens, what it takes for its own, which blocks it knows.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use ferrule_model::{IpFamily, NodePortSelector, parse_cidr, parse_ip};
use ipnet::IpNet;

use super::cidr::flaw_after;
use super::{
    ApiAccess, ClientSettings, Collector, Healthz, MasterUrl, NodeNameSource, RequestRate, SourceVip,
};
use crate::cli::values::split_host_port;
use crate::config::v1alpha1::ClientConnection;
use crate::config::{Effective, KubeProxyConfiguration};

const ROOT: &str = "KubeProxyConfiguration";
/// Never used: with a problem on record there are no settings.
const PLACEHOLDER: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

pub(super) fn client(c: &KubeProxyConfiguration, master: &str, problems: &mut Collector) -> ClientSettings {
    let connection = &c.client_connection;
    if connection.burst < 0 {
        problems.invalid(
            format!("{ROOT}.ClientConnection.Burst"),
            &connection.burst,
            "must be greater than or equal to 0",
        );
    }
    let (path, url) = (connection.kubeconfig.clone(), MasterUrl::new(master));
    let access = match (path.is_empty(), master.is_empty()) {
        (true, true) => ApiAccess::InCluster,
        (false, true) => ApiAccess::Kubeconfig { path },
        (true, false) => ApiAccess::Master { url },
        (false, false) => ApiAccess::KubeconfigWithMaster { path, url },
    };
    let accept = match connection.accept_content_types.as_str() {
        "" => format!("{}, */*", connection.content_type),
        types => types.to_owned(),
    };
    let rate = request_rate(connection);
    ClientSettings { access, accept, content_type: connection.content_type.clone(), rate }
}

/// A zero means that nothing was said; client-go has defaults of its own for that, and a negative rate for no limit.
fn request_rate(connection: &ClientConnection) -> RequestRate {
    const PER_SECOND: f32 = 5.0;
    const BURST: u32 = 10;
    let burst = match u32::try_from(connection.burst) {
        Ok(0) => BURST,
        Ok(burst) => burst,
        // Refused above, so this is never used.
        Err(_) => return RequestRate::Unlimited,
    };
    match connection.qps {
        0.0 => RequestRate::Limited { per_second: PER_SECOND, burst },
        per_second if per_second > 0.0 => RequestRate::Limited { per_second, burst },
        _ => RequestRate::Unlimited,
    }
}

pub(super) fn node_name_source(c: &KubeProxyConfiguration) -> NodeNameSource {
    match c.hostname_override.as_str() {
        "" => NodeNameSource::Hostname,
        text => NodeNameSource::Override(text.to_owned()),
    }
}

pub(super) fn bind_address(c: &KubeProxyConfiguration, problems: &mut Collector) -> IpAddr {
    parse_ip(&c.bind_address).unwrap_or_else(|| {
        let reason = "not a valid textual representation of an IP address";
        problems.invalid(format!("{ROOT}.BindAddress"), c.bind_address.as_str(), reason);
        PLACEHOLDER
    })
}

pub(super) fn healthz(c: &KubeProxyConfiguration, problems: &mut Collector) -> Healthz {
    if c.healthz_bind_address.is_empty() {
        return Healthz::Off;
    }
    Healthz::At(socket_address(&c.healthz_bind_address, "HealthzBindAddress", problems))
}

pub(super) fn metrics(c: &KubeProxyConfiguration, problems: &mut Collector) -> SocketAddr {
    socket_address(&c.metrics_bind_address, "MetricsBindAddress", problems)
}

/// Host and port are complained about apart, each with its own part of the text as value.
fn socket_address(text: &str, field: &str, problems: &mut Collector) -> SocketAddr {
    let path = format!("{ROOT}.{field}");
    let placeholder = SocketAddr::new(PLACEHOLDER, 0);
    let Some((host, port)) = split_host_port(text) else {
        problems.invalid(path, text, "must be IP:port");
        return placeholder;
    };
    let ip = parse_ip(host);
    if ip.is_none() {
        problems.invalid(path.clone(), host, "must be a valid IP");
    }
    // Unlike in a flag, a plus sign is let pass here, as kube-proxy does.
    let number = port.parse::<u16>().ok().filter(|port| *port > 0);
    if number.is_none() {
        problems.invalid(path, port, "must be a valid port, from 1 to 65535");
    }
    ip.zip(number).map_or(placeholder, SocketAddr::from)
}

pub(super) fn node_port_addresses(
    c: &KubeProxyConfiguration,
    problems: &mut Collector,
) -> Vec<NodePortSelector> {
    let mut selectors: Vec<NodePortSelector> = Vec::new();
    for (index, text) in c.node_port_addresses.iter().flatten().enumerate() {
        let path = format!("{ROOT}.NodePortAddresses[{index}]");
        match NodePortSelector::parse(text) {
            None => {
                let reason = "must be a valid CIDR or one of the words primary, localhost, all";
                problems.invalid(path, text.as_str(), &flaw_after(reason, text).unwrap_or_default());
            }
            // A block twice does no harm; a keyword twice is most likely a slip.
            Some(word) if !matches!(word, NodePortSelector::Cidr(_)) && selectors.contains(&word) => {
                problems.duplicate(path, text);
            }
            Some(selector) => selectors.push(selector),
        }
    }
    selectors
}

/// Only the ClusterCIDR mode refuses bad blocks; elsewhere they are ignored one by one.
pub(super) fn cluster_cidrs(effective: &Effective, problems: &mut Collector) -> Vec<IpNet> {
    let texts = &effective.cluster_cidrs;
    let blocks: Vec<Option<IpNet>> = texts.iter().map(|text| parse_cidr(text)).collect();
    let used = effective.configuration.detect_local_mode == "ClusterCIDR";
    if used && !texts.is_empty() {
        check_cluster_cidrs(texts, &blocks, problems);
    }
    blocks.into_iter().flatten().collect()
}

fn check_cluster_cidrs(texts: &[String], blocks: &[Option<IpNet>], problems: &mut Collector) {
    let path = format!("{ROOT}.DetectLocalConfiguration.ClusterCIDRs");
    let families: Vec<IpFamily> = blocks.iter().flatten().map(IpFamily::of_net).collect();
    let same_family = matches!(families.as_slice(), [first, second] if first == second);
    if texts.len() > 2 || same_family {
        problems.invalid(path.clone(), texts, "must be a single CIDR block or one of each family");
    }
    let reason = "must be a valid CIDR block, such as 10.100.0.0/16 or fde4:8dba:82e1::/48";
    for (index, text) in texts.iter().enumerate() {
        if let Some(flaw) = flaw_after(reason, text) {
            problems.invalid(format!("{path}[{index}]"), text.as_str(), &flaw);
        }
    }
}

pub(super) fn source_vip(c: &KubeProxyConfiguration) -> SourceVip {
    parse_ip(&c.winkernel.source_vip).map_or(SourceVip::None, SourceVip::Address)
}
