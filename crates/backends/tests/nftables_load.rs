//! Pools that grow, shrink and change their policies under fast connects: every connection finds an endpoint.
//!
//! Endpoints that leave the pool go on answering, as real ones do while they end, so that whatever is refused or lost was lost
//! by the rules. A connect that no rule translates is refused at once: unused ports of a cluster IP are.
#![allow(clippy::print_stdout, reason = "the tests say how much they did")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ferrule_backends::nftables::Reconciler;
use ferrule_backends::{SyncOutcome, Trigger};
use ferrule_kernel::port::{Faults, Faulty};
use ferrule_model::{IpFamily, Protocol};
use ferrule_plan::Packet;
use ferrule_testkit::netns::{NetSpec, NetWorld, Probe, Seen, or_skip};
use support::lab::{Lab, world};
use support::older_layout::write_layout_3;
use support::{client, ip, pause};

/// A late SYN is sent again after a second; one that is refused is refused at once.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Packets that followed a verdict before it was replaced are through by then.
const ON_THEIR_WAY: Duration = Duration::from_millis(10);
/// How many endpoints there are at most; every second one is on the node.
const ENDPOINTS: u8 = 6;

const NEVER: Faults = Faults { before: 0, after: 0 };

/// What is asked of a Service while it changes.
struct Storm {
    to: &'static str,
    port: (Protocol, u16),
    from: &'static [&'static str],
    connects: usize,
    faults: Faults,
    /// What the Service is turned into between changes of its endpoints.
    forms: &'static [&'static str],
}

const PLAIN: &str = "service web NodePort clusterIP 10.96.0.10,fd96::10 port http 80→8080 nodePort 30080 \
                     port dns 53→5353/udp nodePort 30053";

fn endpoint(family: IpFamily, number: u8) -> IpAddr {
    match family {
        IpFamily::V4 => IpAddr::from([10, 244, 1, number]),
        IpFamily::V6 => IpAddr::from([0xfd44, 0, 0, 0, 0, 0, 1, u16::from(number)]),
    }
}

fn is_local(number: u8) -> bool {
    number % 2 == 1
}

fn net(storm: &Storm) -> NetWorld {
    let served = [(Protocol::Tcp, 8080), (Protocol::Udp, 5353)];
    let mut spec = NetSpec::node(["192.0.2.1", "fd00::1"].map(ip));
    for number in 1..=ENDPOINTS {
        let address = endpoint(IpFamily::of(ip(storm.to)), number);
        spec = if is_local(number) { spec.pod(address, &served) } else { spec.beyond(address, &served) };
    }
    for from in storm.from.iter().map(|from| ip(from)) {
        let is_pod = from.to_string().starts_with("10.244.") || from.to_string().starts_with("fd44:");
        spec = if is_pod { spec.pod(from, &[]) } else { spec.beyond(from, &[]) };
    }
    let net = NetWorld::build(spec).map_err(|error| error.with_sources()).expect("a world");
    for from in storm.from.iter().map(|from| ip(from)) {
        let namespace = net.namespace_of(from).expect("a client");
        // Every connection from a port of its own.
        namespace.set("net/ipv4/ip_local_port_range", "1024 65535").expect("a setting");
    }
    net
}

/// Small random numbers, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or_default() % limit
    }
}

/// The words that make the pool have just the first endpoints.
fn resized(family: IpFamily, was: u8, now: u8) -> String {
    let coming = (was + 1..=now).map(|number| {
        let node = if is_local(number) { "a" } else { "b" };
        format!("endpoint web {} node {node}\n", endpoint(family, number))
    });
    let going = (now + 1..=was).map(|number| format!("gone endpoint web {}\n", endpoint(family, number)));
    coming.chain(going).collect()
}

/// Changes the Service until stopped; returns how often. The last form is the first one, with one endpoint.
fn change_until(stop: &AtomicBool, storm: &Storm) -> usize {
    let family = IpFamily::of(ip(storm.to));
    let start = world(&format!("{PLAIN}\n{}", resized(family, 0, 1)));
    let mut lab = Lab::with(start, Faulty::new(client(family), storm.faults, 5));
    let (mut dice, mut size, mut changes) = (Dice(3), 1, 0);
    let mut change = |lab: &mut Lab<_>, words: &str| {
        let settled = match lab.try_then(words) {
            Ok(report) if report.deferred_objects() > 0 => {
                pause(ON_THEIR_WAY);
                lab.reconciler.run_deferred().is_ok()
            }
            Ok(_) => true,
            Err(_) => false,
        };
        assert!(settled || (0..50).any(|_| lab.verify().is_ok()), "50 tries in a row failed");
        changes += 1;
    };
    while !stop.load(Ordering::Relaxed) {
        let next = u8::try_from(1 + dice.below(usize::from(ENDPOINTS))).expect("a small number");
        change(&mut lab, &resized(family, size, next));
        size = next;
        if !storm.forms.is_empty() && dice.below(4) == 0 {
            change(&mut lab, storm.forms[dice.below(storm.forms.len())]);
        }
    }
    change(&mut lab, &format!("{PLAIN}\n{}", resized(family, size, 1)));
    changes
}

