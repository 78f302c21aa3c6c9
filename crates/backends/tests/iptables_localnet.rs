//! With `route_localnet` on, a neighbour can send packets to 127.0.0.1 of this host: none of them arrives, whatever it is redirected to.
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

mod support;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use ferrule_backends::Trigger;
use ferrule_backends::iptables::{Host, LocalnetBefore, Reconciler, Removed, localnet, remove_leftovers};
use ferrule_kernel::sysctl;
use ferrule_model::{IpFamily, Protocol::Tcp, Protocol::Udp};
use ferrule_plan::Packet;
use ferrule_testkit::World;
use ferrule_testkit::netns::{NetSpec, NetWorld, Seen, or_skip};
use support::ip;
use support::iptables::{Writer, has_iptables, name, run, saved, with_each_writer};
use support::xtables::{Lab, world as lab_world};

const NODE: &str = "192.0.2.10";
const POD: &str = "10.244.1.5";
const NEIGHBOUR: &str = "10.244.1.6";
const LOOPBACK: [u8; 4] = [127, 0, 0, 1];
const NODE_PORT: u16 = 30080;
const SETTING: &str = "net/ipv4/conf/all/route_localnet";
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long is waited for what is not to come.
const BRIEFLY: Duration = Duration::from_millis(500);

const SERVICE: &str = "service web NodePort clusterIP 10.96.0.13 port 80→8080/udp nodePort 30080
    endpoint web 10.244.1.5 node a";

fn iptables((net, writer): (&NetWorld, Writer), arguments: &[&str]) -> String {
    let output = net.node().feed(&name(writer), arguments, "").map_err(|error| error.with_sources());
    String::from_utf8(output.expect("iptables").stdout).expect("text")
}

/// A node with NodePorts on loopback addresses, and a neighbour that can send to its.
fn attacked(writer: Writer) -> Option<NetWorld> {
    if !or_skip() || !has_iptables() {
        return None;
    }
    let spec = NetSpec::node([ip(NODE)]).pod(ip(POD), &[(Tcp, 8080), (Udp, 8080)]).pod(ip(NEIGHBOUR), &[]);
    let net = NetWorld::build(spec).map_err(|error| error.with_sources()).expect("a world");
    let mut world = World::default();
    let settings = "mode iptables\nloopbackNodePorts inKernel\ndetectLocal ClusterCIDR 10.244.0.0/16";
    world.run_proxy(settings).expect("settings");
    world.say(&format!("node a addresses {NODE}\n{SERVICE}")).expect("facts");
    world.settle();
    let plan = world.family(IpFamily::V4).expect("IPv4 is served").clone();
    let synced = net
        .node()
        .run(move || Reconciler::new(writer.tables(), Host::default()).sync(&plan, Trigger::verify()));
    synced.expect("the node").expect("a sync");
    net.node().set_all(&[(SETTING, "1"), ("net/ipv4/conf/all/rp_filter", "0")]).expect("settings");
    let neighbour = net.namespace_of(ip(NEIGHBOUR)).expect("the neighbour");
    // It gives up its own loopback addresses, so that packets to them leave it, and takes answers from them.
    neighbour.set("net/ipv4/conf/all/route_localnet", "1").expect("a setting");
    neighbour.feed("ip", &["address", "del", "127.0.0.1/8", "dev", "lo"], "").expect("no loopback address");
    let to_node = neighbour.feed("ip", &["-4", "-o", "route", "show", "default"], "").expect("routes").stdout;
    let route = String::from_utf8_lossy(&to_node).trim().trim_start_matches("default").to_owned();
    neighbour.feed("ip", &["-batch", "-"], &format!("route add 127.0.0.1/32 {route}\n")).expect("a route");
    Some(net)
}

/// Sends from the neighbour to a port of the node's loopback address; returns whether there is an answer.
fn is_answered(net: &NetWorld, port: u16, timeout: Duration) -> bool {
    let neighbour = net.namespace_of(ip(NEIGHBOUR)).expect("the neighbour");
    let asked = neighbour.run(|| {
        let socket = UdpSocket::bind((ip(NEIGHBOUR), 0))?;
        socket.set_read_timeout(Some(timeout))?;
        socket.send_to(b"who?", (IpAddr::from(LOOPBACK), port))?;
        socket.recv(&mut [0; 128])
    });
    asked.expect("the neighbour").is_ok()
}

