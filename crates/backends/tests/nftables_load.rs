//! Pools that grow, shrink and change their ways under fast connects: every connection finds an endpoint.
//!
//! Endpoints that leave the pool go on answering, as real ones do while they end, so that whatever is refused or lost was lost
//! by the rules. A connect that no rule translates is refused at once: unused ports of a cluster IP are.
#![allow(clippy::print_stdout, reason = "the tests say how much they did")]

mod support;

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ferrule_kernel::kernel::{Faults, Faulty};
use ferrule_model::{IpFamily, Protocol};
use ferrule_plan::Packet;
use ferrule_testkit::netns::{NetSpec, NetWorld, Probe, Seen, or_skip};
use support::lab::{Lab, world};
use support::{client, ip, pause};

/// A late SYN is sent again after a second; one that is refused is refused at once.
const PATIENCE: Duration = Duration::from_secs(5);
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

/// Changes the Service until told to stop; how often that was. The last form is the first one, with one endpoint.
fn change_until(stop: &AtomicBool, storm: &Storm) -> usize {
    let family = IpFamily::of(ip(storm.to));
    let start = world(&format!("{PLAIN}\n{}", resized(family, 0, 1)));
    let mut lab = Lab::with(start, Faulty::new(client(family), storm.faults, 5));
    let (mut dice, mut size, mut changes) = (Dice(3), 1, 0);
    let mut change = |lab: &mut Lab<_>, words: &str| {
        let settled = match lab.try_then(words) {
            Ok(report) if report.lingering > 0 => {
                pause(ON_THEIR_WAY);
                lab.reconciler.finish().is_ok()
            }
            Ok(_) => true,
            Err(_) => false,
        };
        assert!(settled || (0..50).any(|_| lab.look().is_ok()), "50 tries in a row failed");
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

/// Connects while the Service changes; every connection must be answered by an endpoint.
fn weather(storm: &Storm) {
    if !or_skip() {
        return;
    }
    let net = net(storm);
    let stop = AtomicBool::new(false);
    let packet =
        |from: &str| Packet { from: ip(from), interface: None, to: ip(storm.to), port: Some(storm.port) };
    let probes = storm.from.iter().cycle().take(storm.connects);
    let probes: Vec<Probe> = probes.map(|from| Probe { packet: packet(from), patience: PATIENCE }).collect();
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
