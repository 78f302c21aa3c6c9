//! Keeps one family's rules in line with the plan: a change costs the change, a start adopts what it finds.
//!
//! One text changes all tables in one step over netlink, and each table in one step by the programs, so packets see the old rules
//! or the new ones. After a failure
//! nothing is assumed, and the next sync reads the tables. The exception is a failure that cannot have changed anything, such as
//! a lock that another program holds: then the change waits, and nothing is read. A port whose rules iptables rejects is
//! quarantined, so that the others are served. [`super::Verifier`] checks whether the rules are still there.

mod commit;
mod repair;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrule_kernel::iptables::{IptablesError, RestoreText, Saved};
use ferrule_kernel::nft::Subscription;
use ferrule_kernel::port::XTables;
use ferrule_kernel::sys;
use ferrule_model::{IpFamily, ServicePortName};
use ferrule_plan::{FamilyPlan, PlanDelta};

use super::base::{Host, INVALID_COUNTER, LOOPBACK_COUNTER, Table};
use super::edit::Edit;
use super::known::KnownRules;
use super::leftovers::{Removal, Whose, check_unreadable};
use super::metrics::rule_samples;
use super::observed::{Accuracy, Observed};
use super::rejected_rule::{RejectedPart, RejectedRule};
use super::rule_set::RuleSet;
use super::suspected::Suspected;
use super::verify::{Correction, readable};
use crate::family::ip_family;
use crate::{OwnCommits, Patch, SyncOutcome, SyncReport, Trigger};
use commit::is_large;

/// A verification does not rewrite very many endpoints just for their comments; a repair does.
const LENIENT: Accuracy = Accuracy::AnyEndpointComments;

/// A read that takes longer means that the next ones will be expensive too.
const EXPENSIVE_READ: Duration = Duration::from_secs(1);

/// Changes that wait are kept up to this many bytes. Beyond that it is cheaper to read what is there.
const MAX_UNWRITTEN_BYTES: usize = 4 << 20;

/// Keeps one family's rules in line with the plan.
pub struct Reconciler<K> {
    kernel: K,
    host: Host,
    /// Makes sure that a counter of this name exists; returns whether it does.
    ensure_counter: Option<fn(&str) -> bool>,
    /// What the tables hold, once `unwritten` is written.
    known: Arc<KnownRules>,
    unwritten: Unwritten,
    quarantined: BTreeSet<ServicePortName>,
    /// Not reported yet.
    rejected: Vec<RejectedRule>,
    /// Chains that others touched, as far as the kernel announces it.
    suspected: Arc<Suspected>,
    own_commits: OwnCommits,
    /// To the kernel's notifications, which are done without during large commits.
    subscription: Subscription,
    /// The generation at which the tables were last known to be right, where the kernel counts changes.
    verified: Option<u32>,
}

/// Changes that wait for another program to release the lock.
#[derive(Debug, Default)]
struct Unwritten {
    text: RestoreText,
    written: usize,
    removed: usize,
}

impl<K: XTables> Reconciler<K> {
    /// Reads nothing before the first sync.
    pub fn new(kernel: K, host: Host) -> Self {
        Self {
            kernel,
            host,
            ensure_counter: None,
            known: Arc::default(),
            unwritten: Unwritten::default(),
            quarantined: BTreeSet::new(),
            rejected: Vec::new(),
            suspected: Arc::default(),
            own_commits: OwnCommits::default(),
            subscription: Subscription::default(),
            verified: None,
        }
    }

    /// Counts packets in counters that are created before the tables are read. Rules whose counter cannot be created do not count.
    #[must_use]
    pub fn counting(self, ensure: fn(&str) -> bool) -> Self {
        Self { ensure_counter: Some(ensure), ..self }
    }

    /// Pauses this subscription during large commits.
    #[must_use]
    pub fn pausing(self, subscription: &Subscription) -> Self {
        Self { subscription: subscription.clone(), ..self }
    }

    /// The kernel behind it.
    pub fn kernel(&mut self) -> &mut K {
        &mut self.kernel
    }

    /// Chains that others touched, shared with the thread that hears of it.
    pub(super) fn suspected(&self) -> Arc<Suspected> {
        Arc::clone(&self.suspected)
    }

    /// What the tables should hold, shared with the verifier.
    pub fn known(&self) -> Arc<KnownRules> {
        Arc::clone(&self.known)
    }

    fn family(&self) -> IpFamily {
        ip_family(self.kernel.family())
    }

    /// Whether changes wait. The next sync writes them, whatever its trigger.
    pub fn has_unwritten(&self) -> bool {
        !self.unwritten.text.is_empty()
    }

    /// What was rejected since the last call.
    pub fn take_rejected(&mut self) -> Vec<RejectedRule> {
        std::mem::take(&mut self.rejected)
    }

