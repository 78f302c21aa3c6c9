//! Which Service ports are counted: those of Services that ask for it, and no more than the limit.
//!
//! Follows the plan by its deltas. A Service port that is counted stays so until it goes; one that finds no room is taken in as soon
//! as there is some. Knows nothing of how connections are counted.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ferrule_model::{IpFamily, PerFamily, ServiceName, ServicePortName};
use ferrule_plan::{FamilyPlan, FrontendKey, NodePlan, PlanDelta, Pool, PoolScope};

/// Whose connections are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedServices {
    /// Those of Services that ask for it.
    Labelled,
    /// Those of all.
    All,
}

/// A change of the plan.
pub struct PlanChange<'a> {
    /// The plan after it.
    pub plan: &'a NodePlan,
    /// What changed.
    pub deltas: &'a PerFamily<PlanDelta>,
    /// Services that were touched, whatever became of it.
    pub touched: &'a BTreeSet<ServiceName>,
    /// Whether a Service asks to be counted.
    pub asks: &'a dyn Fn(&ServiceName) -> bool,
}

/// Follows the plan.
#[derive(Debug)]
pub struct Selection {
    services: CountedServices,
    limit: usize,
    selected: Arc<Selected>,
    /// Services that ask for it.
    asking: BTreeSet<ServiceName>,
    /// Service ports beyond the limit.
    omitted: BTreeSet<ServicePortName>,
    addresses: PerFamily<BTreeSet<IpAddr>>,
    has_begun: bool,
}

/// What is counted now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    frontends: BTreeMap<(IpFamily, FrontendKey), ServicePortName>,
    ports: BTreeMap<ServicePortName, Port>,
}

/// A Service port that is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Port {
    frontends: usize,
    pools: Vec<Arc<Pool>>,
}

/// What is counted from now on, and what no longer.
#[derive(Clone, Debug, Default)]
pub struct SelectionChange {
    /// Frontends with the Service port they count for now; `None` if they are no longer counted.
    pub frontends: BTreeMap<(IpFamily, FrontendKey), Option<ServicePortName>>,
    /// The host's addresses, by family, if they changed.
    pub addresses: PerFamily<BTreeSet<IpAddr>>,
}

impl Selected {
    /// The frontends that are counted, with their Service ports.
    pub fn frontends(&self) -> impl Iterator<Item = (IpFamily, &FrontendKey, &ServicePortName)> {
        self.frontends.iter().map(|((family, key), owner)| (*family, key, owner))
    }

    /// The Service port that a frontend counts for.
    pub fn owner(&self, family: IpFamily, key: FrontendKey) -> Option<&ServicePortName> {
        self.frontends.get(&(family, key))
    }

    /// The Service ports that are counted.
    pub fn ports(&self) -> impl Iterator<Item = &ServicePortName> {
        self.ports.keys()
    }

    /// Whether a Service port is counted.
    pub fn has(&self, owner: &ServicePortName) -> bool {
        self.ports.contains_key(owner)
    }

    /// The endpoints of a Service port that may be used now.
    pub fn endpoints(&self, owner: &ServicePortName) -> BTreeSet<SocketAddr> {
        let pools = self.ports.get(owner).into_iter().flat_map(|port| &port.pools);
        let endpoints = pools.flat_map(|pool| &pool.endpoints);
        endpoints.map(|endpoint| SocketAddr::new(endpoint.ip, endpoint.port)).collect()
    }

    fn insert(&mut self, place: (IpFamily, FrontendKey), owner: &ServicePortName) {
        let was = self.frontends.insert(place, owner.clone());
        self.ports.entry(owner.clone()).or_default().frontends += 1;
        self.release(was);
    }

    fn remove(&mut self, place: (IpFamily, FrontendKey)) -> bool {
        let was = self.frontends.remove(&place);
        let was_there = was.is_some();
        self.release(was);
        was_there
    }

