//! What an absent (or, for many fields, zero) value becomes.
//!
//! In two steps, as in kube-proxy: file defaults before flags are applied, platform defaults after.
//! Validation comes later still.

use ferrule_model::parse_ip;
use ferrule_plan::ProxyMode;

use super::mode::{DEFAULT_MASQUERADE_BIT, WrittenMode};
use super::v1alpha1::KubeProxyConfiguration;
use crate::go::GoDuration;

/// Port health checks are answered on.
pub const HEALTHZ_PORT: u16 = 10256;
/// Port metrics are served on.
pub const METRICS_PORT: u16 = 10249;

/// Fills in the defaults of the configuration API.
pub fn fill_defaults(configuration: &mut KubeProxyConfiguration) {
    fill_addresses(configuration);
    fill_client(configuration);
    fill_logging(configuration);
    fill_conntrack(configuration);
    fill_modes(configuration);
    configuration.oom_score_adj.get_or_insert(-999);
    or_default(&mut configuration.config_sync_period, GoDuration::seconds(15 * 60));
}

/// Fills in what is decided last, from everything that came before: mode, local detection, NodePort addresses.
pub fn fill_platform_defaults(configuration: &mut KubeProxyConfiguration) {
    if configuration.mode == WrittenMode::Unset {
        configuration.mode = WrittenMode::Known(ProxyMode::Iptables);
    }
    or_text(&mut configuration.detect_local_mode, "ClusterCIDR");
    let unset = configuration.node_port_addresses.as_ref().is_none_or(Vec::is_empty);
    if configuration.mode == WrittenMode::Known(ProxyMode::Nftables) && unset {
        configuration.node_port_addresses = Some(vec!["primary".to_owned()]);
    }
}

fn fill_addresses(configuration: &mut KubeProxyConfiguration) {
    or_text(&mut configuration.bind_address, "0.0.0.0");
    let is_ipv4 = parse_ip(&configuration.bind_address).is_some_and(|ip| ip.is_ipv4());
    let (healthz, metrics) = if is_ipv4 { ("0.0.0.0", "127.0.0.1") } else { ("::", "::1") };
    or_text(&mut configuration.healthz_bind_address, healthz);
    or_text(&mut configuration.metrics_bind_address, metrics);
    append_port_to_bare_ip(&mut configuration.healthz_bind_address, HEALTHZ_PORT);
    append_port_to_bare_ip(&mut configuration.metrics_bind_address, METRICS_PORT);
}

/// `1.2.3.4` becomes `1.2.3.4:10256`; anything that is no plain IP address stays as it is.
fn append_port_to_bare_ip(address: &mut String, port: u16) {
    if parse_ip(address).is_some() {
        *address = with_port(address, port.into());
    }
}

/// Joins a host and a port, with brackets around an IPv6 host.
pub fn with_port(host: &str, port: i32) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn fill_client(configuration: &mut KubeProxyConfiguration) {
    let client = &mut configuration.client_connection;
    or_text(&mut client.content_type, "application/vnd.kubernetes.protobuf");
    if client.qps == 0.0 {
        client.qps = 5.0;
    }
    if client.burst == 0 {
        client.burst = 10;
    }
}

fn fill_logging(configuration: &mut KubeProxyConfiguration) {
    let logging = &mut configuration.logging;
    or_text(&mut logging.format, "text");
    if logging.flush_frequency.every == GoDuration::ZERO {
        logging.flush_frequency = super::v1alpha1::FlushFrequency {
            every: GoDuration::seconds(5),
            spelling: super::v1alpha1::FlushSpelling::Text,
        };
    }
}

/// An explicit zero stays: here it means "leave the kernel's value alone".
fn fill_conntrack(configuration: &mut KubeProxyConfiguration) {
    let conntrack = &mut configuration.conntrack;
    conntrack.max_per_core.get_or_insert(32 * 1024);
    conntrack.min.get_or_insert(128 * 1024);
    conntrack.tcp_established_timeout.get_or_insert(GoDuration::seconds(24 * 3600));
    conntrack.tcp_close_wait_timeout.get_or_insert(GoDuration::seconds(3600));
}

/// An explicit zero does not stay, except for the shortest ipvs sync period.
fn fill_modes(configuration: &mut KubeProxyConfiguration) {
    let (sync, min_sync) = (GoDuration::seconds(30), GoDuration::seconds(1));
    configuration.iptables.masquerade_bit.get_or_insert(DEFAULT_MASQUERADE_BIT);
    configuration.iptables.localhost_node_ports.get_or_insert(true);
    or_default(&mut configuration.iptables.sync_period, sync);
    or_default(&mut configuration.iptables.min_sync_period, min_sync);
    or_default(&mut configuration.ipvs.sync_period, sync);
    configuration.nftables.masquerade_bit.get_or_insert(DEFAULT_MASQUERADE_BIT);
    or_default(&mut configuration.nftables.sync_period, sync);
    or_default(&mut configuration.nftables.min_sync_period, min_sync);
}

fn or_text(place: &mut String, default: &str) {
    if place.is_empty() {
        default.clone_into(place);
    }
}

fn or_default(place: &mut GoDuration, default: GoDuration) {
    if *place == GoDuration::ZERO {
        *place = default;
    }
}
