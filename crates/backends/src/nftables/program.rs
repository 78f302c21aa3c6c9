//! What one family's table should hold, and how a change of the plan changes it.
//!
//! Keeps no elements: for a touched key the old ones are compiled again from the delta. Only what several share (chains per
//! pool size, prefix lengths, hairpins) is counted, and the numbers clients stick by are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ferrule_kernel::nft::{Chain, Element, Family, KeyBytes, Name, Set};
use ferrule_model::{IpFamily, ServiceName};
use ferrule_plan::{FamilyPlan, Frontend, FrontendKey, NodeTraffic, PlanDelta, Pool, PoolId, Replaced};

use super::base::{self, Site};
use super::counts::Counts;
use super::diff::{Diff, Ways};
use super::frontend::{Compiled, Compiler, Pools};
use super::hash::StateHash;
use super::names::{PoolChain, prefix_length_of, source_ranges};
use super::pool;
use super::sticky_ids::StickyIds;
use super::way_numbers::{Outcome, WayNumbers};
use super::words::Words;

/// The version of the layout; another number makes the next start write everything anew.
pub const LAYOUT: u8 = 3;

/// What the table should hold.
#[derive(Clone, Debug)]
pub struct Program {
    node: NodeTraffic,
    words: Words,
    numbers: Numbers,
    chains: Counts<PoolChain>,
    /// Chains of pool sizes that were made. One that went out of use stays, for it may be wanted again at once, and writing a
    /// chain makes the kernel check all of them.
    made: BTreeSet<PoolChain>,
    prefix_lengths: Counts<u8>,
    hairpins: Counts<KeyBytes>,
    hash: StateHash,
}

/// The numbers that stay as they are while what they stand for is there, also over a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Of pools that clients stick to, and of their endpoints.
    pub sticky: StickyIds,
    /// Of chains that frontends lead to.
    pub ways: WayNumbers,
}

/// What is to be written for a change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Edit {
    /// Sets that are new. They and the chains are written before the elements.
    pub sets: Vec<Set>,
    /// Chains that are new or have a new rule, in an order in which they can be made.
    pub chains: Vec<Chain>,
    /// The elements that lead to them.
    pub ways: Vec<Element>,
    /// Chains that lose a rule.
    pub refill: Vec<Chain>,
    /// Elements that go, or make room for one with the same key.
    pub delete: Vec<Element>,
    /// Elements that come.
    pub add: Vec<Element>,
    /// Elements that only packets of a moment ago may still need; they go with a later commit.
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
        let prepared = self.sets.len() + self.chains.len() + self.ways.len();
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

    /// All of them, given away.
    pub fn into_all(self) -> impl Iterator<Item = Element> {
        self.node.into_iter().chain(self.services.into_values().flatten())
    }

    /// All of them in portions of about so many, what a cluster cannot do without first. A Service is never split.
    pub fn in_portions(self, size: usize) -> Vec<Vec<Element>> {
        let mut services: Vec<_> = self.services.into_iter().collect();
        services.sort_by_key(|(name, _)| importance(name));
        let mut portions = vec![self.node];
        for (_, elements) in services {
            match portions.last_mut() {
                Some(last) if last.len() < size => last.extend(elements),
                _ => portions.push(elements),
            }
        }
        portions
    }

    fn of_service(&mut self, name: &ServiceName) -> &mut Vec<Element> {
        self.services.entry(name.clone()).or_default()
    }
}

/// The API server itself, then name resolution, then the rest.
fn importance(name: &ServiceName) -> u8 {
    match (name.namespace(), name.name()) {
        ("default", "kubernetes") => 0,
        ("kube-system", name) if name.contains("dns") => 1,
        _ => 2,
    }
}

/// The pools of a plan, or of the plan before a change.
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

impl Program {
    /// The program of a whole plan, with the elements it consists of. Numbers that a former run gave are kept.
    pub fn of(plan: &FamilyPlan, numbers: Numbers) -> (Self, Elements) {
        let mut program = Self {
            node: as_programmed(&plan.node),
            words: Words { family: family_of(plan.node.family) },
            numbers,
            chains: Counts::default(),
            made: BTreeSet::new(),
            prefix_lengths: Counts::default(),
            hairpins: Counts::default(),
            hash: StateHash::default(),
        };
        let mut elements = Elements { node: base::elements(&plan.node), services: BTreeMap::new() };
        for (id, pool) in plan.pools() {
            program.number(&id, Some(pool));
            let of_pool = program.pool_elements(&id, pool);
            let hairpins = program.want_hairpins(&id, pool);
            elements.of_service(&id.owner.service).extend(of_pool.into_iter().chain(hairpins));
        }
        for (key, frontend) in plan.frontends() {
            let compiled = program.compile(&PlanPools(plan), key, frontend);
            program.want(&compiled);
            let compiled = compiled.numbered(&program.numbers.ways);
            elements.of_service(&frontend.owner.service).extend(compiled.elements);
        }
        program.made = program.chains.wanted().copied().collect();
        program.hash.add_text(&program.skeleton_text());
        for element in elements.iter() {
            program.hash.add(element);
        }
        // They follow from the chains, whose names are in the hash.
        let chains = program.chains.wanted().map(|chain| Outcome::Chain(*chain));
        let outcomes = [Outcome::Drop].into_iter().chain(chains);
        elements.node.extend(outcomes.filter_map(|outcome| program.numbers.ways.element(outcome)));
        (program, elements)
    }

