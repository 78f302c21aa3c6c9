//! Which commits were ours, so that those of the two families do not look like somebody else's to each other.
//!
//! The kernel counts the commits of everybody to all tables in one number. Only a reconciler that knows every step of it to be
//! ours knows that nobody has touched its table.

use std::sync::{Arc, Mutex, PoisonError};

use super::stamp::next_generation;

/// The latest commits of this program, as long as nobody else's came in between. Clones share what they know.
#[derive(Clone, Debug, Default)]
pub struct OwnCommits(Arc<Mutex<Option<Run>>>);

/// Generations that followed one another by commits of ours.
#[derive(Clone, Copy, Debug)]
struct Run {
    from: u32,
    to: u32,
}

impl OwnCommits {
    /// We committed after this generation.
    pub(super) fn record(&self, before: u32) {
        let mut run = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let from = run.filter(|run| run.to == before).map_or(before, |run| run.from);
        *run = Some(Run { from, to: next_generation(before) });
    }

    /// Takes over what a former run of this program left: so many commits up to a generation were its own. Counts if that is the
    /// present one.
    pub(super) fn recall(&self, generation: u32, length: u32, now: u32) {
        if generation == now {
            let from = generation.wrapping_sub(length);
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Run { from, to: generation });
        }
    }

    /// How many commits of ours, one after the other, led to a generation.
    pub(super) fn length(&self, generation: u32) -> u32 {
        let run = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        run.filter(|run| run.to == generation).map_or(0, |run| run.to.wrapping_sub(run.from))
    }

    /// Whether nobody but us has committed between two generations.
    pub(super) fn only(&self, since: u32, now: u32) -> bool {
        let run = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_within = |run: Run| since.wrapping_sub(run.from) <= run.to.wrapping_sub(run.from);
        since == now || run.is_some_and(|run| run.to == now && is_within(run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_of_somebody_else_ends_a_run() {
        let ours = OwnCommits::default();
        assert!(ours.only(7, 7));
        assert!(!ours.only(7, 8));
        ours.record(7);
        ours.record(8);
        assert!(ours.only(7, 9) && ours.only(8, 9));
        assert!(!ours.only(6, 9) && !ours.only(7, 10));
        // Generation 10 was somebody else's.
        ours.clone().record(10);
        assert!(ours.only(10, 11) && !ours.only(9, 11));
        assert_eq!((ours.length(11), ours.length(10)), (1, 0));
    }

    #[test]
    fn a_former_runs_commits_count_if_nobody_committed_since() {
        let ours = OwnCommits::default();
        ours.recall(9, 3, 10);
        assert!(!ours.only(7, 9), "somebody committed since");
        ours.recall(10, 3, 10);
        assert!(ours.only(7, 10) && ours.only(9, 10) && !ours.only(6, 10));
    }
}
