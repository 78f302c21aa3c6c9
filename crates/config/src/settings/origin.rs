//! Where a complaint's field was set: kube-proxy's paths are those of its internal types, people write flags and files.

use ferrule_plan::ProxyMode;

use crate::cli::flags;
use crate::config::fields;
use crate::config::mode::block_owner;

/// What the user wrote: flags, or a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// No file, so the field came from a flag.
    Flags,
    /// `--config`.
    File,
}

/// Paths of complaints, without root and index, and the field of the file that feeds them. Those with a `*` have one
/// per mode.
const FIELDS: &[(&str, &str)] = &[
    ("KubeProxyIPTablesConfiguration.MasqueradeBit", "iptables.masqueradeBit"),
    ("KubeProxyIPVSConfiguration.TCPTimeout", "ipvs.tcpTimeout"),
    ("KubeProxyIPVSConfiguration.TCPFinTimeout", "ipvs.tcpFinTimeout"),
    ("KubeProxyIPVSConfiguration.UDPTimeout", "ipvs.udpTimeout"),
    ("KubeProxyIPVSConfiguration.ExcludeCidrs", "ipvs.excludeCIDRs"),
    ("KubeProxyNFTablesConfiguration.MasqueradeBit", "nftables.masqueradeBit"),
    ("KubeProxyConntrackConfiguration.MaxPerCore", "conntrack.maxPerCore"),
    ("KubeProxyConntrackConfiguration.Min", "conntrack.min"),
    ("KubeProxyConntrackConfiguration.TCPEstablishedTimeout", "conntrack.tcpEstablishedTimeout"),
    ("KubeProxyConntrackConfiguration.TCPCloseWaitTimeout", "conntrack.tcpCloseWaitTimeout"),
    ("KubeProxyConntrackConfiguration.UDPTimeout", "conntrack.udpTimeout"),
    ("KubeProxyConntrackConfiguration.UDPStreamTimeout", "conntrack.udpStreamTimeout"),
    ("KubeProxyLinuxConfiguration.OOMScoreAdj", "oomScoreAdj"),
    ("Mode.ProxyMode", "mode"),
    ("ClientConnection.Burst", "clientConnection.burst"),
    ("ConfigSyncPeriod", "configSyncPeriod"),
    ("MinSyncPeriod", "*.minSyncPeriod"),
    ("SyncPeriod", "*.syncPeriod"),
    ("HealthzBindAddress", "healthzBindAddress"),
    ("MetricsBindAddress", "metricsBindAddress"),
    ("BindAddress", "bindAddress"),
    ("NodePortAddresses", "nodePortAddresses"),
    ("ShowHiddenMetricsForVersion", "showHiddenMetricsForVersion"),
    ("DetectLocalMode", "detectLocalMode"),
    ("DetectLocalConfiguration.InterfaceName", "detectLocal.bridgeInterface"),
    ("DetectLocalConfiguration.InterfacePrefix", "detectLocal.interfaceNamePrefix"),
    ("DetectLocalConfiguration.ClusterCIDRs", "clusterCIDR"),
    ("PortRange", "portRange"),
    ("UDPIdleTimeout", "udpIdleTimeout"),
];

/// What the user wrote for the field a complaint is about, in the user's words: `--cluster-cidr`, `clusterCIDR`.
pub fn written_as(path: &str, origin: Origin, mode: ProxyMode) -> Option<String> {
    let field = file_field(path, mode)?;
    match origin {
        Origin::File => Some(field),
        Origin::Flags => flag_of(&field).map(|flag| format!("--{flag}")),
    }
}

fn file_field(path: &str, mode: ProxyMode) -> Option<String> {
    let path = path.split('[').next().unwrap_or(path);
    if fields::find(path).is_some() {
        return Some(path.to_owned());
    }
    let ends_so = |known: &str| path.strip_suffix(known).is_some_and(|rest| rest.ends_with('.'));
    let (_, field) = FIELDS.iter().find(|(known, _)| ends_so(known))?;
    Some(field.replace('*', block_owner(mode).name()))
}

fn flag_of(field: &str) -> Option<&'static str> {
    match field {
        "clusterCIDR" => Some(flags::CLUSTER_CIDR),
        "ipvs.syncPeriod" => Some(flags::IPVS_SYNC_PERIOD),
        "ipvs.minSyncPeriod" => Some(flags::IPVS_MIN_SYNC_PERIOD),
        _ if field.ends_with(".syncPeriod") => Some(flags::IPTABLES_SYNC_PERIOD),
        _ if field.ends_with(".minSyncPeriod") => Some(flags::IPTABLES_MIN_SYNC_PERIOD),
        _ => flags::all().into_iter().find(|flag| flag.field == field).map(|flag| flag.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_leads_to_a_field_and_a_flag() {
        for (path, field) in FIELDS {
            let path = format!("KubeProxyConfiguration.{path}[3]");
            let found = file_field(&path, ProxyMode::Nftables).expect("a field");
            assert!(fields::find(&found).is_some(), "{path}: {found}");
            assert_eq!(found, field.replace('*', "nftables"));
            // The one field without a flag.
            let has_flag = written_as(&path, Origin::Flags, ProxyMode::Nftables).is_some();
            assert_eq!(has_flag, found != "nftables.masqueradeBit", "{path}");
        }
    }

    #[test]
    fn the_users_own_words_come_back() {
        let path = "KubeProxyConfiguration.DetectLocalConfiguration.ClusterCIDRs[1]";
        assert_eq!(written_as(path, Origin::Flags, ProxyMode::Iptables).as_deref(), Some("--cluster-cidr"));
        assert_eq!(written_as(path, Origin::File, ProxyMode::Iptables).as_deref(), Some("clusterCIDR"));
        let period = "KubeProxyConfiguration.SyncPeriod";
        assert_eq!(written_as(period, Origin::Flags, ProxyMode::Ipvs).as_deref(), Some("--ipvs-sync-period"));
        assert_eq!(
            written_as(period, Origin::Flags, ProxyMode::Nftables).as_deref(),
            Some("--iptables-sync-period")
        );
        assert_eq!(
            written_as("logging.format", Origin::Flags, ProxyMode::Iptables).as_deref(),
            Some("--logging-format")
        );
    }
}
