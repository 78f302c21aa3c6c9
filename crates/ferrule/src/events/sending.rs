//! The thread that sends: one Event after another, again and again where the API server was not reached.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use ferrule_watch::server::{ApiClient, ApiError};
use jiff::Timestamp;
use serde_json::Value;
use tracing::info;

use super::book::{Book, Deed};
use super::shape::{Occurrence, Reporter};
use crate::health::Moment;

/// How often an Event is tried.
const TRIES: u32 = 12;
/// How long between two tries, but for up to a quarter more.
const BETWEEN_TRIES: Duration = Duration::from_secs(10);
/// How often series are looked after.
const TEND: Duration = Duration::from_mins(1);

/// Where Events go.
pub trait EventSink: Send {
    /// Creates an object in the collection at a path.
    fn create(&self, path: &str, object: &Value) -> Result<(), Unsent>;
    /// Changes the object at a path.
    fn patch(&self, path: &str, change: &Value) -> Result<(), Unsent>;
    /// Waits before another try.
    #[expect(clippy::disallowed_methods, reason = "an API server out of reach shows no state to wait for")]
    fn pause(&self, time: Duration) {
        thread::sleep(time);
    }
}

/// An Event that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// Nobody was reached: worth another try.
    Unreached(String),
    /// There is no such object any more.
    Gone,
    /// It was refused.
    Refused(String),
}

impl EventSink for ApiClient {
    fn create(&self, path: &str, object: &Value) -> Result<(), Unsent> {
        Self::create(self, path, object).map(drop).map_err(Unsent::from)
    }

    fn patch(&self, path: &str, change: &Value) -> Result<(), Unsent> {
        Self::patch(self, path, change).map(drop).map_err(Unsent::from)
    }
}

impl From<ApiError> for Unsent {
    fn from(error: ApiError) -> Self {
        match &error {
            ApiError::Transport { .. } => Self::Unreached(error.to_string()),
            ApiError::Rejected { status: 404, .. } => Self::Gone,
            ApiError::Rejected { .. } | ApiError::Unreadable { .. } => Self::Refused(error.to_string()),
        }
    }
}

/// Sends what was recorded.
#[derive(Debug)]
pub struct Sending<S> {
    sink: S,
    book: Book,
}

impl<S: EventSink> Sending<S> {
    /// To somebody, as somebody.
    pub fn new(sink: S, reporter: Reporter) -> Self {
        Self { sink, book: Book::new(reporter) }
    }

    /// Sends until there is nobody left to record anything.
    pub fn run(&mut self, occurrences: &Receiver<Occurrence>) {
        self.run_tending_every(TEND, occurrences);
    }

    /// Series are looked after however much there is to send: who records something every minute must not keep the series of
    /// others from being refreshed and closed.
    pub(super) fn run_tending_every(&mut self, period: Duration, occurrences: &Receiver<Occurrence>) {
        let mut next_tend = Instant::now() + period;
        loop {
            match occurrences.recv_timeout(next_tend.saturating_duration_since(Instant::now())) {
                Ok(occurrence) => {
                    if let Some(deed) = self.book.record(occurrence) {
                        self.send(&deed);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if next_tend <= Instant::now() {
                for deed in self.book.tend(Moment::now()) {
                    self.send(&deed);
                }
                next_tend = Instant::now() + period;
            }
        }
    }

    /// Tries until it is taken or refused, or often enough.
    pub fn send(&self, deed: &Deed) {
        for tries_left in (0..TRIES).rev() {
            let problem = match self.attempt(deed) {
                Ok(()) => return,
                Err(Unsent::Gone) => match deed {
                    Deed::Patch { otherwise, .. } => return self.send(otherwise),
                    Deed::Create { .. } => "the namespace does not exist".to_owned(),
                },
                Err(Unsent::Unreached(_)) if tries_left > 0 => {
                    self.sink.pause(BETWEEN_TRIES + jitter());
                    continue;
                }
                Err(Unsent::Unreached(problem) | Unsent::Refused(problem)) => problem,
            };
            info!(v = 1, err = problem, "An Event was not taken");
            return;
        }
    }

    fn attempt(&self, deed: &Deed) -> Result<(), Unsent> {
        match deed {
            Deed::Create { path, event } => self.sink.create(path, event),
            Deed::Patch { path, change, .. } => self.sink.patch(path, change),
        }
    }
}

/// Up to a quarter of the pause, so that nodes that lost the API server together do not come back together.
fn jitter() -> Duration {
    let nanos = Timestamp::now().subsec_nanosecond().unsigned_abs();
    BETWEEN_TRIES / 4 * (nanos % 1000) / 1000
}
