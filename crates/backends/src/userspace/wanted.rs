//! What a plan asks of userspace mode: sockets, the rules that lead to them, and ports that must be ours.
//!
//! Pure. Which port a socket gets is not known here: see [`super::portals`] and [`super::rules`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ferrule_model::{Protocol, ServicePortName};
use ferrule_plan::{
    FamilyPlan, Frontend, FrontendKey, FrontendKind, LocalPods, NodePortScope, Outsiders, Pool, PoolScope,
    Shape,
};
use ipnet::IpNet;

use super::portals::PortalKey;

/// A socket of ours.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PortalId {
    /// That of a Service port; a second one if policies tell traffic apart.
    Service(ServicePortName, PoolScope),
    /// Closes every connection, and never answers a datagram. For what a policy or source ranges refuse.
    Refusing(Protocol),
}

impl PortalId {
    pub(crate) fn protocol(&self) -> Protocol {
        match self {
            Self::Service(owner, _) => owner.protocol,
            Self::Refusing(protocol) => *protocol,
        }
    }
}

impl PortalKey for PortalId {
    fn owner(&self) -> Option<&ServicePortName> {
        match self {
            Self::Service(owner, _) => Some(owner),
            Self::Refusing(_) => None,
        }
    }
}

/// What is behind a socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortalSpec {
    pub endpoints: Vec<SocketAddr>,
    /// How long a client stays with its endpoint, if it does.
    pub affinity: Option<Duration>,
}

impl PortalSpec {
    pub(crate) fn of_pool(pool: Option<&Pool>) -> Self {
        let Some(pool) = pool else { return Self::default() };
        let endpoints = pool.endpoints.iter().map(|endpoint| SocketAddr::new(endpoint.ip, endpoint.port));
        let affinity = pool.affinity_seconds.map(|seconds| Duration::from_secs(seconds.into()));
        Self { endpoints: endpoints.collect(), affinity }
    }
}

/// A rule that leads to a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub owner: ServicePortName,
    pub at: Destination,
    pub path: Path,
    pub from: Source,
    pub to: PortalId,
}

/// What packets are sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// A cluster IP or a load balancer's address.
    Address(IpAddr, u16),
    /// An external IP: only packets from outside, or if the node has the address.
    ExternalIp(IpAddr, u16),
    /// A port of one of the node's addresses, or of all.
    NodePort(Option<IpAddr>, u16),
}

/// Where packets come from, as the kernel sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
    /// Other hosts and pods.
    Container,
    /// This host.
    Host,
}

/// Whose packets. Everybody's if neither is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Source {
    pub block: Option<IpNet>,
    /// The interface they come in on.
    pub pods: Option<PodInterface>,
}

/// How local pods are recognized by their interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PodInterface {
    Named(String),
    Prefix(String),
}

/// A port of the host that no other process may use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Claim {
    /// All addresses if there is none.
    pub address: Option<IpAddr>,
    pub protocol: Protocol,
    pub port: u16,
}

/// Everything a plan asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub portals: BTreeMap<PortalId, PortalSpec>,
    /// In the order of their rules.
    pub routes: Vec<Route>,
    /// With the Service port that wants it.
    pub claims: BTreeMap<Claim, ServicePortName>,
    /// Service ports whose protocol is not relayed.
    pub unserved: BTreeSet<ServicePortName>,
}

impl Wanted {
    pub(super) fn from_plan(plan: &FamilyPlan) -> Self {
        let mut wanted = Self::default();
        for (key, frontend) in plan.frontends() {
            if frontend.owner.protocol == Protocol::Sctp {
                wanted.unserved.insert(frontend.owner.clone());
            } else {
                wanted.add(plan, key, frontend);
            }
        }
        wanted
    }

    fn add(&mut self, plan: &FamilyPlan, key: &FrontendKey, frontend: &Frontend) {
        let targets = Targets { plan, frontend }.all(*key);
        // However its packets are distinguished, a Service port has its socket.
        let own = PortalId::Service(frontend.owner.clone(), PoolScope::Cluster);
        for portal in targets.iter().map(|(.., to)| to).chain([&own]) {
            self.portals.entry(portal.clone()).or_insert_with(|| spec(plan, portal));
        }
        for at in destinations(plan, key, frontend) {
            self.claims.extend(claim(plan, at, frontend).map(|claim| (claim, frontend.owner.clone())));
            self.routes.extend(targets.iter().cloned().map(|(path, from, to)| Route {
                owner: frontend.owner.clone(),
                at,
                path,
                from,
                to,
            }));
        }
    }
}

/// What is behind a socket according to a plan.
pub(super) fn spec(plan: &FamilyPlan, portal: &PortalId) -> PortalSpec {
    match portal {
        PortalId::Service(owner, scope) => {
            let mut spec = PortalSpec::of_pool(plan.pool(owner, *scope).map(|pool| &**pool));
            spec.endpoints.retain(|endpoint| !leads_back(plan, owner.protocol, *endpoint));
            spec
        }
        PortalId::Refusing(_) => PortalSpec::default(),
    }
}

/// Whether connections to an endpoint would be redirected to this process, which would connect again, and so on.
fn leads_back(plan: &FamilyPlan, protocol: Protocol, endpoint: SocketAddr) -> bool {
    let (ip, port) = (endpoint.ip(), endpoint.port());
    let is_node_port = || {
        plan.node.host_addresses.contains(&ip)
            && plan.frontend(&FrontendKey::NodePort(protocol, port)).is_some()
    };
    plan.frontend(&FrontendKey::Address(ip, protocol, port)).is_some() || is_node_port()
}

