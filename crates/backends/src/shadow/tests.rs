//! What counts as a difference, and what is said of it.

use std::sync::{Mutex, PoisonError};

use ferrule_testkit::World;

use super::*;

/// A dataplane that finds what a test says.
struct Finding(Arc<Mutex<Vec<String>>>);

impl Dataplane for Finding {
    fn sync(&mut self, _: &FamilyPlan, _: Trigger<'_>) -> Result<SyncReport, BackendError> {
        Err(BackendError::new("writing in shadow mode"))
    }

    fn diff(&mut self, _: &FamilyPlan) -> Result<Patch, BackendError> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if lines == ["error"] { Err(BackendError::new("reading")) } else { Ok(Patch { lines }) }
    }

    fn verify_interval(&self) -> Option<Duration> {
        None
    }
}

/// What looks, and what it will find.
fn looking(settle_time: Duration) -> (Looking, Arc<Mutex<Vec<String>>>, FamilyPlan) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let found = Arc::clone(&lines);
    let reader = KernelReader::new(move |_| Ok(Box::new(Finding(Arc::clone(&found)))));
    let mut world = World::default();
    world.run_proxy("mode nftables").expect("settings");
    world.say("node a addresses 192.0.2.1").expect("a node");
    world.settle();
    let plan = world.family(IpFamily::V4).expect("IPv4 is served").clone();
    (Looking::new(IpFamily::V4, reader, settle_time), lines, plan)
}

fn set(lines: &Mutex<Vec<String>>, now: &[&str]) {
    *lines.lock().unwrap_or_else(PoisonError::into_inner) =
        now.iter().map(|line| (*line).to_owned()).collect();
}

fn noted(report: &SyncReport) -> Vec<&str> {
    report.notes.iter().map(|note| note.detail.as_deref().unwrap_or(note.message)).collect()
}

#[test]
fn a_difference_counts_once_it_has_lasted() {
    let (mut looking, ..) = looking(Duration::from_secs(30));
    let began = Instant::now();
    let mut after = |seconds: u64, lines: &[&str]| {
        let lines = lines.iter().map(|line| (*line).to_owned()).collect();
        looking.take(lines, began + Duration::from_secs(seconds)).into_values().collect::<Vec<_>>()
    };
    assert!(after(0, &["a"]).is_empty());
    assert!(after(29, &["a", "b"]).is_empty());
    assert_eq!(after(30, &["a", "b"]), ["a"]);
    assert!(after(40, &["b"]).is_empty());
    assert_eq!(after(59, &["a", "b"]), ["b"], "a came back and begins again");
}

#[test]
fn what_lasts_is_noted_once_and_so_is_its_end() {
    let (mut looking, lines, plan) = looking(Duration::ZERO);
    let mut verify = || looking.sync(&plan, Trigger::verify()).expect("a comparison");
    set(&lines, &["a"]);
    let first = verify();
    assert_eq!((noted(&first), first.differing), (vec!["a"], 1));
    let second = verify();
    assert_eq!((noted(&second), second.differing), (Vec::new(), 1));
    set(&lines, &[]);
    let third = verify();
    assert_eq!((noted(&third), third.differing), (vec!["This node does what is planned"], 0));
}

#[test]
fn many_differences_are_few_lines() {
    let (mut looking, lines, plan) = looking(Duration::ZERO);
    let many: Vec<String> = (0..1000).map(|number| format!("{number:04}")).collect();
    set(&lines, &many.iter().map(String::as_str).collect::<Vec<_>>());
    let report = looking.sync(&plan, Trigger::verify()).expect("a comparison");
    assert_eq!((report.notes.len(), report.differing), (MAX_NOTES + 1, 1000));
    assert_eq!(report.notes.last().and_then(|note| note.detail.as_deref()), Some("990"));
}

#[test]
fn a_change_alone_is_not_compared_and_changes_no_count() {
    let (mut looking, lines, plan) = looking(Duration::ZERO);
    set(&lines, &["a"]);
    looking.sync(&plan, Trigger::verify()).expect("a comparison");
    set(&lines, &[]);
    let unchanged = ferrule_plan::PlanDelta::default();
    let report = looking.sync(&plan, Trigger::Changed(&unchanged)).expect("nothing to do");
    assert_eq!((report.differing, report.written, report.samples.len()), (1, 0, 0));
}

#[test]
fn userspace_mode_has_nothing_to_compare() {
    let mode = crate::backend(ProxyMode::Userspace);
    let mut shadow = Shadow::of(mode, Duration::ZERO);
    let options = ModeOptions {
        sync_period: Duration::from_secs(30),
        localhost_node_ports: false,
        relayed_localhost_node_ports: false,
        node_port_blocks: Vec::new(),
        ipvs: crate::IpvsOptions::default(),
        userspace: crate::UserspaceOptions::default(),
    };
    let Err(error) = shadow.open(&[IpFamily::V4], &options) else { panic!("it opened") };
    assert!(error.to_string().contains("userspace"), "{error}");
}

#[test]
fn a_packet_that_meets_something_else_each_time_has_not_agreed_in_between() {
    let (mut looking, ..) = looking(Duration::from_secs(30));
    let began = Instant::now();
    let mut after = |seconds: u64, found: &str| {
        let line = format!("10.96.0.1:80/TCP from a local pod: planned {found}, found dropped");
        looking.take(vec![line], began + Duration::from_secs(seconds)).len()
    };
    assert_eq!([after(0, "10.0.0.1:80"), after(15, "10.0.0.2:80"), after(30, "10.0.0.3:80")], [0, 0, 1]);
}

#[test]
fn a_comparison_that_failed_is_made_up_for_whatever_the_next_sync_is_for() {
    let (mut looking, lines, plan) = looking(Duration::ZERO);
    set(&lines, &["error"]);
    assert!(looking.sync(&plan, Trigger::verify()).is_err());
    let unchanged = ferrule_plan::PlanDelta::default();
    assert!(looking.sync(&plan, Trigger::Changed(&unchanged)).is_err(), "nothing was compared yet");
    set(&lines, &["a"]);
    let report = looking.sync(&plan, Trigger::Changed(&unchanged)).expect("a comparison");
    assert_eq!((report.differing, report.samples.len()), (1, 2));
}
