//! An API server that is not one, or not the right one, or means harm: what is known stays in effect.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

#[path = "api_words/log.rs"]
#[expect(dead_code, reason = "other tests ask it more")]
mod log;

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ferrule_model::{Change, NodeName, ObjectKind};
use ferrule_testkit::scripted_server::{Reply, Request, ScriptedServer, usual};
use ferrule_watch::MassRemoval;
use ferrule_watch::server::{
    ApiAccess, Encoding, RequestRate, SecretUrl, ServerConfig, ServerSource, SourceEvent, Traffic,
};
use log::Log;
use serde_json::{Value, json};

/// Far longer than anything takes, backing off included.
const PATIENCE: Duration = Duration::from_mins(1);
const SERVICES: usize = 40;

fn services(count: usize) -> Vec<Value> {
    let service = |nth: usize| {
        json!({ "metadata": { "name": format!("web-{nth}"), "namespace": "shop", "resourceVersion": "5" },
                "spec": { "clusterIP": format!("10.96.0.{}", nth + 1), "ports": [{ "port": 80 }] } })
    };
    (0..count).map(service).collect()
}

/// A source on a scripted server, and everything it says.
struct Watcher {
    server: ScriptedServer,
    heard: Receiver<SourceEvent>,
    events: Vec<SourceEvent>,
    log: Log,
    counted: Arc<Mutex<Vec<Traffic>>>,
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
        };
        let (tell, heard) = channel();
        let (log, counted) = (Log::default(), Arc::new(Mutex::new(Vec::new())));
        let counting = Arc::clone(&counted);
        let source = log.record(|| {
            let sink = move |event| drop(tell.send(event));
            let count = move |traffic: &Traffic| counting.lock().unwrap().push(traffic.clone());
            ServerSource::start_counted(&config, &NodeName::new("a"), sink, count).unwrap()
        });
        Self { server, heard, events: Vec::new(), log, counted, _source: source }
    }

    /// One that serves so many Services and then ends every watch of them, so that it is asked for a list again.
    fn with_services() -> Self {
        let mut watcher = Self::new("", |request| usual(request, &services(SERVICES), 7));
        watcher.until("the Services", |events| put(events) == SERVICES);
        watcher.until("all is in sync", |events| events.contains(&SourceEvent::InSync(ObjectKind::Service)));
        watcher
    }

    #[track_caller]
    fn until(&mut self, what: &str, enough: impl Fn(&[SourceEvent]) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !enough(&self.events) {
            match self.heard.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(event) => self.events.push(event),
                Err(why) => panic!("waited for {what}: {why}; heard: {:#?}", self.events),
            }
        }
    }

    #[track_caller]
    fn trouble(&mut self, kind: ObjectKind) -> String {
        let message = |events: &[SourceEvent]| {
            events.iter().find_map(|event| match event {
                SourceEvent::Trouble { kind: of, message } if *of == kind => Some(message.clone()),
                _ => None,
            })
        };
        self.until("trouble", |events| message(events).is_some());
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

/// A server whose watches of Services have expired, and whose new list of them is this.
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

/// Ends the watches that are open, so that the new script is met.
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
        let message = watcher.trouble(ObjectKind::Service);
        assert!(message.contains("not \"v1 ServiceList\""), "{message}");
        assert_eq!(removed(&watcher.events), 0, "{other}");
    }
}

#[test]
fn a_list_of_another_kind_is_not_told_piece_by_piece_either() {
    let pods: Vec<Value> = services(1000);
    let list = json!({ "kind": "PodList", "apiVersion": "v1", "metadata": { "resourceVersion": "9" }, "items": pods });
    let mut watcher = Watcher::new("", move |request| match request {
        request if request.is_about("services") && !request.is_watch() => Reply::json(&list),
        request => usual(request, &[], 7),
    });
    watcher.trouble(ObjectKind::Service);
    assert_eq!(put(&watcher.events), 0);
}

#[test]
fn most_services_gone_at_once_is_said_before_it_happens() {
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
    let said =
        watcher.events.iter().position(|event| *event == SourceEvent::MassRemoval(mass.clone())).unwrap();
    assert_eq!(removed(&watcher.events[..said]), 0, "it is said first");
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
    let message = watcher.trouble(ObjectKind::Service);
    let counted = format!("{:?}", watcher.counted.lock().unwrap());
    for text in [message, watcher.log.visible().concat(), counted, format!("{:?}", watcher.events)] {
        assert!(!text.contains("hunter2") && !text.contains("admin"), "{text}");
    }
}

/// Whatever comes over the wire costs one line and another try, and nothing that is known.
#[test]
fn answers_that_are_none_cost_nothing_that_is_known() {
    let answers: [(&str, Reply); 9] = [
        ("nothing", Reply::Raw(Vec::new())),
        ("half a head", Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-".to_vec())),
        ("another protocol", Reply::Raw(b"220 mail.example ESMTP\r\n".to_vec())),
        ("a body cut in the middle", Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n{\"kind\":\"Serv".to_vec())),
        ("a redirect", Reply::refusal(302, &["location: http://127.0.0.1:1/elsewhere"])),
        ("patience without end", Reply::refusal(429, &["retry-after: 99999999999999999999"])),
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
        let message = watcher.trouble(ObjectKind::Service);
        assert!(!message.contains('\n') && message.len() < 1000, "{what}: {message}");
        assert_eq!(removed(&watcher.events), 0, "{what}");
        let elsewhere = |request: &Request| request.target.contains("elsewhere");
        assert!(!watcher.server.requests().iter().any(elsewhere), "{what}: a redirect is followed");
    }
}
