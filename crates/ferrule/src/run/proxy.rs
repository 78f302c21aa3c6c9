//! The state of a running proxy: what the cluster says, what this node is to do about it, and how far the kernel has it.
//!
//! Changes are only noted; [`Proxy::sync`] plans them together and brings the kernel in line, each family on its own.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use ferrule_backends::iptables::Correction;
use ferrule_backends::{Dataplane, SyncError, SyncReport, Way};
use ferrule_model::{Change, Cluster, IpFamily, ObjectKind, PerFamily, Timestamp, Touched};
use ferrule_plan::{FamilyPlan, NodePlan, NodeView, PlanDelta, StaleFlows, replan, take_over_addresses};
use tracing::{error, info, warn};

use super::News;
use super::drift::Drift;
use super::family::{FamilyState, Need, Repair, Written, is_locked};
use super::flows::FlowCleaner;
use super::observer::Observer;
use super::repair_log::RepairLog;
use super::told::Told;
use super::view::{Site, health_check_addresses};
use crate::causes::with_causes;
use crate::metrics::SyncKind;

/// A running proxy.
pub struct Proxy {
    view: NodeView,
    cluster: Cluster,
    plan: NodePlan,
    /// What changed since the last plan.
    touched: Touched,
    families: PerFamily<FamilyState>,
    flows: FlowCleaner,
    observer: Observer,
    repairs: RepairLog,
    unusable: Told,
    contested: Told,
}

/// What a sync did.
#[derive(Debug, Default)]
pub struct Synced {
    /// For each family that was synced, what was written, or why not.
    pub families: PerFamily<Result<SyncReport, SyncError>>,
}

impl Synced {
    /// Whether nothing failed.
    pub fn is_well(&self) -> bool {
        self.families.iter().all(|(_, result)| result.is_ok())
    }
}

impl Proxy {
    /// Nothing is known yet, neither of the cluster nor of the kernel.
    pub fn new(
        view: NodeView,
        dataplanes: PerFamily<Box<dyn Dataplane>>,
        flows: FlowCleaner,
        observer: Observer,
    ) -> Self {
        observer.begins();
        let started = Timestamp::from_micros(jiff::Timestamp::now().as_microsecond());
        Self {
            view,
            cluster: Cluster::new(started),
            plan: NodePlan::default(),
            touched: Touched { node: true, ..Touched::default() },
            families: dataplanes.map(|_, dataplane| FamilyState::new(dataplane)),
            flows,
            observer,
            repairs: RepairLog::default(),
            unusable: Told::default(),
            contested: Told::default(),
        }
    }

    /// What the cluster says, as far as it is known.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Notes changes of the cluster; says whether anything is to be done about them.
    pub fn take(&mut self, news: News) -> bool {
        let own = self.view.name.to_string();
        let mut diagnostics = news.diagnostics;
        for change in &news.changes {
            if let Change::Node(Some(node)) = change {
                diagnostics.extend(self.cluster.lost(node, &own));
            }
        }
        let looked_at = news.changes.iter().map(|change| object_of(change, &own));
        for diagnostic in self.unusable.news(looked_at, diagnostics) {
            warn!(object = %diagnostic, "Cannot use all of an object");
            self.observer.diagnosed(&diagnostic);
        }
        for change in news.changes {
            self.apply(change);
        }
        !self.touched.is_empty()
    }

    fn apply(&mut self, change: Change) {
        let kind = kind_of(&change);
        let touched = self.cluster.apply(change);
        let is_pending = !touched.is_empty();
        if touched.node || touched.eligibility {
            self.observer.node_is(self.cluster.node());
        }
        self.touched.merge(touched);
        match kind {
            ObjectKind::Service => self.observer.service_changed(self.touched.services.len()),
            ObjectKind::EndpointSlice => self.observer.slice_changed(is_pending),
            ObjectKind::Node | ObjectKind::ServiceCidr => {}
        }
    }

    /// Tells which configuration is in effect.
    pub fn configured(&self, configz: String, sync_period: Duration) {
        self.observer.status().configured(configz, sync_period);
    }

    /// Tells that a sync is wanted.
    pub fn queued(&self) {
        self.observer.queued();
    }

    /// Notes other settings; says whether anything is to be done about them.
    pub fn set_view(&mut self, view: NodeView) -> bool {
        self.touched.node |= view != self.view;
        self.view = view;
        self.touched.node
    }

