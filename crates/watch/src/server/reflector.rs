//! Keeps one kind in step with the API server: lists it, watches it, resumes a watch that broke off, relists if it
//! cannot resume.
//!
//! ```text
//!   nothing known ──► list, or initial events of a watch ──► watch from that version ──┐
//!        ▲                                     from the last version seen ▲            │ broke off
//!        │                                                                └────────────┤
//!        └───────────────────── that version has expired ◄────────────────────────────┘
//! ```

mod list;

use std::time::Duration;

use ferrule_model::ObjectKind;
use tokio::time::{Instant, timeout_at};
use tracing::{debug, warn};

use super::ApiError;
use super::connection::{ApiRequest, Connection};
use super::endpoints_api;
use super::events::{Bookmark, Encoding, Event, EventFrame, EventStream, Raw, ReadError, StreamError};
use super::list_strategy::ListStrategy;
use super::reporter::Reporter;
use super::resource::{Deletion, Resource, WatchRequest, WatchStart};
use super::retry::{WatchBackoff, jittered};
use super::seen_versions::{PendingList, SeenVersions};
use crate::ChangeBatch;

/// A watch that ends sooner counts as a failure and is not resumed at once.
const MIN_WATCH_LIFETIME: Duration = Duration::from_secs(1);
/// Relists that follow each other faster than this are delayed.
const MIN_RELIST_INTERVAL: Duration = Duration::from_secs(10);
/// How long the API server may exceed the timeout it was asked to end a watch after.
const WATCH_TIMEOUT_SLACK: Duration = Duration::from_secs(30);
/// All nodes get the same `Retry-After`. Each adds up to this share of it, so that they do not return together.
const RETRY_AFTER_JITTER: f64 = 0.1;

/// The list and watch loop of one kind.
pub(super) struct Reflector<'a> {
    resource: Resource,
    connection: &'a Connection,
    reporter: &'a Reporter,
    seen: SeenVersions,
    /// The version to resume from; `None` if the kind must be listed.
    version: Option<String>,
    /// A list must not be older than this version, or state would go back in time.
    newest_seen: Option<String>,
    /// `None` if it is negotiated with the server.
    strategy: Option<ListStrategy>,
    is_in_sync: bool,
    last_expiry: Option<Instant>,
    backoff: WatchBackoff,
}

/// How a list or watch request ended.
#[derive(Debug, PartialEq, Eq)]
enum RequestEnd {
    /// The list is complete; watch from its version.
    Listed,
    /// The watch ended; resume it.
    WatchEnded,
    /// The version to resume from is too old; relist.
    Expired,
}

/// What the events of a watch are part of.
enum Phase {
    /// The initial events: a list that is not complete.
    Initial(PendingList),
    /// Changes after a complete list.
    Steady,
}

impl<'a> Reflector<'a> {
    pub(super) fn new(
        resource: Resource,
        strategy: Option<ListStrategy>,
        connection: &'a Connection,
        reporter: &'a Reporter,
    ) -> Self {
        Self {
            resource,
            connection,
            reporter,
            seen: SeenVersions::default(),
            version: None,
            newest_seen: None,
            strategy,
            is_in_sync: false,
            last_expiry: None,
            backoff: WatchBackoff::new(),
        }
    }

    /// Returns only if the API server does not serve EndpointSlices. Every other failure is retried.
    pub(super) async fn run(mut self) {
        loop {
            let began = Instant::now();
            match self.request().await {
                Ok(RequestEnd::Expired) => self.expire().await,
                Ok(RequestEnd::Listed) => {}
                Ok(RequestEnd::WatchEnded) if began.elapsed() >= MIN_WATCH_LIFETIME => self.backoff.reset(),
                Ok(RequestEnd::WatchEnded) => tokio::time::sleep(self.backoff.next_delay()).await,
                Err(error) if error.is_expired() && self.version.is_some() => self.expire().await,
                Err(error) if self.may_stream() && error.rejects_streaming() => {
                    debug!(kind = %self.resource.kind, err = %error, "Streaming list rejected, using list and watch");
                    self.connection.set_rejected_streaming();
                    self.strategy = Some(ListStrategy::Cached);
                }
                Err(error) if error.is_unreadable() && self.resource.encoding == Encoding::Protobuf => {
                    warn!(kind = %self.resource.kind, err = %error, "Cannot decode protobuf, relisting as JSON");
                    self.resource.encoding = Encoding::Json;
                    self.version = None;
                }
                Err(error)
                    if self.may_be_unserved(&error)
                        && endpoints_api::has_no_slices(self.connection).await =>
                {
                    return;
                }
                Err(error) => self.back_off(&error).await,
            }
        }
    }

