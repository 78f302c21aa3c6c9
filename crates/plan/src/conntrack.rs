//! Which conntrack entries are stale under a plan and must be deleted.
//!
//! Readiness, locality and policies do not matter: a UDP flow lives as long as its endpoint serves. TCP and SCTP connections
//! are never touched, except attempts that were not redirected and got no answer. Finding and deleting the entries is the
//! kernel crate's work.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ferrule_model::Protocol;

use crate::delta::Replaced;
use crate::{FamilyPlan, Frontend, FrontendKey, PlanDelta, Quirk};

/// A conntrack entry, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// Its protocol.
    pub protocol: Protocol,
    /// Where the client sent its packets.
    pub to: SocketAddr,
    /// Where answers come from: the endpoint, or `to` itself if the packets were not redirected.
    pub answered_by: SocketAddr,
    /// Whether it is an attempt to connect that got no answer yet.
    pub is_attempt: bool,
}

/// Decides which flows are stale. Holds copies of what it needs, so that flows can be checked while the plan changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaleFlows {
    /// The endpoints that serve behind each UDP frontend to check.
    serving: BTreeMap<FrontendKey, Box<[(IpAddr, u16)]>>,
    /// UDP frontends that were removed; flows that they redirected are stale.
    removed: BTreeSet<FrontendKey>,
    /// TCP and SCTP frontends whose rules may have been missing. An attempt to connect meanwhile was not redirected, and
    /// conntrack keeps it that way for every retransmission.
    missed: BTreeSet<FrontendKey>,
    /// This host's addresses, for node ports.
    host_addresses: BTreeSet<IpAddr>,
}

impl StaleFlows {
    /// Flows that are stale under a plan, whatever was in force before.
    pub fn from_plan(plan: &FamilyPlan) -> Self {
        let mut stale = Self::default();
        for (key, _) in plan.frontends() {
            match *key {
                _ if is_udp(key) => stale.check(plan, *key),
                FrontendKey::Address(..) | FrontendKey::NodePort(..) => drop(stale.missed.insert(*key)),
                FrontendKey::UnmatchedPorts(_) | FrontendKey::LoopbackNodePort(..) => {}
            }
        }
        stale.with_host_addresses(plan)
    }

    /// Flows that became stale by a change, including those of frontends that it removed.
    pub fn from_delta(plan: &FamilyPlan, delta: &PlanDelta) -> Self {
        let mut stale = Self::default();
        for owner in &delta.stale_flows {
            let port = plan.services.get(&owner.service).and_then(|service| service.port(owner));
            for claim in port.into_iter().flat_map(|port| port.claims.iter()) {
                stale.check(plan, claim.key);
            }
        }
        for (key, replaced) in delta.frontends.iter().filter(|(key, _)| is_udp(key)) {
            if replaced.now.is_none() {
                stale.removed.insert(*key);
            } else if !is_same_owner(replaced) || is_other_socket(plan, replaced) {
                stale.check(plan, *key);
            }
        }
        stale.with_host_addresses(plan)
    }

    /// The same where a process of this host relays: answers come from its addresses, and these ports are in use.
    #[must_use]
    pub fn answered_by_host(mut self, ports: impl Fn(&FrontendKey) -> Vec<u16>) -> Self {
        for (key, serving) in &mut self.serving {
            let ports = ports(key);
            let answers = self.host_addresses.iter().flat_map(|ip| ports.iter().map(|port| (*ip, *port)));
            *serving = answers.collect();
        }
        self
    }

    /// Whether no flow can be stale.
    pub fn is_empty(&self) -> bool {
        self.serving.is_empty() && self.removed.is_empty() && self.missed.is_empty()
    }

    /// Whether there may be attempts to connect that were not redirected.
    pub fn has_missed(&self) -> bool {
        !self.missed.is_empty()
    }

    /// The UDP frontends whose flows are checked.
    pub fn frontends(&self) -> impl Iterator<Item = &FrontendKey> {
        self.serving.keys().chain(&self.removed)
    }

