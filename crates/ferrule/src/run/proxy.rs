//! The state of a running proxy: what the cluster says, what this node is to do about it, and how far the kernel has it.
//!
//! Changes are only noted; [`Proxy::sync`] plans them together and brings the kernel in line, each family on its own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrule_backends::counters::{PlanChange, SharedReading};
use ferrule_backends::{BackendError, Cost, Dataplane, Drift, SyncReport};
use ferrule_model::{
    Applied, Change, Cluster, IpFamily, KeptNodeField, ObjectKind, PerFamily, ServiceName, Timestamp,
    Touched, TriggerTimes, with_causes,
};
use ferrule_plan::{
    FamilyPlan, NodePlan, NodeView, PlanDelta, ProxyMode, StaleFlows, adopt_addresses, replan,
};
use ferrule_watch::ChangeBatch;
use tracing::{error, info, warn};

use super::family::{Family, Progress, Purpose, Repair};
use super::flows::FlowCleaner;
use super::inspect::{Diffs, Snapshot};
use super::observer::Observer;
use super::repair_log::RepairLog;
use super::reported::{ReportedDiagnostics, kind_of, object_of};
use super::sync_log::{log_rejected, log_success};
use super::view::{Site, health_check_addresses};
use super::{counters, notes};
use crate::health::Moment;
use crate::metrics::SyncKind;

/// A running proxy.
pub(super) struct Proxy {
    /// Shared with snapshots: copied by the first change while one is held, and never without.
    view: Arc<NodeView>,
    cluster: Arc<Cluster>,
    plan: Arc<NodePlan>,
    /// When the endpoint changes were made that are not in the kernel yet.
    trigger_times: TriggerTimes,
    /// What changed since the last plan.
    touched: Touched,
    families: PerFamily<Family>,
    flows: FlowCleaner,
    observer: Observer,
    repairs: RepairLog,
    invalid_fields: ReportedDiagnostics,
    conflicts: ReportedDiagnostics,
    /// Kinds that cannot be watched.
    unreachable: BTreeMap<ObjectKind, Moment>,
    /// Counts connections, if that is asked for.
    counters: Option<Arc<SharedReading>>,
}

/// What became of a sync of all families.
#[derive(Debug)]
pub(super) struct Synced {
    /// Whether no family failed.
    pub is_complete: bool,
    /// When to try again, if another program is in the way.
    pub retry_in: Option<Duration>,
    /// Whether a family needs one more sync for another reason.
    pub needs_another: bool,
    /// Whether rules were verified.
    pub is_verification: bool,
}

impl Proxy {
    /// Nothing is known yet, neither of the cluster nor of the kernel.
    pub(super) fn new(
        view: NodeView,
        dataplanes: PerFamily<Box<dyn Dataplane>>,
        flows: FlowCleaner,
        observer: Observer,
    ) -> Self {
        observer.begins();
        let started = Timestamp::from_micros(jiff::Timestamp::now().as_microsecond());
        Self {
            view: Arc::new(view),
            cluster: Arc::default(),
            trigger_times: TriggerTimes::since(started),
            plan: Arc::default(),
            touched: Touched { node: true, ..Touched::default() },
            families: dataplanes.map(|_, dataplane| Family::new(dataplane)),
            flows,
            observer,
            repairs: RepairLog::default(),
            invalid_fields: ReportedDiagnostics::default(),
            conflicts: ReportedDiagnostics::default(),
            unreachable: BTreeMap::new(),
            counters: None,
        }
    }

    /// From now on, these counters follow the plan.
    pub(super) fn count_with(&mut self, counters: Option<Arc<SharedReading>>) {
        self.counters = counters;
    }

    /// What the cluster says, as far as it is known.
    pub(super) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Applies changes of the cluster; returns whether a sync is needed for them.
    pub(super) fn apply_batch(&mut self, batch: ChangeBatch) -> bool {
        let own = self.view.name.to_string();
        let mut diagnostics = batch.diagnostics;
        // Names are only needed to forget what was reported; mostly nothing was.
        let checked: Vec<_> = if self.invalid_fields.is_empty() {
            Vec::new()
        } else {
            batch.changes.iter().map(|change| object_of(change, &own)).collect()
        };
        for change in batch.changes {
            let kept = self.apply(change);
            diagnostics.extend(kept.into_iter().map(|kept| kept.diagnostic(&own)));
        }
        for diagnostic in self.invalid_fields.newly_seen(checked, diagnostics) {
            warn!(object = %diagnostic, "Ignoring invalid field");
            self.observer.diagnosed(&diagnostic);
        }
        !self.touched.is_empty()
    }

