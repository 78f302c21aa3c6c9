//! Questions to the running loop, answered with a consistent snapshot.
//!
//! The loop gives away shared pointers to what it knows and goes on at once. The first change after that copies the cluster and
//! the plan once, if the snapshot is still held: as many entries as there are Services and endpoints, some milliseconds for
//! thousands. Without questions nothing is ever copied. Working out an answer happens
//! on the thread that asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender as Sender, TrySendError};
use std::thread;
use std::time::{Duration, Instant};

use ferrule_backends::{BackendError, Drift, KernelReader, Patch, SyncOutcome, SyncReport};
use ferrule_model::{Cluster, Diagnostic, ObjectKind, PerFamily};
use ferrule_plan::{Explainer, NodePlan, NodeView, ProxyMode};

use super::Event;
use crate::health::Moment;
use ferrule_model::with_causes;

/// How often a full queue is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// How often a wait is checked for being cancelled.
const CANCEL_INTERVAL: Duration = Duration::from_millis(50);

/// What the proxy knew at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The proxy mode.
    pub mode: ProxyMode,
    /// What the cluster says.
    pub cluster: Arc<Cluster>,
    /// What this node must do about it: frontends, pools, health checks.
    pub plan: Arc<NodePlan>,
    /// How this node is run.
    pub view: Arc<NodeView>,
    /// How far the kernel has it.
    pub families: PerFamily<FamilyStatus>,
    /// The kinds of objects that cannot be watched, and since when.
    pub unreachable: BTreeMap<ObjectKind, Moment>,
    /// Whether the cluster has changed since the plan was made: the next sync will plan it.
    pub has_pending_changes: bool,
    /// Fields that cannot be used, and addresses that more than one Service claims.
    pub diagnostics: Vec<Diagnostic>,
    /// Whether another proxy serves, and this one only looks.
    pub is_shadow: bool,
    /// Compares plans with the kernel. `None` where only the loop can.
    pub reader: Option<KernelReader>,
}

impl Snapshot {
    /// Answers why a Service, a frontend or a packet is treated as it is.
    pub fn explainer(&self) -> Explainer<'_> {
        let Self { cluster, plan, view, diagnostics, .. } = self;
        Explainer { cluster, view, plan, diagnostics }
    }
}

/// How far the kernel has the plan of one family.
#[derive(Clone, Debug, Default)]
pub struct FamilyStatus {
    /// Whether the last sync succeeded.
    pub is_in_sync: bool,
    /// The last sync that succeeded.
    pub last_sync: Option<LastSync>,
    /// The last sync that failed, and why.
    pub last_failure: Option<(Moment, String)>,
    /// The last time another program had changed our rules.
    pub last_repair: Option<(Moment, Option<Drift>)>,
    /// Service ports that are not served because their rules were rejected.
    pub quarantined: usize,
    /// In shadow mode: differences to the rules of the proxy that serves which have lasted.
    pub differing: usize,
}

/// A sync that succeeded.
#[derive(Clone, Debug)]
pub struct LastSync {
    /// When it ended.
    pub at: Moment,
    /// How long it took.
    pub took: Duration,
    /// Objects written.
    pub written: usize,
    /// Objects removed.
    pub removed: usize,
    /// How it came about.
    pub outcome: SyncOutcome,
}

impl FamilyStatus {
    pub(super) fn succeeded(&mut self, report: &SyncReport, took: Duration) {
        let SyncReport { written, removed, outcome, quarantined, differing, .. } = *report;
        self.is_in_sync = differing == 0;
        self.quarantined = quarantined;
        self.differing = differing;
        self.last_sync = Some(LastSync { at: Moment::now(), took, written, removed, outcome });
    }

    pub(super) fn failed(&mut self, error: &BackendError) {
        self.is_in_sync = false;
        self.last_failure = Some((Moment::now(), with_causes(error)));
    }

    pub(super) fn repaired(&mut self, drift: Option<&Drift>) {
        self.last_repair = Some((Moment::now(), drift.cloned()));
    }
}

/// What a sync of each family would write, or why that cannot be found out.
pub type Diffs = PerFamily<Result<Patch, String>>;

/// Asks the loop.
#[derive(Clone, Debug)]
pub struct Inspector {
    events: Sender<Event>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InspectError {
    /// A long sync, or more events than the loop can handle.
    #[error("the proxy did not answer within {0:?}; is it in the middle of a long sync?")]
    Busy(Duration),
    /// The proxy is ending.
    #[error("the proxy is shutting down")]
    Ended,
}

impl Inspector {
    pub(super) fn new(events: Sender<Event>) -> Self {
        Self { events }
    }

    /// What the proxy knows now. Waits for the loop for at most this long, or until the answer is no longer wanted.
    pub fn snapshot(
        &self,
        timeout: Duration,
        is_cancelled: impl Fn() -> bool,
    ) -> Result<Snapshot, InspectError> {
        self.ask(Event::Inspect, timeout, is_cancelled)
    }

    /// What a sync would write now, by the loop's own dataplanes. The loop waits for the kernel meanwhile: only for modes
    /// without a [`KernelReader`], whose rules are few.
    pub fn diff(&self, timeout: Duration, is_cancelled: impl Fn() -> bool) -> Result<Diffs, InspectError> {
        self.ask(Event::Diff, timeout, is_cancelled)
    }

    fn ask<T>(
        &self,
        question: impl FnOnce(Sender<T>) -> Event,
        timeout: Duration,
        is_cancelled: impl Fn() -> bool,
    ) -> Result<T, InspectError> {
        let deadline = Instant::now() + timeout;
        let is_over = || Instant::now() >= deadline || is_cancelled();
        let (reply, answer) = mpsc::sync_channel(1);
        let mut event = question(reply);
        while let Err(refused) = self.events.try_send(event) {
            match refused {
                TrySendError::Disconnected(_) => return Err(InspectError::Ended),
                TrySendError::Full(_) if is_over() => {
                    return Err(InspectError::Busy(timeout));
                }
                TrySendError::Full(back) => event = back,
            }
            thread::park_timeout(RETRY_INTERVAL);
        }
        loop {
            match answer.recv_timeout(CANCEL_INTERVAL) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Disconnected) => return Err(InspectError::Ended),
                Err(RecvTimeoutError::Timeout) if is_over() => return Err(InspectError::Busy(timeout)),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}
