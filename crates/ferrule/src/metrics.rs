//! Every metric that all modes have: kube-proxy's names, types, labels and buckets, and our own under `ferrule_`.
//!
//! Metrics of one mode are declared beside its backend (`ferrule_backends::metrics`) and registered if that mode runs.
//! Series with labels appear with their first value, as in kube-proxy. Texts behind HELP are ours.

mod api_client;
mod backend;
mod build;
mod kube_proxy;
mod own;
pub mod process;
mod registrar;
mod resources;
mod service_counters;

use std::sync::Arc;
use std::time::Duration;

use ferrule_backends::counters::SharedReading;
use ferrule_backends::metrics::{
    FULL_SYNC_DURATION, MetricDeclaration, PARTIAL_SYNC_DURATION, Sample, ScrapeSource, family_label as label,
};
use ferrule_config::gates::Gates;
use ferrule_model::{IpFamily, ObjectKind};
use ferrule_watch::server::ClientMetric;
use prometheus::{Registry, Result, TextEncoder};

use api_client::ApiClientMetrics;
use backend::{BackendMetrics, ScrapeCollector};
use kube_proxy::{Changes, Conntrack, HealthChecks, Syncs};
use own::{Own, Warnings};
use process::ProcessMetrics;
use registrar::Registrar;
use resources::Resources;
use service_counters::ServiceCounters;

/// All metrics of one proxy.
pub struct Metrics {
    registry: Registry,
    process: ProcessMetrics,
    syncs: Syncs,
    backend: BackendMetrics,
    changes: Changes,
    health_checks: HealthChecks,
    conntrack: Conntrack,
    api_client: ApiClientMetrics,
    own: Own,
    warnings: Warnings,
    resources: Resources,
}

/// How much a sync wrote or verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncKind {
    /// Everything.
    Full,
    /// What changed since the last sync.
    Partial,
}

