//! Stories of the loop, with a kernel in memory.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ferrule_backends::{Backend, BackendError, ModeOptions};
use ferrule_config::gates::Gates;
use ferrule_config::settings::SyncSettings;
use ferrule_model::{Change, IpFamily, NodeName, ObjectKind};
use ferrule_plan::{FrontendKey, NodeView};
use ferrule_testkit::{MemoryBackend, MemoryKernel, World};
use ferrule_watch::{ChangeBatch, convert};

use super::flows::FlowCleaner;
use super::inspect::{Inspector, Snapshot};
use super::observer::Observer;
use super::proxy::Proxy;
use super::serving::{Context, Serving};
use super::{Ended, Event, Loop, State};
use crate::descriptors::Shares;
use crate::events::Recorder;
use crate::http::ServiceChecks;
use crate::http::runtime::HttpRuntime;
use crate::logging::LogHandle;
use crate::metrics::Metrics;
use crate::status::Status;

const DEADLINE: Duration = Duration::from_secs(30);

/// A loop that runs, and what it runs against.
struct Running {
    kernel: MemoryKernel,
    events: SyncSender<Event>,
    inspector: Inspector,
    thread: Option<JoinHandle<Ended>>,
}

impl Running {
    /// Serves an empty cluster of which nothing is listed yet.
    fn start() -> Self {
        let mut backend = MemoryBackend::default();
        let kernel = backend.kernel.clone();
        let (events, events_rx) = mpsc::sync_channel(64);
        let (inspector, sender) = (Inspector::new(events.clone()), events.clone());
        let thread = std::thread::spawn(move || {
            let options = ModeOptions {
                sync_period: Duration::from_millis(20),
                localhost_node_ports: false,
                relayed_localhost_node_ports: false,
                node_port_blocks: Vec::new(),
                ipvs: ferrule_backends::IpvsOptions::default(),
                userspace: ferrule_backends::UserspaceOptions::default(),
            };
            let opened = backend.open(&[IpFamily::V4], &options).expect("memory");
            let metrics = Metrics::new(&Gates::default(), backend.metrics()).expect("declarations");
            let (configz, sync_period) = ("{}".to_owned(), options.sync_period);
            let status = Arc::new(Status::new(metrics, Recorder::disabled(), configz, sync_period));
            let http = HttpRuntime::start(Shares::under(64)).expect("threads");
            let checks = Some(ServiceChecks::start(Arc::clone(&status), &http));
            let observer = Observer::new(Arc::clone(&status), checks, vec![IpFamily::V4]);
            let view = NodeView { families: vec![IpFamily::V4], ..NodeView::new(NodeName::new("a")) };
            let flows = FlowCleaner::start(|_| {}).expect("a thread");
            let proxy = Proxy::new(view, opened.dataplanes, flows, observer);
            let (period, min_period) = (options.sync_period, Duration::ZERO);
            let sync = SyncSettings { period, min_period, min_period_is_set: false };
            let context = Context {
                events: sender,
                status,
                log: LogHandle::default(),
                sync,
                drain_limit: None,
                options,
                inspect_socket: None,
            };
            let serving = Serving::new(proxy, Box::new(backend), context);
            Loop { state: State::Serving(Box::new(serving)) }.run(&events_rx).expect("a run")
        });
        Self { kernel, events, inspector, thread: Some(thread) }
    }

    /// Serves a cluster of these facts.
    fn with(facts: &str) -> Self {
        let running = Self::start();
        running.say(facts);
        running.list_everything();
        running.until(|kernel| !kernel.state().rules.is_empty());
        running
    }

    fn say(&self, facts: &str) {
        let changes = changes(facts);
        self.events.send(Event::Changes(ChangeBatch { changes, diagnostics: Vec::new() })).expect("it runs");
    }

    fn list_everything(&self) {
        let kinds =
            [ObjectKind::Service, ObjectKind::EndpointSlice, ObjectKind::ServiceCidr, ObjectKind::Node];
        for kind in kinds {
            self.events.send(Event::InSync(kind)).expect("it runs");
        }
    }

