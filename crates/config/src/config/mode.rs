//! The proxy mode in a configuration: as written, and as it is in effect.
//!
//! A word that is no mode is kept as it is and refused by validation, which names it; until then the configuration is
//! treated as if no mode had been named. What a mode does is none of this module's business.

use ferrule_plan::ProxyMode;

use super::v1alpha1::KubeProxyConfiguration;
use crate::go::GoDuration;

/// The field `mode`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WrittenMode {
    /// Absent or empty.
    #[default]
    Unset,
    /// One that exists.
    Known(ProxyMode),
    /// Any other word.
    Unknown(String),
}

impl WrittenMode {
    /// Reads the word in a file or a flag.
    pub fn parse(text: &str) -> Self {
        match ProxyMode::find(text) {
            Some(mode) => Self::Known(mode),
            None if text.is_empty() => Self::Unset,
            None => Self::Unknown(text.to_owned()),
        }
    }

    /// The word as it was written; empty if there is none.
    pub fn text(&self) -> &str {
        match self {
            Self::Unset => "",
            Self::Known(mode) => mode.name(),
            Self::Unknown(text) => text,
        }
    }

    /// The mode whose options count. Validation refuses an unknown one, with the paths of the default mode's options.
    pub fn in_effect(&self) -> ProxyMode {
        match self {
            Self::Unset | Self::Unknown(_) => ProxyMode::Iptables,
            Self::Known(mode) => *mode,
        }
    }
}

/// Options that a file has once for each mode, and a running proxy once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModeBlock {
    /// `syncPeriod`
    pub sync_period: GoDuration,
    /// `minSyncPeriod`
    pub min_sync_period: GoDuration,
    /// `masqueradeAll`
    pub masquerade_all: bool,
}

/// The mode whose block of the file a mode reads: userspace mode was built on iptables mode and shares its block.
pub fn block_owner(mode: ProxyMode) -> ProxyMode {
    match mode {
        ProxyMode::Iptables | ProxyMode::Userspace => ProxyMode::Iptables,
        ProxyMode::Ipvs => ProxyMode::Ipvs,
        ProxyMode::Nftables => ProxyMode::Nftables,
    }
}

impl KubeProxyConfiguration {
    /// The options of one mode. ipvs mode masquerades by the options of iptables mode.
    pub(crate) fn block(&self, mode: ProxyMode) -> ModeBlock {
        let Self { iptables, ipvs, nftables, .. } = self;
        let (sync_period, min_sync_period, masquerade_all) = match mode {
            ProxyMode::Iptables | ProxyMode::Userspace => {
                (iptables.sync_period, iptables.min_sync_period, iptables.masquerade_all)
            }
            ProxyMode::Ipvs => (ipvs.sync_period, ipvs.min_sync_period, iptables.masquerade_all),
            ProxyMode::Nftables => (nftables.sync_period, nftables.min_sync_period, nftables.masquerade_all),
        };
        ModeBlock { sync_period, min_sync_period, masquerade_all }
    }

    /// Sets the options of one mode and zeroes those of all others, as kube-proxy writes them.
    pub(crate) fn set_only_block(&mut self, mode: ProxyMode, block: ModeBlock) {
        let off = ModeBlock::default();
        let [mut iptables, mut ipvs, mut nftables] = [off; 3];
        match mode {
            ProxyMode::Iptables | ProxyMode::Userspace => iptables = block,
            ProxyMode::Ipvs => {
                ipvs = block;
                iptables.masquerade_all = block.masquerade_all;
            }
            ProxyMode::Nftables => nftables = block,
        }
        self.iptables.sync_period = iptables.sync_period;
        self.iptables.min_sync_period = iptables.min_sync_period;
        self.iptables.masquerade_all = iptables.masquerade_all;
        self.ipvs.sync_period = ipvs.sync_period;
        self.ipvs.min_sync_period = ipvs.min_sync_period;
        self.nftables.sync_period = nftables.sync_period;
        self.nftables.min_sync_period = nftables.min_sync_period;
        self.nftables.masquerade_all = nftables.masquerade_all;
    }

    /// The bit of the packet mark that asks for masquerading in one mode.
    pub(crate) fn masquerade_bit(&self, mode: ProxyMode) -> i32 {
        let bit = match mode {
            ProxyMode::Iptables | ProxyMode::Ipvs | ProxyMode::Userspace => self.iptables.masquerade_bit,
            ProxyMode::Nftables => self.nftables.masquerade_bit,
        };
        bit.unwrap_or(DEFAULT_MASQUERADE_BIT)
    }
}

/// kube-proxy's.
pub const DEFAULT_MASQUERADE_BIT: i32 = 14;
