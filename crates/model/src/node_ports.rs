//! Which of the node's addresses accept NodePorts: the `nodePortAddresses` setting and its keywords.
//!
//! Pure selection over a list of addresses; listing the interfaces is the caller's work. What each backend does with
//! loopback addresses is decided in the plan.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::{IpFamily, NodeIps, is_zero_cidr, parse_cidr};

/// One entry of `nodePortAddresses`: a block, or one of the keywords of Kubernetes 1.37.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodePortSelector {
    /// Every address inside the block.
    Cidr(IpNet),
    /// `primary`: the node's own address of each family that has one.
    Primary,
    /// `localhost`: 127.0.0.0/8 and `::1`.
    Localhost,
    /// `all`: every address of both families.
    All,
}

impl NodePortSelector {
    /// Reads one entry; `None` if it is neither a CIDR nor a keyword. Keywords are case-sensitive.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "primary" => Some(Self::Primary),
            "localhost" => Some(Self::Localhost),
            "all" => Some(Self::All),
            _ => parse_cidr(text).map(Self::Cidr),
        }
    }

    /// The blocks it stands for on a node with these addresses, in order.
    pub fn blocks(&self, node: &NodeIps) -> Vec<IpNet> {
        match self {
            Self::Cidr(net) => vec![*net],
            Self::Primary => IpFamily::BOTH
                .into_iter()
                .filter_map(|family| node.known(family))
                .map(IpFamily::host_block)
                .collect(),
            Self::Localhost => IpFamily::BOTH.map(loopback_block).to_vec(),
            Self::All => IpFamily::BOTH.map(IpFamily::everything).to_vec(),
        }
    }
}

impl fmt::Display for NodePortSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cidr(net) => net.fmt(f),
            Self::Primary => f.write_str("primary"),
            Self::Localhost => f.write_str("localhost"),
            Self::All => f.write_str("all"),
        }
    }
}

/// The blocks a whole `nodePortAddresses` list stands for, in place and in order.
pub fn expand(selectors: &[NodePortSelector], node: &NodeIps) -> Vec<IpNet> {
    selectors.iter().flat_map(|selector| selector.blocks(node)).collect()
}

/// The loopback block of a family: 127.0.0.0/8, or `::1` alone.
pub fn loopback_block(family: IpFamily) -> IpNet {
    match family {
        IpFamily::V4 => IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8)),
        IpFamily::V6 => IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128)),
    }
}

/// The NodePort addresses of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePortAddresses {
    family: IpFamily,
    /// The blocks that count; just the family's zero block if everything matches.
    blocks: Vec<IpNet>,
    contains_ipv4_loopback: bool,
    contains_explicit_loopback: bool,
}

impl NodePortAddresses {
    /// Keeps the blocks of one family. None left means every address of it, even if the user listed blocks of the
    /// other family: that is kube-proxy's reading, and clusters rely on it.
    pub fn new(family: IpFamily, blocks: &[IpNet]) -> Self {
        let ours: Vec<IpNet> = blocks.iter().copied().filter(|net| IpFamily::of_net(net) == family).collect();
        let considered = match ours.iter().position(is_zero_cidr) {
            Some(zero) => &ours[..=zero],
            None => &ours[..],
        };
        let everything = family.everything();
        let considered = if considered.is_empty() { &[everything][..] } else { considered };
        let match_all = considered.last().is_some_and(is_zero_cidr);
        Self {
            family,
            contains_ipv4_loopback: considered.iter().any(touches_ipv4_loopback),
            contains_explicit_loopback: ours
                .iter()
                .any(|net| !is_zero_cidr(net) && net.network().is_loopback()),
            blocks: if match_all { vec![everything] } else { considered.to_vec() },
        }
    }

    /// Whether every address of the family accepts NodePorts.
    pub fn match_all(&self) -> bool {
        self.blocks.first().is_some_and(is_zero_cidr)
    }

    /// Whether an address is among them.
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.blocks.iter().any(|net| net.contains(&ip))
    }

    /// Those of the given interface addresses that are among them.
    pub fn among(&self, interface_addresses: impl IntoIterator<Item = IpAddr>) -> BTreeSet<IpAddr> {
        interface_addresses.into_iter().filter(|ip| self.contains(*ip)).collect()
    }

    /// Whether 127.0.0.0/8 is touched, the condition for `NodePorts` on localhost in iptables mode. Never for IPv6.
    pub fn contains_ipv4_loopback(&self) -> bool {
        self.contains_ipv4_loopback
    }

    /// Whether the user named a loopback block outright; "everything" does not count.
    pub fn contains_explicit_loopback(&self) -> bool {
        self.contains_explicit_loopback
    }

    /// The family these addresses are of.
    pub fn family(&self) -> IpFamily {
        self.family
    }

    /// The blocks that count; the family's zero block alone if everything matches.
    pub fn blocks(&self) -> &[IpNet] {
        &self.blocks
    }
}

fn touches_ipv4_loopback(net: &IpNet) -> bool {
    match net {
        IpNet::V4(v4) => v4.network().is_loopback() || v4.contains(&Ipv4Addr::new(127, 0, 0, 0)),
        IpNet::V6(_) => false,
    }
}

#[cfg(test)]
mod tests;
