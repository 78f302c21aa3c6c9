//! Why a Service, a frontend or a packet is treated as it is, worked out on demand.
//!
//! Repeats the planner's own steps with a sink that keeps their [reasons](crate::reasons), so an answer cannot differ from
//! the plan. Planning itself keeps none. The text of an answer is in `explain/text.rs`.

mod gathered;
mod text;

use std::net::IpAddr;
use std::sync::Arc;

use ferrule_model::{
    Cluster, Conditions, Diagnostic, EndpointSlice, IpFamily, ObjectKind, Service, ServiceName, ServicePort,
    ServicePortName, ServiceState, merged,
};

use gathered::{Gathered, SeenEndpoint};

use crate::frontends::NodeContext;
use crate::node_traffic::{node_ips, node_port_addresses};
use crate::planner::owner;
use crate::port_plan::{Before, PortInput, TakenKeys, plan_port};
use crate::topology::NodeLocation;
use crate::{
    Excluded, FamilyPlan, Frontend, FrontendKey, HintDecision, Holder, Membership, NodePlan, NodeView,
    Packet, PoolScope, ShapeReason, Trace, UnclaimedFrontend, trace,
};

/// Answers questions about a cluster and the plan that was made of it.
#[derive(Clone, Copy, Debug)]
pub struct Explainer<'a> {
    /// What the cluster says.
    pub cluster: &'a Cluster,
    /// How this node is run.
    pub view: &'a NodeView,
    /// The plan made of both. One that is older than the cluster gives answers that are true of neither.
    pub plan: &'a NodePlan,
    /// Fields and objects that could not be used. What is in them never reached the cluster.
    pub diagnostics: &'a [Diagnostic],
}

/// Why a Service is served as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceReasons {
    /// The Service.
    pub name: ServiceName,
    /// IPv4 first.
    pub families: [FamilyReasons; 2],
    /// What of the Service and its slices could not be used.
    pub unusable: Vec<Diagnostic>,
}

/// Why a Service is served as it is in one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyReasons {
    /// The family.
    pub family: IpFamily,
    /// Why it is not served at all, if so.
    pub not_served: Option<NotServed>,
    /// Its ports, ordered by name and protocol.
    pub ports: Vec<PortReasons>,
}

/// Why a Service is not served in a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotServed {
    /// The Service has no cluster IP of the family.
    NoClusterIp,
    /// This node does not serve the family, or did not plan it yet.
    FamilyOff,
}

/// Why one port of a Service is served as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortReasons {
    /// The Service port.
    pub owner: ServicePortName,
    /// Which hints the cluster pool follows; `None` without such a pool.
    pub hints: Option<HintDecision>,
    /// All its endpoints, those that count first and in the order of the pools.
    pub endpoints: Vec<EndpointReasons>,
    /// The frontends it claims.
    pub frontends: Vec<FrontendReasons>,
    /// Addresses and ports that the Service asks for and that became no frontend of this port.
    pub unclaimed: Vec<UnclaimedFrontend>,
    /// Whether source ranges are not enforced because there is no endpoint:
    /// [`Quirk::RangesIgnoredWithoutEndpoints`](crate::Quirk::RangesIgnoredWithoutEndpoints).
    pub source_ranges_ignored: bool,
}

/// Why an endpoint is used or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointReasons {
    /// Where it is.
    pub ip: IpAddr,
    /// The number it listens on; `None` if its slice has no such port.
    pub port: Option<u16>,
    /// Whether it is on this node.
    pub is_local: bool,
    /// How it is.
    pub conditions: Conditions,
    /// Whether it is in the cluster pool.
    pub cluster: Membership,
    /// Whether it is in the local pool.
    pub local: Membership,
}

/// Why a frontend treats traffic as it does, and who has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontendReasons {
    /// The address or port.
    pub key: FrontendKey,
    /// What the Service wants it to be.
    pub frontend: Arc<Frontend>,
    /// Why it has that shape.
    pub why: ShapeReason,
    /// Who has it.
    pub holder: Holder,
}

/// Why a packet is treated as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketReasons {
    /// What becomes of it, and by which rule.
    pub trace: Trace,
    /// The frontend it meets, if any.
    pub frontend: Option<FrontendReasons>,
}

impl EndpointReasons {
    /// Whether it is in a pool.
    pub fn membership(&self, scope: PoolScope) -> Membership {
        match scope {
            PoolScope::Cluster => self.cluster,
            PoolScope::Local => self.local,
        }
    }
}