    /// Notes the addresses of the host's interfaces; says whether anything is to be done about them.
    pub fn set_addresses(&mut self, addresses: impl IntoIterator<Item = IpAddr>) -> bool {
        let addresses = addresses.into_iter().collect();
        if self.view.interface_addresses == addresses {
            return false;
        }
        self.view.interface_addresses = addresses;
        self.touched.node |= !take_over_addresses(&mut self.plan, &self.cluster, &self.view);
        self.touched.node
    }

    /// The node as it is seen now, but for the settings.
    pub fn site(&self) -> Site {
        Site {
            name: self.view.name.clone(),
            families: self.view.families.clone(),
            interface_addresses: self.view.interface_addresses.clone(),
        }
    }

    /// Notes that somebody touched the rules.
    pub fn take_drift(&mut self, drift: Drift) {
        if let Some(served) = self.families.slot(drift.family) {
            served.need = Need::Repair(Some(drift));
        }
    }

    /// Notes what corrects rules that somebody touched.
    pub fn take_correction(&mut self, drift: Drift, correction: Box<Correction>) {
        if let Some(served) = self.families.slot(drift.family)
            && !served.also_needs(Need::Correct(drift, correction))
        {
            served.dataplane.want_verification();
        }
    }

    /// Notes that the rules may not be what they were.
    pub fn look_again(&mut self) {
        for family in IpFamily::BOTH {
            if let Some(served) = self.families.slot(family)
                && !served.dataplane.is_verified_elsewhere()
            {
                served.also_needs(Need::Look);
            }
        }
    }

    /// Notes that one family's rules are to be looked at.
    pub fn look_at(&mut self, family: IpFamily) {
        if let Some(served) = self.families.slot(family) {
            served.also_needs(Need::Look);
        }
    }

    /// Whether another program's lock is in the way of a sync.
    pub fn is_waiting_for_lock(&self) -> bool {
        self.families.iter().any(|(_, served)| served.is_waiting)
    }

    /// Plans what changed and brings the kernel in line.
    pub fn sync(&mut self) -> Synced {
        let touched = std::mem::take(&mut self.touched);
        let (mut deltas, contested) = if touched.is_empty() {
            Default::default()
        } else {
            replan(&mut self.plan, &self.cluster, &touched, &self.view)
        };
        let looked_at = touched.services.iter().map(|name| (ObjectKind::Service, name.to_string()));
        for diagnostic in self.contested.news(looked_at, contested) {
            warn!(object = %diagnostic, "Cannot serve all of an object");
            self.observer.diagnosed(&diagnostic);
        }
        if touched.node {
            for family in self.view.families.clone() {
                let addresses = health_check_addresses(&self.view, self.cluster.node(), family);
                self.observer.set_addresses(family, addresses);
            }
        }
        let mut synced = Synced::default();
        for family in IpFamily::BOTH {
            let delta = deltas.slot(family).take().unwrap_or_default();
            if let Some(result) = self.sync_family(family, &delta) {
                synced.families.set(family, result);
            }
        }
        if synced.is_well() {
            self.observer.all_in_line();
            self.observer.programmed(self.cluster.take_trigger_times().into_values().flatten());
        }
        synced
    }

    fn sync_family(&mut self, family: IpFamily, delta: &PlanDelta) -> Option<Result<SyncReport, SyncError>> {
        let plan = self.plan.families.get(family)?;
        let served = self.families.slot(family).as_mut()?;
        let need = std::mem::replace(&mut served.need, Need::Nothing);
        if matches!(need, Need::Nothing) && delta.is_empty() {
            self.observer.is_in_line(family, plan, delta);
            return None;
        }
        let began = Instant::now();
        let result = served.sync(plan, &need, delta);
        let took = began.elapsed();
        tell_of_programs(family, served.dataplane.as_mut(), &self.observer);
        match &result {
            Ok(report) => self.succeeded(family, &Done { need, report, took, delta }),
            Err(error) => {
                let waited = std::mem::take(&mut served.is_waiting);
                served.failed(plan, delta, error);
                if served.is_waiting && waited {
                    return Some(result);
                }
                log_failure(family, error);
                let kind = if matches!(need, Need::Nothing) { SyncKind::Partial } else { SyncKind::Full };
                self.observer.failed(family, (error, kind), took);
            }
        }
        Some(result)
    }