    /// Brings the tables in line with the plan: see [`crate::Dataplane::sync`].
    pub fn sync(&mut self, plan: &FamilyPlan, trigger: Trigger<'_>) -> Result<SyncReport, IptablesError> {
        // Stays unknown if anything below fails.
        match (self.known.take_rule_set(), trigger) {
            (Some(rule_set), Trigger::Changed(delta)) => self.change(rule_set, plan, delta),
            (Some(rule_set), Trigger::Verify { changed }) => self.verify(rule_set, plan, changed),
            (Some(rule_set), Trigger::Repair { changed }) => self.repair(rule_set, plan, changed),
            (None, Trigger::Changed(_) | Trigger::Verify { .. }) => self.read_and_correct(plan, LENIENT),
            (None, Trigger::Repair { .. }) => self.read_and_correct(plan, Accuracy::Exact),
        }
    }

    /// Reads and corrects everything. If the tables cannot be read, nothing was written: where nothing changed either, what was
    /// known is still true, and later changes can be applied to it.
    fn verify(
        &mut self,
        rule_set: RuleSet,
        plan: &FamilyPlan,
        changed: &PlanDelta,
    ) -> Result<SyncReport, IptablesError> {
        // Before the generation is read: what is added later is about a later one.
        self.suspected.take();
        if self.quarantined.is_empty() && self.is_untouched()? {
            return self.change(rule_set, plan, changed);
        }
        let is_written = !self.has_unwritten() && changed.is_empty();
        let verified = self.read_and_correct(plan, LENIENT);
        if matches!(verified, Err(IptablesError::Unreadable { .. })) && is_written {
            self.known.put_rule_set(rule_set);
        }
        verified
    }

    /// Writes a change. If iptables rejects the rules of a port, the tables are read: only that shows whether the port is at fault.
    fn change(
        &mut self,
        mut rule_set: RuleSet,
        plan: &FamilyPlan,
        delta: &PlanDelta,
    ) -> Result<SyncReport, IptablesError> {
        let edit = rule_set.apply_delta(plan, delta);
        // A port that changed is reported again if it is rejected again.
        self.quarantined = rule_set.quarantined();
        self.unwritten.add(&edit);
        if self.unwritten.text.is_empty() {
            let report = report(self.family(), &rule_set, &edit, SyncOutcome::UpToDate);
            self.known.put_rule_set(rule_set);
            return Ok(report);
        }
        self.known.begin_write();
        let text = std::mem::take(&mut self.unwritten.text);
        let written = self.commit(&text, rule_set.hash());
        self.unwritten.text = text;
        match written {
            Ok(()) => {
                let Unwritten { written, removed, .. } = std::mem::take(&mut self.unwritten);
                let report = report(self.family(), &rule_set, &edit, SyncOutcome::Incremental);
                self.mark_written(rule_set);
                Ok(SyncReport { written, removed, commits: 1, ..report })
            }
            Err(error)
                if error.changed_nothing() && self.unwritten.text.as_str().len() < MAX_UNWRITTEN_BYTES =>
            {
                // To the verifier it is still about to be written.
                self.known.put_rule_set(rule_set);
                Err(error)
            }
            Err(error) if RejectedPart::identify(&error, &rule_set).is_some() => {
                self.read_and_correct(plan, LENIENT)
            }
            Err(error) => {
                self.unwritten = Unwritten::default();
                self.known.end_write();
                Err(error)
            }
        }
    }

    /// Writes the correction that a verification found; nothing if rules were written since.
    pub fn correct(&mut self, correction: Correction) -> Result<Option<SyncReport>, IptablesError> {
        let rule_set = if self.known.is_now(correction.epoch) { self.known.take_rule_set() } else { None };
        let Some(rule_set) = rule_set else {
            self.known.want_check();
            return Ok(None);
        };
        self.known.begin_write();
        let outcome = if correction.was_ours { SyncOutcome::Rewritten } else { SyncOutcome::Created };
        let written = self.write(&rule_set, correction.edit, outcome);
        match written {
            Ok(report) => {
                self.mark_written(rule_set);
                Ok(Some(report))
            }
            Err(error) if error.changed_nothing() => {
                self.known.put_rule_set(rule_set);
                self.known.want_check();
                self.known.end_write();
                Err(error)
            }
            Err(error) => {
                self.known.end_write();
                Err(error)
            }
        }
    }

    /// Reads the tables and corrects them.
    fn read_and_correct(
        &mut self,
        plan: &FamilyPlan,
        accuracy: Accuracy,
    ) -> Result<SyncReport, IptablesError> {
        let began = Instant::now();
        // The tables are read now, and changes that wait are in the plan as well.
        self.known.take_correction();
        self.suspected.take();
        self.known.begin_write();
        self.unwritten = Unwritten::default();
        match self.correct_until_accepted(plan, accuracy) {
            Ok((rule_set, report)) => {
                if began.elapsed() >= EXPENSIVE_READ {
                    // There may have been nothing to read; then writing the rules shows how long reading them will take.
                    self.known.set_read_cost(began.elapsed());
                }
                self.mark_written(rule_set);
                Ok(report)
            }
            Err(error) => {
                self.known.end_write();
                Err(error)
            }
        }
    }

