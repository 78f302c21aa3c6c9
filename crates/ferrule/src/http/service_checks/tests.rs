//! Ports that change hands, that somebody else has, and that there are too many of.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ferrule_config::gates::Gates;
use ferrule_model::NodeName;
use ferrule_plan::HealthCheck;

use super::*;
use crate::descriptors::Shares;
use crate::events::{self, EventSink, Reporter, SendError};
use crate::metrics::Metrics;

/// Long enough for anything that should happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// Events that were sent.
#[derive(Clone, Default)]
struct Sent(Arc<Mutex<Vec<String>>>);

impl Sent {
    fn notes(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl EventSink for Sent {
    fn create(&self, _: &str, object: &serde_json::Value) -> Result<(), SendError> {
        let note = object["note"].as_str().unwrap_or_default().to_owned();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(note);
        Ok(())
    }

    fn patch(&self, path: &str, _: &serde_json::Value) -> Result<(), SendError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(format!("again: {path}"));
        Ok(())
    }
}

struct Lab {
    status: Arc<Status>,
    runtime: HttpRuntime,
    checks: ServiceChecks,
    events: Sent,
}

impl Lab {
    fn new(listeners: usize) -> Self {
        let metrics = Metrics::new(&Gates::default(), &[]).expect("metrics");
        let (recorder, queue) = events::channel(NodeName::new("node-a"));
        let sent = Sent::default();
        queue.spawn_sender(sent.clone(), Reporter::on_host("host")).expect("a thread");
        let (configz, sync_period) = (String::new(), Duration::from_secs(30));
        let status = Arc::new(Status::new(metrics, recorder, configz, sync_period));
        let runtime = HttpRuntime::start(Shares { connections: 64, listeners }).expect("threads");
        let checks = ServiceChecks::start(Arc::clone(&status), &runtime);
        checks.set_addresses(IpFamily::V4, ListenAddresses::Only(vec![Ipv4Addr::LOCALHOST.into()]));
        Self { status, runtime, checks, events: sent }
    }

    fn set(&self, service: &str, port: Option<u16>) {
        let check = port.map(|port| HealthCheck { port, local_endpoints: 1 });
        self.status.services().slot(IpFamily::V4).get_or_insert_default().set(&name(service), check);
    }

    fn sync(&self) {
        self.checks.sync(IpFamily::V4);
    }
}

fn name(service: &str) -> ServiceName {
    ServiceName::of("shop", service)
}

fn free_port() -> u16 {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    socket.local_addr().expect("an address").port()
}

/// Which Service answers on a port, if one does.
fn answers(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let name = text.split("\"name\": \"").nth(1)?.split('"').next()?;
    Some(name.to_owned())
}

fn until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let give_up = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(Instant::now() < give_up, "never: {what}");
        std::thread::yield_now();
    }
}

fn until_answered(port: u16, service: &str) {
    until(service, || answers(port).filter(|answering| answering == service));
}

#[test]
fn a_port_passes_from_one_service_to_another_in_one_sync() {
    let lab = Lab::new(64);
    let ports = [free_port(), free_port()];
    for round in 0..50 {
        let (one, other) = (ports[round % 2], ports[(round + 1) % 2]);
        lab.set("a", Some(one));
        lab.set("b", Some(other));
        lab.sync();
        until_answered(one, "a");
        until_answered(other, "b");
        lab.set("a", None);
        lab.set("c", Some(one));
        lab.sync();
        until_answered(one, "c");
        lab.set("c", None);
    }
    assert_eq!(lab.events.notes(), [""; 0], "no port was ever in the way of another");
}

#[test]
fn a_port_that_somebody_else_has_is_told_once_and_taken_when_it_is_free() {
    let lab = Lab::new(64);
    let somebody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let port = somebody.local_addr().expect("an address").port();
    lab.set("a", Some(port));
    lab.sync();
    until("an Event", || lab.events.notes().first().filter(|note| note.contains("in use")).cloned());
    // Other changes are no reason to tell it again.
    let beside = free_port();
    for service in ["b", "c", "d"] {
        lab.set(service, Some(beside));
        lab.sync();
        until_answered(beside, service);
        lab.set(service, None);
    }
    assert_eq!(lab.events.notes().len(), 1);
    drop(somebody);
    until_answered(port, "a");
}

#[test]
fn the_loop_does_not_wait_for_a_thread_that_serves_and_is_stuck() {
    let lab = Lab::new(64);
    let port = free_port();
    lab.set("a", Some(port));
    lab.sync();
    until_answered(port, "a");
    let (release, released) = mpsc::channel::<()>();
    let (stuck, is_stuck) = mpsc::channel();
    lab.runtime.handle(PortKind::ServiceChecks).spawn(async move {
        let _ = stuck.send(());
        let _ = released.recv();
    });
    is_stuck.recv_timeout(PATIENCE).expect("the thread is stuck");
    let began = Instant::now();
    for round in 0..100_u8 {
        lab.set("a", None);
        lab.set("b", Some(port));
        lab.sync();
        lab.set("b", None);
        lab.set("a", Some(port));
        lab.sync();
        lab.checks.set_addresses(IpFamily::V6, ListenAddresses::Only(vec![IpAddr::from([127, 0, 0, round])]));
    }
    assert!(began.elapsed() < Duration::from_secs(10), "it took {:?}", began.elapsed());
    lab.set("a", None);
    lab.set("c", Some(port));
    lab.sync();
    drop(release);
    until_answered(port, "c");
}

#[test]
fn with_few_descriptors_some_checks_are_answered_and_the_others_when_there_is_room() {
    let lab = Lab::new(2);
    let services = ["a", "b", "c", "d"].map(|service| (service, free_port()));
    for (service, port) in services {
        lab.set(service, Some(port));
    }
    lab.sync();
    until_answered(services[0].1, "a");
    until_answered(services[1].1, "b");
    until("Events", || (lab.events.notes().len() == 2).then_some(()));
    assert!(lab.events.notes().iter().all(|note| note.contains("Too many open files")));
    assert_eq!(answers(services[2].1), None);
    lab.set("a", None);
    lab.sync();
    until_answered(services[2].1, "c");
}