    fn release(&mut self, owner: Option<ServicePortName>) {
        let Some(owner) = owner else { return };
        if let Some(port) = self.ports.get_mut(&owner) {
            port.frontends -= 1;
            if port.frontends == 0 {
                self.ports.remove(&owner);
            }
        }
    }
}

impl Selection {
    /// Nothing is counted until it follows a plan.
    pub fn new(services: CountedServices, limit: usize) -> Self {
        Self {
            services,
            limit,
            selected: Arc::default(),
            asking: BTreeSet::new(),
            omitted: BTreeSet::new(),
            addresses: PerFamily::default(),
            has_begun: false,
        }
    }

    /// What is counted now.
    pub fn selected(&self) -> Arc<Selected> {
        Arc::clone(&self.selected)
    }

    /// Whether there was a plan to follow.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// How many Service ports are not counted because of the limit.
    pub fn omitted(&self) -> usize {
        self.omitted.len()
    }

    /// Takes over a change of the plan.
    pub fn follow(&mut self, change: &PlanChange<'_>) -> SelectionChange {
        let mut result = SelectionChange::default();
        // Nothing is known yet: what an earlier run counted is not to be taken for what is no longer wanted.
        if !self.has_begun && change.plan.families.iter().next().is_none() {
            return result;
        }
        let asking_changed = self.note_asking(change);
        if !self.has_begun || asking_changed {
            self.has_begun = true;
            self.choose_again(change.plan, &mut result);
        } else {
            self.apply(change, &mut result);
            self.fill_room(change.plan, &mut result);
        }
        self.note_addresses(change.plan, &mut result);
        result
    }

    /// Notes which of the touched Services ask to be counted; says whether that changed.
    fn note_asking(&mut self, change: &PlanChange<'_>) -> bool {
        if self.services == CountedServices::All {
            return false;
        }
        let mut changed = false;
        for name in change.touched {
            changed |=
                if (change.asks)(name) { self.asking.insert(name.clone()) } else { self.asking.remove(name) };
        }
        changed
    }

    fn is_asked_for(&self, owner: &ServicePortName) -> bool {
        match self.services {
            CountedServices::All => true,
            CountedServices::Labelled => self.asking.contains(&owner.service),
        }
    }

    /// Follows what changed.
    fn apply(&mut self, change: &PlanChange<'_>, result: &mut SelectionChange) {
        let mut affected: BTreeSet<ServicePortName> = BTreeSet::new();
        for (family, delta) in change.deltas.iter() {
            for (key, replaced) in delta.frontends.iter().filter(|(key, _)| is_counted(key)) {
                let owners = [&replaced.was, &replaced.now].into_iter().flatten();
                affected.extend(owners.map(|frontend| frontend.owner.clone()));
                let owner = replaced.now.as_ref().map(|frontend| &frontend.owner);
                let owner = owner.filter(|owner| self.is_asked_for(owner)).cloned();
                self.set((family, *key), owner, result);
            }
            affected.extend(delta.pools.keys().map(|pool| pool.owner.clone()));
        }
        for owner in affected {
            self.note_pools(change.plan, &owner);
            // What is gone is no longer left out.
            if self.omitted.contains(&owner) && places_of(change.plan, &owner).is_empty() {
                self.omitted.remove(&owner);
            }
        }
    }

    fn set(
        &mut self,
        place: (IpFamily, FrontendKey),
        owner: Option<ServicePortName>,
        result: &mut SelectionChange,
    ) {
        let now = self.selected.frontends.get(&place);
        if now == owner.as_ref() {
            return;
        }
        match owner {
            Some(owner) if self.has_room_for(&owner) => {
                Arc::make_mut(&mut self.selected).insert(place, &owner);
                result.frontends.insert(place, Some(owner));
            }
            owner => {
                self.omitted.extend(owner);
                if Arc::make_mut(&mut self.selected).remove(place) {
                    result.frontends.insert(place, None);
                }
            }
        }
    }

    /// One that was left out is not taken in by a delta, which may have only some of its frontends.
    fn has_room_for(&self, owner: &ServicePortName) -> bool {
        self.selected.has(owner) || (self.selected.ports.len() < self.limit && !self.omitted.contains(owner))
    }

