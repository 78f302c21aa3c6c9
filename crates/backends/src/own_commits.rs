//! Which commits were ours, so that the two families do not take each other's for foreign ones.
//!
//! The kernel counts the commits of all programs to all tables of nf_tables in one generation number. Only if every step of it
//! was ours are our rules certain to be untouched.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::stamp::next_generation;

/// The latest commits of this process, as long as no other program committed in between. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct OwnCommits(Arc<Mutex<Option<Run>>>);

/// Generations that followed one another by commits of ours.
#[derive(Clone, Copy, Debug)]
struct Run {
    from: u32,
    to: u32,
}

impl OwnCommits {
    /// Records a commit that followed this generation.
    pub(crate) fn record(&self, before: u32) {
        let mut run = self.run();
        let from = run.filter(|run| run.to == before).map_or(before, |run| run.from);
        *run = Some(Run { from, to: next_generation(before) });
    }

    /// Takes over the run that an earlier process left in a stamp: so many commits up to a generation were its own. Ignored
    /// unless that is the present generation.
    pub(crate) fn adopt_run(&self, generation: u32, length: u32, now: u32) {
        if generation == now {
            let from = generation.wrapping_sub(length);
            *self.run() = Some(Run { from, to: generation });
        }
    }

    /// How many commits of ours in a row led to a generation.
    pub(crate) fn run_length(&self, generation: u32) -> u32 {
        self.run().filter(|run| run.to == generation).map_or(0, |run| run.to.wrapping_sub(run.from))
    }

    pub(crate) fn no_foreign_commit_between(&self, since: u32, now: u32) -> bool {
        let is_within = |run: Run| since.wrapping_sub(run.from) <= run.to.wrapping_sub(run.from);
        since == now || self.run().is_some_and(|run| run.to == now && is_within(run))
    }

    fn run(&self) -> MutexGuard<'_, Option<Run>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_commit_ends_a_run() {
        let ours = OwnCommits::default();
        assert!(ours.no_foreign_commit_between(7, 7));
        assert!(!ours.no_foreign_commit_between(7, 8));
        ours.record(7);
        ours.record(8);
        assert!(ours.no_foreign_commit_between(7, 9) && ours.no_foreign_commit_between(8, 9));
        assert!(!ours.no_foreign_commit_between(6, 9) && !ours.no_foreign_commit_between(7, 10));
        // Another program committed generation 10.
        ours.clone().record(10);
        assert!(ours.no_foreign_commit_between(10, 11) && !ours.no_foreign_commit_between(9, 11));
        assert_eq!((ours.run_length(11), ours.run_length(10)), (1, 0));
    }

    #[test]
    fn the_run_of_an_earlier_process_counts_if_no_commit_followed_it() {
        let ours = OwnCommits::default();
        ours.adopt_run(9, 3, 10);
        assert!(!ours.no_foreign_commit_between(7, 9), "another program committed since");
        ours.adopt_run(10, 3, 10);
        assert!(ours.no_foreign_commit_between(7, 10) && ours.no_foreign_commit_between(9, 10));
        assert!(!ours.no_foreign_commit_between(6, 10));
    }
}
