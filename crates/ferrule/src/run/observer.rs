//! Passes on what the proxy does to health, metrics and load balancers' health checks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrule_backends::metrics::Sample;
use ferrule_backends::{BackendError, Drift, Rejected, SyncOutcome, SyncReport};
use ferrule_model::{Diagnostic, IpFamily, Node, ObjectKind, Timestamp, with_causes};
use ferrule_plan::{FamilyPlan, PlanDelta};

use crate::events;
use crate::health::{Eligibility, Moment, ServiceHealth};
use crate::history::{Happened, NotableKind};
use crate::http::{ListenAddresses, ServiceChecks};
use crate::metrics::SyncKind;
use crate::notify;
use crate::status::Status;

/// The clocks of two machines that are set by NTP differ by less.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(10);

/// Passes on what happens.
pub(super) struct Observer {
    status: Arc<Status>,
    /// `None` where another proxy answers them.
    checks: Option<ServiceChecks>,
    families: Vec<IpFamily>,
    /// By the monotonic clock, which cannot be set.
    started: Instant,
}

impl Observer {
    /// For a proxy that serves these families.
    pub fn new(status: Arc<Status>, checks: Option<ServiceChecks>, families: Vec<IpFamily>) -> Self {
        Self { status, checks, families, started: Instant::now() }
    }

    /// Where all of it goes.
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
        self.status.history.changed();
    }

    /// An EndpointSlice changed, and something is to be synced for it or not.
    pub fn slice_changed(&self, is_pending: bool) {
        self.status.metrics.slice_changed(is_pending);
        if is_pending {
            self.status.history.changed();
        }
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
        self.status.events.record(events::invalid_field(diagnostic, self.status.events.node()));
        self.note(NotableKind::Refusal, None, &diagnostic.to_string());
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
    pub fn succeeded(&self, family: IpFamily, report: &SyncReport, took: Duration) {
        let kind = match report.outcome {
            SyncOutcome::Incremental => SyncKind::Partial,
            SyncOutcome::UpToDate | SyncOutcome::Rewritten | SyncOutcome::Created => SyncKind::Full,
        };
        let metrics = &self.status.metrics;
        metrics.sync_ended(family, kind, took);
        metrics.sync_succeeded(family, seconds(Moment::now()), (report.written, report.removed));
        metrics.quarantined(family, report.quarantined);
        report.samples.iter().for_each(|sample| metrics.record(sample));
        // Rules that were rejected are failures, though the rest was written.
        report.rejected.iter().for_each(|_| metrics.count_failure(family));
        self.rejected(family, &report.rejected);
        self.status.history.synced(family, report, took);
        self.status.set_quarantined(family, report.quarantined);
    }

    /// It was the first one.
    pub fn first_sync(&self, family: IpFamily, report: &SyncReport) {
        self.status.metrics.started(family, report.written);
        let text = format!("first sync: {}, {} objects written", report.outcome.name(), report.written);
        self.note(NotableKind::Started, Some(family), &text);
    }

    /// It was a repair, and this is known of the damage.
    pub fn repaired(&self, family: IpFamily, drift: Option<&Drift>) {
        self.status.metrics.repaired(family);
        let text = drift.map_or("rules were not as planned", |drift| &drift.what);
        let by = drift.and_then(|drift| drift.by.as_deref());
        self.status.history.note(&Happened { kind: NotableKind::Repair, family: Some(family), text, by });
    }

    /// A family's sync failed.
    pub fn failed(&self, family: IpFamily, error: &BackendError, kind: SyncKind, took: Duration) {
        self.status.metrics.sync_ended(family, kind, took);
        self.status.metrics.count_failure(family);
        error.findings.samples.iter().for_each(|sample| self.status.metrics.record(sample));
        self.rejected(family, &error.findings.rejected);
        self.note(NotableKind::Failure, Some(family), &with_causes(error));
    }

    /// A kind of objects can no longer be watched, or can be watched again.
    pub fn reachable(&self, kind: ObjectKind, is_reachable: bool) {
        if is_reachable {
            self.note(NotableKind::Recovery, None, &format!("{kind} objects can be watched again"));
        } else {
            self.note(NotableKind::Outage, None, &format!("{kind} objects cannot be watched"));
        }
    }

    /// Values that are recorded whatever became of a sync.
    pub fn measured(&self, samples: &[Sample]) {
        for sample in samples {
            self.status.metrics.record(sample);
        }
    }

    /// Work that was deferred failed.
    pub fn cleanup_failed(&self, error: &BackendError) {
        error.findings.samples.iter().for_each(|sample| self.status.metrics.record(sample));
    }

    /// The kernel holds a family's plan.
    pub fn in_sync(&self, family: IpFamily, plan: &FamilyPlan, delta: &PlanDelta) {
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
            self.sync_checks(family);
        }
    }

    /// After failures, health checks are taken from the whole plan: which of them changed meanwhile is not known.
    pub fn reset_health_checks(&self, family: IpFamily, plan: &FamilyPlan) {
        let mut health = ServiceHealth::default();
        for (name, check) in plan.health_checks() {
            health.set(&name, Some(check));
        }
        *self.status.services().slot(family) = Some(health);
        self.sync_checks(family);
    }

    /// The kernel holds the plan of every family.
    pub fn all_in_sync(&self) {
        self.status.metrics.nothing_pending();
        if self.status.set_ready() {
            notify::ready();
        }
    }

    /// Changes of endpoints made at these times are programmed.
    pub fn programmed(&self, times: impl IntoIterator<Item = (IpFamily, Timestamp)>) {
        let now = Timestamp::from_micros(jiff::Timestamp::now().as_microsecond());
        let uptime = self.started.elapsed();
        for (family, made) in times.into_iter().filter(|(family, _)| self.families.contains(family)) {
            if let Some(latency) = programming_latency(made, now, uptime) {
                self.status.metrics.programmed(family, latency);
            }
        }
    }

    fn rejected(&self, family: IpFamily, rejected: &[Rejected]) {
        for Rejected { what, reason, .. } in rejected.iter().filter(|rejected| !rejected.is_repeated) {
            self.note(
                NotableKind::Refusal,
                Some(family),
                &format!("rules of {what} were rejected: {reason}"),
            );
        }
    }

    fn note(&self, kind: NotableKind, family: Option<IpFamily>, text: &str) {
        self.status.history.note(&Happened { kind, family, text, by: None });
    }

    /// NodePorts, and with them health checks, are served on other addresses.
    pub fn set_addresses(&self, family: IpFamily, addresses: ListenAddresses) {
        if let Some(checks) = &self.checks {
            checks.set_addresses(family, addresses);
        }
    }

    fn sync_checks(&self, family: IpFamily) {
        if let Some(checks) = &self.checks {
            checks.sync(family);
        }
    }
}