    /// What a change of the plan changes. The node's own settings must be the same: see [`Self::is_for`].
    pub fn change(&mut self, plan: &FamilyPlan, delta: &PlanDelta) -> Edit {
        let mut diff = Diff::default();
        let was = self.compiled_frontends(&PoolsBefore(plan, delta), delta, |replaced| replaced.was.as_ref());
        let was = self.numbered(was);
        let mut pools_were = Vec::new();
        for (id, replaced) in &delta.pools {
            if let Some(was) = &replaced.was {
                pools_were.push((id, self.pool_elements(id, was)));
                diff.delete.extend(self.let_go_of_hairpins(id, was));
            }
        }
        for (id, replaced) in &delta.pools {
            self.number(id, replaced.now.as_ref());
            if let Some(now) = &replaced.now {
                diff.now.extend(self.pool_elements(id, now));
                diff.add.extend(self.want_hairpins(id, now));
            }
        }
        let now = self.compiled_frontends(&PlanPools(plan), delta, |replaced| replaced.now.as_ref());
        let lengths_before: BTreeSet<u8> = self.prefix_lengths.wanted().copied().collect();
        for compiled in now.values() {
            self.want(compiled);
        }
        for compiled in was.values() {
            self.let_go(compiled);
        }
        let now = self.numbered(now);
        let changed = Ways::changed(delta, &was, &now);
        diff.were(pools_were, was, &changed);
        diff.now.extend(now.into_values().flat_map(|compiled| compiled.elements));
        let mut edit = diff.settle();
        self.hash_edit(&edit);
        self.new_chains(&mut edit);
        self.new_prefix_lengths(&lengths_before, &mut edit);
        edit
    }

    /// Whether a plan's node settings are those of this program; if not, everything is to be written again.
    pub fn is_for(&self, plan: &FamilyPlan) -> bool {
        self.node == as_programmed(&plan.node)
    }

    /// Tells this state from another.
    pub fn hash(&self) -> StateHash {
        self.hash
    }

    /// The numbers that must stay as they are.
    pub fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// All sets, in the order in which they can be made.
    pub fn sets(&self) -> Vec<Set> {
        let ranges =
            self.prefix_lengths.wanted().map(|length| base::source_ranges_set(*length, self.words.family));
        base::sets(self.words.family).into_iter().chain(ranges).collect()
    }

    /// All chains, in the order in which they can be made.
    pub fn chains(&self) -> Vec<Chain> {
        let lengths = self.prefix_lengths.wanted().copied().collect();
        let pools = in_order(self.chains.wanted().copied());
        let pools = pools.into_iter().map(|chain| chain.chain(self.site()));
        let fixed = base::fixed_chains(&self.node, self.words, &lengths);
        pools.chain(fixed).chain(base::base_chains()).collect()
    }

    /// The chain for a pool size, in use or not, as this program would write it under its name.
    pub fn pool_chain(&self, name: &Name) -> Option<Chain> {
        PoolChain::from_name(name).map(|chain| chain.chain(self.site()))
    }

    /// The set of source ranges, in use or not, as this program would make it under its name.
    pub fn source_ranges_set(&self, name: &Name) -> Option<Set> {
        let length = prefix_length_of(name).filter(|length| *length <= self.words.family.address_bits())?;
        Some(base::source_ranges_set(length, self.words.family))
    }

    /// The names of the chains of pool sizes that are in use.
    pub fn chain_names(&self) -> BTreeSet<Name> {
        self.chains.wanted().map(|chain| chain.name()).collect()
    }