    /// Takes in Service ports that were left out, the first by name, as many as there is room for.
    fn fill_room(&mut self, plan: &NodePlan, result: &mut SelectionChange) {
        while self.selected.ports.len() < self.limit
            && let Some(owner) = self.omitted.pop_first()
        {
            for place in places_of(plan, &owner) {
                self.set(place, Some(owner.clone()), result);
            }
            self.note_pools(plan, &owner);
        }
    }

    /// Chooses among all Service ports: those that are counted stay, then the first by name.
    fn choose_again(&mut self, plan: &NodePlan, result: &mut SelectionChange) {
        let mut wanted: BTreeMap<&ServicePortName, Vec<(IpFamily, FrontendKey)>> = BTreeMap::new();
        for (family, plan) in plan.families.iter() {
            for (key, frontend) in plan.frontends().filter(|(key, _)| is_counted(key)) {
                if self.is_asked_for(&frontend.owner) {
                    wanted.entry(&frontend.owner).or_default().push((family, *key));
                }
            }
        }
        let (counted, new): (Vec<_>, Vec<_>) =
            wanted.keys().copied().partition(|owner| self.selected.has(owner));
        let chosen: BTreeSet<&ServicePortName> = counted.into_iter().chain(new).take(self.limit).collect();
        self.omitted = wanted.keys().filter(|owner| !chosen.contains(*owner)).copied().cloned().collect();
        let kept: BTreeSet<_> = chosen.iter().flat_map(|owner| &wanted[owner]).copied().collect();
        let gone = self.selected.frontends.keys().filter(|place| !kept.contains(place)).copied();
        for place in gone.collect::<Vec<_>>() {
            self.set(place, None, result);
        }
        for owner in chosen {
            for place in &wanted[owner] {
                self.set(*place, Some(owner.clone()), result);
            }
            self.note_pools(plan, owner);
        }
    }

    fn note_pools(&mut self, plan: &NodePlan, owner: &ServicePortName) {
        if !self.selected.has(owner) {
            return;
        }
        let pools = plan.families.iter().flat_map(|(_, plan)| pools_of(plan, owner));
        let pools: Vec<Arc<Pool>> = pools.collect();
        if let Some(port) = Arc::make_mut(&mut self.selected).ports.get_mut(owner) {
            port.pools = pools;
        }
    }

    fn note_addresses(&mut self, plan: &NodePlan, result: &mut SelectionChange) {
        for (family, plan) in plan.families.iter() {
            if self.addresses.get(family) != Some(&plan.node.host_addresses) {
                self.addresses.set(family, plan.node.host_addresses.clone());
                result.addresses.set(family, plan.node.host_addresses.clone());
            }
        }
    }
}

fn pools_of(plan: &FamilyPlan, owner: &ServicePortName) -> impl Iterator<Item = Arc<Pool>> {
    let pools = [PoolScope::Cluster, PoolScope::Local].map(|scope| plan.pool(owner, scope).cloned());
    pools.into_iter().flatten()
}

/// Connections to loopback NodePorts meet the same counter as those to others.
fn is_counted(key: &FrontendKey) -> bool {
    match key {
        FrontendKey::Address(..) | FrontendKey::NodePort(..) => true,
        FrontendKey::UnmatchedPorts(_) | FrontendKey::LoopbackNodePort(..) => false,
    }
}

/// The frontends of a Service port that are counted, found without going through all others.
fn places_of(plan: &NodePlan, owner: &ServicePortName) -> Vec<(IpFamily, FrontendKey)> {
    let mut places = Vec::new();
    for (family, plan) in plan.families.iter() {
        let Some(port) = plan.port(owner) else { continue };
        let held = port.frontends().filter(|frontend| frontend.is_held && is_counted(&frontend.key));
        places.extend(held.map(|frontend| (family, frontend.key)));
    }
    places
}

#[cfg(test)]
mod tests;
