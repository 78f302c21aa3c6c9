//! What is in the tables as far as we know, shared between the [`Reconciler`](super::Reconciler) that writes it and the
//! [`Verifier`](super::Verifier) that holds it against what is there, on another thread.
//!
//! Verifying must not hold up a change, so nothing here is locked for longer than a moment. Instead the reconciler says when it begins to
//! write: that ends a read that is under way, and what was read before counts no more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferrule_kernel::subprocess::Cancel;

use super::program::Program;

/// What is in the tables as far as we know.
#[derive(Debug, Default)]
pub struct KnownRules {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Grows whenever rules of ours begin to be written, and whenever that has ended.
    epoch: u64,
    /// Whether a restore of ours runs, or waits for its turn.
    is_writing: bool,
    /// Nothing before the first sync and after a failure.
    program: Option<Arc<Program>>,
    /// A read under way.
    read: Option<Arc<Cancel>>,
    /// What reading everything took, or is expected to.
    read_cost: Duration,
    is_check_wanted: bool,
}

/// A moment at which nobody of us writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Epoch(u64);

impl KnownRules {
    /// Takes the program, to change it. Until it is back nobody is told anything.
    pub(super) fn take(&self) -> Option<Program> {
        let program = self.state().program.take()?;
        // Only somebody who compares it right now has it too. What he finds will not count if anything is written.
        Some(Arc::try_unwrap(program).unwrap_or_else(|shared| Program::clone(&shared)))
    }

    /// Puts a program back that says what is in the tables.
    pub(super) fn put(&self, program: Program) {
        self.state().program = Some(Arc::new(program));
    }

    /// A restore begins, or waits: what is read from now on, and what is being read, says nothing.
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
        (state.program.is_some() && !state.is_writing).then_some(Epoch(state.epoch))
    }

    /// Whether nothing was written since.
    pub(super) fn is_now(&self, epoch: Epoch) -> bool {
        self.now() == Some(epoch)
    }

    /// The program, if nothing was written since.
    pub(super) fn program_of(&self, epoch: Epoch) -> Option<Arc<Program>> {
        let state = self.state();
        state.program.clone().filter(|_| !state.is_writing && state.epoch == epoch.0)
    }

    /// Begins a read, which ends if a restore begins.
    pub(super) fn begin_read(&self) -> Option<(Epoch, Arc<Cancel>)> {
        let mut state = self.state();
        if state.program.is_none() || state.is_writing {
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

    /// Asks for the rules to be verified before it is time for it.
    pub fn want_check(&self) {
        self.state().is_check_wanted = true;
    }

    /// Whether somebody asked for that, and it was not done yet.
    pub fn is_check_wanted(&self) -> bool {
        self.state().is_check_wanted
    }

    /// It was done.
    pub(super) fn begin_check(&self) {
        self.state().is_check_wanted = false;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of it is one that cannot fail half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
