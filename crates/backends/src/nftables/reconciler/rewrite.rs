//! Writes a whole table: in place where that can be done, in the place of another one, or where there was none.
//!
//! What the kernel keeps when an object is written again does not show in what was written. So a table that was there before
//! is read back, all but its elements, before it is called repaired, and before a stamp vouches for it.

use ferrule_kernel::kernel::NftTables;
use ferrule_kernel::nft::{Chain, Transaction};
use ferrule_plan::FamilyPlan;

use super::skeleton::{Skeleton, Strays};
use super::{Applied, Lingering, Reconciler, Since, keyed};
use crate::nftables::hash::StateHash;
use crate::nftables::names::SetName;
use crate::nftables::program::{Elements, Numbers, Program};
use crate::sync::{SyncError, SyncReport, Way};

/// About how many elements a portion of a first sync has.
const PORTION: usize = 20_000;

impl<K: NftTables> Reconciler<K> {
    /// Writes everything anew in place if that can be done, and else puts a new table in the place of the old one: the kernel
    /// changes neither a set nor the hook of a chain that is there.
    pub(super) fn rewrite_or_replace(
        &mut self,
        plan: &FamilyPlan,
        wanted: (Program, Elements),
        since: Since,
    ) -> Result<(Applied, SyncReport), SyncError> {
        let skeleton = Skeleton::read(&mut self.kernel)?;
        if !skeleton.can_keep_sets(&wanted.0) {
            return self.replace(plan);
        }
        match self.rewrite(wanted, &skeleton, since) {
            Ok(Rewritten { applied, difference: None, report }) => Ok((applied, report)),
            Ok(_) => self.replace(plan),
            Err(SyncError::Commit(error)) if error.is_about_existing_objects() => self.replace(plan),
            Err(error) => Err(error),
        }
    }

    /// Writes everything anew in one transaction, all but what clients stick to. Chains that are missing are made before.
    fn rewrite(
        &mut self,
        (program, elements): (Program, Elements),
        skeleton: &Skeleton,
        since: Since,
    ) -> Result<Rewritten, SyncError> {
        let mut report = self.make_missing_chains(&program, skeleton)?;
        let strays = skeleton.strays(&program);
        let mut transaction = Transaction::new();
        for set in program.sets() {
            let name = set.name.clone();
            transaction.add_set(set);
            if name != SetName::Affinity.name() {
                transaction.flush_set(name);
            }
        }
        for chain in program.chains() {
            transaction.refill_chain(chain);
        }
        remove_strays(&mut transaction, &strays);
        transaction.add_elements(elements.into_all());
        let ways = program.numbers().ways.elements_to(&strays.pool_chains);
        transaction.add_elements(ways.iter().cloned());
        let stamped = self.commit(transaction, program.hash(), since)?;
        report.add(stamped.report.written, stamped.report.removed);
        let generation = stamped.generation;
        let (mut applied, _) = stamped.applied(program, Way::Rewritten);
        applied.lingering = Lingering { elements: keyed(ways).collect(), chains: strays.pool_chains };
        // Where nobody else ever wrote, nothing of anybody else's can have been kept.
        let difference = match applied.known {
            Some(_) => None,
            None => self.verify(&mut applied, generation, &mut report)?,
        };
        Ok(Rewritten { applied, difference, report: SyncReport { way: Way::Rewritten, ..report } })
    }

    /// Reads back what the commit of a generation left, and has the stamp vouch for it if that is what was written. Says what
    /// differs, if anything does.
    fn verify(
        &mut self,
        applied: &mut Applied,
        generation: u32,
        report: &mut SyncReport,
    ) -> Result<Option<String>, SyncError> {
        let skeleton = Skeleton::read(&mut self.kernel)?;
        let difference = skeleton.difference(&applied.program, &applied.lingering.chains);
        let now = self.kernel.generation()?;
        if difference.is_none() && self.ours.only(generation, now) {
            applied.known = Some(generation);
            let hash = StateHash::of_number(applied.stamp.hash);
            let stamped = self.stamp_anew(applied, Transaction::new(), hash)?;
            report.add(stamped.written, stamped.removed);
        }
        Ok(difference)
    }

