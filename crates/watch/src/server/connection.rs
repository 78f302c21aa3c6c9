//! Requests to the API server: rate limit, retries on a broken connection, and what a response means.
//!
//! All requests share one HTTP/2 connection, whose state is in [`super::link`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use tokio::time::{Instant, timeout};
use tower::{BoxError, ServiceExt as _};

use super::access::Access;
use super::api_status::ApiStatus;
use super::client_metrics::{ClientMetric, MetricSink, RequestKind, RequestSample, Target};
use super::connector::{HttpClient, as_api_error, build_client, is_connection_broken, is_tls_alert};
use super::events::Encoding;
use super::link::Link;
use super::rate::{RateLimiter, RequestRate};
use super::{ApiError, StartError};

/// Limit for the response headers, and for each pause in a body. An API server gives up on a request after a minute.
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(65);
/// How often a request is repeated because the server closed the connection under it.
const MAX_GOAWAY_RETRIES: usize = 3;
/// Longest `Retry-After` that is honoured.
const MAX_RETRY_AFTER: Duration = Duration::from_mins(1);
/// For responses other than lists and watches, which are small.
const MAX_RESPONSE_BYTES: usize = 4 << 20;

/// A connection to the API server that is rebuilt as needed.
#[derive(Debug)]
pub(super) struct Connection {
    access: Access,
    user_agent: HeaderValue,
    rate_limiter: RateLimiter,
    metrics: MetricSink,
    link: Link,
    has_rejected_streaming: AtomicBool,
}

/// A request to the API server.
#[derive(Clone, Debug)]
pub(super) struct ApiRequest {
    pub method: Method,
    /// With its query.
    pub path: String,
    pub content: Option<Content>,
    /// For messages, as in "watching Services".
    pub operation: String,
    /// Watches are exempt from the rate limit.
    pub is_watch: bool,
    pub accepts: Encoding,
}

/// The body of a request.
#[derive(Clone, Debug)]
pub(super) struct Content {
    pub media_type: &'static str,
    pub body: Bytes,
}

/// Why an attempt failed.
#[derive(Debug)]
struct Failure {
    error: ApiError,
    cause: FailureCause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailureCause {
    /// There is no connection, or no response in time.
    Unreachable,
    /// An established connection broke. A retry on a new one may succeed at once.
    Broken,
    /// Says nothing about the connection: the request could not be built, or the server answered with an error.
    Other,
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self { error, cause: FailureCause::Other }
    }
}

impl Connection {
    pub(super) fn new(access: Access, rate: RequestRate, user_agent: &str) -> Result<Self, StartError> {
        let user_agent = HeaderValue::from_str(user_agent).map_err(|_| StartError::Connection {
            url: String::new(),
            problem: format!("\"{}\" is not usable as a User-Agent", user_agent.escape_debug()),
        })?;
        Ok(Self {
            access,
            user_agent,
            rate_limiter: RateLimiter::new(rate),
            metrics: MetricSink(Box::new(|_| {})),
            link: Link::default(),
            has_rejected_streaming: AtomicBool::new(false),
        })
    }

    /// Reports every request to `sink`.
    pub(super) fn with_metrics(mut self, sink: impl Fn(&ClientMetric) + Send + Sync + 'static) -> Self {
        self.metrics = MetricSink(Box::new(sink));
        self
    }

    /// Reports the length of a response that was read to its end.
    pub(super) fn report_response(&self, request: &ApiRequest, bytes: usize) {
        (self.metrics.0)(&ClientMetric::Response { target: target(request, &self.base_url()), bytes });
    }

    /// Builds the HTTP client, which shows whether the configuration can be used. Sends nothing.
    pub(super) async fn prepare(&self) -> Result<(), StartError> {
        self.http_client().await.map(drop)
    }

