//! What was told already: the first time is an Event, the second makes it a series, later ones are only counted, and the
//! count is told now and then.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::shape::{Occurrence, Regarding, Reporter, Severity, series};
use crate::health::Moment;

/// A series ends when nothing happened for this long.
const IDLE: Duration = Duration::from_mins(6);
/// A series that goes on is told again this often.
const REFRESH: Duration = Duration::from_mins(30);

/// What is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// An Event is created in a collection.
    Create {
        /// The collection.
        path: String,
        /// The Event.
        event: Value,
    },
    /// An Event becomes a series, or a longer one.
    Patch {
        /// The Event.
        path: String,
        /// What changes.
        change: Value,
        /// The whole Event, in case that it is gone: API servers keep them for an hour.
        otherwise: Box<Deed>,
    },
}

/// What was told already.
#[derive(Debug)]
pub struct Book {
    reporter: Reporter,
    told: BTreeMap<Key, Told>,
}

/// What makes two occurrences the same.
type Key = (Severity, &'static str, &'static str, Regarding);

#[derive(Debug)]
struct Told {
    first: Occurrence,
    count: u32,
    last: Moment,
    /// What of the count was sent, and when.
    sent: (u32, Moment),
}

impl Book {
    /// Nothing was told yet.
    pub fn new(reporter: Reporter) -> Self {
        Self { reporter, told: BTreeMap::new() }
    }

    /// Takes down an occurrence; says what to send about it, if anything.
    pub fn record(&mut self, occurrence: Occurrence) -> Option<Deed> {
        let key = (occurrence.severity, occurrence.action, occurrence.reason, occurrence.regarding.clone());
        let at = occurrence.at;
        let Some(told) = self.told.get_mut(&key).filter(|told| !is_over(told, at)) else {
            let deed = create(&occurrence, &self.reporter);
            self.told.insert(key, Told { first: occurrence, count: 1, last: at, sent: (1, at) });
            return Some(deed);
        };
        told.count = told.count.saturating_add(1);
        told.last = at;
        (told.count == 2).then(|| told.report(&self.reporter, at))
    }

    /// Series to tell again, and those that are over with what they came to.
    pub fn tend(&mut self, now: Moment) -> Vec<Deed> {
        let mut deeds = Vec::new();
        for told in self.told.values_mut().filter(|told| told.count > told.sent.0) {
            if is_over(told, now) || told.sent.1.until(now) >= REFRESH {
                deeds.push(told.report(&self.reporter, now));
            }
        }
        self.told.retain(|_, told| !is_over(told, now));
        deeds
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.told.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.told.is_empty()
    }
}

impl Told {
    fn report(&mut self, reporter: &Reporter, now: Moment) -> Deed {
        self.sent = (self.count, now);
        let series = series(self.count, self.last.shown);
        let mut whole = create(&self.first, reporter);
        if let Deed::Create { event, .. } = &mut whole {
            event["series"] = series.clone();
        }
        Deed::Patch {
            path: format!("{}/{}", self.first.collection(), self.first.event_name()),
            change: json!({ "series": series }),
            otherwise: Box::new(whole),
        }
    }
}

fn create(occurrence: &Occurrence, reporter: &Reporter) -> Deed {
    Deed::Create { path: occurrence.collection(), event: occurrence.to_json(reporter) }
}

fn is_over(told: &Told, now: Moment) -> bool {
    told.last.until(now) >= IDLE
}
