//! Sends Events one after another, with retries while the API server is unreachable.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use ferrule_watch::server::{ApiClient, ApiError};
use jiff::Timestamp;
use serde_json::Value;
use tracing::info;

use super::aggregator::{EventAggregator, EventWrite};
use super::record::{EventRecord, Reporter};
use crate::health::Moment;

/// Attempts for one Event.
const MAX_ATTEMPTS: u32 = 12;
/// The delay between two attempts, without jitter.
const RETRY_DELAY: Duration = Duration::from_secs(10);
/// How often series are checked.
const SERIES_CHECK_INTERVAL: Duration = Duration::from_mins(1);

/// Writes Events to an API server.
pub trait EventSink: Send {
    /// Creates an object in the collection at a path.
    fn create(&self, path: &str, object: &Value) -> Result<(), SendError>;
    /// Patches the object at a path.
    fn patch(&self, path: &str, change: &Value) -> Result<(), SendError>;
    /// Waits before another attempt.
    #[expect(clippy::disallowed_methods, reason = "an API server out of reach shows no state to wait for")]
    fn pause(&self, time: Duration) {
        thread::sleep(time);
    }
}

/// A write that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The API server was not reached: worth a retry.
    Unreachable(String),
    /// The object or its namespace does not exist.
    NotFound,
    /// The API server rejected it.
    Rejected(String),
}

impl EventSink for ApiClient {
    fn create(&self, path: &str, object: &Value) -> Result<(), SendError> {
        Self::create(self, path, object).map(drop).map_err(SendError::from)
    }

    fn patch(&self, path: &str, change: &Value) -> Result<(), SendError> {
        Self::patch(self, path, change).map(drop).map_err(SendError::from)
    }
}

impl From<ApiError> for SendError {
    fn from(error: ApiError) -> Self {
        match &error {
            ApiError::Transport { .. } => Self::Unreachable(error.to_string()),
            ApiError::Rejected { status: 404, .. } => Self::NotFound,
            ApiError::Rejected { .. } | ApiError::Unreadable { .. } => Self::Rejected(error.to_string()),
        }
    }
}

/// Sends recorded Events.
#[derive(Debug)]
pub struct EventSender<S> {
    sink: S,
    aggregator: EventAggregator,
}

impl<S: EventSink> EventSender<S> {
    /// Sends to `sink` on behalf of `reporter`.
    pub fn new(sink: S, reporter: Reporter) -> Self {
        Self { sink, aggregator: EventAggregator::new(reporter) }
    }

    /// Sends until the last recorder is dropped.
    pub fn run(&mut self, records: &Receiver<EventRecord>) {
        self.run_checking_every(SERIES_CHECK_INTERVAL, records);
    }

    /// Checks series however much there is to send: an Event every minute must not keep other series from being refreshed and
    /// closed.
    pub(super) fn run_checking_every(&mut self, period: Duration, records: &Receiver<EventRecord>) {
        let mut next_check = Instant::now() + period;
        loop {
            match records.recv_timeout(next_check.saturating_duration_since(Instant::now())) {
                Ok(record) => {
                    if let Some(write) = self.aggregator.record(record) {
                        self.send(&write);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if next_check <= Instant::now() {
                for write in self.aggregator.refresh_series(Moment::now()) {
                    self.send(&write);
                }
                next_check = Instant::now() + period;
            }
        }
    }

    /// Retries until the write succeeds, is rejected, or has failed too often.
    pub fn send(&self, write: &EventWrite) {
        for attempts_left in (0..MAX_ATTEMPTS).rev() {
            let problem = match self.attempt(write) {
                Ok(()) => return,
                Err(SendError::NotFound) => match write {
                    EventWrite::Patch { fallback, .. } => return self.send(fallback),
                    EventWrite::Create { .. } => "the namespace does not exist".to_owned(),
                },
                Err(SendError::Unreachable(_)) if attempts_left > 0 => {
                    self.sink.pause(RETRY_DELAY + jitter());
                    continue;
                }
                Err(SendError::Unreachable(problem) | SendError::Rejected(problem)) => problem,
            };
            info!(v = 1, err = problem, "Cannot write an Event");
            return;
        }
    }

    fn attempt(&self, write: &EventWrite) -> Result<(), SendError> {
        match write {
            EventWrite::Create { path, event } => self.sink.create(path, event),
            EventWrite::Patch { path, change, .. } => self.sink.patch(path, change),
        }
    }
}

/// Up to a quarter of the delay, so that nodes that lost the API server together do not return together.
fn jitter() -> Duration {
    let nanos = Timestamp::now().subsec_nanosecond().unsigned_abs();
    RETRY_DELAY / 4 * (nanos % 1000) / 1000
}