    /// Makes the next request, and handles its response to the end.
    async fn request(&mut self) -> Result<RequestEnd, ApiError> {
        if let Some(version) = self.version.clone() {
            return self.watch(WatchStart::Version(&version)).await;
        }
        let strategy = match self.strategy {
            Some(strategy) => strategy,
            None => ListStrategy::negotiate(self.connection).await,
        };
        match strategy {
            ListStrategy::Streamed => self.watch(WatchStart::InitialEvents).await,
            ListStrategy::Consistent | ListStrategy::Cached => {
                self.list(strategy).await.map(|()| RequestEnd::Listed)
            }
        }
    }

    fn may_stream(&self) -> bool {
        self.version.is_none() && self.strategy != Some(ListStrategy::Cached)
    }

    /// Once listed, a kind does not go away: the API server is in trouble.
    fn may_be_unserved(&self, error: &ApiError) -> bool {
        self.resource.kind == ObjectKind::EndpointSlice && !self.is_in_sync && error.is_not_found()
    }

    async fn back_off(&mut self, error: &ApiError) {
        self.reporter.watch_failed(self.resource.kind, error);
        let delay = self.backoff.next_delay();
        let delay =
            error.retry_after().map_or(delay, |wanted| delay.max(jittered(wanted, RETRY_AFTER_JITTER)));
        if error.is_transport() {
            self.connection.recovered_within(delay).await;
        } else {
            tokio::time::sleep(delay).await;
        }
    }

    async fn expire(&mut self) {
        debug!(kind = %self.resource.kind, "Resource version expired, relisting");
        self.version = None;
        self.newest_seen = None;
        let now = Instant::now();
        let last = self.last_expiry.replace(now);
        // A server that forgets versions faster than we can list must not be listed in a tight loop.
        if last.is_some_and(|last| now.duration_since(last) < MIN_RELIST_INTERVAL) {
            tokio::time::sleep(self.backoff.next_delay()).await;
        }
    }

    /// Watches until the watch ends.
    async fn watch(&mut self, start: WatchStart<'_>) -> Result<RequestEnd, ApiError> {
        let WatchRequest { request, timeout } = self.resource.watch_request(start);
        let response = self.connection.send(&request).await?;
        let mut phase = match start {
            WatchStart::InitialEvents => Phase::Initial(PendingList::default()),
            WatchStart::Version(_) => {
                self.reporter.watch_succeeded(self.resource.kind);
                Phase::Steady
            }
        };
        let deadline = Instant::now() + timeout + WATCH_TIMEOUT_SLACK;
        let encoding = Encoding::from_headers(response.headers());
        debug!(kind = %self.resource.kind, ?encoding, "Watching");
        let mut stream = EventStream::new(response.into_body(), encoding);
        loop {
            let next = timeout_at(deadline, stream.next()).await.unwrap_or(Ok(None));
            let frame = match (next, &phase) {
                (Ok(Some(frame)), _) => frame,
                // A failure only if the watch cannot be resumed, which the next request shows.
                (Ok(None) | Err(StreamError::Broken(_)), Phase::Steady) => return Ok(RequestEnd::WatchEnded),
                (Ok(None), Phase::Initial(_)) => {
                    return Err(self.cut_off(&request, "it ended too early".into()));
                }
                (Err(StreamError::Broken(error)), Phase::Initial(_)) => {
                    return Err(ApiError::transport(self.connection.describe(&request), &error));
                }
                (Err(StreamError::TooLong), _) => {
                    return Err(self.unreadable(&request, "an event longer than any object can be".into()));
                }
            };
            if let Some(end) = self.handle_frame(&request, &frame, &mut phase)? {
                return Ok(end);
            }
        }
    }

