//! `nodePortAddresses` on this node: keywords expanded, one object per family.

use ferrule_model::{IpFamily, NodeIps, NodePortAddresses, NodePortSelector, expand};
use ipnet::IpNet;

/// The blocks that accept NodePorts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePorts {
    /// All blocks, expanded in place; empty means everything. The sanity checks use this list.
    pub blocks: Vec<IpNet>,
    /// For IPv4.
    pub v4: NodePortAddresses,
    /// For IPv6.
    pub v6: NodePortAddresses,
}

/// Expands the configured list for a node with these addresses.
pub fn node_ports(selectors: &[NodePortSelector], node: &NodeIps) -> NodePorts {
    let blocks = expand(selectors, node);
    let v4 = NodePortAddresses::new(IpFamily::V4, &blocks);
    let v6 = NodePortAddresses::new(IpFamily::V6, &blocks);
    NodePorts { blocks, v4, v6 }
}
