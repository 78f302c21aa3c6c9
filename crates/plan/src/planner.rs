//! The order of the steps from a cluster to a plan, and nothing else.
//!
//! [`plan`] and [`replan`] never fail: they plan what they can and diagnose the rest. Both take the same road, so that
//! a plan changed step by step equals one made afresh.

use std::collections::BTreeSet;

use ferrule_model::{
    Cluster, Diagnostic, IpFamily, NodeIps, NodePortAddresses, PerFamily, Protocol, Service, ServiceName,
    ServicePort, ServicePortName, ServiceState, Touched, TrafficPolicy, merged,
};

use crate::frontends::{PortInput, Site, claims};
use crate::health_checks::health_check;
use crate::ir::{PortPlan, ServicePlan};
use crate::node_traffic::{node_ips, node_port_addresses, node_traffic};
use crate::pools::{Needs, Selection, select, serving};
use crate::topology::Place;
use crate::{
    FamilyPlan, FrontendKey, NoLocalEndpoints, NodePlan, NodeTraffic, NodeView, PlanDelta, PoolScope, Quirk,
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
/// A change of the node or of the service ranges is about everything, so it looks at every Service; still only what
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
    for family in IpFamily::BOTH.into_iter().filter(|family| view.families.contains(family)) {
        let addresses = node_port_addresses(&ips, view, family);
        let slot = plan.families.slot(family);
        let is_new = slot.is_none();
        let family_plan =
            slot.get_or_insert_with(|| FamilyPlan::empty(node_traffic(cluster, view, &addresses)));
        let mut replanning =
            Replanning { plan: family_plan, cluster, view, ips, addresses, delta: PlanDelta::default() };
        replanning.delta.node = is_new;
        if touched.node || touched.service_cidrs || is_new {
            replanning.everything();
        } else {
            replanning.services(touched.services.iter());
        }
        let concerned = |name: &ServiceName| is_new || touched.node || touched.services.contains(name);
        diagnostics.extend(replanning.plan.conflicts(concerned));
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

    fn service(&mut self, name: &ServiceName) {
        let mut now = self.cluster.service(name).and_then(|state| self.plan_service(name, state));
        let was = self.plan.services.remove(name);
        if was == now {
            self.plan.services.extend(was.map(|was| (name.clone(), was)));
            return;
        }
        self.note_differences(name, was.as_ref(), now.as_ref());
        let same_claims = keep_equal_claims(was.as_ref(), now.as_mut());
        if let Some(was) = was.as_ref().filter(|_| !same_claims) {
            self.plan.withdraw(name, was, &mut self.delta);
        }
        let Some(now) = now else { return };
        let staked = (!same_claims).then(|| now.clone());
        self.plan.services.insert(name.clone(), now);
        if let Some(staked) = staked {
            self.plan.stake(name, &staked, &mut self.delta);
        }
    }

    fn note_differences(&mut self, name: &ServiceName, was: Option<&ServicePlan>, now: Option<&ServicePlan>) {
        let ports = |plan: Option<&ServicePlan>| -> BTreeSet<ServicePortName> {
            plan.map_or_else(BTreeSet::new, |plan| plan.ports.iter().map(|port| port.owner.clone()).collect())
        };
        for owner in ports(was).union(&ports(now)) {
            let was = was.and_then(|plan| plan.port(owner));
            let now = now.and_then(|plan| plan.port(owner));
            self.delta.note_pools(was, now);
            self.delta.note_stale_flows(was, now);
        }
        let health_check = |plan: Option<&ServicePlan>| plan.and_then(|plan| plan.health_check);
        self.delta.note_health_check(name, health_check(was), health_check(now));
        let counts = &mut self.plan.no_local_endpoints;
        let count = |plan: Option<&ServicePlan>| plan.map(|plan| plan.no_local_endpoints).unwrap_or_default();
        counts.internal = counts.internal + count(now).internal - count(was).internal;
        counts.external = counts.external + count(now).external - count(was).external;
    }

    fn plan_service(&self, name: &ServiceName, state: &ServiceState) -> Option<ServicePlan> {
        let service = state.service()?;
        let family = self.plan.node.family;
        service.cluster_ips.get(family)?;
        let mut ports: Vec<PortPlan> = Vec::with_capacity(service.ports.len());
        let mut lacking = NoLocalEndpoints::default();
        for port in &service.ports {
            let (planned, lacks) = self.plan_port(name, service, port, state);
            lacking.internal += lacks.internal;
            lacking.external += lacks.external;
            ports.push(without_claims_of(planned, &ports));
        }
        Some(ServicePlan {
            created: service.created,
            ports: ports.into_boxed_slice(),
            health_check: health_check(state, family),
            no_local_endpoints: counted(lacking, &self.plan.node),
        })
    }

    fn plan_port(
        &self,
        name: &ServiceName,
        service: &Service,
        port: &ServicePort,
        state: &ServiceState,
    ) -> (PortPlan, NoLocalEndpoints) {
        let family = self.plan.node.family;
        let owner =
            ServicePortName { service: name.clone(), port: port.name.clone(), protocol: port.protocol };
        let endpoints = merged(state.slices(family), &port.name, port.protocol);
        let zone = self.cluster.node().and_then(|node| node.zone.as_ref());
        let place = Place { node: &self.view.name, zone };
        let selection = select(&endpoints, Needs::of(service, port, family), place);
        let site = Site {
            node: &self.plan.node,
            ips: self.ips,
            node_ports: &self.addresses,
            allow_external_ips: self.view.allow_external_ips,
        };
        let claims = claims(PortInput { owner: &owner, service, port, selection: &selection }, site);
        let lacking = lacking_local_endpoints(service, port, family, &selection);
        let serving = if port.protocol == Protocol::Udp { serving(&endpoints) } else { Box::default() };
        let used = |scope| claims.iter().any(|(_, frontend)| frontend.rules.use_pool(scope));
        let cluster = selection.cluster.filter(|_| used(PoolScope::Cluster));
        let local = selection.local.filter(|_| used(PoolScope::Local));
        (PortPlan { owner, cluster, local, claims: claims.into_boxed_slice(), serving }, lacking)
    }
}

/// If both claim the same, the new one takes over the old one's frontends, and nothing is to be settled again.
fn keep_equal_claims(was: Option<&ServicePlan>, now: Option<&mut ServicePlan>) -> bool {
    let (Some(was), Some(now)) = (was, now) else { return false };
    let claims = |plan: &ServicePlan| plan.ports.iter().map(|port| port.claims.len()).collect::<Vec<_>>();
    let same = was.created == now.created
        && claims(was) == claims(now)
        && was.ports.iter().zip(&now.ports).all(|(was, now)| was.claims == now.claims);
    if same {
        for (was, now) in was.ports.iter().zip(&mut now.ports) {
            now.claims.clone_from(&was.claims);
        }
    }
    same
}

/// Two ports of one Service may both stand for a whole address; the first one does.
fn without_claims_of(mut port: PortPlan, earlier: &[PortPlan]) -> PortPlan {
    let taken = |key: &FrontendKey| {
        earlier.iter().any(|other| other.claims.iter().any(|(claimed, _)| claimed == key))
    };
    if port.claims.iter().any(|(key, _)| taken(key)) {
        port.claims = port.claims.iter().filter(|(key, _)| !taken(key)).cloned().collect();
    }
    port
}

/// Which policies of a port want local endpoints and find none, though there are some elsewhere.
fn lacking_local_endpoints(
    service: &Service,
    port: &ServicePort,
    family: IpFamily,
    selection: &Selection,
) -> NoLocalEndpoints {
    let lacks = selection.any && selection.local.is_none();
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
