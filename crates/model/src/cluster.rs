//! Everything known about the cluster, and what each change of it means.
//!
//! All changes go through [`Cluster::apply`], which returns the names whose meaning changed. Most events (status and label
//! edits, resyncs) change none. Keeps no API object and decides nothing about traffic: see `ferrule-plan`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use ipnet::IpNet;

use crate::port_names::PortNames;
use crate::{
    EndpointSlice, IpFamily, KeptNodeField, Node, Service, ServiceName, SliceName, Timestamp, TriggerUpdate,
};

/// One API object put or deleted, already stripped to what a proxy needs. `None` means that it is gone, or that it
/// is of a kind a proxy has no use for (a headless Service, say).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A Service.
    Service(ServiceName, Option<Arc<Service>>),
    /// An `EndpointSlice`, with the time of the change that led to it, if the object has one.
    Slice(SliceName, Option<EndpointSlice>, Option<Timestamp>),
    /// The Endpoints of a Service, which has the same name, as slices: one for each family of each subset. Empty if they are gone.
    Endpoints(ServiceName, Vec<EndpointSlice>, Option<Timestamp>),
    /// This node. If the Node is deleted, or loses its addresses or pod CIDRs, the last known ones stay in effect.
    Node(Option<Node>),
    /// A `ServiceCIDR` object and its blocks.
    ServiceCidr(String, Option<Vec<IpNet>>),
}

/// What a change meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The names whose meaning changed.
    pub touched: Touched,
    /// What the Node object lacks and stays in use.
    pub kept: Vec<KeptNodeField>,
    /// The trigger times that became due or void.
    pub trigger: TriggerUpdate,
}

/// The names whose meaning changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Services whose own fields or endpoints changed.
    pub services: BTreeSet<ServiceName>,
    /// This node's addresses, pod CIDRs or zone changed.
    pub node: bool,
    /// This node became, or ceased to be, a good target for load balancers.
    pub eligibility: bool,
    /// The cluster's service ranges changed.
    pub service_cidrs: bool,
}

impl Touched {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.services.is_empty() && !self.node && !self.eligibility && !self.service_cidrs
    }

    /// Adds what another change touched.
    pub fn merge(&mut self, other: Self) {
        self.services.extend(other.services);
        self.node |= other.node;
        self.eligibility |= other.eligibility;
        self.service_cidrs |= other.service_cidrs;
    }

    fn service(name: ServiceName) -> Self {
        Self { services: BTreeSet::from([name]), ..Self::default() }
    }
}

impl Applied {
    /// Adds what another part of the same change meant.
    fn merge(&mut self, other: Self) {
        self.touched.merge(other.touched);
        self.kept.extend(other.kept);
        self.trigger.void = self.trigger.void.take().or(other.trigger.void);
        self.trigger.due = self.trigger.due.take().or(other.trigger.due);
    }
}

impl From<Touched> for Applied {
    fn from(touched: Touched) -> Self {
        Self { touched, ..Self::default() }
    }
}

/// Everything known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    services: HashMap<ServiceName, ServiceState>,
    /// The Service each slice is attached to, so that a slice that changes its Service leaves the old one.
    attached: HashMap<SliceName, ServiceName>,
    node: Option<Node>,
    service_cidrs: BTreeMap<String, Vec<IpNet>>,
    port_names: PortNames,
}

/// A Service with its slices. The slices may come before the Service, and stay after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceState {
    service: Option<Arc<Service>>,
    /// Ordered by name.
    slices: Vec<(SliceName, EndpointSlice)>,
}

impl ServiceState {
    /// The Service, if there is one.
    pub fn service(&self) -> Option<&Arc<Service>> {
        self.service.as_ref()
    }

    /// Its slices of one family, ordered by name.
    pub fn slices(&self, family: IpFamily) -> impl Iterator<Item = &EndpointSlice> {
        self.slices.iter().map(|(_, slice)| slice).filter(move |slice| slice.family == family)
    }

    /// The names of all its slices, in order.
    pub fn slice_names(&self) -> impl Iterator<Item = &SliceName> {
        self.slices.iter().map(|(name, _)| name)
    }

    fn is_empty(&self) -> bool {
        self.service.is_none() && self.slices.is_empty()
    }

    fn place_of(&self, name: &SliceName) -> Result<usize, usize> {
        self.slices.binary_search_by(|(other, _)| other.cmp(name))
    }

    /// Puts or removes one slice; says whether that changed anything.
    fn put_slice(&mut self, name: &SliceName, slice: Option<EndpointSlice>) -> bool {
        match (self.place_of(name), slice) {
            (Ok(at), Some(slice)) if self.slices[at].1 == slice => return false,
            (Ok(at), Some(slice)) => self.slices[at].1 = slice,
            (Err(at), Some(slice)) => {
                self.slices.reserve_exact(1);
                self.slices.insert(at, (name.clone(), slice));
            }
            (Ok(at), None) => drop(self.slices.remove(at)),
            (Err(_), None) => return false,
        }
        true
    }
}

impl Cluster {
    /// Applies one change and says what it meant.
    pub fn apply(&mut self, change: Change) -> Applied {
        match change {
            Change::Service(name, service) => self.put_service(name, service).into(),
            Change::Slice(name, slice, trigger) => self.put_slice(&name, slice, trigger),
            Change::Endpoints(name, parts, trigger) => self.put_endpoints(&name, parts, trigger),
            Change::Node(Some(node)) => self.put_node(node),
            Change::Node(None) => Applied::default(),
            Change::ServiceCidr(name, blocks) => self.put_service_cidr(name, blocks).into(),
        }
    }

