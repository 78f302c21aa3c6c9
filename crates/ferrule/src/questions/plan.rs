//! The plan as a table: what this node does for each address and port.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ferrule_model::{IpFamily, ServicePortName};
use ferrule_plan::{FamilyPlan, Frontend, FrontendKey, FrontendKind, Pool, PoolId, Rules};

use super::{FrontendRow, PlanAnswer, PoolRow, RuleRow};
use crate::run::Snapshot;

/// Which part of the plan is asked for; all of it by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanQuestion {
    /// Services of this namespace.
    pub namespace: Option<String>,
    /// This Service: `namespace/name`.
    pub service: Option<String>,
    /// Frontends at this address.
    pub address: Option<IpAddr>,
    /// No more frontends than this.
    pub limit: Option<usize>,
}

/// The frontends that match, and their pools.
pub fn answer(snapshot: &Snapshot, question: &PlanQuestion) -> PlanAnswer {
    let mut answer = PlanAnswer {
        node: snapshot.view.name.to_string(),
        mode: snapshot.mode.name().to_owned(),
        pending_changes: snapshot.has_pending_changes,
        total: 0,
        frontends: Vec::new(),
        pools: Vec::new(),
    };
    for (family, plan) in snapshot.plan.families.iter() {
        let matching = plan.frontends().filter(|(key, frontend)| question.matches(key, frontend));
        let mut owners = BTreeSet::new();
        for (key, frontend) in matching {
            answer.total += 1;
            if question.limit.is_none_or(|limit| answer.frontends.len() < limit) {
                owners.insert(&frontend.owner);
                answer.frontends.push(frontend_row(family, plan, (key, frontend)));
            }
        }
        answer.pools.extend(pool_rows(family, plan, &owners));
    }
    answer
}

impl PlanQuestion {
    fn matches(&self, key: &FrontendKey, frontend: &Frontend) -> bool {
        let service = frontend.owner.service.as_str();
        let namespace = service.split_once('/').map_or("", |(namespace, _)| namespace);
        self.namespace.as_deref().is_none_or(|wanted| wanted == namespace)
            && self.service.as_deref().is_none_or(|wanted| wanted == service)
            && self.address.is_none_or(|wanted| has_address(key, wanted))
    }
}

fn has_address(key: &FrontendKey, wanted: IpAddr) -> bool {
    match key {
        FrontendKey::Address(ip, ..) | FrontendKey::UnmatchedPorts(ip) => *ip == wanted,
        FrontendKey::NodePort(..) | FrontendKey::LoopbackNodePort(..) => false,
    }
}

fn frontend_row(
    family: IpFamily,
    plan: &FamilyPlan,
    (key, frontend): (&FrontendKey, &Frontend),
) -> FrontendRow {
    FrontendRow {
        family: family.to_string(),
        frontend: key.to_string(),
        service: frontend.owner.to_string(),
        kind: kind(&frontend.kind).to_owned(),
        rules: rule_rows(&frontend.rules(key, &plan.node)),
    }
}

pub(super) fn rule_rows(rules: &Rules) -> Vec<RuleRow> {
    rules.iter().map(|(from, then)| RuleRow { from: from.to_string(), then: then.to_string() }).collect()
}

pub(super) fn kind(kind: &FrontendKind) -> &'static str {
    match kind {
        FrontendKind::ClusterIp => "ClusterIP",
        FrontendKind::LoadBalancer { .. } => "LoadBalancer",
        FrontendKind::ExternalIp => "ExternalIP",
        FrontendKind::NodePort => "NodePort",
    }
}

fn pool_rows(family: IpFamily, plan: &FamilyPlan, owners: &BTreeSet<&ServicePortName>) -> Vec<PoolRow> {
    let pools = plan.pools().into_iter().filter(|(id, _)| owners.contains(&id.owner));
    pools.map(|(id, pool)| pool_row(family, &id, pool)).collect()
}

fn pool_row(family: IpFamily, id: &PoolId, pool: &Pool) -> PoolRow {
    let endpoints = pool.endpoints.iter();
    PoolRow {
        family: family.to_string(),
        service: id.owner.to_string(),
        scope: id.scope.to_string(),
        endpoints: endpoints
            .map(|endpoint| std::net::SocketAddr::new(endpoint.ip, endpoint.port).to_string())
            .collect(),
        affinity_seconds: pool.affinity_seconds,
    }
}