    /// Adds what another one finds stale. Where both know a frontend, `newer` counts.
    pub fn merge(&mut self, newer: Self) {
        for key in newer.frontends() {
            self.serving.remove(key);
            self.removed.remove(key);
        }
        self.serving.extend(newer.serving);
        self.removed.extend(newer.removed);
        self.missed.extend(newer.missed);
        if !newer.host_addresses.is_empty() {
            self.host_addresses = newer.host_addresses;
        }
    }

    /// Whether a flow is stale.
    pub fn contains(&self, flow: &Flow) -> bool {
        if flow.protocol != Protocol::Udp {
            return self.is_missed_attempt(flow);
        }
        let address = FrontendKey::Address(flow.to.ip(), Protocol::Udp, flow.to.port());
        let node_port = FrontendKey::NodePort(Protocol::Udp, flow.to.port());
        self.is_stale_by_address(&address, flow)
            || self.was_redirected_by_removed(&address, flow)
            || self.is_own_address(flow.to.ip())
                && (self.is_stale_by_node_port(&node_port, flow)
                    || self.was_redirected_by_removed(&node_port, flow))
    }

    fn check(&mut self, plan: &FamilyPlan, key: FrontendKey) {
        let Some(frontend) = plan.frontend(&key) else { return };
        let service = plan.services.get(&frontend.owner.service);
        if let Some(port) = service.and_then(|service| service.port(&frontend.owner)) {
            self.serving.insert(key, port.serving.clone());
        }
    }

    fn with_host_addresses(mut self, plan: &FamilyPlan) -> Self {
        if !self.is_empty() {
            self.host_addresses.clone_from(&plan.node.host_addresses);
        }
        self
    }

    /// A Service address without serving endpoints has no flow that may stay.
    fn is_stale_by_address(&self, key: &FrontendKey, flow: &Flow) -> bool {
        self.serving.get(key).is_some_and(|serving| !is_among(serving, flow.answered_by))
    }

    /// A node port without serving endpoints says nothing: another process of this host may use the port.
    fn is_stale_by_node_port(&self, key: &FrontendKey, flow: &Flow) -> bool {
        let serving = self.serving.get(key);
        serving.is_some_and(|serving| !serving.is_empty() && !is_among(serving, flow.answered_by))
    }

    fn was_redirected_by_removed(&self, key: &FrontendKey, flow: &Flow) -> bool {
        flow.answered_by != flow.to && self.removed.contains(key)
    }

    fn is_missed_attempt(&self, flow: &Flow) -> bool {
        let address = FrontendKey::Address(flow.to.ip(), flow.protocol, flow.to.port());
        let node_port = FrontendKey::NodePort(flow.protocol, flow.to.port());
        flow.is_attempt
            && flow.answered_by == flow.to
            && (self.missed.contains(&address)
                || self.is_own_address(flow.to.ip()) && self.missed.contains(&node_port))
    }

    fn is_own_address(&self, ip: IpAddr) -> bool {
        ip.is_loopback() || self.host_addresses.contains(&ip)
    }
}

fn is_udp(key: &FrontendKey) -> bool {
    matches!(key, FrontendKey::Address(_, Protocol::Udp, _) | FrontendKey::NodePort(Protocol::Udp, _))
}

/// Whether a process that relays may lead packets to another of its sockets, and close the one before.
fn is_other_socket(plan: &FamilyPlan, replaced: &Replaced<Arc<Frontend>>) -> bool {
    plan.node.quirks.has(Quirk::RelayedByProcess) && replaced.was != replaced.now
}

fn is_same_owner(replaced: &Replaced<Arc<Frontend>>) -> bool {
    let owner = |frontend: &Option<Arc<Frontend>>| frontend.as_ref().map(|frontend| frontend.owner.clone());
    owner(&replaced.was) == owner(&replaced.now)
}

fn is_among(serving: &[(IpAddr, u16)], endpoint: SocketAddr) -> bool {
    serving.contains(&(endpoint.ip(), endpoint.port()))
}
