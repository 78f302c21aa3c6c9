//! The metrics of iptables mode: kube-proxy's, and some of our own.

use std::error::Error;

use ferrule_kernel::accounting;
use ferrule_kernel::netlink::NetlinkError;
use ferrule_model::IpFamily;

use super::{INVALID_COUNTER, LOOPBACK_COUNTER};
use crate::metrics::{
    DURATION_BUCKETS, FAMILY, FULL_SYNC_DURATION, MetricDeclaration, MetricKind, PARTIAL_SYNC_DURATION,
    Sample, ScrapeSource, count, family_label,
};

/// Everything that is recorded in iptables mode; [`PacketCounter`]s are read at the time of a scrape.
pub static METRICS: [&MetricDeclaration; 8] = [
    &FULL_SYNC_DURATION,
    &PARTIAL_SYNC_DURATION,
    &RESTORE_FAILURES,
    &PARTIAL_RESTORE_FAILURES,
    &RULES_TOTAL,
    &RULES_LAST,
    &LOCK_WAIT,
    &VERIFIED,
];

/// Every failed sync, and every failed removal of leftovers.
pub static RESTORE_FAILURES: MetricDeclaration = MetricDeclaration {
    name: "kubeproxy_sync_proxy_rules_iptables_restore_failures_total",
    help: "Failed runs of iptables-restore",
    kind: MetricKind::Counter,
    labels: &[FAMILY],
};

/// Failed syncs that were to write only what changed.
pub static PARTIAL_RESTORE_FAILURES: MetricDeclaration = MetricDeclaration {
    name: "kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total",
    help: "Failed runs of iptables-restore that were to write what changed",
    kind: MetricKind::Counter,
    labels: &[FAMILY],
};

/// Rules of ours after a sync.
pub static RULES_TOTAL: MetricDeclaration = MetricDeclaration {
    name: "kubeproxy_sync_proxy_rules_iptables_total",
    help: "iptables rules of ours",
    kind: MetricKind::Gauge,
    labels: &["table", FAMILY],
};

/// Rules that the last sync wrote.
pub static RULES_LAST: MetricDeclaration = MetricDeclaration {
    name: "kubeproxy_sync_proxy_rules_iptables_last",
    help: "iptables rules the last sync wrote",
    kind: MetricKind::Gauge,
    labels: &["table", FAMILY],
};

/// Only the legacy variant has a lock.
pub static LOCK_WAIT: MetricDeclaration = MetricDeclaration {
    name: "ferrule_iptables_lock_wait_seconds",
    help: "Time a sync waited for the lock of the legacy variant of iptables, in seconds",
    kind: MetricKind::Histogram { buckets: &DURATION_BUCKETS },
    labels: &[FAMILY],
};

/// Seconds since the epoch.
pub static VERIFIED: MetricDeclaration = MetricDeclaration {
    name: "ferrule_rules_verified_timestamp_seconds",
    help: "When every iptables rule was last read and found to be as it was written",
    kind: MetricKind::Gauge,
    labels: &[FAMILY],
};

static INVALID_PACKETS: MetricDeclaration = MetricDeclaration {
    name: "kubeproxy_iptables_ct_state_invalid_dropped_packets_total",
    help: "Packets dropped because conntrack could not tell what they belong to",
    kind: MetricKind::Counter,
    labels: &[],
};

static LOOPBACK_PACKETS: MetricDeclaration = MetricDeclaration {
    name: "kubeproxy_iptables_localhost_nodeports_accepted_packets_total",
    help: "Packets to NodePorts on loopback addresses",
    kind: MetricKind::Counter,
    labels: &[],
};

/// How many rules a table has in all, and how many of them the last sync wrote.
pub fn rule_samples(table: &'static str, family: IpFamily, total: usize, written: usize) -> [Sample; 2] {
    let labels = [table, family_label(family)];
    [Sample::new(&RULES_TOTAL, &labels, count(total)), Sample::new(&RULES_LAST, &labels, count(written))]
}

/// A named counter of the kernel (nfnetlink_acct) that our rules count packets into.
#[derive(Clone, Copy, Debug)]
pub struct PacketCounter {
    metric: &'static MetricDeclaration,
    counter: &'static str,
    read: Read,
}

/// Reads the counter of this name; none if it does not exist.
type Read = fn(&str) -> Result<Option<u64>, NetlinkError>;

impl PacketCounter {
    /// The counters among these names. A kernel may have one and not the other.
    pub fn named(counters: &[&str]) -> Vec<Self> {
        let all = [(&INVALID_PACKETS, INVALID_COUNTER), (&LOOPBACK_PACKETS, LOOPBACK_COUNTER)];
        all.into_iter()
            .filter(|(_, counter)| counters.contains(counter))
            .map(|(metric, counter)| Self { metric, counter, read: accounting::packets })
            .collect()
    }
}

impl ScrapeSource for PacketCounter {
    fn metric(&self) -> &'static MetricDeclaration {
        self.metric
    }

    fn samples(&self) -> Result<Vec<Sample>, Box<dyn Error + Send + Sync>> {
        let packets = (self.read)(self.counter)?
            .ok_or_else(|| format!("there is no packet counter {}", self.counter))?;
        Ok(vec![Sample::new(self.metric, &[], count(usize::try_from(packets).unwrap_or(usize::MAX)))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(read: Read) -> Vec<Result<Vec<Sample>, String>> {
        let counters = PacketCounter::named(&[INVALID_COUNTER, LOOPBACK_COUNTER]);
        let read_by = |counter: PacketCounter| PacketCounter { read, ..counter };
        counters
            .into_iter()
            .map(|counter| read_by(counter).samples().map_err(|error| error.to_string()))
            .collect()
    }

    #[test]
    fn a_counter_is_read_by_its_name() {
        let expected = [
            Ok(vec![Sample::new(&INVALID_PACKETS, &[], 29.0)]),
            Ok(vec![Sample::new(&LOOPBACK_PACKETS, &[], 27.0)]),
        ];
        assert_eq!(samples(|name| Ok(Some(name.len() as u64))), expected);
    }

    #[test]
    fn a_counter_that_does_not_exist_has_no_samples() {
        let missing = |name: &str| Err(format!("there is no packet counter {name}"));
        assert_eq!(samples(|_| Ok(None)), [missing(INVALID_COUNTER), missing(LOOPBACK_COUNTER)]);
    }
}
