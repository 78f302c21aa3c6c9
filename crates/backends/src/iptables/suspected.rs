//! Chains that another program touched, from its notification to the repair that verifies them.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::base::Table;

/// Beyond this many chains, reading everything is as fast.
pub(super) const MAX_CHAINS: usize = 256;

/// A chain of one of our tables: our own, or one that jumps to ours.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TableChain {
    pub table: Table,
    pub chain: String,
}

/// What is to be verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Suspicion {
    /// No thread watches, so anything may have been touched.
    #[default]
    Unwatched,
    /// What was announced has been seen to.
    Nothing,
    Chains(BTreeSet<TableChain>),
    Everything,
}

/// Shared between the thread that watches a family's rules and its reconciler.
#[derive(Debug, Default)]
pub(super) struct Suspected(Mutex<Suspicion>);

impl Suspected {
    /// From now on, what others touch is added.
    pub(super) fn begin(&self) {
        let mut suspicion = self.state();
        if *suspicion == Suspicion::Unwatched {
            *suspicion = Suspicion::Nothing;
        }
    }

    /// These chains were touched.
    pub(super) fn add(&self, chains: impl IntoIterator<Item = TableChain>) {
        let mut suspicion = self.state();
        let mut all = match std::mem::take(&mut *suspicion) {
            Suspicion::Unwatched | Suspicion::Nothing => BTreeSet::new(),
            Suspicion::Chains(chains) => chains,
            Suspicion::Everything => {
                *suspicion = Suspicion::Everything;
                return;
            }
        };
        all.extend(chains);
        *suspicion = if all.len() > MAX_CHAINS { Suspicion::Everything } else { Suspicion::Chains(all) };
    }

    /// Anything may have been touched.
    pub(super) fn add_everything(&self) {
        *self.state() = Suspicion::Everything;
    }

    pub(super) fn take(&self) -> Suspicion {
        let mut suspicion = self.state();
        let left = match *suspicion {
            Suspicion::Unwatched => Suspicion::Unwatched,
            Suspicion::Nothing | Suspicion::Chains(_) | Suspicion::Everything => Suspicion::Nothing,
        };
        std::mem::replace(&mut *suspicion, left)
    }

    fn state(&self) -> MutexGuard<'_, Suspicion> {
        // Every change of it is one that cannot fail half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(number: usize) -> TableChain {
        TableChain { table: Table::Nat, chain: format!("KUBE-SVC-{number}") }
    }

    #[test]
    fn few_chains_are_kept_apart_and_many_are_everything() {
        let suspected = Suspected::default();
        assert_eq!((suspected.take(), suspected.take()), (Suspicion::Unwatched, Suspicion::Unwatched));
        suspected.begin();
        assert_eq!(suspected.take(), Suspicion::Nothing);
        suspected.add([chain(1)]);
        suspected.add([chain(1), chain(2)]);
        assert_eq!(suspected.take(), Suspicion::Chains([chain(1), chain(2)].into()));
        suspected.add((0..=MAX_CHAINS).map(chain));
        suspected.add([chain(1)]);
        assert_eq!(suspected.take(), Suspicion::Everything);
        suspected.add_everything();
        assert_eq!((suspected.take(), suspected.take()), (Suspicion::Everything, Suspicion::Nothing));
    }
}
