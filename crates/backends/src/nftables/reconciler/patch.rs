//! What a sync would write, found by reading everything.

use ferrule_kernel::nft::Transaction;
use ferrule_kernel::nft::show::{KnownSets, lines};
use ferrule_kernel::port::NftTables;
use ferrule_plan::FamilyPlan;

use super::observed::{self, Observed};
use super::rewrite::{Wanted, add_skeleton};
use super::skeleton::Skeleton;
use super::{Reconciler, State};
use crate::Patch;
use crate::nftables::SyncError;
use crate::nftables::rule_set::StableIds;

impl<K: NftTables> Reconciler<K> {
    /// The objects and elements by which the table differs from the plan. Writes nothing.
    pub fn diff(&mut self, plan: &FamilyPlan) -> Result<Patch, SyncError> {
        let stamp = match Observed::read(&mut self.kernel)? {
            Observed::Ours(stamp) => stamp,
            Observed::Nothing => return Ok(self.patch(&created(plan))),
            Observed::Foreign => {
                let mut transaction = Transaction::new();
                transaction.delete_table_if_exists();
                let mut patch = self.patch(&transaction);
                patch.lines.extend(self.patch(&created(plan)).lines);
                return Ok(patch);
            }
        };
        let ids = match &self.state {
            State::Unknown => None,
            State::Applied(applied) => Some(applied.rule_set.ids().clone()),
        };
        let Wanted { rule_set, elements } = self.wanted(plan, stamp, ids.as_ref())?;
        let skeleton = Skeleton::read(&mut self.kernel)?;
        let mut transaction = Transaction::new();
        skeleton.corrections(&rule_set).write_to(&mut transaction);
        let differing = observed::differing_elements(&mut self.kernel, &rule_set, &elements, &skeleton)?;
        for set in differing.unreadable {
            transaction.flush_set(set);
        }
        transaction.delete_elements(&differing.surplus);
        transaction.add_elements(differing.missing);
        Ok(self.patch(&transaction))
    }

    fn patch(&mut self, transaction: &Transaction) -> Patch {
        // Without its set, an element is shown as bytes.
        let sets = self.kernel.sets().unwrap_or_default();
        let known: KnownSets = sets.into_iter().filter_map(|seen| Some((seen.name, seen.object?))).collect();
        let family = self.kernel.family();
        Patch {
            lines: lines(transaction, &known).into_iter().map(|line| format!("{family} {line}")).collect(),
        }
    }
}

fn created(plan: &FamilyPlan) -> Transaction {
    let Wanted { rule_set, elements } = Wanted::new(plan, StableIds::default());
    let mut transaction = Transaction::new();
    add_skeleton(&mut transaction, &rule_set);
    transaction.add_elements(elements.into_all());
    transaction
}
