//! Moves one family's table to a plan: a change costs the change, a start adopts what is there.
//!
//! Every commit leaves a [`Stamp`]. A start that finds its own stamp, with the hash of the wanted state and the present generation,
//! writes nothing, and reads no more than the numbers it gave. One that finds another generation verifies, and anything else is written anew in one transaction, so
//! that packets see the old rules or the new ones. After a failed commit nothing is assumed.
//!
//! A packet may be between two lookups when a commit happens. So what verdicts are to point at is made in a commit before theirs,
//! and what they pointed at goes in one after: see [`Reconciler::finish`].

mod observed;

use std::collections::{BTreeMap, BTreeSet};

use ferrule_kernel::kernel::NftTables;
use ferrule_kernel::nft::{Chain, CommitError, Element, KeyBytes, Name, Transaction};
use ferrule_plan::{FamilyPlan, PlanDelta};

use self::observed::Observed;
use super::hash::StateHash;
use super::names::{SetName, may_be_pool_chain};
use super::own_commits::OwnCommits;
use super::program::{Edit, Elements, Numbers, Program};
use super::stamp::Stamp;
use super::way_numbers::chain_in;
use crate::sync::{Reason, SyncError, SyncReport, Way};

/// How often a commit is tried again because another program committed to its own table in between.
const MOST_TRIES: usize = 20;
/// About how many elements a portion of a first sync has.
const PORTION: usize = 20_000;
/// How often the kernel may refuse that everything is written in place before the table is replaced: another program may have
/// given a chain of ours another hook, which no rewrite can undo.
const PATIENCE: u8 = 2;

/// Keeps one family's table as the plan wants it.
pub struct Reconciler<K> {
    kernel: K,
    ours: OwnCommits,
    state: State,
    refused_rewrites: u8,
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
    /// Never: whatever was there goes.
    Never,
    /// Since this generation; since ever, if there is none.
    Generation(Option<u32>),
}

