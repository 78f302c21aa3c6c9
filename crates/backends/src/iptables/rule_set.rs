//! All rules of a plan, and how a change of the plan changes them.

use std::collections::{BTreeMap, BTreeSet};

use ferrule_kernel::iptables::{ChainName, RestoreText, RuleText};
use ferrule_model::ServicePortName;
use ferrule_plan::{FamilyPlan, PlanDelta};

use super::base::{Base, Dispatch, Host, Jump, Table, jumps};
use super::edit::Edit;
use super::frontend::{Compiler, PortRules};
use super::localnet;
use super::names::{CANARY, FIREWALL};
use super::pool::EndpointComments;
use super::suspected::TableChain;
use crate::StateHash;

/// All rules of one family.
#[derive(Clone, Debug)]
pub(super) struct RuleSet {
    host: Host,
    base: Base,
    ports: BTreeMap<ServicePortName, PortRules>,
    /// How many rules each shared chain has.
    shared: BTreeMap<Dispatch, usize>,
    /// Ports that are in the plan and not in the tables: iptables rejected these rules.
    quarantined: BTreeMap<ServicePortName, PortRules>,
    /// Identifies all rules in the tables.
    hash: StateHash,
}

/// The version of what the hash means. Another one means other rules for the same plan.
pub(super) const LAYOUT: u8 = 1;

impl RuleSet {
    /// The rules of a plan, without those of the quarantined ports.
    pub(super) fn from_plan(plan: &FamilyPlan, host: Host, quarantined: &BTreeSet<ServicePortName>) -> Self {
        let base = Base::new(&plan.node, host);
        let mut hash = StateHash::default();
        hash.add(base.hash());
        let (ports, shared) = (BTreeMap::new(), BTreeMap::new());
        let mut rule_set = Self { host, base, ports, shared, quarantined: BTreeMap::new(), hash };
        let compiler = rule_set.compiler(plan);
        for port in plan.ports() {
            let (owner, rules) = (port.owner(), compiler.rules_of(port));
            if quarantined.contains(owner) {
                rule_set.quarantined.insert(owner.clone(), rules);
            } else {
                rule_set.exchange(owner, Some(rules));
            }
        }
        rule_set
    }

