//! Waiting for this node's object at start, and what its later changes mean.
//!
//! A small state machine fed with what is seen and how long it took; it reads no clock. Unlike kube-proxy, which
//! exits when the node's addresses or pod blocks change, Ferrule takes the new ones over.

use std::net::IpAddr;
use std::time::Duration;

use ferrule_model::{Change, Node, NodeName};
use ipnet::IpNet;

use crate::settings::DetectLocal;

/// How long the node's addresses are waited for.
pub const ADDRESS_WAIT: Duration = Duration::from_secs(30);
/// How long the node's pod blocks are waited for after that, if they are needed.
pub const POD_CIDR_WAIT: Duration = Duration::from_mins(5);

/// What the proxy needs from the Node object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its addresses: the first, and the first of the other family.
    pub host_ips: Vec<IpAddr>,
    /// Its pod blocks.
    pub pod_cidrs: Vec<IpNet>,
}

impl NodeFacts {
    /// What a Node says.
    pub fn of(node: &Node) -> Self {
        Self { host_ips: node.host_ips.clone(), pod_cidrs: node.pod_cidrs.clone() }
    }

    /// What the last Node among some changes says; nothing if there is none.
    pub fn among(changes: &[Change]) -> Self {
        let mut nodes = changes.iter().rev().filter_map(|change| match change {
            Change::Node(Some(node)) => Some(node),
            _ => None,
        });
        nodes.next().map(Self::of).unwrap_or_default()
    }
}

/// How the wait stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeStart {
    /// Look again in a second.
    Wait,
    /// Go on with this; no addresses means that the node is unknown or has none, which deserves an error in the log.
    Ready(NodeFacts),
}

/// Why the wait was in vain.
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
    addresses_settled_at: Option<Duration>,
}

impl NodeWait {
    /// Starts waiting; pod blocks are needed only where they tell local traffic.
    pub fn new(name: NodeName, mode: &DetectLocal) -> Self {
        Self { name, needs_pod_cidrs: *mode == DetectLocal::NodeCidr, addresses_settled_at: None }
    }

    /// Takes in what is seen after this much waiting.
    pub fn look(&mut self, waited: Duration, node: Option<&Node>) -> Result<NodeStart, NodeStartError> {
        let facts = node.map(NodeFacts::of).unwrap_or_default();
        if self.addresses_settled_at.is_none() && facts.host_ips.is_empty() && waited < ADDRESS_WAIT {
            return Ok(NodeStart::Wait);
        }
        let settled_at = *self.addresses_settled_at.get_or_insert(waited);
        if !self.needs_pod_cidrs || !facts.pod_cidrs.is_empty() {
            return Ok(NodeStart::Ready(facts));
        }
        if waited < settled_at + POD_CIDR_WAIT {
            return Ok(NodeStart::Wait);
        }
        Err(match node {
            Some(_) => NodeStartError::NoPodCidr(self.name.clone()),
            None => NodeStartError::NeverAppeared(self.name.clone()),
        })
    }
}

/// What a later event about the Node object asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeReaction {
    /// Nothing that matters changed.
    Nothing,
    /// New addresses or, where they matter, new pod blocks: plan with these from now on.
    Adopt(NodeFacts),
    /// The object is gone: go on with what is known.
    KeepServing,
}

/// Compares what is known with what an event says; `None` is a deletion.
pub fn react(known: &NodeFacts, node: Option<&Node>, mode: &DetectLocal) -> NodeReaction {
    let Some(node) = node else { return NodeReaction::KeepServing };
    let new = NodeFacts::of(node);
    let pod_cidrs_matter = *mode == DetectLocal::NodeCidr;
    let changed = new.host_ips != known.host_ips || pod_cidrs_matter && new.pod_cidrs != known.pod_cidrs;
    if changed { NodeReaction::Adopt(new) } else { NodeReaction::Nothing }
}

#[cfg(test)]
mod tests;
