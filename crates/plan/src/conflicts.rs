//! Two Services claim one address or node port: one gets it, the other gets a diagnostic.
//!
//! Keeps the plan's frontends equal to the winning claims while Services come and go, and records every change in the
//! delta. A cluster IP, which the API server assigned to one Service alone, goes before an address that a user specified;
//! then the older Service wins, then the name that sorts first. The order of events never matters.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use ferrule_model::{Diagnostic, ObjectKind, Problem, ServiceName, ServicePort, Timestamp};

use crate::ir::{Claim, ServicePlan};
use crate::{FamilyPlan, Frontend, FrontendKey, FrontendKind, Holder, PlanDelta, Precedence};

/// A Service that claims a key. The order is the order of precedence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claimant {
    /// Whether a user chose the address or port. Otherwise the API server assigned it to this Service alone.
    pub user_specified: bool,
    pub created: Timestamp,
    pub service: ServiceName,
}

impl Claimant {
    /// Which of two comes first, and what decides.
    pub(crate) fn compare(&self, other: &Self) -> (Ordering, Precedence) {
        let by_kind = self.user_specified.cmp(&other.user_specified);
        let by_age = self.created.cmp(&other.created);
        if by_kind.is_ne() {
            (by_kind, Precedence::ClusterIpFirst)
        } else if by_age.is_ne() {
            let (winner, loser) = (self.created.min(other.created), self.created.max(other.created));
            (by_age, Precedence::OlderFirst { winner, loser })
        } else {
            (self.service.cmp(&other.service), Precedence::NameOrder)
        }
    }
}

impl Ord for Claimant {
    fn cmp(&self, other: &Self) -> Ordering {
        self.compare(other).0
    }
}

impl PartialOrd for Claimant {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FamilyPlan {
    /// Who has a key that a Service claims.
    pub(crate) fn holder(&self, key: &FrontendKey, name: &ServiceName) -> Holder {
        let Some(claimants) = self.contested.get(key) else { return Holder::OnlyClaimant };
        let own = claimants.iter().find(|claimant| claimant.service == *name);
        match (claimants.first(), own) {
            (Some(winner), Some(own)) if winner.service != *name => {
                Holder::Lost { to: winner.service.clone(), by: winner.compare(own).1 }
            }
            (_, _) => {
                Holder::Won { over: claimants.iter().skip(1).map(|loser| loser.service.clone()).collect() }
            }
        }
    }

    /// Removes a Service's claims; what it held goes to the next claimant.
    pub(crate) fn remove_claims(&mut self, name: &ServiceName, service: &ServicePlan, delta: &mut PlanDelta) {
        for Claim { key, .. } in service.ports.iter().flat_map(|port| port.claims.iter()) {
            match self.contested.get_mut(key) {
                Some(claimants) => {
                    claimants.retain(|claimant| claimant.service != *name);
                    if claimants.len() == 1 {
                        let last = self.contested.remove(key).and_then(|mut last| last.pop_first());
                        self.assign(key, last.as_ref(), delta);
                    } else {
                        let winner = claimants.first().cloned();
                        self.assign(key, winner.as_ref(), delta);
                    }
                }
                None => {
                    if let Some(was) = self.frontends.remove(key) {
                        delta.note_frontend(*key, Some(was), None);
                    }
                }
            }
        }
    }

    /// Adds the claims of a Service that is already in the plan.
    pub(crate) fn add_claims(&mut self, name: &ServiceName, delta: &mut PlanDelta) {
        let Some(plan) = self.services.get(name) else { return };
        let created = plan.service.created;
        let claims: Vec<Arc<[Claim]>> = plan.ports.iter().map(|port| Arc::clone(&port.claims)).collect();
        for Claim { key, frontend, .. } in claims.iter().flat_map(|claims| claims.iter()) {
            let holder = self.frontends.get(key).filter(|holder| holder.owner.service != *name);
            let Some(holder) = holder.and_then(|holder| self.claimant(holder)) else {
                self.install(*key, frontend, delta);
                continue;
            };
            let newcomer = claimant(frontend, created);
            let claimants = self.contested.entry(*key).or_default();
            claimants.extend([holder, newcomer]);
            if claimants.first().is_some_and(|winner| winner.service == *name) {
                self.install(*key, frontend, delta);
            }
        }
    }

    /// Diagnostics for the losers of all contested keys.
    pub(crate) fn all_conflicts(&self) -> Vec<Diagnostic> {
        self.contested.keys().flat_map(|key| self.losers(key)).collect()
    }

