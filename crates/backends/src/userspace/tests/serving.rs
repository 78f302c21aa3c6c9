//! One family's sockets, with tables in memory: what becomes of them when a commit fails, and when another process takes over.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferrule_kernel::iptables::{IptablesError, RestoreText, RuleText, Saved};
use ferrule_kernel::nft::Family;
use ferrule_kernel::port::XTables;
use ferrule_kernel::sockets::default_source;
use ferrule_kernel::subprocess::Cancel;
use ferrule_relay::ports::PortRange;
use ferrule_relay::{Relay, RelayOptions};

use super::*;
use crate::metrics::Sample;
use crate::userspace::dataplane::{Parts, UserspaceDataplane};
use crate::userspace::handover::Handover;
use crate::userspace::portals::Portals;
use crate::userspace::sockets::Sockets;
use crate::{Dataplane, LoopEnded, Note, RuleEvent, RuleEventSink, SyncReport, Trigger};

const PATIENCE: Duration = Duration::from_secs(20);
/// For what should not happen.
const BRIEFLY: Duration = Duration::from_millis(200);

/// What is done with a text that is written; whether that succeeds.
type AtCommit = Box<dyn FnMut(&str) -> bool + Send>;

/// Tables that forget what is written, and in which nothing is ever found.
struct Tables(Arc<Mutex<AtCommit>>);

impl XTables for Tables {
    fn family(&self) -> Family {
        Family::Ip
    }

    fn save(&mut self) -> Result<Saved, IptablesError> {
        Ok(Saved::parse(""))
    }

    fn restore(&mut self, text: &RestoreText) -> Result<(), IptablesError> {
        let succeeds = (self.0.lock().expect("nobody panicked"))(text.as_str());
        let failed = || IptablesError::Unreadable { family: Family::Ip, table: "nat".to_owned() };
        if succeeds { Ok(()) } else { Err(failed()) }
    }

    fn save_tables(&mut self, _: &[&'static str], _: &Cancel) -> Result<Saved, IptablesError> {
        self.save()
    }

    fn test(&mut self, _: &RestoreText) -> Result<(), IptablesError> {
        Ok(())
    }

    fn chain_rules(&mut self, _: &str, _: &str) -> Result<Option<Vec<RuleText>>, IptablesError> {
        Ok(None)
    }
}

/// What would be a process.
struct Proxy {
    dataplane: UserspaceDataplane<Tables>,
    relay: Arc<Relay>,
    handover: Handover,
    at_commit: Arc<Mutex<AtCommit>>,
}

impl Proxy {
    fn start(directory: &PathBuf, ports: PortRange) -> Self {
        let relay = Relay::start(RelayOptions { threads: Some(1), ..RelayOptions::default() });
        let relay = Arc::new(relay.expect("a relay"));
        let localhost = IpFamily::V4.loopback();
        let (handover, at_commit) = (Handover::at(directory), Arc::new(Mutex::new(always(true))));
        let dataplane = UserspaceDataplane::new(Parts {
            family: IpFamily::V4,
            tables: Tables(Arc::clone(&at_commit)),
            portals: Portals::new(Arc::clone(&relay)),
            sockets: Sockets::new(localhost, ports),
            handover: handover.clone(),
            listen_ip: Some(localhost),
            sync_period: PATIENCE,
        });
        Self { dataplane, relay, handover, at_commit }
    }

    fn at_commit(&self, act: impl FnMut(&str) -> bool + Send + 'static) {
        *self.at_commit.lock().expect("nobody panicked") = Box::new(act);
    }

    fn sync(&mut self, world: &World) -> Result<SyncReport, crate::BackendError> {
        self.dataplane.sync(world.family(IpFamily::V4).expect("a family"), Trigger::verify())
    }

    /// Syncs; returns where the rules that were written lead to.
    fn addresses(&mut self, world: &World) -> Vec<SocketAddr> {
        let (sender, texts) = mpsc::channel();
        self.at_commit(move |text| sender.send(text.to_owned()).is_ok());
        let report = self.sync(world).expect("it syncs");
        assert_eq!(report.rejected, []);
        self.at_commit(|_| true);
        texts.iter().flat_map(|text| addresses(&text)).collect()
    }

