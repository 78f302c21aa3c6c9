//! What one family's table should hold, and how a change of the plan changes it.
//!
//! Keeps no elements: for a touched key the old ones are compiled again from the delta. Only what several frontends or pools
//! share (chains per pool size, prefix lengths, hairpins) is refcounted, and ids that must stay the same are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ferrule_kernel::nft::{Chain, Element, KeyBytes, Name, Set};
use ferrule_model::ServiceName;
use ferrule_plan::{FamilyPlan, Frontend, FrontendKey, NodeTraffic, PlanDelta, Pool, PoolId, Replaced};

use super::base::{self, NodeContext};
use super::chain_ids::{ChainIds, DispatchTarget};
use super::element_diff::{ElementDiff, ReroutedFrontends};
use super::exprs::ExprBuilder;
use super::frontend::{Compiled, Compiler, Pools};
use super::hash::hash_of;
use super::names::{PoolChain, prefix_length_of, source_ranges};
use super::pool;
use super::ref_counts::RefCounts;
use super::sticky_ids::StickyIds;
use crate::StateHash;
use crate::family::table_family;
use crate::state_hash::ObjectHash;

/// The version of the layout. A start that finds another one rewrites the table.
pub const LAYOUT: u8 = 4;

/// What the table should hold.
#[derive(Clone, Debug)]
pub struct RuleSet {
    node: NodeTraffic,
    exprs: ExprBuilder,
    ids: StableIds,
    chains: RefCounts<PoolChain>,
    /// Chains of pool sizes that exist. One that goes out of use stays: it may be needed again soon, and the kernel checks all
    /// chains whenever one is written.
    created: BTreeSet<PoolChain>,
    prefix_lengths: RefCounts<u8>,
    hairpins: RefCounts<KeyBytes>,
    hash: StateHash,
}

/// Ids that stay the same as long as what they stand for exists, also over a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StableIds {
    /// Of pools with session affinity, and of their endpoints.
    pub sticky: StickyIds,
    /// Of chains that frontends dispatch to.
    pub chains: ChainIds,
}

/// What is to be written for a change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Edit {
    /// Sets that are new. They and the chains are written before the elements.
    pub sets: Vec<Set>,
    /// Chains that are new or have a new rule, targets of jumps first.
    pub chains: Vec<Chain>,
    /// The elements of the map `dispatch` that lead to them.
    pub dispatch: Vec<Element>,
    /// Chains that lose a rule.
    pub refill: Vec<Chain>,
    /// Elements that go, or are replaced by one with the same key.
    pub delete: Vec<Element>,
    /// Elements that are new, or replace one.
    pub add: Vec<Element>,
    /// Elements that only packets under way may still need; they go with a later commit.
    pub linger: Vec<Element>,
}

impl Edit {
    /// Whether nothing is to be written now.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
            && self.chains.is_empty()
            && self.refill.is_empty()
            && self.delete.is_empty()
            && self.add.is_empty()
    }

    /// How many objects are written and removed.
    pub fn objects(&self) -> usize {
        let prepared = self.sets.len() + self.chains.len() + self.dispatch.len();
        prepared + self.refill.len() + self.delete.len() + self.add.len()
    }
}

/// All elements of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Elements {
    /// Those that follow from the node's settings and from pool sizes.
    pub node: Vec<Element>,
    /// Those of each Service.
    pub services: BTreeMap<ServiceName, Vec<Element>>,
}

impl Elements {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Element> {
        self.node.iter().chain(self.services.values().flatten())
    }

    /// All of them, by value.
    pub fn into_all(self) -> impl Iterator<Item = Element> {
        self.node.into_iter().chain(self.services.into_values().flatten())
    }

    /// All of them in chunks of about this size, the most important Services first. A Service is never split.
    pub fn in_chunks(self, size: usize) -> Vec<Vec<Element>> {
        let mut services: Vec<_> = self.services.into_iter().collect();
        services.sort_by_key(|(name, _)| startup_priority(name));
        let mut chunks = vec![self.node];
        for (_, elements) in services {
            match chunks.last_mut() {
                Some(last) if last.len() < size => last.extend(elements),
                _ => chunks.push(elements),
            }
        }
        chunks
    }