    /// What the Node lacks and stays in use is handed back.
    fn apply(&mut self, change: Change) -> Vec<KeptNodeField> {
        let kind = kind_of(&change);
        let Applied { touched, kept, trigger } = Arc::make_mut(&mut self.cluster).apply(change);
        self.trigger_times.update(trigger);
        let is_pending = !touched.is_empty();
        if touched.node || touched.eligibility {
            self.observer.node_is(self.cluster.node());
        }
        self.touched.merge(touched);
        match kind {
            ObjectKind::Service => self.observer.service_changed(self.touched.services.len()),
            ObjectKind::EndpointSlice | ObjectKind::Endpoints => self.observer.slice_changed(is_pending),
            ObjectKind::Node | ObjectKind::ServiceCidr => {}
        }
        kept
    }

    /// Tells which configuration is in effect.
    pub(super) fn configured(&self, configz: String, sync_period: Duration) {
        self.observer.status().configured(configz, sync_period);
    }

    /// Tells that a sync is wanted.
    pub(super) fn queued(&self) {
        self.observer.queued();
    }

    /// Notes other settings; says whether anything is to be done about them.
    pub(super) fn set_view(&mut self, view: NodeView) -> bool {
        self.touched.node |= view != *self.view;
        self.view = Arc::new(view);
        self.touched.node
    }

    /// Notes the addresses of the host's interfaces; says whether anything is to be done about them.
    pub(super) fn set_addresses(&mut self, addresses: impl IntoIterator<Item = IpAddr>) -> bool {
        let addresses = addresses.into_iter().collect();
        if self.view.interface_addresses == addresses {
            return false;
        }
        Arc::make_mut(&mut self.view).interface_addresses = addresses;
        let plan = Arc::make_mut(&mut self.plan);
        if adopt_addresses(plan, &self.cluster, &self.view) {
            // Rules stay as they are; what is sent to a new address is to be counted as well.
            self.count(&BTreeSet::new(), &PerFamily::default());
        } else {
            self.touched.node = true;
        }
        self.touched.node
    }

    /// The node as it is seen now, but for the settings.
    pub(super) fn site(&self) -> Site {
        Site {
            name: self.view.name.clone(),
            families: self.view.families.clone(),
            interface_addresses: self.view.interface_addresses.clone(),
        }
    }

    /// Another program changed our rules.
    pub(super) fn note_drift(&mut self, drift: Drift) {
        if let Some(family) = self.families.slot(drift.family) {
            family.needs.note_drift(drift);
        }
    }

    /// The rules of one family, or of all, may not be what the last sync left.
    pub(super) fn want_verification(&mut self, only: Option<IpFamily>) {
        let wanted = |family: &IpFamily| only.is_none_or(|only| only == *family);
        for family in IpFamily::BOTH.into_iter().filter(wanted) {
            if let Some(family) = self.families.slot(family) {
                family.needs.note_doubt();
            }
        }
    }

    /// When the next verification is due.
    pub(super) fn verify_at(&self) -> Option<Instant> {
        self.families.iter().filter_map(|(_, family)| family.verify_at()).min()
    }

    /// Notes the verifications that are due; returns whether there are any.
    pub(super) fn want_due_verifications(&mut self, now: Instant) -> bool {
        let mut is_due = false;
        for family in IpFamily::BOTH {
            if let Some(family) = self.families.slot(family)
                && family.verify_at().is_some_and(|at| at <= now)
            {
                family.needs.note_doubt();
                is_due = true;
            }
        }
        is_due
    }

    /// The backend cannot watch its rules: they are verified this often.
    pub(super) fn verify_every(&mut self, interval: Duration) {
        for family in IpFamily::BOTH {
            if let Some(family) = self.families.slot(family) {
                family.verify_every(interval);
            }
        }
    }

    /// Plans what changed and brings the kernel in line.
    pub(super) fn sync(&mut self) -> Synced {
        let touched = std::mem::take(&mut self.touched);
        let (mut deltas, contested) = if touched.is_empty() {
            Default::default()
        } else {
            replan(Arc::make_mut(&mut self.plan), &self.cluster, &touched, &self.view)
        };
        let checked = touched.services.iter().map(|name| (ObjectKind::Service, name.to_string()));
        for diagnostic in self.conflicts.newly_seen(checked, contested) {
            warn!(object = %diagnostic, "Address conflict, not serving");
            self.observer.diagnosed(&diagnostic);
        }
        if touched.node {
            for family in self.view.families.clone() {
                let addresses = health_check_addresses(&self.view, self.cluster.node(), family);
                self.observer.set_addresses(family, addresses);
            }
        }
        if !touched.is_empty() {
            self.count(&touched.services, &deltas);
        }
        let mut synced =
            Synced { is_complete: true, retry_in: None, needs_another: false, is_verification: false };
        synced.is_verification = self.families.iter().any(|(_, family)| family.needs.is_verification());
        for family in IpFamily::BOTH {
            let delta = deltas.slot(family).take().unwrap_or_default();
            if let Err(error) = self.sync_family(family, &delta) {
                synced.is_complete = false;
                synced.retry_in = synced.retry_in.into_iter().chain(error.retry_in()).min();
            }
        }
        synced.needs_another =
            synced.is_complete && self.families.iter().any(|(_, family)| !family.needs.is_empty());
        if synced.is_complete {
            self.observer.all_in_sync();
            self.observer.programmed(self.trigger_times.take().into_values().flatten());
        }
        synced
    }

