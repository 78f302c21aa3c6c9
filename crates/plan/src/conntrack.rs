//! Which existing flows are stale under a plan and must be forgotten by the kernel.
//!
//! Readiness, locality and policies do not matter: a UDP flow lives as long as its endpoint serves. Connections of TCP and SCTP
//! are never touched, but for attempts that nobody redirected and nobody answered. Finding and deleting the flows is
//! the kernel crate's work.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ferrule_model::Protocol;

use crate::delta::Replaced;
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
    /// Whether it is but an attempt to connect, which nobody answered yet.
    pub is_attempt: bool,
}

/// Judges flows. Holds copies of what it needs, so that flows can be looked through while the plan goes on changing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaleFlows {
    /// Who serves behind each UDP frontend that is looked at.
    serving: BTreeMap<FrontendKey, Box<[(IpAddr, u16)]>>,
    /// UDP frontends that were taken away; flows redirected by them have nothing to stand on.
    gone: BTreeSet<FrontendKey>,
    /// TCP and SCTP frontends whose rules may have been missing. Who tried to connect meanwhile was not redirected, and conntrack
    /// would leave it at that however often the first packet is sent again.
    missed: BTreeSet<FrontendKey>,
    /// This host's addresses, for node ports.
    host_addresses: BTreeSet<IpAddr>,
}

impl StaleFlows {
    /// Flows that the plan itself rules out, whatever was in force before.
    pub fn under(plan: &FamilyPlan) -> Self {
        let mut stale = Self::default();
        for (key, _) in plan.frontends() {
            match *key {
                _ if is_udp(key) => stale.look_at(plan, *key),
                FrontendKey::Address(..) | FrontendKey::NodePort(..) => drop(stale.missed.insert(*key)),
                FrontendKey::OtherPorts(_) | FrontendKey::LoopbackNodePort(..) => {}
            }
        }
        stale.knowing_host_of(plan)
    }

    /// Flows that became stale by a change. Those of frontends that it removed are among them: of a deleted Service,
    /// of a withdrawn address.
    pub fn by_change(plan: &FamilyPlan, delta: &PlanDelta) -> Self {
        let mut stale = Self::default();
        for owner in &delta.stale_flows {
            let port = plan.services.get(&owner.service).and_then(|service| service.port(owner));
            for claim in port.into_iter().flat_map(|port| port.claims.iter()) {
                stale.look_at(plan, claim.key);
            }
        }
        for (key, replaced) in delta.frontends.iter().filter(|(key, _)| is_udp(key)) {
            if replaced.now.is_none() {
                stale.gone.insert(*key);
            } else if !is_same_owner(replaced) {
                stale.look_at(plan, *key);
            }
        }
        stale.knowing_host_of(plan)
    }

    /// Whether there is nothing to look for.
    pub fn is_empty(&self) -> bool {
        self.serving.is_empty() && self.gone.is_empty() && self.missed.is_empty()
    }

    /// Whether there may be attempts to connect that nobody redirected.
    pub fn has_missed(&self) -> bool {
        !self.missed.is_empty()
    }

    /// The UDP frontends whose flows are looked at.
    pub fn frontends(&self) -> impl Iterator<Item = &FrontendKey> {
        self.serving.keys().chain(&self.gone)
    }

    /// Adds what another one looks for. Where both know a frontend, the other one is the newer.
    pub fn merge(&mut self, newer: Self) {
        for key in newer.frontends() {
            self.serving.remove(key);
            self.gone.remove(key);
        }
        self.serving.extend(newer.serving);
        self.gone.extend(newer.gone);
        self.missed.extend(newer.missed);
        if !newer.host_addresses.is_empty() {
            self.host_addresses = newer.host_addresses;
        }
    }

    /// Whether a flow must go.
    pub fn contains(&self, flow: &Flow) -> bool {
        if flow.protocol != Protocol::Udp {
            return self.was_missed(flow);
        }
        let address = FrontendKey::Address(flow.to.ip(), Protocol::Udp, flow.to.port());
        let node_port = FrontendKey::NodePort(Protocol::Udp, flow.to.port());
        self.is_stale_by_address(&address, flow)
            || self.was_redirected_by_gone(&address, flow)
            || self.is_of_this_host(flow.to.ip())
                && (self.is_stale_by_node_port(&node_port, flow)
                    || self.was_redirected_by_gone(&node_port, flow))
    }

    fn look_at(&mut self, plan: &FamilyPlan, key: FrontendKey) {
        let Some(frontend) = plan.frontend(&key) else { return };
        let service = plan.services.get(&frontend.owner.service);
        if let Some(port) = service.and_then(|service| service.port(&frontend.owner)) {
            self.serving.insert(key, port.serving.clone());
        }
    }

    fn knowing_host_of(mut self, plan: &FamilyPlan) -> Self {
        if !self.is_empty() {
            self.host_addresses.clone_from(&plan.node.host_addresses);
        }
        self
    }

    /// A Service address without serving endpoints has no flow that may stay.
    fn is_stale_by_address(&self, key: &FrontendKey, flow: &Flow) -> bool {
        self.serving.get(key).is_some_and(|serving| !is_among(serving, flow.answered_by))
    }

    /// A node port without serving endpoints says nothing: the port may be somebody else's on this host.
    fn is_stale_by_node_port(&self, key: &FrontendKey, flow: &Flow) -> bool {
        let serving = self.serving.get(key);
        serving.is_some_and(|serving| !serving.is_empty() && !is_among(serving, flow.answered_by))
    }

    fn was_redirected_by_gone(&self, key: &FrontendKey, flow: &Flow) -> bool {
        flow.answered_by != flow.to && self.gone.contains(key)
    }

    fn was_missed(&self, flow: &Flow) -> bool {
        let address = FrontendKey::Address(flow.to.ip(), flow.protocol, flow.to.port());
        let node_port = FrontendKey::NodePort(flow.protocol, flow.to.port());
        flow.is_attempt
            && flow.answered_by == flow.to
            && (self.missed.contains(&address)
                || self.is_of_this_host(flow.to.ip()) && self.missed.contains(&node_port))
    }

    fn is_of_this_host(&self, ip: IpAddr) -> bool {
        ip.is_loopback() || self.host_addresses.contains(&ip)
    }
}

fn is_udp(key: &FrontendKey) -> bool {
    matches!(key, FrontendKey::Address(_, Protocol::Udp, _) | FrontendKey::NodePort(Protocol::Udp, _))
}

fn is_same_owner(replaced: &Replaced<Arc<Frontend>>) -> bool {
    let owner = |frontend: &Option<Arc<Frontend>>| frontend.as_ref().map(|frontend| frontend.owner.clone());
    owner(&replaced.was) == owner(&replaced.now)
}

fn is_among(serving: &[(IpAddr, u16)], endpoint: SocketAddr) -> bool {
    serving.contains(&(endpoint.ip(), endpoint.port()))
}
