//! One watch that never ends: list, watch, go on where it broke off, list anew where that is impossible.
//!
//! ```text
//!   nothing known ──► list, or a watch that begins with all there is ──► watch from there ──┐
//!        ▲                                          from the last version known ▲           │ broke off
//!        │                                                                      └───────────┤
//!        └───────────────────────── that version is too old ◄───────────────────────────────┘
//! ```

mod listing;

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tracing::{debug, warn};

use super::backoff::{Backoff, slightly_jittered};
use super::connection::{Ask, Connection};
use super::events::{Encoding, Event, Events, NextError, Raw, ReadError, Together};
use super::known::{Known, Listing};
use super::lists::Lists;
use super::reporter::Reporter;
use super::resource::{Resource, Since};
use super::{ApiError, Batch};

/// A watch that broke off sooner was none, and is not tried again at once.
const SHORTEST: Duration = Duration::from_secs(1);
/// How far apart new lists may be asked for at once.
const SELDOM: Duration = Duration::from_secs(10);
/// How long the API server may take to end a watch whose time is over.
const GRACE: Duration = Duration::from_secs(30);

/// The watch of one kind.
pub(super) struct Watching<'a> {
    resource: Resource,
    connection: &'a Connection,
    reporter: &'a Reporter,
    known: Known,
    /// The last version heard of; none if it must be listed anew.
    version: Option<String>,
    /// The version a list must not be older than, so that time never goes back.
    reached: Option<String>,
    /// How all there is is asked for; nothing if the server is to say what is best.
    lists: Option<Lists>,
    is_in_sync: bool,
    /// When the last known version last was too old.
    expired_at: Option<Instant>,
    backoff: Backoff,
}

/// How a request ended that had begun.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// A list is complete, and to be watched from there.
    Listed,
    /// To be gone on with at the last version.
    Over,
    /// It says that the last version is too old.
    Expired,
}

impl<'a> Watching<'a> {
    pub(super) fn new(
        (resource, lists): (Resource, Option<Lists>),
        connection: &'a Connection,
        reporter: &'a Reporter,
    ) -> Self {
        Self {
            resource,
            connection,
            reporter,
            known: Known::default(),
            version: None,
            reached: None,
            lists,
            is_in_sync: false,
            expired_at: None,
            backoff: Backoff::default(),
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            let began = Instant::now();
            match self.step().await {
                Ok(End::Expired) => self.expired().await,
                Ok(End::Listed) => {}
                Ok(End::Over) if began.elapsed() >= SHORTEST => self.backoff.reset(),
                Ok(End::Over) => tokio::time::sleep(self.backoff.next()).await,
                Err(error) if error.is_expired() && self.version.is_some() => self.expired().await,
                Err(error) if self.may_stream() && error.refuses_streaming() => {
                    debug!(kind = %self.resource.kind, err = %error, "Refused so, falling back to list and watch");
                    self.connection.refuses_streams();
                    self.lists = Some(Lists::Cached);
                }
                Err(error) if error.is_unreadable() && self.resource.encoding == Encoding::Protobuf => {
                    warn!(kind = %self.resource.kind, err = %error, "Cannot be read as protobuf, listing anew as JSON");
                    self.resource.encoding = Encoding::Json;
                    self.version = None;
                }
                Err(error) => self.failed(&error).await,
            }
        }
    }

    /// One request, to its end.
    async fn step(&mut self) -> Result<End, ApiError> {
        if let Some(version) = self.version.clone() {
            return self.follow(Since::Version(&version)).await;
        }
        match self.lists().await {
            Lists::Streamed => self.follow(Since::Everything).await,
            lists => self.list(lists).await.map(|()| End::Listed),
        }
    }

    /// How all there is is to be asked for now.
    async fn lists(&self) -> Lists {
        match self.lists {
            Some(lists) => lists,
            None => Lists::best_for(self.connection).await,
        }
    }

    fn may_stream(&self) -> bool {
        self.version.is_none() && self.lists != Some(Lists::Cached)
    }

    async fn failed(&mut self, error: &ApiError) {
        self.reporter.trouble(self.resource.kind, error);
        let wait = self.backoff.next();
        // All nodes are told the same time, and must not come back in the same moment.
        let wait = error.retry_after().map_or(wait, |wanted| wait.max(slightly_jittered(wanted)));
        if error.is_transport() {
            self.connection.recovered_within(wait).await;
        } else {
            tokio::time::sleep(wait).await;
        }
    }

    async fn expired(&mut self) {
        debug!(kind = %self.resource.kind, "The last known version is too old, listing anew");
        self.version = None;
        self.reached = None;
        let now = Instant::now();
        let last = self.expired_at.replace(now);
        // A server that forgets faster than it can be listed is not to be asked without pause.
        if last.is_some_and(|last| now.duration_since(last) < SELDOM) {
            tokio::time::sleep(self.backoff.next()).await;
        }
    }

