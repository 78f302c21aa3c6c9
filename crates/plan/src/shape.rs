//! How a frontend treats traffic: refuse it, send it to one pool, or short-circuit part of it past policy `Local`.
//!
//! This is the form backends compile. Every shape can be compiled, and there is nothing beside it but what holds for the
//! whole node ([`NodeTraffic`]) and a load balancer's source ranges ([`FrontendKind::LoadBalancer`]).
//! As a list in which the first match wins it is read with [`Frontend::rules`].

use std::sync::Arc;

use ferrule_model::Protocol;
use ipnet::IpNet;

use crate::rules::{Rules, TrafficSource, Verdict};
use crate::{Frontend, FrontendKey, FrontendKind, NodeTraffic, PoolScope, Quirk};

/// What a frontend does with packets whose source its ranges admit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Nothing is forwarded.
    Refuse(Refusal),
    /// All traffic goes to one pool.
    OnePool {
        /// Which of the owner's pools.
        pool: PoolScope,
        /// Whose source address is replaced.
        masquerade: Masquerade,
    },
    /// Policy `Local`, which is about traffic from outside. Local pods, if they can be recognized, go to the cluster pool with
    /// their own address; this host goes there masqueraded.
    ShortCircuit {
        /// What everyone else gets. Their source address is kept.
        outsiders: Outsiders,
    },
}

/// How a packet is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Discarded without an answer.
    Drop,
    /// Answered with an ICMP error or a TCP reset.
    Reject,
}

/// When the endpoint sees an address of this node in place of the client's. An endpoint that gets its own packet back
/// always does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Masquerade {
    /// As the node is configured for cluster IPs: always with `masqueradeAll`, otherwise for all but local pods, never if
    /// local pods cannot be recognized.
    AsClusterIps,
    /// For every client.
    Always,
    /// For no client.
    Never,
}

/// What policy `Local` leaves for traffic from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outsiders {
    /// The endpoints of this node.
    LocalPool,
    /// Nothing: this node has no endpoint, and another one must answer.
    Dropped,
}

impl Shape {
    /// Whether some traffic is forwarded to a pool.
    pub fn uses_pool(self, scope: PoolScope) -> bool {
        match self {
            Self::Refuse(_) => false,
            Self::OnePool { pool, .. } => pool == scope,
            Self::ShortCircuit { outsiders } => match scope {
                PoolScope::Cluster => true,
                PoolScope::Local => outsiders == Outsiders::LocalPool,
            },
        }
    }

    /// How traffic from outside is refused, unless it is forwarded.
    pub fn refusal(self) -> Option<Refusal> {
        match self {
            Self::Refuse(refusal) => Some(refusal),
            Self::ShortCircuit { outsiders: Outsiders::Dropped } => Some(Refusal::Drop),
            Self::OnePool { .. } | Self::ShortCircuit { outsiders: Outsiders::LocalPool } => None,
        }
    }

    fn rules(self, node: &NodeTraffic) -> Rules {
        match self {
            Self::Refuse(refusal) => Rules::anyone(refusal.into()),
            Self::OnePool { pool, masquerade } => one_pool(pool, masquerade, node),
            Self::ShortCircuit { outsiders } => {
                let cluster = |masquerade| Verdict::Forward { pool: PoolScope::Cluster, masquerade };
                let pods = node.local_pods.iter().map(|_| (TrafficSource::LocalPods, cluster(false)));
                let host = (TrafficSource::ThisHost, cluster(true));
                Rules::new(pods.chain([host]).collect(), outsiders.into())
            }
        }
    }
}

fn one_pool(pool: PoolScope, masquerade: Masquerade, node: &NodeTraffic) -> Rules {
    let forward = |masquerade| Verdict::Forward { pool, masquerade };
    match masquerade {
        Masquerade::Always => Rules::anyone(forward(true)),
        Masquerade::AsClusterIps if node.masquerade_all => Rules::anyone(forward(true)),
        Masquerade::AsClusterIps if node.local_pods.is_some() => {
            Rules::new(vec![(TrafficSource::LocalPods, forward(false))], forward(true))
        }
        Masquerade::AsClusterIps | Masquerade::Never => Rules::anyone(forward(false)),
    }
}

impl From<Refusal> for Verdict {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Drop => Self::Drop,
            Refusal::Reject => Self::Reject,
        }
    }
}