/// The addresses and ports that a frontend stands for in rules.
fn destinations(plan: &FamilyPlan, key: &FrontendKey, frontend: &Frontend) -> Vec<Destination> {
    let everywhere = |scope: &NodePortScope, port| match scope {
        NodePortScope::All => vec![Destination::NodePort(None, port)],
        NodePortScope::Only(addresses) => {
            addresses.iter().map(|ip| Destination::NodePort(Some(*ip), port)).collect()
        }
    };
    match *key {
        FrontendKey::Address(ip, _, port) => match frontend.kind {
            FrontendKind::ExternalIp => vec![Destination::ExternalIp(ip, port)],
            FrontendKind::ClusterIp | FrontendKind::LoadBalancer { .. } | FrontendKind::NodePort => {
                vec![Destination::Address(ip, port)]
            }
        },
        FrontendKey::NodePort(_, port) => everywhere(&plan.node.node_port_addresses, port),
        // A rule for all local addresses is about loopback ones, too.
        FrontendKey::LoopbackNodePort(_, port) => match plan.node.node_port_addresses {
            NodePortScope::All => Vec::new(),
            NodePortScope::Only(_) => everywhere(&plan.node.loopback_addresses, port),
        },
        FrontendKey::UnmatchedPorts(_) => Vec::new(),
    }
}

/// The port of the host that a destination takes, if it takes one.
fn claim(plan: &FamilyPlan, at: Destination, frontend: &Frontend) -> Option<Claim> {
    let protocol = frontend.owner.protocol;
    match at {
        Destination::NodePort(address, port) => Some(Claim { address, protocol, port }),
        Destination::Address(ip, port) | Destination::ExternalIp(ip, port) => {
            let is_ours = plan.node.host_addresses.contains(&ip);
            is_ours.then_some(Claim { address: Some(ip), protocol, port })
        }
    }
}

/// The sockets that a frontend's packets go to.
struct Targets<'a> {
    plan: &'a FamilyPlan,
    frontend: &'a Frontend,
}

impl Targets<'_> {
    /// In the order in which they are tried.
    fn all(&self, key: FrontendKey) -> Vec<(Path, Source, PortalId)> {
        let from_outside = self.for_outsiders().into_iter().map(|(from, to)| (Path::Container, from, to));
        let from_host = (Path::Host, Source::default(), self.for_host());
        let mut all: Vec<_> = from_outside.chain([from_host]).collect();
        // Only this host can send to a loopback address.
        if matches!(key, FrontendKey::LoopbackNodePort(..)) {
            all.retain(|(path, ..)| *path == Path::Host);
        }
        let Some(ranges) = self.frontend.source_ranges() else { return all };
        let mut within = Vec::new();
        for (path, from, to) in all {
            let blocks = ranges.iter().filter_map(|range| both(from.block, *range));
            within.extend(
                blocks
                    .map(|block| (path, Source { block: Some(block), pods: from.pods.clone() }, to.clone())),
            );
        }
        for path in [Path::Container, Path::Host] {
            within.push((path, Source::default(), self.refusing()));
        }
        within
    }

    fn for_outsiders(&self) -> Vec<(Source, PortalId)> {
        match self.frontend.shape {
            Shape::Refuse(_) => vec![(Source::default(), self.refused())],
            Shape::OnePool { pool, .. } => vec![(Source::default(), self.pool(pool))],
            Shape::ShortCircuit { outsiders } => {
                let others = match outsiders {
                    Outsiders::LocalPool => self.pool(PoolScope::Local),
                    Outsiders::Dropped => self.refusing(),
                };
                let pods = self.plan.node.local_pods.as_ref().map(local_pods);
                let pods = pods.map(|pods| (pods, self.pool(PoolScope::Cluster)));
                pods.into_iter().chain([(Source::default(), others)]).collect()
            }
        }
    }

    fn for_host(&self) -> PortalId {
        match self.frontend.shape {
            Shape::Refuse(_) => self.refused(),
            Shape::OnePool { pool, .. } => self.pool(pool),
            Shape::ShortCircuit { .. } => self.pool(PoolScope::Cluster),
        }
    }

    /// A Service port without endpoints keeps its socket, and its rules: endpoints come and go.
    fn refused(&self) -> PortalId {
        match self.plan.pool(&self.frontend.owner, PoolScope::Cluster) {
            None => self.pool(PoolScope::Cluster),
            Some(_) => self.refusing(),
        }
    }

    fn refusing(&self) -> PortalId {
        PortalId::Refusing(self.frontend.owner.protocol)
    }

    fn pool(&self, scope: PoolScope) -> PortalId {
        PortalId::Service(self.frontend.owner.clone(), scope)
    }
}

fn local_pods(pods: &LocalPods) -> Source {
    let on = |interface| Source { block: None, pods: Some(interface) };
    match pods {
        LocalPods::From(block) => Source { block: Some(*block), pods: None },
        LocalPods::ByInterface(name) => on(PodInterface::Named(name.clone())),
        LocalPods::ByInterfacePrefix(prefix) => on(PodInterface::Prefix(prefix.clone())),
    }
}

/// The addresses that are in both blocks: of two blocks, one is in the other, or they have none in common.
fn both(block: Option<IpNet>, range: IpNet) -> Option<IpNet> {
    match block {
        None => Some(range.trunc()),
        Some(block) if block.contains(&range) => Some(range.trunc()),
        Some(block) => range.contains(&block).then(|| block.trunc()),
    }
}
