//! What Events look like, when they become series, and what is tried again.

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use ferrule_model::{Diagnostic, ObjectKind, Problem, ServiceName};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::aggregator::{EventAggregator, EventWrite};
use super::*;

fn node() -> NodeName {
    NodeName::new("node-a")
}

fn time(seconds: u32) -> Moment {
    static START: OnceLock<Instant> = OnceLock::new();
    let monotonic = *START.get_or_init(Instant::now) + Duration::from_secs(seconds.into());
    let wall = Timestamp::new(1_800_000_000 + i64::from(seconds), 123_456_789).expect("a time");
    Moment { monotonic, wall }
}

fn reporter() -> Reporter {
    Reporter::on_host("host-1")
}

fn unusable_port(service: &str, port: i64) -> EventTemplate {
    let diagnostic = Diagnostic {
        kind: ObjectKind::Service,
        object: service.to_owned(),
        field: "spec.ports[0].port".to_owned(),
        problem: Problem::NotAPort(port),
    };
    invalid_field(&diagnostic, &node())
}

/// Row: server 3.15
#[test]
fn the_birth_cry_is_kube_proxys() {
    let event = starting(&node()).at(time(0)).to_json(&reporter());
    let expected = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": { "name": "node-a.18fae2769b0fcd15", "namespace": "default" },
        "eventTime": "2027-01-15T08:00:00.123456Z",
        "reportingController": "kube-proxy",
        "reportingInstance": "kube-proxy-host-1",
        "action": "StartKubeProxy",
        "reason": "Starting",
        "regarding": { "kind": "Node", "name": "node-a", "apiVersion": "v1" },
        "type": "Normal",
    });
    assert_eq!(event, expected, "no note, no uid");
}

/// Row: server 3.15
#[test]
fn an_event_about_a_service_lives_in_its_namespace() {
    let service = ServiceName::new("shop/web");
    let template = failed_to_start_service_check(&node(), &service, 32_000, "address in use");
    let record = template.at(time(0));
    assert_eq!(record.collection(), "/apis/events.k8s.io/v1/namespaces/shop/events");
    let event = record.to_json(&reporter());
    assert_eq!(event["metadata"]["namespace"], "shop");
    assert_eq!(
        event["regarding"],
        json!({"kind": "Service", "name": "web", "apiVersion": "v1", "namespace": "shop"})
    );
    assert_eq!(event["type"], "Warning");
    assert_eq!(event["action"], "Listen");
    let note = "node node-a failed to start healthcheck \"shop/web\" on port 32000: address in use";
    assert_eq!(event["note"], note);
}

#[test]
fn a_long_note_is_cut_at_what_an_api_server_takes() {
    let event = host_setup_failed(&node(), "é".repeat(2000)).at(time(0)).to_json(&reporter());
    assert_eq!(event["note"].as_str().map(str::len), Some(1024));
}

/// Row: server 3.15
#[test]
fn the_second_time_makes_a_series_and_later_ones_are_counted() {
    let mut aggregator = EventAggregator::new(reporter());
    let first = aggregator.record(unusable_port("shop/web", 0).at(time(0)));
    assert!(matches!(first, Some(EventWrite::Create { .. })));
    let second = aggregator.record(unusable_port("shop/web", 70_000).at(time(1)));
    let Some(EventWrite::Patch { path, change, .. }) = second else { panic!("no series: {second:?}") };
    assert_eq!(path, "/apis/events.k8s.io/v1/namespaces/shop/events/web.18fae2769b0fcd15");
    let series = |count: u32, last: &str| json!({"series": {"count": count, "lastObservedTime": last}});
    assert_eq!(change, series(2, "2027-01-15T08:00:01.123456Z"));
    for minute in 1..30 {
        assert_eq!(aggregator.record(unusable_port("shop/web", 0).at(time(minute * 60))), None);
        assert_eq!(
            aggregator.refresh_series(time(minute * 60)),
            [],
            "it was told less than half an hour ago"
        );
    }
    let writes = aggregator.refresh_series(time(31 * 60));
    let [EventWrite::Patch { change, .. }] = &writes[..] else { panic!("{writes:?}") };
    assert_eq!(*change, series(31, "2027-01-15T08:29:00.123456Z"));
    assert_eq!(aggregator.refresh_series(time(29 * 60 + 360)), [], "all of it was told");
    assert!(aggregator.len() == 0, "six minutes of silence end a series");
    let anew = aggregator.record(unusable_port("shop/web", 0).at(time(3600)));
    assert!(matches!(anew, Some(EventWrite::Create { .. })));
}

