//! The address sets of ipvs mode, with kube-proxy's names, types and comments.

use std::sync::Arc;

use ferrule_kernel::ipset::{SetSpec, SetType};
use ferrule_model::{IpFamily, Protocol};

/// One of the sets that every family has. The order is the one in which entries are added: what restricts comes before what
/// admits, and an exception before its rule. [`Self::IpvsIps`] is last: what is in it and in no other set is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(super) enum AddressSet {
    LoopBack,
    SourceIp,
    SourceCidr,
    LoadBalancerFw,
    LoadBalancerLocal,
    LoadBalancer,
    ClusterIp,
    ExternalIpLocal,
    ExternalIp,
    NodePortLocalTcp,
    NodePortTcp,
    NodePortLocalUdp,
    NodePortUdp,
    NodePortLocalSctp,
    NodePortSctp,
    HealthCheckNodePort,
    IpvsIps,
}

/// How many sets there are.
pub(super) const SETS: usize = AddressSet::ALL.len();

/// What there is to know about a set, beside the family.
struct Description {
    v4: &'static str,
    /// The kernel cuts names to 31 characters.
    v6: &'static str,
    set_type: SetType,
    comment: &'static str,
}

impl AddressSet {
    pub(super) const ALL: [Self; 17] = [
        Self::LoopBack,
        Self::SourceIp,
        Self::SourceCidr,
        Self::LoadBalancerFw,
        Self::LoadBalancerLocal,
        Self::LoadBalancer,
        Self::ClusterIp,
        Self::ExternalIpLocal,
        Self::ExternalIp,
        Self::NodePortLocalTcp,
        Self::NodePortTcp,
        Self::NodePortLocalUdp,
        Self::NodePortUdp,
        Self::NodePortLocalSctp,
        Self::NodePortSctp,
        Self::HealthCheckNodePort,
        Self::IpvsIps,
    ];

    pub(super) fn index(self) -> usize {
        self as usize
    }

    /// Its name in a family.
    pub(super) fn name(self, family: IpFamily) -> &'static str {
        match family {
            IpFamily::V4 => self.describe().v4,
            IpFamily::V6 => self.describe().v6,
        }
    }

    /// The comment of rules that use it.
    pub(super) fn comment(self) -> &'static str {
        self.describe().comment
    }

    pub(super) fn set_type(self) -> SetType {
        self.describe().set_type
    }

    /// Whether packets to its entries pass the filter of service addresses. Such an entry goes before its virtual server: as
    /// long as the address is bound, a listener of the host could answer in its place.
    pub(super) fn admits(self) -> bool {
        matches!(self, Self::LoadBalancer | Self::ClusterIp | Self::ExternalIpLocal | Self::ExternalIp)
    }

    /// Whether an address and port in it is one of a virtual server.
    pub(super) fn leads_to_servers(self) -> bool {
        self.admits() || matches!(self, Self::NodePortSctp | Self::NodePortLocalSctp)
    }

    /// The protocol of its NodePorts, if it has any without addresses.
    pub(super) fn node_port_protocol(self) -> Option<Protocol> {
        match self {
            Self::NodePortTcp | Self::NodePortLocalTcp => Some(Protocol::Tcp),
            Self::NodePortUdp | Self::NodePortLocalUdp => Some(Protocol::Udp),
            _ => None,
        }
    }

    fn describe(self) -> &'static Description {
        &DESCRIPTIONS[self.index()]
    }
}

