//! Moves one family's table to a plan: a change costs the change, a start adopts what is there.
//!
//! Every commit leaves a [`Stamp`]. A start that finds its own stamp, with the hash of the wanted state and the present generation,
//! writes nothing, and reads no more than the numbers it gave. One that finds another generation verifies, and anything else is written anew in one transaction, so
//! that packets see the old rules or the new ones. After a failed commit nothing is assumed.
//!
//! A packet may be between two lookups when a commit happens. So what verdicts are to point at is made in a commit before theirs,
//! and what they pointed at goes in one after: see [`Reconciler::finish`].

mod observed;
mod rewrite;
mod skeleton;

use std::collections::BTreeMap;

use ferrule_kernel::kernel::NftTables;
use ferrule_kernel::nft::{CommitError, Element, KeyBytes, Name, Transaction};
use ferrule_plan::{FamilyPlan, PlanDelta};

use self::observed::Observed;
use super::hash::StateHash;
use super::own_commits::OwnCommits;
use super::program::{Edit, Elements, Numbers, Program};
use super::stamp::Stamp;
use super::way_numbers::chain_in;
use crate::sync::{Reason, SyncError, SyncReport, Way};

/// How often a commit is tried again because another program committed to its own table in between.
const MOST_TRIES: usize = 20;

/// Keeps one family's table as the plan wants it.
pub struct Reconciler<K> {
    kernel: K,
    ours: OwnCommits,
    state: State,
}

/// What we know of the table.
enum State {
    /// Nothing: never looked, or a commit failed.
    Unknown,
    /// It holds this program.
    Applied(Box<Applied>),
}

/// From when on somebody else's commit is reason for doubt.
#[derive(Clone, Copy)]
enum Since {
    /// In any case: the kernel keeps some of what was there, and it was not read yet.
    Always,
    /// Since this generation; since ever, if there is none.
    Generation(Option<u32>),
}

/// A commit with a stamp.
struct Stamped {
    stamp: Stamp,
    /// The generation it became.
    generation: u32,
    /// The same, if nobody can have touched the table before.
    known: Option<u32>,
    report: SyncReport,
}

struct Applied {
    program: Program,
    /// The stamp in the table.
    stamp: Stamp,
    /// The last generation of which we know that the table was as we wanted it.
    known: Option<u32>,
    /// What is to go with the next commit.
    lingering: Lingering,
}

/// What only packets of a moment ago may still need: those that had followed a verdict when it was replaced.
#[derive(Default)]
struct Lingering {
    elements: BTreeMap<(Name, KeyBytes), Element>,
    /// Chains of pool sizes that verdicts of a moment ago point at.
    chains: Vec<Name>,
}

impl Lingering {
    fn len(&self) -> usize {
        self.elements.len() + self.chains.len()
    }
}

impl<K: NftTables> Reconciler<K> {
    /// Knows nothing yet.
    pub fn new(kernel: K) -> Self {
        Self { kernel, ours: OwnCommits::default(), state: State::Unknown }
    }

    /// Shares with the other family's reconciler which commits were ours.
    #[must_use]
    pub fn beside<L>(mut self, other: &Reconciler<L>) -> Self {
        self.ours = other.ours.clone();
        self
    }

    /// Reads what a former run left about its commits. To be asked of both families before either is synced: the one that
    /// committed last vouches for the other.
    pub fn recall(&mut self) -> Result<(), SyncError> {
        let now = self.kernel.generation()?;
        if let Observed::Ours(stamp) = Observed::table(&mut self.kernel)? {
            self.ours.recall(stamp.generation, stamp.run, now);
        }
        Ok(())
    }

    /// The kernel this one talks to.
    pub fn kernel(&mut self) -> &mut K {
        &mut self.kernel
    }

    /// The netlink address under which its commits are announced.
    pub fn own_address(&self) -> u32 {
        self.kernel.port()
    }

    /// Makes the table what the plan wants.
    pub fn sync(&mut self, plan: &FamilyPlan, reason: Reason<'_>) -> Result<SyncReport, SyncError> {
        // Until the end is reached, nothing is known: a failure on the way must leave it at that.
        let state = std::mem::replace(&mut self.state, State::Unknown);
        let (applied, report) = match (state, reason) {
            (State::Applied(applied), Reason::PlanChanged(delta)) if applied.program.is_for(plan) => {
                self.change(*applied, plan, delta)?
            }
            (State::Applied(applied), Reason::PlanChanged(_)) => {
                let wanted = Program::of(plan, applied.program.numbers().clone());
                self.rewrite_or_replace(plan, wanted, Since::Generation(applied.known))?
            }
            (State::Applied(applied), Reason::Look) if self.is_untouched(&applied)? => {
                (*applied, SyncReport::default())
            }
            (State::Applied(applied), Reason::Repair) if Observed::is_in_force(&mut self.kernel)? => {
                self.repair(plan, &applied)?
            }
            (State::Applied(applied), Reason::Look | Reason::Repair) => {
                self.look(plan, Some(applied.program.numbers()))?
            }
            (State::Unknown, _) => self.look(plan, None)?,
        };
        let lingering = applied.lingering.len();
        let without_affinity = applied.program.numbers().sticky.without_numbers();
        self.state = State::Applied(Box::new(applied));
        Ok(SyncReport { lingering, without_affinity, ..report })
    }

