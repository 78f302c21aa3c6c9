//! Two Services claim one address or node port: the older has it, the other is diagnosed.
//!
//! Keeps the plan's frontends equal to the winning claims while Services come and go, and notes every change in the
//! delta. A cluster IP, which the API server gave to one Service alone, goes before an address a user wrote down; then age
//! decides, then the name, so that the order of events does not.

use std::collections::BTreeSet;
use std::sync::Arc;

use ferrule_model::{Diagnostic, ObjectKind, Problem, ServiceName, ServicePort, Timestamp};

use crate::ir::{Claim, ServicePlan};
use crate::{FamilyPlan, Frontend, FrontendKey, FrontendKind, PlanDelta};

/// A Service that claims a key. The order is the order of precedence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Claimant {
    pub wrote_it_down: bool,
    pub created: Timestamp,
    pub service: ServiceName,
}

impl FamilyPlan {
    /// Takes a Service's claims out, letting the next in line have what it had.
    pub(crate) fn withdraw(&mut self, name: &ServiceName, service: &ServicePlan, delta: &mut PlanDelta) {
        for Claim { key, .. } in service.ports.iter().flat_map(|port| port.claims.iter()) {
            match self.contested.get_mut(key) {
                Some(claimants) => {
                    claimants.retain(|claimant| claimant.service != *name);
                    if claimants.len() == 1 {
                        let last = self.contested.remove(key).and_then(|mut last| last.pop_first());
                        self.award(key, last.as_ref(), delta);
                    } else {
                        let winner = claimants.first().cloned();
                        self.award(key, winner.as_ref(), delta);
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

    /// Puts in the claims of a Service that is in the plan already.
    pub(crate) fn stake(&mut self, name: &ServiceName, delta: &mut PlanDelta) {
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

    /// What the losers of all contested keys are told.
    pub(crate) fn all_conflicts(&self) -> Vec<Diagnostic> {
        self.contested.keys().flat_map(|key| self.losers(key)).collect()
    }

    /// What the losers of some keys are told, each key once.
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
        let claimants = self.contested.get(key).filter(|_| !matches!(key, FrontendKey::OtherPorts(_)));
        let Some((winner, claimants)) = claimants.and_then(|all| Some((all.first()?, all))) else {
            return Vec::new();
        };
        let losers = claimants.iter().skip(1);
        losers.map(|loser| self.lost(key, &winner.service, &loser.service)).collect()
    }

    fn lost(&self, key: &FrontendKey, winner: &ServiceName, loser: &ServiceName) -> Diagnostic {
        let kind = self.claim_of(loser, key).map(|frontend| frontend.kind);
        Diagnostic {
            kind: ObjectKind::Service,
            object: loser.to_string(),
            field: field_of(kind.unwrap_or(FrontendKind::ClusterIp)).into(),
            problem: Problem::Claimed { frontend: key.to_string(), by: winner.clone() },
        }
    }

    /// Gives a key to a claimant, whose frontend is looked up in the plan.
    fn award(&mut self, key: &FrontendKey, winner: Option<&Claimant>, delta: &mut PlanDelta) {
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
        wrote_it_down: frontend.kind != FrontendKind::ClusterIp,
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
        FrontendKey::OtherPorts(_) => true,
    }
}

fn field_of(kind: FrontendKind) -> &'static str {
    match kind {
        FrontendKind::ClusterIp => "spec.clusterIPs",
        FrontendKind::LoadBalancer => "status.loadBalancer.ingress",
        FrontendKind::ExternalIp => "spec.externalIPs",
        FrontendKind::NodePort => "spec.ports[].nodePort",
    }
}