    fn compiler<'a>(&self, plan: &'a FamilyPlan) -> Compiler<'a> {
        let comments = EndpointComments::with(plan.endpoint_count());
        Compiler { plan, host: self.host, comments }
    }

    fn exchange(&mut self, owner: &ServicePortName, now: Option<PortRules>) -> Option<PortRules> {
        if let Some(now) = &now {
            self.hash.add(now.hash());
            for (chain, _) in &now.dispatch {
                *self.shared.entry(*chain).or_default() += 1;
            }
        }
        let was = match now {
            Some(now) => self.ports.insert(owner.clone(), now),
            None => self.ports.remove(owner),
        };
        if let Some(was) = &was {
            self.hash.remove(was.hash());
            for (chain, _) in &was.dispatch {
                if let Some(count) = self.shared.get_mut(chain) {
                    *count = count.saturating_sub(1);
                }
            }
        }
        was
    }

    /// Applies a change of the plan; returns what it changes in the tables.
    pub(super) fn apply_delta(&mut self, plan: &FamilyPlan, delta: &PlanDelta) -> Edit {
        let compiler = self.compiler(plan);
        let mut edit = Edit::default();
        let owners = if delta.node { self.all_ports(plan) } else { self.touched_ports(plan, delta) };
        for owner in owners {
            // The change may be what makes iptables accept its rules.
            self.quarantined.remove(&owner);
            let now = compiler.port(&owner);
            let was = self.exchange(&owner, now);
            edit.exchange(&was.unwrap_or_default(), self.ports.get(&owner));
        }
        if delta.node {
            let base = Base::new(&plan.node, self.host);
            self.exchange_base(base, &mut edit);
        }
        for chain in Dispatch::ALL {
            if edit.is_worth_refilling(chain, self.shared.get(&chain).copied().unwrap_or_default()) {
                edit.refill_shared(chain, self.shared_rules(chain));
            }
        }
        edit
    }

    /// Identifies the rules that the tables should hold.
    pub(super) fn hash(&self) -> StateHash {
        self.hash
    }

    /// The ports that iptables rejected rules of.
    pub(super) fn quarantined(&self) -> BTreeSet<ServicePortName> {
        self.quarantined.keys().cloned().collect()
    }

    pub(super) fn quarantined_count(&self) -> usize {
        self.quarantined.len()
    }

    /// The rules of the quarantined ports.
    pub(super) fn quarantined_text(&self) -> RestoreText {
        let mut edit = Edit::default();
        for rules in self.quarantined.values() {
            edit.exchange(&PortRules::default(), Some(rules));
        }
        edit.text()
    }

    /// Whether some rules count packets.
    pub(super) fn counts_packets(&self) -> bool {
        self.host.counts_invalid || self.host.counts_loopback
    }

    /// The port that a line of an [`Edit`] belongs to, if it belongs to one.
    pub(super) fn owner_of(&self, line: &str) -> Option<&ServicePortName> {
        let rest = ["-A ", "-I "].into_iter().find_map(|command| line.strip_prefix(command))?;
        let (chain, rule) = rest.split_once(' ').unwrap_or((rest, ""));
        let is_shared =
            |(dispatch, text): &(Dispatch, RuleText)| dispatch.chain().1 == chain && text.as_str() == rule;
        let mut ports = self.ports.iter();
        let found =
            ports.find(|(_, rules)| rules.chains.contains_key(chain) || rules.dispatch.iter().any(is_shared));
        found.map(|(owner, _)| owner)
    }

    fn exchange_base(&mut self, base: Base, edit: &mut Edit) {
        let was = std::mem::replace(&mut self.base, base);
        self.hash.remove(was.hash());
        self.hash.add(self.base.hash());
        for (table, name, rules) in &self.base.chains {
            if !was.chains.iter().any(|chain| chain == &(*table, *name, rules.clone())) {
                edit.refill(*table, ChainName::fixed(name), rules.clone());
            }
        }
        match (was.guards_loopback(), self.base.guards_loopback()) {
            (false, true) => edit.jump(&localnet::JUMP),
            (true, false) => {
                edit.remove_jump(&localnet::JUMP);
                edit.remove(Table::Mangle, localnet::chain());
            }
            (true, true) | (false, false) => {}
        }
        if was.tail != self.base.tail {
            edit.refill_shared(Dispatch::Services, self.shared_rules(Dispatch::Services));
        }
    }

    fn all_ports(&self, plan: &FamilyPlan) -> BTreeSet<ServicePortName> {
        self.ports.keys().cloned().chain(plan.ports().map(|port| port.owner().clone())).collect()
    }

    fn touched_ports(&self, plan: &FamilyPlan, delta: &PlanDelta) -> BTreeSet<ServicePortName> {
        let frontends = delta.frontends.values().flat_map(|replaced| [&replaced.was, &replaced.now]);
        let mut owners: BTreeSet<ServicePortName> =
            frontends.flatten().map(|frontend| frontend.owner.clone()).collect();
        owners.extend(delta.pools.keys().map(|id| id.owner.clone()));
        for name in delta.health_checks.keys() {
            owners.extend(plan.ports_of(name).map(|port| port.owner().clone()));
            owners.extend(self.ports.keys().filter(|owner| owner.service == *name).cloned());
        }
        owners
    }

    /// Every chain with its rules, by table and name.
    pub(super) fn chains(&self) -> impl Iterator<Item = (Table, ChainName, Vec<RuleText>)> {
        let shared = Dispatch::ALL.into_iter().map(|dispatch| {
            let (table, name) = dispatch.chain();
            (table, ChainName::fixed(name), self.shared_rules(dispatch))
        });
        let base = self.base.chains.iter();
        let base = base.map(|(table, name, rules)| (*table, ChainName::fixed(name), rules.clone()));
        let own = self.ports.values().flat_map(|rules| &rules.chains);
        let own = own.map(|(name, rules)| (Table::Nat, name.clone(), rules.to_vec()));
        shared.chain(base).chain(own)
    }

    /// The rules of one chain, if it is ours. Searches the chains of all ports.
    pub(super) fn chain(&self, table: Table, chain: &str) -> Option<(ChainName, Vec<RuleText>)> {
        let dispatch = Dispatch::ALL.into_iter().find(|dispatch| dispatch.chain() == (table, chain));
        if let Some(dispatch) = dispatch {
            return Some((ChainName::fixed(dispatch.chain().1), self.shared_rules(dispatch)));
        }
        let mut base = self.base.chains.iter();
        if let Some((_, name, rules)) = base.find(|(of, name, _)| (*of, *name) == (table, chain)) {
            return Some((ChainName::fixed(name), rules.clone()));
        }
        let mut ports = self.ports.values().filter(|_| table == Table::Nat);
        let (name, rules) = ports.find_map(|port| port.chains.get_key_value(chain))?;
        Some((name.clone(), rules.to_vec()))
    }

    /// The names of the chains of a table, also of those whose rules do not matter.
    pub(super) fn chain_names(&self, table: Table) -> impl Iterator<Item = &str> {
        let shared = Dispatch::ALL.into_iter().map(Dispatch::chain);
        let base = self.base.chains.iter().map(|(table, name, _)| (*table, *name));
        let fixed = shared.chain(base).chain(Self::bare_chains());
        let fixed = fixed.filter(move |(of, _)| *of == table).map(|(_, name)| name);
        let own =
            self.ports.values().filter(move |_| table == Table::Nat).flat_map(|port| port.chains.keys());
        fixed.chain(own.map(ChainName::as_str))
    }

    /// The chains with a rule that leads to one of these.
    pub(super) fn chains_leading_to(&self, targets: &BTreeSet<&str>) -> BTreeSet<TableChain> {
        let leads_there = |rule: &str| rule.rsplit(' ').next().is_some_and(|target| targets.contains(target));
        let chains =
            self.chains().filter(|(_, _, rules)| rules.iter().any(|rule| leads_there(rule.as_str())));
        let chains = chains.map(|(table, chain, _)| TableChain { table, chain: chain.to_string() });
        let jumps = self.jumps().filter(|jump| leads_there(jump.rule));
        chains
            .chain(jumps.map(|jump| TableChain { table: jump.table, chain: jump.from.to_owned() }))
            .collect()
    }

    /// Chains that must exist, whatever is in them.
    pub(super) fn bare_chains() -> [(Table, &'static str); 4] {
        [(Table::Filter, FIREWALL), (Table::Filter, CANARY), (Table::Nat, CANARY), (Table::Mangle, CANARY)]
    }

    /// The rules that lead into our chains.
    pub(super) fn jumps(&self) -> impl Iterator<Item = &'static Jump> {
        jumps(self.guards_loopback())
    }

    /// Whether packets from the network to loopback addresses are dropped.
    pub(super) fn guards_loopback(&self) -> bool {
        self.base.guards_loopback()
    }

    /// How many rules at the end of a chain are in a fixed order.
    pub(super) fn tail_of(&self, table: Table, chain: &str) -> Option<usize> {
        let dispatch = Dispatch::ALL.into_iter().find(|dispatch| dispatch.chain() == (table, chain))?;
        Some(if dispatch == Dispatch::Services { self.base.tail.len() } else { 0 })
    }

    /// How many rules there are in each table.
    pub(super) fn count(&self, table: Table) -> usize {
        let base = self.base.chains.iter().filter(|(of, ..)| *of == table).map(|(_, _, rules)| rules.len());
        let shared = self.shared.iter().filter(|(dispatch, _)| dispatch.chain().0 == table);
        let fixed = base.sum::<usize>() + shared.map(|(_, count)| count).sum::<usize>();
        let own = self.ports.values().flat_map(|rules| rules.chains.values()).map(|rules| rules.len());
        match table {
            Table::Nat => fixed + self.base.tail.len() + own.sum::<usize>(),
            Table::Filter | Table::Mangle => fixed,
        }
    }

    fn shared_rules(&self, dispatch: Dispatch) -> Vec<RuleText> {
        let ports = self.ports.values().flat_map(|rules| &rules.dispatch);
        let rules = ports.filter(|(chain, _)| *chain == dispatch).map(|(_, rule)| rule.clone());
        let tail = if dispatch == Dispatch::Services { &self.base.tail[..] } else { &[] };
        rules.chain(tail.iter().cloned()).collect()
    }
}
