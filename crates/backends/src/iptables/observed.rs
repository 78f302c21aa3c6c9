//! The tables as they are, compared with the rules they should hold.

use std::collections::{BTreeMap, BTreeSet};

use ferrule_kernel::iptables::{CanonicalRule, ChainName, RuleText, Saved};

use super::base::{Jump, Table};
use super::edit::Edit;
use super::localnet;
use super::names::{CANARY, OF_POOLS, OF_SERVICES};
use super::rule_set::RuleSet;

/// How exactly the tables must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Accuracy {
    /// Including every comment.
    Exact,
    /// Rules of endpoints may have comments or not: with very many endpoints none are written, and old ones stay.
    AnyEndpointComments,
}

/// The tables as they were saved.
pub(super) struct Observed<'a> {
    saved: &'a Saved,
    accuracy: Accuracy,
    /// The tables to compare.
    tables: Vec<Table>,
    /// The rules of each chain.
    rules: BTreeMap<(&'a str, &'a str), Vec<&'a str>>,
}

/// A chain as it was read.
pub(super) struct ChainRead {
    pub table: Table,
    pub chain: String,
    /// `None` if there is no such chain.
    pub rules: Option<Vec<RuleText>>,
}

impl<'a> Observed<'a> {
    /// Some chains instead of whole tables.
    pub(super) fn of_chains(read: &'a [ChainRead]) -> Self {
        static NOTHING: Saved = Saved { tables: Vec::new(), unreadable: Vec::new() };
        let there = read.iter().filter_map(|read| {
            let rules = read.rules.as_ref()?.iter().map(RuleText::as_str).collect();
            Some(((read.table.name(), read.chain.as_str()), rules))
        });
        Self { saved: &NOTHING, accuracy: Accuracy::Exact, tables: Vec::new(), rules: there.collect() }
    }

    /// What has to be written to correct these chains. `None` if only all tables can tell.
    pub(super) fn chain_corrections(&self, rule_set: &RuleSet, read: &[ChainRead]) -> Option<Edit> {
        let mut edit = Edit::default();
        for ChainRead { table, chain, rules } in read {
            let (table, chain) = (*table, chain.as_str());
            for jump in rule_set.jumps().filter(|jump| (jump.table, jump.from) == (table, chain)) {
                if !self.has_jump(jump) {
                    edit.jump(jump);
                }
            }
            if let Some((name, wanted)) = rule_set.chain(table, chain) {
                if !self.holds(rule_set, table, &name, &wanted) {
                    edit.refill(table, name, wanted);
                }
            } else if let Some(bare) = RuleSet::bare_chains().into_iter().find(|bare| *bare == (table, chain))
            {
                if rules.is_none() {
                    edit.refill(table, ChainName::fixed(bare.1), Vec::new());
                }
            } else if rules.is_some() && OF_SERVICES.iter().any(|beginning| chain.starts_with(beginning)) {
                return None;
            }
        }
        Some(edit)
    }

    pub(super) fn new(saved: &'a Saved, accuracy: Accuracy, tables: Vec<Table>) -> Self {
        let mut rules: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for table in &saved.tables {
            for chain in &table.chains {
                rules.entry((&table.name, chain.name.as_str())).or_default();
            }
            for rule in &table.rules {
                rules.entry((&table.name, rule.chain.as_str())).or_default().push(rule.text.as_str());
            }
        }
        Self { saved, accuracy, tables, rules }
    }

    /// Whether an earlier run wrote here.
    pub(super) fn is_ours(&self) -> bool {
        self.rules.contains_key(&("nat", "KUBE-SERVICES"))
    }

    /// What has to be written to get these rules.
    pub(super) fn corrections(&self, rule_set: &RuleSet) -> Edit {
        let mut edit = Edit::default();
        let mut wanted = BTreeSet::new();
        for (table, chain, rules) in rule_set.chains().filter(|(table, ..)| self.tables.contains(table)) {
            wanted.insert((table, chain.clone()));
            if !self.holds(rule_set, table, &chain, &rules) {
                edit.refill(table, chain, rules);
            }
        }
        for (table, chain) in
            RuleSet::bare_chains().into_iter().filter(|(table, _)| self.tables.contains(table))
        {
            let name = ChainName::fixed(chain);
            if !self.rules.contains_key(&(table.name(), chain)) && !wanted.contains(&(table, name.clone())) {
                edit.refill(table, name, Vec::new());
            }
        }
        for jump in rule_set.jumps().filter(|jump| self.tables.contains(&jump.table)) {
            if !self.has_jump(jump) {
                edit.jump(jump);
            }
        }
        for table in self.tables.iter().filter(|table| self.is_dormant(**table)) {
            // Any change of a table puts it into effect again.
            edit.refill(*table, ChainName::fixed(CANARY), Vec::new());
        }
        self.remove_unused_guard(&wanted, &mut edit);
        self.remove_stale_chains(&wanted, &mut edit);
        edit
    }