    fn site(&self) -> Site<'_> {
        Site { node: &self.node, words: self.words }
    }

    fn compile(&self, pools: &dyn Pools, key: &FrontendKey, frontend: &Frontend) -> Compiled {
        Compiler { pools, ids: &self.numbers.sticky }.frontend(key, frontend)
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

    fn numbered(&self, frontends: BTreeMap<FrontendKey, Compiled>) -> BTreeMap<FrontendKey, Compiled> {
        let numbered = |(key, compiled): (_, Compiled)| (key, compiled.numbered(&self.numbers.ways));
        frontends.into_iter().map(numbered).collect()
    }

    /// Gives a pool whose clients stick its numbers, or takes them back.
    fn number(&mut self, id: &PoolId, pool: Option<&Arc<Pool>>) {
        match pool.filter(|pool| pool.affinity_seconds.is_some()) {
            // A pool that cannot be numbered is served without affinity.
            Some(pool) => drop(self.numbers.sticky.assign(id, pool)),
            None => self.numbers.sticky.release(id),
        }
    }

    fn pool_elements(&self, id: &PoolId, pool: &Pool) -> Vec<Element> {
        pool::sticky(id, pool, &self.numbers.sticky)
    }

    /// The hairpins of a pool that nobody wanted before.
    fn want_hairpins(&mut self, id: &PoolId, pool: &Pool) -> Vec<Element> {
        let all = pool::hairpins(id, pool);
        all.into_iter().filter(|element| self.hairpins.want(element.key.clone())).collect()
    }

    /// The hairpins of a pool that nobody else wants.
    fn let_go_of_hairpins(&mut self, id: &PoolId, pool: &Pool) -> Vec<Element> {
        let all = pool::hairpins(id, pool);
        all.into_iter().filter(|element| self.hairpins.let_go(&element.key)).collect()
    }

    fn want(&mut self, compiled: &Compiled) {
        if let Some(chain) = compiled.chain() {
            self.numbers.ways.assign(chain);
        }
        for chain in with_targets(compiled.chain()) {
            if self.chains.want(chain) {
                self.hash.add_text(&chain.to_string());
            }
        }
        for length in &compiled.prefix_lengths {
            if self.prefix_lengths.want(*length) {
                self.hash.add_text(source_ranges(*length).as_str());
            }
        }
    }

    fn let_go(&mut self, compiled: &Compiled) {
        for chain in with_targets(compiled.chain()) {
            if self.chains.let_go(&chain) {
                self.hash.remove_text(&chain.to_string());
            }
        }
        for length in &compiled.prefix_lengths {
            if self.prefix_lengths.let_go(length) {
                self.hash.remove_text(source_ranges(*length).as_str());
            }
        }
    }

    fn new_chains(&mut self, edit: &mut Edit) {
        let new = in_order(self.chains.wanted().copied().filter(|chain| !self.made.contains(chain)));
        self.made.extend(new.iter().copied());
        edit.ways.extend(new.iter().filter_map(|chain| self.numbers.ways.element(Outcome::Chain(*chain))));
        edit.chains.extend(new.into_iter().map(|chain| chain.chain(self.site())));
    }

    fn new_prefix_lengths(&self, before: &BTreeSet<u8>, edit: &mut Edit) {
        let now: BTreeSet<u8> = self.prefix_lengths.wanted().copied().collect();
        if !now.is_subset(before) {
            let new = now.difference(before);
            edit.sets.extend(new.map(|length| base::source_ranges_set(*length, self.words.family)));
            edit.chains.push(base::source_ranges_chain(self.words, &(&now | before)));
        }
        if !before.is_subset(&now) {
            edit.refill.push(base::source_ranges_chain(self.words, &now));
        }
    }

    fn hash_edit(&mut self, edit: &Edit) {
        for element in &edit.add {
            self.hash.add(element);
        }
        for element in edit.delete.iter().chain(&edit.linger) {
            self.hash.remove(element);
        }
    }

    /// Everything of the skeleton that does not come and go with Services, as text.
    fn skeleton_text(&self) -> String {
        let none = BTreeSet::new();
        let sets = base::sets(self.words.family);
        let fixed = base::fixed_chains(&self.node, self.words, &none);
        let pods = self.site().mark_unless_from_pods();
        format!("{LAYOUT} {sets:?} {fixed:?} {:?} {pods:?}", base::base_chains())
    }
}

/// A chain and those it sends packets to.
fn with_targets(chain: Option<PoolChain>) -> impl Iterator<Item = PoolChain> {
    chain.into_iter().flat_map(|chain| chain.targets().into_iter().chain([chain]))
}

/// Chains that are sent packets to come first.
fn in_order(chains: impl Iterator<Item = PoolChain>) -> Vec<PoolChain> {
    let mut chains: Vec<PoolChain> = chains.collect();
    chains.sort_by_key(|chain| (!chain.targets().is_empty(), *chain));
    chains
}

/// What the rules say of the node: its interfaces' addresses beyond those that accept NodePorts are not in them.
fn as_programmed(node: &NodeTraffic) -> NodeTraffic {
    NodeTraffic { host_addresses: BTreeSet::new(), ..node.clone() }
}

fn family_of(family: IpFamily) -> Family {
    match family {
        IpFamily::V4 => Family::Ip,
        IpFamily::V6 => Family::Ip6,
    }
}
