//! Every name this backend gives a kernel object, so that "is it ours?" is one question to one file.

use std::fmt;

use ferrule_kernel::nft::Name;
use ferrule_plan::PoolScope;

/// The sets and maps that always exist.
///
/// A name that kube-proxy has too stands for the same type: it adds its sets to the table it finds, and could never take over
/// from us if one were something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SetName {
    /// Every cluster IP.
    ClusterIps,
    /// Node addresses that accept NodePorts.
    NodePortIps,
    /// Endpoints of this node that may reach themselves through a Service.
    HairpinConnections,
    /// Service addresses → the number of what becomes of packets to them.
    Services,
    /// Node ports → the number of what becomes of packets to them.
    NodePorts,
    /// Number → what becomes of packets.
    Ways,
    /// Service address and slot → endpoint.
    Endpoints,
    /// The same for endpoints of this node.
    LocalEndpoints,
    /// Node port and slot → endpoint.
    NodePortEndpoints,
    /// The same for endpoints of this node.
    NodePortLocalEndpoints,
    /// External addresses without any endpoint.
    NoEndpointServices,
    /// Node ports without any endpoint.
    NoEndpointNodePorts,
    /// Load-balancer addresses with source ranges.
    Firewalled,
    /// Service address → pool that clients stick to.
    StickyPools,
    /// The same for endpoints of this node.
    StickyLocalPools,
    /// Node port → pool that clients stick to.
    StickyNodePortPools,
    /// The same for endpoints of this node.
    StickyNodePortLocalPools,
    /// Pool and slot → endpoint id.
    StickySlots,
    /// Endpoint id → endpoint.
    StickyEndpoints,
    /// Client and pool → endpoint id; written by packets.
    Affinity,
    /// What was programmed last, for the next start.
    Stamp,
}

impl SetName {
    /// All of them, in the order in which they are made.
    pub const ALL: [Self; 21] = [
        Self::ClusterIps,
        Self::NodePortIps,
        Self::HairpinConnections,
        Self::Services,
        Self::NodePorts,
        Self::Ways,
        Self::Endpoints,
        Self::LocalEndpoints,
        Self::NodePortEndpoints,
        Self::NodePortLocalEndpoints,
        Self::NoEndpointServices,
        Self::NoEndpointNodePorts,
        Self::Firewalled,
        Self::StickyPools,
        Self::StickyLocalPools,
        Self::StickyNodePortPools,
        Self::StickyNodePortLocalPools,
        Self::StickySlots,
        Self::StickyEndpoints,
        Self::Affinity,
        Self::Stamp,
    ];

    /// The name in the kernel.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClusterIps => "cluster-ips",
            Self::NodePortIps => "nodeport-ips",
            Self::HairpinConnections => "hairpin-connections",
            Self::Services => "services",
            Self::NodePorts => "nodeports",
            Self::Ways => "ways",
            Self::Endpoints => "endpoints",
            Self::LocalEndpoints => "local-endpoints",
            Self::NodePortEndpoints => "nodeport-endpoints",
            Self::NodePortLocalEndpoints => "nodeport-local-endpoints",
            Self::NoEndpointServices => "unserved-services",
            Self::NoEndpointNodePorts => "unserved-nodeports",
            Self::Firewalled => "firewalled",
            Self::StickyPools => "sticky-pools",
            Self::StickyLocalPools => "sticky-local-pools",
            Self::StickyNodePortPools => "sticky-nodeport-pools",
            Self::StickyNodePortLocalPools => "sticky-nodeport-local-pools",
            Self::StickySlots => "sticky-slots",
            Self::StickyEndpoints => "sticky-endpoints",
            Self::Affinity => "affinity",
            Self::Stamp => "ferrule-stamp",
        }
    }

    /// The name as the kernel crate wants it.
    pub fn name(self) -> Name {
        Name::new(self.as_str())
    }
}

/// The set of source ranges of one prefix length.
pub fn source_ranges(prefix_length: u8) -> Name {
    Name::new(&format!("source-ranges-{prefix_length}"))
}

/// The prefix length that a set of source ranges is for, by its name.
pub fn prefix_length_of(set: &Name) -> Option<u8> {
    let length = set.as_str().strip_prefix("source-ranges-")?.parse().ok()?;
    (source_ranges(length) == *set).then_some(length)
}

