//! Every metric, declared once: kube-proxy's names, types, labels and buckets, and our own under `ferrule_`.
//!
//! Series with labels appear when something is first said about them, as in kube-proxy. Texts behind HELP are ours.

mod api_client;
mod build;
mod declaring;
mod own;
mod packets;
pub mod process;
mod resources;

use std::time::Duration;

use ferrule_model::{IpFamily, ObjectKind};
use ferrule_watch::server::Traffic;
use prometheus::{
    GaugeVec, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry, Result,
    TextEncoder,
};

use crate::gates::Gates;
use api_client::ApiClientMetrics;
use declaring::Declaring;
use own::{Own, Warnings};
use packets::PacketCounter;
use process::ProcessMetrics;
use resources::Resources;

const FAMILY: &str = "ip_family";

/// All metrics.
pub struct Metrics {
    registry: Registry,
    process: ProcessMetrics,
    syncs: Syncs,
    restores: Restores,
    incoming: Incoming,
    answers: Answers,
    api_client: ApiClientMetrics,
    own: Own,
    warnings: Warnings,
    resources: Resources,
}

/// Whether a sync looked at everything or at what changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncKind {
    /// Everything.
    Full,
    /// What changed.
    Partial,
}

impl Metrics {
    /// All metrics of a proxy with these gates. Fails only if this file declares something twice or wrongly.
    pub fn new(gates: &Gates) -> Result<Self> {
        let declare = Declaring { registry: Registry::new() };
        let metrics = Self {
            process: ProcessMetrics::new(&declare.registry)?,
            syncs: Syncs::new(&declare)?,
            restores: Restores::new(&declare)?,
            incoming: Incoming::new(&declare)?,
            answers: Answers::new(&declare)?,
            api_client: ApiClientMetrics::new(&declare)?,
            own: Own::new(&declare)?,
            warnings: Warnings::new(&declare)?,
            resources: Resources::new(&declare)?,
            registry: declare.registry.clone(),
        };
        build::declare(&metrics.registry, gates)?;
        Ok(metrics)
    }

    /// All of it, as Prometheus reads it.
    pub fn scrape(&self) -> Vec<u8> {
        self.process.refresh();
        let mut text = String::new();
        // Writing to memory does not fail.
        let _ = TextEncoder::new().encode_utf8(&self.registry.gather(), &mut text);
        api_client::spelled_as_go(text).into_bytes()
    }

    /// A sync ended, well or not.
    pub fn sync_ended(&self, family: IpFamily, kind: SyncKind, took: Duration) {
        let seconds = took.as_secs_f64();
        let of_kind = match kind {
            SyncKind::Full => &self.syncs.full_sync_duration,
            SyncKind::Partial => &self.syncs.partial_sync_duration,
        };
        for histogram in [&self.syncs.sync_duration, of_kind] {
            of(histogram, family).observe(seconds);
        }
    }

    /// A sync succeeded now.
    pub fn sync_succeeded(&self, family: IpFamily, now: f64, (written, removed): (usize, usize)) {
        self.syncs.last_sync.with_label_values(&[label(family)]).set(now);
        self.own.objects_written.with_label_values(&[label(family)]).inc_by(written as u64);
        self.own.objects_removed.with_label_values(&[label(family)]).inc_by(removed as u64);
    }

    /// A sync failed.
    pub fn sync_failed(&self, family: IpFamily) {
        self.syncs.sync_failures.with_label_values(&[label(family)]).inc();
        self.own.failures.with_label_values(&[label(family)]).inc();
    }

    /// A run of `iptables-restore` failed.
    pub fn restore_failed(&self, family: IpFamily, kind: SyncKind) {
        self.restores.failures.with_label_values(&[label(family)]).inc();
        if kind == SyncKind::Partial {
            self.restores.partial_failures.with_label_values(&[label(family)]).inc();
        }
        self.own.failures.with_label_values(&[label(family)]).inc();
    }

    /// So many iptables rules are in a table, and so many of them were written now.
    pub fn rules(&self, family: IpFamily, table: &str, (total, written): (usize, usize)) {
        self.restores.rules_total.with_label_values(&[table, label(family)]).set(whole(total));
        self.restores.rules_last.with_label_values(&[table, label(family)]).set(whole(written));
    }

    /// So many Service ports are left out, since iptables refuses their rules.
    pub fn quarantined(&self, family: IpFamily, ports: usize) {
        self.warnings.quarantined.with_label_values(&[label(family)]).set(whole(ports));
    }

    /// Every rule was just found to be as it was written.
    pub fn verified(&self, family: IpFamily) {
        let now = jiff::Timestamp::now().as_second();
        self.warnings.verified.with_label_values(&[label(family)]).set(now);
    }

    /// A sync waited this long for the lock that users of iptables share.
    pub fn waited_for_lock(&self, family: IpFamily, wait: Duration) {
        of(&self.own.lock_wait, family).observe(wait.as_secs_f64());
    }

