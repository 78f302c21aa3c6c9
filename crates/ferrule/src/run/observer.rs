//! Tells those who watch the proxy what it does: health, metrics, load balancers' health checks.

use std::sync::Arc;
use std::time::Duration;

use ferrule_backends::{SyncError, SyncReport, Way};
use ferrule_model::{Diagnostic, IpFamily, Node, PerFamily, Timestamp};
use ferrule_plan::{FamilyPlan, PlanDelta};
use tracing::warn;

use crate::events;
use crate::health::{Eligibility, Moment, ServiceHealth};
use crate::http::{ListenAddresses, ServiceChecks};
use crate::metrics::SyncKind;
use crate::notify;
use crate::status::Status;

/// Tells what happens.
pub struct Observer {
    status: Arc<Status>,
    checks: ServiceChecks,
    families: Vec<IpFamily>,
    /// How many pools were served without affinity after the last sync.
    without_affinity: PerFamily<usize>,
}

impl Observer {
    /// For a proxy that serves these families.
    pub fn new(status: Arc<Status>, checks: ServiceChecks, families: Vec<IpFamily>) -> Self {
        Self { status, checks, families, without_affinity: PerFamily::default() }
    }

    /// What is told to.
    pub fn status(&self) -> &Arc<Status> {
        &self.status
    }

    /// The loop begins: until something is queued, all is well.
    pub fn begins(&self) {
        let now = Moment::now();
        for family in &self.families {
            self.status.health().updated(*family, now);
            self.status.metrics.queued(*family, seconds(now));
        }
    }

    /// A Service changed; so many are to be synced now.
    pub fn service_changed(&self, pending: usize) {
        self.status.metrics.service_changed(self.families.len(), pending);
    }

    /// An EndpointSlice changed, and something is to be synced for it or not.
    pub fn slice_changed(&self, is_pending: bool) {
        self.status.metrics.slice_changed(is_pending);
    }

    /// This is what is known of the Node now.
    pub fn node_is(&self, node: Option<&Node>) {
        let eligibility =
            if node.is_some_and(|node| !node.leaving) { Eligibility::Yes } else { Eligibility::No };
        self.status.health().set_eligibility(eligibility);
    }

    /// Something about an object could not be used.
    pub fn diagnosed(&self, diagnostic: &Diagnostic) {
        self.status.metrics.diagnosed(diagnostic.kind);
        self.status.events.record(events::unusable(diagnostic, self.status.events.node()));
    }

    /// A sync was asked for.
    pub fn queued(&self) {
        let now = Moment::now();
        for family in &self.families {
            self.status.health().queued(*family, now);
            self.status.metrics.queued(*family, seconds(now));
        }
    }

    /// A family's sync succeeded.
    pub fn succeeded(&mut self, family: IpFamily, report: &SyncReport, took: Duration) {
        self.note_affinity(family, report.without_affinity);
        let kind = if report.way == Way::Changed { SyncKind::Partial } else { SyncKind::Full };
        self.status.metrics.sync_ended(family, kind, took);
        self.status.metrics.sync_succeeded(family, seconds(Moment::now()), (report.written, report.removed));
        if let Some(rules) = report.rules {
            self.status.metrics.rules(family, "filter", rules.filter);
            self.status.metrics.rules(family, "nat", rules.nat);
            self.status.metrics.quarantined(family, rules.quarantined);
            self.status.set_quarantined(family, rules.quarantined);
        }
    }

    /// Says once that some clients do not stick, and once more when that has changed.
    fn note_affinity(&mut self, family: IpFamily, without: usize) {
        self.status.metrics.without_affinity(family, without);
        let before = self.without_affinity.slot(family).replace(without);
        if without > 0 && before != Some(without) {
            warn!(
                %family, pools = without,
                "Served without session affinity: this mode has room for 65,535 such Service ports of at most 4,095 endpoints"
            );
        }
    }

    /// It was the first one.
    pub fn started(&self, family: IpFamily, report: &SyncReport) {
        self.status.metrics.started(family, report.written);
    }

    /// It was a repair.
    pub fn repaired(&self, family: IpFamily) {
        self.status.metrics.repaired(family);
    }

    /// A family's sync failed.
    pub fn failed(&self, family: IpFamily, (error, kind): (&SyncError, SyncKind), took: Duration) {
        self.status.metrics.sync_ended(family, kind, took);
        match error {
            SyncError::Iptables(_) => self.status.metrics.restore_failed(family, kind),
            SyncError::Read(_) | SyncError::Commit(_) | SyncError::Verify { .. } => {
                self.status.metrics.sync_failed(family);
            }
        }
    }

    /// Some rules were refused, and a sync went on without them.
    pub fn refused(&self, family: IpFamily) {
        self.status.metrics.restore_failed(family, SyncKind::Full);
    }

    /// A sync waited this long for the lock that users of iptables share.
    pub fn waited_for_lock(&self, family: IpFamily, wait: Duration) {
        self.status.metrics.waited_for_lock(family, wait);
    }

    /// Removing what lingered failed.
    pub fn cleanup_failed(&self, family: IpFamily) {
        self.status.metrics.cleanup_failed(family);
    }

    /// A family is in line with its plan.
    pub fn is_in_line(&self, family: IpFamily, plan: &FamilyPlan, delta: &PlanDelta) {
        let counts = plan.no_local_endpoints();
        self.status.metrics.no_local_endpoints(family, counts.internal, counts.external);
        self.status.health().updated(family, Moment::now());
        if !delta.health_checks.is_empty() {
            let mut services = self.status.services();
            let of_family = services.slot(family).get_or_insert_default();
            for (name, replaced) in &delta.health_checks {
                of_family.set(name, replaced.now);
            }
            drop(services);
            self.checks.sync(family);
        }
    }

    /// After failures, what load balancers are told is taken from the whole plan: what changed meanwhile is not known.
    pub fn is_checked_anew(&self, family: IpFamily, plan: &FamilyPlan) {
        let mut health = ServiceHealth::default();
        for (name, check) in plan.health_checks() {
            health.set(&name, Some(check));
        }
        *self.status.services().slot(family) = Some(health);
        self.checks.sync(family);
    }

    /// Every family is in line.
    pub fn all_in_line(&self) {
        self.status.metrics.nothing_pending();
        if self.status.set_ready() {
            notify::ready();
        }
    }

    /// Changes of endpoints made at these times are programmed.
    pub fn programmed(&self, times: impl IntoIterator<Item = (IpFamily, Timestamp)>) {
        let now = jiff::Timestamp::now();
        for (family, time) in times.into_iter().filter(|(family, _)| self.families.contains(family)) {
            let after = now.as_microsecond().saturating_sub(time.as_micros());
            let after = u64::try_from(after).map_or(Duration::ZERO, Duration::from_micros);
            self.status.metrics.programmed(family, after);
        }
    }

    /// NodePorts, and with them health checks, are served on other addresses.
    pub fn set_addresses(&self, family: IpFamily, addresses: ListenAddresses) {
        self.checks.set_addresses(family, addresses);
    }
}

fn seconds(moment: Moment) -> f64 {
    moment.shown.as_duration().as_secs_f64()
}
