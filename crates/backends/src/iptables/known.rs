//! What the tables should hold, shared between the [`Reconciler`](super::Reconciler), which writes it, and the
//! [`Verifier`](super::Verifier), which compares it with the tables on another thread.
//!
//! Verifying must not delay a change, so nothing here is locked for longer than a moment. Instead the reconciler announces that it
//! begins to write: that cancels a read in progress and invalidates earlier ones.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferrule_kernel::subprocess::Cancel;

use super::base::Table;
use super::rule_set::RuleSet;
use super::verify::Correction;

/// What the tables should hold.
#[derive(Debug, Default)]
pub struct KnownRules {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Grows whenever rules of ours begin to be written, and whenever that has ended.
    epoch: u64,
    /// Whether a restore of ours runs or waits.
    is_writing: bool,
    /// Nothing before the first sync and after a failure.
    rule_set: Option<Arc<RuleSet>>,
    /// A read under way.
    read: Option<Arc<Cancel>>,
    /// What reading everything took, or is expected to.
    read_cost: Duration,
    is_check_wanted: bool,
    proven_at: Option<u32>,
    /// What a verification found, until it is written.
    correction: Option<Box<Correction>>,
}

/// A moment at which we are not writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Epoch(u64);

impl KnownRules {
    /// Takes the rules out, to change them. Until they are back, nothing can be verified.
    pub(super) fn take_rule_set(&self) -> Option<RuleSet> {
        let rule_set = self.state().rule_set.take()?;
        // A verifier may be comparing it right now. Its result will not count if anything is written.
        Some(Arc::try_unwrap(rule_set).unwrap_or_else(|shared| RuleSet::clone(&shared)))
    }

    /// Whether packets from the network to loopback addresses are dropped. They may be if the rules are not known.
    pub(super) fn loopback_guard(&self) -> bool {
        self.state().rule_set.as_ref().is_none_or(|rule_set| rule_set.guards_loopback())
    }

    /// The chains of ours that are not among these of a table; `None` if the rules are not known.
    pub(super) fn missing_chains(&self, table: Table, there: &BTreeSet<String>) -> Option<Vec<String>> {
        let rule_set = self.state().rule_set.clone()?;
        let missing = rule_set.chain_names(table).filter(|name| !there.contains(*name));
        Some(missing.map(str::to_owned).collect())
    }

    /// The generation at which the tables were known to hold the rules, where the kernel counts changes.
    pub(super) fn proven_at(&self) -> Option<u32> {
        self.state().proven_at
    }

    pub(super) fn set_proven_at(&self, generation: Option<u32>) {
        self.state().proven_at = generation;
    }

    /// Whether the rules are known.
    pub(super) fn is_known(&self) -> bool {
        self.state().rule_set.is_some()
    }

    /// Leaves what a verification found to the reconciler.
    pub fn put_correction(&self, correction: Box<Correction>) {
        self.state().correction = Some(correction);
    }

    /// Takes what a verification found last.
    pub(super) fn take_correction(&self) -> Option<Box<Correction>> {
        self.state().correction.take()
    }

    /// Puts the rules back that the tables hold.
    pub(super) fn put_rule_set(&self, rule_set: RuleSet) {
        self.state().rule_set = Some(Arc::new(rule_set));
    }

    /// A restore begins, or waits: reads from now on, and the one in progress, do not count.
    pub(super) fn begin_write(&self) {
        let mut state = self.state();
        state.epoch += 1;
        state.is_writing = true;
        if let Some(read) = state.read.take() {
            read.cancel();
        }
    }

    /// No restore runs any more, and none waits.
    pub(super) fn end_write(&self) {
        let mut state = self.state();
        state.epoch += 1;
        state.is_writing = false;
    }

    /// Now, if the rules are known and not being written.
    pub(super) fn now(&self) -> Option<Epoch> {
        let state = self.state();
        (state.rule_set.is_some() && !state.is_writing).then_some(Epoch(state.epoch))
    }

    /// Whether nothing was written since.
    pub(super) fn is_now(&self, epoch: Epoch) -> bool {
        self.now() == Some(epoch)
    }

    /// The rules, if nothing was written since.
    pub(super) fn rule_set_at(&self, epoch: Epoch) -> Option<Arc<RuleSet>> {
        let state = self.state();
        state.rule_set.clone().filter(|_| !state.is_writing && state.epoch == epoch.0)
    }

    /// Begins a read, which ends if a restore begins.
    pub(super) fn begin_read(&self) -> Option<(Epoch, Arc<Cancel>)> {
        let mut state = self.state();
        if state.rule_set.is_none() || state.is_writing {
            return None;
        }
        let cancel = Arc::new(Cancel::default());
        state.read = Some(Arc::clone(&cancel));
        Some((Epoch(state.epoch), cancel))
    }

    /// What reading everything takes, as far as it is known.
    pub fn read_cost(&self) -> Duration {
        self.state().read_cost
    }

    pub(super) fn set_read_cost(&self, cost: Duration) {
        self.state().read_cost = cost;
    }

    /// Asks for a verification before the next regular one.
    pub fn want_check(&self) {
        self.state().is_check_wanted = true;
    }

    /// Whether one was asked for and not done yet.
    pub fn is_check_wanted(&self) -> bool {
        self.state().is_check_wanted
    }

    pub(super) fn begin_check(&self) {
        self.state().is_check_wanted = false;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of it is one that cannot fail half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
