//! kube-proxy's metrics that exist in every mode.

use prometheus::{GaugeVec, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Result};

use super::registrar::Registrar;
use ferrule_backends::metrics::FAMILY;

/// Syncs, and how far behind the cluster they are.
pub(super) struct Syncs {
    pub duration: HistogramVec,
    pub last: GaugeVec,
    pub last_queued: GaugeVec,
    pub programming_duration: HistogramVec,
    pub no_local_endpoints: IntGaugeVec,
}

impl Syncs {
    pub(super) fn new(registrar: &Registrar) -> Result<Self> {
        Ok(Self {
            duration: registrar
                .durations("sync_proxy_rules_duration_seconds", "Time a sync took, in seconds")?,
            last: registrar
                .gauges("sync_proxy_rules_last_timestamp_seconds", "When the last successful sync ended")?,
            last_queued: registrar
                .gauges("sync_proxy_rules_last_queued_timestamp_seconds", "When a sync was last asked for")?,
            programming_duration: registrar.histograms(
                "network_programming_duration_seconds",
                "Time from a change of endpoints to its being programmed, in seconds",
                programming_buckets(),
            )?,
            no_local_endpoints: registrar.int_gauges(
                "sync_proxy_rules_no_local_endpoints_total",
                "Service ports with a Local traffic policy and no endpoint on this node",
                &["traffic_policy", FAMILY],
            )?,
        })
    }
}

/// Changes of objects: how many, and how many are not in the kernel yet.
pub(super) struct Changes {
    pub endpoints: IntCounter,
    pub endpoints_pending: IntGauge,
    pub services: IntCounter,
    pub services_pending: IntGauge,
}

impl Changes {
    pub(super) fn new(registrar: &Registrar) -> Result<Self> {
        Ok(Self {
            endpoints: registrar
                .counter("sync_proxy_rules_endpoint_changes_total", "Changes of EndpointSlices seen")?,
            endpoints_pending: registrar.gauge(
                "sync_proxy_rules_endpoint_changes_pending",
                "Changes of EndpointSlices not programmed yet",
            )?,
            services: registrar.counter(
                "sync_proxy_rules_service_changes_total",
                "Changes of Services seen, once for each family",
            )?,
            services_pending: registrar
                .gauge("sync_proxy_rules_service_changes_pending", "Changed Services not programmed yet")?,
        })
    }
}

/// Responses of the health check server, by status code.
pub(super) struct HealthChecks {
    pub healthz: IntCounterVec,
    pub livez: IntCounterVec,
}

impl HealthChecks {
    pub(super) fn new(registrar: &Registrar) -> Result<Self> {
        Ok(Self {
            healthz: registrar.counters("proxy_healthz_total", "Answers of /healthz by status", &["code"])?,
            livez: registrar.counters("proxy_livez_total", "Answers of /livez by status", &["code"])?,
        })
    }
}

/// Removal of stale flows.
pub(super) struct Conntrack {
    pub duration: HistogramVec,
    pub deleted: IntCounterVec,
}

impl Conntrack {
    pub(super) fn new(registrar: &Registrar) -> Result<Self> {
        Ok(Self {
            duration: registrar.durations(
                "conntrack_reconciler_sync_duration_seconds",
                "Time a search for stale flows took, in seconds",
            )?,
            deleted: registrar.counters(
                "conntrack_reconciler_deleted_entries_total",
                "Stale flows deleted",
                &[FAMILY],
            )?,
        })
    }
}

/// Finer below a minute, coarser up to five.
pub(super) fn programming_buckets() -> Vec<f64> {
    let fine = [0.0, 0.25, 0.5].into_iter().chain((1..60).map(f64::from));
    let coarse = (60..120).step_by(5).chain((120..=300).step_by(30)).map(f64::from);
    fine.chain(coarse).collect()
}
