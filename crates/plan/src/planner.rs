//! The order of the steps from a cluster to a plan, and nothing else.
//!
//! [`plan`] and [`replan`] never fail: they plan what they can and diagnose the rest. Both take the same road, so that
//! a plan changed step by step equals one made afresh.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use ferrule_model::{
    Cluster, Diagnostic, IpFamily, NodeIps, NodePortAddresses, ObjectKind, PerFamily, Problem, Protocol,
    Service, ServiceName, ServicePort, ServicePortName, ServiceState, Touched, TrafficPolicy, merged,
};

use crate::frontends::{PortInput, Site, claims};
use crate::health_checks::health_check;
use crate::ir::{Claim, PortPlan, ServicePlan};
use crate::node_traffic::{node_ips, node_port_addresses, node_traffic};
use crate::pools::{Facts, Needs, select, serving};
use crate::topology::Place;
use crate::{
    ExternalIps, FamilyPlan, FrontendKey, NoLocalEndpoints, NodePlan, NodeTraffic, NodeView, PlanDelta,
    PoolScope, Quirk,
};

/// Plans everything.
pub fn plan(cluster: &Cluster, view: &NodeView) -> (NodePlan, Vec<Diagnostic>) {
    let mut plan = NodePlan::default();
    let everything = Touched { node: true, ..Touched::default() };
    let (_, diagnostics) = replan(&mut plan, cluster, &everything, view);
    (plan, diagnostics)
}

/// Plans the touched Services again, in place, and says what differs.
///
/// If `view` is another than the last time, `touched.node` must say so: a change of the node or of the service ranges is about everything, so it looks at every Service; still only what
/// differs is in the delta.
pub fn replan(
    plan: &mut NodePlan,
    cluster: &Cluster,
    touched: &Touched,
    view: &NodeView,
) -> (PerFamily<PlanDelta>, Vec<Diagnostic>) {
    let mut deltas = PerFamily::default();
    let mut diagnostics = Vec::new();
    let ips = node_ips(cluster, view);
    for family in IpFamily::BOTH {
        if !view.families.contains(&family) {
            *plan.families.slot(family) = None;
            continue;
        }
        let addresses = node_port_addresses(&ips, view, family);
        let slot = plan.families.slot(family);
        let is_new = slot.is_none();
        let family_plan =
            slot.get_or_insert_with(|| FamilyPlan::empty(node_traffic(cluster, view, &addresses)));
        let everything = touched.node || touched.service_cidrs || is_new;
        let delta = PlanDelta { node: is_new, ..PlanDelta::default() };
        let plan = family_plan;
        let mut replanning = Replanning { plan, cluster, view, ips, addresses, everything, delta };
        if everything {
            replanning.everything();
        } else {
            replanning.services(touched.services.iter());
        }
        diagnostics.extend(replanning.conflicts(touched));
        diagnostics.extend(replanning.refused_external_ips(touched));
        deltas.set(family, replanning.delta);
    }
    (deltas, diagnostics)
}

/// One family's plan being brought up to date.
struct Replanning<'a> {
    plan: &'a mut FamilyPlan,
    cluster: &'a Cluster,
    view: &'a NodeView,
    ips: NodeIps,
    addresses: NodePortAddresses,
    /// Whether the node itself may have changed, so that nothing can be taken over unseen.
    everything: bool,
    delta: PlanDelta,
}