    fn until(&self, is_so: impl Fn(&MemoryKernel) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !is_so(&self.kernel) {
            assert!(Instant::now() < deadline, "after {:?}", self.kernel.state().calls);
            std::thread::yield_now();
        }
    }

    fn snapshot(&self) -> Snapshot {
        self.inspector.snapshot(DEADLINE, || false).expect("an answer")
    }

    /// What has been asked of the dataplane, and is forgotten now.
    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.kernel.state().calls)
    }

    fn end(mut self) -> Ended {
        self.events.send(Event::End("SIGTERM")).expect("it runs");
        self.thread.take().expect("it is joined once").join().expect("no panic")
    }
}

/// The changes that make these facts known.
fn changes(facts: &str) -> Vec<Change> {
    let world = World::of(facts).expect("facts");
    let (services, slices) = world.stated();
    let services = services.into_iter().map(convert::service);
    let slices = slices.iter().map(|slice| convert::endpoint_slice(slice, &NodeName::new("a")));
    services.chain(slices).filter_map(|converted| converted.change).collect()
}

/// A Service with these endpoints.
fn web(endpoints: &[&str]) -> String {
    let lines = endpoints.iter().map(|endpoint| format!("\nendpoint web {endpoint} ready"));
    format!("service web clusterIP 10.96.0.10 port 80→8080{}", lines.collect::<String>())
}

fn leads_to(kernel: &MemoryKernel, endpoints: &[&str]) -> bool {
    let key =
        FrontendKey::Address("10.96.0.10".parse().expect("an address"), ferrule_model::Protocol::Tcp, 80);
    let wanted: Vec<SocketAddr> = endpoints.iter().map(|text| text.parse().expect("an endpoint")).collect();
    let state = kernel.state();
    state.rules.get(&IpFamily::V4).and_then(|rules| rules.get(&key)).is_some_and(|found| *found == wanted)
}

#[test]
fn nothing_is_synced_before_the_first_lists_are_complete() {
    let running = Running::start();
    running.say(&web(&["10.244.1.1"]));
    running.events.send(Event::InSync(ObjectKind::Service)).expect("it runs");
    assert_eq!(running.snapshot().cluster.services().len(), 1, "it is known");
    assert!(running.calls().is_empty());
    running.list_everything();
    running.until(|kernel| leads_to(kernel, &["10.244.1.1:8080"]));
    assert_eq!(running.calls(), ["IPv4 verify"], "the first sync finds out what is there");
    running.end();
}

#[test]
fn a_change_is_written_and_an_unchanged_object_is_not() {
    let running = Running::with(&web(&["10.244.1.1"]));
    running.calls();
    running.say(&web(&["10.244.1.1", "10.244.1.2"]));
    running.until(|kernel| leads_to(kernel, &["10.244.1.1:8080", "10.244.1.2:8080"]));
    running.say(&web(&["10.244.1.1", "10.244.1.2"]));
    running.snapshot();
    assert_eq!(running.calls(), ["IPv4 changed"]);
    running.end();
}

#[test]
fn a_failed_sync_is_tried_again_and_its_reason_can_be_read() {
    let running = Running::with(&web(&["10.244.1.1"]));
    running.kernel.state().faults.extend([BackendError::new("no memory"), BackendError::new("no luck")]);
    running.say(&web(&["10.244.1.9"]));
    running.until(|kernel| leads_to(kernel, &["10.244.1.9:8080"]));
    let status = running.snapshot().families.get(IpFamily::V4).cloned().expect("IPv4 is served");
    assert!(status.is_in_sync);
    assert_eq!(status.last_failure.expect("it failed").1, "no memory");
    running.end();
}

#[test]
fn what_another_program_breaks_is_repaired_and_can_be_read() {
    let running = Running::with(&web(&["10.244.1.1"]));
    running.until(|kernel| kernel.state().sink.is_some());
    running.calls();
    running.kernel.flush(IpFamily::V4, "vandal (process 7)");
    running.until(|kernel| leads_to(kernel, &["10.244.1.1:8080"]));
    assert_eq!(running.calls(), ["IPv4 repair"]);
    let status = running.snapshot().families.get(IpFamily::V4).cloned().expect("IPv4 is served");
    let (_, drift) = status.last_repair.expect("a repair");
    assert_eq!(drift.and_then(|drift| drift.by).as_deref(), Some("vandal (process 7)"));
    running.end();
}

