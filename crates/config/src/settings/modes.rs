//! Settings about the proxy modes, the kernel and the pace of work.

use std::time::Duration;

use ferrule_model::parse_cidr;
use ferrule_plan::ProxyMode;

use super::cidr::flaw_after;
use super::interface;
use super::{
    Collector, ConntrackSettings, DetectLocal, IpvsSettings, KernelValue, Masquerade, PortRange,
    SyncSettings, UserspaceSettings,
};
use crate::cli::version::KUBERNETES;
use crate::config::mode::WrittenMode;
use crate::config::{Effective, KubeProxyConfiguration};
use crate::gates::Gates;
use crate::go::{GoDuration, parse_digits};

const ROOT: &str = "KubeProxyConfiguration";
const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

pub(super) fn masquerade(effective: &Effective, problems: &mut Collector) -> Masquerade {
    let c = &effective.configuration;
    // kube-proxy checks it in every mode.
    check_bit(c.masquerade_bit(ProxyMode::Iptables), "KubeProxyIPTablesConfiguration", problems);
    let bit = c.masquerade_bit(c.mode.in_effect());
    let mark = u32::try_from(bit).ok().and_then(|bit| 1_u32.checked_shl(bit)).unwrap_or(0);
    Masquerade { all: effective.block.masquerade_all, mark }
}

pub(super) fn check_nftables_bit(c: &KubeProxyConfiguration, problems: &mut Collector) {
    if c.mode.in_effect() == ProxyMode::Nftables {
        check_bit(c.masquerade_bit(ProxyMode::Nftables), "KubeProxyNFTablesConfiguration", problems);
    }
}

fn check_bit(bit: i32, group: &str, problems: &mut Collector) {
    if !(0..=31).contains(&bit) {
        problems.invalid(format!("{ROOT}.{group}.MasqueradeBit"), &bit, "must be within the range [0, 31]");
    }
}

/// Only ipvs mode refuses bad values here; other modes do not read them.
pub(super) fn ipvs(c: &KubeProxyConfiguration, problems: &mut Collector) -> IpvsSettings {
    let group = format!("{ROOT}.KubeProxyIPVSConfiguration");
    let ipvs = &c.ipvs;
    let texts: Vec<&String> = ipvs.exclude_cidrs.iter().flatten().collect();
    if c.mode.in_effect() == ProxyMode::Ipvs {
        for (name, timeout) in [
            ("TCPTimeout", ipvs.tcp_timeout),
            ("TCPFinTimeout", ipvs.tcp_fin_timeout),
            ("UDPTimeout", ipvs.udp_timeout),
        ] {
            check_not_negative(&format!("{group}.{name}"), timeout, problems);
        }
        for (index, text) in texts.iter().enumerate() {
            if let Some(flaw) = flaw_after("must be a valid CIDR", text) {
                problems.invalid(format!("{group}.ExcludeCidrs[{index}]"), text.as_str(), &flaw);
            }
        }
    }
    IpvsSettings {
        scheduler: if ipvs.scheduler.is_empty() { "rr".to_owned() } else { ipvs.scheduler.clone() },
        exclude_cidrs: texts.iter().filter_map(|text| parse_cidr(text)).collect(),
        strict_arp: ipvs.strict_arp,
        tcp_timeout: kernel_duration(ipvs.tcp_timeout),
        tcp_fin_timeout: kernel_duration(ipvs.tcp_fin_timeout),
        udp_timeout: kernel_duration(ipvs.udp_timeout),
        // A flag alone says so.
        drain_limit: None,
    }
}