    /// Counts what the plan has now. Before it is written: the first connection counts.
    fn count(&self, touched: &BTreeSet<ServiceName>, deltas: &PerFamily<PlanDelta>) {
        if let Some(counters) = &self.counters {
            let asks = counters::asks(&self.cluster);
            let notes = counters.follow(&PlanChange { plan: &self.plan, deltas, touched, asks: &asks });
            notes::report_all(&notes, &self.observer.status().events);
        }
    }

    fn sync_family(&mut self, family: IpFamily, delta: &PlanDelta) -> Result<(), BackendError> {
        let (Some(plan), Some(state)) = (self.plan.families.get(family), self.families.slot(family)) else {
            return Ok(());
        };
        let Some(purpose) = state.needs.take(delta) else {
            self.observer.in_sync(family, plan, delta);
            return Ok(());
        };
        let began = Instant::now();
        let result = state.sync(plan, &purpose, delta);
        let sync = FamilySync { family, purpose, delta, took: began.elapsed() };
        match result {
            Ok(report) => {
                self.succeeded(&sync, &report);
                Ok(())
            }
            Err(error) => {
                self.failed(&sync, &error);
                Err(error)
            }
        }
    }

    fn failed(&mut self, sync: &FamilySync<'_>, error: &BackendError) {
        let family = sync.family;
        let (Some(plan), Some(state)) = (self.plan.families.get(family), self.families.slot(family)) else {
            return;
        };
        let was_blocked = state.is_blocked;
        state.failed(plan, sync.delta, error);
        state.status.failed(error);
        log_rejected(family, &error.findings.rejected);
        self.observer.measured(&error.findings.measured);
        // A program that stays in the way is logged and counted once.
        if state.is_blocked && was_blocked {
            return;
        }
        let err = with_causes(error);
        if state.is_blocked {
            warn!(%family, err, "Another program is in the way, changes wait for it");
        } else {
            error!(%family, err, "Sync failed, trying again");
        }
        let kind = match sync.purpose {
            Purpose::Change => SyncKind::Partial,
            Purpose::Repair(_) | Purpose::Verify | Purpose::Retry => SyncKind::Full,
        };
        self.observer.failed(family, error, kind, sync.took);
    }

    fn succeeded(&mut self, sync: &FamilySync<'_>, report: &SyncReport) {
        let FamilySync { family, purpose, delta, took } = sync;
        let family = *family;
        let (Some(plan), Some(state)) = (self.plan.families.get(family), self.families.slot(family)) else {
            return;
        };
        let before = std::mem::replace(&mut state.progress, Progress::InSync);
        let repair = purpose.repaired(report, &before);
        match repair {
            Repair::Of(drift) => {
                // Where it was not announced, the sync itself may have seen what it was.
                let found = report.found.clone().map(|what| Drift { family, what, by: None });
                let drift = drift.or(found.as_ref());
                state.status.repaired(drift);
                self.repairs.log(family, drift, report.written, *took);
                self.observer.repaired(family, drift);
            }
            Repair::None => log_success(family, purpose, report, *took),
        }
        log_rejected(family, &report.rejected);
        notes::report_all(&report.notes, &self.observer.status().events);
        state.status.succeeded(report, *took);
        self.observer.succeeded(family, report, *took);
        if std::mem::take(&mut state.is_blocked) {
            info!(%family, "No longer blocked by another program, changes are written");
        }
        if matches!(before, Progress::NeverSynced { .. }) {
            self.observer.first_sync(family, report);
        }
        let mut missed = before.into_missed();
        if missed.is_some() {
            self.observer.reset_health_checks(family, plan);
        }
        if repair != Repair::None {
            missed.get_or_insert_default();
        }
        self.observer.in_sync(family, plan, delta);
        state.deferred_at = report.deferred.map(|deferred| Instant::now() + deferred.after);
        let left_to_conntrack = state.dataplane.forget_flows(stale_flows(plan, delta, missed));
        self.flows.delete(family, left_to_conntrack);
    }

