//! What differs between the plan before a change and the plan after it.
//!
//! Carries the old values, so that a backend can work out which kernel objects to remove without keeping a second plan.
//! A frontend whose pool changed is in it as well, for backends that write the endpoints into the frontend.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ferrule_model::{ServiceName, ServicePortName};

use crate::ir::{Claim, PortPlan};
use crate::{FamilyPlan, Frontend, FrontendKey, HealthCheck, Pool, PoolId, PoolScope};

/// The differences of one family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanDelta {
    /// Whether what holds for the whole node changed.
    pub node: bool,
    /// Frontends that are new, gone, changed, or forward to a pool that changed.
    pub frontends: BTreeMap<FrontendKey, Replaced<Arc<Frontend>>>,
    /// Pools that are new, gone or changed.
    pub pools: BTreeMap<PoolId, Replaced<Arc<Pool>>>,
    /// Health checks that are new, gone or changed.
    pub health_checks: BTreeMap<ServiceName, Replaced<HealthCheck>>,
    /// Ports whose endpoints on this node changed, usable or not, where the mode asks: see [`PlannedPort::hairpins`](crate::PlannedPort::hairpins).
    pub hairpins: BTreeMap<ServicePortName, Replaced<LocalEndpoints>>,
    /// Services whose session affinity or external policy changed, which a frontend without endpoints does not show. Their
    /// frontends are in it as well.
    pub policies: BTreeSet<ServiceName>,
    /// UDP ports some of whose existing flows may have become stale.
    pub stale_flows: Vec<ServicePortName>,
}

/// Endpoints of one port on this node.
pub type LocalEndpoints = Box<[(IpAddr, u16)]>;

/// A value before and after; `None` where there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced<T> {
    /// Before.
    pub was: Option<T>,
    /// After.
    pub now: Option<T>,
}

impl PlanDelta {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        !self.node
            && self.frontends.is_empty()
            && self.pools.is_empty()
            && self.health_checks.is_empty()
            && self.hairpins.is_empty()
            && self.policies.is_empty()
            && self.stale_flows.is_empty()
    }

    pub(crate) fn note_frontend(
        &mut self,
        key: FrontendKey,
        was: Option<Arc<Frontend>>,
        now: Option<Arc<Frontend>>,
    ) {
        match self.frontends.get_mut(&key) {
            Some(noted) => noted.now = now,
            None => drop(self.frontends.insert(key, Replaced { was, now })),
        }
    }

    /// Notes the pools of one port that differ.
    pub(crate) fn note_pools(&mut self, was: Option<&PortPlan>, now: Option<&PortPlan>) {
        let Some(owner) = now.or(was).map(|port| &port.owner) else { return };
        for scope in [PoolScope::Cluster, PoolScope::Local] {
            let was = was.and_then(|port| port.pool(scope));
            let now = now.and_then(|port| port.pool(scope));
            if was != now {
                let id = PoolId { owner: owner.clone(), scope };
                self.pools.insert(id, Replaced { was: was.cloned(), now: now.cloned() });
            }
        }
    }

    /// Notes a port whose endpoints on this node differ.
    pub(crate) fn note_hairpins(&mut self, was: Option<&PortPlan>, now: Option<&PortPlan>) {
        let Some(owner) = now.or(was).map(|port| &port.owner) else { return };
        let hairpins = |port: Option<&PortPlan>| {
            port.map(|port| port.hairpins.clone()).filter(|hairpins| !hairpins.is_empty())
        };
        let (was, now) = (hairpins(was), hairpins(now));
        if was != now {
            self.hairpins.insert(owner.clone(), Replaced { was, now });
        }
    }

    pub(crate) fn note_health_check(
        &mut self,
        name: &ServiceName,
        was: Option<HealthCheck>,
        now: Option<HealthCheck>,
    ) {
        if was != now {
            self.health_checks.insert(name.clone(), Replaced { was, now });
        }
    }

    /// Notes a UDP port whose serving endpoints or frontends differ.
    pub(crate) fn note_stale_flows(&mut self, was: Option<&PortPlan>, now: Option<&PortPlan>) {
        let serves = |port: Option<&PortPlan>| port.is_some_and(|port| !port.serving.is_empty());
        let Some(port) = now.or(was).filter(|port| port.owner.protocol == ferrule_model::Protocol::Udp)
        else {
            return;
        };
        let same = was.map(|port| (&port.serving, keys(port))) == now.map(|port| (&port.serving, keys(port)));
        if !same && (serves(was) || serves(now)) {
            self.stale_flows.push(port.owner.clone());
        }
    }

    /// Drops what ended up as it was, then adds the frontends of changed pools.
    pub(crate) fn complete(&mut self, plan: &FamilyPlan) {
        self.frontends.retain(|_, replaced| replaced.was != replaced.now);
        let owners = self.pools.keys().map(|id| (&id.owner, id.scope));
        let mut touched = Vec::new();
        for (owner, scope) in owners {
            let port = plan.services.get(&owner.service).and_then(|service| service.port(owner));
            let claims = port.into_iter().flat_map(|port| port.claims.iter());
            touched.extend(claims.filter(|claim| claim.uses.has(scope)));
        }
        for service in self.policies.iter().filter_map(|name| plan.services.get(name)) {
            touched.extend(service.ports.iter().flat_map(|port| port.claims.iter()));
        }
        for Claim { key, frontend, .. } in touched {
            if plan.holds(key, &frontend.owner.service) {
                let same = || Some(Arc::clone(frontend));
                self.frontends.entry(*key).or_insert_with(|| Replaced { was: same(), now: same() });
            }
        }
        self.stale_flows.sort_unstable();
        self.stale_flows.dedup();
    }
}

fn keys(port: &PortPlan) -> Vec<FrontendKey> {
    port.claims.iter().map(|claim| claim.key).collect()
}
