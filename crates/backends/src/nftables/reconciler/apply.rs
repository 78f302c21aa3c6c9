//! Writes a change of the plan to a table whose content is known.

use ferrule_kernel::nft::{Element, Transaction};
use ferrule_kernel::port::NftTables;
use ferrule_plan::{FamilyPlan, PlanDelta};

use super::commit::Baseline;
use super::rewrite::Wanted;
use super::{Applied, Reconciler, Synced};
use crate::StateHash;
use crate::nftables::SyncError;
use crate::nftables::chain_ids::goto_target;
use crate::nftables::hash::hash_of;
use crate::nftables::rule_set::Edit;
use crate::{SyncOutcome, SyncReport};

impl<K: NftTables> Reconciler<K> {
    /// Writes a change. If the node's settings changed, everything is rewritten.
    pub(super) fn apply(
        &mut self,
        mut applied: Applied,
        plan: &FamilyPlan,
        delta: &PlanDelta,
    ) -> Result<Synced, SyncError> {
        if !applied.rule_set.is_for(plan) {
            let wanted = Wanted::new(plan, applied.rule_set.ids().clone());
            return self.rewrite_or_replace(plan, wanted, Baseline::Generation(applied.verified));
        }
        let edit = applied.rule_set.apply_delta(plan, delta);
        if edit.is_empty() && edit.linger.is_empty() {
            self.remove_lingering(applied)
        } else {
            self.write(applied, edit)
        }
    }

    /// Writes a change, then reads everything if another program may have touched the table.
    ///
    /// The change comes first: a table that holds the plan can then be adopted and need not be rewritten.
    pub(super) fn apply_and_verify(
        &mut self,
        applied: Applied,
        plan: &FamilyPlan,
        delta: &PlanDelta,
    ) -> Result<Synced, SyncError> {
        let changed =
            if delta.is_empty() { Ok(Synced::unchanged(applied)) } else { self.apply(applied, plan, delta) };
        let changed = match changed {
            Err(SyncError::Commit(error)) if error.is_about_existing_objects() => {
                // Another program removed what the change is to remove or replace.
                return self.adopt_or_rewrite(plan, None);
            }
            result => result?,
        };
        if self.is_untouched(&changed.applied)? {
            return Ok(changed);
        }
        let verified = self.adopt_or_rewrite(plan, Some(changed.applied.rule_set.ids()))?;
        let report = if verified.report.commits == 0 { changed.report } else { verified.report };
        Ok(Synced { report, ..verified })
    }

    /// Removes what lingers, if anything does.
    pub(super) fn remove_lingering(&mut self, applied: Applied) -> Result<Synced, SyncError> {
        if applied.lingering.len() == 0 {
            return Ok(Synced::unchanged(applied));
        }
        self.write(applied, Edit::default())
    }

    /// Writes an edit, and removes what lingers from the one before.
    fn write(&mut self, mut applied: Applied, edit: Edit) -> Result<Synced, SyncError> {
        let mut report = self.create_targets(&mut applied, &edit)?;
        let old = std::mem::take(&mut applied.lingering);
        let mut transaction = Transaction::new();
        for chain in edit.refill {
            transaction.refill_chain(chain);
        }
        // What came into use again stays.
        let in_use = applied.rule_set.chain_names();
        let leads_to_used =
            |element: &&Element| goto_target(element).is_some_and(|chain| in_use.contains(chain));
        let out_of_use = old.elements.values().filter(|element| !leads_to_used(element));
        transaction.delete_elements(out_of_use.chain(&edit.delete));
        transaction.add_elements(edit.add);
        for set in old.sets {
            transaction.delete_set(set);
        }
        for chain in old.chains.into_iter().filter(|chain| !in_use.contains(chain)) {
            transaction.delete_chain(chain);
        }
        applied.lingering.add_elements(edit.linger);
        // Part of the state: a start that finds the stamp must see that something is left to remove.
        let mut hash = applied.rule_set.hash();
        applied.lingering.elements.values().for_each(|element| hash.add(hash_of(element)));
        let committed = self.commit_restamped(&mut applied, transaction, hash)?;
        report.add(committed.written, committed.removed);
        Ok(Synced { applied, report: SyncReport { outcome: SyncOutcome::Incremental, ..report } })
    }

    /// Creates the sets and chains that new elements refer to, in an earlier commit: a packet that is under way when a chain is
    /// created finds it empty until the next commit.
    fn create_targets(&mut self, applied: &mut Applied, edit: &Edit) -> Result<SyncReport, SyncError> {
        if edit.sets.is_empty() && edit.chains.is_empty() {
            return Ok(SyncReport::default());
        }
        let mut transaction = Transaction::new();
        for set in &edit.sets {
            transaction.add_set(set.clone());
        }
        for chain in &edit.chains {
            // One of this name may be left from a pool size that went out of use.
            transaction.refill_chain(chain.clone());
        }
        transaction.add_elements(edit.dispatch.iter().cloned());
        // The state is the same as long as no element refers to them.
        let hash = StateHash::from_number(applied.stamp.hash);
        self.commit_restamped(applied, transaction, hash)
    }
}