/// How long it took to program a change, by this node's clock and that of the machine where the change was made. `None` if these
/// cannot both be right: only changes since our start are timed, so none can be older than our uptime, and none can come from the
/// future. A clock that is wrong by less than our uptime is not noticed, and makes the latency wrong by as much.
fn programming_latency(made: Timestamp, now: Timestamp, uptime: Duration) -> Option<Duration> {
    let micros = now.as_micros().saturating_sub(made.as_micros());
    let between = Duration::from_micros(micros.unsigned_abs());
    if micros < 0 {
        return (between <= MAX_CLOCK_SKEW).then_some(Duration::ZERO);
    }
    (between <= uptime.saturating_add(MAX_CLOCK_SKEW)).then_some(between)
}

fn seconds(moment: Moment) -> f64 {
    moment.wall.as_duration().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_that_cannot_be_are_left_out() {
        let now = Timestamp::from_micros(1_800_000_000_000_000);
        let uptime = Duration::from_mins(1);
        let latency = |seconds_ago: i64| {
            programming_latency(
                Timestamp::from_micros(now.as_micros() - seconds_ago * 1_000_000),
                now,
                uptime,
            )
        };
        assert_eq!(latency(2), Some(Duration::from_secs(2)));
        assert_eq!(latency(60), Some(Duration::from_mins(1)));
        assert_eq!(latency(5 * 3600), None, "our clock was set forward");
        assert_eq!(latency(-2), Some(Duration::ZERO), "another machine's clock is ahead a little");
        assert_eq!(latency(-5 * 3600), None, "our clock was set back");
        assert_eq!(programming_latency(Timestamp::UNKNOWN, now, uptime), None);
        assert_eq!(programming_latency(Timestamp::from_micros(i64::MIN), now, uptime), None);
    }
}
