//! Writes a whole table: in place where possible, in place of another one, or where there was none.
//!
//! The kernel keeps parts of an object that is written again, which does not show in what was written. So a table that existed
//! before is read back, all but its elements, before it counts as repaired and a stamp vouches for it.

use ferrule_kernel::nft::{Chain, Transaction};
use ferrule_kernel::port::NftTables;
use ferrule_plan::FamilyPlan;

use super::commit::{Baseline, StampedCommit};
use super::skeleton::{Skeleton, Strays};
use super::{Applied, Reconciler, Synced};
use crate::Stamp;
use crate::StateHash;
use crate::nftables::SyncError;
use crate::nftables::names::SetName;
use crate::nftables::rule_set::{Elements, RuleSet, StableIds};
use crate::{SyncOutcome, SyncReport};

/// About how many elements each commit of a first sync has.
const FIRST_SYNC_CHUNK: usize = 20_000;

/// All that a table should hold.
pub(super) struct Wanted {
    pub rule_set: RuleSet,
    pub elements: Elements,
}

impl Wanted {
    pub(super) fn new(plan: &FamilyPlan, ids: StableIds) -> Self {
        let (rule_set, elements) = RuleSet::from_plan(plan, ids);
        Self { rule_set, elements }
    }

    /// Whether a stamp was left by a commit of this state.
    pub(super) fn is_stamped(&self, stamp: Stamp) -> bool {
        stamp.hash == self.rule_set.hash().as_number()
    }
}

impl<K: NftTables> Reconciler<K> {
    /// Rewrites the table in place if possible, and replaces it otherwise: the kernel changes neither a set nor the hook of a chain
    /// that exists.
    pub(super) fn rewrite_or_replace(
        &mut self,
        plan: &FamilyPlan,
        wanted: Wanted,
        baseline: Baseline,
    ) -> Result<Synced, SyncError> {
        let skeleton = Skeleton::read(&mut self.kernel)?;
        if !skeleton.can_keep_sets(&wanted.rule_set) {
            return self.replace(plan);
        }
        match self.rewrite(wanted, &skeleton, baseline) {
            Ok(Rewritten { synced, difference: None }) => Ok(synced),
            Ok(_) => self.replace(plan),
            Err(SyncError::Commit(error)) if error.is_about_existing_objects() => self.replace(plan),
            Err(error) => Err(error),
        }
    }

    /// Rewrites everything in one transaction, except the clients' affinity. Missing chains are created before.
    fn rewrite(
        &mut self,
        wanted: Wanted,
        skeleton: &Skeleton,
        baseline: Baseline,
    ) -> Result<Rewritten, SyncError> {
        let Wanted { rule_set, elements } = wanted;
        let mut report = self.create_missing_chains(&rule_set, skeleton)?;
        let strays = skeleton.strays(&rule_set);
        let mut transaction = Transaction::new();
        for set in rule_set.sets() {
            let name = set.name.clone();
            transaction.add_set(set);
            if name != SetName::Affinity.name() {
                transaction.flush_set(name);
            }
        }
        for chain in rule_set.chains() {
            transaction.refill_chain(chain);
        }
        remove_strays(&mut transaction, &strays);
        transaction.add_elements(elements.into_all());
        let to_strays = rule_set.ids().chains.elements_to(&strays.pool_chains);
        transaction.add_elements(to_strays.iter().cloned());
        let committed = self.commit(transaction, rule_set.hash(), baseline)?;
        report.add(committed.report.written, committed.report.removed);
        let generation = committed.generation;
        let mut applied = Applied::new(rule_set, committed.stamp, committed.verified);
        applied.lingering.add_elements(to_strays);
        (applied.lingering.chains, applied.lingering.sets) = (strays.pool_chains, strays.older_maps);
        // Where no other program ever wrote, the kernel cannot have kept anything foreign.
        let difference = match applied.verified {
            Some(_) => None,
            None => self.verify(&mut applied, generation, &mut report)?,
        };
        let report = SyncReport { outcome: SyncOutcome::Rewritten, ..report };
        Ok(Rewritten { synced: Synced { applied, report }, difference })
    }