/// Row: iptables I26
#[test]
fn packets_from_the_network_to_loopback_are_dropped_whatever_they_are_redirected_to() {
    for writer in Writer::ALL {
        let Some(net) = attacked(writer) else { return };
        let listener = net.node().run(|| UdpSocket::bind(SocketAddr::from((LOOPBACK, 5353))));
        let listener = listener.expect("the node").expect("a socket");
        listener.set_read_timeout(Some(BRIEFLY)).expect("a time limit");
        let arrives = || {
            is_answered(&net, 5353, Duration::from_millis(1));
            listener.recv(&mut [0; 16]).is_ok()
        };
        assert!(!arrives(), "a martian got through");
        assert!(!is_answered(&net, NODE_PORT, BRIEFLY), "a NodePort on loopback serves the network");
        let to_localhost = Packet {
            from: ip("127.0.0.1"),
            interface: None,
            to: ip("127.0.0.1"),
            port: Some((Udp, NODE_PORT)),
        };
        let seen = net.probe(&to_localhost, PROBE_TIMEOUT).expect("a probe");
        assert!(matches!(seen, Seen::Answered { .. }), "the host itself is served: {seen:?}");
        // kube-proxy's own rule is there as well, and drops what nothing redirected; only that.
        iptables((&net, writer), &["-t", "mangle", "-F", "FERRULE-LOCALNET"]);
        assert!(is_answered(&net, NODE_PORT, PROBE_TIMEOUT), "without our rule the network is served");
        assert!(!arrives(), "a martian got through");
        let counted = iptables((&net, writer), &["-t", "filter", "-L", "KUBE-FIREWALL", "-v", "-x", "-n"]);
        let dropped = counted.lines().find(|line| line.contains("DROP")).expect("the rule");
        assert_eq!(dropped.split_whitespace().next(), Some("1"), "{counted}");
        iptables((&net, writer), &["-F", "KUBE-FIREWALL"]);
        assert!(arrives(), "without that rule it arrives");
    }
}

fn value() -> String {
    sysctl::read(SETTING).expect("the setting")
}

fn has_guard(writer: Writer) -> bool {
    saved(writer.tables()).to_string().contains("-j FERRULE-LOCALNET")
}

#[test]
fn the_setting_is_switched_off_with_the_rules_that_needed_it() {
    with_each_writer(|writer| {
        let access = writer.access();
        let before = localnet::before(access).expect("a value");
        localnet::switch_on(access, before).expect("the setting");
        assert!((before, value()) == (LocalnetBefore::Off, "1".to_owned()) && has_guard(writer));
        let host = Host { localnet_before: before, ..Host::default() };
        let mut lab = Lab::with(lab_world(SERVICE), writer.tables(), host);
        let rules = lab.saved();
        assert_eq!(localnet::before(access).expect("a value"), LocalnetBefore::Off, "a restart knows");
        localnet::switch_on(access, before).expect("the setting");
        assert_eq!(lab.saved(), rules, "and writes nothing");
        let removed = remove_leftovers().expect("a removal");
        assert_eq!((removed.localnet_is_off, value().as_str(), has_guard(writer)), (true, "0", false));
        assert_eq!(remove_leftovers().expect("a removal"), Removed::default());
    });
}

#[test]
fn what_an_administrator_switched_on_stays() {
    with_each_writer(|writer| {
        sysctl::ensure(SETTING, "1").expect("the setting");
        let access = writer.access();
        let before = localnet::before(access).expect("a value");
        localnet::switch_on(access, before).expect("the setting");
        let host = Host { localnet_before: before, ..Host::default() };
        let _lab = Lab::with(lab_world(SERVICE), writer.tables(), host);
        assert_eq!((before, localnet::before(access).expect("a value")), (LocalnetBefore::On, before));
        let removed = remove_leftovers().expect("a removal");
        assert_eq!((removed.localnet_is_off, value().as_str(), has_guard(writer)), (false, "1", false));
    });
}

#[test]
fn what_kube_proxy_switched_on_is_known_by_its_rules() {
    with_each_writer(|writer| {
        sysctl::ensure(SETTING, "1").expect("the setting");
        let iptables = name(writer);
        run(&iptables, &["-t", "nat", "-N", "KUBE-SERVICES"]);
        run(&iptables, &["-t", "nat", "-N", "KUBE-NODEPORTS"]);
        let rule = ["-m", "addrtype", "--dst-type", "LOCAL", "-j", "KUBE-NODEPORTS"];
        run(&iptables, &[&["-t", "nat", "-A", "KUBE-SERVICES"], &rule[..]].concat());
        assert_eq!(localnet::before(writer.access()).expect("a value"), LocalnetBefore::Off);
        let other =
            Writer::ALL.into_iter().find(|other| other.variant() != writer.variant()).expect("another");
        assert_eq!(localnet::before(other.access()).expect("a value"), LocalnetBefore::Off);
        assert!(remove_leftovers().expect("a removal").localnet_is_off && value() == "0");
    });
}

#[test]
fn what_guards_loopback_comes_and_goes_with_node_ports_there() {
    with_each_writer(|writer| {
        let mut lab = Lab::new(SERVICE, writer);
        assert!(has_guard(writer));
        lab.world.run_proxy("nodePortAddresses 192.0.2.0/24").expect("a setting");
        lab.then("");
        assert!(!has_guard(writer) && !lab.saved().to_string().contains("FERRULE"));
        lab.world.run_proxy("nodePortAddresses 192.0.2.0/24,127.0.0.0/8").expect("a setting");
        lab.then("");
        let rules = lab.saved();
        assert!(has_guard(writer));
        run(&name(writer), &["-t", "mangle", "-F", "PREROUTING"]);
        lab.verify().expect("a verification");
        assert_eq!(lab.saved(), rules);
    });
}
