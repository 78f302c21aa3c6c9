//! Requests to the API server: who may go first, when to prepare anew, and what an answer means.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use serde::Deserialize;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tower::{BoxError, ServiceExt as _};

use super::access::Access;
use super::connector::{Prepared, as_api_error, is_broken, is_refused_by_tls, prepare};
use super::events::Encoding;
use super::protobuf;
use super::rate::{RateLimit, RequestRate};
use super::traffic::{Asked, Counter, Manner, Target, Traffic};
use super::{ApiError, StartError, advice};

/// How long the first byte of an answer may take; an API server gives up on its own work after a minute.
pub(super) const PATIENCE: Duration = Duration::from_secs(65);
/// How many refusals of others, each of which ends the connection, a request survives.
const OTHERS_REFUSALS: usize = 3;
/// A server may ask for patience, but not for ever.
const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(1);
/// Answers other than lists and watches are small.
const LARGEST_ANSWER: usize = 4 << 20;

/// The connection, which comes and goes behind this.
#[derive(Debug)]
pub(super) struct Connection {
    counter: Counter,
    access: Access,
    rate: RateLimit,
    user_agent: HeaderValue,
    /// None if it must be prepared anew, with what the files say now.
    prepared: Mutex<Option<Prepared>>,
    /// While it is not known whether there is a connection, one request goes first, or each would make its own.
    first: tokio::sync::Mutex<()>,
    works: AtomicBool,
    /// How many attempts failed, and the last of them.
    failed: Mutex<(u64, Option<ApiError>)>,
    /// Whether a streaming list was refused.
    refused_streams: AtomicBool,
    /// Wakes those who wait for another try as soon as somebody's succeeds.
    recovered: Notify,
}

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub method: Method,
    /// With its query.
    pub path: String,
    pub content: Option<(&'static str, Bytes)>,
    /// As in "watching Services".
    pub doing: String,
    /// Whether the rate limit counts it.
    pub is_watch: bool,
    /// How the answer should be written.
    pub accepts: Encoding,
}

/// Why an attempt failed.
#[derive(Debug)]
struct Failure {
    error: ApiError,
    /// There was a connection, and it broke.
    is_broken: bool,
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self { error, is_broken: false }
    }
}

impl Connection {
    pub(super) fn new(access: Access, rate: RequestRate, user_agent: &str) -> Result<Self, StartError> {
        let user_agent = HeaderValue::from_str(user_agent).map_err(|_| StartError::Connection {
            url: String::new(),
            problem: format!("\"{}\" is not usable as a User-Agent", user_agent.escape_debug()),
        })?;
        Ok(Self {
            counter: Counter(Box::new(|_| {})),
            access,
            rate: RateLimit::new(rate),
            user_agent,
            prepared: Mutex::new(None),
            first: tokio::sync::Mutex::new(()),
            works: AtomicBool::new(false),
            failed: Mutex::default(),
            refused_streams: AtomicBool::new(false),
            recovered: Notify::new(),
        })
    }

    /// Has every request counted.
    pub(super) fn counted_by(mut self, count: impl Fn(&Traffic) + Send + Sync + 'static) -> Self {
        self.counter = Counter(Box::new(count));
        self
    }

    /// Has the length of an answer counted, once it is known.
    pub(super) fn answered(&self, ask: &Ask, bytes: usize) {
        (self.counter.0)(&Traffic::Answered { to: target(ask, &self.base()), bytes });
    }

    /// Finds out whether the configuration can be used. Nothing is sent.
    pub(super) async fn prepare(&self) -> Result<(), StartError> {
        self.prepared().await.map(drop)
    }

    /// Sends a request; any answer but a success is an error.
    pub(super) async fn send(&self, ask: &Ask) -> Result<Response<Incoming>, ApiError> {
        let waited = if ask.is_watch { None } else { self.rate.take().await };
        let mut manner = Manner { is_watch: ask.is_watch, is_retry: false, waited };
        // An API server ends the whole connection after it refused one request, and when it shuts down: whoever else was on
        // it asks again on another. What changes something may have been done already and is the caller's to repeat.
        for _ in 0..OTHERS_REFUSALS {
            match self.pass(ask, manner).await {
                Err(Failure { is_broken: true, .. }) if ask.method == Method::GET => {}
                result => return result.map_err(|failure| failure.error),
            }
            manner = Manner { is_retry: true, waited: None, ..manner };
        }
        let result = self.pass(ask, manner).await;
        if matches!(result, Err(Failure { is_broken: true, .. })) {
            // Not somebody else's refusal, then. Something on the way may not like what is sent, such as a certificate that
            // expired: since TLS 1.3 that shows only after the handshake.
            self.forget();
        }
        result.map_err(|failure| failure.error)
    }