    /// Takes away what lingered, some milliseconds after the sync that said so.
    pub fn finish(&mut self) -> Result<SyncReport, SyncError> {
        let State::Applied(applied) = std::mem::replace(&mut self.state, State::Unknown) else {
            return Ok(SyncReport::default());
        };
        let (applied, report) = self.settle(*applied)?;
        self.state = State::Applied(Box::new(applied));
        Ok(report)
    }

    /// Writes everything anew, unless it was another Ferrule of the same mind that wrote: two of them must not fight.
    fn repair(&mut self, plan: &FamilyPlan, applied: &Applied) -> Result<(Applied, SyncReport), SyncError> {
        let Observed::Ours(stamp) = Observed::table(&mut self.kernel)? else {
            let wanted = Program::of(plan, applied.program.numbers().clone());
            return self.rewrite_or_replace(plan, wanted, Since::Always);
        };
        let (program, elements) = self.program(plan, stamp, Some(applied.program.numbers()))?;
        if stamp != applied.stamp
            && stamp.hash == program.hash().as_number()
            && observed::holds(&mut self.kernel, &program, &elements)?
        {
            let applied = Applied { program, stamp, known: None, lingering: Lingering::default() };
            return Ok((applied, SyncReport::default()));
        }
        self.rewrite_or_replace(plan, (program, elements), Since::Always)
    }

    /// The program of a plan, with the numbers we know of, also if somebody emptied the maps that hold them. Those of the table
    /// are read at a start, and where it looks as if another Ferrule gave others.
    fn program(
        &mut self,
        plan: &FamilyPlan,
        stamp: Stamp,
        known: Option<&Numbers>,
    ) -> Result<(Program, Elements), SyncError> {
        let is_there = |made: &(Program, Elements)| stamp.hash == made.0.hash().as_number();
        let mut with_ours = known.map(|known| Program::of(plan, known.clone()));
        if let Some(with_ours) = with_ours.take_if(|made| is_there(made)) {
            return Ok(with_ours);
        }
        let with_theirs = Program::of(plan, observed::numbers(&mut self.kernel, plan)?);
        Ok(with_ours.filter(|_| !is_there(&with_theirs)).unwrap_or(with_theirs))
    }

    /// Removes the table and all in it.
    pub fn remove_everything(&mut self) -> Result<(), SyncError> {
        self.state = State::Unknown;
        if self.kernel.table()?.is_some() {
            let mut transaction = Transaction::new();
            transaction.delete_table();
            self.kernel.commit(&transaction)?;
        }
        Ok(())
    }

    /// Whether nobody can have touched the table since we last knew it.
    fn is_untouched(&mut self, applied: &Applied) -> Result<bool, SyncError> {
        let now = self.kernel.generation()?;
        Ok(applied.known.is_some_and(|known| self.ours.only(known, now)))
    }

    fn change(
        &mut self,
        mut applied: Applied,
        plan: &FamilyPlan,
        delta: &PlanDelta,
    ) -> Result<(Applied, SyncReport), SyncError> {
        let edit = applied.program.change(plan, delta);
        if edit.is_empty() && edit.linger.is_empty() {
            self.settle(applied)
        } else {
            self.write(applied, edit)
        }
    }

    /// Takes away what lingered, if anything did.
    fn settle(&mut self, applied: Applied) -> Result<(Applied, SyncReport), SyncError> {
        if applied.lingering.len() == 0 {
            return Ok((applied, SyncReport::default()));
        }
        self.write(applied, Edit::default())
    }

    /// Writes an edit, and takes away what lingered from the one before.
    fn write(&mut self, mut applied: Applied, edit: Edit) -> Result<(Applied, SyncReport), SyncError> {
        let mut report = self.prepare(&mut applied, &edit)?;
        let old = std::mem::take(&mut applied.lingering);
        let mut transaction = Transaction::new();
        for chain in edit.refill {
            transaction.refill_chain(chain);
        }
        // What came into use again stays.
        let wanted = applied.program.chain_names();
        let leads_to_wanted =
            |element: &&Element| chain_in(element).is_some_and(|chain| wanted.contains(chain));
        let out_of_use = old.elements.values().filter(|element| !leads_to_wanted(element));
        transaction.delete_elements(out_of_use.chain(&edit.delete));
        transaction.add_elements(edit.add);
        for chain in old.chains.into_iter().filter(|chain| !wanted.contains(chain)) {
            transaction.delete_chain(chain);
        }
        applied.lingering.elements.extend(keyed(edit.linger));
        // What lingers is part of the state: a start that finds the stamp must know that something is left to be done.
        let mut hash = applied.program.hash();
        applied.lingering.elements.values().for_each(|element| hash.add(element));
        let written = self.stamp_anew(&mut applied, transaction, hash)?;
        report.add(written.written, written.removed);
        Ok((applied, SyncReport { way: Way::Changed, ..report }))
    }