#[test]
fn doubt_leads_to_a_verification_which_finds_nothing_to_repair() {
    let running = Running::with(&web(&["10.244.1.1"]));
    running.calls();
    running.events.send(Event::VerifyRules(Some(IpFamily::V6))).expect("it runs");
    running.events.send(Event::VerifyRules(None)).expect("it runs");
    running.until(|kernel| !kernel.state().calls.is_empty());
    assert_eq!(running.calls(), ["IPv4 verify"]);
    assert!(running.snapshot().families.get(IpFamily::V4).is_some_and(|status| status.last_repair.is_none()));
    running.end();
}

#[test]
fn while_another_program_is_in_the_way_changes_wait_and_are_written_after() {
    let running = Running::with(&web(&["10.244.1.1"]));
    let blocked = || BackendError::new("another program holds the lock").until_free(Duration::from_millis(1));
    running.kernel.state().faults.extend((0..5).map(|_| blocked()));
    running.say(&web(&["10.244.1.9"]));
    running.until(|kernel| leads_to(kernel, &["10.244.1.9:8080"]));
    running.end();
}

#[test]
fn what_a_sync_defers_is_done_later() {
    let running = Running::with(&web(&["10.244.1.1"]));
    running.kernel.state().defers = true;
    running.calls();
    running.say(&web(&["10.244.1.9"]));
    running.until(|kernel| kernel.state().calls.len() == 2);
    assert_eq!(running.calls(), ["IPv4 changed", "IPv4 deferred"]);
    running.end();
}

#[test]
fn what_deferred_work_repairs_is_a_repair() {
    let running = Running::with(&web(&["10.244.1.1"]));
    running.kernel.state().defers = true;
    running.kernel.state().found_later = Some("real server removed".to_owned());
    running.calls();
    running.say(&web(&["10.244.1.9"]));
    running.until(|kernel| kernel.state().calls.len() == 2);
    let status = running.snapshot().families.get(IpFamily::V4).cloned().expect("IPv4 is served");
    let (_, drift) = status.last_repair.expect("a repair");
    assert_eq!(drift.map(|drift| drift.what).as_deref(), Some("real server removed"));
    running.end();
}

#[test]
fn a_snapshot_stays_what_it_was_while_the_loop_goes_on() {
    let running = Running::with(&web(&["10.244.1.1"]));
    let before = running.snapshot();
    running.say(&format!("service more clusterIP 10.96.0.11 port 80→8080\n{}", web(&["10.244.1.9"])));
    running.until(|kernel| leads_to(kernel, &["10.244.1.9:8080"]));
    let after = running.snapshot();
    let counts = |snapshot: &Snapshot| {
        let plan = snapshot.plan.families.get(IpFamily::V4).expect("IPv4 is planned");
        (snapshot.cluster.services().len(), plan.frontends().count())
    };
    assert_eq!((counts(&before), counts(&after)), ((1, 1), (2, 2)));
    running.end();
}

#[test]
fn a_source_that_cannot_be_reached_is_known_until_it_can() {
    let running = Running::with(&web(&["10.244.1.1"]));
    running.events.send(Event::Trouble(ObjectKind::Service)).expect("it runs");
    assert_eq!(running.snapshot().unreachable.keys().collect::<Vec<_>>(), [&ObjectKind::Service]);
    running.events.send(Event::Recovered(ObjectKind::Service)).expect("it runs");
    assert!(running.snapshot().unreachable.is_empty());
    running.end();
}

#[test]
fn a_signal_ends_it_after_the_dataplanes_had_their_grace_time() {
    let running = Running::with(&web(&["10.244.1.1"]));
    running.calls();
    let kernel = running.kernel.clone();
    assert_eq!(running.end(), Ended::Signal("SIGTERM"));
    assert_eq!(kernel.state().calls, ["IPv4 shutdown"]);
}
