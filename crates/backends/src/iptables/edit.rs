//! A change of the tables, and its text in the language of `iptables-restore`.

use std::collections::{BTreeMap, BTreeSet};

use ferrule_kernel::iptables::{ChainName, RestoreText, RuleText, TableText};

use super::base::{Dispatch, Jump, Table};
use super::frontend::PortRules;

/// A shared chain with fewer rules to delete or insert is never rewritten.
const MIN_CHANGES_TO_REFILL: usize = 32;

/// Changes of the tables, to be written together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Edit {
    /// Chains that are created or rewritten with these rules.
    refill: BTreeMap<(Table, ChainName), Vec<RuleText>>,
    /// Chains that go; those that other programs use are only emptied.
    remove: BTreeSet<(Table, ChainName)>,
    empty: BTreeSet<(Table, ChainName)>,
    delete_rules: Vec<(Dispatch, RuleText)>,
    insert_rules: Vec<(Dispatch, RuleText)>,
    jumps: Vec<&'static Jump>,
    delete_jumps: Vec<&'static Jump>,
    /// How many rules are deleted and inserted in each chain.
    changes: BTreeMap<Dispatch, usize>,
}

impl Edit {
    pub(super) fn is_empty(&self) -> bool {
        self.refill.is_empty()
            && self.remove.is_empty()
            && self.empty.is_empty()
            && self.delete_rules.is_empty()
            && self.insert_rules.is_empty()
            && self.jumps.is_empty()
            && self.delete_jumps.is_empty()
    }

    /// How many rules and chains are written.
    pub(super) fn written(&self) -> usize {
        let refilled: usize = self.refill.values().map(|rules| 1 + rules.len()).sum();
        refilled + self.insert_rules.len() + self.jumps.len()
    }

    /// How many rules and chains are removed by name.
    pub(super) fn removed(&self) -> usize {
        self.remove.len() + self.empty.len() + self.delete_rules.len() + self.delete_jumps.len()
    }

    /// The chains that are changed, in the order of tables and names.
    pub(super) fn chains(&self) -> BTreeSet<&str> {
        let whole =
            self.refill.keys().chain(&self.remove).chain(&self.empty).map(|(_, chain)| chain.as_str());
        let shared =
            self.delete_rules.iter().chain(&self.insert_rules).map(|(dispatch, _)| dispatch.chain().1);
        whole.chain(shared).chain(self.jumps.iter().chain(&self.delete_jumps).map(|jump| jump.from)).collect()
    }

    /// How many rules are written into a table.
    pub(super) fn rules(&self, table: Table) -> usize {
        let refilled = self.refill.iter().filter(|((of, _), _)| *of == table).map(|(_, rules)| rules.len());
        let insert_rules = self.insert_rules.iter().filter(|(dispatch, _)| dispatch.chain().0 == table);
        refilled.sum::<usize>() + insert_rules.count()
    }

    /// Creates or rewrites a chain.
    pub(super) fn refill(&mut self, table: Table, chain: ChainName, rules: Vec<RuleText>) {
        self.refill.insert((table, chain), rules);
    }

    /// Rewrites a shared chain instead of changing single rules.
    pub(super) fn refill_shared(&mut self, dispatch: Dispatch, rules: Vec<RuleText>) {
        self.delete_rules.retain(|(of, _)| *of != dispatch);
        self.insert_rules.retain(|(of, _)| *of != dispatch);
        self.changes.remove(&dispatch);
        let (table, chain) = dispatch.chain();
        self.refill(table, ChainName::fixed(chain), rules);
    }

    /// Removes a chain.
    pub(super) fn remove(&mut self, table: Table, chain: ChainName) {
        self.remove.insert((table, chain));
    }

    /// Empties a chain that others use.
    pub(super) fn empty(&mut self, table: Table, chain: ChainName) {
        self.empty.insert((table, chain));
    }

    /// Puts a jump at the top of its chain.
    pub(super) fn jump(&mut self, jump: &'static Jump) {
        self.jumps.push(jump);
    }

    /// Takes a jump out of its chain, where it is.
    pub(super) fn remove_jump(&mut self, jump: &'static Jump) {
        self.delete_jumps.push(jump);
    }

    /// Replaces a port's rules.
    pub(super) fn exchange(&mut self, was: &PortRules, now: Option<&PortRules>) {
        let nothing = PortRules::default();
        let now = now.unwrap_or(&nothing);
        for (chain, rules) in &now.chains {
            if was.chains.get(chain) != Some(rules) {
                // Another port may have had it removed.
                self.remove.remove(&(Table::Nat, chain.clone()));
                self.refill(Table::Nat, chain.clone(), rules.to_vec());
            }
        }
        for chain in was.chains.keys().filter(|chain| !now.chains.contains_key(*chain)) {
            self.remove(Table::Nat, chain.clone());
        }
        let gone: Vec<_> = was.dispatch.iter().filter(|rule| !now.dispatch.contains(rule)).cloned().collect();
        let new: Vec<_> = now.dispatch.iter().filter(|rule| !was.dispatch.contains(rule)).cloned().collect();
        for (dispatch, _) in gone.iter().chain(&new) {
            *self.changes.entry(*dispatch).or_default() += 1;
        }
        self.delete_rules.extend(gone);
        // Each is inserted at the top, so the last one ends up first.
        self.insert_rules.extend(new.into_iter().rev());
    }

    /// Whether so much of a shared chain changes that it is cheaper to write all of it.
    pub(super) fn is_worth_refilling(&self, dispatch: Dispatch, rules: usize) -> bool {
        let changes = self.changes.get(&dispatch).copied().unwrap_or_default();
        changes > MIN_CHANGES_TO_REFILL && changes * 4 > rules
    }

    /// For `iptables-restore --noflush`.
    pub(super) fn text(&self) -> RestoreText {
        let mut text = RestoreText::default();
        for table in Table::ALL {
            text.table(table.name(), |lines| self.table(table, lines));
        }
        text
    }

    fn table(&self, table: Table, lines: &mut TableText<'_>) {
        let here = |(of, _): &&(Table, ChainName)| *of == table;
        for (_, chain) in self.refill.keys().chain(&self.remove).chain(&self.empty).filter(here) {
            lines.chain(chain);
        }
        for (dispatch, rule) in self.delete_rules.iter().filter(|(dispatch, _)| dispatch.chain().0 == table) {
            lines.delete(dispatch.chain().1, rule);
        }
        for jump in self.delete_jumps.iter().filter(|jump| jump.table == table) {
            lines.delete(jump.from, &RuleText::literal(jump.rule));
        }
        for ((_, chain), rules) in self.refill.iter().filter(|((of, _), _)| *of == table) {
            for rule in rules {
                lines.append(chain, rule);
            }
        }
        for (dispatch, rule) in self.insert_rules.iter().filter(|(dispatch, _)| dispatch.chain().0 == table) {
            lines.insert(dispatch.chain().1, rule);
        }
        for jump in self.jumps.iter().filter(|jump| jump.table == table) {
            lines.insert(jump.from, &RuleText::literal(jump.rule));
        }
        for (_, chain) in self.remove.iter().filter(here) {
            lines.remove(chain);
        }
    }
}