    /// Sends a request; any response but a success is an error.
    pub(super) async fn send(&self, request: &ApiRequest) -> Result<Response<Incoming>, ApiError> {
        let throttled_for = if request.is_watch { None } else { self.rate_limiter.acquire().await };
        let mut kind = RequestKind { is_watch: request.is_watch, is_retry: false, throttled_for };
        // An API server closes the whole connection after it rejected one request, and when it shuts down: the other
        // requests on it are repeated on a new one. A request that changes something may have been carried out, so
        // repeating it is left to the caller.
        for _ in 0..MAX_GOAWAY_RETRIES {
            match self.send_once(request, kind).await {
                Err(Failure { cause: FailureCause::Broken, .. }) if request.method == Method::GET => {}
                result => return result.map_err(|failure| failure.error),
            }
            kind = RequestKind { is_retry: true, throttled_for: None, ..kind };
        }
        let result = self.send_once(request, kind).await;
        if matches!(result, Err(Failure { cause: FailureCause::Broken, .. })) {
            // It is this request that the server rejects. The client certificate may have expired, which with TLS 1.3
            // shows only after the handshake.
            self.link.forget_client();
        }
        result.map_err(|failure| failure.error)
    }

    async fn send_once(
        &self,
        request: &ApiRequest,
        kind: RequestKind,
    ) -> Result<Response<Incoming>, Failure> {
        let permit = self.link.enter().await.map_err(|error| error.for_request(self.describe(request)))?;
        let result = self.attempt(request, kind).await;
        if let Err(Failure { error, cause: FailureCause::Unreachable | FailureCause::Broken }) = &result {
            permit.set_down(error.clone());
        }
        result
    }

    /// Sends a request and reads the whole response.
    pub(super) async fn fetch(&self, request: &ApiRequest) -> Result<Bytes, ApiError> {
        let response = self.send(request).await?;
        self.read_body(request, response).await
    }

    /// Waits until another request succeeds, at most for `time`.
    pub(super) async fn recovered_within(&self, time: Duration) {
        self.link.recovered_within(time).await;
    }

