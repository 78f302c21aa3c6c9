//! What a load balancer's health check is told about a Service: how many endpoints on this node are ready.
//!
//! Counts addresses over all ports the slices name, also ones the Service does not have, as kube-proxy does.
//! Whether the proxy itself is healthy is added by the server that answers.

use std::collections::BTreeSet;

use ferrule_model::{IpFamily, ServiceState, merged};

use crate::HealthCheck;

/// The answer for one Service, if it has a health check port.
pub(crate) fn health_check(state: &ServiceState, family: IpFamily) -> Option<HealthCheck> {
    let port = state.service()?.health_check_port?;
    let ports: BTreeSet<_> =
        state.slices(family).flat_map(|slice| &slice.ports).map(|port| (&port.name, port.protocol)).collect();
    let ready_here: BTreeSet<_> = ports
        .into_iter()
        .flat_map(|(name, protocol)| merged(state.slices(family), name, protocol))
        .filter(|endpoint| endpoint.is_local && endpoint.conditions.ready)
        .map(|endpoint| endpoint.ip)
        .collect();
    Some(HealthCheck { port, local_endpoints: ready_here.len() })
}
