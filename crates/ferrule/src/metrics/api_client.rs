//! What is told of requests to the API server, as every Kubernetes client tells it.

use ferrule_watch::server::{Asked, Traffic};
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Result};

use super::Declaring;

const SECONDS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
/// Each four times the one before, but for two.
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

/// Bounds of buckets are labels, and labels are compared as texts: Go spells large numbers in its own way.
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

/// The metrics of the client.
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
    pub(super) fn new(declare: &Declaring) -> Result<Self> {
        let durations = |name, help| declare.by_verb(name, help, &SECONDS);
        let sizes = |name, help| declare.by_verb(name, help, &BYTES);
        Ok(Self {
            requests: declare.own_counters(
                "rest_client_requests_total",
                "[ALPHA] Requests to the API server by status, method and host",
                &["code", "method", "host"],
            )?,
            retries: declare.own_counters(
                "rest_client_request_retries_total",
                "[ALPHA] Requests to the API server that were repeated, by status, method and host",
                &["code", "verb", "host"],
            )?,
            durations: durations("request_duration_seconds", "Time until an answer began")?,
            waits: durations("rate_limiter_duration_seconds", "Time requests waited for the rate limit")?,
            request_sizes: sizes("request_size_bytes", "What was sent along with requests")?,
            answer_sizes: sizes("response_size_bytes", "The length of answers")?,
            transports: declare.own_gauge(
                "rest_client_transport_cache_entries",
                "[ALPHA] Means to send requests that are kept",
            )?,
            transports_made: declare.own_counters(
                "rest_client_transport_create_calls_total",
                "[ALPHA] How often the means to send requests were asked for, by whether they were there",
                &["result"],
            )?,
        })
    }

    pub(super) fn told(&self, traffic: &Traffic) {
        match traffic {
            Traffic::Prepared => {
                self.transports.set(1);
                self.transports_made.with_label_values(&["miss"]).inc();
            }
            Traffic::Asked(asked) => self.asked(asked),
            #[expect(clippy::cast_precision_loss, reason = "no answer is so long")]
            Traffic::Answered { to, bytes } => {
                self.answer_sizes.with_label_values(&[&to.method, &to.host]).observe(*bytes as f64);
            }
        }
    }

    /// How long a watch lasts says nothing.
    #[expect(clippy::cast_precision_loss, reason = "no request is so long")]
    fn asked(&self, asked: &Asked) {
        let (method, host) = (&asked.to.method, &asked.to.host);
        self.requests.with_label_values(&[&asked.code, method, host]).inc();
        if asked.manner.is_retry {
            self.retries.with_label_values(&[&asked.code, method, host]).inc();
        }
        if asked.manner.is_watch {
            return;
        }
        self.durations.with_label_values(&[method, host]).observe(asked.took.as_secs_f64());
        self.request_sizes.with_label_values(&[method, host]).observe(asked.bytes as f64);
        if let Some(waited) = asked.manner.waited {
            self.waits.with_label_values(&[method, host]).observe(waited.as_secs_f64());
        }
    }
}

impl Declaring {
    fn by_verb(&self, name: &str, help: &str, buckets: &[f64]) -> Result<HistogramVec> {
        let help = format!("[ALPHA] {help}, by method and host");
        let opts = HistogramOpts::new(format!("rest_client_{name}"), help).buckets(buckets.to_vec());
        self.declared(HistogramVec::new(opts, &["verb", "host"])?)
    }
}