    fn succeeded(&mut self, family: IpFamily, done: &Done<'_>) {
        let Done { need, report, took, delta } = done;
        let (Some(plan), Some(served)) = (self.plan.families.get(family), self.families.slot(family)) else {
            return;
        };
        let before = std::mem::replace(&mut served.written, Written::Everything);
        let repair = need.repaired(report, before);
        match repair {
            Repair::Of(drift) => self.repairs.tell(family, drift, (report.written, *took)),
            Repair::None => log_success(family, need, report, *took),
        }
        self.observer.succeeded(family, report, *took);
        if std::mem::take(&mut served.is_waiting) {
            info!(%family, "The xtables lock is free again, what waited for it is written");
        }
        if before == Written::Nothing {
            self.observer.started(family, report);
        }
        let mut missed = std::mem::take(&mut served.missed);
        if missed.is_some() {
            self.observer.is_checked_anew(family, plan);
        }
        if repair != Repair::None {
            self.observer.repaired(family);
            missed.get_or_insert_default();
        }
        self.observer.is_in_line(family, plan, delta);
        served.lingering = report.lingering > 0;
        self.flows.delete(family, stale_flows(plan, delta, missed));
    }

    /// Whether other programs write the rules.
    pub fn runs_programs(&self) -> bool {
        self.families.iter().any(|(_, served)| served.dataplane.runs_programs())
    }

    /// Whether something is to be taken away in a while.
    pub fn is_lingering(&self) -> bool {
        self.families.iter().any(|(_, served)| served.lingering)
    }

    /// Takes away what lingered; says whether that went well.
    pub fn finish(&mut self) -> bool {
        let mut well = true;
        for family in IpFamily::BOTH {
            let Some(served) = self.families.slot(family).as_mut().filter(|served| served.lingering) else {
                continue;
            };
            served.lingering = false;
            if let Err(error) = served.dataplane.finish() {
                error!(%family, err = with_causes(&error), "Removing what is no longer used failed");
                self.observer.cleanup_failed(family);
                served.need = Need::Look;
                well = false;
            }
        }
        well
    }
}

/// A sync that succeeded.
struct Done<'a> {
    need: Need,
    report: &'a SyncReport,
    took: Duration,
    delta: &'a PlanDelta,
}

/// Flows to be deleted after a success: those of this change, or all stale ones if the rules were not always what they should be.
fn stale_flows(plan: &FamilyPlan, delta: &PlanDelta, missed: Option<StaleFlows>) -> StaleFlows {
    let by_change = StaleFlows::by_change(plan, delta);
    let Some(mut stale) = missed else { return by_change };
    stale.merge(by_change);
    stale.merge(StaleFlows::under(plan));
    stale
}

/// The object a change is about, as reports name it; the only Node is our own.
fn object_of(change: &Change, own_node: &str) -> (ObjectKind, String) {
    let name = match change {
        Change::Service(name, _) => name.to_string(),
        Change::Slice(name, ..) => name.to_string(),
        Change::Node(_) => own_node.to_owned(),
        Change::ServiceCidr(name, _) => name.clone(),
    };
    (kind_of(change), name)
}

fn kind_of(change: &Change) -> ObjectKind {
    match change {
        Change::Service(..) => ObjectKind::Service,
        Change::Slice(..) => ObjectKind::EndpointSlice,
        Change::Node(_) => ObjectKind::Node,
        Change::ServiceCidr(..) => ObjectKind::ServiceCidr,
    }
}

/// What the programs that write the rules had to wait for, and what they did not take.
fn tell_of_programs(family: IpFamily, dataplane: &mut dyn Dataplane, observer: &Observer) {
    if let Some(wait) = dataplane.lock_wait() {
        observer.waited_for_lock(family, wait);
    }
    for refusal in dataplane.refusals() {
        let (what, err) = (refusal.what.to_string(), with_causes(&refusal.error));
        observer.refused(family);
        if refusal.is_repeated {
            info!(v = 2, %family, what, err, "iptables still refuses some rules");
        } else {
            error!(%family, what, err, "iptables refuses some rules, the others are written");
        }
    }
}

fn log_failure(family: IpFamily, error: &SyncError) {
    let err = with_causes(error);
    if is_locked(error) {
        warn!(%family, err, "Changes wait until another program lets go of the xtables lock");
    } else {
        error!(%family, err, "Sync failed, it is tried again");
    }
}

fn log_success(family: IpFamily, need: &Need, report: &SyncReport, took: Duration) {
    let SyncReport { written, removed, commits, way, .. } = *report;
    match need {
        Need::Look if way != Way::Adopted => {
            info!(%family, written, removed, commits, ?took, way = way.name(), "Rules written");
        }
        Need::Look | Need::WriteRest | Need::Nothing | Need::Repair(_) | Need::Correct(..) => {
            info!(v = 2, %family, written, removed, commits, ?took, way = way.name(), "Synced");
        }
    }
}
