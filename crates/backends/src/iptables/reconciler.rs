//! Keeps one family's rules as the plan wants them: a change costs the change, a start adopts what is there.
//!
//! Each table is changed in one step by one run of `iptables-restore`, so packets see the old rules or the new ones. After
//! a failure nothing is assumed, and the next sync reads what is there. Whether somebody flushed the tables is looked for by
//! [`super::pulse`].

use ferrule_kernel::kernel::XTables;
use ferrule_plan::FamilyPlan;

use super::base::{Host, Table};
use super::edit::Edit;
use super::observed::Observed;
use super::program::Program;
use crate::sync::{Reason, RuleCounts, SyncError, SyncReport, Way};

/// Keeps one family's rules as the plan wants them.
pub struct Reconciler<K> {
    kernel: K,
    host: Host,
    /// What is in the tables, unless a sync failed or there was none.
    applied: Option<Program>,
}

impl<K: XTables> Reconciler<K> {
    /// Knows nothing yet.
    pub fn new(kernel: K, host: Host) -> Self {
        Self { kernel, host, applied: None }
    }

    /// The kernel this one talks to.
    pub fn kernel(&mut self) -> &mut K {
        &mut self.kernel
    }

    /// Makes the rules what the plan wants.
    pub fn sync(&mut self, plan: &FamilyPlan, reason: Reason<'_>) -> Result<SyncReport, SyncError> {
        // Until the end is reached, nothing is known: a failure on the way must leave it at that.
        let (program, report) = match (self.applied.take(), reason) {
            (Some(mut program), Reason::PlanChanged(delta)) => {
                let edit = program.change(plan, delta);
                let way = if edit.is_empty() { Way::Adopted } else { Way::Changed };
                let report = self.write(&program, &edit, way)?;
                (program, report)
            }
            (_, Reason::Look | Reason::Repair) | (None, Reason::PlanChanged(_)) => self.look(plan)?,
        };
        self.applied = Some(program);
        Ok(report)
    }

    /// Reads what is there and corrects it.
    fn look(&mut self, plan: &FamilyPlan) -> Result<(Program, SyncReport), SyncError> {
        let saved = self.kernel.save()?;
        let observed = Observed::of(&saved);
        let program = Program::of(plan, self.host);
        let edit = observed.corrections(&program);
        let way = match (edit.is_empty(), observed.is_ours()) {
            (true, _) => Way::Adopted,
            (false, true) => Way::Rewritten,
            (false, false) => Way::Made,
        };
        let report = self.write(&program, &edit, way)?;
        Ok((program, report))
    }

    fn write(&mut self, program: &Program, edit: &Edit, way: Way) -> Result<SyncReport, SyncError> {
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
        let removal = super::leftovers::Removal::of(&saved);
        if removal.chains > 0 {
            self.kernel.restore(&removal.text)?;
        }
        Ok(())
    }
}
