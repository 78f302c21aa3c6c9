//! The steps from a cluster to a plan, in order.
//!
//! [`plan`] and [`replan`] never fail: they plan what they can and diagnose the rest. Both run the same code, so a plan that
//! was updated incrementally equals one made from scratch.

use std::collections::BTreeSet;
use std::sync::Arc;

use ferrule_model::{
    Cluster, Diagnostic, IpFamily, NodeIps, NodePortAddresses, ObjectKind, PerFamily, Problem, Service,
    ServiceName, ServicePort, ServicePortName, ServiceState, Touched, TrafficPolicy,
};

use crate::frontends::NodeContext;
use crate::health_checks::health_check;
use crate::ir::{PortPlan, ServicePlan};
use crate::node_traffic::{node_ips, node_port_addresses, node_traffic};
use crate::pools::Availability;
use crate::port_plan::{Before, PortInput, TakenKeys, plan_port};
use crate::reasons::NoReasons;
use crate::topology::NodeLocation;
use crate::{ExternalIps, FamilyPlan, NoLocalEndpoints, NodePlan, NodeTraffic, NodeView, PlanDelta, Quirk};

/// Plans everything.
pub fn plan(cluster: &Cluster, view: &NodeView) -> (NodePlan, Vec<Diagnostic>) {
    let mut plan = NodePlan::default();
    let everything = Touched { node: true, ..Touched::default() };
    let (_, diagnostics) = replan(&mut plan, cluster, &everything, view);
    (plan, diagnostics)
}

/// Plans the touched Services again, in place, and says what differs.
///
/// If `view` differs from the last call, `touched.node` must be set. A change of the node or of the service ranges plans every
/// Service again; the delta still has only what differs.
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
    /// Whether the node itself may have changed, so that no claims can be reused.
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
        self.delta.complete(self.plan);
    }

    /// Diagnostics of conflicts: all of them if everything was planned, otherwise those of the touched Services and of
    /// frontends that changed owner.
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
        // Services are kept in no order.
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
        let was = self.replace(name, now);
        if same_claims {
            return;
        }
        if let Some(was) = was {
            self.plan.remove_claims(name, &was, &mut self.delta);
        }
        self.plan.add_claims(name, &mut self.delta);
    }

    /// Replaces a Service's plan; the old one is handed back.
    fn replace(&mut self, name: &ServiceName, now: Option<ServicePlan>) -> Option<ServicePlan> {
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
            self.delta.note_hairpins(Some(port), now);
        }
        let is_new = |port: &&PortPlan| was.and_then(|plan| plan.port(&port.owner)).is_none();
        for port in ports_now.iter().filter(is_new) {
            self.delta.note_pools(None, Some(port));
            self.delta.note_stale_flows(None, Some(port));
            self.delta.note_hairpins(None, Some(port));
        }
        if let (Some(was), Some(now)) = (was, now) {
            let policies = |service: &Service| (service.affinity_seconds, service.external_policy);
            if policies(&was.service) != policies(&now.service) {
                self.delta.policies.insert(name.clone());
            }
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
        // With the same fields on the same node, a port's frontends are the same if it has endpoints where it had some, and if the ports
        // before it, which come first where both claim a key, claim what they did.
        let mut reusable = was.filter(|was| !self.everything && Arc::ptr_eq(&was.service, service));
        let mut ports: Vec<PortPlan> = Vec::with_capacity(service.ports.len());
        let mut lacking = NoLocalEndpoints::default();
        let mut taken = TakenKeys::default();
        let context = self.context();
        for (at, port) in service.ports.iter().enumerate() {
            let was = reusable.and_then(|was| was.ports.get(at));
            let owner = was.map_or_else(|| owner(name, port), |was| was.owner.clone());
            let input = PortInput { owner, state, service, port };
            let before = Before { was, taken: &mut taken };
            let planned = plan_port(input, context, before, &mut NoReasons);
            let lacks = lacking_local_endpoints(service, port, family, planned.available);
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

    fn context(&self) -> NodeContext<'_> {
        let zone = self.cluster.node().and_then(|node| node.zone.as_ref());
        NodeContext {
            node: &self.plan.node,
            location: NodeLocation { node: &self.view.name, zone },
            ips: self.ips,
            node_ports: &self.addresses,
            external_ips: &self.view.external_ips,
        }
    }
}

pub(crate) fn owner(name: &ServiceName, port: &ServicePort) -> ServicePortName {
    ServicePortName { service: name.clone(), port: port.name.clone(), protocol: port.protocol }
}

fn ports(plan: Option<&ServicePlan>) -> &[PortPlan] {
    plan.map_or(&[], |plan| &plan.ports)
}

/// Whether both claim the same with the same age, so that no conflict needs to be resolved again.
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

/// Which policies of a port want local endpoints and find none, though there are some elsewhere.
fn lacking_local_endpoints(
    service: &Service,
    port: &ServicePort,
    family: IpFamily,
    available: Availability,
) -> NoLocalEndpoints {
    let lacks = available.any && !available.local;
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