    /// From now on a scrape reads what iptables rules count: packets dropped as invalid, packets to NodePorts on loopback.
    ///
    /// These counters, as rules call them; a kernel may have one and not the other.
    pub fn count_packets(&self, counters: &[&str]) -> Result<()> {
        PacketCounter::ALL
            .into_iter()
            .filter(|counter| counters.contains(&counter.counter))
            .try_for_each(|counter| self.registry.register(Box::new(counter.declared()?)))
    }

    /// Removing what lingered failed.
    pub fn cleanup_failed(&self, family: IpFamily) {
        self.syncs.cleanup_failures.with_label_values(&[label(family)]).inc();
    }

    /// Rules of another mode could not be removed, from iptables or from nftables.
    pub fn leftovers_stay(&self, family: IpFamily, from_iptables: bool) {
        if from_iptables {
            self.restores.failures.with_label_values(&[label(family)]).inc();
        } else {
            self.cleanup_failed(family);
        }
    }

    /// What the first sync wrote.
    pub fn started(&self, family: IpFamily, written: usize) {
        self.own.written_at_start.with_label_values(&[label(family)]).set(whole(written));
    }

    /// Somebody's damage was repaired.
    pub fn repaired(&self, family: IpFamily) {
        self.own.repairs.with_label_values(&[label(family)]).inc();
    }

    /// A sync was asked for now.
    pub fn queued(&self, family: IpFamily, now: f64) {
        self.syncs.last_queued.with_label_values(&[label(family)]).set(now);
    }

    /// A change of endpoints was programmed this long after it was made.
    pub fn programmed(&self, family: IpFamily, after: Duration) {
        of(&self.syncs.programming_duration, family).observe(after.as_secs_f64());
    }

    /// An EndpointSlice changed; `is_pending` if a sync must follow.
    pub fn slice_changed(&self, is_pending: bool) {
        self.incoming.endpoint_changes.inc();
        if is_pending {
            self.incoming.endpoint_changes_pending.inc();
        }
    }

    /// A Service changed; each family counts it.
    pub fn service_changed(&self, families: usize, pending: usize) {
        self.incoming.service_changes.inc_by(families as u64);
        self.incoming.service_changes_pending.set(whole(pending));
        self.own.lagging.set(whole(pending));
    }

    /// Nothing is pending any more.
    pub fn nothing_pending(&self) {
        self.incoming.endpoint_changes_pending.set(0);
        self.incoming.service_changes_pending.set(0);
        self.own.lagging.set(0);
    }

    /// Service ports without the local endpoints their policies want.
    pub fn no_local_endpoints(&self, family: IpFamily, internal: usize, external: usize) {
        for (policy, count) in [("internal", internal), ("external", external)] {
            self.syncs.no_local_endpoints.with_label_values(&[policy, label(family)]).set(whole(count));
        }
    }

    /// `/healthz` answered.
    pub fn healthz_answered(&self, code: u16) {
        self.answers.healthz.with_label_values(&[code.to_string()]).inc();
    }

    /// `/livez` answered.
    pub fn livez_answered(&self, code: u16) {
        self.answers.livez.with_label_values(&[code.to_string()]).inc();
    }

    /// Stale flows were looked for.
    pub fn flows_cleaned(&self, family: IpFamily, took: Duration, deleted: usize) {
        of(&self.answers.flows_duration, family).observe(took.as_secs_f64());
        self.answers.flows_deleted.with_label_values(&[label(family)]).inc_by(deleted as u64);
    }

    /// Something about an object could not be used.
    pub fn diagnosed(&self, kind: ObjectKind) {
        self.warnings.diagnostics.with_label_values(&[kind.to_string()]).inc();
    }

    /// So many pools are served without session affinity though they should have it.
    pub fn without_affinity(&self, family: IpFamily, pools: usize) {
        self.warnings.without_affinity.with_label_values(&[label(family)]).set(whole(pools));
    }

    /// A list lacked more than half of what was known.
    pub fn mass_removal(&self, kind: ObjectKind) {
        self.warnings.mass_removals.with_label_values(&[kind.to_string()]).inc();
    }

    /// This configuration is in effect.
    pub fn configured(&self, hash: &str) {
        self.own.configuration.reset();
        self.own.configuration.with_label_values(&[hash]).set(1);
    }

    /// So many lines of the log were dropped since the start.
    pub fn log_lines_dropped(&self, since_start: u64) {
        self.resources.dropped_lines(since_start);
    }

    /// So many connections to a kind of port were closed since the start to make room.
    pub fn connections_evicted(&self, port: &str, since_start: u64) {
        self.resources.evicted(port, since_start);
    }

    /// The API server was asked something, or answered.
    pub fn api_asked(&self, traffic: &Traffic) {
        self.api_client.told(traffic);
    }
}

fn of(histograms: &HistogramVec, family: IpFamily) -> Histogram {
    histograms.with_label_values(&[label(family)])
}

fn label(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "IPv4",
        IpFamily::V6 => "IPv6",
    }
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// From one millisecond, doubling, fifteen buckets.
fn doubling() -> Vec<f64> {
    (0..15).map(|power| 0.001 * f64::from(1 << power)).collect()
}

