//! Pairs of fake dataplanes that record their calls.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use ferrule_model::IpFamily;
use ferrule_testkit::World;

use super::*;

/// A dataplane that answers as its test says, and records every call.
#[derive(Clone)]
struct Fake {
    name: &'static str,
    calls: Arc<Mutex<Vec<String>>>,
    /// What a sync reports; without one it fails.
    report: Option<SyncReport>,
    cost: Cost,
    verify_interval: Option<Duration>,
    /// Whether it ends flows itself.
    ends_flows: bool,
    /// How long it takes to shut down.
    drain_time: Duration,
}

/// Two that share a record of their calls.
fn fakes() -> (Fake, Fake) {
    let fake = Fake {
        name: "first",
        calls: Arc::default(),
        report: Some(SyncReport::default()),
        cost: Cost::Cpu,
        verify_interval: None,
        ends_flows: false,
        drain_time: Duration::ZERO,
    };
    (fake.clone(), Fake { name: "second", ..fake })
}

impl Fake {
    fn record(&self, call: &str) {
        self.calls.lock().expect("calls").push(format!("{} {call}", self.name));
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.calls.lock().expect("calls"))
    }

    fn defers(self, objects: usize, after: Duration) -> Self {
        let deferred = Some(Deferred { objects, after });
        Self { report: Some(SyncReport { deferred, ..SyncReport::default() }), ..self }
    }

    fn reported(&self) -> Result<SyncReport, BackendError> {
        self.report.clone().ok_or_else(|| BackendError::new(self.name))
    }
}

impl Dataplane for Fake {
    fn sync(&mut self, _: &FamilyPlan, _: Trigger<'_>) -> Result<SyncReport, BackendError> {
        self.record("synced");
        self.reported()
    }

    fn run_deferred(&mut self) -> Result<SyncReport, BackendError> {
        self.record("ran what was deferred");
        self.reported().map(|report| SyncReport { deferred: None, removed: 1, ..report })
    }

    fn diff(&mut self, _: &FamilyPlan) -> Result<Patch, BackendError> {
        self.reported().map(|_| Patch { lines: vec![self.name.to_owned()] })
    }

    fn verify_interval(&self) -> Option<Duration> {
        self.verify_interval
    }

    fn cost(&self) -> Cost {
        self.cost
    }

    fn forget_flows(&mut self, stale: StaleFlows) -> StaleFlows {
        self.record(if stale.is_empty() { "got no flows" } else { "got flows" });
        if self.ends_flows { StaleFlows::default() } else { stale }
    }

    fn shutdown(&mut self, grace: Duration) {
        self.record(if grace.is_zero() { "got no grace" } else { "got grace" });
        let began = Instant::now();
        while began.elapsed() < self.drain_time.min(grace) {
            thread::yield_now();
        }
    }
}

fn world() -> World {
    let world = World::of("node a addresses 192.0.2.1\nservice dns clusterIP 10.96.0.10 port 53→5353/udp");
    world.expect("a world")
}

fn plan(world: &World) -> &FamilyPlan {
    world.family(IpFamily::V4).expect("IPv4 is served")
}

#[test]
fn both_are_synced_even_if_one_fails() {
    let world = world();
    for (first_works, second_works, expected) in
        [(true, true, None), (false, true, Some("first")), (true, false, Some("second"))]
    {
        let (mut first, mut second) = fakes();
        first.report = first.report.filter(|_| first_works);
        second.report = second.report.filter(|_| second_works);
        let record = first.clone();
        let synced = Pair::new(first, second).sync(plan(&world), Trigger::verify());
        assert_eq!(synced.err().map(|error| error.to_string()).as_deref(), expected);
        assert_eq!(record.calls(), ["first synced", "second synced"]);
    }
}