    fn service_mut(&mut self, name: &ServiceName) -> &mut Vec<Element> {
        self.services.entry(name.clone()).or_default()
    }
}

/// The API server itself, then name resolution, then the rest.
fn startup_priority(name: &ServiceName) -> u8 {
    match (name.namespace(), name.name()) {
        ("default", "kubernetes") => 0,
        ("kube-system", name) if name.contains("dns") => 1,
        _ => 2,
    }
}

struct PlanPools<'a>(&'a FamilyPlan);

impl Pools for PlanPools<'_> {
    fn pool(&self, id: &PoolId) -> Option<&Pool> {
        self.0.pool(&id.owner, id.scope).map(|pool| &**pool)
    }
}

struct PoolsBefore<'a>(&'a FamilyPlan, &'a PlanDelta);

impl Pools for PoolsBefore<'_> {
    fn pool(&self, id: &PoolId) -> Option<&Pool> {
        match self.1.pools.get(id) {
            Some(replaced) => replaced.was.as_deref(),
            None => self.0.pool(&id.owner, id.scope).map(|pool| &**pool),
        }
    }
}

impl RuleSet {
    /// The rule set of a whole plan, and all of its elements. Ids that an earlier run assigned are kept.
    pub fn from_plan(plan: &FamilyPlan, ids: StableIds) -> (Self, Elements) {
        let mut rule_set = Self {
            node: relevant_settings(&plan.node),
            exprs: ExprBuilder { family: table_family(plan.node.family) },
            ids,
            chains: RefCounts::default(),
            created: BTreeSet::new(),
            prefix_lengths: RefCounts::default(),
            hairpins: RefCounts::default(),
            hash: StateHash::default(),
        };
        let mut elements = Elements { node: base::elements(&plan.node), services: BTreeMap::new() };
        for (id, pool) in plan.pools() {
            rule_set.update_sticky_ids(&id, Some(pool));
            let of_pool = rule_set.pool_elements(&id, pool);
            let hairpins = rule_set.acquire_hairpins(&id, pool);
            elements.service_mut(&id.owner.service).extend(of_pool.into_iter().chain(hairpins));
        }
        for (key, frontend) in plan.frontends() {
            let compiled = rule_set.compile(&PlanPools(plan), key, frontend);
            rule_set.acquire(&compiled);
            let compiled = compiled.with_ids(&rule_set.ids.chains);
            elements.service_mut(&frontend.owner.service).extend(compiled.elements);
        }
        rule_set.created = rule_set.chains.keys().copied().collect();
        rule_set.hash.add(ObjectHash::of_text(&rule_set.skeleton_text()));
        for element in elements.iter() {
            rule_set.hash.add(hash_of(element));
        }
        // Not hashed: they follow from the chains, whose names are.
        let chains = rule_set.chains.keys().map(|chain| DispatchTarget::Chain(*chain));
        let targets = [DispatchTarget::Drop].into_iter().chain(chains);
        elements.node.extend(targets.filter_map(|target| rule_set.ids.chains.element(target)));
        (rule_set, elements)
    }

    /// Applies a change of the plan; returns what it changes in the table. The node's settings must be the same: see
    /// [`Self::is_for`].
    pub fn apply_delta(&mut self, plan: &FamilyPlan, delta: &PlanDelta) -> Edit {
        let mut diff = ElementDiff::default();
        let before =
            self.compiled_frontends(&PoolsBefore(plan, delta), delta, |replaced| replaced.was.as_ref());
        let before = self.with_ids(before);
        let mut pools_before = Vec::new();
        for (id, replaced) in &delta.pools {
            if let Some(was) = &replaced.was {
                pools_before.push((id, self.pool_elements(id, was)));
                diff.released.extend(self.release_hairpins(id, was));
            }
        }
        for (id, replaced) in &delta.pools {
            self.update_sticky_ids(id, replaced.now.as_ref());
            if let Some(now) = &replaced.now {
                diff.after.extend(self.pool_elements(id, now));
                diff.acquired.extend(self.acquire_hairpins(id, now));
            }
        }
        let after = self.compiled_frontends(&PlanPools(plan), delta, |replaced| replaced.now.as_ref());
        let lengths_before: BTreeSet<u8> = self.prefix_lengths.keys().copied().collect();
        // Acquired before released, so that no count drops to zero in between.
        for compiled in after.values() {
            self.acquire(compiled);
        }
        for compiled in before.values() {
            self.release(compiled);
        }
        let after = self.with_ids(after);
        let rerouted = ReroutedFrontends::new(delta, &before, &after);
        diff.add_before(pools_before, before, &rerouted);
        diff.after.extend(after.into_values().flat_map(|compiled| compiled.elements));
        let mut edit = diff.into_edit();
        self.hash_edit(&edit);
        self.add_new_chains(&mut edit);
        self.add_new_prefix_lengths(&lengths_before, &mut edit);
        edit
    }

