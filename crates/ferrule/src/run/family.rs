//! One family that is served: what its next sync is for, and how far it has come.
//!
//! Logging and metrics are [`super::proxy`]'s business.

use std::time::{Duration, Instant};

use ferrule_backends::{BackendError, Dataplane, Drift, SyncReport, Trigger};
use ferrule_plan::{FamilyPlan, PlanDelta, StaleFlows};

use super::damage::Damage;
use super::inspect::FamilyStatus;

/// One family that is served.
pub(super) struct Family {
    pub dataplane: Box<dyn Dataplane>,
    pub needs: Needs,
    pub progress: Progress,
    /// Whether another program was in the way of the last sync.
    pub is_blocked: bool,
    /// When the dataplane wants to do what it deferred.
    pub deferred_at: Option<Instant>,
    /// How often rules are verified when nothing happens, where the backend cannot do that in the background as it meant to.
    fallback_interval: Option<Duration>,
    /// When they were verified last, or the family was opened.
    verified_at: Instant,
    /// For snapshots.
    pub status: FamilyStatus,
}

/// What a family needs beside the changes of its plan. Each sync serves one of them, a repair first.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// Another program changed the rules.
    repair: Option<Damage>,
    /// The rules may not be what the last sync left.
    verify: bool,
    /// The last sync failed.
    retry: bool,
}

/// What a sync is for.
#[derive(Debug)]
pub(super) enum Purpose {
    Repair(Drift),
    Verify,
    Retry,
    Change,
}

/// How much of the plan the kernel holds.
#[derive(Debug)]
pub(super) enum Progress {
    /// No sync succeeded yet.
    NeverSynced {
        /// Flows that failed syncs would have made stale.
        missed: StaleFlows,
    },
    InSync,
    /// The last sync failed.
    Behind {
        /// Flows that failed syncs would have made stale.
        missed: StaleFlows,
        /// Whether changes of the plan are not written yet.
        has_unwritten_changes: bool,
    },
}

impl Family {
    pub(super) fn new(dataplane: Box<dyn Dataplane>) -> Self {
        Self {
            dataplane,
            fallback_interval: None,
            verified_at: Instant::now(),
            needs: Needs { verify: true, ..Needs::default() },
            progress: Progress::NeverSynced { missed: StaleFlows::default() },
            is_blocked: false,
            deferred_at: None,
            status: FamilyStatus::default(),
        }
    }

    /// When the next verification is due. One that is wanted already waits for the next sync, and must not wake the loop until then.
    pub(super) fn verify_at(&self) -> Option<Instant> {
        let interval = self.dataplane.verify_interval().or(self.fallback_interval);
        let interval = interval.filter(|_| !self.needs.verify)?;
        Some(self.verified_at + interval)
    }

    /// Has rules verified this often, though the backend meant to do that itself.
    pub(super) fn verify_every(&mut self, interval: Duration) {
        self.fallback_interval = Some(interval);
    }

    pub(super) fn sync(
        &mut self,
        plan: &FamilyPlan,
        purpose: &Purpose,
        changed: &PlanDelta,
    ) -> Result<SyncReport, BackendError> {
        let trigger = match purpose {
            Purpose::Repair(_) => Trigger::Repair { changed },
            Purpose::Verify => {
                self.verified_at = Instant::now();
                Trigger::Verify { changed }
            }
            // After a failure the dataplane knows what it takes.
            Purpose::Retry | Purpose::Change => Trigger::Changed(changed),
        };
        self.dataplane.sync(plan, trigger)
    }

    /// After a failure: what of the plan was not written, and how to go on.
    pub(super) fn failed(&mut self, plan: &FamilyPlan, delta: &PlanDelta, error: &BackendError) {
        self.is_blocked = error.retry_in().is_some();
        self.needs.retry = true;
        let progress = std::mem::replace(&mut self.progress, Progress::InSync);
        self.progress = progress.after_failure(StaleFlows::from_delta(plan, delta), !delta.is_empty());
    }
}

impl Needs {
    pub(super) fn note_drift(&mut self, drift: Drift) {
        match &mut self.repair {
            Some(damage) => damage.add(drift),
            None => self.repair = Some(Damage::new(drift)),
        }
    }

    pub(super) fn note_doubt(&mut self) {
        self.verify = true;
    }

    /// What the next sync is for; that need is met then, unless the sync fails.
    pub(super) fn take(&mut self, delta: &PlanDelta) -> Option<Purpose> {
        // Whatever a sync is for, after a failure it does what it takes.
        let retry = std::mem::take(&mut self.retry);
        if let Some(damage) = self.repair.take() {
            // A repair finds what a verification would. Two syncs in turn would also defeat the pause between repairs.
            self.verify = false;
            return Some(Purpose::Repair(damage.into_drift()));
        }
        if std::mem::take(&mut self.verify) {
            return Some(Purpose::Verify);
        }
        if retry {
            return Some(Purpose::Retry);
        }
        (!delta.is_empty()).then_some(Purpose::Change)
    }

    /// Whether the next sync verifies rules and does nothing else.
    pub(super) fn is_verification(&self) -> bool {
        self.verify && self.repair.is_none()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.repair.is_none() && !self.verify && !self.retry
    }
}

impl Progress {
    fn after_failure(self, newly_missed: StaleFlows, has_changes: bool) -> Self {
        match self {
            Self::NeverSynced { mut missed } => {
                missed.merge(newly_missed);
                Self::NeverSynced { missed }
            }
            Self::InSync => Self::Behind { missed: newly_missed, has_unwritten_changes: has_changes },
            Self::Behind { mut missed, has_unwritten_changes } => {
                missed.merge(newly_missed);
                Self::Behind { missed, has_unwritten_changes: has_unwritten_changes || has_changes }
            }
        }
    }

    /// Whether everything had been written, so that another program removed what is missing now.
    fn was_complete(&self) -> bool {
        match self {
            Self::NeverSynced { .. } | Self::Behind { has_unwritten_changes: true, .. } => false,
            Self::InSync | Self::Behind { has_unwritten_changes: false, .. } => true,
        }
    }

    /// Flows to delete besides those of the last change: all stale ones, where rules were missing.
    pub(super) fn into_missed(self) -> Option<StaleFlows> {
        match self {
            Self::InSync => None,
            Self::NeverSynced { missed } | Self::Behind { missed, .. } => Some(missed),
        }
    }
}

/// Whether a sync repaired something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repair<'a> {
    None,
    /// It did, and this is known of the damage.
    Of(Option<&'a Drift>),
}

impl Purpose {
    /// Whether a sync for this purpose repaired something, given the progress before it.
    pub(super) fn repaired(&self, report: &SyncReport, before: &Progress) -> Repair<'_> {
        if report.written + report.removed == 0 {
            return Repair::None;
        }
        match self {
            // Where the correction was outdated, only changes were written.
            Self::Repair(drift) if report.outcome.is_repair() => Repair::Of(Some(drift)),
            Self::Verify | Self::Retry if before.was_complete() && report.outcome.is_repair() => {
                Repair::Of(None)
            }
            Self::Repair(_) | Self::Verify | Self::Retry | Self::Change => Repair::None,
        }
    }
}