#[test]
fn reports_are_added_up_and_the_outcome_is_the_one_that_did_more() {
    let world = world();
    let (mut first, mut second) = fakes();
    let report = |outcome, number| SyncReport {
        written: number,
        removed: number,
        commits: number,
        outcome,
        quarantined: number,
        ..SyncReport::default()
    };
    for (one, other) in [(first.clone(), second.clone()), (second.clone(), first.clone())] {
        first = Fake { report: Some(report(SyncOutcome::Incremental, 1)), ..one };
        second = Fake { report: Some(report(SyncOutcome::Rewritten, 2)), ..other };
        let merged = Pair::new(first.clone(), second.clone()).sync(plan(&world), Trigger::verify());
        assert_eq!(merged.expect("a sync"), report(SyncOutcome::Rewritten, 3));
    }
}

#[test]
fn what_either_defers_is_run_once_after_the_longer_time() {
    let (short, long) = (Duration::from_millis(20), Duration::from_mins(1));
    let (world, (first, second)) = (world(), fakes());
    let record = first.clone();
    let mut pair = Pair::new(first.clone().defers(2, long), second.clone().defers(3, short));
    let report = pair.sync(plan(&world), Trigger::verify()).expect("a sync");
    assert_eq!(report.deferred, Some(Deferred { objects: 5, after: long }));
    record.calls();
    assert_eq!(pair.run_deferred().expect("a run").removed, 2);
    assert_eq!(record.calls(), ["first ran what was deferred", "second ran what was deferred"]);
    assert_eq!(pair.run_deferred().expect("a run").removed, 0);
    assert_eq!(record.calls(), [""; 0], "nothing is left");

    let mut pair = Pair::new(first, second.defers(3, short));
    let report = pair.sync(plan(&world), Trigger::verify()).expect("a sync");
    assert_eq!(report.deferred, Some(Deferred { objects: 3, after: short }));
    record.calls();
    pair.run_deferred().expect("a run");
    assert_eq!(record.calls(), ["second ran what was deferred"]);
}

#[test]
fn flows_that_the_first_does_not_end_are_left_to_the_second_and_then_to_conntrack() {
    let world = world();
    for (first_ends, second_ends, expected) in [
        (false, false, ["first got flows", "second got flows"]),
        (true, false, ["first got flows", "second got no flows"]),
        (false, true, ["first got flows", "second got flows"]),
    ] {
        let (mut first, mut second) = fakes();
        (first.ends_flows, second.ends_flows) = (first_ends, second_ends);
        let record = first.clone();
        let left = Pair::new(first, second).forget_flows(StaleFlows::from_plan(plan(&world)));
        assert_eq!(left.is_empty(), first_ends || second_ends);
        assert_eq!(record.calls(), expected);
    }
}

#[test]
fn the_grace_time_is_for_both_together() {
    let grace = Duration::from_millis(20);
    for (drain_time, expected) in [(Duration::ZERO, "second got grace"), (2 * grace, "second got no grace")] {
        let (first, second) = fakes();
        let record = first.clone();
        let mut pair = Pair::new(Fake { drain_time, ..first }, second);
        // Without anything to drain an hour is enough on the slowest machine.
        pair.shutdown(if drain_time.is_zero() { Duration::from_hours(1) } else { grace });
        assert_eq!(record.calls(), ["first got grace", expected]);
    }
}

#[test]
fn they_are_verified_as_often_and_paced_as_carefully_as_either_needs() {
    let (first, second) = fakes();
    let (often, seldom) = (Some(Duration::from_secs(1)), Some(Duration::from_secs(9)));
    for (one, other, expected) in [(None, None, None), (None, often, often), (seldom, often, often)] {
        let first = Fake { verify_interval: one, ..first.clone() };
        let pair = Pair::new(first, Fake { verify_interval: other, ..second.clone() });
        assert_eq!(pair.verify_interval(), expected);
    }
    assert_eq!(Pair::new(first.clone(), second.clone()).cost(), Cost::Cpu);
    let slow = Fake { cost: Cost::WallClock, ..second.clone() };
    assert_eq!(Pair::new(first.clone(), slow.clone()).cost(), Cost::WallClock);
    assert_eq!(Pair::new(slow, first.clone()).cost(), Cost::WallClock);
    let world = world();
    let patch = Pair::new(first, second).diff(plan(&world)).expect("a diff");
    assert_eq!(patch.lines, ["first", "second"]);
}