    async fn pass(&self, ask: &Ask, manner: Manner) -> Result<Response<Incoming>, Failure> {
        if self.works.load(Ordering::Relaxed) {
            return self.attempt(ask, manner).await;
        }
        let before = self.last_failure().0;
        let first = self.first.lock().await;
        if self.works.load(Ordering::Relaxed) {
            drop(first);
            return self.attempt(ask, manner).await;
        }
        // Who failed meanwhile failed for all who waited.
        match self.last_failure() {
            (count, Some(error)) if count != before => Err(error.elsewhere(self.what(ask)).into()),
            _ => self.attempt(ask, manner).await,
        }
    }

    fn last_failure(&self) -> (u64, Option<ApiError>) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remembered(&self, error: ApiError) -> ApiError {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        *failed = (failed.0.wrapping_add(1), Some(error.clone()));
        error
    }

    /// Sends a request and reads the whole answer.
    pub(super) async fn fetch(&self, ask: &Ask) -> Result<Bytes, ApiError> {
        let response = self.send(ask).await?;
        self.content(ask, response).await
    }

    /// Waits until somebody's request succeeds, or until the time is over.
    pub(super) async fn recovered_within(&self, time: Duration) {
        // Either is a reason to try again.
        let _ = timeout(time, self.recovered.notified()).await;
    }

    /// Notes that the API server streams no lists.
    pub(super) fn refuses_streams(&self) {
        self.refused_streams.store(true, Ordering::Relaxed);
    }

    /// Whether it was noted.
    pub(super) fn has_refused_streams(&self) -> bool {
        self.refused_streams.load(Ordering::Relaxed)
    }

    /// What is done where, for messages.
    pub(super) fn what(&self, ask: &Ask) -> String {
        let path = ask.path.split('?').next().unwrap_or_default();
        format!("{} at {}{path}", ask.doing, self.base())
    }

    /// The server's address.
    fn base(&self) -> String {
        let prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        prepared.as_ref().map_or_else(|| self.access.server().to_string(), |prepared| prepared.base.clone())
    }

    async fn attempt(&self, ask: &Ask, manner: Manner) -> Result<Response<Incoming>, Failure> {
        let what = self.what(ask);
        let prepared = self.prepared().await.map_err(|error| as_api_error(&what, &error))?;
        let request = self.request(ask, &prepared).map_err(|cause| ApiError::Transport {
            what: what.clone(),
            cause,
            advice: String::new(),
        })?;
        let (began, base) = (Instant::now(), prepared.base);
        let answer = timeout(PATIENCE, prepared.service.oneshot(request)).await;
        let code = match &answer {
            Ok(Ok(response)) => response.status().as_str().to_owned(),
            Ok(Err(_)) | Err(_) => "<error>".to_owned(),
        };
        let bytes = ask.content.as_ref().map_or(0, |(_, content)| content.len());
        let to = target(ask, &base);
        (self.counter.0)(&Traffic::Asked(Asked { to, code, took: began.elapsed(), bytes, manner }));
        match answer {
            Ok(Ok(response)) => self.judge(ask, response).await.map_err(Failure::from),
            Ok(Err(error)) => Err(self.broken(what, &error)),
            Err(_) => {
                self.works.store(false, Ordering::Relaxed);
                let cause = format!("no answer within {} seconds", PATIENCE.as_secs());
                let advice = "; is the API server overloaded?".into();
                Err(self.remembered(ApiError::Transport { what, cause, advice }).into())
            }
        }
    }

    fn broken(&self, what: String, error: &BoxError) -> Failure {
        self.works.store(false, Ordering::Relaxed);
        let is_broken = is_broken(error);
        if !is_broken || is_refused_by_tls(&**error) {
            // Certificates may have been rotated.
            self.forget();
        }
        Failure { error: self.remembered(ApiError::transport(what, &**error)), is_broken }
    }

    async fn judge(&self, ask: &Ask, response: Response<Incoming>) -> Result<Response<Incoming>, ApiError> {
        let status = response.status();
        if !self.works.swap(true, Ordering::Relaxed) {
            self.recovered.notify_waiters();
        }
        if status.is_success() {
            return Ok(response);
        }
        if status == StatusCode::UNAUTHORIZED {
            self.forget();
        }
        let retry_after = retry_after(response.headers());
        let content = self.content(ask, response).await.unwrap_or_default();
        Err(Refusal::read(status, &content).into_error(self.what(ask), retry_after))
    }