    /// Makes chains for pool sizes in a commit before the one whose elements lead to them, as [`Self::prepare`] does.
    fn make_missing_chains(
        &mut self,
        program: &Program,
        skeleton: &Skeleton,
    ) -> Result<SyncReport, SyncError> {
        let missing = skeleton.missing_pool_chains(program);
        if missing.is_empty() {
            return Ok(SyncReport::default());
        }
        let mut transaction = Transaction::new();
        for set in program.sets() {
            transaction.add_set(set);
        }
        for chain in missing {
            transaction.add_chain(chain);
        }
        self.commit_unstamped(transaction)
    }

    /// Puts our table in the place of one that is not laid out as ours, in one transaction.
    pub(super) fn replace(&mut self, plan: &FamilyPlan) -> Result<(Applied, SyncReport), SyncError> {
        let (program, elements) = Program::of(plan, Numbers::default());
        let mut transaction = Transaction::new();
        transaction.delete_table_if_there();
        add_skeleton(&mut transaction, &program);
        transaction.add_elements(elements.into_all());
        let stamped = self.commit(transaction, program.hash(), Since::Always)?;
        let generation = stamped.generation;
        let (mut applied, mut report) = stamped.applied(program, Way::Made);
        match self.verify(&mut applied, generation, &mut report)? {
            None => Ok((applied, report)),
            Some(difference) => Err(SyncError::Verify { difference }),
        }
    }

    /// Makes the table where there is none: in portions, what a cluster cannot do without first. The stamp comes with the last, so
    /// that a start that finds half of it writes everything.
    pub(super) fn make(
        &mut self,
        plan: &FamilyPlan,
        generation: u32,
    ) -> Result<(Applied, SyncReport), SyncError> {
        let (program, elements) = Program::of(plan, Numbers::default());
        let mut portions = elements.in_portions(PORTION);
        let last = portions.pop().unwrap_or_default();
        let mut report = SyncReport::default();
        let mut transaction = Transaction::new();
        add_skeleton(&mut transaction, &program);
        for portion in portions {
            transaction.add_elements(portion);
            let committed = self.commit_unstamped(std::mem::take(&mut transaction))?;
            report.add(committed.written, committed.removed);
        }
        transaction.add_elements(last);
        let mut stamped = self.commit(transaction, program.hash(), Since::Generation(Some(generation)))?;
        report.add(stamped.report.written, stamped.report.removed);
        stamped.report = report;
        Ok(stamped.applied(program, Way::Made))
    }
}

/// A table that was written in place.
struct Rewritten {
    applied: Applied,
    /// What of it is not as it was written.
    difference: Option<String>,
    report: SyncReport,
}

/// Removes what is not ours, as kube-proxy's where it was in charge meanwhile. Objects may use each other, and the kernel
/// removes nothing that is used: rules go first, then sets and the like, then chains.
fn remove_strays(transaction: &mut Transaction, strays: &Strays) {
    for name in &strays.chains {
        transaction.refill_chain(Chain { name: name.clone(), hook: None, rules: Vec::new(), comment: None });
    }
    for set in &strays.sets {
        transaction.delete_set(set.clone());
    }
    for object in &strays.others {
        transaction.delete_other(object.clone());
    }
    for chain in &strays.chains {
        transaction.delete_chain(chain.clone());
    }
}

/// The table, its sets and its chains.
fn add_skeleton(transaction: &mut Transaction, program: &Program) {
    transaction.add_table();
    for set in program.sets() {
        transaction.add_set(set);
    }
    for chain in program.chains() {
        transaction.add_chain(chain);
    }
}