/// By [`AddressSet::index`].
static DESCRIPTIONS: [Description; SETS] = [
    Description {
        v4: "KUBE-LOOP-BACK",
        v6: "KUBE-6-LOOP-BACK",
        set_type: SetType::HashIpPortIp,
        comment: "Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose",
    },
    Description {
        v4: "KUBE-LOAD-BALANCER-SOURCE-IP",
        v6: "KUBE-6-LOAD-BALANCER-SOURCE-IP",
        set_type: SetType::HashIpPortIp,
        comment: "Kubernetes service load balancer ip + port + source IP for packet filter purpose",
    },
    Description {
        v4: "KUBE-LOAD-BALANCER-SOURCE-CIDR",
        v6: "KUBE-6-LOAD-BALANCER-SOURCE-CID",
        set_type: SetType::HashIpPortNet,
        comment: "Kubernetes service load balancer ip + port + source cidr for packet filter purpose",
    },
    Description {
        v4: "KUBE-LOAD-BALANCER-FW",
        v6: "KUBE-6-LOAD-BALANCER-FW",
        set_type: SetType::HashIpPort,
        comment: "Kubernetes service load balancer ip + port for load balancer with sourceRange",
    },
    Description {
        v4: "KUBE-LOAD-BALANCER-LOCAL",
        v6: "KUBE-6-LOAD-BALANCER-LOCAL",
        set_type: SetType::HashIpPort,
        comment: "Kubernetes service load balancer ip + port with externalTrafficPolicy=local",
    },
    Description {
        v4: "KUBE-LOAD-BALANCER",
        v6: "KUBE-6-LOAD-BALANCER",
        set_type: SetType::HashIpPort,
        comment: "Kubernetes service lb portal",
    },
    Description {
        v4: "KUBE-CLUSTER-IP",
        v6: "KUBE-6-CLUSTER-IP",
        set_type: SetType::HashIpPort,
        comment: "Kubernetes service cluster ip + port for masquerade purpose",
    },
    Description {
        v4: "KUBE-EXTERNAL-IP-LOCAL",
        v6: "KUBE-6-EXTERNAL-IP-LOCAL",
        set_type: SetType::HashIpPort,
        comment: "Kubernetes service external ip + port with externalTrafficPolicy=local",
    },
    Description {
        v4: "KUBE-EXTERNAL-IP",
        v6: "KUBE-6-EXTERNAL-IP",
        set_type: SetType::HashIpPort,
        comment: "Kubernetes service external ip + port for masquerade and filter purpose",
    },
    Description {
        v4: "KUBE-NODE-PORT-LOCAL-TCP",
        v6: "KUBE-6-NODE-PORT-LOCAL-TCP",
        set_type: SetType::BitmapPort,
        comment: "Kubernetes nodeport TCP port with externalTrafficPolicy=local",
    },
    Description {
        v4: "KUBE-NODE-PORT-TCP",
        v6: "KUBE-6-NODE-PORT-TCP",
        set_type: SetType::BitmapPort,
        comment: "Kubernetes nodeport TCP port for masquerade purpose",
    },
    Description {
        v4: "KUBE-NODE-PORT-LOCAL-UDP",
        v6: "KUBE-6-NODE-PORT-LOCAL-UDP",
        set_type: SetType::BitmapPort,
        comment: "Kubernetes nodeport UDP port with externalTrafficPolicy=local",
    },
    Description {
        v4: "KUBE-NODE-PORT-UDP",
        v6: "KUBE-6-NODE-PORT-UDP",
        set_type: SetType::BitmapPort,
        comment: "Kubernetes nodeport UDP port for masquerade purpose",
    },
    Description {
        v4: "KUBE-NODE-PORT-LOCAL-SCTP-HASH",
        v6: "KUBE-6-NODE-PORT-LOCAL-SCTP-HAS",
        set_type: SetType::HashIpPort,
        comment: "Kubernetes nodeport SCTP port with externalTrafficPolicy=local with type 'hash ip:port'",
    },
    Description {
        v4: "KUBE-NODE-PORT-SCTP-HASH",
        v6: "KUBE-6-NODE-PORT-SCTP-HASH",
        set_type: SetType::HashIpPort,
        comment: "Kubernetes nodeport SCTP port for masquerade purpose with type 'hash ip:port'",
    },
    Description {
        v4: "KUBE-HEALTH-CHECK-NODE-PORT",
        v6: "KUBE-6-HEALTH-CHECK-NODE-PORT",
        set_type: SetType::BitmapPort,
        comment: "Kubernetes health check node port",
    },
    Description {
        v4: "KUBE-IPVS-IPS",
        v6: "KUBE-6-IPVS-IPS",
        set_type: SetType::HashIp,
        comment: "Addresses on the ipvs interface",
    },
];

/// How the kernel knows one family's sets, by [`AddressSet::index`].
pub(super) fn specs(family: IpFamily) -> [SetSpec; SETS] {
    AddressSet::ALL.map(|set| SetSpec {
        name: Arc::from(set.name(family)),
        set_type: set.set_type(),
        family: crate::table_family(family),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// kube-proxy's IPv6 names are the IPv4 ones with a 6, cut to the kernel's limit.
    #[test]
    fn names_of_ipv6_follow_from_those_of_ipv4() {
        for (at, set) in AddressSet::ALL.into_iter().enumerate() {
            let mut name = set.name(IpFamily::V4).replacen("KUBE-", "KUBE-6-", 1);
            name.truncate(31);
            assert_eq!((set.name(IpFamily::V6), set.index()), (name.as_str(), at));
        }
    }
}
