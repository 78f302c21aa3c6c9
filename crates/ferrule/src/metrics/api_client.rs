//! Requests to the API server, under the names that every Kubernetes client uses.

use ferrule_watch::server::{ClientMetric, RequestSample};
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Result};

use super::Registrar;

const SECONDS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
/// client-go's buckets.
const BYTES: [f64; 11] = [
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];

/// Bucket bounds are labels, and labels are compared as text: Go writes large numbers with an exponent.
const SPELLED: [(&str, &str); 3] = [
    ("le=\"1048576\"", "le=\"1.048576e+06\""),
    ("le=\"4194304\"", "le=\"4.194304e+06\""),
    ("le=\"16777216\"", "le=\"1.6777216e+07\""),
];

/// A scrape with bounds spelled as Go does.
pub(super) fn spelled_as_go(mut scrape: String) -> String {
    for (ours, theirs) in SPELLED {
        if scrape.contains(ours) {
            scrape = scrape.replace(ours, theirs);
        }
    }
    scrape
}

pub(super) struct ApiClientMetrics {
    requests: IntCounterVec,
    retries: IntCounterVec,
    durations: HistogramVec,
    waits: HistogramVec,
    request_sizes: HistogramVec,
    answer_sizes: HistogramVec,
    transports: IntGauge,
    transports_made: IntCounterVec,
}

impl ApiClientMetrics {
    pub(super) fn new(registrar: &Registrar) -> Result<Self> {
        let durations = |name, help| registrar.by_verb(name, help, &SECONDS);
        let sizes = |name, help| registrar.by_verb(name, help, &BYTES);
        Ok(Self {
            requests: registrar.own_counters(
                "rest_client_requests_total",
                "[ALPHA] Requests to the API server by status, method and host",
                &["code", "method", "host"],
            )?,
            retries: registrar.own_counters(
                "rest_client_request_retries_total",
                "[ALPHA] Requests to the API server that were repeated, by status, method and host",
                &["code", "verb", "host"],
            )?,
            durations: durations("request_duration_seconds", "Time until an answer began")?,
            waits: durations("rate_limiter_duration_seconds", "Time requests waited for the rate limit")?,
            request_sizes: sizes("request_size_bytes", "What was sent along with requests")?,
            answer_sizes: sizes("response_size_bytes", "The length of answers")?,
            transports: registrar.own_gauge(
                "rest_client_transport_cache_entries",
                "[ALPHA] Means to send requests that are kept",
            )?,
            transports_made: registrar.own_counters(
                "rest_client_transport_create_calls_total",
                "[ALPHA] How often the means to send requests were asked for, by whether they were there",
                &["result"],
            )?,
        })
    }

    pub(super) fn record(&self, metric: &ClientMetric) {
        match metric {
            ClientMetric::ClientBuilt => {
                self.transports.set(1);
                self.transports_made.with_label_values(&["miss"]).inc();
            }
            ClientMetric::Request(sample) => self.asked(sample),
            #[expect(clippy::cast_precision_loss, reason = "no answer is so long")]
            ClientMetric::Response { target, bytes } => {
                self.answer_sizes.with_label_values(&[&target.method, &target.host]).observe(*bytes as f64);
            }
        }
    }

    /// A watch counts as a request; its duration and size mean nothing.
    #[expect(clippy::cast_precision_loss, reason = "no request is so long")]
    fn asked(&self, sample: &RequestSample) {
        let (method, host) = (&sample.target.method, &sample.target.host);
        self.requests.with_label_values(&[&sample.code, method, host]).inc();
        if sample.kind.is_retry {
            self.retries.with_label_values(&[&sample.code, method, host]).inc();
        }
        if sample.kind.is_watch {
            return;
        }
        self.durations.with_label_values(&[method, host]).observe(sample.latency.as_secs_f64());
        self.request_sizes.with_label_values(&[method, host]).observe(sample.request_bytes as f64);
        if let Some(waited) = sample.kind.throttled_for {
            self.waits.with_label_values(&[method, host]).observe(waited.as_secs_f64());
        }
    }
}

impl Registrar {
    fn by_verb(&self, name: &str, help: &str, buckets: &[f64]) -> Result<HistogramVec> {
        let help = format!("[ALPHA] {help}, by method and host");
        let opts = HistogramOpts::new(format!("rest_client_{name}"), help).buckets(buckets.to_vec());
        self.register(HistogramVec::new(opts, &["verb", "host"])?)
    }
}