    /// Tries quarantined ports once more. If any rule is rejected, they stay in quarantine.
    fn correct_until_accepted(
        &mut self,
        plan: &FamilyPlan,
        accuracy: Accuracy,
    ) -> Result<(RuleSet, SyncReport), IptablesError> {
        self.kernel.check_lock()?;
        self.ensure_counters();
        let (mut host, mut quarantined, mut was_rejected) = (self.host, BTreeSet::new(), false);
        loop {
            let rule_set = RuleSet::from_plan(plan, host, &quarantined);
            if self.is_stamped(&rule_set)? {
                let report = report(self.family(), &rule_set, &Edit::default(), SyncOutcome::UpToDate);
                return Ok((rule_set, report));
            }
            // Read each time: one table may have been written before another was rejected.
            let saved = self.read_at_generation(K::save)?;
            let saved = readable(saved, self.kernel.family())?;
            let error = match self.correct_saved(saved, accuracy, &rule_set) {
                Ok(report) => {
                    if host != self.host {
                        self.give_up_counters();
                    }
                    // Then the difference is our own doing.
                    let outcome = if was_rejected { SyncOutcome::Incremental } else { report.outcome };
                    return Ok((rule_set, SyncReport { outcome, ..report }));
                }
                Err(error) => error,
            };
            let Some(what) = RejectedPart::identify(&error, &rule_set) else { return Err(error) };
            let mut is_repeated = false;
            match &what {
                RejectedPart::Counters => host = uncounted(host),
                RejectedPart::Port(owner) => {
                    is_repeated = self.quarantined.contains(owner);
                    quarantined.extend(self.quarantined.iter().cloned());
                    quarantined.insert(owner.clone());
                }
            }
            was_rejected = true;
            self.rejected.push(RejectedRule { what, error, is_repeated });
        }
    }

    /// The tables hold this rule set.
    fn mark_written(&mut self, rule_set: RuleSet) {
        self.quarantined = rule_set.quarantined();
        self.known.set_proven_at(self.verified);
        self.known.put_rule_set(rule_set);
        self.known.end_write();
    }

    /// Counters that rules cannot use are not tried again: the kernel has counters, but not the match that counts.
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
        saved: Saved,
        accuracy: Accuracy,
        rule_set: &RuleSet,
    ) -> Result<SyncReport, IptablesError> {
        let observed = Observed::new(&saved, accuracy, Table::ALL.to_vec());
        let edit = observed.corrections(rule_set);
        let outcome = match (edit.is_empty(), observed.is_ours()) {
            (true, _) => SyncOutcome::UpToDate,
            (false, true) => SyncOutcome::Rewritten,
            (false, false) => SyncOutcome::Created,
        };
        drop(observed);
        drop(saved);
        self.write(rule_set, edit, outcome)
    }

    fn write(
        &mut self,
        rule_set: &RuleSet,
        edit: Edit,
        outcome: SyncOutcome,
    ) -> Result<SyncReport, IptablesError> {
        let report = report(self.family(), rule_set, &edit, outcome);
        if edit.is_empty() {
            return Ok(report);
        }
        let (written, removed, text) = (edit.written(), edit.removed(), edit.text());
        // The batch is larger than all of it, so what it replaces goes first.
        drop(edit);
        if is_large(&text) {
            sys::trim_heap();
        }
        self.commit(&text, rule_set.hash())?;
        Ok(SyncReport { written, removed, commits: 1, ..report })
    }

    /// Whether a change can be written without reading the tables.
    pub fn is_known(&self) -> bool {
        self.known.is_known()
    }

    /// The lines by which the tables differ from the plan. Writes nothing.
    pub fn diff(&mut self, plan: &FamilyPlan) -> Result<Patch, IptablesError> {
        let saved = readable(self.kernel.save()?, self.kernel.family())?;
        let rule_set = RuleSet::from_plan(plan, self.host, &self.quarantined);
        let edit = Observed::new(&saved, LENIENT, Table::ALL.to_vec()).corrections(&rule_set);
        Ok(Patch { lines: edit.text().as_str().lines().map(str::to_owned).collect() })
    }

    /// Removes all rules of ours.
    pub fn remove_everything(&mut self) -> Result<(), IptablesError> {
        self.known.take_rule_set();
        self.unwritten = Unwritten::default();
        self.verified = None;
        let saved = self.kernel.save()?;
        let removal = Removal::new(&saved, Whose::Both);
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

/// The report of a sync, before anything is written.
fn report(family: IpFamily, rule_set: &RuleSet, edit: &Edit, outcome: SyncOutcome) -> SyncReport {
    let samples = [Table::Filter, Table::Nat]
        .into_iter()
        .flat_map(|table| rule_samples(table.name(), family, rule_set.count(table), edit.rules(table)))
        .collect();
    SyncReport { outcome, samples, quarantined: rule_set.quarantined_count(), ..SyncReport::default() }
}

fn uncounted(host: Host) -> Host {
    Host { counts_invalid: false, counts_loopback: false, ..host }
}
