//! What one family's kernel objects should be, and how a change of the plan changes it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ferrule_kernel::dummy::can_be_served;
use ferrule_kernel::ipset::SetEntry;
use ferrule_kernel::ipvs::{VirtualServer, VirtualServerId};
use ferrule_model::{Protocol, ServicePortName, TrafficPolicy};
use ferrule_plan::{
    FamilyPlan, Frontend, FrontendKey, FrontendKind, NodePortScope, PlanDelta, Pool, Replaced, Shape,
};

use super::rules::{ClosedToNode, RuleInput};
use super::sets::{AddressSet, SETS};

/// A client stays with its real server.
const PERSISTENT: u32 = 0x1;
/// Scheduler `mh`: the hash covers the client's port.
const HASH_PORTS: u32 = 0x10;

/// Where name servers answer.
const DNS_PORT: u16 = 53;

/// What there should be.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    scheduler: Arc<str>,
    /// What each frontend asks for, so that it can be taken back.
    frontends: HashMap<FrontendKey, Objects>,
    /// By virtual server, the frontends that ask for it. The first has it: an external address of the node may have the port of a
    /// NodePort.
    services: BTreeMap<VirtualServerId, Vec<(FrontendKey, WantedService)>>,
    /// With the number of those that ask for an entry.
    sets: [BTreeMap<SetEntry, u32>; SETS],
    addresses: BTreeSet<IpAddr>,
    closed_to_node: Arc<BTreeSet<ClosedToNode>>,
    /// By frontend: the address of the node, and whose Service has it.
    on_node: BTreeMap<FrontendKey, (IpAddr, ServicePortName)>,
    /// The frontends that are served first.
    urgent: BTreeSet<FrontendKey>,
}

/// A virtual server that should be there.
#[derive(Clone, Debug)]
pub(super) struct WantedService {
    pub server: VirtualServer,
    pub pool: Option<Arc<Pool>>,
}

/// What changed, so that nothing else need be compared.
#[derive(Debug, Default)]
pub(super) struct Touched {
    pub services: BTreeSet<VirtualServerId>,
    pub entries: BTreeSet<(AddressSet, SetEntry)>,
    pub addresses: BTreeSet<IpAddr>,
}

/// What one frontend asks for.
#[derive(Debug, Default)]
struct Objects {
    services: Vec<VirtualServerId>,
    entries: Vec<(AddressSet, SetEntry)>,
    address: Option<IpAddr>,
    closed_to_node: Option<ClosedToNode>,
}

impl WantedService {
    /// Where its connections go.
    pub(super) fn real_servers(&self) -> impl Iterator<Item = SocketAddr> {
        let endpoints = self.pool.iter().flat_map(|pool| pool.endpoints.iter());
        endpoints.map(|endpoint| SocketAddr::new(endpoint.ip, endpoint.port))
    }

    /// Whether this is one of them.
    pub(super) fn has_server(&self, server: &SocketAddr) -> bool {
        self.real_servers().any(|wanted| wanted == *server)
    }
}

impl Wanted {
    /// Everything a plan asks for.
    pub(super) fn from_plan(plan: &FamilyPlan, scheduler: &Arc<str>) -> Self {
        let mut wanted = Self { scheduler: Arc::clone(scheduler), ..Self::default() };
        let mut touched = Touched::default();
        for (key, frontend) in plan.frontends() {
            wanted.set_frontend(plan, *key, Some(frontend), &mut touched);
        }
        for port in plan.ports() {
            wanted.count_hairpins(port.owner().protocol, port.hairpins(), Count::Up, &mut touched);
        }
        for check in plan.health_checks().values() {
            wanted.count(
                AddressSet::HealthCheckNodePort,
                SetEntry::Port(check.port),
                Count::Up,
                &mut touched,
            );
        }
        wanted
    }

    /// Applies a change of the plan; the node is the same.
    pub(super) fn apply(&mut self, plan: &FamilyPlan, delta: &PlanDelta) -> Touched {
        let mut touched = Touched::default();
        for (key, Replaced { now, .. }) in &delta.frontends {
            self.set_frontend(plan, *key, now.as_ref(), &mut touched);
        }
        for (owner, Replaced { was, now }) in &delta.hairpins {
            // Up first, so that what stays is never gone.
            self.count_hairpins(owner.protocol, now.as_deref().unwrap_or_default(), Count::Up, &mut touched);
            self.count_hairpins(
                owner.protocol,
                was.as_deref().unwrap_or_default(),
                Count::Down,
                &mut touched,
            );
        }
        for Replaced { was, now } in delta.health_checks.values() {
            let set = AddressSet::HealthCheckNodePort;
            if let Some(check) = now {
                self.count(set, SetEntry::Port(check.port), Count::Up, &mut touched);
            }
            if let Some(check) = was {
                self.count(set, SetEntry::Port(check.port), Count::Down, &mut touched);
            }
        }
        touched
    }

