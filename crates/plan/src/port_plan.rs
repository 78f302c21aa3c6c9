//! One Service port: its pools and the frontends it claims, out of its endpoints and its Service's fields.

use std::collections::HashSet;
use std::sync::Arc;

use ferrule_model::{
    PortEndpoint, Protocol, Service, ServicePort, ServicePortName, ServiceState, merged_reporting,
};

use crate::frontends::{ClaimInput, NodeContext, claims};
use crate::ir::{Claim, PortPlan};
use crate::pools::{Needs, on_this_node, select, serving};
use crate::reasons::Reasons;
use crate::{FrontendKey, Pool, PoolScope, Quirk};

/// A Service port about to be planned.
#[derive(Debug)]
pub(crate) struct PortInput<'a> {
    pub owner: ServicePortName,
    pub state: &'a ServiceState,
    pub service: &'a Service,
    pub port: &'a ServicePort,
}

/// What of its Service was planned already.
pub(crate) struct Before<'a> {
    /// How the port was planned last, if its Service and the node are the same as then.
    pub was: Option<&'a PortPlan>,
    pub taken: &'a mut TakenKeys,
}

/// Plans one port.
pub(crate) fn plan_port(
    input: PortInput<'_>,
    context: NodeContext<'_>,
    before: Before<'_>,
    reasons: &mut impl Reasons,
) -> PortPlan {
    let PortInput { owner, state, service, port } = input;
    let Before { was, taken } = before;
    let family = context.node.family;
    let duplicate = |loser: &PortEndpoint<'_>| reasons.duplicate(loser);
    let endpoints = merged_reporting(state.slices(family), &port.name, port.protocol, duplicate);
    reasons.endpoints(&endpoints);
    let selection = select(&endpoints, Needs::new(service, port, family), context.location, reasons);
    let available = selection.availability();
    let serving = if port.protocol == Protocol::Udp { serving(&endpoints) } else { Box::default() };
    let hairpins = if context.node.quirks.has(Quirk::HairpinOfUnusedEndpoints) {
        on_this_node(&endpoints)
    } else {
        Box::default()
    };
    let claims = if let Some(was) = was.filter(|was| was.available == available) {
        Arc::clone(&was.claims)
    } else {
        let input = ClaimInput { owner: &owner, service, port, available };
        claims(input, context, taken.keys(), reasons).into()
    };
    taken.remember(&claims);
    let mut used = |pool: Option<Arc<Pool>>, scope| {
        let pool = pool.filter(|_| claims.iter().any(|claim: &Claim| claim.uses.has(scope)))?;
        reasons.pool_used(scope);
        Some(pool)
    };
    let cluster = used(selection.cluster, PoolScope::Cluster);
    let local = used(selection.local, PoolScope::Local);
    PortPlan { owner, cluster, local, available, claims, endpoints: endpoints.len(), serving, hairpins }
}

/// The keys that earlier ports of a Service claim: two ports may both stand for a whole address, and the first does.
/// They are gathered only once a port asks, which ports that take their claims over do not.
#[derive(Default)]
pub(crate) struct TakenKeys {
    keys: HashSet<FrontendKey>,
    remembered: Vec<Arc<[Claim]>>,
}

impl TakenKeys {
    fn remember(&mut self, claims: &Arc<[Claim]>) {
        self.remembered.push(Arc::clone(claims));
    }

    fn keys(&mut self) -> &mut HashSet<FrontendKey> {
        for claims in self.remembered.drain(..) {
            self.keys.extend(claims.iter().map(|claim| claim.key));
        }
        &mut self.keys
    }
}
