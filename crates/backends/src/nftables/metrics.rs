//! The metrics of nftables mode: kube-proxy's, and one of our own.

use crate::loopback::{FAILURES, LISTENERS};
use crate::metrics::{FAMILY, FULL_SYNC_DURATION, MetricDeclaration, MetricKind, PARTIAL_SYNC_DURATION};

/// Everything that is recorded in nftables mode.
pub static METRICS: [&MetricDeclaration; 7] = [
    &FULL_SYNC_DURATION,
    &PARTIAL_SYNC_DURATION,
    &SYNC_FAILURES,
    &CLEANUP_FAILURES,
    &POOLS_WITHOUT_AFFINITY,
    &LISTENERS,
    &FAILURES,
];

/// Syncs that failed for whatever reason.
pub static SYNC_FAILURES: MetricDeclaration = MetricDeclaration {
    name: "kubeproxy_sync_proxy_rules_nftables_sync_failures_total",
    help: "Failed nftables syncs",
    kind: MetricKind::Counter,
    labels: &[FAMILY],
};

/// Failed transactions that were to remove what a sync left for later.
pub static CLEANUP_FAILURES: MetricDeclaration = MetricDeclaration {
    name: "kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total",
    help: "Failed removals of what is no longer used",
    kind: MetricKind::Counter,
    labels: &[FAMILY],
};

/// There are more pools with affinity, or larger ones, than numbers for them.
pub static POOLS_WITHOUT_AFFINITY: MetricDeclaration = MetricDeclaration {
    name: "ferrule_pools_without_affinity",
    help: "Pools served without session affinity, since there are more or larger ones than the mode has room for",
    kind: MetricKind::Gauge,
    labels: &[FAMILY],
};