    /// Watches until the watch ends.
    async fn follow(&mut self, since: Since<'_>) -> Result<End, ApiError> {
        let (ask, time) = self.resource.watch(since);
        let response = self.connection.send(&ask).await?;
        let mut listing = match since {
            Since::Everything => Some(Listing::default()),
            Since::Version(_) => {
                self.reporter.success(self.resource.kind);
                None
            }
        };
        let deadline = Instant::now() + time + GRACE;
        let encoding = Encoding::of(response.headers());
        debug!(kind = %self.resource.kind, ?encoding, "Watching");
        let mut events = Events::new(response.into_body(), encoding);
        loop {
            let next = timeout_at(deadline, events.next()).await.unwrap_or(Ok(None));
            let events = match (next, &listing) {
                (Ok(Some(events)), _) => events,
                // Trouble only if another cannot be had.
                (Ok(None) | Err(NextError::Broken(_)), None) => return Ok(End::Over),
                (Ok(None), Some(_)) => return Err(self.cut_off(&ask, "it ended too early".into())),
                (Err(NextError::Broken(error)), Some(_)) => {
                    return Err(ApiError::transport(self.connection.what(&ask), &error));
                }
                (Err(NextError::TooLong), _) => {
                    return Err(self.unreadable(&ask, "an event longer than any object can be".into()));
                }
            };
            if let Some(end) = self.take(&ask, &events, &mut listing)? {
                return Ok(end);
            }
        }
    }

    /// Takes events that came together, and tells them together.
    fn take(
        &mut self,
        ask: &Ask,
        events: &Together,
        listing: &mut Option<Listing>,
    ) -> Result<Option<End>, ApiError> {
        let mut batch = Batch::default();
        let mut result = Ok(None);
        for event in events.each(self.resource.type_name()) {
            result = match event {
                Ok(Event::Refused(refusal)) => Err(refusal.into_error(self.connection.what(ask), None)),
                Ok(Event::Bookmark { version, list_is_complete }) => {
                    self.bookmark(version, listing.take_if(|_| list_is_complete), listing.is_none());
                    Ok(None)
                }
                Ok(event) => {
                    let taken = self.object(&event, listing, &mut batch);
                    taken.map(|()| None).map_err(|error| self.unreadable(ask, error.to_string()))
                }
                Err(error) => Err(self.unreadable(ask, error.to_string())),
            };
            if result.is_err() {
                break;
            }
        }
        self.reporter.changes(batch);
        if let Some(listing) = listing {
            self.tell_portion(listing);
        }
        match result {
            Err(error) if error.is_expired() => Ok(Some(End::Expired)),
            other => other,
        }
    }

    /// Until a list is complete, its bookmarks are no place to go on from.
    fn bookmark(&mut self, version: String, complete: Option<Listing>, is_watching: bool) {
        match complete {
            Some(list) => self.complete(list, version),
            None if is_watching => self.reached(version),
            None => {}
        }
    }

    fn object(
        &mut self,
        event: &Event<'_>,
        listing: &mut Option<Listing>,
        batch: &mut Batch,
    ) -> Result<(), ReadError> {
        let version = match event {
            Event::Put(object) => self.put(*object, listing.as_mut(), batch)?,
            Event::Deleted(object) => self.delete(*object, listing.as_mut(), batch)?,
            Event::Bookmark { .. } | Event::Refused(_) | Event::Unknown => return Ok(()),
        };
        if listing.is_none() {
            self.reached(version);
        }
        Ok(())
    }

    /// Takes over an object; returns its version.
    fn put(
        &mut self,
        object: Raw<'_>,
        listing: Option<&mut Listing>,
        batch: &mut Batch,
    ) -> Result<String, ReadError> {
        let object = match self.resource.put(object) {
            Ok(object) => object,
            Err(error) => return self.passed_over(object, &error, listing),
        };
        let version = object.resource_version.clone();
        match listing {
            Some(list) => list.put(&self.known, object),
            None => self.known.put(object, batch),
        }
        Ok(version)
    }

    fn delete(
        &mut self,
        object: Raw<'_>,
        listing: Option<&mut Listing>,
        batch: &mut Batch,
    ) -> Result<String, ReadError> {
        let (change, metadata) = self.resource.gone(object)?;
        match (change, listing) {
            (Some(change), Some(list)) => list.delete(&change),
            (Some(change), None) => self.known.delete(change, batch),
            (None, _) => {}
        }
        Ok(metadata.resource_version)
    }

    /// An object of an unexpected form costs that object's change, not the watch; unless nobody can tell which it is.
    fn passed_over(
        &self,
        object: Raw<'_>,
        error: &ReadError,
        listing: Option<&mut Listing>,
    ) -> Result<String, ReadError> {
        let (change, metadata) = self.resource.gone(object)?;
        let object = format!("{}/{}", metadata.namespace, metadata.name);
        warn!(kind = %self.resource.kind, object, err = %error, "Object cannot be read, it stays as it was");
        if let (Some(list), Some(change)) = (listing, &change) {
            list.keep(&self.known, change);
        }
        Ok(metadata.resource_version)
    }

    /// To be gone on from. Without a version nobody could tell what went meanwhile.
    fn reached(&mut self, version: String) {
        if version.is_empty() {
            return;
        }
        self.version = Some(version.clone());
        self.reached = Some(version);
    }

    fn cut_off(&self, ask: &Ask, cause: String) -> ApiError {
        ApiError::Transport { what: self.connection.what(ask), cause, advice: String::new() }
    }

    fn unreadable(&self, ask: &Ask, problem: String) -> ApiError {
        ApiError::Unreadable { what: self.connection.what(ask), problem }
    }
}