impl Metrics {
    /// The metrics of a proxy with these gates, whose backend declares these. Fails only if something is declared twice or
    /// wrongly.
    pub fn new(gates: &Gates, backend: &[&'static MetricDeclaration]) -> Result<Self> {
        let registrar = Registrar { registry: Registry::new() };
        let metrics = Self {
            process: ProcessMetrics::new(&registrar.registry)?,
            syncs: Syncs::new(&registrar)?,
            backend: BackendMetrics::new(backend, &registrar.registry)?,
            changes: Changes::new(&registrar)?,
            health_checks: HealthChecks::new(&registrar)?,
            conntrack: Conntrack::new(&registrar)?,
            api_client: ApiClientMetrics::new(&registrar)?,
            own: Own::new(&registrar)?,
            warnings: Warnings::new(&registrar)?,
            resources: Resources::new(&registrar)?,
            registry: registrar.registry.clone(),
        };
        build::declare(&metrics.registry, gates)?;
        Ok(metrics)
    }

    /// All series in the text format of Prometheus.
    pub fn scrape(&self) -> Vec<u8> {
        self.process.refresh();
        let mut text = String::new();
        // Writing to memory does not fail.
        let _ = TextEncoder::new().encode_utf8(&self.registry.gather(), &mut text);
        api_client::spelled_as_go(text).into_bytes()
    }

    /// Records a backend's sample. A metric that the running mode did not declare is ignored.
    pub fn record(&self, sample: &Sample) {
        self.backend.record(sample);
    }

    /// From now on, each scrape reads this source.
    pub fn add_source(&self, source: Box<dyn ScrapeSource>) -> Result<()> {
        self.registry.register(Box::new(ScrapeCollector::new(source)?))
    }

    /// From now on, each scrape has the counters of Services.
    pub fn add_counters(&self, reading: Arc<SharedReading>) -> Result<()> {
        self.registry.register(Box::new(ServiceCounters::new(reading)?))
    }

    /// A sync ended, well or not.
    pub fn sync_ended(&self, family: IpFamily, kind: SyncKind, took: Duration) {
        let seconds = took.as_secs_f64();
        self.syncs.duration.with_label_values(&[label(family)]).observe(seconds);
        let by_kind = match kind {
            SyncKind::Full => &FULL_SYNC_DURATION,
            SyncKind::Partial => &PARTIAL_SYNC_DURATION,
        };
        self.record(&Sample::for_family(by_kind, family, seconds));
    }

    /// A sync succeeded now.
    pub fn sync_succeeded(&self, family: IpFamily, now: f64, (written, removed): (usize, usize)) {
        self.syncs.last.with_label_values(&[label(family)]).set(now);
        self.own.objects_written.with_label_values(&[label(family)]).inc_by(written as u64);
        self.own.objects_removed.with_label_values(&[label(family)]).inc_by(removed as u64);
    }

    /// A sync failed. The backend's error has samples of its own.
    pub fn count_failure(&self, family: IpFamily) {
        self.own.failures.with_label_values(&[label(family)]).inc();
    }

    /// Sets how many Service ports are in quarantine because the kernel rejects their rules.
    pub fn quarantined(&self, family: IpFamily, ports: usize) {
        self.warnings.quarantined.with_label_values(&[label(family)]).set(whole(ports));
    }

    /// Rules of another mode could not be removed. The backend's error has samples of its own.
    pub fn leftovers_stay(&self, family: IpFamily) {
        self.warnings.leftovers.with_label_values(&[label(family)]).inc();
    }

    /// The first sync wrote so many objects.
    pub fn started(&self, family: IpFamily, written: usize) {
        self.own.initial_sync_written.with_label_values(&[label(family)]).set(whole(written));
    }

    /// Rules that another program had changed were repaired.
    pub fn repaired(&self, family: IpFamily) {
        self.own.repairs.with_label_values(&[label(family)]).inc();
    }

    /// A sync was queued now.
    pub fn queued(&self, family: IpFamily, now: f64) {
        self.syncs.last_queued.with_label_values(&[label(family)]).set(now);
    }

    /// A change of endpoints reached the kernel this long after it was made.
    pub fn programmed(&self, family: IpFamily, after: Duration) {
        self.syncs.programming_duration.with_label_values(&[label(family)]).observe(after.as_secs_f64());
    }

    /// An EndpointSlice changed; `is_pending` if a sync must follow.
    pub fn slice_changed(&self, is_pending: bool) {
        self.changes.endpoints.inc();
        if is_pending {
            self.changes.endpoints_pending.inc();
        }
    }

    /// A Service changed; each family counts it.
    pub fn service_changed(&self, families: usize, pending: usize) {
        self.changes.services.inc_by(families as u64);
        self.changes.services_pending.set(whole(pending));
        self.own.services_pending.set(whole(pending));
    }

    /// All changes so far are in the kernel.
    pub fn nothing_pending(&self) {
        self.changes.endpoints_pending.set(0);
        self.changes.services_pending.set(0);
        self.own.services_pending.set(0);
    }

    /// Service ports without the local endpoints their policies want.
    pub fn no_local_endpoints(&self, family: IpFamily, internal: usize, external: usize) {
        for (policy, count) in [("internal", internal), ("external", external)] {
            self.syncs.no_local_endpoints.with_label_values(&[policy, label(family)]).set(whole(count));
        }
    }

    /// `/healthz` answered.
    pub fn healthz_answered(&self, code: u16) {
        self.health_checks.healthz.with_label_values(&[code.to_string()]).inc();
    }

    /// `/livez` answered.
    pub fn livez_answered(&self, code: u16) {
        self.health_checks.livez.with_label_values(&[code.to_string()]).inc();
    }

    /// A search for stale flows ended.
    pub fn flows_cleaned(&self, family: IpFamily, took: Duration, deleted: usize) {
        self.conntrack.duration.with_label_values(&[label(family)]).observe(took.as_secs_f64());
        self.conntrack.deleted.with_label_values(&[label(family)]).inc_by(deleted as u64);
    }

    /// Something about an object could not be used.
    pub fn diagnosed(&self, kind: ObjectKind) {
        self.warnings.diagnostics.with_label_values(&[kind.to_string()]).inc();
    }

    /// A list lacked more than half of what was known.
    pub fn mass_removal(&self, kind: ObjectKind) {
        self.warnings.mass_removals.with_label_values(&[kind.to_string()]).inc();
    }

    /// The configuration with this hash is in effect.
    pub fn configured(&self, hash: &str) {
        self.own.configuration.reset();
        self.own.configuration.with_label_values(&[hash]).set(1);
    }

    /// Takes over the log's own count of dropped lines.
    pub fn log_lines_dropped(&self, since_start: u64) {
        self.resources.dropped_lines(since_start);
    }

    /// Takes over a server's own count of evicted connections.
    pub fn connections_evicted(&self, port: &str, since_start: u64) {
        self.resources.evicted(port, since_start);
    }

    /// A request to the API server was sent, or its response read.
    pub fn api_asked(&self, metric: &ClientMetric) {
        self.api_client.record(metric);
    }
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