impl From<Outsiders> for Verdict {
    fn from(outsiders: Outsiders) -> Self {
        match outsiders {
            Outsiders::LocalPool => Self::Forward { pool: PoolScope::Local, masquerade: false },
            Outsiders::Dropped => Self::Drop,
        }
    }
}

impl Frontend {
    /// Who may use it how: the shape, the ranges and the node's settings as one list.
    pub fn rules(&self, key: &FrontendKey, node: &NodeTraffic) -> Rules {
        let rules = self.rules_in_kernel(key, node);
        if !node.quirks.has(Quirk::RelayedByProcess) {
            return rules;
        }
        let rules = rules.map(|verdict| relayed(verdict, self.owner.protocol));
        if self.is_left_to_network(key, node) {
            return rules.preceded_by(TrafficSource::ThisHost, Verdict::Pass);
        }
        rules
    }

    /// Whether the host's own packets leave the node: see [`Quirk::HostBypassesExternalIps`].
    fn is_left_to_network(&self, key: &FrontendKey, node: &NodeTraffic) -> bool {
        let is_external = match self.kind {
            FrontendKind::ExternalIp => true,
            FrontendKind::LoadBalancer { .. } | FrontendKind::ClusterIp | FrontendKind::NodePort => false,
        };
        is_external && is_elsewhere(key, node) && node.quirks.has(Quirk::HostBypassesExternalIps)
    }

    fn rules_in_kernel(&self, key: &FrontendKey, node: &NodeTraffic) -> Rules {
        let rules = match self.shape {
            Shape::Refuse(refusal) if self.is_bypassed_by_host(key, node) => {
                Rules::new(vec![(TrafficSource::ThisHost, Verdict::Pass)], refusal.into())
            }
            Shape::Refuse(_) | Shape::OnePool { .. } | Shape::ShortCircuit { .. } => self.shape.rules(node),
        };
        let Some(ranges) = self.source_ranges() else { return rules };
        let rules = rules.preceded_by(TrafficSource::OutsideRanges(Arc::clone(ranges)), Verdict::Drop);
        match self.shape {
            Shape::Refuse(refusal) if node.quirks.has(Quirk::HostRefusedBeforeRanges) => {
                rules.preceded_by(TrafficSource::ThisHost, refusal.into())
            }
            Shape::Refuse(_) | Shape::OnePool { .. } | Shape::ShortCircuit { .. } => rules,
        }
    }

    /// The blocks whose sources may use it, if not everyone may.
    pub fn source_ranges(&self) -> Option<&Arc<[IpNet]>> {
        match &self.kind {
            FrontendKind::LoadBalancer { source_ranges, .. } => source_ranges.as_ref(),
            FrontendKind::ClusterIp | FrontendKind::ExternalIp | FrontendKind::NodePort => None,
        }
    }

    /// Whether the host's own packets pass a refusal: see [`Quirk::HostBypassesExternalRefusals`].
    fn is_bypassed_by_host(&self, key: &FrontendKey, node: &NodeTraffic) -> bool {
        let is_external = match self.kind {
            FrontendKind::LoadBalancer { .. } | FrontendKind::ExternalIp => true,
            FrontendKind::ClusterIp | FrontendKind::NodePort => false,
        };
        is_external && is_elsewhere(key, node) && node.quirks.has(Quirk::HostBypassesExternalRefusals)
    }
}

/// Whether it is an address that is not the node's own.
fn is_elsewhere(key: &FrontendKey, node: &NodeTraffic) -> bool {
    match key {
        FrontendKey::Address(ip, ..) => !node.host_addresses.contains(ip),
        FrontendKey::UnmatchedPorts(_) | FrontendKey::NodePort(..) | FrontendKey::LoopbackNodePort(..) => {
            false
        }
    }
}

/// What a process that relays makes of a verdict.
fn relayed(verdict: Verdict, protocol: Protocol) -> Verdict {
    match (verdict, protocol) {
        (Verdict::Pass, _) | (_, Protocol::Sctp) => Verdict::Pass,
        (Verdict::Forward { pool, .. }, Protocol::Tcp | Protocol::Udp) => {
            Verdict::Forward { pool, masquerade: true }
        }
        (Verdict::Drop | Verdict::Reject, Protocol::Tcp) => Verdict::Reject,
        (Verdict::Drop | Verdict::Reject, Protocol::Udp) => Verdict::Drop,
    }
}

#[cfg(test)]
mod tests;
