//! One family's rules in the kernel, whatever they are made of.

use std::sync::LazyLock;
use std::time::Duration;

use ferrule_plan::{FamilyPlan, FrontendKey, PlanDelta, StaleFlows};

use crate::{BackendError, HeldFrontend, Patch, SyncReport};

/// Keeps one family's rules in the kernel as the plan wants them.
pub trait Dataplane: Send {
    /// Brings the kernel in line with the plan. After `Ok` the kernel holds `plan`, whatever the trigger. After `Err` nothing
    /// is assumed: the next sync, whatever its trigger, does what it takes.
    fn sync(&mut self, plan: &FamilyPlan, trigger: Trigger<'_>) -> Result<SyncReport, BackendError>;

    /// Does what a sync deferred, such as a part of a verification. Called [`Deferred::after`](crate::Deferred::after) later, unless another sync came first.
    fn run_deferred(&mut self) -> Result<SyncReport, BackendError> {
        Ok(SyncReport::default())
    }

    /// Reads what the kernel holds; says what a sync would write, and writes nothing.
    fn diff(&mut self, plan: &FamilyPlan) -> Result<Patch, BackendError>;

    /// Reads what the kernel holds for a frontend, or for what all frontends share. Writes nothing.
    fn held(&mut self, plan: &FamilyPlan, key: Option<&FrontendKey>) -> Result<HeldFrontend, BackendError> {
        Ok(HeldFrontend::from_patch(&self.diff(plan)?, plan, key, &[]))
    }

    /// How often the loop asks for [`Trigger::Verify`] when nothing happens. `None` if the backend verifies in the background.
    fn verify_interval(&self) -> Option<Duration>;

    /// What a sync costs others, by which syncs are paced.
    fn cost(&self) -> Cost {
        Cost::Cpu
    }

    /// Ends existing flows to endpoints that left. Gives back what is left to conntrack, by default all of it.
    fn forget_flows(&mut self, stale: StaleFlows) -> StaleFlows {
        stale
    }

    /// Whether another process serves in this one's place, for as long as that one lives.
    fn is_standing_by(&self) -> bool {
        false
    }

    /// The process is about to end. A mode that relays connections itself lets them finish within the grace time; rules in
    /// the kernel stay.
    fn shutdown(&mut self, _grace: Duration) {}
}

/// Why a sync is asked for. Every variant carries the changes of the plan since the last sync.
#[derive(Clone, Copy, Debug)]
pub enum Trigger<'a> {
    /// The plan changed, or the last sync failed.
    Changed(&'a PlanDelta),
    /// The kernel may hold something else than the last sync left: it is to be read.
    Verify {
        /// What else changed.
        changed: &'a PlanDelta,
    },
    /// Another program changed the rules.
    Repair {
        /// What else changed.
        changed: &'a PlanDelta,
    },
}

impl<'a> Trigger<'a> {
    /// What changed in the plan.
    pub fn changed(self) -> &'a PlanDelta {
        match self {
            Self::Changed(changed) | Self::Verify { changed } | Self::Repair { changed } => changed,
        }
    }
}

impl Trigger<'static> {
    /// [`Self::Verify`] where the plan did not change.
    pub fn verify() -> Self {
        Self::Verify { changed: unchanged() }
    }

    /// [`Self::Repair`] where the plan did not change.
    pub fn repair() -> Self {
        Self::Repair { changed: unchanged() }
    }
}

fn unchanged() -> &'static PlanDelta {
    static UNCHANGED: LazyLock<PlanDelta> = LazyLock::new(PlanDelta::default);
    &UNCHANGED
}

/// What a sync costs others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// This thread does all the work: waiting for others costs nothing.
    Cpu,
    /// Other programs do the work, or hold a lock for it.
    WallClock,
}