    /// Lets the next process take over; what happens then is reported.
    fn offer(&self) -> Receiver<RuleEvent> {
        let (sender, events) = mpsc::channel();
        let (ready, is_ready) = mpsc::channel();
        let sink = Sink { events: sender, ready };
        self.handover.offer(Arc::clone(&self.relay), Arc::new(sink)).expect("a thread");
        is_ready.recv_timeout(PATIENCE).expect("it offers its sockets");
        events
    }
}

fn always(succeeds: bool) -> AtCommit {
    Box::new(move |_| succeeds)
}

/// The sockets that a text leads to, TCP first.
fn addresses(text: &str) -> Vec<SocketAddr> {
    let host = text.lines().filter(|line| line.starts_with("-A KUBE-PORTALS-HOST"));
    host.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect()
}

struct Sink {
    events: Sender<RuleEvent>,
    ready: Sender<()>,
}

impl RuleEventSink for Sink {
    fn send(&self, event: RuleEvent) -> Result<(), LoopEnded> {
        self.events.send(event).map_err(|_| LoopEnded)
    }

    fn note(&self, note: Note) {
        if note.message.contains("can take over") {
            let _ = self.ready.send(());
        }
    }

    fn record(&self, _: &Sample) {}
}

/// Where processes of one test meet.
fn directory() -> PathBuf {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("ferrule-userspace-{}-{number}", std::process::id()))
}

/// Endpoints with a loopback address are not used.
fn own_address() -> IpAddr {
    default_source(false).expect("this machine has a default route")
}

/// A Service with this endpoint.
fn service_of(endpoint: SocketAddr, protocol: &str) -> World {
    let (ip, port) = (endpoint.ip(), endpoint.port());
    world(&format!("service ns/s clusterIP 1.2.3.4 port p 80→{port}{protocol}\nendpoint ns/s {ip} node a"))
}

/// A Service with a server that greets.
fn greeted() -> World {
    let listener = TcpListener::bind((own_address(), 0)).expect("a port");
    let world = service_of(listener.local_addr().expect("an address"), "");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.write_all(b"hello");
        }
    });
    world
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).expect("somebody listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

fn is_greeted(mut stream: TcpStream) {
    let mut greeting = [0; 5];
    stream.read_exact(&mut greeting).expect("a greeting");
    assert_eq!(&greeting, b"hello");
}

/// The process before accepts no more: nobody would, and the next try would lead elsewhere.
#[test]
fn a_commit_that_fails_closes_no_socket_that_was_taken_over() {
    let (world, place) = (greeted(), directory());
    let mut first = Proxy::start(&place, PortRange::Any);
    let to = first.addresses(&world)[0];
    let _events = first.offer();
    let mut second = Proxy::start(&place, PortRange::Any);
    *second.at_commit.lock().expect("nobody panicked") = always(false);
    second.sync(&world).expect_err("the commit fails");
    // The first one is ended.
    drop(first);
    let waiting = connect(to);
    assert_eq!(second.addresses(&world), [to]);
    is_greeted(waiting);
}

#[test]
fn a_process_serves_again_when_the_one_that_took_over_has_gone() {
    let (world, place) = (greeted(), directory());
    let mut first = Proxy::start(&place, PortRange::Any);
    let to = first.addresses(&world)[0];
    let events = first.offer();
    for _ in 0..2 {
        let mut second = Proxy::start(&place, PortRange::Any);
        assert_eq!(second.addresses(&world), [to]);
        assert!(first.dataplane.is_standing_by());
        is_greeted(connect(to));
        assert_eq!(first.addresses(&world), []);
        drop(second);
        let waiting = connect(to);
        assert_eq!(events.recv_timeout(PATIENCE), Ok(RuleEvent::Verify(None)));
        assert_eq!(first.addresses(&world), [to], "rules of others are not trusted");
        is_greeted(waiting);
    }
}

/// What it wrote after it gave its sockets away would undo the rules of the next process.
#[test]
fn no_process_takes_over_while_a_sync_is_under_way() {
    let (one, place) = (greeted(), directory());
    let mut first = Proxy::start(&place, PortRange::Any);
    first.addresses(&one);
    let _events = first.offer();
    let (taken, is_taken) = mpsc::channel();
    let taking = {
        let place = place.clone();
        let (begin, begins) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            begins.recv().expect("the sync");
            let next = Handover::at(place);
            drop(next.turn());
            taken.send(()).expect("the test");
            next
        });
        first.at_commit(move |_| {
            begin.send(()).expect("the next process");
            is_taken.recv_timeout(BRIEFLY).is_err()
        });
        thread
    };
    first.sync(&one).expect("nobody took over meanwhile");
    let _next = taking.join().expect("it took over");
    first.at_commit(|text| panic!("it wrote {text}"));
    first.sync(&one).expect("it has nothing to do");
}