    /// Whether a plan's node settings are those of this rule set; if not, the table has to be rewritten.
    pub fn is_for(&self, plan: &FamilyPlan) -> bool {
        self.node == relevant_settings(&plan.node)
    }

    /// Identifies the state of the table, for the stamp.
    pub fn hash(&self) -> StateHash {
        self.hash
    }

    /// The ids that must stay the same.
    pub fn ids(&self) -> &StableIds {
        &self.ids
    }

    /// All sets.
    pub fn sets(&self) -> Vec<Set> {
        let ranges =
            self.prefix_lengths.keys().map(|length| base::source_ranges_set(*length, self.exprs.family));
        base::sets(self.exprs.family).into_iter().chain(ranges).collect()
    }

    /// All chains, targets of jumps first.
    pub fn chains(&self) -> Vec<Chain> {
        let lengths = self.prefix_lengths.keys().copied().collect();
        let pools = in_order(self.chains.keys().copied());
        let pools = pools.into_iter().map(|chain| chain.chain(self.context()));
        let fixed = base::fixed_chains(&self.node, self.exprs, &lengths);
        pools.chain(fixed).chain(base::base_chains()).collect()
    }

    /// The chain for a pool size, in use or not, by its name.
    pub fn pool_chain(&self, name: &Name) -> Option<Chain> {
        PoolChain::from_name(name).map(|chain| chain.chain(self.context()))
    }

    /// The set of source ranges, in use or not, by its name.
    pub fn source_ranges_set(&self, name: &Name) -> Option<Set> {
        let length = prefix_length_of(name).filter(|length| *length <= self.exprs.family.address_bits())?;
        Some(base::source_ranges_set(length, self.exprs.family))
    }

    /// The names of the chains of pool sizes that are in use.
    pub fn chain_names(&self) -> BTreeSet<Name> {
        self.chains.keys().map(|chain| chain.name()).collect()
    }

