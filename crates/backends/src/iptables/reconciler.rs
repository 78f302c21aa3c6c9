//! Keeps one family's rules as the plan wants them: a change costs the change, a start adopts what is there.
//!
//! Each table is changed in one step by one run of `iptables-restore`, so packets see the old rules or the new ones. After
//! a failure nothing is assumed, and the next sync reads what is there; unless nothing can have happened, as while another
//! program holds the lock: then the change waits, and no rule is read for it. A port whose rules iptables refuses is put into
//! quarantine, so that the others are served. Whether the rules are still there is looked after by [`super::Verifier`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrule_kernel::iptables::{IptablesError, RestoreText, Saved};
use ferrule_kernel::kernel::XTables;
use ferrule_model::ServicePortName;
use ferrule_plan::{FamilyPlan, PlanDelta};

use super::base::{Host, INVALID_COUNTER, LOOPBACK_COUNTER, Table};
use super::edit::Edit;
use super::known::KnownRules;
use super::leftovers::{Removal, Whose, check_unreadable};
use super::observed::{Accuracy, Observed};
use super::program::Program;
use super::refusal::{Refusal, Refused};
use super::verify::{Correction, readable};
use crate::sync::{Reason, RuleCounts, SyncError, SyncReport, Way};

/// A look is no reason to write very many endpoints anew for their comments; a repair writes them as they should be.
const LENIENT: Accuracy = Accuracy::AnyEndpointComments;

/// A look that takes longer says that the next ones will be expensive too.
const EXPENSIVE: Duration = Duration::from_secs(1);

/// Changes that wait are kept up to this many bytes. Beyond that it is cheaper to read what is there.
const MAX_UNWRITTEN_BYTES: usize = 4 << 20;

/// Keeps one family's rules as the plan wants them.
pub struct Reconciler<K> {
    kernel: K,
    host: Host,
    /// Makes sure that there is a counter of a name; says whether there is.
    ensure_counter: Option<fn(&str) -> bool>,
    /// What is in the tables, once `unwritten` is.
    known: Arc<KnownRules>,
    unwritten: Unwritten,
    quarantined: BTreeSet<ServicePortName>,
    /// What was refused since somebody asked.
    refusals: Vec<Refusal>,
}

/// Changes that could not be written yet, though nothing is wrong with them.
#[derive(Debug, Default)]
struct Unwritten {
    text: RestoreText,
    written: usize,
    removed: usize,
}

