//! One family that is served: what it needs beside the changes of its plan, and how a sync goes about it.
//!
//! What is told of a sync is [`super::proxy`]'s affair.

use ferrule_backends::iptables::Correction;
use ferrule_backends::{Dataplane, Reason, SyncError, SyncReport};
use ferrule_plan::{FamilyPlan, PlanDelta, StaleFlows};

use super::drift::Drift;

/// One family that is served.
pub(super) struct FamilyState {
    pub dataplane: Box<dyn Dataplane>,
    pub need: Need,
    pub written: Written,
    /// Whether another program's lock is in the way.
    pub is_waiting: bool,
    /// Flows that failed syncs would have made stale. Present too before the first success and when rules were missing: then
    /// all flows are looked through.
    pub missed: Option<StaleFlows>,
    /// Whether something is to be taken away in a while.
    pub lingering: bool,
}

/// How much of the plan was ever written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// Nothing: there was no sync that succeeded.
    Nothing,
    /// Not all, since a sync failed.
    Some,
    Everything,
}

/// Whether a sync repaired something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repair<'a> {
    None,
    /// It did, and this is known of the damage.
    Of(Option<&'a Drift>),
}

/// What a family needs beside the changes of its plan.
#[derive(Debug)]
pub(super) enum Need {
    Nothing,
    /// To find out how it stands: at the start, after a failure, now and then.
    Look,
    /// To write what could not be written before.
    WriteRest,
    /// To be repaired, since somebody touched it.
    Repair(Option<Drift>),
    /// To be corrected, since what is there was read and differs.
    Correct(Drift, Box<Correction>),
}

impl FamilyState {
    pub fn new(dataplane: Box<dyn Dataplane>) -> Self {
        Self {
            dataplane,
            need: Need::Look,
            written: Written::Nothing,
            is_waiting: false,
            missed: Some(StaleFlows::default()),
            lingering: false,
        }
    }

    /// Notes a need, unless there is one that comes first; says whether it was noted.
    pub fn also_needs(&mut self, need: Need) -> bool {
        let is_free = matches!(self.need, Need::Nothing);
        if is_free {
            self.need = need;
        }
        is_free
    }

    /// Brings the kernel in line.
    pub fn sync(
        &mut self,
        plan: &FamilyPlan,
        need: &Need,
        delta: &PlanDelta,
    ) -> Result<SyncReport, SyncError> {
        match need {
            Need::Nothing | Need::WriteRest => self.dataplane.sync(plan, Reason::PlanChanged(delta)),
            Need::Repair(_) => self.dataplane.sync(plan, Reason::Repair),
            Need::Look => self.look(plan, delta),
            Need::Correct(_, correction) => self.correct(plan, correction, delta),
        }
    }

    /// In some modes a look at what is there does not write what changed: that comes first.
    fn look(&mut self, plan: &FamilyPlan, delta: &PlanDelta) -> Result<SyncReport, SyncError> {
        if self.written == Written::Nothing || delta.is_empty() || self.dataplane.is_verified_elsewhere() {
            return self.dataplane.sync(plan, Reason::Look);
        }
        let changed = self.dataplane.sync(plan, Reason::PlanChanged(delta))?;
        let looked = self.dataplane.sync(plan, Reason::Look)?;
        Ok(if looked.commits == 0 { SyncReport { lingering: looked.lingering, ..changed } } else { looked })
    }

    /// The correction comes first: it is about the rules as they are, and a change may depend on what is missing.
    fn correct(
        &mut self,
        plan: &FamilyPlan,
        correction: &Correction,
        delta: &PlanDelta,
    ) -> Result<SyncReport, SyncError> {
        let corrected = self.dataplane.correct(correction)?;
        let changed = self.dataplane.sync(plan, Reason::PlanChanged(delta))?;
        Ok(match corrected {
            None => changed,
            Some(corrected) => SyncReport {
                written: corrected.written + changed.written,
                removed: corrected.removed + changed.removed,
                commits: corrected.commits + changed.commits,
                way: corrected.way,
                ..changed
            },
        })
    }

    /// After a failure: what of the plan was not written, and how it is to go on.
    pub fn failed(&mut self, plan: &FamilyPlan, delta: &PlanDelta, error: &SyncError) {
        if self.written == Written::Everything && !delta.is_empty() {
            self.written = Written::Some;
        }
        self.is_waiting = is_locked(error);
        // A correction that met a lock is found again by the next verification, which reads beside the loop.
        let is_found_again = self.is_waiting
            && delta.is_empty()
            && self.written == Written::Everything
            && self.dataplane.is_verified_elsewhere();
        self.need = match (self.dataplane.has_unwritten(), is_found_again) {
            (true, _) => Need::WriteRest,
            (false, true) => Need::Nothing,
            (false, false) => Need::Look,
        };
        self.missed.get_or_insert_default().merge(StaleFlows::by_change(plan, delta));
    }
}

impl Need {
    /// Whether a sync for this need repaired something, where so much was written before.
    pub fn repaired(&self, report: &SyncReport, before: Written) -> Repair<'_> {
        // Where nothing was written, nothing was amiss, whatever somebody thought to see.
        if report.written + report.removed == 0 {
            return Repair::None;
        }
        match self {
            Self::Repair(drift) => Repair::Of(drift.as_ref()),
            Self::Correct(drift, _) if report.way.is_repair() => Repair::Of(Some(drift)),
            // What a look finds amiss though all went well before is somebody's doing.
            Self::Look if before == Written::Everything && report.way.is_repair() => Repair::Of(None),
            Self::Nothing | Self::WriteRest | Self::Look | Self::Correct(..) => Repair::None,
        }
    }
}

/// Whether another program's lock is in the way, which goes away by itself.
pub(super) fn is_locked(error: &SyncError) -> bool {
    matches!(error, SyncError::Iptables(error) if error.is_locked())
}