impl Storm {
    fn probes(&self) -> Vec<Probe> {
        let clients = self.from.iter().cycle().take(self.connects).map(|from| ip(from));
        let packet = |from| Packet { from, interface: None, to: ip(self.to), port: Some(self.port) };
        clients.map(|from| Probe { packet: packet(from), timeout: PROBE_TIMEOUT }).collect()
    }
}

/// Connects while the Service changes; every connection must be answered by an endpoint.
fn weather(storm: &Storm) {
    if !or_skip() {
        return;
    }
    let net = net(storm);
    let stop = AtomicBool::new(false);
    let probes = storm.probes();
    support::program(&net, &world(&format!("{PLAIN}\n{}", resized(IpFamily::of(ip(storm.to)), 0, 1))));
    let (seen, changes) = thread::scope(|scope| {
        let changing = scope.spawn(|| net.node().run(|| change_until(&stop, storm)));
        let seen = net.probe_all(&probes);
        stop.store(true, Ordering::Relaxed);
        (seen.expect("probes"), changing.join().expect("changes").expect("the node's namespace"))
    });
    let lost: Vec<&Seen> = seen.iter().filter(|seen| !matches!(seen, Seen::Answered { .. })).collect();
    println!("{} connects to {} during {changes} changes, {} lost", seen.len(), storm.to, lost.len());
    assert!(lost.is_empty(), "{} of {} lost, such as {}", lost.len(), seen.len(), lost[0]);
    assert!(changes > 50, "only {changes} changes were tried");
    if storm.port.0 == Protocol::Tcp {
        check_settled(&net, &probes[..500], endpoint(IpFamily::of(ip(storm.to)), 1));
    }
}

/// What left the pool gets nothing any more. Not asked with datagrams: those from a port that was used a moment ago belong to
/// the flow of that moment, and forgetting flows is not the rules' matter.
fn check_settled(net: &NetWorld, probes: &[Probe], only: IpAddr) {
    let seen = net.probe_all(probes).expect("probes");
    let wrong = seen.iter().find(|seen| !matches!(seen, Seen::Answered { by, .. } if by.ip() == only));
    assert_eq!(wrong, None, "only {only} is left");
}

#[test]
fn fifty_thousand_connects_through_a_pool_that_grows_and_shrinks() {
    weather(&Storm {
        to: "10.96.0.10",
        port: (Protocol::Tcp, 80),
        from: &["10.244.1.100", "10.244.1.101"],
        connects: 50_000,
        faults: NEVER,
        forms: &[],
    });
}

#[test]
fn ipv6_connects_while_commits_fail_and_everything_is_rewritten() {
    weather(&Storm {
        to: "fd96::10",
        port: (Protocol::Tcp, 80),
        from: &["fd44::1:100", "fd44::1:101"],
        connects: 20_000,
        faults: Faults { before: 100, after: 100 },
        forms: &[],
    });
}

#[test]
fn datagrams_and_answers_through_a_pool_that_grows_and_shrinks() {
    weather(&Storm {
        to: "10.96.0.10",
        port: (Protocol::Udp, 53),
        from: &["10.244.1.100", "10.244.1.101"],
        connects: 20_000,
        faults: Faults { before: 20, after: 20 },
        forms: &[],
    });
}

#[test]
fn node_port_connects_while_policy_and_affinity_change() {
    weather(&Storm {
        to: "192.0.2.1",
        port: (Protocol::Tcp, 30080),
        from: &["198.51.100.9", "198.51.100.10"],
        connects: 20_000,
        faults: NEVER,
        forms: &[
            PLAIN,
            "service web NodePort clusterIP 10.96.0.10,fd96::10 port http 80→8080 nodePort 30080 \
             port dns 53→5353/udp nodePort 30053 externalTrafficPolicy Local",
            "service web NodePort clusterIP 10.96.0.10,fd96::10 port http 80→8080 nodePort 30080 \
             port dns 53→5353/udp nodePort 30053 sessionAffinity ClientIP 600",
            "service web NodePort clusterIP 10.96.0.10,fd96::10 port http 80→8080 nodePort 30080 \
             port dns 53→5353/udp nodePort 30053 externalTrafficPolicy Local sessionAffinity ClientIP 60",
        ],
    });
}

