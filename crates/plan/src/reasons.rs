//! Why the planner decided as it did, as plain data.
//!
//! The steps of planning hand each decision to a [`Reasons`] sink. [`NoReasons`] ignores them, which compiles to nothing;
//! [`crate::Explainer`] keeps them. So a reason is never worked out a second time. What they read like is in
//! `reasons/text.rs`.

mod text;

use std::net::{IpAddr, SocketAddr};

use ferrule_model::{PortEndpoint, ServiceName, Timestamp, TrafficPolicy};

use crate::ir::Claim;
use crate::{FrontendKey, PoolScope, Quirk};

/// Takes the reasons of the decisions about one Service port.
pub(crate) trait Reasons {
    /// Of two entries with one address and port, this one does not count.
    fn duplicate(&mut self, _loser: &PortEndpoint<'_>) {}

    /// The endpoints that count, in the order of the pools.
    fn endpoints(&mut self, _merged: &[PortEndpoint<'_>]) {}

    fn hints(&mut self, _decision: HintDecision) {}

    /// Whether each of the merged endpoints is in a pool, in their order.
    fn members(&mut self, _scope: PoolScope, _all: impl FnOnce() -> Vec<Membership>) {}

    /// The pool is part of the plan: it has endpoints, and a frontend forwards to it.
    fn pool_used(&mut self, _scope: PoolScope) {}

    fn claimed(&mut self, _claim: &Claim, _why: ShapeReason) {}

    fn not_claimed(&mut self, _unclaimed: UnclaimedFrontend) {}

    fn source_ranges_ignored(&mut self) {}
}

/// For planning, where no one asks.
pub(crate) struct NoReasons;

impl Reasons for NoReasons {}

/// Whether an endpoint is in a pool, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// Connections may go to it.
    In(Included),
    /// They may not.
    Out(Excluded),
}

/// Why an endpoint is in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Included {
    /// It is ready.
    Ready,
    /// It is terminating but still serving, and no endpoint that the pool admits is ready.
    LastResort,
}

/// Why an endpoint is not in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excluded {
    /// It is neither ready nor terminating while serving.
    NotReady,
    /// It is terminating and still serving, but others are ready.
    Terminating,
    /// Node hints are followed, and none of its own names this node.
    HintedForOtherNodes,
    /// Zone hints are followed, and none of its own names this node's zone.
    HintedForOtherZones,
    /// The local pool is for endpoints of this node.
    OnOtherNode,
    /// The policies of the Service leave the port no traffic that would use the pool.
    PoolNotNeeded,
    /// It qualifies, but no frontend of the port forwards to the pool.
    PoolUnused,
    /// Another entry with the same address and port counts.
    Duplicate,
    /// Its slice has no port of the Service port's name and protocol.
    NoSuchPort,
    /// The Service is not served in the endpoint's family.
    FamilyNotServed,
}

impl Membership {
    /// Whether connections may go to the endpoint.
    pub fn is_in(self) -> bool {
        match self {
            Self::In(_) => true,
            Self::Out(_) => false,
        }
    }
}

/// Which hints the cluster pool follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HintDecision {
    /// Hints that name nodes; they go before those that name zones.
    pub node: HintUse,
    /// Hints that name zones.
    pub zone: HintUse,
}

/// Whether hints of one kind are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintUse {
    /// Only endpoints hinted for this node, or its zone, are in the cluster pool.
    Followed,
    /// Node hints are followed already.
    NotAsked,
    /// They count for nothing.
    Ignored(HintsIgnored),
}

/// Why hints of one kind count for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintsIgnored {
    /// No endpoint is ready, and hints are about ready ones.
    NoReadyEndpoint,
    /// This endpoint is ready and has no such hint. All must have one.
    MissingOn(SocketAddr),
    /// This node has no zone.
    NodeWithoutZone,
    /// No endpoint is hinted for this node, or its zone.
    NoneForThisNode,
}

/// Why a frontend has its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeReason {
    /// No endpoint is ready, and none is serving while it terminates.
    NoUsableEndpoint,
    /// The policy of the Service says so, and there are endpoints to do it with.
    Policy(PolicyField, TrafficPolicy),
    /// The policy is `Local`, and all usable endpoints are on other nodes.
    NoLocalEndpoint(PolicyField),
    /// The policy is `Local` and this node has no endpoint; the mode uses all endpoints instead:
    /// [`Quirk::LocalFallsBackToCluster`].
    FellBackToCluster(PolicyField),
    /// The same, but the port has no cluster pool to fall back to.
    NoPoolToFallBackTo(PolicyField),
    /// The policy is `Local`, and the mode has one pool for each frontend: [`Quirk::OnePoolPerFrontend`].
    OnePool,
    /// The mode refuses ports of service addresses that no Service uses. The quirk says which addresses.
    UnusedPort(Quirk),
    /// A process forwards this NodePort on loopback addresses.
    LoopbackForwarded,
    /// NodePorts on loopback addresses are refused unless they are TCP and loopback is listed in `nodePortAddresses`.
    LoopbackRefused,
}

/// The field of a Service that has a traffic policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyField {
    /// `spec.internalTrafficPolicy`, about cluster IPs.
    Internal,
    /// `spec.externalTrafficPolicy`, about all other frontends.
    External,
}

/// An address or port of a Service that became no frontend of this Service port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnclaimedFrontend {
    /// The operator does not allow this external IP.
    ExternalIpRefused(IpAddr),
    /// The Service has it already, by another of its fields or ports.
    AlreadyClaimed(FrontendKey),
    /// A loopback NodePort that a process would forward, if the policy left it an endpoint.
    NothingToForward(FrontendKey),
}

/// Who has a frontend that a Service claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// No other Service claims it.
    OnlyClaimant,
    /// The Service itself; the others lost to it.
    Won {
        /// The other Services that claim it, in the order in which they would get it.
        over: Vec<ServiceName>,
    },
    /// Another Service.
    Lost {
        /// The one that has it.
        to: ServiceName,
        /// What decided.
        by: Precedence,
    },
}

/// What decides between two Services that claim one frontend, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precedence {
    /// A cluster IP, which the API server assigned to one Service alone, goes before an address that a user specified.
    ClusterIpFirst,
    /// The Service that was created first.
    OlderFirst {
        /// When the winner was created.
        winner: Timestamp,
        /// When the loser was created.
        loser: Timestamp,
    },
    /// Both have the same age; the name that sorts first.
    NameOrder,
}
