//! How far a Service is served, in a few numbers: for lists of all of them, where reasons would cost too much.
//!
//! Why it is so is the business of [`crate::Explainer`].

use std::collections::BTreeSet;

use ferrule_model::ServiceName;

use crate::FamilyPlan;

/// How far one Service is served in one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceSummary {
    /// Its ports.
    pub ports: usize,
    /// Those that have no endpoint anywhere that traffic could go to.
    pub ports_without_endpoints: usize,
    /// The endpoints, usable or not, of the port that has most.
    pub endpoints: usize,
}

impl FamilyPlan {
    /// How far a Service is served; `None` if it is not planned in this family.
    pub fn summary(&self, name: &ServiceName) -> Option<ServiceSummary> {
        let ports = &self.services.get(name)?.ports;
        Some(ServiceSummary {
            ports: ports.len(),
            ports_without_endpoints: ports.iter().filter(|port| !port.available.any).count(),
            endpoints: ports.iter().map(|port| port.endpoints).max().unwrap_or(0),
        })
    }

    /// The Services that claim an address or node port that another one has.
    pub fn conflicting(&self) -> BTreeSet<&ServiceName> {
        let losers = self.contested.values().flat_map(|claimants| claimants.iter().skip(1));
        losers.map(|claimant| &claimant.service).collect()
    }
}