    /// One Service with its slices.
    pub fn service(&self, name: &ServiceName) -> Option<&ServiceState> {
        self.services.get(name)
    }

    /// All Services that exist, with their slices, ordered by name.
    pub fn services(&self) -> Vec<(&ServiceName, &ServiceState)> {
        let mut services: Vec<_> =
            self.services.iter().filter(|(_, state)| state.service.is_some()).collect();
        services.sort_unstable_by_key(|(name, _)| *name);
        services
    }

    /// All Services that exist, in no order: without the cost of sorting them.
    pub fn services_unordered(&self) -> impl Iterator<Item = (&ServiceName, &Service)> {
        self.services.iter().filter_map(|(name, state)| Some((name, &**state.service.as_ref()?)))
    }

    /// This node, once it is known.
    pub fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }

    /// The service ranges of one family, sorted, each once.
    pub fn service_cidrs(&self, family: IpFamily) -> BTreeSet<IpNet> {
        let all = self.service_cidrs.values().flatten();
        all.copied().filter(|net| IpFamily::of_net(net) == family).collect()
    }

    fn put_service(&mut self, name: ServiceName, mut service: Option<Arc<Service>>) -> Touched {
        if service.is_none() && !self.services.contains_key(&name) {
            return Touched::default();
        }
        let state = self.services.entry(name.clone()).or_default();
        if state.service == service {
            return Touched::default();
        }
        if let Some(service) = service.as_mut().and_then(Arc::get_mut) {
            self.port_names.share(service.ports.iter_mut().map(|port| &mut port.name));
        }
        state.service = service;
        self.forget_if_empty(&name);
        Touched::service(name)
    }

    fn put_slice(
        &mut self,
        name: &SliceName,
        slice: Option<EndpointSlice>,
        trigger: Option<Timestamp>,
    ) -> Applied {
        let stays = slice.as_ref().is_some_and(|slice| self.has_slice(&slice.service, name));
        let mut applied = if stays { Applied::default() } else { self.detach(name) };
        let Some(mut slice) = slice else { return applied };
        self.port_names.share(slice.ports.iter_mut().map(|port| &mut port.name));
        if !stays {
            self.attached.insert(name.clone(), slice.service.clone());
        }
        let (service, family) = (slice.service.clone(), slice.family);
        let state = self.services.entry(service.clone()).or_default();
        if state.put_slice(name, Some(slice)) {
            let is_served = state.service.is_some();
            applied.trigger.due = trigger.map(|time| (service.clone(), family, time));
            if is_served {
                applied.touched.services.insert(service);
            }
        }
        applied
    }

    /// Each part is kept as a slice, under a name that no EndpointSlice can have. The trigger time counts once.
    fn put_endpoints(
        &mut self,
        name: &ServiceName,
        parts: Vec<EndpointSlice>,
        trigger: Option<Timestamp>,
    ) -> Applied {
        let part_name = |index: usize| SliceName::new(&format!("{name}/{index}"));
        let mut all = Applied::default();
        let mut index = 0;
        for part in parts {
            let due = trigger.filter(|_| all.trigger.due.is_none());
            all.merge(self.put_slice(&part_name(index), Some(part), due));
            index += 1;
        }
        while self.attached.contains_key(&part_name(index)) {
            all.merge(self.detach(&part_name(index)));
            index += 1;
        }
        all
    }

    fn has_slice(&self, service: &ServiceName, name: &SliceName) -> bool {
        self.services.get(service).is_some_and(|state| state.place_of(name).is_ok())
    }

    /// Takes a slice away from its Service, if it has one; touches the Service only if it exists.
    fn detach(&mut self, name: &SliceName) -> Applied {
        let Some(service) = self.attached.remove(name) else { return Applied::default() };
        let Some(state) = self.services.get_mut(&service) else { return Applied::default() };
        let family = state.place_of(name).ok().map(|at| state.slices[at].1.family);
        let void = family.map(|family| (service.clone(), family));
        let is_served = state.put_slice(name, None) && state.service.is_some();
        self.forget_if_empty(&service);
        let touched = if is_served { Touched::service(service) } else { Touched::default() };
        Applied { touched, trigger: TriggerUpdate { void, due: None }, ..Applied::default() }
    }

    fn put_node(&mut self, mut node: Node) -> Applied {
        let unknown = self.node.is_none();
        let before = self.node.take().unwrap_or_default();
        let kept = node.keep_missing(&before);
        let touched = Touched {
            eligibility: unknown || before.leaving != node.leaving,
            node: (&before.host_ips, &before.pod_cidrs, &before.zone)
                != (&node.host_ips, &node.pod_cidrs, &node.zone),
            ..Touched::default()
        };
        self.node = Some(node);
        Applied { touched, kept, ..Applied::default() }
    }

    fn put_service_cidr(&mut self, name: String, blocks: Option<Vec<IpNet>>) -> Touched {
        let before = IpFamily::BOTH.map(|family| self.service_cidrs(family));
        match blocks {
            Some(blocks) => drop(self.service_cidrs.insert(name, blocks)),
            None => drop(self.service_cidrs.remove(&name)),
        }
        let after = IpFamily::BOTH.map(|family| self.service_cidrs(family));
        Touched { service_cidrs: before != after, ..Touched::default() }
    }

    fn forget_if_empty(&mut self, name: &ServiceName) {
        if self.services.get(name).is_some_and(ServiceState::is_empty) {
            self.services.remove(name);
        }
    }
}
