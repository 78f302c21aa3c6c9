//! Two Services claim one address or node port: the older has it, the other is diagnosed.
//!
//! Keeps the plan's frontends equal to the winning claims while Services come and go, and notes every change in the
//! delta. Age decides, then the name, so that the order of events does not.

use std::collections::BTreeSet;
use std::sync::Arc;

use ferrule_model::{Diagnostic, ObjectKind, Problem, ServiceName, Timestamp};

use crate::ir::{Claim, ServicePlan};
use crate::{FamilyPlan, Frontend, FrontendKey, FrontendKind, PlanDelta};

/// A Service that claims a key. The order is the order of precedence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Claimant {
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
        let Some(service) = self.services.get(name).cloned() else { return };
        for Claim { key, frontend, .. } in service.ports.iter().flat_map(|port| port.claims.iter()) {
            let holder = self.frontends.get(key).map(|holder| holder.owner.service.clone());
            match holder.filter(|holder| holder != name) {
                None => self.install(*key, frontend, delta),
                Some(holder) => {
                    let newcomer = Claimant { created: service.service.created, service: name.clone() };
                    let holder = self.claimant(&holder);
                    let claimants = self.contested.entry(*key).or_default();
                    claimants.extend(holder);
                    claimants.insert(newcomer);
                    let winner = claimants.first().cloned();
                    self.award(key, winner.as_ref(), delta);
                }
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

    fn claimant(&self, service: &ServiceName) -> Option<Claimant> {
        let created = self.services.get(service)?.service.created;
        Some(Claimant { created, service: service.clone() })
    }

    fn claim_of(&self, service: &ServiceName, key: &FrontendKey) -> Option<&Arc<Frontend>> {
        let claims = self.services.get(service)?.ports.iter().flat_map(|port| port.claims.iter());
        claims.into_iter().find(|claim| claim.key == *key).map(|claim| &claim.frontend)
    }

    /// Whether a Service has the keys it claims, for those that are contested.
    pub(crate) fn holds(&self, key: &FrontendKey, name: &ServiceName) -> bool {
        self.contested.is_empty()
            || self.contested.get(key).and_then(BTreeSet::first).is_none_or(|winner| winner.service == *name)
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
