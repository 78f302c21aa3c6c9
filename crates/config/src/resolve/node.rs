//! Waiting for this node's object at start.
//!
//! A small state machine fed with what is seen and how long it took; it reads no clock. What later changes of the Node
//! mean is decided in `ferrule_model::Cluster`: unlike kube-proxy, which exits when the node's addresses or pod blocks
//! change, Ferrule adopts the new ones.

use std::net::IpAddr;
use std::time::Duration;

use ferrule_model::{Node, NodeName};
use ipnet::IpNet;

use crate::settings::DetectLocal;

/// How long the node's addresses are waited for.
const ADDRESS_WAIT: Duration = Duration::from_secs(30);
/// How long the node's pod blocks are waited for after that, if they are needed.
const POD_CIDR_WAIT: Duration = Duration::from_mins(5);

/// What the start of the proxy waits for in the Node object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeAddresses {
    /// Its addresses: the first, and the first of the other family.
    pub host_ips: Vec<IpAddr>,
    /// Its pod blocks.
    pub pod_cidrs: Vec<IpNet>,
}

impl NodeAddresses {
    /// Those of a Node.
    pub fn from_node(node: &Node) -> Self {
        Self { host_ips: node.host_ips.clone(), pod_cidrs: node.pod_cidrs.clone() }
    }
}

/// Whether the start may go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeStart {
    /// Not yet; ask again in a second.
    Wait,
    /// Go on with this; no addresses means that the node is unknown or has none, which deserves an error in the log.
    Ready(NodeAddresses),
}

/// Why the start fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeStartError {
    /// The Node object never came.
    #[error("node {0} never appeared; is the node name right?")]
    NeverAppeared(NodeName),
    /// It came without pod blocks.
    #[error("node {0} got no PodCIDR; does the controller manager allocate them?")]
    NoPodCidr(NodeName),
}

/// The wait for the Node object.
#[derive(Clone, Debug)]
pub struct NodeWait {
    name: NodeName,
    needs_pod_cidrs: bool,
    addresses_final_at: Option<Duration>,
}

impl NodeWait {
    /// Starts waiting. Pod blocks are needed only if local traffic is detected by them.
    pub fn new(name: NodeName, mode: &DetectLocal) -> Self {
        Self { name, needs_pod_cidrs: *mode == DetectLocal::NodeCidr, addresses_final_at: None }
    }

    /// Takes in the Node as it is after this much waiting.
    pub fn observe(&mut self, waited: Duration, node: Option<&Node>) -> Result<NodeStart, NodeStartError> {
        let addresses = node.map(NodeAddresses::from_node).unwrap_or_default();
        if self.addresses_final_at.is_none() && addresses.host_ips.is_empty() && waited < ADDRESS_WAIT {
            return Ok(NodeStart::Wait);
        }
        let final_at = *self.addresses_final_at.get_or_insert(waited);
        if !self.needs_pod_cidrs || !addresses.pod_cidrs.is_empty() {
            return Ok(NodeStart::Ready(addresses));
        }
        if waited < final_at + POD_CIDR_WAIT {
            return Ok(NodeStart::Wait);
        }
        Err(match node {
            Some(_) => NodeStartError::NoPodCidr(self.name.clone()),
            None => NodeStartError::NeverAppeared(self.name.clone()),
        })
    }
}

#[cfg(test)]
mod tests;
