//! Keeps one family's table in line with the plan: a change costs the change, a start adopts what it finds.
//!
//! ```text
//!   sync ─┬─ in sync:  apply.rs    writes the difference, and what the change before deferred
//!         ├─ unknown:  adopt.rs    compares the stamp, reads as little as possible
//!         └─ differs:  rewrite.rs  in place, or the whole table
//!                      commit.rs   every commit leaves a stamp and is tried again after a foreign one
//! ```
//!
//! Every commit leaves a [`Stamp`]. A start that finds its own stamp, with the hash of the wanted state and the present
//! generation, writes nothing and reads no more than the ids. One that finds another generation reads and compares everything.
//! Anything else is rewritten in one transaction, so that packets see the old rules or the new ones. After a failed commit
//! nothing is assumed.
//!
//! A packet may be between two lookups when a commit happens. So the targets of new verdicts are created in an earlier commit, and
//! the targets of old ones are removed in a later one: see [`Reconciler::run_deferred`].

mod adopt;
mod apply;
mod commit;
mod held;
mod observed;
mod patch;
mod rewrite;
mod skeleton;

use std::collections::BTreeMap;
use std::time::Duration;

use ferrule_kernel::nft::{Element, KeyBytes, Name, Transaction};
use ferrule_kernel::port::NftTables;
use ferrule_plan::FamilyPlan;

use self::observed::Observed;
use super::rule_set::RuleSet;
use crate::OwnCommits;
use crate::Stamp;
use crate::nftables::SyncError;
use crate::{Deferred, SyncReport, Trigger};

/// How long after a commit a packet may still need what that commit took out of use.
const REMOVAL_DELAY: Duration = Duration::from_millis(20);

/// Keeps one family's table in line with the plan.
pub struct Reconciler<K> {
    kernel: K,
    own_commits: OwnCommits,
    state: State,
}

enum State {
    /// Never read, or a commit failed.
    Unknown,
    Applied(Box<Applied>),
}

/// What the table holds.
struct Applied {
    rule_set: RuleSet,
    /// The stamp in the table.
    stamp: Stamp,
    /// The last generation at which the table was certainly as we left it.
    verified: Option<u32>,
    lingering: Lingering,
}

/// What only packets under way may still need: those that had followed a verdict when it was replaced. Removed by the next
/// commit.
#[derive(Default)]
struct Lingering {
    elements: BTreeMap<(Name, KeyBytes), Element>,
    /// Chains of pool sizes.
    chains: Vec<Name>,
    /// Maps of an older layout.
    sets: Vec<Name>,
}

/// The state after a sync, and its report.
struct Synced {
    applied: Applied,
    report: SyncReport,
}

impl<K: NftTables> Reconciler<K> {
    /// Reads nothing before the first sync.
    pub fn new(kernel: K) -> Self {
        Self { kernel, own_commits: OwnCommits::default(), state: State::Unknown }
    }

    /// Shares the record of our commits with the other family's reconciler.
    #[must_use]
    pub fn share_generations_with<L>(mut self, other: &Reconciler<L>) -> Self {
        self.own_commits = other.own_commits.clone();
        self
    }

    /// Reads what an earlier run recorded about its commits. Called for both families before either is synced: the one that
    /// committed last vouches for the other.
    pub fn load_stamp(&mut self) -> Result<(), SyncError> {
        let now = self.kernel.generation()?;
        if let Observed::Ours(stamp) = Observed::read(&mut self.kernel)? {
            self.own_commits.adopt_run(stamp.generation, stamp.run, now);
        }
        Ok(())
    }

    /// The kernel behind it.
    pub fn kernel(&mut self) -> &mut K {
        &mut self.kernel
    }

    /// The netlink port id under which its commits are announced.
    pub fn portid(&self) -> u32 {
        self.kernel.portid()
    }

    /// Brings the table in line with the plan: see [`crate::Dataplane::sync`].
    pub fn sync(&mut self, plan: &FamilyPlan, trigger: Trigger<'_>) -> Result<SyncReport, SyncError> {
        // Stays unknown if anything below fails.
        let state = std::mem::replace(&mut self.state, State::Unknown);
        let synced = match (state, trigger) {
            (State::Applied(applied), Trigger::Changed(delta)) => self.apply(*applied, plan, delta)?,
            (State::Applied(applied), Trigger::Verify { changed }) => {
                self.apply_and_verify(*applied, plan, changed)?
            }
            (State::Applied(applied), Trigger::Repair { .. }) if Observed::is_in_force(&mut self.kernel)? => {
                self.repair(plan, &applied)?
            }
            (State::Applied(applied), Trigger::Repair { .. }) => {
                self.adopt_or_rewrite(plan, Some(applied.rule_set.ids()))?
            }
            (State::Unknown, _) => self.adopt_or_rewrite(plan, None)?,
        };
        let objects = synced.applied.lingering.len();
        let deferred = (objects > 0).then_some(Deferred { objects, after: REMOVAL_DELAY });
        self.state = State::Applied(Box::new(synced.applied));
        Ok(SyncReport { deferred, ..synced.report })
    }

    /// How many pools are served without session affinity, because there are no ids left for them.
    pub fn pools_without_affinity(&self) -> usize {
        match &self.state {
            State::Unknown => 0,
            State::Applied(applied) => applied.rule_set.ids().sticky.pools_without_ids(),
        }
    }

    /// Removes what a sync left for packets under way: see [`Deferred`].
    pub fn run_deferred(&mut self) -> Result<SyncReport, SyncError> {
        let State::Applied(applied) = std::mem::replace(&mut self.state, State::Unknown) else {
            return Ok(SyncReport::default());
        };
        let Synced { applied, report } = self.remove_lingering(*applied)?;
        self.state = State::Applied(Box::new(applied));
        Ok(report)
    }

    /// Removes the table.
    pub fn remove_everything(&mut self) -> Result<(), SyncError> {
        self.state = State::Unknown;
        if self.kernel.table()?.is_some() {
            let mut transaction = Transaction::new();
            transaction.delete_table();
            self.kernel.commit(&transaction)?;
        }
        Ok(())
    }
}

impl Synced {
    /// The table was as wanted.
    fn unchanged(applied: Applied) -> Self {
        Self { applied, report: SyncReport::default() }
    }
}

impl Applied {
    fn new(rule_set: RuleSet, stamp: Stamp, verified: Option<u32>) -> Self {
        Self { rule_set, stamp, verified, lingering: Lingering::default() }
    }
}

impl Lingering {
    fn len(&self) -> usize {
        self.elements.len() + self.chains.len() + self.sets.len()
    }

    fn add_elements(&mut self, elements: Vec<Element>) {
        self.elements.extend(
            elements.into_iter().map(|element| ((element.set.clone(), element.key.clone()), element)),
        );
    }
}
