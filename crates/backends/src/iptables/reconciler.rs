//! Keeps one family's rules as the plan wants them: a change costs the change, a start adopts what is there.
//!
//! Each table is changed in one step by one run of `iptables-restore`, so packets see the old rules or the new ones. After
//! a failure nothing is assumed, and the next sync reads what is there. A port whose rules iptables refuses is left out, so
//! that the others are served. Whether somebody flushed the tables is looked for by [`super::pulse`].

use std::collections::BTreeSet;

use ferrule_kernel::iptables::{IptablesError, Saved};
use ferrule_kernel::kernel::XTables;
use ferrule_model::ServicePortName;
use ferrule_plan::{FamilyPlan, PlanDelta};

use super::base::{Host, INVALID_COUNTER, LOOPBACK_COUNTER, Table};
use super::edit::Edit;
use super::leftovers::{Removal, Whose, check_unreadable};
use super::observed::{Accuracy, Observed};
use super::program::Program;
use super::refusal::{Refusal, Refused};
use crate::sync::{Reason, RuleCounts, SyncError, SyncReport, Way};

/// A look is no reason to write very many endpoints anew for their comments; a repair writes them as they should be.
const LENIENT: Accuracy = Accuracy::AnyEndpointComments;

/// Keeps one family's rules as the plan wants them.
pub struct Reconciler<K> {
    kernel: K,
    host: Host,
    /// Makes sure that there is a counter of a name; says whether there is.
    ensure_counter: Option<fn(&str) -> bool>,
    /// What is in the tables, unless a sync failed or there was none.
    applied: Option<Program>,
    /// What was refused since somebody asked.
    refusals: Vec<Refusal>,
}

impl<K: XTables> Reconciler<K> {
    /// Knows nothing yet.
    pub fn new(kernel: K, host: Host) -> Self {
        Self { kernel, host, ensure_counter: None, applied: None, refusals: Vec::new() }
    }

    /// Counts packets in counters that are made sure of before every look; without one, its rules do not count.
    #[must_use]
    pub fn counting(self, ensure: fn(&str) -> bool) -> Self {
        Self { ensure_counter: Some(ensure), ..self }
    }

    /// The kernel this one talks to.
    pub fn kernel(&mut self) -> &mut K {
        &mut self.kernel
    }

    /// What was refused since this was asked for last.
    pub fn refusals(&mut self) -> Vec<Refusal> {
        std::mem::take(&mut self.refusals)
    }

    /// Makes the rules what the plan wants.
    pub fn sync(&mut self, plan: &FamilyPlan, reason: Reason<'_>) -> Result<SyncReport, SyncError> {
        // Until the end is reached, nothing is known: a failure on the way must leave it at that.
        let (program, report) = match (self.applied.take(), reason) {
            (Some(program), Reason::PlanChanged(delta)) => self.change(program, plan, delta)?,
            (None, Reason::PlanChanged(_) | Reason::Look) => self.look(plan, LENIENT, BTreeSet::new())?,
            (Some(known), Reason::Look) => {
                let refused = known.left_out().clone();
                let looked = self.look(plan, LENIENT, refused);
                if matches!(looked, Err(SyncError::Iptables(IptablesError::Unreadable { .. }))) {
                    // Nothing was written, and changes can still be made to what is known.
                    self.applied = Some(known);
                }
                looked?
            }
            (_, Reason::Repair) => self.look(plan, Accuracy::Exact, BTreeSet::new())?,
        };
        self.applied = Some(program);
        Ok(report)
    }

