//! Two dataplanes that serve one family together, such as rules in the kernel and a process for what rules cannot do.

use std::time::Duration;

use ferrule_plan::{FamilyPlan, StaleFlows};

use crate::{BackendError, Cost, Dataplane, Deferred, Patch, SyncOutcome, SyncReport, Trigger};

/// Two dataplanes of one family. Both get the whole plan; each serves the part that is its own.
///
/// The second is synced even if the first fails, so that one defect does not stop everything. The first error is returned, and
/// the next sync tries both again.
pub struct Pair<A, B> {
    first: A,
    second: B,
    /// Which of the two deferred something.
    is_deferred: (bool, bool),
}

impl<A: Dataplane, B: Dataplane> Pair<A, B> {
    /// Two that work together.
    pub fn new(first: A, second: B) -> Self {
        Self { first, second, is_deferred: (false, false) }
    }

    fn deferred(&mut self, first: &SyncReport, second: &SyncReport) -> Option<Deferred> {
        self.is_deferred = (first.deferred.is_some(), second.deferred.is_some());
        match (first.deferred, second.deferred) {
            (Some(a), Some(b)) => {
                Some(Deferred { objects: a.objects + b.objects, after: a.after.max(b.after) })
            }
            (a, b) => a.or(b),
        }
    }
}

impl<A: Dataplane, B: Dataplane> Dataplane for Pair<A, B> {
    fn sync(&mut self, plan: &FamilyPlan, trigger: Trigger<'_>) -> Result<SyncReport, BackendError> {
        let first = self.first.sync(plan, trigger);
        let second = self.second.sync(plan, trigger);
        let (first, second) = (first?, second?);
        let deferred = self.deferred(&first, &second);
        Ok(SyncReport { deferred, ..merged(first, second) })
    }

    fn run_deferred(&mut self) -> Result<SyncReport, BackendError> {
        let (first_is_deferred, second_is_deferred) = std::mem::take(&mut self.is_deferred);
        let first = if first_is_deferred { self.first.run_deferred() } else { Ok(SyncReport::default()) };
        let second = if second_is_deferred { self.second.run_deferred() } else { Ok(SyncReport::default()) };
        let (first, second) = (first?, second?);
        let deferred = self.deferred(&first, &second);
        Ok(SyncReport { deferred, ..merged(first, second) })
    }

    fn diff(&mut self, plan: &FamilyPlan) -> Result<Patch, BackendError> {
        let mut patch = self.first.diff(plan)?;
        patch.lines.extend(self.second.diff(plan)?.lines);
        Ok(patch)
    }

    fn verify_interval(&self) -> Option<Duration> {
        let intervals = [self.first.verify_interval(), self.second.verify_interval()];
        intervals.into_iter().flatten().min()
    }

    fn cost(&self) -> Cost {
        match (self.first.cost(), self.second.cost()) {
            (Cost::Cpu, Cost::Cpu) => Cost::Cpu,
            (Cost::WallClock, _) | (_, Cost::WallClock) => Cost::WallClock,
        }
    }

    fn forget_flows(&mut self, stale: StaleFlows) -> StaleFlows {
        let rest = self.first.forget_flows(stale);
        self.second.forget_flows(rest)
    }

    fn is_standing_by(&self) -> bool {
        self.first.is_standing_by() || self.second.is_standing_by()
    }

    /// The grace time is for both together; what the first does not use is left to the second.
    fn shutdown(&mut self, grace: Duration) {
        let began = std::time::Instant::now();
        self.first.shutdown(grace);
        self.second.shutdown(grace.saturating_sub(began.elapsed()));
    }
}

/// What two syncs came to together; what they deferred is the caller's to say.
pub(crate) fn merged(first: SyncReport, second: SyncReport) -> SyncReport {
    SyncReport {
        written: first.written + second.written,
        removed: first.removed + second.removed,
        commits: first.commits + second.commits,
        outcome: further(first.outcome, second.outcome),
        deferred: None,
        quarantined: first.quarantined + second.quarantined,
        rejected: [first.rejected, second.rejected].concat(),
        samples: [first.samples, second.samples].concat(),
        notes: [first.notes, second.notes].concat(),
        found: first.found.or(second.found),
        differing: first.differing + second.differing,
    }
}

/// The outcome that did more.
fn further(first: SyncOutcome, second: SyncOutcome) -> SyncOutcome {
    let rank = |outcome| match outcome {
        SyncOutcome::UpToDate => 0,
        SyncOutcome::Incremental => 1,
        SyncOutcome::Rewritten => 2,
        SyncOutcome::Created => 3,
    };
    if rank(second) > rank(first) { second } else { first }
}

#[cfg(test)]
mod tests;