/// A commit with a stamp.
struct Stamped {
    stamp: Stamp,
    /// The generation it became, if nobody can have touched the table before.
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
        Self { kernel, ours: OwnCommits::default(), state: State::Unknown, refused_rewrites: 0 }
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
                self.rewrite_or_replace(plan, Program::of(plan, applied.program.numbers().clone()))?
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
        self.state = State::Applied(Box::new(applied));
        Ok(SyncReport { lingering, ..report })
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
            return self.rewrite_or_replace(plan, Program::of(plan, applied.program.numbers().clone()));
        };
        let (program, elements) = self.program(plan, stamp, Some(applied.program.numbers()))?;
        if stamp != applied.stamp
            && stamp.hash == program.hash().as_number()
            && observed::holds(&mut self.kernel, &program, &elements)?
        {
            let applied = Applied { program, stamp, known: None, lingering: Lingering::default() };
            return Ok((applied, SyncReport::default()));
        }
        self.rewrite_or_replace(plan, (program, elements))
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
        let stamped = self.commit(&transaction, hash, Since::Generation(applied.known))?;
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
        let is_untouched = is_wanted && stamp.generation != 0 && self.ours.only(stamp.generation, generation);
        if is_untouched || is_wanted && observed::holds(&mut self.kernel, &program, &elements)? {
            let applied =
                Applied { program, stamp, known: Some(generation), lingering: Lingering::default() };
            return Ok((applied, SyncReport::default()));
        }
        self.rewrite_or_replace(plan, (program, elements))
    }

    /// Writes everything anew in place if that can be done, and else puts a new table in the place of the old one.
    fn rewrite_or_replace(
        &mut self,
        plan: &FamilyPlan,
        (program, elements): (Program, Elements),
    ) -> Result<(Applied, SyncReport), SyncError> {
        if self.refused_rewrites >= PATIENCE || !observed::has_our_sets(&mut self.kernel, &program)? {
            return self.replace(plan);
        }
        let rewritten = self.rewrite(program, elements);
        if rewritten.is_ok() {
            self.refused_rewrites = 0;
        } else if matches!(rewritten, Err(SyncError::Commit(CommitError::Refused { .. }))) {
            self.refused_rewrites += 1;
        }
        rewritten
    }

    /// Writes everything anew in one transaction, all but what clients stick to. Chains that are missing are made before.
    fn rewrite(&mut self, program: Program, elements: Elements) -> Result<(Applied, SyncReport), SyncError> {
        let (generation, mut report) = self.prepare_anew(&program)?;
        let (wanted_sets, chains) = (program.sets(), program.chains());
        let unwanted_chains = observed::other_chains(&mut self.kernel, &chains)?;
        let unwanted_sets = observed::other_sets(&mut self.kernel, &wanted_sets)?;
        let mut transaction = Transaction::new();
        for set in wanted_sets {
            let name = set.name.clone();
            transaction.add_set(set);
            if name != SetName::Affinity.name() {
                transaction.flush_set(name);
            }
        }
        for chain in chains {
            transaction.refill_chain(chain);
        }
        let (of_pools, strays): (Vec<_>, Vec<_>) = unwanted_chains.into_iter().partition(may_be_pool_chain);
        remove_strays(&mut transaction, strays, unwanted_sets);
        transaction.add_elements(elements.into_all());
        let ways = program.numbers().ways.elements_to(&of_pools);
        transaction.add_elements(ways.iter().cloned());
        let mut stamped = self.commit(&transaction, program.hash(), Since::Generation(Some(generation)))?;
        report.add(stamped.report.written, stamped.report.removed);
        stamped.report = report;
        let (mut applied, report) = stamped.applied(program, Way::Rewritten);
        applied.lingering = Lingering { elements: keyed(ways).collect(), chains: of_pools };
        Ok((applied, report))
    }

    /// What [`Self::prepare`] does, where one must look what is missing; and the generation of which we know what is there.
    fn prepare_anew(&mut self, program: &Program) -> Result<(u32, SyncReport), SyncError> {
        let generation = self.kernel.generation()?;
        let there: BTreeSet<Name> = self.kernel.chains()?.into_iter().map(|seen| seen.name).collect();
        let is_missing = |chain: &Chain| may_be_pool_chain(&chain.name) && !there.contains(&chain.name);
        let missing: Vec<Chain> = program.chains().into_iter().filter(is_missing).collect();
        let mut report = SyncReport::default();
        if missing.is_empty() {
            return Ok((generation, report));
        }
        let mut transaction = Transaction::new();
        for set in program.sets() {
            transaction.add_set(set);
        }
        for chain in missing {
            transaction.add_chain(chain);
        }
        let committed = self.kernel.commit(&transaction)?;
        report.add(committed.written, committed.removed);
        Ok((committed.generation, report))
    }

    /// Puts our table in the place of one that is not laid out as ours, in one transaction.
    fn replace(&mut self, plan: &FamilyPlan) -> Result<(Applied, SyncReport), SyncError> {
        let (program, elements) = Program::of(plan, Numbers::default());
        let mut transaction = Transaction::new();
        transaction.delete_table_if_there();
        skeleton(&mut transaction, &program);
        transaction.add_elements(elements.into_all());
        let stamped = self.commit(&transaction, program.hash(), Since::Never)?;
        self.refused_rewrites = 0;
        Ok(stamped.applied(program, Way::Made))
    }

    /// Makes the table where there is none: in portions, what a cluster cannot do without first. The stamp comes with the last, so
    /// that a start that finds half of it writes everything.
    fn make(&mut self, plan: &FamilyPlan, mut generation: u32) -> Result<(Applied, SyncReport), SyncError> {
        let (program, elements) = Program::of(plan, Numbers::default());
        let mut portions = elements.in_portions(PORTION);
        let last = portions.pop().unwrap_or_default();
        let mut report = SyncReport::default();
        let mut transaction = Transaction::new();
        skeleton(&mut transaction, &program);
        for portion in portions {
            transaction.add_elements(portion);
            let committed = self.kernel.commit(&transaction)?;
            report.add(committed.written, committed.removed);
            generation = committed.generation;
            transaction = Transaction::new();
        }
        transaction.add_elements(last);
        let mut stamped = self.commit(&transaction, program.hash(), Since::Generation(Some(generation)))?;
        report.add(stamped.report.written, stamped.report.removed);
        stamped.report = report;
        Ok(stamped.applied(program, Way::Made))
    }

    /// Commits with a stamp that names the generation the commit becomes. If another program was faster, tries again.
    fn commit(
        &mut self,
        transaction: &Transaction,
        hash: StateHash,
        since: Since,
    ) -> Result<Stamped, SyncError> {
        let mut tries = 0;
        loop {
            let generation = self.kernel.generation()?;
            let is_certain = match since {
                Since::Never => true,
                Since::Generation(since) => since.is_some_and(|since| self.ours.only(since, generation)),
            };
            let stamp = Stamp::after(generation, self.ours.length(generation), hash);
            let stamp = if is_certain { stamp } else { stamp.without_proof() };
            let mut stamped = transaction.clone();
            stamped.expect_generation(generation).add_element(stamp.element());
            match self.kernel.commit(&stamped) {
                Ok(committed) => {
                    self.ours.record(generation);
                    let mut report = SyncReport::default();
                    report.add(committed.written, committed.removed);
                    return Ok(Stamped { stamp, known: is_certain.then_some(stamp.generation), report });
                }
                Err(CommitError::GenerationChanged { .. }) if tries < MOST_TRIES => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Stamped {
    fn applied(self, program: Program, way: Way) -> (Applied, SyncReport) {
        let Self { stamp, known, report } = self;
        let applied = Applied { program, stamp, known, lingering: Lingering::default() };
        (applied, SyncReport { way, ..report })
    }
}

fn keyed(elements: Vec<Element>) -> impl Iterator<Item = ((Name, KeyBytes), Element)> {
    elements.into_iter().map(|element| ((element.set.clone(), element.key.clone()), element))
}

/// Removes chains and sets that are not ours, as kube-proxy's where it was in charge meanwhile. They may use each other, and the
/// kernel removes nothing that is used: rules go first, then sets, then chains.
fn remove_strays(transaction: &mut Transaction, chains: Vec<Name>, sets: Vec<Name>) {
    for name in &chains {
        transaction.refill_chain(Chain { name: name.clone(), hook: None, rules: Vec::new(), comment: None });
    }
    for set in sets {
        transaction.delete_set(set);
    }
    for chain in chains {
        transaction.delete_chain(chain);
    }
}

/// The table, its sets and its chains.
fn skeleton(transaction: &mut Transaction, program: &Program) {
    transaction.add_table();
    for set in program.sets() {
        transaction.add_set(set);
    }
    for chain in program.chains() {
        transaction.add_chain(chain);
    }
}
