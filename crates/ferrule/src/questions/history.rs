//! What happened in the last hour, and the short form of it that listeners get when something did.

use std::time::{Duration, Instant};

use ferrule_model::PerFamily;
use serde_json::{Map, Value, json};

use crate::history::{BUCKET, Counts, History, Kept, Notable};

/// Buckets and events of the last hour.
pub fn answer(history: &History) -> Value {
    let now = Instant::now();
    let (kept, bucket) = history.kept(now);
    let Kept { totals, in_sync, buckets, events, refusals } = kept;
    let buckets: Vec<Value> = buckets
        .iter()
        .map(|(number, counts)| bucket_row(bucket.saturating_sub(*number) * BUCKET.as_secs(), counts))
        .collect();
    let rows = |events: &std::collections::VecDeque<Notable>| -> Vec<Value> {
        events.iter().rev().map(|event| event_row(event, now)).collect()
    };
    json!({
        "bucketSeconds": BUCKET.as_secs(),
        "uptimeSeconds": (bucket + 1) * BUCKET.as_secs(),
        "totals": sums(&totals),
        "inSync": families(in_sync),
        "buckets": buckets,
        "events": rows(&events),
        "refusals": rows(&refusals),
    })
}

/// What a listener gets: one line of JSON.
pub fn summary(history: &History) -> String {
    let (totals, in_sync) = history.summary();
    json!({ "totals": sums(&totals), "inSync": families(in_sync) }).to_string()
}

fn bucket_row(seconds_ago: u64, counts: &Counts) -> Value {
    let mut row = sums(counts);
    row["secondsAgo"] = seconds_ago.into();
    row["longestSeconds"] = counts.longest.as_secs_f64().into();
    row
}

fn sums(counts: &Counts) -> Value {
    let Counts { changes, syncs, failures, repairs, refusals, written, longest: _ } = *counts;
    json!({
        "changes": changes,
        "syncs": syncs,
        "failures": failures,
        "repairs": repairs,
        "refusals": refusals,
        "written": written,
    })
}

fn families(in_sync: PerFamily<bool>) -> Value {
    in_sync.iter().map(|(family, value)| (family.to_string(), (*value).into())).collect::<Map<_, _>>().into()
}

fn event_row(event: &Notable, now: Instant) -> Value {
    let ago: Duration = now.saturating_duration_since(event.at.monotonic);
    json!({
        "at": event.at.wall.to_string(),
        "secondsAgo": ago.as_secs(),
        "kind": event.kind.name(),
        "family": event.family.map(|family| family.to_string()),
        "text": event.text,
        "by": event.by,
    })
}