    /// Reads back what the commit of a generation left. Has the stamp vouch for it if it is what was written, and returns the
    /// difference otherwise.
    fn verify(
        &mut self,
        applied: &mut Applied,
        generation: u32,
        report: &mut SyncReport,
    ) -> Result<Option<String>, SyncError> {
        let skeleton = Skeleton::read(&mut self.kernel)?;
        let difference = skeleton.difference(&applied.rule_set, &applied.lingering);
        let now = self.kernel.generation()?;
        if difference.is_none() && self.own_commits.no_foreign_commit_between(generation, now) {
            applied.verified = Some(generation);
            let hash = StateHash::from_number(applied.stamp.hash);
            let committed = self.commit_restamped(applied, Transaction::new(), hash)?;
            report.add(committed.written, committed.removed);
        }
        Ok(difference)
    }

    /// Creates chains for pool sizes in a commit before the one whose elements lead to them, as for a change.
    fn create_missing_chains(
        &mut self,
        rule_set: &RuleSet,
        skeleton: &Skeleton,
    ) -> Result<SyncReport, SyncError> {
        let missing = skeleton.missing_pool_chains(rule_set);
        if missing.is_empty() {
            return Ok(SyncReport::default());
        }
        let mut transaction = Transaction::new();
        for set in rule_set.sets() {
            transaction.add_set(set);
        }
        for chain in missing {
            transaction.add_chain(chain);
        }
        self.commit_unstamped(transaction)
    }

    /// Replaces a table that is not laid out as ours, in one transaction.
    pub(super) fn replace(&mut self, plan: &FamilyPlan) -> Result<Synced, SyncError> {
        let Wanted { rule_set, elements } = Wanted::new(plan, StableIds::default());
        let mut transaction = Transaction::new();
        transaction.delete_table_if_exists();
        add_skeleton(&mut transaction, &rule_set);
        transaction.add_elements(elements.into_all());
        let committed = self.commit(transaction, rule_set.hash(), Baseline::Unread)?;
        let generation = committed.generation;
        let Synced { mut applied, mut report } = committed.created(rule_set);
        match self.verify(&mut applied, generation, &mut report)? {
            None => Ok(Synced { applied, report }),
            Some(difference) => Err(SyncError::Verify { difference }),
        }
    }

    /// Creates the table where there is none, in several commits, the most important Services first. The stamp comes with the
    /// last, so that a start that finds half of the table rewrites it.
    pub(super) fn create(&mut self, plan: &FamilyPlan, generation: u32) -> Result<Synced, SyncError> {
        let Wanted { rule_set, elements } = Wanted::new(plan, StableIds::default());
        let mut chunks = elements.in_chunks(FIRST_SYNC_CHUNK);
        let last = chunks.pop().unwrap_or_default();
        let mut report = SyncReport::default();
        let mut transaction = Transaction::new();
        add_skeleton(&mut transaction, &rule_set);
        for chunk in chunks {
            transaction.add_elements(chunk);
            let committed = self.commit_unstamped(std::mem::take(&mut transaction))?;
            report.add(committed.written, committed.removed);
        }
        transaction.add_elements(last);
        let baseline = Baseline::Generation(Some(generation));
        let mut committed = self.commit(transaction, rule_set.hash(), baseline)?;
        report.add(committed.report.written, committed.report.removed);
        committed.report = report;
        Ok(committed.created(rule_set))
    }
}

impl StampedCommit {
    fn created(self, rule_set: RuleSet) -> Synced {
        let applied = Applied::new(rule_set, self.stamp, self.verified);
        Synced { applied, report: SyncReport { outcome: SyncOutcome::Created, ..self.report } }
    }
}

/// A table that was rewritten in place.
struct Rewritten {
    synced: Synced,
    /// What the kernel kept, against what was written.
    difference: Option<String>,
}

/// Removes objects that are not ours, such as kube-proxy's where it ran meanwhile. The kernel removes nothing that is in use, and
/// objects may use each other: rules go first, then sets and the like, then chains.
pub(super) fn remove_strays(transaction: &mut Transaction, strays: &Strays) {
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
pub(super) fn add_skeleton(transaction: &mut Transaction, rule_set: &RuleSet) {
    transaction.add_table();
    for set in rule_set.sets() {
        transaction.add_set(set);
    }
    for chain in rule_set.chains() {
        transaction.add_chain(chain);
    }
}
