//! The answer to a load balancer's health check of a Service: how many endpoints on this node are ready.
//!
//! Counts addresses over all ports the slices name, also ones the Service does not have, as kube-proxy does.
//! Whether the proxy itself is healthy is added by the server that answers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ferrule_model::{Endpoint, EndpointSlice, IpFamily, ServiceState, SlicePort};

use crate::HealthCheck;

/// An endpoint with the slice it stands in.
type Entry<'a> = (&'a EndpointSlice, &'a Endpoint);

/// The answer for one Service, if it has a health check port.
pub(crate) fn health_check(state: &ServiceState, family: IpFamily) -> Option<HealthCheck> {
    let port = state.service()?.health_check_port?;
    let mut entries: BTreeMap<IpAddr, Vec<Entry<'_>>> = BTreeMap::new();
    for slice in state.slices(family).filter(|slice| !slice.ports.is_empty()) {
        for endpoint in &slice.endpoints {
            entries.entry(endpoint.ip).or_default().push((slice, endpoint));
        }
    }
    let local_endpoints = entries.values().filter(|entries| counts(entries)).count();
    Some(HealthCheck { port, local_endpoints })
}

/// Whether an address is ready on this node for some port, after duplicates across slices are resolved.
fn counts(entries: &[Entry<'_>]) -> bool {
    if !entries.iter().any(|(_, endpoint)| is_ready_here(endpoint)) {
        return false;
    }
    let [(_, _)] = entries else {
        let ports: BTreeSet<&SlicePort> = entries.iter().flat_map(|(slice, _)| &slice.ports).collect();
        return ports.into_iter().any(|port| effective_entry(entries, port).is_some_and(is_ready_here));
    };
    true
}

/// The entry that counts for a port: the last one that is not terminating, or else the first.
fn effective_entry<'a>(entries: &[Entry<'a>], port: &SlicePort) -> Option<&'a Endpoint> {
    let mut of_port = entries.iter().filter(|(slice, _)| slice.ports.binary_search(port).is_ok());
    let first = of_port.clone().next();
    let lasting = of_port.rfind(|(_, endpoint)| !endpoint.conditions.terminating);
    lasting.or(first).map(|(_, endpoint)| *endpoint)
}

fn is_ready_here(endpoint: &Endpoint) -> bool {
    endpoint.is_local && endpoint.conditions.ready
}