/// A connection through a Service that stays open.
struct Established {
    client: TcpStream,
    endpoint: TcpStream,
}

impl Established {
    /// From a pod, through `talk`, to its endpoint.
    fn open(net: &NetWorld) -> Self {
        let at = SocketAddr::new(endpoint(IpFamily::V4, 1), 7777);
        let pod = net.namespace_of(at.ip()).expect("the endpoint");
        let listener = pod.run(|| TcpListener::bind(at)).expect("the endpoint").expect("a listener");
        let to = SocketAddr::new(ip("10.96.0.11"), 7);
        let client = net.namespace_of(ip("10.244.1.100")).expect("the client");
        let client = client.run(|| TcpStream::connect_timeout(&to, PROBE_TIMEOUT)).expect("the client");
        let (endpoint, _) = listener.accept().expect("it is accepted");
        endpoint.set_read_timeout(Some(PROBE_TIMEOUT)).expect("a limit");
        Self { client: client.expect("a connection"), endpoint }
    }

    fn check(&mut self) {
        let mut received = [0; 4];
        self.client.write_all(b"ping").expect("it is sent");
        self.endpoint.read_exact(&mut received).expect("it arrives");
        assert_eq!(&received, b"ping");
    }
}

/// How often a table of an older layout is rewritten, each time under so many connects.
const UPGRADES: usize = 40;
const CONNECTS_PER_UPGRADE: usize = 500;

/// Connects from two pods to a Service while a new version starts on the table of an older one.
fn upgrade_under_load(to: &'static str, port: u16) {
    if !or_skip() {
        return;
    }
    let from = &["10.244.1.100", "10.244.1.101"];
    let storm = Storm {
        to,
        port: (Protocol::Tcp, port),
        from,
        connects: CONNECTS_PER_UPGRADE,
        faults: NEVER,
        forms: &[],
    };
    let net = net(&storm);
    let talk = "service talk clusterIP 10.96.0.11 port 7→7777\nendpoint talk 10.244.1.1 node a";
    let world = world(&format!("{PLAIN}\n{}{talk}", resized(IpFamily::V4, 0, 3)));
    support::program(&net, &world);
    let mut established = Established::open(&net);
    let plan = world.family(IpFamily::V4).expect("IPv4 is served");
    let start = || {
        let mut reconciler = Reconciler::new(client(IpFamily::V4));
        let report = reconciler.sync(plan, Trigger::verify()).expect("a start");
        assert_eq!(report.outcome, SyncOutcome::Rewritten);
        pause(report.deferred.expect("the old map goes later").after);
        reconciler.run_deferred().expect("what was deferred");
    };
    let probes = storm.probes();
    let (mut lost, mut dice) = (Vec::new(), Dice(7));
    for _ in 0..UPGRADES {
        // Nothing connects meanwhile: what nft does is not under test.
        net.node().run(|| write_layout_3(IpFamily::V4)).expect("the node's namespace");
        let moment = Duration::from_micros(dice.below(40_000) as u64);
        let seen = thread::scope(|scope| {
            let starting = scope.spawn(|| {
                pause(moment);
                net.node().run(start).expect("the node's namespace");
            });
            let seen = net.probe_all(&probes).expect("probes");
            starting.join().expect("no panic");
            seen
        });
        established.check();
        lost.extend(seen.into_iter().filter(|seen| !matches!(seen, Seen::Answered { .. })));
    }
    println!(
        "{} connects to {to}:{port} during {UPGRADES} upgrades, {} lost",
        UPGRADES * probes.len(),
        lost.len()
    );
    assert!(lost.is_empty(), "{} lost, such as {}", lost.len(), lost[0]);
}

#[test]
fn no_connect_to_a_cluster_ip_and_no_connection_is_lost_by_a_table_of_an_older_layout() {
    upgrade_under_load("10.96.0.10", 80);
}

#[test]
fn no_connect_to_a_node_port_is_lost_by_a_table_of_an_older_layout() {
    upgrade_under_load("192.0.2.1", 30080);
}
