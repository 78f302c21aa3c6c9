//! Who stays with whom: session affinity with real clients, while everything that is not about their endpoint changes.
#![allow(clippy::print_stdout, reason = "the tests say how many clients they asked")]

mod support;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ferrule_backends::nftables::Reconciler;
use ferrule_backends::{SyncOutcome, SyncReport};
use ferrule_model::{IpFamily, Protocol};
use ferrule_plan::Packet;
use ferrule_testkit::netns::{NetSpec, NetWorld, Probe, Seen, or_skip};
use support::lab::{Lab, world};
use support::{client, ip};

const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
const CLIENTS: u8 = 24;
const ENDPOINTS: u8 = 6;
const SERVICE: &str =
    "service web NodePort clusterIP 10.96.0.10,fd96::10 port 80→8080 nodePort 30080 sessionAffinity ClientIP";

/// A node with a Service that clients stick to, and who sticks to whom.
struct Sticky {
    net: NetWorld,
    lab: Lab,
    family: IpFamily,
    homes: BTreeMap<IpAddr, IpAddr>,
}

fn address(family: IpFamily, [v4, v6]: [u8; 2], number: u8) -> IpAddr {
    match family {
        IpFamily::V4 => IpAddr::from([v4, v6, 1, number]),
        IpFamily::V6 => IpAddr::from([0xfd44, u16::from(v4), 0, 0, 0, 0, 1, u16::from(number)]),
    }
}

impl Sticky {
    fn new(family: IpFamily) -> Self {
        let mut spec = NetSpec::node(["192.0.2.1", "fd00::1"].map(ip));
        for number in 1..=ENDPOINTS {
            let endpoint = address(family, [10, 244], number);
            let served = [(Protocol::Tcp, 8080)];
            spec = if number % 2 == 0 { spec.pod(endpoint, &served) } else { spec.beyond(endpoint, &served) };
        }
        for number in 1..=CLIENTS {
            spec = spec.beyond(address(family, [198, 51], number), &[]);
        }
        let net = NetWorld::build(spec).map_err(|error| error.with_sources()).expect("a world");
        let facts: String = (1..=4).map(|number| coming(family, number)).collect();
        let world = world(&format!("{SERVICE} 600\n{facts}"));
        let lab = net.node().run(|| Lab::with(world, client(family))).expect("the node's namespace");
        let mut sticky = Self { net, lab, family, homes: BTreeMap::new() };
        sticky.homes = sticky.ask(&sticky.cluster_ip());
        sticky
    }

    fn cluster_ip(&self) -> SocketAddr {
        SocketAddr::new(ip(if self.family == IpFamily::V4 { "10.96.0.10" } else { "fd96::10" }), 80)
    }

    fn node_port(&self) -> SocketAddr {
        SocketAddr::new(ip(if self.family == IpFamily::V4 { "192.0.2.1" } else { "fd00::1" }), 30080)
    }

    /// Whom each client is sent to.
    fn ask(&self, to: &SocketAddr) -> BTreeMap<IpAddr, IpAddr> {
        let clients = (1..=CLIENTS).map(|number| address(self.family, [198, 51], number));
        let clients: Vec<IpAddr> = clients.collect();
        let port = Some((Protocol::Tcp, to.port()));
        let packets = clients.iter().map(|from| Packet { from: *from, interface: None, to: to.ip(), port });
        let probes: Vec<Probe> = packets.map(|packet| Probe { packet, timeout: PROBE_TIMEOUT }).collect();
        let seen = self.net.probe_all(&probes).expect("probes");
        let homes = clients.into_iter().zip(seen).map(|(client, seen)| {
            let Seen::Answered { by, .. } = seen else { unreachable!("{client} → {to}: {seen}") };
            (client, by.ip())
        });
        homes.collect()
    }

    /// Every client is where it was, by every address of the Service.
    fn check_no_client_moved(&self, after: &str) {
        for to in [self.cluster_ip(), self.node_port(), self.cluster_ip()] {
            assert_eq!(self.ask(&to), self.homes, "to {to} after {after}");
        }
    }

    /// An endpoint leaves: its clients find another and stay there, all others stay.
    fn leaves(&mut self, number: u8) {
        let gone = address(self.family, [10, 244], number);
        self.lab.then(&format!("gone endpoint web {gone}"));
        let homes = self.ask(&self.cluster_ip());
        let lost = self.homes.values().filter(|home| **home == gone).count();
        assert!(lost > 0, "no client was with {gone}; choose another one");
        for (client, home) in &self.homes {
            assert!(homes[client] != gone, "{client} is still sent to {gone}");
            assert!(*home == gone || homes[client] == *home, "{client} moved without need");
        }
        self.homes = homes;
        self.check_no_client_moved("an endpoint left");
    }

