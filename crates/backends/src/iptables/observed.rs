//! What there is in the tables, held against what there should be.

use std::collections::{BTreeMap, BTreeSet};

use ferrule_kernel::iptables::{RuleWords, Saved};

use super::base::{JUMPS, Table};
use super::edit::Edit;
use super::names::OF_SERVICES;
use super::program::Program;

/// The tables as they were saved.
pub(super) struct Observed<'a> {
    saved: &'a Saved,
    /// The rules of each chain.
    rules: BTreeMap<(&'a str, &'a str), Vec<&'a str>>,
}

impl<'a> Observed<'a> {
    pub(super) fn of(saved: &'a Saved) -> Self {
        let mut rules: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for table in &saved.tables {
            for chain in &table.chains {
                rules.entry((&table.name, &chain.name)).or_default();
            }
            for rule in &table.rules {
                rules.entry((&table.name, &rule.chain)).or_default().push(&rule.text);
            }
        }
        Self { saved, rules }
    }

    /// Whether an earlier run wrote here.
    pub(super) fn is_ours(&self) -> bool {
        self.rules.contains_key(&("nat", "KUBE-SERVICES"))
    }

    /// What makes the tables what the program wants.
    pub(super) fn corrections(&self, program: &Program) -> Edit {
        let mut edit = Edit::default();
        let mut wanted = BTreeSet::new();
        for (table, chain, rules) in program.chains() {
            if !self.holds(program, (table, chain), &rules) {
                edit.refill(table, chain, rules);
            }
            wanted.insert((table, chain));
        }
        for (table, chain) in Program::bare_chains() {
            if !wanted.contains(&(table, chain)) && !self.rules.contains_key(&(table.name(), chain)) {
                edit.refill(table, chain, Vec::new());
            }
        }
        for jump in &JUMPS {
            let there = self.rules.get(&(jump.table.name(), jump.from)).map_or(&[][..], Vec::as_slice);
            let rule = RuleWords::of(jump.rule);
            if !there.iter().any(|text| text.contains("KUBE-") && RuleWords::of(text) == rule) {
                edit.jump(jump);
            }
        }
        self.stale(&wanted, &mut edit);
        edit
    }

    fn holds(&self, program: &Program, (table, chain): (Table, &str), wanted: &[Box<str>]) -> bool {
        let Some(there) = self.rules.get(&(table.name(), chain)).filter(|there| there.len() == wanted.len())
        else {
            return false;
        };
        let mut there: Vec<RuleWords> = there.iter().map(|text| RuleWords::of(text)).collect();
        let mut wanted: Vec<RuleWords> = wanted.iter().map(|text| RuleWords::of(text)).collect();
        // In a shared chain only the end has its place.
        if let Some(tail) = program.tail_of(table, chain) {
            let front = wanted.len().saturating_sub(tail);
            there[..front].sort_unstable();
            wanted[..front].sort_unstable();
            there[front..].sort_unstable();
            wanted[front..].sort_unstable();
        }
        there == wanted
    }

    /// Chains of Services that are no more. What another program jumps to can only be emptied.
    fn stale(&self, wanted: &BTreeSet<(Table, &str)>, edit: &mut Edit) {
        let Some(nat) = self.saved.table(Table::Nat.name()) else { return };
        let is_ours = |chain: &str| chain.starts_with("KUBE-");
        let others = nat.rules.iter().filter(|rule| !is_ours(&rule.chain) && rule.text.contains("KUBE-"));
        let targets: Vec<RuleWords> = others.map(|rule| RuleWords::of(&rule.text)).collect();
        let used: BTreeSet<&str> = targets.iter().filter_map(RuleWords::target).collect();
        for chain in nat.chains.iter().map(|chain| chain.name.as_str()) {
            let of_service = OF_SERVICES.iter().any(|beginning| chain.starts_with(beginning));
            if !of_service || wanted.contains(&(Table::Nat, chain)) {
                continue;
            }
            match used.contains(chain) {
                false => edit.remove(Table::Nat, chain),
                true if self.rules.get(&("nat", chain)).is_some_and(|rules| !rules.is_empty()) => {
                    edit.empty(Table::Nat, chain);
                }
                true => {}
            }
        }
    }
}
