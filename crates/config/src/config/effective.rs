//! The configuration in effect: file or flags, defaults filled in, the active mode's values picked.
//!
//! Some settings exist once per proxy mode in a file and once in a running proxy; here they are picked out, and put
//! back into the active mode's block when the configuration is written down. Nothing is validated yet.

use ferrule_plan::ProxyMode;

use super::mode::ModeBlock;
use super::v1alpha1::KubeProxyConfiguration;
use crate::go::GoDuration;

/// A configuration with the per-mode values picked.
#[derive(Clone, Debug, PartialEq)]
pub struct Effective {
    /// Everything that exists once. What [`Self::block`] has no longer counts in it.
    pub configuration: KubeProxyConfiguration,
    /// The options of the active mode.
    pub block: ModeBlock,
    /// Whether the shortest sync period was asked for; a zero in a file asks for nothing.
    pub min_sync_period_is_set: bool,
    /// `clusterCIDR`, split; a flag can make it one empty entry, which a file cannot say.
    pub cluster_cidrs: Vec<String>,
}

impl Effective {
    /// Picks the active mode's values out of a configuration whose defaults are filled in.
    pub(crate) fn from_written(configuration: KubeProxyConfiguration) -> Self {
        let block = configuration.block(configuration.mode.in_effect());
        let cluster_cidrs = match configuration.cluster_cidr.as_str() {
            "" => Vec::new(),
            list => split_cidrs(list),
        };
        Self { configuration, block, min_sync_period_is_set: false, cluster_cidrs }
    }

    /// Whether the active mode's block of a file names a shortest sync period; asked before defaults are filled in.
    pub(crate) fn names_min_sync_period(configuration: &KubeProxyConfiguration) -> bool {
        configuration.block(configuration.mode.in_effect()).min_sync_period != GoDuration::ZERO
    }

    /// Puts the picked values back into the active mode's block.
    pub fn to_written(&self) -> KubeProxyConfiguration {
        let mut written = self.configuration.clone();
        let mode = written.mode.in_effect();
        written.set_only_block(mode, self.block);
        written.cluster_cidr = self.cluster_cidrs.join(",");
        if mode != ProxyMode::Userspace {
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