    /// Records that the API server does not support streaming lists.
    pub(super) fn set_rejected_streaming(&self) {
        self.has_rejected_streaming.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_rejected_streaming(&self) -> bool {
        self.has_rejected_streaming.load(Ordering::Relaxed)
    }

    /// Operation and URL, for messages. Leaves out the query.
    pub(super) fn describe(&self, request: &ApiRequest) -> String {
        let path = request.path.split('?').next().unwrap_or_default();
        format!("{} at {}{path}", request.operation, self.base_url())
    }

    fn base_url(&self) -> String {
        self.link.base_url().unwrap_or_else(|| self.access.server().to_string())
    }

    async fn attempt(&self, request: &ApiRequest, kind: RequestKind) -> Result<Response<Incoming>, Failure> {
        let what = self.describe(request);
        let client = self.http_client().await.map_err(|error| as_api_error(&what, &error))?;
        let http_request = self.http_request(request, &client).map_err(|cause| ApiError::Transport {
            what: what.clone(),
            cause,
            advice: String::new(),
        })?;
        let (began, target) = (Instant::now(), target(request, &client.base));
        let answer = timeout(RESPONSE_TIMEOUT, client.service.oneshot(http_request)).await;
        let code = match &answer {
            Ok(Ok(response)) => response.status().as_str().to_owned(),
            Ok(Err(_)) | Err(_) => "<error>".to_owned(),
        };
        let request_bytes = request.content.as_ref().map_or(0, |content| content.body.len());
        let sample = RequestSample { target, code, latency: began.elapsed(), request_bytes, kind };
        (self.metrics.0)(&ClientMetric::Request(sample));
        match answer {
            Ok(Ok(response)) => self.check_status(request, response).await.map_err(Failure::from),
            Ok(Err(error)) => Err(self.transport_failure(what, &error)),
            Err(_) => {
                let cause = format!("no answer within {} seconds", RESPONSE_TIMEOUT.as_secs());
                let advice = "; is the API server overloaded?".into();
                let error = ApiError::Transport { what, cause, advice };
                Err(Failure { error, cause: FailureCause::Unreachable })
            }
        }
    }

    fn transport_failure(&self, what: String, error: &BoxError) -> Failure {
        let is_broken = is_connection_broken(error);
        if !is_broken || is_tls_alert(&**error) {
            // Certificates may have been rotated.
            self.link.forget_client();
        }
        let cause = if is_broken { FailureCause::Broken } else { FailureCause::Unreachable };
        Failure { error: ApiError::transport(what, &**error), cause }
    }

    async fn check_status(
        &self,
        request: &ApiRequest,
        response: Response<Incoming>,
    ) -> Result<Response<Incoming>, ApiError> {
        let status = response.status();
        self.link.set_up();
        if status.is_success() {
            return Ok(response);
        }
        if status == StatusCode::UNAUTHORIZED {
            self.link.forget_client();
        }
        let retry_after = retry_after(response.headers());
        let body = self.read_body(request, response).await.unwrap_or_default();
        Err(ApiStatus::from_response(status, &body).into_error(self.describe(request), retry_after))
    }

    async fn read_body(&self, request: &ApiRequest, response: Response<Incoming>) -> Result<Bytes, ApiError> {
        let limited = Limited::new(response.into_body(), MAX_RESPONSE_BYTES);
        let timed_out = |_| ApiError::Transport {
            what: self.describe(request),
            cause: format!("the answer did not end within {} seconds", RESPONSE_TIMEOUT.as_secs()),
            advice: String::new(),
        };
        match timeout(RESPONSE_TIMEOUT, limited.collect()).await.map_err(timed_out)? {
            Ok(body) => {
                let body = body.to_bytes();
                if !request.is_watch {
                    self.report_response(request, body.len());
                }
                Ok(body)
            }
            Err(error) => Err(ApiError::transport(self.describe(request), &*error)),
        }
    }

    async fn http_client(&self) -> Result<HttpClient, StartError> {
        if let Some(client) = self.link.client() {
            return Ok(client);
        }
        let client = build_client(&self.access).await?;
        (self.metrics.0)(&ClientMetric::ClientBuilt);
        Ok(self.link.keep_client(client))
    }

    fn http_request(
        &self,
        request: &ApiRequest,
        client: &HttpClient,
    ) -> Result<Request<Full<Bytes>>, String> {
        let mut http_request = Request::builder()
            .method(&request.method)
            .uri(format!("{}{}", client.base, request.path))
            .header(USER_AGENT, &self.user_agent)
            .header(ACCEPT, accept_header(request.accepts));
        if let Some(token) = &client.token {
            http_request = http_request.header(AUTHORIZATION, token.header()?);
        }
        let mut body = Bytes::new();
        if let Some(content) = &request.content {
            http_request = http_request.header(CONTENT_TYPE, content.media_type);
            body = content.body.clone();
        }
        http_request.body(Full::new(body)).map_err(|error| error.to_string())
    }
}

fn target(request: &ApiRequest, base_url: &str) -> Target {
    let host = base_url.split_once("://").map_or(base_url, |(_, host)| host);
    let host = host.split('/').next().unwrap_or(host).to_owned();
    Target { method: request.method.to_string(), host }
}

/// JSON is always accepted: some servers, and some resources, have nothing else.
fn accept_header(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Protobuf => "application/vnd.kubernetes.protobuf, application/json",
        Encoding::Json => "application/json",
    }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let digits = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // A number that overflows stands for the longest delay.
    let seconds = is_number.then(|| digits.parse().unwrap_or(u64::MAX))?;
    Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(value: &str) -> Option<u64> {
        let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_str(value).unwrap())]);
        retry_after(&headers).map(|delay| delay.as_secs())
    }

    #[test]
    fn a_server_cannot_delay_a_retry_by_more_than_a_minute() {
        assert_eq!(seconds("1"), Some(1));
        assert_eq!(seconds("60"), Some(60));
        assert_eq!(seconds("4294967296"), Some(60));
        assert_eq!(seconds("99999999999999999999999999"), Some(60));
        for none in ["-1", "1.5", "soon", "", "Wed, 21 Oct 2026 07:28:00 GMT"] {
            assert_eq!(seconds(none), None, "{none}");
        }
    }
}
