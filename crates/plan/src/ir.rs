//! The plan itself: what this node must do, in no backend's language. Plain data.
//!
//! It speaks of packets, not of Services: an address, and where packets to it go. How it is made is in [`crate::plan`]; what
//! it means for one packet, in [`crate::outcome`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use ferrule_model::{IpFamily, PerFamily, Protocol, Service, ServiceName, ServicePortName};
use ipnet::IpNet;

use crate::conflicts::Claimant;
use crate::pools::Availability;
use crate::{LoopbackNodePorts, Quirks, Shape};

/// What this node must do, per family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePlan {
    /// One plan for each family that is served.
    pub families: PerFamily<FamilyPlan>,
}

/// What this node must do in one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyPlan {
    /// What holds for the whole node.
    pub node: NodeTraffic,
    /// One owner for each key: conflicts are resolved.
    pub(crate) frontends: BTreeMap<FrontendKey, Arc<Frontend>>,
    /// What each Service asks for, pools included. A hash map because only look-ups by name are hot.
    pub(crate) services: HashMap<ServiceName, ServicePlan>,
    /// The keys that more than one Service claims, with all claimants, the winner first.
    pub(crate) contested: BTreeMap<FrontendKey, BTreeSet<Claimant>>,
    pub(crate) no_local_endpoints: NoLocalEndpoints,
}

/// What holds for the whole node, whatever the Services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTraffic {
    /// The family this plan is for.
    pub family: IpFamily,
    /// The mark that asks for masquerading: one bit.
    pub masquerade_mark: u32,
    /// Whether all traffic to cluster IPs is masqueraded.
    pub masquerade_all: bool,
    /// How local pods are recognized, if they can be.
    pub local_pods: Option<LocalPods>,
    /// The addresses that accept NodePorts.
    pub node_port_addresses: NodePortScope,
    /// How NodePorts on loopback addresses are handled.
    pub loopback_node_ports: LoopbackNodePorts,
    /// The loopback addresses on which the kernel serves them, if it does.
    pub loopback_addresses: NodePortScope,
    /// Ranges whose unallocated addresses are dropped.
    pub guarded_service_cidrs: BTreeSet<IpNet>,
    /// Every address of this host.
    pub host_addresses: BTreeSet<IpAddr>,
    /// The differences between modes that hold here.
    pub quirks: Quirks,
}

/// How packets from this node's pods are recognized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalPods {
    /// Their source address is in the block.
    From(IpNet),
    /// They come in on this interface.
    ByInterface(String),
    /// They come in on an interface whose name has this prefix.
    ByInterfacePrefix(String),
}

/// Which of the host's addresses accept NodePorts. Loopback addresses never do: see [`FrontendKey::LoopbackNodePort`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodePortScope {
    /// Every address of the host.
    All,
    /// Only these.
    Only(BTreeSet<IpAddr>),
}

impl NodeTraffic {
    /// Whether routing takes an address for one of this host.
    pub fn has_address(&self, ip: IpAddr) -> bool {
        ip.is_loopback() || self.host_addresses.contains(&ip)
    }
}

impl NodePortScope {
    /// Whether an address of the host is among these.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match self {
            Self::All => true,
            Self::Only(addresses) => addresses.contains(&ip),
        }
    }
}

/// What a packet must be sent to for a frontend to apply. The order is the one everything is shown in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrontendKey {
    /// One port of a service address.
    Address(IpAddr, Protocol, u16),
    /// Everything sent to a service address that matches no port: other ports, other protocols, pings.
    UnmatchedPorts(IpAddr),
    /// A port of the node's own addresses.
    NodePort(Protocol, u16),
    /// A port of the node's loopback addresses.
    LoopbackNodePort(Protocol, u16),
}

/// An address or node port, and what becomes of packets to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frontend {
    /// The Service port it belongs to. The shape refers to this port's pools.
    pub owner: ServicePortName,
    /// What made it a frontend.
    pub kind: FrontendKind,
    /// What it does with traffic.
    pub shape: Shape,
}

/// What made an address or port a frontend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrontendKind {
    /// `spec.clusterIP`
    ClusterIp,
    /// `status.loadBalancer.ingress`
    LoadBalancer {
        /// The blocks whose sources may use it; all others are dropped before anything else. `None` admits everyone.
        source_ranges: Option<Arc<[IpNet]>>,
        /// How many of them, at the end, are the load balancer's own addresses. They are there if this node is admitted: its
        /// packets to a load balancer can carry that address as source.
        own_ranges: usize,
    },
    /// `spec.externalIPs`
    ExternalIp,
    /// `spec.ports[].nodePort`
    NodePort,
}

/// A pool, by its owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId {
    /// The Service port.
    pub owner: ServicePortName,
    /// Which of its pools.
    pub scope: PoolScope,
}

/// The two lists of endpoints a Service port can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PoolScope {
    /// Those any traffic may go to.
    Cluster,
    /// Those on this node.
    Local,
}

/// Endpoints among which connections are spread evenly. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// In the order of their texts.
    pub endpoints: Box<[PoolEndpoint]>,
    /// How long a client stays with its endpoint, if it does.
    pub affinity_seconds: Option<u32>,
}

/// One endpoint of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolEndpoint {
    /// Where it is.
    pub ip: IpAddr,
    /// The number it listens on.
    pub port: u16,
    /// Whether it is on this node.
    pub is_local: bool,
}

/// Where and what a load balancer's health check asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The port to answer on.
    pub port: u16,
    /// How many endpoints on this node are ready.
    pub local_endpoints: usize,
}

