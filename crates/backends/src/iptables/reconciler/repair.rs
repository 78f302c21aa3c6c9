//! Repairs what another program changed: what a verification found, the chains that notifications named, or everything.

use std::collections::BTreeSet;

use ferrule_kernel::iptables::IptablesError;
use ferrule_kernel::port::XTables;
use ferrule_plan::{FamilyPlan, PlanDelta};

use super::{LENIENT, Reconciler};
use crate::iptables::observed::{Accuracy, ChainRead, Observed};
use crate::iptables::rule_set::RuleSet;
use crate::iptables::suspected::{MAX_CHAINS, Suspicion, TableChain};
use crate::iptables::verify::Correction;
use crate::{SyncOutcome, SyncReport, Trigger};

impl<K: XTables> Reconciler<K> {
    pub(super) fn repair(
        &mut self,
        rule_set: RuleSet,
        plan: &FamilyPlan,
        changed: &PlanDelta,
    ) -> Result<SyncReport, IptablesError> {
        match (self.known.take_correction(), self.suspected.take()) {
            (Some(correction), Suspicion::Unwatched | Suspicion::Nothing) => {
                self.known.put_rule_set(rule_set);
                self.correct_and_change(plan, *correction, changed)
            }
            // Two at once: what was read before the second is no longer certain.
            (Some(_), Suspicion::Chains(_) | Suspicion::Everything) => {
                self.read_and_correct(plan, Accuracy::Exact)
            }
            (None, suspicion) => self.repair_suspected(rule_set, plan, changed, suspicion),
        }
    }

    fn repair_suspected(
        &mut self,
        rule_set: RuleSet,
        plan: &FamilyPlan,
        changed: &PlanDelta,
        suspicion: Suspicion,
    ) -> Result<SyncReport, IptablesError> {
        match suspicion {
            Suspicion::Chains(chains) => self.repair_chains(rule_set, plan, changed, &chains),
            // An earlier repair has seen to it. The next verification makes sure.
            Suspicion::Nothing => self.change(rule_set, plan, changed),
            Suspicion::Unwatched | Suspicion::Everything if self.is_untouched()? => {
                self.change(rule_set, plan, changed)
            }
            Suspicion::Unwatched => self.read_and_correct(plan, Accuracy::Exact),
            // It may be about rules of others. Then comments of endpoints are no reason to write.
            Suspicion::Everything => self.read_and_correct(plan, LENIENT),
        }
    }

    /// The correction comes first: it is about the rules as they are, and the change may depend on rules that are missing.
    fn correct_and_change(
        &mut self,
        plan: &FamilyPlan,
        correction: Correction,
        delta: &PlanDelta,
    ) -> Result<SyncReport, IptablesError> {
        let corrected = self.correct(correction).inspect_err(|_| {
            // The change is not written either: the next sync reads what is there.
            self.known.take_rule_set();
        })?;
        self.change_after(corrected, plan, delta)
    }

    fn change_after(
        &mut self,
        corrected: Option<SyncReport>,
        plan: &FamilyPlan,
        delta: &PlanDelta,
    ) -> Result<SyncReport, IptablesError> {
        let changed = self.sync(plan, Trigger::Changed(delta))?;
        Ok(match corrected {
            None => changed,
            Some(corrected) => SyncReport {
                written: corrected.written + changed.written,
                removed: corrected.removed + changed.removed,
                commits: corrected.commits + changed.commits,
                outcome: corrected.outcome,
                ..changed
            },
        })
    }

    /// Reads and corrects only these chains: reading all rules of a large cluster takes a second.
    fn repair_chains(
        &mut self,
        rule_set: RuleSet,
        plan: &FamilyPlan,
        changed: &PlanDelta,
        chains: &BTreeSet<TableChain>,
    ) -> Result<SyncReport, IptablesError> {
        // Changes that wait are not in the tables, so what differs is not known.
        if self.has_unwritten() {
            return self.read_and_correct(plan, Accuracy::Exact);
        }
        let mut read = self.read_chains(chains)?;
        let referring = referring_to_missing(&rule_set, &read);
        if referring.len() > MAX_CHAINS {
            return self.read_and_correct(plan, Accuracy::Exact);
        }
        read.extend(self.read_chains(&referring)?);
        let Some(edit) = Observed::of_chains(&read).chain_corrections(&rule_set, &read) else {
            return self.read_and_correct(plan, Accuracy::Exact);
        };
        self.known.begin_write();
        let is_needed = !edit.is_empty();
        let written = self.write(&rule_set, edit, SyncOutcome::Rewritten);
        let corrected = match written {
            Ok(report) => report,
            Err(error) => {
                self.known.end_write();
                return Err(error);
            }
        };
        self.mark_written(rule_set);
        let corrected = is_needed.then_some(corrected);
        self.change_after(corrected, plan, changed)
    }

    fn read_chains(&mut self, chains: &BTreeSet<TableChain>) -> Result<Vec<ChainRead>, IptablesError> {
        let mut read = Vec::with_capacity(chains.len());
        for TableChain { table, chain } in chains {
            let rules = self.kernel.chain_rules(table.name(), chain)?;
            read.push(ChainRead { table: *table, chain: chain.clone(), rules });
        }
        Ok(read)
    }
}

/// Chains whose rules lead to a missing one, and which were not read yet. If that one was renamed, they lead to it still, under
/// its new name.
fn referring_to_missing(rule_set: &RuleSet, read: &[ChainRead]) -> BTreeSet<TableChain> {
    let missing = read.iter().filter(|read| read.rules.is_none());
    let missing: BTreeSet<&str> = missing.map(|read| read.chain.as_str()).collect();
    if missing.is_empty() {
        return BTreeSet::new();
    }
    let mut referring = rule_set.chains_leading_to(&missing);
    referring.retain(|TableChain { table, chain }| {
        read.iter().all(|read| (read.table, &read.chain) != (*table, chain))
    });
    referring
}