    fn context(&self) -> NodeContext<'_> {
        NodeContext { node: &self.node, exprs: self.exprs }
    }

    fn compile(&self, pools: &dyn Pools, key: &FrontendKey, frontend: &Frontend) -> Compiled {
        Compiler { pools, ids: &self.ids.sticky }.frontend(key, frontend)
    }

    fn compiled_frontends<'d>(
        &self,
        pools: &dyn Pools,
        delta: &'d PlanDelta,
        side: impl Fn(&'d Replaced<Arc<Frontend>>) -> Option<&'d Arc<Frontend>>,
    ) -> BTreeMap<FrontendKey, Compiled> {
        let frontends = delta.frontends.iter().filter_map(|(key, replaced)| Some((key, side(replaced)?)));
        frontends.map(|(key, frontend)| (*key, self.compile(pools, key, frontend))).collect()
    }

    fn with_ids(&self, frontends: BTreeMap<FrontendKey, Compiled>) -> BTreeMap<FrontendKey, Compiled> {
        let with_ids = |(key, compiled): (_, Compiled)| (key, compiled.with_ids(&self.ids.chains));
        frontends.into_iter().map(with_ids).collect()
    }

    /// Assigns ids to a pool with session affinity, or releases them.
    fn update_sticky_ids(&mut self, id: &PoolId, pool: Option<&Arc<Pool>>) {
        match pool.filter(|pool| pool.affinity_seconds.is_some()) {
            // A pool that gets no ids is served without affinity.
            Some(pool) => drop(self.ids.sticky.assign(id, pool)),
            None => self.ids.sticky.release(id),
        }
    }

    fn pool_elements(&self, id: &PoolId, pool: &Pool) -> Vec<Element> {
        pool::sticky(id, pool, &self.ids.sticky)
    }

    /// Returns the hairpins that no pool had before.
    fn acquire_hairpins(&mut self, id: &PoolId, pool: &Pool) -> Vec<Element> {
        let all = pool::hairpins(id, pool);
        all.into_iter().filter(|element| self.hairpins.acquire(element.key.clone())).collect()
    }

    /// Returns the hairpins that no other pool has.
    fn release_hairpins(&mut self, id: &PoolId, pool: &Pool) -> Vec<Element> {
        let all = pool::hairpins(id, pool);
        all.into_iter().filter(|element| self.hairpins.release(&element.key)).collect()
    }

    fn acquire(&mut self, compiled: &Compiled) {
        if let Some(chain) = compiled.chain() {
            self.ids.chains.assign(chain);
        }
        for chain in with_targets(compiled.chain()) {
            if self.chains.acquire(chain) {
                self.hash.add(ObjectHash::of_text(&chain.to_string()));
            }
        }
        for length in &compiled.prefix_lengths {
            if self.prefix_lengths.acquire(*length) {
                self.hash.add(ObjectHash::of_text(source_ranges(*length).as_str()));
            }
        }
    }

    fn release(&mut self, compiled: &Compiled) {
        for chain in with_targets(compiled.chain()) {
            if self.chains.release(&chain) {
                self.hash.remove(ObjectHash::of_text(&chain.to_string()));
            }
        }
        for length in &compiled.prefix_lengths {
            if self.prefix_lengths.release(length) {
                self.hash.remove(ObjectHash::of_text(source_ranges(*length).as_str()));
            }
        }
    }

    fn add_new_chains(&mut self, edit: &mut Edit) {
        let new = in_order(self.chains.keys().copied().filter(|chain| !self.created.contains(chain)));
        self.created.extend(new.iter().copied());
        edit.dispatch
            .extend(new.iter().filter_map(|chain| self.ids.chains.element(DispatchTarget::Chain(*chain))));
        edit.chains.extend(new.into_iter().map(|chain| chain.chain(self.context())));
    }

    fn add_new_prefix_lengths(&self, before: &BTreeSet<u8>, edit: &mut Edit) {
        let now: BTreeSet<u8> = self.prefix_lengths.keys().copied().collect();
        if !now.is_subset(before) {
            let new = now.difference(before);
            edit.sets.extend(new.map(|length| base::source_ranges_set(*length, self.exprs.family)));
            edit.chains.push(base::source_ranges_chain(self.exprs, &(&now | before)));
        }
        if !before.is_subset(&now) {
            edit.refill.push(base::source_ranges_chain(self.exprs, &now));
        }
    }

    fn hash_edit(&mut self, edit: &Edit) {
        for element in &edit.add {
            self.hash.add(hash_of(element));
        }
        for element in edit.delete.iter().chain(&edit.linger) {
            self.hash.remove(hash_of(element));
        }
    }

    /// The part of the skeleton that does not depend on Services, as text for the hash.
    fn skeleton_text(&self) -> String {
        let none = BTreeSet::new();
        let sets = base::sets(self.exprs.family);
        let fixed = base::fixed_chains(&self.node, self.exprs, &none);
        let pods = self.context().mark_unless_from_pods();
        format!("{LAYOUT} {sets:?} {fixed:?} {:?} {pods:?}", base::base_chains())
    }
}

/// A chain and the targets of its jumps.
fn with_targets(chain: Option<PoolChain>) -> impl Iterator<Item = PoolChain> {
    chain.into_iter().flat_map(|chain| chain.targets().into_iter().chain([chain]))
}

/// Targets of jumps first.
fn in_order(chains: impl Iterator<Item = PoolChain>) -> Vec<PoolChain> {
    let mut chains: Vec<PoolChain> = chains.collect();
    chains.sort_by_key(|chain| (!chain.targets().is_empty(), *chain));
    chains
}

/// The settings that rules depend on. Addresses that accept no NodePorts are not among them.
fn relevant_settings(node: &NodeTraffic) -> NodeTraffic {
    NodeTraffic { host_addresses: BTreeSet::new(), ..node.clone() }
}