/// Finer below a minute, coarser up to five.
fn programming() -> Vec<f64> {
    let fine = [0.0, 0.25, 0.5].into_iter().chain((1..60).map(f64::from));
    let coarse = (60..120).step_by(5).chain((120..=300).step_by(30)).map(f64::from);
    fine.chain(coarse).collect()
}

/// What is told of syncs.
struct Syncs {
    sync_duration: HistogramVec,
    full_sync_duration: HistogramVec,
    partial_sync_duration: HistogramVec,
    last_sync: GaugeVec,
    last_queued: GaugeVec,
    programming_duration: HistogramVec,
    no_local_endpoints: IntGaugeVec,
    sync_failures: IntCounterVec,
    cleanup_failures: IntCounterVec,
}

impl Syncs {
    fn new(declare: &Declaring) -> Result<Self> {
        Ok(Self {
            sync_duration: declare
                .durations("sync_proxy_rules_duration_seconds", "Time a sync took, in seconds")?,
            full_sync_duration: declare.durations(
                "sync_full_proxy_rules_duration_seconds",
                "Time a sync of everything took, in seconds",
            )?,
            partial_sync_duration: declare.durations(
                "sync_partial_proxy_rules_duration_seconds",
                "Time a sync of what changed took, in seconds",
            )?,
            last_sync: declare
                .gauges("sync_proxy_rules_last_timestamp_seconds", "When the last successful sync ended")?,
            last_queued: declare
                .gauges("sync_proxy_rules_last_queued_timestamp_seconds", "When a sync was last asked for")?,
            programming_duration: declare.histograms(
                "network_programming_duration_seconds",
                "Time from a change of endpoints to its being programmed, in seconds",
                programming(),
            )?,
            no_local_endpoints: declare.int_gauges(
                "sync_proxy_rules_no_local_endpoints_total",
                "Service ports with a Local traffic policy and no endpoint on this node",
                &["traffic_policy", FAMILY],
            )?,
            sync_failures: declare.counters(
                "sync_proxy_rules_nftables_sync_failures_total",
                "Failed nftables syncs",
                &[FAMILY],
            )?,
            cleanup_failures: declare.counters(
                "sync_proxy_rules_nftables_cleanup_failures_total",
                "Failed removals of what is no longer used",
                &[FAMILY],
            )?,
        })
    }
}

/// What is told of `iptables-restore`.
struct Restores {
    failures: IntCounterVec,
    partial_failures: IntCounterVec,
    rules_total: IntGaugeVec,
    rules_last: IntGaugeVec,
}

impl Restores {
    fn new(declare: &Declaring) -> Result<Self> {
        Ok(Self {
            failures: declare.counters(
                "sync_proxy_rules_iptables_restore_failures_total",
                "Failed runs of iptables-restore",
                &[FAMILY],
            )?,
            partial_failures: declare.counters(
                "sync_proxy_rules_iptables_partial_restore_failures_total",
                "Failed runs of iptables-restore that were to write what changed",
                &[FAMILY],
            )?,
            rules_total: declare.int_gauges(
                "sync_proxy_rules_iptables_total",
                "iptables rules of ours",
                &["table", FAMILY],
            )?,
            rules_last: declare.int_gauges(
                "sync_proxy_rules_iptables_last",
                "iptables rules the last sync wrote",
                &["table", FAMILY],
            )?,
        })
    }
}

/// What is told of changes that come in.
struct Incoming {
    endpoint_changes: IntCounter,
    endpoint_changes_pending: IntGauge,
    service_changes: IntCounter,
    service_changes_pending: IntGauge,
}

impl Incoming {
    fn new(declare: &Declaring) -> Result<Self> {
        Ok(Self {
            endpoint_changes: declare
                .counter("sync_proxy_rules_endpoint_changes_total", "Changes of EndpointSlices seen")?,
            endpoint_changes_pending: declare.gauge(
                "sync_proxy_rules_endpoint_changes_pending",
                "Changes of EndpointSlices not programmed yet",
            )?,
            service_changes: declare.counter(
                "sync_proxy_rules_service_changes_total",
                "Changes of Services seen, once for each family",
            )?,
            service_changes_pending: declare
                .gauge("sync_proxy_rules_service_changes_pending", "Changed Services not programmed yet")?,
        })
    }
}

/// What is told of health checks and flows.
struct Answers {
    healthz: IntCounterVec,
    livez: IntCounterVec,
    flows_duration: HistogramVec,
    flows_deleted: IntCounterVec,
}

impl Answers {
    fn new(declare: &Declaring) -> Result<Self> {
        Ok(Self {
            healthz: declare.counters("proxy_healthz_total", "Answers of /healthz by status", &["code"])?,
            livez: declare.counters("proxy_livez_total", "Answers of /livez by status", &["code"])?,
            flows_duration: declare.durations(
                "conntrack_reconciler_sync_duration_seconds",
                "Time a search for stale flows took, in seconds",
            )?,
            flows_deleted: declare.counters(
                "conntrack_reconciler_deleted_entries_total",
                "Stale flows deleted",
                &[FAMILY],
            )?,
        })
    }
}

#[cfg(test)]
mod tests;
