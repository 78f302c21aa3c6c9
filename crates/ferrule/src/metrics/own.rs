//! Metrics that kube-proxy does not have.

use prometheus::{IntCounterVec, IntGauge, IntGaugeVec, Result};

use super::registrar::Registrar;
use ferrule_backends::metrics::FAMILY;

/// Syncs, and the configuration.
pub(super) struct Own {
    pub objects_written: IntCounterVec,
    pub objects_removed: IntCounterVec,
    pub initial_sync_written: IntGaugeVec,
    pub repairs: IntCounterVec,
    pub services_pending: IntGauge,
    pub configuration: IntGaugeVec,
    pub failures: IntCounterVec,
}

impl Own {
    pub(super) fn new(registrar: &Registrar) -> Result<Self> {
        Ok(Self {
            objects_written: registrar.own_counters(
                "ferrule_sync_objects_written_total",
                "Kernel objects written by syncs",
                &[FAMILY],
            )?,
            objects_removed: registrar.own_counters(
                "ferrule_sync_objects_removed_total",
                "Kernel objects removed by syncs",
                &[FAMILY],
            )?,
            initial_sync_written: registrar.own_gauges(
                "ferrule_initial_sync_objects_written",
                "Kernel objects written by the first sync; 0 after a restart with nothing changed",
                &[FAMILY],
            )?,
            repairs: registrar.own_counters(
                "ferrule_drift_repairs_total",
                "Repairs after another program changed our rules",
                &[FAMILY],
            )?,
            services_pending: registrar.own_gauge(
                "ferrule_services_pending_sync",
                "Services whose last change is not programmed yet",
            )?,
            configuration: registrar.own_gauges(
                "ferrule_config_info",
                "1 for the hash of the configuration in effect",
                &["hash"],
            )?,
            failures: registrar.own_counters(
                "ferrule_sync_failures_total",
                "Failed syncs, in any mode",
                &[FAMILY],
            )?,
        })
    }
}

/// What is not served as its objects ask for.
pub(super) struct Warnings {
    pub diagnostics: IntCounterVec,
    pub mass_removals: IntCounterVec,
    pub quarantined: IntGaugeVec,
    pub leftovers: IntCounterVec,
}

impl Warnings {
    pub(super) fn new(registrar: &Registrar) -> Result<Self> {
        Ok(Self {
            diagnostics: registrar.own_counters(
                "ferrule_diagnostics_total",
                "Things about objects that could not be used, by kind of object",
                &["kind"],
            )?,
            mass_removals: registrar.own_counters(
                "ferrule_mass_removals_total",
                "Lists that lacked more than half of many known objects, by kind of object",
                &["kind"],
            )?,
            quarantined: registrar.own_gauges(
                "ferrule_quarantined_service_ports",
                "Service ports in quarantine because iptables rejects their rules",
                &[FAMILY],
            )?,
            leftovers: registrar.own_counters(
                "ferrule_leftover_removal_failures_total",
                "Failed removals of rules that another mode left, tried again later",
                &[FAMILY],
            )?,
        })
    }
}
