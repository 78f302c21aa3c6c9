//! Which existing UDP flows are stale under a plan and must be forgotten by the kernel.
//!
//! TCP and SCTP are never touched. Readiness, locality and policies do not matter: a flow lives as long as its endpoint
//! serves. Finding and deleting the flows is the kernel crate's work.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ferrule_model::{Protocol, ServicePortName};

use crate::{FamilyPlan, Frontend, FrontendKey, PlanDelta};

/// A conntrack entry, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// Its protocol.
    pub protocol: Protocol,
    /// Where the client sent its packets.
    pub to: SocketAddr,
    /// Who answers: the endpoint, or `to` itself if the packets were not redirected.
    pub answered_by: SocketAddr,
}

/// Judges flows under one plan.
#[derive(Clone, Debug)]
pub struct StaleFlows<'a> {
    plan: &'a FamilyPlan,
    /// UDP frontends the last change took away; flows redirected by them have nothing to stand on.
    gone: BTreeMap<FrontendKey, &'a Arc<Frontend>>,
}

impl<'a> StaleFlows<'a> {
    /// Flows that the plan itself rules out.
    pub fn under(plan: &'a FamilyPlan) -> Self {
        Self { plan, gone: BTreeMap::new() }
    }

    /// Also flows of frontends that a change removed: a deleted Service, a withdrawn address.
    #[must_use]
    pub fn after(mut self, delta: &'a PlanDelta) -> Self {
        let gone = delta.frontends.iter().filter(|(_, replaced)| replaced.now.is_none());
        self.gone.extend(gone.filter_map(|(key, replaced)| Some((*key, replaced.was.as_ref()?))));
        self
    }

    /// Whether a flow must go.
    pub fn contains(&self, flow: &Flow) -> bool {
        if flow.protocol != Protocol::Udp {
            return false;
        }
        let address = FrontendKey::Address(flow.to.ip(), Protocol::Udp, flow.to.port());
        let node_port = FrontendKey::NodePort(Protocol::Udp, flow.to.port());
        self.is_stale_by_address(&address, flow)
            || self.was_redirected_by_gone(&address, flow)
            || self.is_of_this_host(flow.to.ip())
                && (self.is_stale_by_node_port(&node_port, flow)
                    || self.was_redirected_by_gone(&node_port, flow))
    }

    /// A Service address without serving endpoints has no flow that may stay.
    fn is_stale_by_address(&self, key: &FrontendKey, flow: &Flow) -> bool {
        let serving = self.plan.frontend(key).and_then(|frontend| self.serving(&frontend.owner));
        serving.is_some_and(|serving| !is_among(serving, flow.answered_by))
    }

    /// A node port without serving endpoints says nothing: the port may be somebody else's on this host.
    fn is_stale_by_node_port(&self, key: &FrontendKey, flow: &Flow) -> bool {
        let serving = self.plan.frontend(key).and_then(|frontend| self.serving(&frontend.owner));
        serving.is_some_and(|serving| !serving.is_empty() && !is_among(serving, flow.answered_by))
    }

    fn was_redirected_by_gone(&self, key: &FrontendKey, flow: &Flow) -> bool {
        flow.answered_by != flow.to && self.gone.contains_key(key)
    }

    fn serving(&self, owner: &ServicePortName) -> Option<&[(IpAddr, u16)]> {
        Some(&self.plan.services.get(&owner.service)?.port(owner)?.serving)
    }

    fn is_of_this_host(&self, ip: IpAddr) -> bool {
        ip.is_loopback() || self.plan.node.host_addresses.contains(&ip)
    }
}

fn is_among(serving: &[(IpAddr, u16)], endpoint: SocketAddr) -> bool {
    serving.contains(&(endpoint.ip(), endpoint.port()))
}
