//! Endpoints → the cluster and local pools of a Service port, with the fallback to terminating endpoints.
//!
//! Decides *which endpoints*, never *who may use them*: that is [`crate::policy`].

use std::net::IpAddr;
use std::sync::Arc;

use ferrule_model::{IpFamily, PortEndpoint, Service, ServicePort};

use crate::reasons::Reasons;
use crate::topology::{NodeLocation, Topology};
use crate::{Excluded, HintDecision, Included, Membership, Pool, PoolEndpoint, PoolScope};

/// The endpoints a Service port may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    /// For traffic without a restriction; `None` if there is none, or the port has no such traffic.
    pub cluster: Option<Arc<Pool>>,
    /// For traffic that must stay on this node; `None` if there is none, or the port has no such traffic.
    pub local: Option<Arc<Pool>>,
    /// Whether any endpoint anywhere could serve, reachable from here or not.
    pub any: bool,
}

/// What of a port's endpoints its frontends depend on: not which there are, but whether there are any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Availability {
    /// Anywhere in the cluster.
    pub any: bool,
    /// In the cluster pool.
    pub cluster: bool,
    /// In the local pool.
    pub local: bool,
}

impl Selection {
    pub(crate) fn availability(&self) -> Availability {
        Availability { any: self.any, cluster: self.cluster.is_some(), local: self.local.is_some() }
    }
}

/// Which pools a port's traffic can need at all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    cluster: bool,
    local: bool,
    affinity_seconds: Option<u32>,
}

impl Needs {
    pub(crate) fn new(service: &Service, port: &ServicePort, family: IpFamily) -> Self {
        Self {
            cluster: service.uses_cluster_endpoints(port, family),
            local: service.uses_local_endpoints(port, family),
            affinity_seconds: service.affinity_seconds,
        }
    }
}

/// Selects a port's endpoints out of its merged list. Cluster and local pool fall back to terminating endpoints
/// independently; hints restrict the cluster pool alone.
pub(crate) fn select(
    endpoints: &[PortEndpoint<'_>],
    needs: Needs,
    location: NodeLocation<'_>,
    reasons: &mut impl Reasons,
) -> Selection {
    let pool = |chosen: Vec<PoolEndpoint>| pool_of(chosen, needs.affinity_seconds);
    let cluster = needs.cluster.then(|| cluster_endpoints(endpoints, location, reasons)).and_then(pool);
    let local = needs.local.then(|| local_endpoints(endpoints, reasons)).and_then(pool);
    let any = cluster.is_some()
        || needs.local && endpoints.iter().any(|endpoint| is_usable(endpoint) || is_last_resort(endpoint));
    Selection { cluster, local, any }
}

/// UDP flows to these may live on: readiness and policies do not cut what exists.
pub(crate) fn serving(endpoints: &[PortEndpoint<'_>]) -> Box<[(IpAddr, u16)]> {
    let serving = endpoints.iter().filter(|endpoint| endpoint.conditions.serving);
    serving.map(|endpoint| (endpoint.ip, endpoint.port)).collect()
}

/// The endpoints on this node, usable or not.
pub(crate) fn on_this_node(endpoints: &[PortEndpoint<'_>]) -> Box<[(IpAddr, u16)]> {
    let local = endpoints.iter().filter(|endpoint| endpoint.is_local);
    local.map(|endpoint| (endpoint.ip, endpoint.port)).collect()
}

/// Which endpoints a pool takes: the ready ones, or else those that terminate but still serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    Ready,
    LastResort,
}

fn cluster_endpoints(
    endpoints: &[PortEndpoint<'_>],
    location: NodeLocation<'_>,
    reasons: &mut impl Reasons,
) -> Vec<PoolEndpoint> {
    let hints = HintDecision::new(endpoints, location);
    let topology = hints.topology();
    reasons.hints(hints);
    let membership =
        |endpoint: &PortEndpoint<'_>, round| in_cluster_pool(endpoint, round, topology, location);
    members(endpoints, PoolScope::Cluster, membership, reasons)
}

fn in_cluster_pool(
    endpoint: &PortEndpoint<'_>,
    round: Round,
    topology: Topology,
    location: NodeLocation<'_>,
) -> Membership {
    // Hints hold for ready endpoints only.
    match round {
        Round::Ready if is_usable(endpoint) => {
            topology.excludes(endpoint, location).map_or(Membership::In(Included::Ready), Membership::Out)
        }
        Round::Ready | Round::LastResort => by_condition(endpoint, round),
    }
}

fn local_endpoints(endpoints: &[PortEndpoint<'_>], reasons: &mut impl Reasons) -> Vec<PoolEndpoint> {
    let membership = |endpoint: &PortEndpoint<'_>, round| {
        if endpoint.is_local { by_condition(endpoint, round) } else { Membership::Out(Excluded::OnOtherNode) }
    };
    members(endpoints, PoolScope::Local, membership, reasons)
}

/// Whether an endpoint's own conditions admit it.
fn by_condition(endpoint: &PortEndpoint<'_>, round: Round) -> Membership {
    match round {
        Round::Ready if is_usable(endpoint) => Membership::In(Included::Ready),
        Round::Ready if is_last_resort(endpoint) => Membership::Out(Excluded::Terminating),
        Round::LastResort if is_last_resort(endpoint) => Membership::In(Included::LastResort),
        Round::Ready | Round::LastResort => Membership::Out(Excluded::NotReady),
    }
}

/// The members of the first round that has any.
fn members(
    endpoints: &[PortEndpoint<'_>],
    scope: PoolScope,
    membership: impl Fn(&PortEndpoint<'_>, Round) -> Membership,
    reasons: &mut impl Reasons,
) -> Vec<PoolEndpoint> {
    let chosen_in = |round| chosen(endpoints, |endpoint| membership(endpoint, round).is_in());
    let (mut round, mut members) = (Round::Ready, chosen_in(Round::Ready));
    if members.is_empty() {
        (round, members) = (Round::LastResort, chosen_in(Round::LastResort));
    }
    reasons
        .members(scope, || endpoints.iter().map(|endpoint| membership(endpoint, round)).collect::<Vec<_>>());
    members
}

fn chosen(endpoints: &[PortEndpoint<'_>], wanted: impl Fn(&PortEndpoint<'_>) -> bool) -> Vec<PoolEndpoint> {
    let mut chosen = Vec::with_capacity(endpoints.len());
    chosen.extend(endpoints.iter().filter(|endpoint| wanted(endpoint)).map(|endpoint| PoolEndpoint {
        ip: endpoint.ip,
        port: endpoint.port,
        is_local: endpoint.is_local,
    }));
    chosen
}

fn pool_of(endpoints: Vec<PoolEndpoint>, affinity_seconds: Option<u32>) -> Option<Arc<Pool>> {
    let endpoints = endpoints.into_boxed_slice();
    (!endpoints.is_empty()).then(|| Arc::new(Pool { endpoints, affinity_seconds }))
}

fn is_usable(endpoint: &PortEndpoint<'_>) -> bool {
    endpoint.conditions.ready
}

fn is_last_resort(endpoint: &PortEndpoint<'_>) -> bool {
    endpoint.conditions.is_serving_and_terminating()
}

#[cfg(test)]
mod tests;