pub(super) fn conntrack(c: &KubeProxyConfiguration, problems: &mut Collector) -> ConntrackSettings {
    let group = format!("{ROOT}.KubeProxyLinuxConfiguration.KubeProxyConntrackConfiguration");
    let conntrack = &c.conntrack;
    let max_per_core = conntrack.max_per_core.unwrap_or(0);
    let min = conntrack.min.unwrap_or(0);
    let established = conntrack.tcp_established_timeout.unwrap_or_default();
    let close_wait = conntrack.tcp_close_wait_timeout.unwrap_or_default();
    for (name, value) in [("MaxPerCore", max_per_core), ("Min", min)] {
        if value < 0 {
            problems.invalid(format!("{group}.{name}"), &value, NOT_NEGATIVE);
        }
    }
    for (name, timeout) in [
        ("TCPEstablishedTimeout", established),
        ("TCPCloseWaitTimeout", close_wait),
        ("UDPTimeout", conntrack.udp_timeout),
        ("UDPStreamTimeout", conntrack.udp_stream_timeout),
    ] {
        check_not_negative(&format!("{group}.{name}"), timeout, problems);
    }
    ConntrackSettings {
        max_per_core: match u32::try_from(max_per_core) {
            Ok(limit) if limit > 0 => KernelValue::Set(limit),
            _ => KernelValue::Keep,
        },
        min: u32::try_from(min).unwrap_or(0),
        tcp_established_timeout: kernel_duration(established),
        tcp_close_wait_timeout: kernel_duration(close_wait),
        tcp_be_liberal: conntrack.tcp_be_liberal,
        udp_timeout: kernel_duration(conntrack.udp_timeout),
        udp_stream_timeout: kernel_duration(conntrack.udp_stream_timeout),
    }
}

pub(super) fn check_not_negative(path: &str, duration: GoDuration, problems: &mut Collector) {
    if duration.is_negative() {
        problems.invalid(path, &duration, NOT_NEGATIVE);
    }
}

fn kernel_duration(duration: GoDuration) -> KernelValue<Duration> {
    if duration == GoDuration::ZERO { KernelValue::Keep } else { KernelValue::Set(duration.to_std()) }
}

pub(super) fn oom_score_adj(c: &KubeProxyConfiguration, problems: &mut Collector) -> i32 {
    let score = c.oom_score_adj.unwrap_or(-999);
    if !(-1000..=1000).contains(&score) {
        let path = format!("{ROOT}.KubeProxyLinuxConfiguration.OOMScoreAdj");
        problems.invalid(path, &score, "must be within the range [-1000, 1000]");
    }
    score
}

pub(super) fn mode(c: &KubeProxyConfiguration, gates: &Gates, problems: &mut Collector) -> ProxyMode {
    let ipvs_allowed = gates.is_on("KubeProxyIPVS");
    let is_allowed = |mode: &ProxyMode| *mode != ProxyMode::Ipvs || ipvs_allowed;
    match &c.mode {
        WrittenMode::Known(mode) if is_allowed(mode) => *mode,
        WrittenMode::Known(_) | WrittenMode::Unset | WrittenMode::Unknown(_) => {
            let names: Vec<&str> =
                ProxyMode::ALL.into_iter().filter(is_allowed).map(ProxyMode::name).collect();
            let reason = format!("must be {} or blank (which means iptables)", names.join(", "));
            problems.invalid(format!("{ROOT}.Mode.ProxyMode"), c.mode.text(), &reason);
            ProxyMode::Iptables
        }
    }
}

pub(super) fn config_sync_period(c: &KubeProxyConfiguration, problems: &mut Collector) -> Duration {
    check_positive("ConfigSyncPeriod", c.config_sync_period, problems);
    c.config_sync_period.to_std()
}

pub(super) fn sync(effective: &Effective, problems: &mut Collector) -> SyncSettings {
    let (period, min_period) = (effective.block.sync_period, effective.block.min_sync_period);
    check_positive("SyncPeriod", period, problems);
    check_not_negative(&format!("{ROOT}.MinSyncPeriod"), min_period, problems);
    if min_period > period {
        let reason = format!("must be greater than or equal to {ROOT}.MinSyncPeriod");
        problems.invalid(format!("{ROOT}.SyncPeriod"), &min_period, &reason);
    }
    SyncSettings {
        period: period.to_std(),
        min_period: min_period.to_std(),
        min_period_is_set: effective.min_sync_period_is_set,
    }
}