    /// Whether another program switched a table off.
    fn is_dormant(&self, table: Table) -> bool {
        self.saved.table(table.name()).is_some_and(|table| table.is_dormant)
    }

    fn has_jump(&self, jump: &Jump) -> bool {
        let there = self.rules.get(&(jump.table.name(), jump.from));
        has_jump(there.map_or(&[][..], Vec::as_slice), jump)
    }

    /// Removes the guard of loopback addresses if they are not served any more.
    fn remove_unused_guard(&self, wanted: &BTreeSet<(Table, ChainName)>, edit: &mut Edit) {
        let (table, chain) = (Table::Mangle, localnet::chain());
        let is_there = self.rules.contains_key(&(table.name(), chain.as_str()));
        if !self.tables.contains(&table) || !is_there || wanted.contains(&(table, chain.clone())) {
            return;
        }
        if self.has_jump(&localnet::JUMP) {
            edit.remove_jump(&localnet::JUMP);
        }
        edit.remove(table, chain);
    }

    fn holds(&self, rule_set: &RuleSet, table: Table, chain: &ChainName, wanted: &[RuleText]) -> bool {
        let chain = chain.as_str();
        let Some(there) = self.rules.get(&(table.name(), chain)).filter(|there| there.len() == wanted.len())
        else {
            return false;
        };
        let is_pool = || OF_POOLS.iter().any(|beginning| chain.starts_with(beginning));
        let ignores_comments = self.accuracy == Accuracy::AnyEndpointComments && is_pool();
        let read = |text: &str| match CanonicalRule::parse(text) {
            words if ignores_comments => words.without_comment(),
            words => words,
        };
        let mut there: Vec<CanonicalRule> = there.iter().map(|text| read(text)).collect();
        let mut wanted: Vec<CanonicalRule> = wanted.iter().map(|text| read(text.as_str())).collect();
        // In a shared chain only the end has a fixed order.
        if let Some(tail) = rule_set.tail_of(table, chain) {
            let front = wanted.len().saturating_sub(tail);
            there[..front].sort_unstable();
            wanted[..front].sort_unstable();
            there[front..].sort_unstable();
            wanted[front..].sort_unstable();
        }
        there == wanted
    }

    /// Removes chains of Services that are gone. One that another program jumps to can only be emptied.
    fn remove_stale_chains(&self, wanted: &BTreeSet<(Table, ChainName)>, edit: &mut Edit) {
        let Some(nat) = self.saved.table(Table::Nat.name()) else { return };
        let of_service =
            |chain: &ChainName| OF_SERVICES.iter().any(|beginning| chain.as_str().starts_with(beginning));
        let is_wanted = |chain: &ChainName| wanted.contains(&(Table::Nat, chain.clone()));
        // Other programs have chains that begin with KUBE-, too.
        let is_ours = |chain: &ChainName| of_service(chain) || is_wanted(chain);
        let others =
            nat.rules.iter().filter(|rule| !is_ours(&rule.chain) && rule.text.as_str().contains("KUBE-"));
        let targets: Vec<CanonicalRule> =
            others.map(|rule| CanonicalRule::parse(rule.text.as_str())).collect();
        // What a rule of another program that is not understood jumps to is not known.
        let has_opaque = nat.rules.iter().any(|rule| !is_ours(&rule.chain) && rule.text.is_opaque());
        let used: BTreeSet<&str> = targets.iter().filter_map(CanonicalRule::target).collect();
        for chain in nat.chains.iter().map(|chain| &chain.name) {
            if !of_service(chain) || is_wanted(chain) {
                continue;
            }
            match used.contains(chain.as_str()) || has_opaque {
                false => edit.remove(Table::Nat, chain.clone()),
                true if self.rules.get(&("nat", chain.as_str())).is_some_and(|rules| !rules.is_empty()) => {
                    edit.empty(Table::Nat, chain.clone());
                }
                true => {}
            }
        }
    }
}

/// Whether the rules of a chain include this jump.
pub(super) fn has_jump(rules: &[&str], jump: &Jump) -> bool {
    let (_, target) = jump.rule.rsplit_once(' ').unwrap_or_default();
    let rule = CanonicalRule::parse(jump.rule);
    rules.iter().any(|text| text.contains(target) && CanonicalRule::parse(text) == rule)
}