/// How many Service ports have endpoints, but none where their policy wants them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoLocalEndpoints {
    /// With `internalTrafficPolicy: Local`.
    pub internal: usize,
    /// With `externalTrafficPolicy: Local`.
    pub external: usize,
}

/// What one Service asks for in one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServicePlan {
    /// What it was planned from; the same object again means the same fields.
    pub service: Arc<Service>,
    /// In the order of the Service's ports, which is that of their names and protocols.
    pub ports: Box<[PortPlan]>,
    pub health_check: Option<HealthCheck>,
    pub no_local_endpoints: NoLocalEndpoints,
}

/// What one Service port asks for in one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortPlan {
    pub owner: ServicePortName,
    pub cluster: Option<Arc<Pool>>,
    pub local: Option<Arc<Pool>>,
    pub available: Availability,
    /// The frontends it would have without competition, each key once.
    pub claims: Arc<[Claim]>,
    /// How many endpoints it has, usable or not.
    pub endpoints: usize,
    /// UDP only: the endpoints whose existing flows may live on.
    pub serving: Box<[(IpAddr, u16)]>,
    /// The endpoints on this node, usable or not, if the mode masquerades what each of them sends to itself.
    pub hairpins: Box<[(IpAddr, u16)]>,
}

/// A frontend a Service port would have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub key: FrontendKey,
    /// The pools it forwards to, noted here because every change of an endpoint asks.
    pub uses: PoolUse,
    pub frontend: Arc<Frontend>,
}

/// Which pools a frontend forwards to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolUse {
    pub cluster: bool,
    pub local: bool,
}

impl PoolUse {
    pub(crate) fn of(shape: Shape) -> Self {
        Self { cluster: shape.uses_pool(PoolScope::Cluster), local: shape.uses_pool(PoolScope::Local) }
    }

    pub(crate) fn has(self, scope: PoolScope) -> bool {
        match scope {
            PoolScope::Cluster => self.cluster,
            PoolScope::Local => self.local,
        }
    }
}

impl PortPlan {
    pub(crate) fn pool(&self, scope: PoolScope) -> Option<&Arc<Pool>> {
        match scope {
            PoolScope::Cluster => self.cluster.as_ref(),
            PoolScope::Local => self.local.as_ref(),
        }
    }
}

impl ServicePlan {
    pub(crate) fn port(&self, owner: &ServicePortName) -> Option<&PortPlan> {
        let at = self.ports.binary_search_by(|port| port.owner.cmp(owner)).ok()?;
        self.ports.get(at)
    }
}

impl FamilyPlan {
    /// A plan for a node with no Services.
    pub(crate) fn empty(node: NodeTraffic) -> Self {
        Self {
            node,
            frontends: BTreeMap::new(),
            services: HashMap::new(),
            contested: BTreeMap::new(),
            no_local_endpoints: NoLocalEndpoints::default(),
        }
    }

    /// The part that compiles to all that one frontend needs: itself, its Service, what holds for the whole node, and the other
    /// frontends with source ranges, whose lengths of prefixes shape rules that all share.
    #[must_use]
    pub fn around(&self, key: Option<&FrontendKey>) -> Self {
        let is_part = |found: &FrontendKey, frontend: &Frontend| {
            let has_ranges =
                matches!(&frontend.kind, FrontendKind::LoadBalancer { source_ranges: Some(_), .. });
            Some(found) == key || has_ranges
        };
        let parts = self.frontends.iter().filter(|(key, frontend)| is_part(key, frontend));
        let frontends: BTreeMap<_, _> = parts.map(|(key, frontend)| (*key, Arc::clone(frontend))).collect();
        let owners = frontends.values().map(|frontend| &frontend.owner.service);
        let services = owners.filter_map(|name| self.services.get_key_value(name));
        let services = services.map(|(name, plan)| (name.clone(), plan.clone())).collect();
        Self { frontends, services, ..Self::empty(self.node.clone()) }
    }

    /// All frontends, in the order of their keys.
    pub fn frontends(&self) -> impl Iterator<Item = (&FrontendKey, &Arc<Frontend>)> {
        self.frontends.iter()
    }

    /// One frontend.
    pub fn frontend(&self, key: &FrontendKey) -> Option<&Arc<Frontend>> {
        self.frontends.get(key)
    }

    /// One pool.
    pub fn pool(&self, owner: &ServicePortName, scope: PoolScope) -> Option<&Arc<Pool>> {
        self.services.get(&owner.service)?.port(owner)?.pool(scope)
    }

    /// All pools, in the order of their owners.
    pub fn pools(&self) -> Vec<(PoolId, &Arc<Pool>)> {
        let mut pools: Vec<_> = self
            .services
            .values()
            .flat_map(|service| &service.ports)
            .flat_map(|port| [(port, PoolScope::Cluster), (port, PoolScope::Local)])
            .filter_map(|(port, scope)| {
                port.pool(scope).map(|pool| (PoolId { owner: port.owner.clone(), scope }, pool))
            })
            .collect();
        pools.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        pools
    }

    /// The answers to load balancers' health checks, by Service.
    pub fn health_checks(&self) -> BTreeMap<ServiceName, HealthCheck> {
        let checks = self.services.iter();
        checks.filter_map(|(name, service)| Some((name.clone(), service.health_check?))).collect()
    }

    /// The counts behind `kubeproxy_sync_proxy_rules_no_local_endpoints_total`.
    pub fn no_local_endpoints(&self) -> NoLocalEndpoints {
        self.no_local_endpoints
    }
}
