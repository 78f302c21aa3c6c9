//! A wrong or hostile API server: the last known state stays in effect.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

#[path = "api_dsl/log.rs"]
#[expect(dead_code, reason = "other tests ask it more")]
mod log;

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ferrule_model::{Change, NodeName, ObjectKind};
use ferrule_testkit::scripted_server::{Reply, Request, ScriptedServer, usual};
use ferrule_watch::MassRemoval;
use ferrule_watch::server::{
    ApiAccess, ClientMetric, Encoding, EndpointsApi, RequestRate, SecretUrl, ServerConfig, ServerSource,
    SourceEvent,
};
use log::Log;
use serde_json::{Value, json};

/// Far longer than anything takes, backoff included.
const TIMEOUT: Duration = Duration::from_mins(1);
const SERVICES: usize = 40;

fn services(count: usize) -> Vec<Value> {
    let service = |nth: usize| {
        json!({ "metadata": { "name": format!("web-{nth}"), "namespace": "shop", "resourceVersion": "5" },
                "spec": { "clusterIP": format!("10.96.0.{}", nth + 1), "ports": [{ "port": 80 }] } })
    };
    (0..count).map(service).collect()
}

/// A source on a scripted server, and everything it reports.
struct Watcher {
    server: ScriptedServer,
    events_rx: Receiver<SourceEvent>,
    events: Vec<SourceEvent>,
    log: Log,
    metrics: Arc<Mutex<Vec<ClientMetric>>>,
    _source: ServerSource,
}

impl Watcher {
    fn new(user_info: &str, script: impl FnMut(&Request) -> Reply + Send + 'static) -> Self {
        let server = ScriptedServer::start(script).unwrap();
        let url = format!("http://{user_info}{}", server.address());
        let config = ServerConfig {
            access: ApiAccess::Master { url: SecretUrl::new(&url) },
            rate: RequestRate::Unlimited,
            user_agent: "test".into(),
            encoding: Encoding::Protobuf,
            endpoints_api: EndpointsApi::default(),
        };
        let (events_tx, events_rx) = channel();
        let (log, metrics) = (Log::default(), Arc::new(Mutex::new(Vec::new())));
        let recorded = Arc::clone(&metrics);
        let source = log.record(|| {
            let sink = move |event| drop(events_tx.send(event));
            let record = move |metric: &ClientMetric| recorded.lock().unwrap().push(metric.clone());
            ServerSource::start_with_metrics(&config, &NodeName::new("a"), sink, record).unwrap()
        });
        Self { server, events_rx, events: Vec::new(), log, metrics, _source: source }
    }

    /// A server with [`SERVICES`] Services, all of which were reported.
    fn with_services() -> Self {
        let mut watcher = Self::new("", |request| usual(request, &services(SERVICES), 7));
        watcher.until("the Services", |events| put(events) == SERVICES);
        watcher.until("all is in sync", |events| events.contains(&SourceEvent::InSync(ObjectKind::Service)));
        watcher
    }

    #[track_caller]
    fn until(&mut self, what: &str, is_enough: impl Fn(&[SourceEvent]) -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        while !is_enough(&self.events) {
            match self.events_rx.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(event) => self.events.push(event),
                Err(why) => panic!("waited for {what}: {why}; received: {:#?}", self.events),
            }
        }
    }

    #[track_caller]
    fn until_failed(&mut self, kind: ObjectKind) -> String {
        let message = |events: &[SourceEvent]| {
            events.iter().find_map(|event| match event {
                SourceEvent::WatchFailed { kind: of, message } if *of == kind => Some(message.clone()),
                _ => None,
            })
        };
        self.until("a failure", |events| message(events).is_some());
        message(&self.events).unwrap()
    }
}

fn changes(events: &[SourceEvent]) -> impl Iterator<Item = &Change> {
    events.iter().flat_map(|event| match event {
        SourceEvent::Changes(batch) => &batch.changes[..],
        _ => &[],
    })
}

fn put(events: &[SourceEvent]) -> usize {
    changes(events).filter(|change| matches!(change, Change::Service(_, Some(_)))).count()
}

fn removed(events: &[SourceEvent]) -> usize {
    changes(events).filter(|change| matches!(change, Change::Service(_, None))).count()
}