    /// A virtual server, if it should be there.
    pub(super) fn service(&self, id: &VirtualServerId) -> Option<&WantedService> {
        self.services.get(id)?.first().map(|(_, service)| service)
    }

    /// All virtual servers.
    pub(super) fn services(&self) -> impl Iterator<Item = (&VirtualServerId, &WantedService)> {
        self.services.iter().filter_map(|(id, claims)| Some((id, &claims.first()?.1)))
    }

    /// The virtual servers at an address.
    pub(super) fn services_at(&self, address: IpAddr) -> impl Iterator<Item = &VirtualServerId> {
        let at = |protocol, port| VirtualServerId { address, protocol, port };
        self.services.range(at(0, 0)..=at(u8::MAX, u16::MAX)).map(|(id, _)| id)
    }

    /// The virtual servers of a NodePort, one for each address.
    pub(super) fn node_port_servers(&self, protocol: Protocol, port: u16) -> &[VirtualServerId] {
        let objects = self.frontends.get(&FrontendKey::NodePort(protocol, port));
        objects.map_or(&[], |objects| objects.services.as_slice())
    }

    /// With the other virtual servers of their NodePorts: one entry of a set stands for all of these, so that without it none may
    /// be there.
    pub(super) fn with_siblings(&self, mut ids: BTreeSet<VirtualServerId>) -> BTreeSet<VirtualServerId> {
        let claims = ids.iter().filter_map(|id| self.services.get(id)).flatten();
        let is_node_port = |key: &&FrontendKey| matches!(key, FrontendKey::NodePort(..));
        let keys: BTreeSet<FrontendKey> = claims.map(|(key, _)| key).filter(is_node_port).copied().collect();
        let objects = keys.iter().filter_map(|key| self.frontends.get(key));
        ids.extend(objects.flat_map(|objects| objects.services.iter().copied()));
        ids
    }

    /// What is written first: nothing works without the API server and DNS.
    pub(super) fn urgent(&self) -> Touched {
        let mut touched = Touched::default();
        let addresses = self.urgent.iter().filter_map(|key| match key {
            FrontendKey::Address(address, ..) | FrontendKey::UnmatchedPorts(address) => Some(*address),
            FrontendKey::NodePort(..) | FrontendKey::LoopbackNodePort(..) => None,
        });
        // All of an address: it is bound for all of its ports at once.
        let addresses: BTreeSet<IpAddr> = addresses.collect();
        let ids = addresses.iter().flat_map(|address| self.services_at(*address));
        let claims = ids.filter_map(|id| self.services.get(id)).flatten().map(|(key, _)| *key);
        let keys: BTreeSet<FrontendKey> =
            claims.chain(addresses.iter().map(|address| FrontendKey::UnmatchedPorts(*address))).collect();
        for objects in keys.iter().filter_map(|key| self.frontends.get(key)) {
            touched.services.extend(&objects.services);
            touched.entries.extend(&objects.entries);
            touched.addresses.extend(objects.address);
        }
        touched
    }

    /// Whether a set should have an entry.
    pub(super) fn has_entry(&self, set: AddressSet, entry: &SetEntry) -> bool {
        self.sets[set.index()].contains_key(entry)
    }

    /// All entries of a set.
    pub(super) fn entries(&self, set: AddressSet) -> impl Iterator<Item = &SetEntry> {
        self.sets[set.index()].keys()
    }

    /// The addresses that should be on the interface.
    pub(super) fn addresses(&self) -> &BTreeSet<IpAddr> {
        &self.addresses
    }

    /// Addresses of Services that are addresses of this node, each with a Service that has it.
    pub(super) fn on_node(&self) -> impl Iterator<Item = &(IpAddr, ServicePortName)> {
        self.on_node.values()
    }

    /// What the rules depend on.
    pub(super) fn rule_input(&self) -> RuleInput {
        let filled = AddressSet::ALL.map(|set| !self.sets[set.index()].is_empty());
        RuleInput { filled, closed_to_node: Arc::clone(&self.closed_to_node) }
    }

