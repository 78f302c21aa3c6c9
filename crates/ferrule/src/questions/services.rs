//! All Services, a page at a time: which match a search, and whether each is served.
//!
//! Made for 45,000 of them: a Service that is not on the page costs two look-ups and no allocation.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ferrule_model::{IpFamily, ObjectKind, Problem, Service, ServiceName, ServicePort};
use ferrule_plan::ServiceSummary;
use serde::Serialize;

use super::QuestionError;
use crate::run::Snapshot;

/// Which Services are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicesQuestion {
    /// Part of the name or of an address, in small letters; empty matches all.
    pub search: String,
    /// Those of this namespace.
    pub namespace: Option<String>,
    /// Those in this state.
    pub state: Option<ServiceState>,
    /// So many that match are skipped.
    pub offset: usize,
    /// So many are listed.
    pub limit: usize,
}

/// Whether a Service is served. Where several are true, the first of them counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ServiceState {
    /// Another Service has an address or node port that it claims.
    Conflicting,
    /// A field of it, or of its EndpointSlices, could not be used.
    Refused,
    /// One of its ports has no endpoint that traffic could go to, in any family.
    NoEndpoints,
    /// It is not planned yet: the next sync does that.
    Pending,
    /// It has no cluster IP of a family that this node serves.
    NotServed,
    /// None of these.
    Serving,
}

impl ServiceState {
    /// Every state, in order.
    pub const ALL: [Self; 6] =
        [Self::Conflicting, Self::Refused, Self::NoEndpoints, Self::Pending, Self::NotServed, Self::Serving];

    /// The word in questions and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Conflicting => "conflicting",
            Self::Refused => "refused",
            Self::NoEndpoints => "noEndpoints",
            Self::Pending => "pending",
            Self::NotServed => "notServed",
            Self::Serving => "serving",
        }
    }

    /// Reads a word.
    pub fn parse(text: &str) -> Result<Self, QuestionError> {
        Self::ALL.into_iter().find(|state| state.name() == text).ok_or_else(|| {
            let all = Self::ALL.map(Self::name).join(", ");
            QuestionError(format!("there is no state {text:?}, only {all}"))
        })
    }
}

/// A page of Services.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicesAnswer {
    /// The node that was asked.
    pub node: String,
    /// Whether the cluster has changed since the plan was made.
    pub pending_changes: bool,
    /// How many match, listed or not.
    pub total: usize,
    /// How many of them are skipped.
    pub offset: usize,
    /// How many are listed at most.
    pub limit: usize,
    /// How many match but for the state that is asked for, by state.
    pub counts: BTreeMap<&'static str, usize>,
    /// The page, ordered by name.
    pub services: Vec<ServiceRow>,
}

/// One Service of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceRow {
    /// `namespace/name`
    pub service: String,
    /// Whether it is served.
    pub state: ServiceState,
    /// The cluster IPs, IPv4 first.
    pub cluster_ips: Vec<String>,
    /// Each port, such as `http 80:30080/tcp`: its name, number, node port, protocol.
    pub ports: Vec<String>,
    /// The endpoints, usable or not, of the port and family that has most.
    pub endpoints: usize,
    /// Ports without an endpoint that traffic could go to.
    pub ports_without_endpoints: usize,
}

/// A page of the Services that match.
pub fn answer(snapshot: &Snapshot, question: &ServicesQuestion) -> ServicesAnswer {
    let states = States::of(snapshot);
    let mut counts: BTreeMap<&'static str, usize> = ServiceState::ALL.map(|state| (state.name(), 0)).into();
    let mut matching = Vec::new();
    for (name, service) in snapshot.cluster.services_unordered() {
        if !question.matches(name, service) {
            continue;
        }
        let state = states.of_service(name, service);
        *counts.entry(state.name()).or_default() += 1;
        if question.state.is_none_or(|wanted| wanted == state) {
            matching.push((name, service, state));
        }
    }
    let (total, page) = (matching.len(), page_of(&mut matching, question));
    ServicesAnswer {
        node: snapshot.view.name.to_string(),
        pending_changes: snapshot.has_pending_changes,
        total,
        offset: question.offset,
        limit: question.limit,
        counts,
        services: page.iter().map(|(name, service, state)| states.row(name, service, *state)).collect(),
    }
}

type Matching<'a> = (&'a ServiceName, &'a Service, ServiceState);

/// The part that is listed, in order. The rest is not sorted.
fn page_of<'m, 'a>(matching: &'m mut [Matching<'a>], question: &ServicesQuestion) -> &'m [Matching<'a>] {
    let by_name = |one: &Matching<'a>, other: &Matching<'a>| one.0.cmp(other.0);
    let first = question.offset.min(matching.len());
    let last = question.offset.saturating_add(question.limit).min(matching.len());
    if first > 0 && first < matching.len() {
        matching.select_nth_unstable_by(first, by_name);
    }
    let rest = &mut matching[first..];
    let length = last - first;
    if length > 0 && length < rest.len() {
        rest.select_nth_unstable_by(length, by_name);
    }
    let page = &mut rest[..length];
    page.sort_unstable_by(by_name);
    page
}

