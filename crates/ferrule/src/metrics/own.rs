//! Metrics that kube-proxy does not have.

use prometheus::{HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Result};

use super::FAMILY;
use super::declaring::Declaring;

/// What syncs do.
pub(super) struct Own {
    pub objects_written: IntCounterVec,
    pub objects_removed: IntCounterVec,
    pub written_at_start: IntGaugeVec,
    pub repairs: IntCounterVec,
    pub lagging: IntGauge,
    pub configuration: IntGaugeVec,
    pub failures: IntCounterVec,
    pub lock_wait: HistogramVec,
}

impl Own {
    pub(super) fn new(declare: &Declaring) -> Result<Self> {
        Ok(Self {
            objects_written: declare.own_counters(
                "ferrule_sync_objects_written_total",
                "Kernel objects written by syncs",
                &[FAMILY],
            )?,
            objects_removed: declare.own_counters(
                "ferrule_sync_objects_removed_total",
                "Kernel objects removed by syncs",
                &[FAMILY],
            )?,
            written_at_start: declare.own_gauges(
                "ferrule_start_objects_written",
                "Kernel objects written by the first sync; 0 after a restart with nothing changed",
                &[FAMILY],
            )?,
            repairs: declare.own_counters(
                "ferrule_drift_repairs_total",
                "Repairs after another program changed our rules",
                &[FAMILY],
            )?,
            lagging: declare
                .own_gauge("ferrule_lagging_services", "Services whose last change is not programmed yet")?,
            configuration: declare.own_gauges(
                "ferrule_config_info",
                "1 for the hash of the configuration in effect",
                &["hash"],
            )?,
            failures: declare.own_counters(
                "ferrule_sync_failures_total",
                "Failed syncs, in any mode",
                &[FAMILY],
            )?,
            lock_wait: declare.own_durations(
                "ferrule_iptables_lock_wait_seconds",
                "Time a sync waited for the lock of the legacy variant of iptables, in seconds",
            )?,
        })
    }
}

/// What is not served as somebody asked for it, and what is known of the rules.
pub(super) struct Warnings {
    pub diagnostics: IntCounterVec,
    pub mass_removals: IntCounterVec,
    pub without_affinity: IntGaugeVec,
    pub quarantined: IntGaugeVec,
    pub verified: IntGaugeVec,
}

impl Warnings {
    pub(super) fn new(declare: &Declaring) -> Result<Self> {
        Ok(Self {
            diagnostics: declare.own_counters(
                "ferrule_diagnostics_total",
                "Things about objects that could not be used, by kind of object",
                &["kind"],
            )?,
            mass_removals: declare.own_counters(
                "ferrule_mass_removals_total",
                "Lists that lacked more than half of many known objects, by kind of object",
                &["kind"],
            )?,
            without_affinity: declare.own_gauges(
                "ferrule_pools_without_affinity",
                "Pools served without session affinity, since there are more or larger ones than the mode has room for",
                &[FAMILY],
            )?,
            quarantined: declare.own_gauges(
                "ferrule_quarantined_service_ports",
                "Service ports that are left out, since iptables refuses their rules",
                &[FAMILY],
            )?,
            verified: declare.own_gauges(
                "ferrule_rules_verified_timestamp_seconds",
                "When every iptables rule was last read and found to be as it was written",
                &[FAMILY],
            )?,
        })
    }
}