    fn nft(&self, command: &str) {
        let table = if self.family == IpFamily::V4 { "ip" } else { "ip6" };
        let command = command.replace("TABLE", &format!("{table} kube-proxy"));
        self.net.node().feed("nft", &["-f", "-"], &command).expect("nft");
    }

    fn restart(&mut self) -> SyncReport {
        let family = self.family;
        let again = self.net.node().run(|| Reconciler::new(client(family)));
        self.lab.reconciler = again.expect("the node's namespace");
        let report = self.lab.verify().expect("a restart");
        self.lab.done(report.clone());
        self.lab.run_deferred();
        report
    }

    /// A client that is known to stick to an endpoint.
    fn busiest(&self) -> u8 {
        let is_busy =
            |number: &u8| self.homes.values().any(|home| *home == address(self.family, [10, 244], *number));
        (1..=ENDPOINTS).find(is_busy).expect("an endpoint with a client")
    }
}

fn coming(family: IpFamily, number: u8) -> String {
    let node = if number.is_multiple_of(2) { "a" } else { "b" };
    format!("endpoint web {} node {node}\n", address(family, [10, 244], number))
}

fn on_both(test: impl Fn(Sticky)) {
    if or_skip() {
        for family in IpFamily::BOTH {
            test(Sticky::new(family));
        }
        println!("{CLIENTS} clients in each family");
    }
}

#[test]
fn nobody_moves_when_other_endpoints_come_and_go() {
    on_both(|mut sticky| {
        sticky.check_no_client_moved("nothing happened");
        for number in 5..=ENDPOINTS {
            sticky.lab.then(&coming(sticky.family, number));
            sticky.check_no_client_moved("an endpoint came");
        }
        for number in 5..=ENDPOINTS {
            let gone = address(sticky.family, [10, 244], number);
            sticky.lab.then(&format!("gone endpoint web {gone}"));
            sticky.check_no_client_moved("an endpoint without clients left");
        }
    });
}

#[test]
fn clients_of_an_endpoint_that_leaves_find_another_and_stay_there() {
    on_both(|mut sticky| {
        for _ in 0..3 {
            let number = sticky.busiest();
            sticky.leaves(number);
            sticky.lab.then(&coming(sticky.family, number));
            sticky.check_no_client_moved("it came back");
        }
    });
}

#[test]
fn nobody_moves_when_the_proxy_restarts() {
    on_both(|mut sticky| {
        assert_eq!(sticky.restart(), SyncReport::default());
        sticky.check_no_client_moved("a restart that found all as it was");
        sticky.lab.then(&coming(sticky.family, 5));
        sticky.check_no_client_moved("an endpoint came after a restart");
        let new = coming(sticky.family, 6);
        sticky.lab.say(&new);
        assert_eq!(sticky.restart().outcome, SyncOutcome::Rewritten);
        sticky.check_no_client_moved("a restart that wrote everything");
        let number = sticky.busiest();
        sticky.leaves(number);
    });
}

#[test]
fn nobody_moves_when_somebody_else_empties_our_maps() {
    on_both(|mut sticky| {
        // So that endpoints have other numbers than a fresh count would give them.
        sticky.leaves(1);
        for map in ["services", "nodeports", "sticky-pools", "sticky-slots", "sticky-endpoints"] {
            sticky.nft(&format!("flush map TABLE {map}\n"));
            assert_eq!(sticky.lab.verify().expect("healing").outcome, SyncOutcome::Rewritten);
            sticky.check_no_client_moved(map);
        }
    });
}

#[test]
fn nobody_moves_when_the_service_changes_otherwise() {
    on_both(|mut sticky| {
        for (change, words) in [
            ("another timeout", format!("{SERVICE} 900")),
            ("an external address", format!("{SERVICE} 900 externalIP 203.0.113.7")),
            ("another Service", "service other clusterIP 10.96.0.11,fd96::11 port 80".to_owned()),
            ("another node port", SERVICE.replace("30080", "30081") + " 900"),
            ("the node port again", format!("{SERVICE} 900")),
        ] {
            sticky.lab.then(&words);
            assert_eq!(sticky.ask(&sticky.cluster_ip()), sticky.homes, "after {change}");
        }
        sticky.check_no_client_moved("all of this");
    });
}
