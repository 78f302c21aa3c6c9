//! What happened lately: how many syncs and changes in each ten seconds of the last hour, and the events worth a line.
//!
//! The loop records at constant cost, and what is kept is bounded. Times are by the monotonic clock, so that a clock that is set
//! moves nothing. Who listens is woken by a number that grows ([`History::subscribe`]); what it reads is in `questions/history.rs`.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ferrule_backends::SyncReport;
use ferrule_model::{IpFamily, PerFamily};
use tokio::sync::watch;

use crate::health::Moment;

/// The time of one bucket.
pub const BUCKET: Duration = Duration::from_secs(10);
/// An hour of them.
const MAX_BUCKETS: u64 = 360;
/// Repairs, failures and outages. Refusals have a ring of their own, since any tenant can cause them.
const MAX_EVENTS: usize = 100;
/// The text of an event ends here.
const MAX_CHARACTERS: usize = 400;

/// What happened lately, shared between the loop and the servers.
#[derive(Debug)]
pub struct History {
    began: Instant,
    kept: Mutex<Kept>,
    version: watch::Sender<u64>,
}

/// All that is kept.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// Since the start.
    pub totals: Counts,
    /// Whether the last sync of a family succeeded.
    pub in_sync: PerFamily<bool>,
    /// Buckets in which something happened, by their number since the start, oldest first.
    pub buckets: VecDeque<(u64, Counts)>,
    /// Repairs, failures and outages, oldest first.
    pub events: VecDeque<Notable>,
    /// What could not be used, oldest first.
    pub refusals: VecDeque<Notable>,
}

/// How much happened in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Objects that changed.
    pub changes: u64,
    /// Syncs that succeeded, each family's own.
    pub syncs: u64,
    /// Syncs that failed.
    pub failures: u64,
    /// Syncs that put back what another program had changed.
    pub repairs: u64,
    /// Fields, objects or rules that could not be used.
    pub refusals: u64,
    /// Objects of the kernel that were written or removed.
    pub written: u64,
    /// The longest sync.
    pub longest: Duration,
}

/// An event worth a line.
#[derive(Clone, Debug)]
pub struct Notable {
    /// When.
    pub at: Moment,
    /// Which kind.
    pub kind: NotableKind,
    /// The family it is about, if it is about one.
    pub family: Option<IpFamily>,
    /// What happened. Foreign text may be in it.
    pub text: String,
    /// The program that caused it, where that is known.
    pub by: Option<String>,
}

/// The kinds of events worth a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotableKind {
    /// The first sync of a family.
    Started,
    /// What another program had changed was put back.
    Repair,
    /// A sync failed.
    Failure,
    /// Rules were rejected, an object or field could not be used.
    Refusal,
    /// A kind of objects cannot be watched.
    Outage,
    /// It can be watched again.
    Recovery,
}

impl NotableKind {
    /// The word in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Repair => "repair",
            Self::Failure => "failure",
            Self::Refusal => "refusal",
            Self::Outage => "outage",
            Self::Recovery => "recovery",
        }
    }
}

/// An event about to be recorded.
#[derive(Debug)]
pub struct Happened<'a> {
    /// Which kind.
    pub kind: NotableKind,
    /// The family it is about.
    pub family: Option<IpFamily>,
    /// What happened.
    pub text: &'a str,
    /// Who did it.
    pub by: Option<&'a str>,
}

impl Default for History {
    fn default() -> Self {
        Self { began: Instant::now(), kept: Mutex::default(), version: watch::Sender::new(0) }
    }
}

impl History {
    /// An object changed.
    pub fn changed(&self) {
        self.count(Instant::now(), |counts| counts.changes += 1);
    }

    /// A sync of a family succeeded.
    pub fn synced(&self, family: IpFamily, report: &SyncReport, took: Duration) {
        let written = report.written + report.removed;
        self.count(Instant::now(), |counts| {
            counts.syncs += 1;
            counts.written += written as u64;
            counts.longest = counts.longest.max(took);
        });
        // In shadow mode a comparison can succeed and find differences.
        self.lock().in_sync.set(family, report.differing == 0);
        self.announce();
    }

