//! Endpoints → the cluster and local pools of a Service port, with the fallback to terminating endpoints.
//!
//! Decides *which endpoints*, never *who may use them*: that is [`crate::policy`].

use std::net::IpAddr;
use std::sync::Arc;

use ferrule_model::{IpFamily, PortEndpoint, Service, ServicePort};

use crate::topology::{Place, Topology};
use crate::{Pool, PoolEndpoint};

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

/// What of a port's endpoints its rules depend on: not which there are, but whether there are any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub any: bool,
    pub cluster: bool,
    pub local: bool,
}

impl Selection {
    pub(crate) fn facts(&self) -> Facts {
        Facts { any: self.any, cluster: self.cluster.is_some(), local: self.local.is_some() }
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
    pub(crate) fn of(service: &Service, port: &ServicePort, family: IpFamily) -> Self {
        Self {
            cluster: service.uses_cluster_endpoints(port, family),
            local: service.uses_local_endpoints(port, family),
            affinity_seconds: service.affinity_seconds,
        }
    }
}

/// Selects a port's endpoints out of its merged list. Cluster and local pool fall back to terminating endpoints
/// independently; hints restrict the cluster pool alone.
pub(crate) fn select(endpoints: &[PortEndpoint<'_>], needs: Needs, place: Place<'_>) -> Selection {
    let pool = |chosen: Vec<PoolEndpoint>| pool_of(chosen, needs.affinity_seconds);
    let cluster = needs.cluster.then(|| cluster_endpoints(endpoints, place)).and_then(pool);
    let local = needs.local.then(|| local_endpoints(endpoints)).and_then(pool);
    let any = cluster.is_some()
        || needs.local && endpoints.iter().any(|endpoint| is_usable(endpoint) || is_last_resort(endpoint));
    Selection { cluster, local, any }
}

/// UDP flows to these may live on: readiness and policies do not cut what exists.
pub(crate) fn serving(endpoints: &[PortEndpoint<'_>]) -> Box<[(IpAddr, u16)]> {
    let serving = endpoints.iter().filter(|endpoint| endpoint.conditions.serving);
    serving.map(|endpoint| (endpoint.ip, endpoint.port)).collect()
}

fn cluster_endpoints(endpoints: &[PortEndpoint<'_>], place: Place<'_>) -> Vec<PoolEndpoint> {
    let topology = Topology::of(endpoints, place);
    let ready = chosen(endpoints, |endpoint| is_usable(endpoint) && topology.admits(endpoint, place));
    if ready.is_empty() { chosen(endpoints, is_last_resort) } else { ready }
}

fn local_endpoints(endpoints: &[PortEndpoint<'_>]) -> Vec<PoolEndpoint> {
    let ready = chosen(endpoints, |endpoint| endpoint.is_local && is_usable(endpoint));
    if ready.is_empty() {
        chosen(endpoints, |endpoint| endpoint.is_local && is_last_resort(endpoint))
    } else {
        ready
    }
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
