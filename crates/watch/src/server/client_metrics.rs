//! What happens to requests, reported so that a caller can count it. Nothing is counted here.

use std::fmt;
use std::time::Duration;

/// One observation about the client of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMetric {
    /// An HTTP client was built from the current certificates and credentials.
    ClientBuilt,
    /// A request was answered or failed.
    Request(RequestSample),
    /// A response was read to its end. Never reported for watches.
    Response {
        /// The request it answers.
        target: Target,
        /// Length of the body.
        bytes: usize,
    },
}

/// The labels under which a request is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The HTTP method, in capitals.
    pub method: String,
    /// The server's host and port.
    pub host: String,
}

/// The outcome of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestSample {
    /// Its labels.
    pub target: Target,
    /// The HTTP status, or `<error>` without a response, as kube-proxy labels it.
    pub code: String,
    /// Time until the response headers.
    pub latency: Duration,
    /// Length of the request body.
    pub request_bytes: usize,
    /// Properties that decide which metrics it counts for.
    pub kind: RequestKind,
}

/// Properties of a request that decide which metrics it counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestKind {
    /// A watch: its response lasts for minutes, so duration and size are meaningless.
    pub is_watch: bool,
    /// Repeats a request whose connection broke.
    pub is_retry: bool,
    /// Time spent waiting for the rate limiter; `None` if it does not apply.
    pub throttled_for: Option<Duration>,
}

/// Receives every [`ClientMetric`].
pub(super) struct MetricSink(pub Box<dyn Fn(&ClientMetric) + Send + Sync>);

impl fmt::Debug for MetricSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MetricSink")
    }
}