/// Row: server 3.15
#[test]
fn what_a_series_came_to_is_told_when_it_ends() {
    let mut aggregator = EventAggregator::new(reporter());
    for second in 0..5 {
        aggregator.record(unusable_port("shop/web", 0).at(time(second)));
    }
    let writes = aggregator.refresh_series(time(400));
    let [EventWrite::Patch { change, .. }] = &writes[..] else { panic!("{writes:?}") };
    assert_eq!(change["series"]["count"], 5);
    assert!(aggregator.len() == 0);
}

#[test]
fn another_object_or_another_class_is_another_event() {
    let mut aggregator = EventAggregator::new(reporter());
    let ranges = Diagnostic {
        kind: ObjectKind::Service,
        object: "shop/web".to_owned(),
        field: "spec.loadBalancerSourceRanges".to_owned(),
        problem: Problem::RangesCloseIt,
    };
    let templates =
        [unusable_port("shop/web", 0), unusable_port("shop/api", 0), invalid_field(&ranges, &node())];
    for template in templates {
        assert!(matches!(aggregator.record(template.at(time(0))), Some(EventWrite::Create { .. })));
    }
    assert_eq!(aggregator.len(), 3);
}

/// A sink that answers as it is told, and then well.
#[derive(Clone, Default)]
struct Answers(Arc<Mutex<Talk>>);

#[derive(Default)]
struct Talk {
    answers: Vec<SendError>,
    asked: Vec<(&'static str, Value)>,
    paused: Vec<Duration>,
}

impl Answers {
    fn with(answers: Vec<SendError>) -> Self {
        Self(Arc::new(Mutex::new(Talk { answers, ..Talk::default() })))
    }

    fn talk(&self) -> MutexGuard<'_, Talk> {
        self.0.lock().expect("nobody panicked")
    }

    fn answer(&self, how: &'static str, what: &Value) -> Result<(), SendError> {
        let mut talk = self.talk();
        talk.asked.push((how, what.clone()));
        talk.answers.pop().map_or(Ok(()), Err)
    }
}

impl EventSink for Answers {
    fn create(&self, _: &str, object: &Value) -> Result<(), SendError> {
        self.answer("create", object)
    }

    fn patch(&self, _: &str, change: &Value) -> Result<(), SendError> {
        self.answer("patch", change)
    }

    fn pause(&self, time: Duration) {
        self.talk().paused.push(time);
    }
}

fn sent(answers: Vec<SendError>, templates: usize) -> Answers {
    let sink = Answers::with(answers);
    let mut aggregator = EventAggregator::new(reporter());
    let sending = EventSender::new(sink.clone(), reporter());
    for second in 0..templates {
        let second = u32::try_from(second).expect("a small number");
        if let Some(write) = aggregator.record(unusable_port("shop/web", 0).at(time(second))) {
            sending.send(&write);
        }
    }
    sink
}

/// Row: server 3.15
#[test]
fn an_api_server_out_of_reach_is_tried_twelve_times_about_ten_seconds_apart() {
    let unreached = || SendError::Unreachable("connection refused".to_owned());
    let sink = sent(vec![unreached(), unreached()], 1);
    assert_eq!(sink.talk().asked.len(), 3);
    let sink = sent((0..20).map(|_| unreached()).collect(), 1);
    let talk = sink.talk();
    assert_eq!((talk.asked.len(), talk.paused.len()), (12, 11));
    let (least, most) = (Duration::from_secs(10), Duration::from_millis(12_500));
    assert!(talk.paused.iter().all(|pause| (least..=most).contains(pause)), "{:?}", talk.paused);
}