    /// Makes what elements are going to point at, in a commit before theirs: a packet that was under way when a chain came into
    /// being finds it empty, until the commit after.
    fn prepare(&mut self, applied: &mut Applied, edit: &Edit) -> Result<SyncReport, SyncError> {
        if edit.sets.is_empty() && edit.chains.is_empty() {
            return Ok(SyncReport::default());
        }
        let mut transaction = Transaction::new();
        for set in &edit.sets {
            transaction.add_set(set.clone());
        }
        for chain in &edit.chains {
            // One of the same name may be left from a pool size that went out of use.
            transaction.refill_chain(chain.clone());
        }
        transaction.add_elements(edit.ways.iter().cloned());
        // What nobody uses yet does not make it another state.
        let hash = StateHash::of_number(applied.stamp.hash);
        self.stamp_anew(applied, transaction, hash)
    }

    /// Commits, with a new stamp in place of the one that is there.
    fn stamp_anew(
        &mut self,
        applied: &mut Applied,
        mut transaction: Transaction,
        hash: StateHash,
    ) -> Result<SyncReport, SyncError> {
        transaction.delete_elements([&applied.stamp.element()]);
        let stamped = self.commit(transaction, hash, Since::Generation(applied.known))?;
        (applied.stamp, applied.known) = (stamped.stamp, stamped.known);
        Ok(stamped.report)
    }

    /// Finds out what is there, and adopts it or writes everything.
    fn look(
        &mut self,
        plan: &FamilyPlan,
        known: Option<&Numbers>,
    ) -> Result<(Applied, SyncReport), SyncError> {
        let generation = self.kernel.generation()?;
        let stamp = match Observed::table(&mut self.kernel)? {
            Observed::Nothing => return self.make(plan, generation),
            Observed::Foreign => return self.replace(plan),
            Observed::Ours(stamp) => stamp,
        };
        let (program, elements) = self.program(plan, stamp, known)?;
        let is_wanted = stamp.hash == program.hash().as_number();
        let is_untouched = stamp.generation != 0 && self.ours.only(stamp.generation, generation);
        if is_wanted && (is_untouched || observed::holds(&mut self.kernel, &program, &elements)?) {
            let applied =
                Applied { program, stamp, known: Some(generation), lingering: Lingering::default() };
            return Ok((applied, SyncReport::default()));
        }
        let since = if is_untouched { Since::Generation(Some(generation)) } else { Since::Always };
        self.rewrite_or_replace(plan, (program, elements), since)
    }

    /// Commits with a stamp that names the generation the commit becomes.
    fn commit(
        &mut self,
        mut transaction: Transaction,
        hash: StateHash,
        since: Since,
    ) -> Result<Stamped, SyncError> {
        let mut tries = 0;
        loop {
            let generation = self.kernel.generation()?;
            let is_certain = since.is_certain(&self.ours, generation);
            let proven = Stamp::after(generation, self.ours.length(generation), hash);
            let stamp = if is_certain { proven } else { proven.without_proof() };
            transaction.add_element(stamp.element());
            if let Some(report) = self.commit_after(generation, &mut transaction, &mut tries)? {
                let generation = proven.generation;
                return Ok(Stamped { stamp, generation, known: is_certain.then_some(generation), report });
            }
            transaction.take_back_element();
        }
    }

    /// Commits without a stamp, for a commit that is to follow.
    fn commit_unstamped(&mut self, mut transaction: Transaction) -> Result<SyncReport, SyncError> {
        let mut tries = 0;
        loop {
            let generation = self.kernel.generation()?;
            if let Some(report) = self.commit_after(generation, &mut transaction, &mut tries)? {
                return Ok(report);
            }
        }
    }

    /// Commits right after a generation; nothing happens if another program was faster, which may be so some times.
    fn commit_after(
        &mut self,
        generation: u32,
        transaction: &mut Transaction,
        tries: &mut usize,
    ) -> Result<Option<SyncReport>, SyncError> {
        transaction.expect_generation(generation);
        *tries += 1;
        match self.kernel.commit(transaction) {
            Ok(committed) => {
                self.ours.record(generation);
                let mut report = SyncReport::default();
                report.add(committed.written, committed.removed);
                Ok(Some(report))
            }
            Err(CommitError::GenerationChanged { .. }) if *tries <= MOST_TRIES => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Since {
    /// Whether nobody else can have touched the table since.
    fn is_certain(self, ours: &OwnCommits, now: u32) -> bool {
        match self {
            Self::Always => false,
            Self::Generation(since) => since.is_some_and(|since| ours.only(since, now)),
        }
    }
}

impl Stamped {
    fn applied(self, program: Program, way: Way) -> (Applied, SyncReport) {
        let Self { stamp, known, report, .. } = self;
        let applied = Applied { program, stamp, known, lingering: Lingering::default() };
        (applied, SyncReport { way, ..report })
    }
}

fn keyed(elements: Vec<Element>) -> impl Iterator<Item = ((Name, KeyBytes), Element)> {
    elements.into_iter().map(|element| ((element.set.clone(), element.key.clone()), element))
}