    fn set_frontend(
        &mut self,
        plan: &FamilyPlan,
        key: FrontendKey,
        now: Option<&Arc<Frontend>>,
        touched: &mut Touched,
    ) {
        let objects = now.map(|frontend| objects(plan, key, frontend)).unwrap_or_default();
        for (set, entry) in &objects.entries {
            self.count(*set, *entry, Count::Up, touched);
        }
        let was = self.frontends.remove(&key).unwrap_or_default();
        self.take_back(key, was, touched);
        for id in &objects.services {
            if let Some(service) = now.map(|frontend| self.wanted_service(plan, *id, frontend)) {
                let claims = self.services.entry(*id).or_default();
                claims.push((key, service));
                claims.sort_unstable_by_key(|(key, _)| *key);
            }
            touched.services.insert(*id);
        }
        if let Some(address) = objects.address {
            self.addresses.insert(address);
            touched.addresses.insert(address);
        }
        if let Some(closed) = objects.closed_to_node {
            Arc::make_mut(&mut self.closed_to_node).insert(closed);
        }
        if let Some(frontend) = now {
            if is_urgent(key, frontend) {
                self.urgent.insert(key);
            }
            self.frontends.insert(key, objects);
            self.note_node_address(plan, key, frontend);
        }
    }

    fn note_node_address(&mut self, plan: &FamilyPlan, key: FrontendKey, frontend: &Frontend) {
        let is_external = match frontend.kind {
            FrontendKind::ExternalIp | FrontendKind::LoadBalancer { .. } => true,
            FrontendKind::ClusterIp | FrontendKind::NodePort => false,
        };
        if let FrontendKey::Address(address, ..) = key
            && is_external
            && plan.node.host_addresses.contains(&address)
        {
            self.on_node.insert(key, (address, frontend.owner.clone()));
        }
    }

    fn take_back(&mut self, key: FrontendKey, was: Objects, touched: &mut Touched) {
        for (set, entry) in was.entries {
            self.count(set, entry, Count::Down, touched);
        }
        for id in was.services {
            if let Some(claims) = self.services.get_mut(&id) {
                claims.retain(|(by, _)| *by != key);
                if claims.is_empty() {
                    self.services.remove(&id);
                }
            }
            touched.services.insert(id);
        }
        if let Some(address) = was.address {
            self.addresses.remove(&address);
            touched.addresses.insert(address);
        }
        if let Some(closed) = was.closed_to_node {
            Arc::make_mut(&mut self.closed_to_node).remove(&closed);
        }
        self.urgent.remove(&key);
        self.on_node.remove(&key);
    }

    fn wanted_service(&self, plan: &FamilyPlan, id: VirtualServerId, frontend: &Frontend) -> WantedService {
        let affinity = plan.port(&frontend.owner).and_then(|port| port.affinity_seconds());
        let mut flags = if affinity.is_some() { PERSISTENT } else { 0 };
        if &*self.scheduler == "mh" {
            flags |= HASH_PORTS;
        }
        let scope = match frontend.shape {
            Shape::OnePool { pool, .. } => Some(pool),
            // A virtual server has one pool: the planner makes no other shape for this mode.
            Shape::Refuse(_) | Shape::ShortCircuit { .. } => None,
        };
        let pool = scope.and_then(|scope| plan.pool(&frontend.owner, scope)).cloned();
        let timeout = affinity.unwrap_or_default();
        let server = VirtualServer { id, scheduler: Arc::clone(&self.scheduler), flags, timeout };
        WantedService { server, pool }
    }

    fn count_hairpins(
        &mut self,
        protocol: Protocol,
        endpoints: &[(IpAddr, u16)],
        count: Count,
        touched: &mut Touched,
    ) {
        for (ip, port) in endpoints.iter().copied() {
            let entry = SetEntry::IpPortIp { ip, protocol: protocol.number(), port, ip2: ip };
            self.count(AddressSet::LoopBack, entry, count, touched);
        }
    }

    fn count(&mut self, set: AddressSet, entry: SetEntry, count: Count, touched: &mut Touched) {
        let entries = &mut self.sets[set.index()];
        let users = entries.entry(entry).or_default();
        *users = match count {
            Count::Up => users.saturating_add(1),
            Count::Down => users.saturating_sub(1),
        };
        if *users == 0 {
            entries.remove(&entry);
        }
        touched.entries.insert((set, entry));
    }
}

/// The API server by its cluster IP, and DNS, whose Service has another name in some clusters.
fn is_urgent(key: FrontendKey, frontend: &Frontend) -> bool {
    let service = &frontend.owner.service;
    match (service.namespace(), service.name()) {
        ("default", "kubernetes") => true,
        ("kube-system", name) => name.contains("dns") || matches!(key, FrontendKey::Address(_, _, DNS_PORT)),
        _ => false,
    }
}

/// Whether one more or one less asks for an entry.
#[derive(Clone, Copy)]
enum Count {
    Up,
    Down,
}