impl ServicesQuestion {
    fn matches(&self, name: &ServiceName, service: &Service) -> bool {
        self.namespace.as_deref().is_none_or(|wanted| wanted == name.namespace())
            && (self.search.is_empty()
                || contains(name.as_str(), &self.search)
                || self.could_be_an_address()
                    && addresses(service).any(|ip| ip.to_string().contains(&self.search)))
    }

    fn could_be_an_address(&self) -> bool {
        self.search.chars().all(|letter| letter.is_ascii_hexdigit() || ".:".contains(letter))
    }
}

/// Whether a text contains another one that is in small letters.
fn contains(text: &str, wanted: &str) -> bool {
    text.contains(wanted) || text.chars().any(char::is_uppercase) && text.to_lowercase().contains(wanted)
}

fn addresses(service: &Service) -> impl Iterator<Item = IpAddr> {
    let cluster_ips = service.cluster_ips.iter().map(|(_, ip)| *ip);
    cluster_ips.chain(service.external_ips.iter().copied()).chain(service.load_balancer_vips.iter().copied())
}

/// What states follow from, gathered once for all Services.
pub(super) struct States<'a> {
    snapshot: &'a Snapshot,
    conflicting: BTreeSet<&'a ServiceName>,
    refused: BTreeSet<&'a str>,
    refused_slices: BTreeSet<&'a str>,
}

impl<'a> States<'a> {
    pub(super) fn of(snapshot: &'a Snapshot) -> Self {
        let conflicting = snapshot.plan.families.iter().flat_map(|(_, plan)| plan.conflicting()).collect();
        let (mut refused, mut refused_slices) = (BTreeSet::new(), BTreeSet::new());
        for diagnostic in &snapshot.diagnostics {
            match (diagnostic.kind, &diagnostic.problem) {
                // Who lost is known from the plan.
                (_, Problem::Claimed { .. }) | (ObjectKind::Node | ObjectKind::ServiceCidr, _) => false,
                (ObjectKind::Service | ObjectKind::Endpoints, _) => refused.insert(&*diagnostic.object),
                (ObjectKind::EndpointSlice, _) => refused_slices.insert(&*diagnostic.object),
            };
        }
        Self { snapshot, conflicting, refused, refused_slices }
    }

    pub(super) fn of_service(&self, name: &ServiceName, service: &Service) -> ServiceState {
        if self.conflicting.contains(name) {
            return ServiceState::Conflicting;
        }
        if self.is_refused(name) {
            return ServiceState::Refused;
        }
        let mut summaries = self.summaries(name, service).peekable();
        if summaries.peek().is_none() {
            return ServiceState::NotServed;
        }
        // A family without any slice is no fault: an application need not serve both.
        let least = summaries.flatten().map(|summary| summary.ports_without_endpoints).min();
        match least {
            None => ServiceState::Pending,
            Some(0) => ServiceState::Serving,
            Some(_) => ServiceState::NoEndpoints,
        }
    }

    fn is_refused(&self, name: &ServiceName) -> bool {
        self.refused.contains(name.as_str())
            || !self.refused_slices.is_empty()
                && self.snapshot.cluster.service(name).is_some_and(|state| {
                    state.slice_names().any(|slice| self.refused_slices.contains(slice.as_str()))
                })
    }

    /// One for each family that the Service and this node have; `None` if it is not planned there yet.
    fn summaries(
        &self,
        name: &ServiceName,
        service: &Service,
    ) -> impl Iterator<Item = Option<ServiceSummary>> {
        let families = &self.snapshot.plan.families;
        let is_asked_for = |family| service.cluster_ips.get(family).is_some();
        IpFamily::BOTH
            .into_iter()
            .filter(move |family| is_asked_for(*family))
            .filter_map(|family| families.get(family))
            .map(|plan| plan.summary(name))
    }

    fn row(&self, name: &ServiceName, service: &Service, state: ServiceState) -> ServiceRow {
        let summaries: Vec<ServiceSummary> = self.summaries(name, service).flatten().collect();
        let without = summaries.iter().map(|summary| summary.ports_without_endpoints).min();
        ServiceRow {
            service: name.to_string(),
            state,
            cluster_ips: service.cluster_ips.iter().map(|(_, ip)| ip.to_string()).collect(),
            ports: service.ports.iter().map(port).collect(),
            endpoints: summaries.iter().map(|summary| summary.endpoints).max().unwrap_or(0),
            ports_without_endpoints: without.unwrap_or(0),
        }
    }
}

fn port(port: &ServicePort) -> String {
    let ServicePort { name, protocol, number, node_port } = port;
    let name = if name.as_str().is_empty() { String::new() } else { format!("{name} ") };
    let node_port = node_port.map_or_else(String::new, |node_port| format!(":{node_port}"));
    format!("{name}{number}{node_port}/{protocol}")
}

#[cfg(test)]
mod tests;