    /// Handles events that arrived together, and reports them as one batch.
    fn handle_frame(
        &mut self,
        request: &ApiRequest,
        frame: &EventFrame,
        phase: &mut Phase,
    ) -> Result<Option<RequestEnd>, ApiError> {
        let mut batch = ChangeBatch::default();
        let mut result = Ok(None);
        for event in frame.events(self.resource.type_name()) {
            let handled = match event {
                Ok(Event::Error(status)) => Err(status.into_error(self.connection.describe(request), None)),
                Ok(event) => {
                    let handled = self.handle_event(event, phase, &mut batch);
                    handled.map_err(|error| self.unreadable(request, error.to_string()))
                }
                Err(error) => Err(self.unreadable(request, error.to_string())),
            };
            if let Err(error) = handled {
                result = if error.is_expired() { Ok(Some(RequestEnd::Expired)) } else { Err(error) };
                break;
            }
        }
        self.reporter.changes(batch);
        if let Phase::Initial(list) = phase {
            self.report_chunk(list);
        }
        result
    }

    fn handle_event(
        &mut self,
        event: Event<'_>,
        phase: &mut Phase,
        batch: &mut ChangeBatch,
    ) -> Result<(), ReadError> {
        match (event, &mut *phase) {
            (Event::Put(object), Phase::Initial(list)) => self.put_in_list(object, list)?,
            (Event::Put(object), Phase::Steady) => self.put(object, batch)?,
            (Event::Deleted(object), Phase::Initial(list)) => {
                if let Some(change) = self.resource.decode_deletion(object)?.change {
                    list.delete(&change);
                }
            }
            (Event::Deleted(object), Phase::Steady) => self.delete(object, batch)?,
            (Event::Bookmark(bookmark), Phase::Steady) => self.set_version(bookmark.version),
            (Event::Bookmark(Bookmark { version, ends_list: true }), Phase::Initial(list)) => {
                let list = std::mem::take(list);
                self.complete_list(list, version);
                *phase = Phase::Steady;
            }
            // A watch cannot resume from a version whose initial events have not all arrived.
            (Event::Bookmark(Bookmark { ends_list: false, .. }), Phase::Initial(_))
            | (Event::Error(_) | Event::Unknown, _) => {}
        }
        Ok(())
    }

    fn put(&mut self, object: Raw<'_>, batch: &mut ChangeBatch) -> Result<(), ReadError> {
        match self.resource.decode(object) {
            Ok(object) => {
                let version = object.resource_version.clone();
                self.seen.put(object, batch);
                self.set_version(version);
            }
            Err(error) => {
                let skipped = self.skip(object, &error)?;
                self.set_version(skipped.metadata.resource_version);
            }
        }
        Ok(())
    }

    fn put_in_list(&self, object: Raw<'_>, list: &mut PendingList) -> Result<(), ReadError> {
        match self.resource.decode(object) {
            Ok(object) => list.put(&self.seen, object),
            Err(error) => {
                if let Some(change) = self.skip(object, &error)?.change {
                    list.keep(&self.seen, &change);
                }
            }
        }
        Ok(())
    }

    fn delete(&mut self, object: Raw<'_>, batch: &mut ChangeBatch) -> Result<(), ReadError> {
        let Deletion { change, metadata } = self.resource.decode_deletion(object)?;
        if let Some(change) = change {
            self.seen.delete(change, batch);
        }
        self.set_version(metadata.resource_version);
        Ok(())
    }

    /// An object that cannot be decoded costs its own change and not the watch, as long as its name can be.
    fn skip(&self, object: Raw<'_>, error: &ReadError) -> Result<Deletion, ReadError> {
        let skipped = self.resource.decode_deletion(object)?;
        let object = format!("{}/{}", skipped.metadata.namespace, skipped.metadata.name);
        warn!(kind = %self.resource.kind, object, err = %error, "Cannot decode object, keeping its last known state");
        Ok(skipped)
    }

    /// Records the version to resume from. An empty one is ignored: deletions after it could not be detected.
    fn set_version(&mut self, version: String) {
        if version.is_empty() {
            return;
        }
        self.version = Some(version.clone());
        self.newest_seen = Some(version);
    }

    fn cut_off(&self, request: &ApiRequest, cause: String) -> ApiError {
        ApiError::Transport { what: self.connection.describe(request), cause, advice: String::new() }
    }

    fn unreadable(&self, request: &ApiRequest, problem: String) -> ApiError {
        ApiError::Unreadable { what: self.connection.describe(request), problem }
    }
}