impl Explainer<'_> {
    /// Why a Service is served as it is; `None` if there is no such Service.
    pub fn service(&self, name: &ServiceName) -> Option<ServiceReasons> {
        let state = self.cluster.service(name)?;
        let service = state.service()?;
        let asked = Asked { name, state, service };
        let families = IpFamily::BOTH.map(|family| self.family(asked, family));
        Some(ServiceReasons { name: name.clone(), families, unusable: self.unusable(name, state) })
    }

    /// Why the holder of a frontend has it and treats traffic as it does; `None` if no Service has it.
    pub fn frontend(&self, family: IpFamily, key: &FrontendKey) -> Option<FrontendReasons> {
        let holder = self.plan.families.get(family)?.frontend(key)?;
        let [v4, v6] = self.service(&holder.owner.service)?.families;
        let reasons = match family {
            IpFamily::V4 => v4,
            IpFamily::V6 => v6,
        };
        let mut frontends = reasons.ports.into_iter().flat_map(|port| port.frontends);
        frontends.find(|found| found.key == *key && found.frontend.owner == holder.owner)
    }

    /// Why a packet is treated as it is; `None` if its family is not served.
    pub fn packet(&self, packet: &Packet) -> Option<PacketReasons> {
        let family = IpFamily::of(packet.to);
        let trace = trace(self.plan.families.get(family)?, packet);
        let key = trace.decided_by.frontend(packet);
        let frontend = key.and_then(|key| self.frontend(family, &key));
        Some(PacketReasons { trace, frontend })
    }

    fn unusable(&self, name: &ServiceName, state: &ServiceState) -> Vec<Diagnostic> {
        let is_about = |diagnostic: &&Diagnostic| match diagnostic.kind {
            ObjectKind::Service | ObjectKind::Endpoints => diagnostic.object == name.as_str(),
            ObjectKind::EndpointSlice => state.slice_names().any(|slice| slice.as_str() == diagnostic.object),
            ObjectKind::Node | ObjectKind::ServiceCidr => false,
        };
        self.diagnostics.iter().filter(is_about).cloned().collect()
    }
}

/// The Service in question.
#[derive(Clone, Copy)]
struct Asked<'a> {
    name: &'a ServiceName,
    state: &'a ServiceState,
    service: &'a Service,
}

impl Explainer<'_> {
    fn family(&self, asked: Asked<'_>, family: IpFamily) -> FamilyReasons {
        let plan = self.plan.families.get(family);
        let (not_served, ports) = match (plan, asked.service.cluster_ips.get(family)) {
            (Some(plan), Some(_)) => (None, self.ports(asked, plan)),
            (Some(_), None) => (Some(NotServed::NoClusterIp), ports_not_served(asked, family)),
            (None, _) => (Some(NotServed::FamilyOff), ports_not_served(asked, family)),
        };
        FamilyReasons { family, not_served, ports }
    }

    fn ports(&self, asked: Asked<'_>, plan: &FamilyPlan) -> Vec<PortReasons> {
        let ips = node_ips(self.cluster, self.view);
        let zone = self.cluster.node().and_then(|node| node.zone.as_ref());
        let context = NodeContext {
            node: &plan.node,
            location: NodeLocation { node: &self.view.name, zone },
            ips,
            node_ports: &node_port_addresses(&ips, self.view, plan.node.family),
            external_ips: &self.view.external_ips,
        };
        let Asked { name, state, service } = asked;
        let mut taken = TakenKeys::default();
        let port = |port| {
            let input = PortInput { owner: owner(name, port), state, service, port };
            let mut gathered = Gathered::default();
            let before = Before { was: None, taken: &mut taken };
            let planned = plan_port(input, context, before, &mut gathered);
            let mut endpoints = gathered.endpoint_reasons();
            endpoints.extend(without_port(state.slices(plan.node.family), port));
            let holder = |key: &FrontendKey| plan.holder(key, name);
            let frontends = gathered.frontends.into_iter().map(|(claim, why)| FrontendReasons {
                holder: holder(&claim.key),
                key: claim.key,
                frontend: claim.frontend,
                why,
            });
            PortReasons {
                owner: planned.owner,
                hints: gathered.hints,
                endpoints,
                frontends: frontends.collect(),
                unclaimed: gathered.unclaimed,
                source_ranges_ignored: gathered.source_ranges_ignored,
            }
        };
        service.ports.iter().map(port).collect()
    }
}

/// Endpoints of slices that do not serve a port.
fn without_port<'a>(
    slices: impl Iterator<Item = &'a EndpointSlice>,
    port: &ServicePort,
) -> impl Iterator<Item = EndpointReasons> {
    let others = slices.filter(|slice| slice.ports_for(&port.name, port.protocol).is_empty());
    let why = Membership::Out(Excluded::NoSuchPort);
    others.flat_map(|slice| &slice.endpoints).map(move |endpoint| EndpointReasons {
        ip: endpoint.ip,
        port: None,
        is_local: endpoint.is_local,
        conditions: endpoint.conditions,
        cluster: why,
        local: why,
    })
}

/// The ports of a Service in a family in which it is not served.
fn ports_not_served(asked: Asked<'_>, family: IpFamily) -> Vec<PortReasons> {
    let why = Membership::Out(Excluded::FamilyNotServed);
    let port = |port: &ServicePort| {
        let merged = merged(asked.state.slices(family), &port.name, port.protocol);
        let endpoints = merged.iter().map(|endpoint| SeenEndpoint::new(endpoint).with(why, why));
        let endpoints = endpoints.chain(without_port(asked.state.slices(family), port)).collect();
        PortReasons {
            owner: owner(asked.name, port),
            hints: None,
            endpoints,
            frontends: Vec::new(),
            unclaimed: Vec::new(),
            source_ranges_ignored: false,
        }
    };
    asked.service.ports.iter().map(port).collect()
}