impl Replanning<'_> {
    fn everything(&mut self) {
        let node = node_traffic(self.cluster, self.view, &self.addresses);
        self.delta.node |= node != self.plan.node;
        self.plan.node = node;
        let mut names: BTreeSet<ServiceName> = self.plan.services.keys().cloned().collect();
        names.extend(self.cluster.services().into_iter().map(|(name, _)| name.clone()));
        self.services(names.iter());
    }

    fn services<'n>(&mut self, names: impl Iterator<Item = &'n ServiceName>) {
        for name in names {
            self.service(name);
        }
        self.delta.close_over(self.plan);
    }

    /// Who lost what: all of it if everything was planned, otherwise what concerns the touched Services and the
    /// frontends that changed hands.
    fn conflicts(&self, touched: &Touched) -> Vec<Diagnostic> {
        if self.everything {
            return self.plan.all_conflicts();
        }
        let mut keys: BTreeSet<_> =
            touched.services.iter().flat_map(|name| self.plan.contested_keys_of(name)).collect();
        keys.extend(self.delta.frontends.keys().filter(|key| self.plan.contested.contains_key(key)));
        self.plan.conflicts_over(&keys)
    }

    /// External IPs that the operator does not allow, of the Services that were planned.
    fn refused_external_ips(&self, touched: &Touched) -> Vec<Diagnostic> {
        if !matches!(self.view.external_ips, ExternalIps::Within(_)) {
            return Vec::new();
        }
        let family = self.plan.node.family;
        let is_planned = |name: &ServiceName| self.everything || touched.services.contains(name);
        let services = self.plan.services.iter().filter(|(name, _)| is_planned(name));
        let refused = services.flat_map(|(name, plan)| {
            let ips = plan.service.external_ips(family).filter(|ip| !self.view.external_ips.allow(*ip));
            ips.map(|ip| Diagnostic {
                kind: ObjectKind::Service,
                object: name.to_string(),
                field: "spec.externalIPs".into(),
                problem: Problem::ExternalIpRefused(ip),
            })
        });
        let mut refused: Vec<Diagnostic> = refused.collect();
        // Services are in no order.
        refused.sort();
        refused
    }

    fn service(&mut self, name: &ServiceName) {
        let was = self.plan.services.get(name);
        let now = self.cluster.service(name).and_then(|state| self.plan_service(name, state, was));
        if was == now.as_ref() {
            return;
        }
        let same_claims = have_same_claims(was, now.as_ref());
        self.note_differences(name, now.as_ref());
        let was = self.exchange(name, now);
        if same_claims {
            return;
        }
        if let Some(was) = was {
            self.plan.withdraw(name, &was, &mut self.delta);
        }
        self.plan.stake(name, &mut self.delta);
    }

    /// Puts what a Service asks for now in the place of what it asked for before, which is handed back.
    fn exchange(&mut self, name: &ServiceName, now: Option<ServicePlan>) -> Option<ServicePlan> {
        match (self.plan.services.get_mut(name), now) {
            (Some(place), Some(now)) => Some(std::mem::replace(place, now)),
            (None, Some(now)) => self.plan.services.insert(name.clone(), now),
            (_, None) => self.plan.services.remove(name),
        }
    }

    fn note_differences(&mut self, name: &ServiceName, now: Option<&ServicePlan>) {
        let was = self.plan.services.get(name);
        let (ports_was, ports_now) = (ports(was), ports(now));
        for port in ports_was {
            let now = now.and_then(|plan| plan.port(&port.owner));
            self.delta.note_pools(Some(port), now);
            self.delta.note_stale_flows(Some(port), now);
        }
        let is_new = |port: &&PortPlan| was.and_then(|plan| plan.port(&port.owner)).is_none();
        for port in ports_now.iter().filter(is_new) {
            self.delta.note_pools(None, Some(port));
            self.delta.note_stale_flows(None, Some(port));
        }
        let health_check = |plan: Option<&ServicePlan>| plan.and_then(|plan| plan.health_check);
        self.delta.note_health_check(name, health_check(was), health_check(now));
        let count = |plan: Option<&ServicePlan>| plan.map(|plan| plan.no_local_endpoints).unwrap_or_default();
        let (less, more) = (count(was), count(now));
        let counts = &mut self.plan.no_local_endpoints;
        counts.internal = counts.internal + more.internal - less.internal;
        counts.external = counts.external + more.external - less.external;
    }

    fn plan_service(
        &self,
        name: &ServiceName,
        state: &ServiceState,
        was: Option<&ServicePlan>,
    ) -> Option<ServicePlan> {
        let service = state.service()?;
        let family = self.plan.node.family;
        service.cluster_ips.get(family)?;
        // With the same fields on the same node, a port's frontends are the same if their facts are, and if the ports
        // before it, which come first where both claim a key, claim what they did.
        let mut reusable = was.filter(|was| !self.everything && Arc::ptr_eq(&was.service, service));
        let mut ports: Vec<PortPlan> = Vec::with_capacity(service.ports.len());
        let mut lacking = NoLocalEndpoints::default();
        let mut taken = TakenKeys::default();
        for (at, port) in service.ports.iter().enumerate() {
            let was = reusable.and_then(|was| was.ports.get(at));
            let owner = was.map_or_else(|| owner(name, port), |was| was.owner.clone());
            let planned = self.plan_port(owner, (service, port), state, (was, &mut taken));
            let lacks = lacking_local_endpoints(service, port, family, planned.facts);
            lacking.internal += lacks.internal;
            lacking.external += lacks.external;
            reusable = reusable.filter(|_| was.is_some_and(|was| Arc::ptr_eq(&was.claims, &planned.claims)));
            ports.push(planned);
        }
        Some(ServicePlan {
            service: Arc::clone(service),
            ports: ports.into_boxed_slice(),
            health_check: health_check(state, family),
            no_local_endpoints: counted(lacking, &self.plan.node),
        })
    }

    fn plan_port(
        &self,
        owner: ServicePortName,
        (service, port): (&Service, &ServicePort),
        state: &ServiceState,
        (was, taken): (Option<&PortPlan>, &mut TakenKeys),
    ) -> PortPlan {
        let family = self.plan.node.family;
        let endpoints = merged(state.slices(family), &port.name, port.protocol);
        let zone = self.cluster.node().and_then(|node| node.zone.as_ref());
        let place = Place { node: &self.view.name, zone };
        let selection = select(&endpoints, Needs::of(service, port, family), place);
        let facts = selection.facts();
        let serving = if port.protocol == Protocol::Udp { serving(&endpoints) } else { Box::default() };
        let claims = match was.filter(|was| was.facts == facts) {
            Some(was) => Arc::clone(&was.claims),
            None => {
                claims(PortInput { owner: &owner, service, port, facts }, self.site(), taken.keys()).into()
            }
        };
        taken.remember(&claims);
        let used = |scope| claims.iter().any(|claim: &Claim| claim.uses.has(scope));
        let cluster = selection.cluster.filter(|_| used(PoolScope::Cluster));
        let local = selection.local.filter(|_| used(PoolScope::Local));
        PortPlan { owner, cluster, local, facts, claims, endpoints: endpoints.len(), serving }
    }

    fn site(&self) -> Site<'_> {
        Site {
            node: &self.plan.node,
            ips: self.ips,
            node_ports: &self.addresses,
            external_ips: &self.view.external_ips,
        }
    }
}