/// The map from a frontend's slots to endpoints.
pub fn endpoints_map(table: Table, scope: PoolScope) -> SetName {
    match (table, scope) {
        (Table::Address, PoolScope::Cluster) => SetName::Endpoints,
        (Table::Address, PoolScope::Local) => SetName::LocalEndpoints,
        (Table::NodePort, PoolScope::Cluster) => SetName::NodePortEndpoints,
        (Table::NodePort, PoolScope::Local) => SetName::NodePortLocalEndpoints,
    }
}

/// The map from a frontend to the pool its clients stick to.
pub fn sticky_pools_map(table: Table, scope: PoolScope) -> SetName {
    match (table, scope) {
        (Table::Address, PoolScope::Cluster) => SetName::StickyPools,
        (Table::Address, PoolScope::Local) => SetName::StickyLocalPools,
        (Table::NodePort, PoolScope::Cluster) => SetName::StickyNodePortPools,
        (Table::NodePort, PoolScope::Local) => SetName::StickyNodePortLocalPools,
    }
}

/// Which way into a pool a chain is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entry {
    /// A cluster IP: masqueraded unless from a local pod, as the node is configured.
    Cluster,
    /// An external address: always masqueraded.
    External,
    /// A node port: always masqueraded.
    NodePort,
}

/// Where the elements of a chain's key are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Service addresses: address, protocol, port.
    Address,
    /// Node ports: protocol, port.
    NodePort,
}

/// A chain that is made for a pool size, when first needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PoolChain {
    /// Picks one of so many endpoints.
    Pick {
        /// Of which map.
        table: Table,
        /// Of which of its pools.
        scope: PoolScope,
        /// How many.
        size: u32,
    },
    /// Masquerades as its entry says, then picks.
    Enter {
        /// The way in.
        entry: Entry,
        /// How many endpoints.
        size: u32,
    },
    /// Policy Local: pods and this host to the cluster pool, others to the local one.
    Local {
        /// Of which maps.
        table: Table,
        /// Endpoints of the cluster pool.
        cluster: u32,
        /// Endpoints of the local pool; none drops.
        local: u32,
    },
    /// Picks one of so many endpoints and remembers it for a time; the pool is in the packet's priority.
    Stick {
        /// How many endpoints.
        size: u32,
        /// For how long, in seconds.
        seconds: u32,
    },
    /// As [`Self::Enter`], for clients that stick.
    EnterSticky {
        /// The way in.
        entry: Entry,
        /// How many endpoints.
        size: u32,
        /// For how long, in seconds.
        seconds: u32,
    },
    /// As [`Self::Local`], for clients that stick.
    LocalSticky {
        /// Of which maps.
        table: Table,
        /// Endpoints of the cluster pool.
        cluster: u32,
        /// Endpoints of the local pool; none drops.
        local: u32,
        /// For how long, in seconds.
        seconds: u32,
    },
}

impl PoolChain {
    /// The name in the kernel.
    pub fn name(self) -> Name {
        Name::new(&self.to_string())
    }
}

impl fmt::Display for Table {
    /// What chains of node ports begin with.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => "",
            Self::NodePort => "nodeport-",
        })
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cluster => "cluster",
            Self::External => "external",
            Self::NodePort => "nodeport",
        })
    }
}

impl fmt::Display for PoolChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pick { table, scope: PoolScope::Cluster, size } => write!(f, "{table}pool-{size}"),
            Self::Pick { table, scope: PoolScope::Local, size } => write!(f, "{table}local-pool-{size}"),
            Self::Enter { entry, size } => write!(f, "{entry}-{size}"),
            Self::Local { table, cluster, local } => write!(f, "{}-local-{cluster}-{local}", table.outside()),
            Self::Stick { size, seconds } => write!(f, "sticky-{size}-{seconds}s"),
            Self::EnterSticky { entry, size, seconds } => write!(f, "{entry}-sticky-{size}-{seconds}s"),
            Self::LocalSticky { table, cluster, local, seconds } => {
                write!(f, "{}-local-sticky-{cluster}-{local}-{seconds}s", table.outside())
            }
        }
    }
}

impl PoolChain {
    /// The chain that a name stands for, if it is the name of one.
    pub fn from_name(name: &Name) -> Option<Self> {
        let chain = Self::from_words(&name.as_str().split('-').collect::<Vec<_>>())?;
        // One chain has one name: `pool-07` is nobody's.
        (chain.to_string() == name.as_str()).then_some(chain)
    }

