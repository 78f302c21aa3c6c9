//! Keeps the reasons of one Service port while it is planned again.

use std::net::IpAddr;

use ferrule_model::{Conditions, PortEndpoint};

use super::EndpointReasons;
use crate::ir::Claim;
use crate::reasons::Reasons;
use crate::{Excluded, HintDecision, Membership, PoolScope, ShapeReason, UnclaimedFrontend};

/// The reasons of one Service port, as planning gives them.
#[derive(Default)]
pub(super) struct Gathered {
    merged: Vec<SeenEndpoint>,
    duplicates: Vec<SeenEndpoint>,
    pub hints: Option<HintDecision>,
    cluster: GatheredPool,
    local: GatheredPool,
    pub frontends: Vec<(Claim, ShapeReason)>,
    pub unclaimed: Vec<UnclaimedFrontend>,
    pub source_ranges_ignored: bool,
}

#[derive(Default)]
struct GatheredPool {
    /// Of the merged endpoints, in their order; `None` if the pool is not needed.
    members: Option<Vec<Membership>>,
    is_used: bool,
}

/// What of an endpoint is part of an answer.
#[derive(Clone, Copy)]
pub(super) struct SeenEndpoint {
    ip: IpAddr,
    port: u16,
    is_local: bool,
    conditions: Conditions,
}

impl SeenEndpoint {
    pub(super) fn new(endpoint: &PortEndpoint<'_>) -> Self {
        let PortEndpoint { ip, port, conditions, is_local, hints: _ } = *endpoint;
        Self { ip, port, is_local, conditions }
    }

    pub(super) fn with(self, cluster: Membership, local: Membership) -> EndpointReasons {
        let Self { ip, port, is_local, conditions } = self;
        EndpointReasons { ip, port: Some(port), is_local, conditions, cluster, local }
    }
}

impl GatheredPool {
    fn membership(&self, at: usize) -> Membership {
        match self.members.as_ref().and_then(|members| members.get(at)) {
            None => Membership::Out(Excluded::PoolNotNeeded),
            Some(Membership::In(_)) if !self.is_used => Membership::Out(Excluded::PoolUnused),
            Some(membership) => *membership,
        }
    }
}

impl Gathered {
    pub(super) fn endpoint_reasons(&self) -> Vec<EndpointReasons> {
        let merged = self.merged.iter().enumerate();
        let merged =
            merged.map(|(at, seen)| seen.with(self.cluster.membership(at), self.local.membership(at)));
        let why = Membership::Out(Excluded::Duplicate);
        merged.chain(self.duplicates.iter().map(|seen| seen.with(why, why))).collect()
    }

    fn pool(&mut self, scope: PoolScope) -> &mut GatheredPool {
        match scope {
            PoolScope::Cluster => &mut self.cluster,
            PoolScope::Local => &mut self.local,
        }
    }
}

impl Reasons for Gathered {
    fn duplicate(&mut self, loser: &PortEndpoint<'_>) {
        self.duplicates.push(SeenEndpoint::new(loser));
    }

    fn endpoints(&mut self, merged: &[PortEndpoint<'_>]) {
        self.merged = merged.iter().map(SeenEndpoint::new).collect();
    }

    fn hints(&mut self, decision: HintDecision) {
        self.hints = Some(decision);
    }

    fn members(&mut self, scope: PoolScope, all: impl FnOnce() -> Vec<Membership>) {
        self.pool(scope).members = Some(all());
    }

    fn pool_used(&mut self, scope: PoolScope) {
        self.pool(scope).is_used = true;
    }

    fn claimed(&mut self, claim: &Claim, why: ShapeReason) {
        self.frontends.push((claim.clone(), why));
    }

    fn not_claimed(&mut self, unclaimed: UnclaimedFrontend) {
        self.unclaimed.push(unclaimed);
    }

    fn source_ranges_ignored(&mut self) {
        self.source_ranges_ignored = true;
    }
}