    /// A kind can no longer be watched, or can be watched again.
    pub(super) fn set_reachable(&mut self, kind: ObjectKind, is_reachable: bool) {
        let was_reachable = !self.unreachable.contains_key(&kind);
        if is_reachable == was_reachable {
            return;
        }
        if is_reachable {
            self.unreachable.remove(&kind);
        } else {
            self.unreachable.insert(kind, Moment::now());
        }
        self.observer.reachable(kind, is_reachable);
    }

    /// What is known now.
    pub(super) fn snapshot(&self, mode: ProxyMode) -> Snapshot {
        let mut families = PerFamily::default();
        for (family, state) in self.families.iter() {
            families.set(family, state.status.clone());
        }
        let diagnostics = self.invalid_fields.current().chain(self.conflicts.current());
        Snapshot {
            mode,
            cluster: Arc::clone(&self.cluster),
            plan: Arc::clone(&self.plan),
            view: Arc::clone(&self.view),
            families,
            unreachable: self.unreachable.clone(),
            has_pending_changes: !self.touched.is_empty(),
            diagnostics: diagnostics.cloned().collect(),
            is_shadow: false,
            reader: None,
        }
    }

    /// What a sync of the present plan would write, by a reading of the kernel.
    pub(super) fn diff(&mut self) -> Diffs {
        let mut diffs = Diffs::default();
        for (family, plan) in self.plan.families.iter() {
            if let Some(state) = self.families.slot(family) {
                diffs.set(family, state.dataplane.diff(plan).map_err(|error| with_causes(&error)));
            }
        }
        diffs
    }

    /// What syncs cost others.
    pub(super) fn cost(&self) -> Cost {
        let is_wall_clock = |(_, family): (IpFamily, &Family)| family.dataplane.cost() == Cost::WallClock;
        if self.families.iter().any(is_wall_clock) { Cost::WallClock } else { Cost::Cpu }
    }

    /// Whether another process serves in this one's place.
    pub(super) fn is_standing_by(&self) -> bool {
        self.families.iter().any(|(_, family)| family.dataplane.is_standing_by())
    }

    /// When a dataplane wants to do what it deferred.
    pub(super) fn deferred_at(&self) -> Option<Instant> {
        self.families.iter().filter_map(|(_, family)| family.deferred_at).min()
    }

    /// Has dataplanes do what they deferred and is due; returns whether that went well.
    pub(super) fn run_deferred(&mut self, now: Instant) -> bool {
        let mut is_healthy = true;
        for family in IpFamily::BOTH {
            let Some(state) = self.families.slot(family) else { continue };
            if state.deferred_at.take_if(|at| *at <= now).is_none() {
                continue;
            }
            let began = Instant::now();
            match state.dataplane.run_deferred() {
                // What a verification left for later was found to differ.
                Ok(report) if report.outcome.is_repair() && matches!(state.progress, Progress::InSync) => {
                    let (purpose, delta) = (Purpose::Verify, &PlanDelta::default());
                    self.succeeded(&FamilySync { family, purpose, delta, took: began.elapsed() }, &report);
                }
                Ok(report) => {
                    state.deferred_at = report.deferred.map(|deferred| Instant::now() + deferred.after);
                    log_rejected(family, &report.rejected);
                }
                Err(error) => {
                    error!(%family, err = with_causes(&error), "What was left for later failed");
                    self.observer.cleanup_failed(&error);
                    state.needs.note_doubt();
                    is_healthy = false;
                }
            }
        }
        is_healthy
    }

    /// Lets dataplanes finish what they do for connections themselves.
    pub(super) fn shut_down(&mut self, grace: Duration) {
        let deadline = Instant::now() + grace;
        for family in IpFamily::BOTH {
            if let Some(state) = self.families.slot(family) {
                state.dataplane.shutdown(deadline.saturating_duration_since(Instant::now()));
            }
        }
    }
}

/// A sync of one family.
struct FamilySync<'a> {
    family: IpFamily,
    purpose: Purpose,
    delta: &'a PlanDelta,
    took: Duration,
}

/// Flows to be deleted after a success: those of this change, or all stale ones if the rules were not always what they should be.
fn stale_flows(plan: &FamilyPlan, delta: &PlanDelta, missed: Option<StaleFlows>) -> StaleFlows {
    let by_change = StaleFlows::from_delta(plan, delta);
    let Some(mut stale) = missed else { return by_change };
    stale.merge(by_change);
    stale.merge(StaleFlows::from_plan(plan));
    stale
}