    async fn content(&self, ask: &Ask, response: Response<Incoming>) -> Result<Bytes, ApiError> {
        let content = timeout(PATIENCE, Limited::new(response.into_body(), LARGEST_ANSWER).collect());
        let stuck = |_| ApiError::Transport {
            what: self.what(ask),
            cause: format!("the answer did not end within {} seconds", PATIENCE.as_secs()),
            advice: String::new(),
        };
        match content.await.map_err(stuck)? {
            Ok(content) => {
                let content = content.to_bytes();
                if !ask.is_watch {
                    self.answered(ask, content.len());
                }
                Ok(content)
            }
            Err(error) => Err(ApiError::transport(self.what(ask), &*error)),
        }
    }

    fn forget(&self) {
        *self.prepared.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    async fn prepared(&self) -> Result<Prepared, StartError> {
        let known = self.prepared.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(prepared) = known {
            return Ok(prepared);
        }
        let prepared = prepare(&self.access).await?;
        (self.counter.0)(&Traffic::Prepared);
        let mut place = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        // Two may have prepared at the same time; one connection is enough.
        Ok(place.get_or_insert(prepared).clone())
    }

    fn request(&self, ask: &Ask, prepared: &Prepared) -> Result<Request<Full<Bytes>>, String> {
        let mut request = Request::builder()
            .method(&ask.method)
            .uri(format!("{}{}", prepared.base, ask.path))
            .header(USER_AGENT, &self.user_agent)
            .header(ACCEPT, accepted(ask.accepts));
        if let Some(token) = &prepared.token {
            request = request.header(AUTHORIZATION, token.header()?);
        }
        let mut body = Bytes::new();
        if let Some((media, content)) = &ask.content {
            request = request.header(CONTENT_TYPE, *media);
            body = content.clone();
        }
        request.body(Full::new(body)).map_err(|error| error.to_string())
    }
}

fn target(ask: &Ask, base: &str) -> Target {
    let host = base.split_once("://").map_or(base, |(_, host)| host);
    let host = host.split('/').next().unwrap_or(host).to_owned();
    Target { method: ask.method.to_string(), host }
}

/// How Kubernetes says no, in an answer or in the middle of a watch.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Refusal {
    pub code: u16,
    pub reason: String,
    pub message: String,
}

impl Refusal {
    /// From the body of an answer, which others than an API server write too.
    fn read(status: StatusCode, content: &[u8]) -> Self {
        let said = match protobuf::unwrapped(content) {
            Ok(object) => protobuf::refusal(object).ok(),
            Err(_) => serde_json::from_slice(content).ok(),
        };
        let said: Self = said.unwrap_or_default();
        let text = || String::from_utf8_lossy(&content[..content.len().min(200)]).trim().to_string();
        let word = || status.canonical_reason().unwrap_or_default().to_string();
        Self {
            code: status.as_u16(),
            reason: if said.reason.is_empty() { word() } else { said.reason },
            message: if said.message.is_empty() { text() } else { said.message },
        }
    }

    pub(super) fn into_error(self, what: String, retry_after: Option<Duration>) -> ApiError {
        let advice = advice::on_status(self.code, &self.message).to_string();
        let message = self.message.lines().collect::<Vec<_>>().join(" ");
        ApiError::Rejected { what, status: self.code, reason: self.reason, message, advice, retry_after }
    }
}

/// Whoever can only write text may.
fn accepted(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Protobuf => "application/vnd.kubernetes.protobuf, application/json",
        Encoding::Json => "application/json",
    }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let digits = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // A number that is too large for us is a long time.
    let seconds = is_number.then(|| digits.parse().unwrap_or(u64::MAX))?;
    Some(Duration::from_secs(seconds).min(LONGEST_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked_for(value: &str) -> Option<u64> {
        let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_str(value).unwrap())]);
        retry_after(&headers).map(|wait| wait.as_secs())
    }

    #[test]
    fn a_server_cannot_ask_for_more_than_a_minute_of_patience() {
        assert_eq!(asked_for("1"), Some(1));
        assert_eq!(asked_for("60"), Some(60));
        assert_eq!(asked_for("4294967296"), Some(60));
        assert_eq!(asked_for("99999999999999999999999999"), Some(60));
        for none in ["-1", "1.5", "soon", "", "Wed, 21 Oct 2026 07:28:00 GMT"] {
            assert_eq!(asked_for(none), None, "{none}");
        }
    }
}
