//! The proxy modes, by name. What a mode does is its backend's business; how it differs is in [`Quirk`](crate::Quirk)s.

/// A proxy mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProxyMode {
    /// Chains of iptables rules.
    Iptables,
    /// The kernel's own load balancer, IPVS.
    Ipvs,
    /// Maps of one nftables table.
    Nftables,
    /// Connections relayed by this process, as before Kubernetes 1.2.
    Userspace,
}

impl ProxyMode {
    /// Every mode, in the order of their names.
    pub const ALL: [Self; 4] = [Self::Iptables, Self::Ipvs, Self::Nftables, Self::Userspace];

    /// The value of `mode` in a `KubeProxyConfiguration`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Iptables => "iptables",
            Self::Ipvs => "ipvs",
            Self::Nftables => "nftables",
            Self::Userspace => "userspace",
        }
    }

    /// The mode of this name. Names are case-sensitive.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}
