//! A plan by Service port, for backends whose objects belong to ports rather than to addresses.

use std::net::IpAddr;
use std::sync::Arc;

use ferrule_model::{ServiceName, ServicePortName, TrafficPolicy};

use crate::ir::{PortPlan, ServicePlan};
use crate::{FamilyPlan, Frontend, FrontendKey, Pool, PoolScope};

/// One Service port of a plan.
#[derive(Clone, Copy, Debug)]
pub struct PlannedPort<'a> {
    plan: &'a FamilyPlan,
    service: &'a ServicePlan,
    port: &'a PortPlan,
}

/// A frontend a Service port asks for.
#[derive(Clone, Copy, Debug)]
pub struct PlannedFrontend<'a> {
    /// The address or port.
    pub key: FrontendKey,
    /// What it would be.
    pub frontend: &'a Arc<Frontend>,
    /// Whether this port has it, and not another Service that asks for the same.
    pub is_held: bool,
}

impl<'a> PlannedPort<'a> {
    /// Whose it is.
    pub fn owner(&self) -> &'a ServicePortName {
        &self.port.owner
    }

    /// One of its pools, if there is any endpoint in it.
    pub fn pool(&self, scope: PoolScope) -> Option<&'a Arc<Pool>> {
        self.port.pool(scope)
    }

    /// The frontends it asks for.
    pub fn frontends(&self) -> impl Iterator<Item = PlannedFrontend<'a>> {
        let (plan, owner) = (self.plan, &self.port.owner);
        self.port.claims.iter().map(|claim| PlannedFrontend {
            key: claim.key,
            frontend: &claim.frontend,
            is_held: plan.frontend(&claim.key).is_some_and(|frontend| frontend.owner == *owner),
        })
    }

    /// Its endpoints on this node, usable or not, if the mode masquerades what each of them sends to itself.
    pub fn hairpins(&self) -> &'a [(IpAddr, u16)] {
        &self.port.hairpins
    }

    /// How long a client stays with its endpoint, if it does, whether there is an endpoint or not.
    pub fn affinity_seconds(&self) -> Option<u32> {
        self.service.service.affinity_seconds
    }

    /// The policy for traffic from outside, whether there is an endpoint or not.
    pub fn external_policy(&self) -> TrafficPolicy {
        self.service.service.external_policy
    }

    /// The port on which a load balancer asks after its Service, if it does.
    pub fn health_check_port(&self) -> Option<u16> {
        self.service.health_check.map(|check| check.port)
    }
}

impl FamilyPlan {
    /// One Service port.
    pub fn port(&self, owner: &ServicePortName) -> Option<PlannedPort<'_>> {
        let service = self.services.get(&owner.service)?;
        Some(PlannedPort { plan: self, service, port: service.port(owner)? })
    }

    /// All ports of one Service.
    pub fn ports_of(&self, name: &ServiceName) -> impl Iterator<Item = PlannedPort<'_>> {
        let service = self.services.get(name);
        service.into_iter().flat_map(move |service| {
            service.ports.iter().map(move |port| PlannedPort { plan: self, service, port })
        })
    }

    /// All Service ports, in no order.
    pub fn ports(&self) -> impl Iterator<Item = PlannedPort<'_>> {
        self.services.values().flat_map(move |service| {
            service.ports.iter().map(move |port| PlannedPort { plan: self, service, port })
        })
    }

    /// How many endpoints all Service ports have, usable or not.
    pub fn endpoint_count(&self) -> usize {
        self.services.values().flat_map(|service| &service.ports).map(|port| port.endpoints).sum()
    }
}
