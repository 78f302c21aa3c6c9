//! Every name that this mode gives a kernel object. Whether an object is ours is decided here alone.

use std::fmt;

use ferrule_kernel::nft::Name;
use ferrule_plan::{Masquerade, PoolScope};

/// The sets and maps that always exist.
///
/// A name that kube-proxy uses too stands for the same type: it adds its sets to the table it finds, and could not take over from
/// us if one of them had another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SetName {
    /// Every cluster IP.
    ClusterIps,
    /// Node addresses that accept NodePorts.
    NodePortIps,
    /// Endpoints of this node that may reach themselves through a Service.
    HairpinConnections,
    /// Service address → chain id, see [`Self::Dispatch`].
    Services,
    /// Node port → chain id.
    NodePorts,
    /// Chain id → verdict: a chain for the pool size, or drop.
    Dispatch,
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
    /// Load-balancer addresses that have source ranges.
    Firewalled,
    /// Service address → id of a pool with session affinity.
    StickyPools,
    /// The same for endpoints of this node.
    StickyLocalPools,
    /// Node port → id of a pool with session affinity.
    StickyNodePortPools,
    /// The same for endpoints of this node.
    StickyNodePortLocalPools,
    /// Pool id and slot → endpoint id.
    StickySlots,
    /// Endpoint id → endpoint.
    StickyEndpoints,
    /// Client and pool id → endpoint id; written by packets.
    Affinity,
    /// The state that the last commit left, for the next start.
    Stamp,
}

impl SetName {
    /// All of them, in the order in which they are created.
    pub const ALL: [Self; 21] = [
        Self::ClusterIps,
        Self::NodePortIps,
        Self::HairpinConnections,
        Self::Services,
        Self::NodePorts,
        Self::Dispatch,
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
            Self::Dispatch => "dispatch",
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

/// What the map [`SetName::Dispatch`] was called in layout 3.
pub const LAYOUT_3_DISPATCH: &str = "ways";

/// The set of source ranges of one prefix length.
pub fn source_ranges(prefix_length: u8) -> Name {
    Name::new(&format!("source-ranges-{prefix_length}"))
}

/// The prefix length that a set of source ranges is for, by its name.
pub fn prefix_length_of(set: &Name) -> Option<u8> {
    let length = set.as_str().strip_prefix("source-ranges-")?.parse().ok()?;
    (source_ranges(length) == *set).then_some(length)
}

/// One of the pools that a frontend may have, by the kind of the frontend's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolRef {
    /// The kind of key.
    pub table: Table,
    /// Which pool.
    pub scope: PoolScope,
}

/// The map from a frontend's slots to endpoints.
pub fn endpoints_map(pool: PoolRef) -> SetName {
    match (pool.table, pool.scope) {
        (Table::Address, PoolScope::Cluster) => SetName::Endpoints,
        (Table::Address, PoolScope::Local) => SetName::LocalEndpoints,
        (Table::NodePort, PoolScope::Cluster) => SetName::NodePortEndpoints,
        (Table::NodePort, PoolScope::Local) => SetName::NodePortLocalEndpoints,
    }
}

/// The map from a frontend to the id of a pool with session affinity.
pub fn sticky_pools_map(pool: PoolRef) -> SetName {
    match (pool.table, pool.scope) {
        (Table::Address, PoolScope::Cluster) => SetName::StickyPools,
        (Table::Address, PoolScope::Local) => SetName::StickyLocalPools,
        (Table::NodePort, PoolScope::Cluster) => SetName::StickyNodePortPools,
        (Table::NodePort, PoolScope::Local) => SetName::StickyNodePortLocalPools,
    }
}

/// The traffic that enters a pool through a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    /// The kind of frontend.
    pub table: Table,
    /// Whose packets are masqueraded.
    pub masquerade: Masquerade,
}

/// The kind of a frontend's key, and so the maps its elements are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Service addresses: address, protocol, port.
    Address,
    /// Node ports: protocol, port.
    NodePort,
}

/// A chain for one pool size, created when a pool of that size first appears.
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
        /// The traffic.
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
    /// Picks one of so many endpoints and remembers it for a time; the pool's id is in the packet's priority.
    Stick {
        /// How many endpoints.
        size: u32,
        /// For how long, in seconds.
        seconds: u32,
    },
    /// As [`Self::Enter`], with session affinity.
    EnterSticky {
        /// The traffic.
        entry: Entry,
        /// How many endpoints.
        size: u32,
        /// For how long, in seconds.
        seconds: u32,
    },
    /// As [`Self::Local`], with session affinity.
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
        f.write_str(match (self.table, self.masquerade) {
            (Table::Address, Masquerade::AsClusterIps) => "cluster",
            (Table::Address, Masquerade::Always) => "external",
            (Table::Address, Masquerade::Never) => "direct",
            (Table::NodePort, Masquerade::AsClusterIps) => "nodeport-cluster",
            (Table::NodePort, Masquerade::Always) => "nodeport",
            (Table::NodePort, Masquerade::Never) => "nodeport-direct",
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
        let words: Vec<&str> = name.as_str().split('-').collect();
        let chain = Self::from_words(&words).or_else(|| Self::entering(name.as_str()))?;
        // A chain has one name: `pool-07` is not ours.
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
            ["sticky", size, time] => Some(Self::Stick { size: number(size)?, seconds: seconds(time)? }),
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

    /// The chain of an entry, whose name comes first.
    fn entering(name: &str) -> Option<Self> {
        Entry::all().find_map(|entry| {
            let rest = name.strip_prefix(&entry.to_string())?.strip_prefix('-')?;
            match rest.strip_prefix("sticky-").and_then(|rest| rest.strip_suffix('s')) {
                None => Some(Self::Enter { entry, size: rest.parse().ok()? }),
                Some(rest) => {
                    let (size, seconds) = rest.split_once('-')?;
                    Some(Self::EnterSticky {
                        entry,
                        size: size.parse().ok()?,
                        seconds: seconds.parse().ok()?,
                    })
                }
            }
        })
    }
}

impl Entry {
    fn all() -> impl Iterator<Item = Self> {
        let masquerades = [Masquerade::AsClusterIps, Masquerade::Always, Masquerade::Never];
        let tables = [Table::Address, Table::NodePort].into_iter();
        tables.flat_map(move |table| masquerades.map(|masquerade| Self { table, masquerade }))
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
        for entry in Entry::all() {
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
            "direct-sticky-3",
            "nodeport-direct",
            "nodeport-mine-3",
        ] {
            assert_eq!(PoolChain::from_name(&Name::new(name)), None, "{name}");
        }
    }
}
