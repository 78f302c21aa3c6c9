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
    }
}