/// As long as one process has a socket open, no other gets its port.
#[test]
fn a_process_that_stands_by_closes_what_no_service_needs() {
    let (world, place) = (greeted(), directory());
    let mut first = Proxy::start(&place, PortRange::Any);
    let to = first.addresses(&world)[0];
    let _events = first.offer();
    let mut second = Proxy::start(&place, PortRange::Any);
    second.addresses(&world);
    let nothing = super::world("");
    for proxy in [&mut first, &mut second] {
        proxy.sync(&nothing).expect("it syncs");
    }
    assert_eq!(TcpStream::connect(to).expect_err("closed").kind(), ErrorKind::ConnectionRefused);
}

/// A socket is guarded by rules that need its port. Who is there before them would be no client of theirs.
#[test]
fn who_comes_before_the_rules_is_not_served() {
    let endpoint = UdpSocket::bind((own_address(), 0)).expect("a port");
    endpoint.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let udp = service_of(endpoint.local_addr().expect("an address"), "/udp");
    let client = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let mut proxy = Proxy::start(&directory(), PortRange::Any);
    let (early, (sender, found)) = (client.try_clone().expect("a descriptor"), mpsc::channel());
    proxy.at_commit(move |text| {
        let to = addresses(text)[0];
        early.send_to(b"early", to).expect("it is sent");
        sender.send(to).is_ok()
    });
    proxy.sync(&udp).expect("it syncs");
    client.send_to(b"late", found.recv().expect("an address")).expect("it is sent");
    let mut buffer = [0; 8];
    let length = endpoint.recv(&mut buffer).expect("a datagram");
    assert_eq!(&buffer[..length], b"late");

    let mut proxy = Proxy::start(&directory(), PortRange::Any);
    proxy.at_commit(|text| TcpStream::connect(addresses(text)[0]).is_err());
    proxy.sync(&greeted()).expect("nobody could connect");
}

/// A port that is free now, and the range of it alone.
fn one_port() -> (SocketAddr, PortRange) {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    (free, PortRange::Between { first: free.port(), last: free.port() })
}

#[test]
fn the_port_of_a_service_that_has_gone_is_used_again() {
    let (world, (port, range)) = (greeted(), one_port());
    let mut proxy = Proxy::start(&directory(), range);
    for _ in 0..2 {
        assert_eq!(proxy.addresses(&world), [port]);
        is_greeted(connect(port));
        proxy.sync(&super::world("")).expect("it syncs");
    }
}

#[test]
fn a_port_that_could_not_be_served_is_tried_again() {
    let (world, (port, range)) = (greeted(), one_port());
    let mut proxy = Proxy::start(&directory(), range);
    let other: Arc<Mutex<Option<TcpListener>>> = Arc::default();
    let thief = Arc::clone(&other);
    proxy.at_commit(move |_| {
        let mut thief = thief.lock().expect("nobody panicked");
        thief.replace(TcpListener::bind(port).expect("not listening yet")).is_none()
    });
    assert_eq!(proxy.sync(&world).expect("it syncs").rejected.len(), 1);
    other.lock().expect("nobody panicked").take();
    assert_eq!(proxy.addresses(&world), [port]);
    is_greeted(connect(port));
}

/// Runs in a process of its own: the limit is the process's.
#[test]
fn a_socket_that_cannot_be_duplicated_now_stays_with_those_passed_on() {
    const CHILD: &str = "FERRULE_USERSPACE_CHILD";
    if std::env::var_os(CHILD).is_none() {
        let name =
            "userspace::tests::serving::a_socket_that_cannot_be_duplicated_now_stays_with_those_passed_on";
        let program = std::env::current_exe().expect("a program");
        let output = std::process::Command::new(program).args(["--exact", name]).env(CHILD, "1").output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let mut proxy = Proxy::start(&directory(), PortRange::Any);
    let world = greeted();
    proxy.sync(&world).expect("it syncs");
    assert_eq!(proxy.handover.turn().published(), 1);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let set = |current| {
        let limit = rustix::process::Rlimit { current, ..limit };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).expect("a lower limit");
    };
    set(Some(0));
    let result = proxy.sync(&world);
    let published = proxy.handover.turn().published();
    set(limit.current);
    result.expect("it syncs");
    assert_eq!(published, 1);
}