    fn from_words(words: &[&str]) -> Option<Self> {
        let number = |word: &str| word.parse::<u32>().ok();
        let seconds = |word: &str| number(word.strip_suffix('s')?);
        let pick = |table, scope, size| Some(Self::Pick { table, scope, size: number(size)? });
        match *words {
            ["pool", size] => pick(Table::Address, PoolScope::Cluster, size),
            ["local", "pool", size] => pick(Table::Address, PoolScope::Local, size),
            ["nodeport", "pool", size] => pick(Table::NodePort, PoolScope::Cluster, size),
            ["nodeport", "local", "pool", size] => pick(Table::NodePort, PoolScope::Local, size),
            [entry, size] => Some(Self::Enter { entry: Entry::from_word(entry)?, size: number(size)? }),
            ["sticky", size, time] => Some(Self::Stick { size: number(size)?, seconds: seconds(time)? }),
            [entry, "sticky", size, time] => {
                let entry = Entry::from_word(entry)?;
                Some(Self::EnterSticky { entry, size: number(size)?, seconds: seconds(time)? })
            }
            [outside, "local", cluster, local] => {
                let table = Table::from_outside(outside)?;
                Some(Self::Local { table, cluster: number(cluster)?, local: number(local)? })
            }
            [outside, "local", "sticky", cluster, local, time] => {
                let (table, seconds) = (Table::from_outside(outside)?, seconds(time)?);
                Some(Self::LocalSticky { table, cluster: number(cluster)?, local: number(local)?, seconds })
            }
            _ => None,
        }
    }
}

impl Entry {
    fn from_word(word: &str) -> Option<Self> {
        [Self::Cluster, Self::External, Self::NodePort].into_iter().find(|entry| entry.to_string() == word)
    }
}

impl Table {
    /// The table of a chain for packets from outside.
    fn from_outside(word: &str) -> Option<Self> {
        [Self::Address, Self::NodePort].into_iter().find(|table| table.outside() == word)
    }

    /// What chains for packets from outside begin with.
    fn outside(self) -> &'static str {
        match self {
            Self::Address => "external",
            Self::NodePort => "nodeport",
        }
    }
}

/// Chains that always exist, besides the base chains.
pub mod chains {
    /// Drops what source ranges do not admit.
    pub const FIREWALL_CHECK: &str = "firewall-check";
    /// Who may use a firewalled address.
    pub const SOURCE_RANGES: &str = "source-ranges";
    /// Rejects packets to external addresses without endpoints.
    pub const SERVICE_ENDPOINTS_CHECK: &str = "service-endpoints-check";
    /// Rejects packets to node ports without endpoints.
    pub const NODEPORT_ENDPOINTS_CHECK: &str = "nodeport-endpoints-check";
    /// Rejects unused ports of cluster IPs, drops unallocated ones.
    pub const CLUSTER_IPS_CHECK: &str = "cluster-ips-check";
    /// Sends packets to their Service's chain.
    pub const SERVICES: &str = "services";
    /// For a cluster IP whose element was being replaced at this moment.
    pub const CLUSTER_RETRY: &str = "cluster-retry";
    /// Masquerades marked packets and hairpins.
    pub const MASQUERADING: &str = "masquerading";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_back_as_the_chain_it_was_given() {
        let (size, seconds, cluster, local) = (3, 600, 3, 0);
        let mut all = vec![PoolChain::Stick { size, seconds }];
        for table in [Table::Address, Table::NodePort] {
            all.extend([PoolScope::Cluster, PoolScope::Local].map(|scope| PoolChain::Pick {
                table,
                scope,
                size,
            }));
            all.push(PoolChain::Local { table, cluster, local });
            all.push(PoolChain::LocalSticky { table, cluster, local, seconds });
        }
        for entry in [Entry::Cluster, Entry::External, Entry::NodePort] {
            all.extend([PoolChain::Enter { entry, size }, PoolChain::EnterSticky { entry, size, seconds }]);
        }
        for chain in all {
            assert_eq!(PoolChain::from_name(&chain.name()), Some(chain), "{chain}");
        }
    }

    #[test]
    fn names_of_others_are_no_pool_chains() {
        for name in [
            "pool-07",
            "pool-+7",
            "pool-",
            "pool",
            "",
            "-",
            "cluster-ips-check",
            "mine-3",
            "sticky-3",
            "local-3-2",
        ] {
            assert_eq!(PoolChain::from_name(&Name::new(name)), None, "{name}");
        }
    }
}
