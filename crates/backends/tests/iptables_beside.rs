//! What iptables mode does beside the plan, with real packets: health checks, a forwarding policy, invalid packets.
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use ferrule_backends::Trigger;
use ferrule_backends::iptables::{Host, Reconciler};
use ferrule_model::{IpFamily, Protocol::Tcp};
use ferrule_plan::Packet;
use ferrule_testkit::World;
use ferrule_testkit::netns::{NetSpec, NetWorld, Seen, or_skip};
use support::ip;
use support::iptables::{Writer, has_iptables, name};

const NODE: &str = "192.0.2.10";
const POD: &str = "10.244.1.5";
const CLIENT: &str = "203.0.113.5";
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long is waited for what is not to come.
const BRIEFLY: Duration = Duration::from_millis(500);

const LOCAL_POLICY: &str = "service lb LoadBalancer 198.51.100.20 clusterIP 10.96.0.13 port 80→8080 nodePort 30080 externalTrafficPolicy Local healthCheckNodePort 32000
    endpoint lb 10.244.1.5 node a";

fn ready() -> Option<NetWorld> {
    if !or_skip() || !has_iptables() {
        return None;
    }
    let spec = NetSpec::node([ip(NODE)]).pod(ip(POD), &[(Tcp, 8080)]).beyond(ip(CLIENT), &[(Tcp, 8080)]);
    Some(NetWorld::build(spec).map_err(|error| error.with_sources()).expect("a world"))
}

/// Asks the same of each writer, each on a network of its own.
fn with_each_writer(test: impl Fn(&NetWorld, Writer)) {
    for writer in Writer::ALL {
        let Some(net) = ready() else { return };
        test(&net, writer);
    }
}

fn world(facts: &str) -> World {
    let mut world = World::default();
    world
        .run_proxy("mode iptables\nloopbackNodePorts inKernel\ndetectLocal ClusterCIDR 10.244.0.0/16")
        .expect("settings");
    world.say(&format!("node a addresses {NODE}")).and_then(|()| world.say(facts)).expect("facts");
    world.settle();
    world
}

fn program((net, writer): (&NetWorld, Writer), facts: &str, host: Host) {
    let world = world(facts);
    let plan = world.family(IpFamily::V4).expect("IPv4 is served").clone();
    let synced =
        net.node().run(move || Reconciler::new(writer.tables(), host).sync(&plan, Trigger::verify()));
    synced.expect("the node").expect("a sync");
}

fn iptables((net, writer): (&NetWorld, Writer), arguments: &[&str]) -> String {
    let output = net.node().feed(&name(writer), arguments, "").map_err(|error| error.with_sources());
    String::from_utf8(output.expect("iptables").stdout).expect("text")
}

fn answered(net: &NetWorld, to: &str, port: u16, timeout: Duration) -> bool {
    let packet = Packet { from: ip(CLIENT), interface: None, to: ip(to), port: Some((Tcp, port)) };
    matches!(net.probe(&packet, timeout).expect("a probe"), Seen::Answered { .. })
}

/// Row: iptables I36
#[test]
fn health_checks_of_load_balancers_are_let_in() {
    with_each_writer(|net, writer| {
        program((net, writer), LOCAL_POLICY, Host::default());
        iptables((net, writer), &["-P", "INPUT", "DROP"]);
        let at = SocketAddr::new(ip(NODE), 32_000);
        let listener = net.node().run(|| TcpListener::bind(at)).expect("the node").expect("a listener");
        let connects = |timeout| {
            let client = net.namespace_of(ip(CLIENT)).expect("the client");
            client.run(|| TcpStream::connect_timeout(&at, timeout).is_ok()).expect("the client")
        };
        assert!(connects(PROBE_TIMEOUT), "the rule lets it in");
        program((net, writer), "", Host::default());
        assert!(!connects(BRIEFLY), "with the service the rule goes");
        drop(listener);
    });
}

/// Row: iptables I60
#[test]
fn under_a_forwarding_policy_of_drop_replies_and_marked_packets_pass() {
    with_each_writer(|net, writer| {
        let cluster_policy = "service np NodePort clusterIP 10.96.0.14 port 80→8080 nodePort 30081\nendpoint np 10.244.1.5 node a";
        program((net, writer), &format!("{LOCAL_POLICY}\n{cluster_policy}"), Host::default());
        iptables((net, writer), &["-P", "FORWARD", "DROP"]);
        assert!(answered(net, NODE, 30081, PROBE_TIMEOUT), "a masqueraded flow is marked, and let through");
        assert!(
            !answered(net, NODE, 30080, BRIEFLY),
            "the first packet of a flow that keeps its source is not"
        );
        iptables((net, writer), &["-A", "FORWARD", "-s", CLIENT, "-j", "ACCEPT"]);
        assert!(
            answered(net, NODE, 30080, PROBE_TIMEOUT),
            "if another rule lets it through, the replies pass"
        );
    });
}

/// Row: iptables I61
#[test]
fn forwarded_packets_that_conntrack_calls_invalid_are_dropped_unless_it_is_liberal() {
    for host in [Host::default(), Host { tcp_is_liberal: true, ..Host::default() }] {
        with_each_writer(|net, writer| {
            let (mut at_client, mut at_pod) = connected(net);
            // From now on there is connection tracking, to which the middle of a connection is no beginning.
            program((net, writer), "", host);
            net.node().set("net/netfilter/nf_conntrack_tcp_loose", "0").expect("a setting");
            at_client.write_all(b"hello").expect("it is sent");
            at_pod
                .set_read_timeout(Some(if host.tcp_is_liberal { PROBE_TIMEOUT } else { BRIEFLY }))
                .expect("a limit");
            let mut buffer = [0; 5];
            assert_eq!(at_pod.read_exact(&mut buffer).is_ok(), host.tcp_is_liberal, "{host:?}");
            if !host.tcp_is_liberal {
                let counted = iptables((net, writer), &["-L", "KUBE-FORWARD", "-v", "-x", "-n"]);
                let dropped = counted.lines().find(|line| line.contains("INVALID")).expect("the rule");
                assert_ne!(dropped.split_whitespace().next(), Some("0"), "{counted}");
            }
        });
    }
}

/// Both ends of a connection from the client to the pod, made while connections are not tracked.
fn connected(net: &NetWorld) -> (TcpStream, TcpStream) {
    let to = SocketAddr::new(ip(POD), 9999);
    let pod = net.namespace_of(ip(POD)).expect("the pod");
    let listener = pod.run(|| TcpListener::bind(to)).expect("the pod").expect("a listener");
    let client = net.namespace_of(ip(CLIENT)).expect("the client");
    let stream = client
        .run(|| TcpStream::connect_timeout(&to, PROBE_TIMEOUT))
        .expect("the client")
        .expect("a connection");
    let (accepted, from) = listener.accept().expect("it is accepted");
    assert_eq!(from.ip(), ip(CLIENT));
    (stream, accepted)
}
