//! Aggregates repeated Events: the first record creates an Event, the second makes it a series, later ones are counted, and
//! the count is written periodically.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::record::{EventRecord, Regarding, Reporter, Severity, series};
use crate::health::Moment;

/// A series ends when nothing happened for this long.
const SERIES_IDLE_TIMEOUT: Duration = Duration::from_mins(6);
/// How often a continuing series is written.
const SERIES_REFRESH_INTERVAL: Duration = Duration::from_mins(30);

/// A write to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventWrite {
    /// Creates an Event.
    Create {
        /// The path of the collection.
        path: String,
        /// The whole object.
        event: Value,
    },
    /// Turns an Event into a series, or updates its count.
    Patch {
        /// The path of the Event.
        path: String,
        /// A merge patch.
        change: Value,
        /// Creates the whole Event if it is gone: API servers keep Events for an hour.
        fallback: Box<EventWrite>,
    },
}

/// The Events of the last minutes.
#[derive(Debug)]
pub struct EventAggregator {
    reporter: Reporter,
    recent: BTreeMap<Key, Series>,
}

/// Records with the same key belong to one series.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    severity: Severity,
    action: &'static str,
    reason: &'static str,
    regarding: Regarding,
}

#[derive(Debug)]
struct Series {
    first: EventRecord,
    count: u32,
    last: Moment,
    written_count: u32,
    written_at: Moment,
}

impl EventAggregator {
    /// An aggregator without records.
    pub fn new(reporter: Reporter) -> Self {
        Self { reporter, recent: BTreeMap::new() }
    }

    /// Adds a record and returns the write that it needs, if any.
    pub fn record(&mut self, record: EventRecord) -> Option<EventWrite> {
        let at = record.at;
        let key = Key {
            severity: record.severity,
            action: record.action,
            reason: record.reason,
            regarding: record.regarding.clone(),
        };
        let Some(series) = self.recent.get_mut(&key).filter(|series| !series.is_over(at)) else {
            let write = create(&record, &self.reporter);
            let series = Series { first: record, count: 1, last: at, written_count: 1, written_at: at };
            self.recent.insert(key, series);
            return Some(write);
        };
        series.count = series.count.saturating_add(1);
        series.last = at;
        (series.count == 2).then(|| series.patch(&self.reporter, at))
    }

    /// Writes of series that are due or over; the latter are removed.
    pub fn refresh_series(&mut self, now: Moment) -> Vec<EventWrite> {
        let mut writes = Vec::new();
        for series in self.recent.values_mut().filter(|series| series.count > series.written_count) {
            if series.is_over(now) || series.written_at.until(now) >= SERIES_REFRESH_INTERVAL {
                writes.push(series.patch(&self.reporter, now));
            }
        }
        self.recent.retain(|_, series| !series.is_over(now));
        writes
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.recent.len()
    }
}

impl Series {
    fn is_over(&self, now: Moment) -> bool {
        self.last.until(now) >= SERIES_IDLE_TIMEOUT
    }

    fn patch(&mut self, reporter: &Reporter, now: Moment) -> EventWrite {
        (self.written_count, self.written_at) = (self.count, now);
        let series = series(self.count, self.last.wall);
        let mut whole = create(&self.first, reporter);
        if let EventWrite::Create { event, .. } = &mut whole {
            event["series"] = series.clone();
        }
        EventWrite::Patch {
            path: format!("{}/{}", self.first.collection(), self.first.event_name()),
            change: json!({ "series": series }),
            fallback: Box::new(whole),
        }
    }
}

fn create(record: &EventRecord, reporter: &Reporter) -> EventWrite {
    EventWrite::Create { path: record.collection(), event: record.to_json(reporter) }
}