    /// Something worth a line happened.
    pub fn note(&self, happened: &Happened<'_>) {
        self.count(Instant::now(), |counts| match happened.kind {
            NotableKind::Repair => counts.repairs += 1,
            NotableKind::Failure => counts.failures += 1,
            NotableKind::Refusal => counts.refusals += 1,
            NotableKind::Started | NotableKind::Outage | NotableKind::Recovery => {}
        });
        let mut kept = self.lock();
        if let (NotableKind::Failure, Some(family)) = (happened.kind, happened.family) {
            kept.in_sync.set(family, false);
        }
        let ring = if happened.kind == NotableKind::Refusal { &mut kept.refusals } else { &mut kept.events };
        if ring.len() == MAX_EVENTS {
            ring.pop_front();
        }
        ring.push_back(Notable::of(happened));
        drop(kept);
        self.announce();
    }

    /// Wakes whenever there is something new. The value says nothing else.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// A copy of everything, and the number of the present bucket.
    pub fn kept(&self, now: Instant) -> (Kept, u64) {
        let bucket = self.bucket(now);
        let mut kept = self.lock();
        kept.forget(bucket);
        (kept.clone(), bucket)
    }

    /// The totals since the start, and which families are in sync.
    pub fn summary(&self) -> (Counts, PerFamily<bool>) {
        let kept = self.lock();
        (kept.totals, kept.in_sync)
    }

    fn count(&self, now: Instant, add: impl Fn(&mut Counts)) {
        let bucket = self.bucket(now);
        let mut kept = self.lock();
        add(&mut kept.totals);
        if kept.buckets.back().is_none_or(|(last, _)| *last < bucket) {
            kept.buckets.push_back((bucket, Counts::default()));
            kept.forget(bucket);
        }
        if let Some((_, counts)) = kept.buckets.back_mut() {
            add(counts);
        }
    }

    fn bucket(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.began).as_secs() / BUCKET.as_secs()
    }

    fn announce(&self) {
        self.version.send_modify(|version| *version = version.wrapping_add(1));
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // No panic can happen in the middle of a change.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Drops buckets that are older than an hour.
    fn forget(&mut self, now: u64) {
        while self.buckets.front().is_some_and(|(number, _)| number + MAX_BUCKETS <= now) {
            self.buckets.pop_front();
        }
    }
}

impl Notable {
    fn of(happened: &Happened<'_>) -> Self {
        let &Happened { kind, family, text, by } = happened;
        Self { at: Moment::now(), kind, family, text: cut(text), by: by.map(cut) }
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARACTERS) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(history: &History, kind: NotableKind, text: &str) {
        history.note(&Happened { kind, family: Some(IpFamily::V4), text, by: None });
    }

    #[test]
    fn an_hour_is_kept_and_no_more() {
        let history = History::default();
        let at = |seconds| history.began + Duration::from_secs(seconds);
        for seconds in 0..7200 {
            history.count(at(seconds), |counts| counts.syncs += 1);
        }
        let (kept, now) = history.kept(at(7199));
        assert_eq!((kept.buckets.len(), now, kept.totals.syncs), (360, 719, 7200));
        assert!(kept.buckets.iter().all(|(_, counts)| counts.syncs == 10));
        let (kept, _) = history.kept(at(20_000));
        assert_eq!((kept.buckets.len(), kept.totals.syncs), (0, 7200), "nothing happened for an hour");
    }

    #[test]
    fn refusals_push_out_no_repairs_and_texts_are_cut() {
        let history = History::default();
        note(&history, NotableKind::Repair, "chain a flushed");
        let long = "é".repeat(10_000);
        for _ in 0..1000 {
            note(&history, NotableKind::Refusal, &long);
        }
        let (kept, _) = history.kept(Instant::now());
        assert_eq!((kept.events.len(), kept.refusals.len()), (1, MAX_EVENTS));
        assert_eq!((kept.totals.repairs, kept.totals.refusals), (1, 1000));
        assert_eq!(kept.refusals[0].text.chars().count(), MAX_CHARACTERS + 1);
    }

    #[test]
    fn who_listens_is_woken_by_syncs_and_not_by_changes_alone() {
        let history = History::default();
        let mut listener = history.subscribe();
        history.changed();
        assert!(!listener.has_changed().expect("it is there"));
        history.synced(IpFamily::V4, &SyncReport::default(), Duration::ZERO);
        assert!(listener.has_changed().expect("it is there"));
        listener.mark_unchanged();
        note(&history, NotableKind::Failure, "no room");
        assert!(listener.has_changed().expect("it is there"));
        assert_eq!(history.summary().1.get(IpFamily::V4), Some(&false));
    }
}