fn owner(name: &ServiceName, port: &ServicePort) -> ServicePortName {
    ServicePortName { service: name.clone(), port: port.name.clone(), protocol: port.protocol }
}

fn ports(plan: Option<&ServicePlan>) -> &[PortPlan] {
    plan.map_or(&[], |plan| &plan.ports)
}

/// Whether both claim the same with the same seniority, so that nothing is to be settled again.
fn have_same_claims(was: Option<&ServicePlan>, now: Option<&ServicePlan>) -> bool {
    let (Some(was), Some(now)) = (was, now) else { return false };
    was.service.created == now.service.created
        && was.ports.len() == now.ports.len()
        && was
            .ports
            .iter()
            .zip(&now.ports)
            .all(|(was, now)| Arc::ptr_eq(&was.claims, &now.claims) || was.claims == now.claims)
}

/// The keys that earlier ports of a Service claim: two ports may both stand for a whole address, and the first does.
/// They are gathered only once a port asks, which ports that take their claims over do not.
#[derive(Default)]
struct TakenKeys {
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

/// Which policies of a port want local endpoints and find none, though there are some elsewhere.
fn lacking_local_endpoints(
    service: &Service,
    port: &ServicePort,
    family: IpFamily,
    facts: Facts,
) -> NoLocalEndpoints {
    let lacks = facts.any && !facts.local;
    let internal = service.internal_policy == TrafficPolicy::Local;
    let external =
        service.external_policy == TrafficPolicy::Local && service.is_externally_accessible(port, family);
    NoLocalEndpoints { internal: usize::from(lacks && internal), external: usize::from(lacks && external) }
}

fn counted(ports: NoLocalEndpoints, node: &NodeTraffic) -> NoLocalEndpoints {
    if node.quirks.has(Quirk::CountServicesWithoutLocalEndpoints) {
        NoLocalEndpoints { internal: ports.internal.min(1), external: ports.external.min(1) }
    } else {
        ports
    }
}