impl<K: XTables> Reconciler<K> {
    /// Knows nothing yet.
    pub fn new(kernel: K, host: Host) -> Self {
        Self {
            kernel,
            host,
            ensure_counter: None,
            known: Arc::default(),
            unwritten: Unwritten::default(),
            quarantined: BTreeSet::new(),
            refusals: Vec::new(),
        }
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

    /// What is in the tables, for who verifies it.
    pub fn known(&self) -> Arc<KnownRules> {
        Arc::clone(&self.known)
    }

    /// Whether changes wait that a next sync writes, whatever its reason.
    pub fn has_unwritten(&self) -> bool {
        !self.unwritten.text.is_empty()
    }

    /// What was refused since this was asked for last.
    pub fn refusals(&mut self) -> Vec<Refusal> {
        std::mem::take(&mut self.refusals)
    }

    /// Makes the rules what the plan wants.
    pub fn sync(&mut self, plan: &FamilyPlan, reason: Reason<'_>) -> Result<SyncReport, SyncError> {
        // Until the end is reached, nothing is known: a failure on the way must leave it at that.
        let known = self.known.take();
        match (known, reason) {
            (Some(program), Reason::PlanChanged(delta)) => self.change(program, plan, delta),
            (None, Reason::PlanChanged(_) | Reason::Look) => self.look(plan, LENIENT),
            (Some(program), Reason::Look) => {
                let is_written = !self.has_unwritten();
                let looked = self.look(plan, LENIENT);
                let is_unreadable =
                    matches!(looked, Err(SyncError::Iptables(IptablesError::Unreadable { .. })));
                if is_unreadable && is_written {
                    // Nothing was written, and changes can still be made to what is known.
                    self.known.put(program);
                }
                looked
            }
            (_, Reason::Repair) => self.look(plan, Accuracy::Exact),
        }
    }

    /// Writes what changed. If a port's rules are refused for it, everything is looked at: only that tells whether it is them.
    fn change(
        &mut self,
        mut program: Program,
        plan: &FamilyPlan,
        delta: &PlanDelta,
    ) -> Result<SyncReport, SyncError> {
        let edit = program.change(plan, delta);
        // What is new about a port is worth telling, if it is refused again.
        self.quarantined = program.quarantined();
        self.unwritten.add(&edit);
        if self.unwritten.text.is_empty() {
            let report = report(&program, &edit, Way::Adopted);
            self.known.put(program);
            return Ok(report);
        }
        self.known.begin_write();
        match self.kernel.restore(&self.unwritten.text) {
            Ok(()) => {
                let Unwritten { written, removed, .. } = std::mem::take(&mut self.unwritten);
                let report = report(&program, &edit, Way::Changed);
                self.wrote(program);
                Ok(SyncReport { written, removed, commits: 1, ..report })
            }
            Err(error)
                if error.changed_nothing() && self.unwritten.text.as_str().len() < MAX_UNWRITTEN_BYTES =>
            {
                // Still about to be written, as far as anybody else is concerned.
                self.known.put(program);
                Err(error.into())
            }
            Err(error) if Refused::of(&error, &program).is_some() => self.look(plan, LENIENT),
            Err(error) => {
                self.unwritten = Unwritten::default();
                self.known.end_write();
                Err(error.into())
            }
        }
    }

    /// Writes what a verification found to differ; nothing if rules were written since.
    pub fn correct(&mut self, correction: &Correction) -> Result<Option<SyncReport>, SyncError> {
        let program = if self.known.is_now(correction.epoch) { self.known.take() } else { None };
        let Some(program) = program else {
            self.known.want_check();
            return Ok(None);
        };
        self.known.begin_write();
        let way = if correction.was_ours { Way::Rewritten } else { Way::Made };
        let written = self.write(&program, &correction.edit, way);
        match written {
            Ok(report) => {
                self.wrote(program);
                Ok(Some(report))
            }
            Err(error) if error.changed_nothing() => {
                self.known.put(program);
                self.known.want_check();
                self.known.end_write();
                Err(error.into())
            }
            Err(error) => {
                self.known.end_write();
                Err(error.into())
            }
        }
    }

    /// Reads what is there and corrects it.
    fn look(&mut self, plan: &FamilyPlan, accuracy: Accuracy) -> Result<SyncReport, SyncError> {
        let began = Instant::now();
        // Nobody needs to read the same a second time, and what waits is in the plan as well.
        self.known.begin_write();
        self.unwritten = Unwritten::default();
        match self.look_until_taken(plan, accuracy) {
            Ok((program, report)) => {
                if began.elapsed() >= EXPENSIVE {
                    // There may have been nothing to read; then writing it says what reading it will take.
                    self.known.set_read_cost(began.elapsed());
                }
                self.wrote(program);
                Ok(report)
            }
            Err(error) => {
                self.known.end_write();
                Err(error)
            }
        }
    }

    /// What is in quarantine is tried once more; if anything is refused then, it stays there too.
    fn look_until_taken(
        &mut self,
        plan: &FamilyPlan,
        accuracy: Accuracy,
    ) -> Result<(Program, SyncReport), SyncError> {
        self.kernel.check_lock()?;
        self.ensure_counters();
        let (mut host, mut quarantined, mut was_refused) = (self.host, BTreeSet::new(), false);
        loop {
            // Each time anew: one table may have been written before another was refused.
            let saved = readable(self.kernel.save()?, self.kernel.family())?;
            let program = Program::of(plan, host, &quarantined);
            let error = match self.correct_saved(&saved, accuracy, &program) {
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
            let mut is_repeated = false;
            match &what {
                Refused::Counters => host = uncounted(host),
                Refused::Port(owner) => {
                    is_repeated = self.quarantined.contains(owner);
                    quarantined.extend(self.quarantined.iter().cloned());
                    quarantined.insert(owner.clone());
                }
            }
            was_refused = true;
            self.refusals.push(Refusal { what, error, is_repeated });
        }
    }

    /// All of a program is in the tables.
    fn wrote(&mut self, program: Program) {
        self.quarantined = program.quarantined();
        self.known.put(program);
        self.known.end_write();
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

    fn correct_saved(
        &mut self,
        saved: &Saved,
        accuracy: Accuracy,
        program: &Program,
    ) -> Result<SyncReport, IptablesError> {
        let observed = Observed::of(saved, accuracy, Table::ALL.to_vec());
        let edit = observed.corrections(program);
        let way = match (edit.is_empty(), observed.is_ours()) {
            (true, _) => Way::Adopted,
            (false, true) => Way::Rewritten,
            (false, false) => Way::Made,
        };
        self.write(program, &edit, way)
    }

    fn write(&mut self, program: &Program, edit: &Edit, way: Way) -> Result<SyncReport, IptablesError> {
        let report = report(program, edit, way);
        if edit.is_empty() {
            return Ok(report);
        }
        self.kernel.restore(&edit.text())?;
        Ok(SyncReport { written: edit.written(), removed: edit.removed(), commits: 1, ..report })
    }

    /// Removes all rules of ours.
    pub fn remove_everything(&mut self) -> Result<(), SyncError> {
        self.known.take();
        self.unwritten = Unwritten::default();
        let saved = self.kernel.save()?;
        let removal = Removal::of(&saved, Whose::Both);
        if removal.chains > 0 {
            self.kernel.restore(&removal.text)?;
        }
        check_unreadable(&mut self.kernel, &saved, Whose::Both)?;
        Ok(())
    }
}

impl Unwritten {
    fn add(&mut self, edit: &Edit) {
        self.text.append(&edit.text());
        self.written += edit.written();
        self.removed += edit.removed();
    }
}

/// What a sync of a program says, before anything is written.
fn report(program: &Program, edit: &Edit, way: Way) -> SyncReport {
    let counts = |table: Table| (program.count(table), edit.rules(table));
    let (filter, nat) = (counts(Table::Filter), counts(Table::Nat));
    let rules = RuleCounts { filter, nat, quarantined: program.quarantined_count() };
    SyncReport { way, rules: Some(rules), ..SyncReport::default() }
}

fn uncounted(host: Host) -> Host {
    Host { counts_invalid: false, counts_loopback: false, ..host }
}