    /// Diagnostics for the losers of some keys.
    pub(crate) fn conflicts_over(&self, keys: &BTreeSet<FrontendKey>) -> Vec<Diagnostic> {
        keys.iter().flat_map(|key| self.losers(key)).collect()
    }

    /// The contested keys among those a Service claims.
    pub(crate) fn contested_keys_of(&self, name: &ServiceName) -> impl Iterator<Item = FrontendKey> {
        let ports = self.services.get(name).filter(|_| !self.contested.is_empty());
        let claims = ports.into_iter().flat_map(|service| &service.ports).flat_map(|port| port.claims.iter());
        claims.map(|claim| claim.key).filter(|key| self.contested.contains_key(key))
    }

    fn losers(&self, key: &FrontendKey) -> Vec<Diagnostic> {
        let claimants = self.contested.get(key).filter(|_| !matches!(key, FrontendKey::UnmatchedPorts(_)));
        let Some((winner, claimants)) = claimants.and_then(|all| Some((all.first()?, all))) else {
            return Vec::new();
        };
        let losers = claimants.iter().skip(1);
        losers.map(|loser| self.lost(key, &winner.service, &loser.service)).collect()
    }

    fn lost(&self, key: &FrontendKey, winner: &ServiceName, loser: &ServiceName) -> Diagnostic {
        let kind = self.claim_of(loser, key).map(|frontend| &frontend.kind);
        Diagnostic {
            kind: ObjectKind::Service,
            object: loser.to_string(),
            field: field_of(kind.unwrap_or(&FrontendKind::ClusterIp)).into(),
            problem: Problem::Claimed { frontend: key.to_string(), by: winner.clone() },
        }
    }

    /// Gives a key to a claimant.
    fn assign(&mut self, key: &FrontendKey, winner: Option<&Claimant>, delta: &mut PlanDelta) {
        let frontend = winner.and_then(|winner| self.claim_of(&winner.service, key)).cloned();
        if let Some(frontend) = frontend {
            self.install(*key, &frontend, delta);
        }
    }

    fn install(&mut self, key: FrontendKey, frontend: &Arc<Frontend>, delta: &mut PlanDelta) {
        let was = self.frontends.insert(key, Arc::clone(frontend));
        if was.as_ref() != Some(frontend) {
            delta.note_frontend(key, was, Some(Arc::clone(frontend)));
        }
    }

    fn claimant(&self, frontend: &Frontend) -> Option<Claimant> {
        Some(claimant(frontend, self.services.get(&frontend.owner.service)?.service.created))
    }

    fn claim_of(&self, service: &ServiceName, key: &FrontendKey) -> Option<&Arc<Frontend>> {
        let plan = self.services.get(service)?;
        let ports = plan.service.ports.iter().zip(&plan.ports).filter(|(port, _)| may_claim(port, key));
        let mut claims = ports.flat_map(|(_, port)| port.claims.iter());
        claims.find(|claim| claim.key == *key).map(|claim| &claim.frontend)
    }

    /// Whether a Service has the keys it claims, for those that are contested.
    pub(crate) fn holds(&self, key: &FrontendKey, name: &ServiceName) -> bool {
        self.contested.is_empty()
            || self.contested.get(key).and_then(BTreeSet::first).is_none_or(|winner| winner.service == *name)
    }
}

fn claimant(frontend: &Frontend, created: Timestamp) -> Claimant {
    Claimant {
        user_specified: frontend.kind != FrontendKind::ClusterIp,
        created,
        service: frontend.owner.service.clone(),
    }
}

/// Whether a port can be the one that claims a key at all.
fn may_claim(port: &ServicePort, key: &FrontendKey) -> bool {
    match *key {
        FrontendKey::Address(_, protocol, number) => port.protocol == protocol && port.number == number,
        FrontendKey::NodePort(protocol, number) | FrontendKey::LoopbackNodePort(protocol, number) => {
            port.protocol == protocol && port.node_port == Some(number)
        }
        FrontendKey::UnmatchedPorts(_) => true,
    }
}

fn field_of(kind: &FrontendKind) -> &'static str {
    match kind {
        FrontendKind::ClusterIp => "spec.clusterIPs",
        FrontendKind::LoadBalancer { .. } => "status.loadBalancer.ingress",
        FrontendKind::ExternalIp => "spec.externalIPs",
        FrontendKind::NodePort => "spec.ports[].nodePort",
    }
}