fn check_positive(name: &str, duration: GoDuration, problems: &mut Collector) {
    if duration.as_nanoseconds() <= 0 {
        problems.invalid(format!("{ROOT}.{name}"), &duration, "must be greater than 0");
    }
}

/// The release before the previous one is let pass: a cluster on its way up may still ask for it.
pub(super) fn show_hidden_metrics(c: &KubeProxyConfiguration, problems: &mut Collector) -> bool {
    let wanted = c.show_hidden_metrics_for_version.as_str();
    let previous = KUBERNETES.previous_minor();
    if !wanted.is_empty() && wanted != previous && wanted != OLDER_HIDDEN_METRICS {
        let reason = format!("only the previous minor version {previous} is allowed");
        problems.invalid(format!("{ROOT}.ShowHiddenMetricsForVersion"), wanted, &reason);
    }
    !wanted.is_empty()
}

/// What 1.36 asked for, and what files written for it still carry.
pub const OLDER_HIDDEN_METRICS: &str = "1.35";

pub(super) fn detect_local(c: &KubeProxyConfiguration, problems: &mut Collector) -> DetectLocal {
    let group = format!("{ROOT}.DetectLocalConfiguration");
    match c.detect_local_mode.as_str() {
        "ClusterCIDR" | "" => DetectLocal::ClusterCidr,
        "NodeCIDR" => DetectLocal::NodeCidr,
        "BridgeInterface" => {
            let path = format!("{group}.InterfaceName");
            DetectLocal::BridgeInterface(interface_name(&c.detect_local.bridge_interface, &path, problems))
        }
        "InterfaceNamePrefix" => {
            let path = format!("{group}.InterfacePrefix");
            let prefix = interface_name(&c.detect_local.interface_name_prefix, &path, problems);
            DetectLocal::InterfaceNamePrefix(prefix)
        }
        other => {
            let supported = ["ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix", ""];
            problems.unsupported(format!("{ROOT}.DetectLocalMode"), other, &supported);
            DetectLocal::ClusterCidr
        }
    }
}

fn interface_name(text: &str, path: &str, problems: &mut Collector) -> String {
    if let Some(flaw) = interface::flaw(text) {
        problems.invalid(path, text, &flaw);
    }
    text.to_owned()
}

/// Only userspace mode refuses bad values here; kube-proxy no longer reads them at all.
pub(super) fn userspace(c: &KubeProxyConfiguration, problems: &mut Collector) -> UserspaceSettings {
    let idle = c.udp_idle_timeout.unwrap_or(GoDuration::milliseconds(250));
    let ports = port_range(&c.port_range);
    if c.mode.in_effect() == ProxyMode::Userspace {
        if ports.is_none() {
            let reason = "must be N, A-B or A+offset with ports up to 65535";
            problems.invalid(format!("{ROOT}.PortRange"), c.port_range.as_str(), reason);
        }
        check_positive("UDPIdleTimeout", idle, problems);
    }
    UserspaceSettings { ports: ports.unwrap_or(PortRange::Any), udp_idle_timeout: idle.to_std() }
}

/// `N`, `A-B` (both included) or `A+offset`; nothing, `0` and `0-0` leave the choice to the kernel.
fn port_range(text: &str) -> Option<PortRange> {
    let text = text.trim();
    if matches!(text, "" | "0" | "0-0") {
        return Some(PortRange::Any);
    }
    let (first, last) = if let Some((first, last)) = text.split_once('-') {
        (parse_digits::<u16>(first)?, parse_digits::<u16>(last)?)
    } else if let Some((first, offset)) = text.split_once('+') {
        let first = parse_digits::<u16>(first)?;
        (first, first.checked_add(parse_digits(offset)?)?)
    } else {
        let port = parse_digits::<u16>(text)?;
        (port, port)
    };
    (first <= last).then_some(PortRange::Between { first, last })
}