    /// Writes what changed. If a port's rules are refused for it, everything is looked at: only that tells whether it is them.
    fn change(
        &mut self,
        mut program: Program,
        plan: &FamilyPlan,
        delta: &PlanDelta,
    ) -> Result<(Program, SyncReport), SyncError> {
        let edit = program.change(plan, delta);
        let way = if edit.is_empty() { Way::Adopted } else { Way::Changed };
        match self.write(&program, &edit, way) {
            Ok(report) => Ok((program, report)),
            Err(error) if Refused::of(&error, &program).is_some() => {
                self.look(plan, LENIENT, program.left_out().clone())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads what is there and corrects it. What was refused before is tried once more; if anything is refused then, it stays
    /// out too.
    fn look(
        &mut self,
        plan: &FamilyPlan,
        accuracy: Accuracy,
        mut refused_before: BTreeSet<ServicePortName>,
    ) -> Result<(Program, SyncReport), SyncError> {
        self.ensure_counters();
        let (mut host, mut left_out, mut was_refused) = (self.host, BTreeSet::new(), false);
        loop {
            // Each time anew: one table may have been written before another was refused.
            let saved = self.read()?;
            let program = Program::of(plan, host, left_out.clone());
            let error = match self.correct(&saved, accuracy, &program) {
                Ok(report) => {
                    if host != self.host {
                        self.give_up_counters();
                    }
                    // What differs then is our own doing.
                    let way = if was_refused { Way::Changed } else { report.way };
                    return Ok((program, SyncReport { way, ..report }));
                }
                Err(error) => error,
            };
            let Some(what) = Refused::of(&error, &program) else { return Err(error.into()) };
            match &what {
                Refused::Counters => host = uncounted(host),
                Refused::Port(owner) => {
                    left_out.append(&mut refused_before);
                    left_out.insert(owner.clone());
                }
            }
            was_refused = true;
            self.refusals.push(Refusal { what, error });
        }
    }

    /// Counters that rules cannot use are not tried again: the kernel has them, but not what counts into them.
    fn give_up_counters(&mut self) {
        self.ensure_counter = None;
        self.host = uncounted(self.host);
    }

    fn ensure_counters(&mut self) {
        if let Some(ensure) = self.ensure_counter {
            self.host.counts_invalid = ensure(INVALID_COUNTER);
            self.host.counts_loopback = ensure(LOOPBACK_COUNTER);
        }
    }

    /// All rules. A table that cannot be read looks like an empty one, and would be filled once more with every look.
    fn read(&mut self) -> Result<Saved, IptablesError> {
        let saved = self.kernel.save()?;
        let ours = |name: &&String| Table::ALL.iter().any(|table| table.name() == **name);
        match saved.unreadable.iter().find(ours) {
            Some(table) => {
                Err(IptablesError::Unreadable { family: self.kernel.family(), table: table.clone() })
            }
            None => Ok(saved),
        }
    }

    fn correct(
        &mut self,
        saved: &Saved,
        accuracy: Accuracy,
        program: &Program,
    ) -> Result<SyncReport, IptablesError> {
        let observed = Observed::of(saved, accuracy);
        let edit = observed.corrections(program);
        let way = match (edit.is_empty(), observed.is_ours()) {
            (true, _) => Way::Adopted,
            (false, true) => Way::Rewritten,
            (false, false) => Way::Made,
        };
        self.write(program, &edit, way)
    }

    fn write(&mut self, program: &Program, edit: &Edit, way: Way) -> Result<SyncReport, IptablesError> {
        let counts = |table: Table| (program.count(table), edit.rules(table));
        let rules = RuleCounts { filter: counts(Table::Filter), nat: counts(Table::Nat) };
        let report = SyncReport { way, rules: Some(rules), ..SyncReport::default() };
        if edit.is_empty() {
            return Ok(report);
        }
        self.kernel.restore(&edit.text())?;
        Ok(SyncReport { written: edit.written(), removed: edit.removed(), commits: 1, ..report })
    }

    /// Removes all rules of ours.
    pub fn remove_everything(&mut self) -> Result<(), SyncError> {
        self.applied = None;
        let saved = self.kernel.save()?;
        let removal = Removal::of(&saved, Whose::Both);
        if removal.chains > 0 {
            self.kernel.restore(&removal.text)?;
        }
        check_unreadable(&mut self.kernel, &saved, Whose::Both)?;
        Ok(())
    }
}

fn uncounted(host: Host) -> Host {
    Host { counts_invalid: false, counts_loopback: false, ..host }
}
