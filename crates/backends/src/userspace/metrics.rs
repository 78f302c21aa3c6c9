//! What the relay counts, read whenever metrics are scraped.

use std::error::Error;
use std::sync::Arc;

use ferrule_relay::{Relay, RelayStats};

use crate::iptables::metrics::RESTORE_FAILURES;
use crate::metrics::{MetricDeclaration, MetricKind, Sample, ScrapeSource};

/// Everything that is recorded while it happens.
pub(super) static METRICS: [&MetricDeclaration; 1] = [&RESTORE_FAILURES];

/// One number of the relay's.
struct RelayMetric {
    relay: Arc<Relay>,
    metric: &'static MetricDeclaration,
    read: Read,
}

/// The values of a metric's series, each with its labels.
type Read = fn(&RelayStats) -> Vec<Series>;
type Series = (&'static [&'static str], u64);

const fn declare(name: &'static str, help: &'static str, kind: MetricKind) -> MetricDeclaration {
    MetricDeclaration { name, help, kind, labels: &[] }
}

static CONNECTIONS: MetricDeclaration =
    declare("ferrule_relay_open_connections", "TCP connections that are relayed now", MetricKind::Gauge);
static ASSOCIATIONS: MetricDeclaration =
    declare("ferrule_relay_open_associations", "UDP clients that are relayed now", MetricKind::Gauge);
static ACCEPTED: MetricDeclaration =
    declare("ferrule_relay_accepted_total", "TCP connections accepted", MetricKind::Counter);
static DIAL_FAILURES: MetricDeclaration = declare(
    "ferrule_relay_dial_failures_total",
    "Endpoints that could not be connected to",
    MetricKind::Counter,
);
static UNSERVED: MetricDeclaration = declare(
    "ferrule_relay_unserved_total",
    "TCP clients for whom no endpoint could be reached",
    MetricKind::Counter,
);
static LIMITED: MetricDeclaration = declare(
    "ferrule_relay_refused_by_limit_total",
    "Clients refused because a Service port had as many as it may have",
    MetricKind::Counter,
);
static PAUSES: MetricDeclaration = declare(
    "ferrule_relay_accept_pauses_total",
    "Times that new connections had to wait because no file descriptor was left",
    MetricKind::Counter,
);
static HELD_BYTES: MetricDeclaration = declare(
    "ferrule_relay_held_bytes",
    "Bytes that were read and wait for a slow reader, in memory and in pipes",
    MetricKind::Gauge,
);
static UNBUFFERED_READS: MetricDeclaration = declare(
    "ferrule_relay_unbuffered_reads_total",
    "Reads that left in the sender's socket what the reader did not take, because too many bytes were held already",
    MetricKind::Counter,
);
static PIPES: MetricDeclaration =
    declare("ferrule_relay_open_pipes", "Pipes that bytes are spliced through", MetricKind::Gauge);
static SET_ASIDE: MetricDeclaration = declare(
    "ferrule_relay_endpoints_set_aside_total",
    "Times that an endpoint was set aside because it failed three times in a row",
    MetricKind::Counter,
);
static BYTES: MetricDeclaration = MetricDeclaration {
    name: "ferrule_relay_bytes_total",
    help: "Bytes relayed, to endpoints and to clients",
    kind: MetricKind::Counter,
    labels: &["direction"],
};

/// One source for each metric.
pub(super) fn scrape_sources(relay: &Arc<Relay>) -> Vec<Box<dyn ScrapeSource>> {
    let all: [(&'static MetricDeclaration, Read); 12] = [
        (&CONNECTIONS, |stats| vec![(&[], stats.open_connections)]),
        (&ASSOCIATIONS, |stats| vec![(&[], stats.open_associations)]),
        (&ACCEPTED, |stats| vec![(&[], stats.accepted)]),
        (&DIAL_FAILURES, |stats| vec![(&[], stats.dial_failures)]),
        (&UNSERVED, |stats| vec![(&[], stats.unserved)]),
        (&LIMITED, |stats| vec![(&[], stats.refused_by_limit)]),
        (&PAUSES, |stats| vec![(&[], stats.accept_pauses)]),
        (&HELD_BYTES, |stats| vec![(&[], stats.held_bytes)]),
        (&UNBUFFERED_READS, |stats| vec![(&[], stats.unbuffered_reads)]),
        (&PIPES, |stats| vec![(&[], stats.open_pipes)]),
        (&SET_ASIDE, |stats| vec![(&[], stats.set_aside)]),
        (&BYTES, |stats| vec![(&["to_endpoints"], stats.bytes_in), (&["to_clients"], stats.bytes_out)]),
    ];
    let source = |(metric, read)| {
        Box::new(RelayMetric { relay: Arc::clone(relay), metric, read }) as Box<dyn ScrapeSource>
    };
    all.into_iter().map(source).collect()
}

impl ScrapeSource for RelayMetric {
    fn metric(&self) -> &'static MetricDeclaration {
        self.metric
    }

    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53")]
    fn samples(&self) -> Result<Vec<Sample>, Box<dyn Error + Send + Sync>> {
        let values = (self.read)(&self.relay.stats());
        Ok(values.into_iter().map(|(labels, value)| Sample::new(self.metric, labels, value as f64)).collect())
    }
}
