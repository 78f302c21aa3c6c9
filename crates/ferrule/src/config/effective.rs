//! The configuration in effect: file or flags, defaults filled in, the active mode's values picked.
//!
//! Some settings exist once per proxy mode in a file and once in a running proxy; here they are picked out, and put
//! back into the active mode's block when the configuration is written down. Nothing is validated yet.

use super::v1alpha1::{Iptables, Ipvs, KubeProxyConfiguration, Nftables};
use crate::go::GoDuration;

/// A configuration with the per-mode values picked.
#[derive(Clone, Debug, PartialEq)]
pub struct Effective {
    /// Everything that exists once. The per-mode periods and `masqueradeAll` in it no longer count.
    pub configuration: KubeProxyConfiguration,
    /// Sync period of the active mode.
    pub sync_period: GoDuration,
    /// Shortest sync period of the active mode.
    pub min_sync_period: GoDuration,
    /// Whether that was asked for; a zero in a file asks for nothing.
    pub min_sync_period_is_set: bool,
    /// `masqueradeAll` of the active mode.
    pub masquerade_all: bool,
    /// `clusterCIDR`, split; a flag can make it one empty entry, which a file cannot say.
    pub cluster_cidrs: Vec<String>,
}

impl Effective {
    /// Picks the active mode's values out of a configuration whose defaults are filled in.
    pub fn from_written(configuration: KubeProxyConfiguration) -> Self {
        let KubeProxyConfiguration { iptables, ipvs, nftables, .. } = &configuration;
        let (sync_period, min_sync_period) = match configuration.mode.as_str() {
            "ipvs" => (ipvs.sync_period, ipvs.min_sync_period),
            "nftables" => (nftables.sync_period, nftables.min_sync_period),
            _ => (iptables.sync_period, iptables.min_sync_period),
        };
        let masquerade_all = match configuration.mode.as_str() {
            "nftables" => nftables.masquerade_all,
            _ => iptables.masquerade_all,
        };
        let cluster_cidrs = match configuration.cluster_cidr.as_str() {
            "" => Vec::new(),
            list => split_cidrs(list),
        };
        let min_sync_period_is_set = false;
        Self {
            configuration,
            sync_period,
            min_sync_period,
            min_sync_period_is_set,
            masquerade_all,
            cluster_cidrs,
        }
    }

    /// Whether the active mode's block of a file names a shortest sync period; asked before defaults are filled in.
    pub fn names_min_sync_period(configuration: &KubeProxyConfiguration) -> bool {
        let named = match configuration.mode.as_str() {
            "ipvs" => configuration.ipvs.min_sync_period,
            "nftables" => configuration.nftables.min_sync_period,
            _ => configuration.iptables.min_sync_period,
        };
        named != GoDuration::ZERO
    }

    /// Puts the picked values back into the active mode's block; the other modes' blocks get zeros, as kube-proxy
    /// writes them.
    pub fn to_written(&self) -> KubeProxyConfiguration {
        let mut written = self.configuration.clone();
        let (sync_period, min_sync_period) = (self.sync_period, self.min_sync_period);
        let masquerade_all = self.masquerade_all;
        let zero = GoDuration::ZERO;
        let off = (zero, zero, false);
        let on = (sync_period, min_sync_period, masquerade_all);
        let (iptables, ipvs, nftables) = match written.mode.as_str() {
            // ipvs shares the masquerading options of iptables.
            "ipvs" => ((zero, zero, masquerade_all), on, off),
            "nftables" => (off, off, on),
            _ => (on, off, off),
        };
        written.iptables = Iptables {
            sync_period: iptables.0,
            min_sync_period: iptables.1,
            masquerade_all: iptables.2,
            ..written.iptables
        };
        written.ipvs = Ipvs { sync_period: ipvs.0, min_sync_period: ipvs.1, ..written.ipvs };
        written.nftables = Nftables {
            sync_period: nftables.0,
            min_sync_period: nftables.1,
            masquerade_all: nftables.2,
            ..written.nftables
        };
        written.cluster_cidr = self.cluster_cidrs.join(",");
        if written.mode != "userspace" {
            // Nothing but the userspace mode has a use for it, and kube-proxy never writes it back.
            written.port_range.clear();
        }
        written
    }
}

/// Splits at commas and trims nothing: `a, b` has an entry ` b`, which validation then refuses.
pub fn split_cidrs(list: &str) -> Vec<String> {
    list.split(',').map(str::to_owned).collect()
}