/// What a frontend asks for. The entries of a restriction come with those that it restricts.
fn objects(plan: &FamilyPlan, key: FrontendKey, frontend: &Frontend) -> Objects {
    let policy = plan.port(&frontend.owner).map(|port| port.external_policy());
    let is_local = policy == Some(TrafficPolicy::Local);
    match key {
        FrontendKey::Address(address, protocol, port) => {
            let at = At { address, protocol, port };
            let mut objects = Objects { services: vec![at.id()], ..Objects::default() };
            at.describe(&frontend.kind, is_local, &mut objects);
            objects
        }
        // An address that every host has cannot be bound.
        FrontendKey::UnmatchedPorts(address) if !can_be_served(address) => Objects::default(),
        FrontendKey::UnmatchedPorts(address) => Objects {
            entries: vec![(AddressSet::IpvsIps, SetEntry::Ip(address))],
            address: Some(address),
            ..Objects::default()
        },
        FrontendKey::NodePort(protocol, port) => {
            // The planner lists the addresses for this mode.
            let addresses: Vec<IpAddr> = match &plan.node.node_port_addresses {
                NodePortScope::Only(addresses) => addresses.iter().copied().collect(),
                NodePortScope::All => plan.node.host_addresses.iter().copied().collect(),
            };
            node_port(&addresses, protocol, port, is_local)
        }
        FrontendKey::LoopbackNodePort(..) => Objects::default(),
    }
}

/// A port of a service address.
#[derive(Clone, Copy)]
struct At {
    address: IpAddr,
    protocol: Protocol,
    port: u16,
}

impl At {
    fn id(self) -> VirtualServerId {
        VirtualServerId { address: self.address, protocol: self.protocol.number(), port: self.port }
    }

    fn entry(self) -> SetEntry {
        SetEntry::IpPort { ip: self.address, protocol: self.protocol.number(), port: self.port }
    }

    fn describe(self, kind: &FrontendKind, is_local: bool, objects: &mut Objects) {
        let entries = &mut objects.entries;
        match kind {
            FrontendKind::ClusterIp => entries.push((AddressSet::ClusterIp, self.entry())),
            FrontendKind::ExternalIp if is_local => entries.push((AddressSet::ExternalIpLocal, self.entry())),
            FrontendKind::ExternalIp => entries.push((AddressSet::ExternalIp, self.entry())),
            FrontendKind::LoadBalancer { source_ranges, own_ranges } => {
                entries.push((AddressSet::LoadBalancer, self.entry()));
                if is_local {
                    entries.push((AddressSet::LoadBalancerLocal, self.entry()));
                }
                if let Some(ranges) = source_ranges {
                    entries.push((AddressSet::LoadBalancerFw, self.entry()));
                    let ranges = ranges.get(..ranges.len().saturating_sub(*own_ranges)).unwrap_or_default();
                    entries.extend(ranges.iter().map(|net| (AddressSet::SourceCidr, self.source(*net))));
                    self.admit_node(*own_ranges > 0, objects);
                }
            }
            FrontendKind::NodePort => {}
        }
    }

    /// This node's packets to the load balancer carry its address as source.
    fn admit_node(self, is_admitted: bool, objects: &mut Objects) {
        let Self { address, protocol, port } = self;
        if is_admitted {
            let entry = SetEntry::IpPortIp { ip: address, protocol: protocol.number(), port, ip2: address };
            objects.entries.push((AddressSet::SourceIp, entry));
        } else {
            objects.closed_to_node = Some(ClosedToNode { address, protocol, port });
        }
    }

    fn source(self, net: ipnet::IpNet) -> SetEntry {
        let Self { address: ip, protocol, port } = self;
        SetEntry::IpPortNet { ip, protocol: protocol.number(), port, net: net.trunc() }
    }
}

fn node_port(addresses: &[IpAddr], protocol: Protocol, port: u16, is_local: bool) -> Objects {
    let at = |address: &IpAddr| At { address: *address, protocol, port };
    let (all, local) = match protocol {
        Protocol::Tcp => (AddressSet::NodePortTcp, AddressSet::NodePortLocalTcp),
        Protocol::Udp => (AddressSet::NodePortUdp, AddressSet::NodePortLocalUdp),
        Protocol::Sctp => (AddressSet::NodePortSctp, AddressSet::NodePortLocalSctp),
    };
    // The kernel's set of ports matches only TCP and UDP.
    let entries: Vec<SetEntry> = match protocol {
        Protocol::Tcp | Protocol::Udp => addresses.iter().take(1).map(|_| SetEntry::Port(port)).collect(),
        Protocol::Sctp => addresses.iter().map(|address| at(address).entry()).collect(),
    };
    let sets = [Some(all), is_local.then_some(local)].into_iter().flatten();
    Objects {
        services: addresses.iter().map(|address| at(address).id()).collect(),
        entries: sets.flat_map(|set| entries.iter().map(move |entry| (set, *entry))).collect(),
        ..Objects::default()
    }
}