/// Row: server 3.15
#[test]
fn what_is_refused_is_not_tried_again() {
    let sink = sent(vec![SendError::Rejected("forbidden".to_owned())], 1);
    assert_eq!(sink.talk().asked.len(), 1);
}

#[test]
fn a_series_whose_event_is_gone_is_created_anew() {
    let sink = Answers::with(vec![SendError::NotFound]);
    let mut aggregator = EventAggregator::new(reporter());
    aggregator.record(unusable_port("shop/web", 0).at(time(0)));
    let series = aggregator.record(unusable_port("shop/web", 0).at(time(1))).expect("a series");
    EventSender::new(sink.clone(), reporter()).send(&series);
    let talk = sink.talk();
    let [("patch", _), ("create", event)] = &talk.asked[..] else { panic!("{:?}", talk.asked) };
    assert_eq!(event["series"]["count"], 2);
    assert_eq!(event["reason"], "FerruleUnusableField");
}

/// Row: server 3.15
#[test]
fn a_full_queue_loses_the_rest_and_nobody_waits() {
    let (recorder, queue) = channel(node());
    for port in 0..2000 {
        recorder.record(unusable_port("shop/web", port));
    }
    assert_eq!(queue.records.try_iter().count(), QUEUE_CAPACITY);
    drop(queue);
    recorder.record(starting(recorder.node()));
    Recorder::disabled().record(starting(&node()));
}

/// Row: server 3.15
#[test]
fn series_are_looked_after_also_while_others_are_recorded_all_the_time() {
    let sink = Answers::default();
    let mut sending = EventSender::new(sink.clone(), reporter());
    let (inlet, records) = sync_channel(1);
    let watched = sink.clone();
    let recording = std::thread::spawn(move || {
        // Over already, so that all three are told as soon as somebody looks.
        let now = Moment::now();
        let monotonic = now.monotonic.checked_sub(Duration::from_mins(10)).expect("the host runs that long");
        let before = Moment { monotonic, ..now };
        for _ in 0..3 {
            inlet.send(unusable_port("shop/web", 0).at(before)).expect("somebody reads");
        }
        let is_told = || watched.talk().asked.iter().any(|(_, change)| change["series"]["count"] == 3);
        let began = Instant::now();
        while !is_told() && began.elapsed() < Duration::from_secs(20) {
            inlet.send(unusable_port("shop/api", 0).at(Moment::now())).expect("somebody reads");
        }
        is_told()
    });
    sending.run_checking_every(Duration::from_millis(50), &records);
    assert!(recording.join().expect("no panic"), "nobody looked after the series");
}

/// The clock on the wall is set hours ahead or back in between; time passes as before.
#[test]
fn a_clock_that_is_set_neither_ends_a_series_nor_keeps_it_for_ever() {
    for hours in [-5_i64, 5] {
        let set =
            |moment: Moment| Moment { wall: moment.wall + jiff::SignedDuration::from_hours(hours), ..moment };
        let mut aggregator = EventAggregator::new(reporter());
        aggregator.record(unusable_port("shop/web", 0).at(time(0)));
        aggregator.record(unusable_port("shop/web", 0).at(time(1)));
        assert_eq!(
            aggregator.record(unusable_port("shop/web", 0).at(set(time(60)))),
            None,
            "{hours}: counted"
        );
        assert_eq!(aggregator.refresh_series(set(time(120))), [], "{hours}");
        assert_eq!(aggregator.len(), 1, "{hours}: not over");
        let writes = aggregator.refresh_series(set(time(60 + 6 * 60)));
        assert!(
            matches!(&writes[..], [EventWrite::Patch { change, .. }] if change["series"]["count"] == 3),
            "{hours}"
        );
        assert!(aggregator.len() == 0, "{hours}: over");
    }
}