/// A script whose watches of Services have expired, and whose new list of them is `list`.
fn relisting(list: impl Fn() -> Reply + Send + 'static) -> impl FnMut(&Request) -> Reply + Send + 'static {
    move |request| match request {
        request if request.is_about("services") && request.is_watch() => {
            let status = json!({ "kind": "Status", "apiVersion": "v1", "code": 410, "reason": "Expired" });
            Reply::Watch(vec![json!({ "type": "ERROR", "object": status })])
        }
        request if request.is_about("services") => list(),
        request => usual(request, &[], 9),
    }
}

/// Ends the open watches, so that the new script takes effect.
fn reconnect(watcher: &Watcher, script: impl FnMut(&Request) -> Reply + Send + 'static) {
    watcher.server.follow(script);
    watcher.server.disconnect();
}

#[test]
fn a_list_of_another_kind_removes_nothing() {
    let others = [
        json!({ "kind": "PodList", "apiVersion": "v1", "metadata": { "resourceVersion": "9" }, "items": [] }),
        json!({ "kind": "ServiceList", "apiVersion": "serving.knative.dev/v1",
                "metadata": { "resourceVersion": "9" }, "items": [] }),
        json!({ "items": [], "metadata": { "resourceVersion": "9" } }),
    ];
    for other in others {
        let mut watcher = Watcher::with_services();
        let list = other.clone();
        reconnect(&watcher, relisting(move || Reply::json(&list)));
        let message = watcher.until_failed(ObjectKind::Service);
        assert!(message.contains("not \"v1 ServiceList\""), "{message}");
        assert_eq!(removed(&watcher.events), 0, "{other}");
    }
}

#[test]
fn a_first_list_of_another_kind_is_not_reported_in_chunks_either() {
    let pods: Vec<Value> = services(1000);
    let list = json!({ "kind": "PodList", "apiVersion": "v1", "metadata": { "resourceVersion": "9" }, "items": pods });
    let mut watcher = Watcher::new("", move |request| match request {
        request if request.is_about("services") && !request.is_watch() => Reply::json(&list),
        request => usual(request, &[], 7),
    });
    watcher.until_failed(ObjectKind::Service);
    assert_eq!(put(&watcher.events), 0);
}

#[test]
fn a_mass_removal_is_announced_before_it_happens() {
    let mut watcher = Watcher::with_services();
    let left = SERVICES / 2 - 1;
    reconnect(
        &watcher,
        relisting(move || {
            let list = json!({ "kind": "ServiceList", "apiVersion": "v1", "metadata": { "resourceVersion": "4711" } });
            let mut list = list;
            list["items"] = services(left).into();
            Reply::json(&list)
        }),
    );
    watcher.until("the removal", |events| removed(events) == SERVICES - left);
    let mass = MassRemoval { kind: ObjectKind::Service, removed: SERVICES - left, known: SERVICES };
    let announced =
        watcher.events.iter().position(|event| *event == SourceEvent::MassRemoval(mass.clone())).unwrap();
    assert_eq!(removed(&watcher.events[..announced]), 0, "it is announced first");
    let log = watcher.log.visible();
    let line = log.iter().find(|line| line.contains("more than half")).unwrap();
    for part in ["WARN", "removed=21", "known=40", "4711"] {
        assert!(line.contains(part), "\"{part}\" is not in: {line}");
    }
}

#[test]
fn a_password_in_the_address_is_sent_and_shown_nowhere() {
    let mut watcher = Watcher::new("admin:hunter2@", |request| usual(request, &services(1), 7));
    watcher.until("a Service", |events| put(events) == 1);
    let credentials: Vec<_> = watcher
        .server
        .requests()
        .iter()
        .map(|request| request.header("authorization").map(str::to_owned))
        .collect();
    assert!(
        credentials.iter().all(|header| header.as_deref() == Some("Basic YWRtaW46aHVudGVyMg==")),
        "{credentials:?}"
    );
    reconnect(&watcher, |_| Reply::refusal(401, &[]));
    let message = watcher.until_failed(ObjectKind::Service);
    let metrics = format!("{:?}", watcher.metrics.lock().unwrap());
    for text in [message, watcher.log.visible().concat(), metrics, format!("{:?}", watcher.events)] {
        assert!(!text.contains("hunter2") && !text.contains("admin"), "{text}");
    }
}

/// A malformed response costs one log line and a retry, and removes nothing.
#[test]
fn malformed_responses_remove_nothing() {
    let answers: [(&str, Reply); 9] = [
        ("nothing", Reply::Raw(Vec::new())),
        ("half a head", Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-".to_vec())),
        ("another protocol", Reply::Raw(b"220 mail.example ESMTP\r\n".to_vec())),
        ("a body cut in the middle", Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n{\"kind\":\"Serv".to_vec())),
        ("a redirect", Reply::refusal(302, &["location: http://127.0.0.1:1/elsewhere"])),
        ("an endless retry-after", Reply::refusal(429, &["retry-after: 99999999999999999999"])),
        ("a web page", Reply::Answer { status: 200, headers: vec!["content-type: text/html".into()], body: b"<html>".to_vec() }),
        ("protobuf that is none", Reply::Answer {
            status: 200,
            headers: vec!["content-type: application/vnd.kubernetes.protobuf".into()],
            body: b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff".to_vec(),
        }),
        ("JSON nested without end", Reply::Answer {
            status: 200,
            headers: vec!["content-type: application/json".into()],
            body: [br#"{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[{"metadata":"#.to_vec(), b"[".repeat(200_000)].concat(),
        }),
    ];
    for (what, answer) in answers {
        let mut watcher = Watcher::with_services();
        let reply = answer.clone();
        reconnect(&watcher, relisting(move || reply.clone()));
        let message = watcher.until_failed(ObjectKind::Service);
        assert!(!message.contains('\n') && message.len() < 1000, "{what}: {message}");
        assert_eq!(removed(&watcher.events), 0, "{what}");
        let elsewhere = |request: &Request| request.target.contains("elsewhere");
        assert!(!watcher.server.requests().iter().any(elsewhere), "{what}: a redirect is followed");
    }
}
