//! Random clusters served by the mode and asked with real packets: the same answers as the oracle's.

use std::net::IpAddr;

use ferrule_backends::ModeOptions;
use ferrule_model::{Change, EndpointSlice, IpFamily, Protocol};
use ferrule_plan::{FrontendKey, FrontendKind, LocalDetection, NodeView, Packet, ProxyMode};
use ferrule_testkit::netns::{NetSpec, Question};
use ferrule_testkit::{World, random};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::mode::Mode;
use crate::support::ip;

/// How many worlds share one set of hosts.
const WORLDS_PER_NET: usize = 25;

const CLIENTS: [&str; 4] = ["198.51.100.9", "203.0.113.200", "2001:db8:ffff::9", "2001:db9::9"];
const PODS: [&str; 2] = ["10.244.1.100", "fd44::100"];
const NODE: [&str; 4] = ["192.0.2.1", "192.0.2.2", "fd00::1", "fd00::2"];

/// Programs one random world after the other, and asks each with packets.
pub fn check(mode: &Mode) {
    if !mode.is_testable() {
        return;
    }
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[mode.seed; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let worlds = std::env::var("FERRULE_TEST_RANDOM_WORLDS").ok().and_then(|number| number.parse().ok());
    let worlds = worlds.unwrap_or(mode.random_worlds);
    let (mut agreed, mut wrong) = (0, Vec::new());
    for round in 0..worlds.div_ceil(WORLDS_PER_NET) {
        let net = mode.network(hosts());
        for number in 0..WORLDS_PER_NET.min(worlds - round * WORLDS_PER_NET) {
            let world = world(mode, &mut runner);
            let _serving = mode.program(&net, &world);
            assert_eq!(mode.shadow_differences(&net, &world), Vec::<String>::new(), "shadow mode");
            let mut questions = questions(&world, &mut runner);
            if mode.kind == ProxyMode::Ipvs {
                questions.retain(|question| !binds_past_the_rule(&world, &question.packet));
            }
            let answers = net.ask(&questions).expect("probes");
            agreed += answers.agreed;
            let at = round * WORLDS_PER_NET + number;
            wrong.extend(answers.disagreements.iter().map(|one| format!("world {at}: {one}")));
            assert!(answers.unasked.is_empty(), "{:?}", answers.unasked);
        }
    }
    println!("{agreed} packets in {worlds} random worlds agreed");
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), agreed + wrong.len(), wrong.join("\n"));
    assert!(agreed > worlds, "too few questions: {agreed}");
}

fn sample<T>(strategy: &impl Strategy<Value = T>, runner: &mut TestRunner) -> T {
    strategy.new_tree(runner).expect("a strategy that always gives a value").current()
}

/// A random cluster, planned. Where an endpoint is follows from its address, so that all worlds fit on one set of hosts.
fn world(mode: &Mode, runner: &mut TestRunner) -> World {
    let view = sample(&random::view(), runner);
    let mut world = World::default();
    let with_loopback = ModeOptions { localhost_node_ports: true, ..mode.options(&world) };
    world.view = NodeView {
        quirks: mode.backend().quirks(),
        families: IpFamily::BOTH.to_vec(),
        loopback_node_ports: mode.backend().loopback_node_ports(&with_loopback),
        interface_addresses: NODE.map(ip).into_iter().chain(["127.0.0.1", "::1"].map(ip)).collect(),
        local_detection: match view.local_detection {
            LocalDetection::InterfaceNamePrefix(_) => LocalDetection::None,
            other => other,
        },
        ..view
    };
    for _ in 0..2 {
        for change in sample(&random::changes(), runner) {
            world.apply(settled(change));
        }
    }
    world.settle();
    world
}

fn settled(change: Change) -> Change {
    let Change::Slice(name, Some(slice), trigger) = change else { return change };
    let mut endpoints = slice.endpoints.to_vec();
    for endpoint in &mut endpoints {
        endpoint.is_local = is_local(endpoint.ip);
    }
    Change::Slice(name, Some(EndpointSlice { endpoints: endpoints.into(), ..slice }), trigger)
}

fn is_local(endpoint: IpAddr) -> bool {
    match endpoint {
        IpAddr::V4(v4) => v4.octets()[3].is_multiple_of(2),
        IpAddr::V6(v6) => v6.octets()[15].is_multiple_of(2),
    }
}

/// All hosts any of these worlds can mention: endpoints serve every port any of them can have.
fn hosts() -> NetSpec {
    let ports =
        [Protocol::Tcp, Protocol::Udp].into_iter().flat_map(|protocol| [(protocol, 8080), (protocol, 9090)]);
    let ports: Vec<(Protocol, u16)> = ports.collect();
    let endpoints = (1..13_u8).flat_map(|number| {
        let v6 = [0xfd44, 0, 0, 0, 0, 0, 0, u16::from(number)];
        [IpAddr::from([10, 244, number % 3, number]), IpAddr::from(v6)]
    });
    let mut spec = NetSpec::node(NODE.map(ip));
    for endpoint in endpoints {
        spec = if is_local(endpoint) { spec.pod(endpoint, &ports) } else { spec.beyond(endpoint, &ports) };
    }
    for pod in PODS.map(ip) {
        spec = spec.pod(pod, &[]);
    }
    for client in CLIENTS.map(ip) {
        spec = spec.beyond(client, &[]);
    }
    spec
}

/// A packet from a random client to every frontend, and to ports and addresses beside them.
fn questions(world: &World, runner: &mut TestRunner) -> Vec<Question> {
    let mut packets = Vec::new();
    for (family, plan) in world.plan.families.iter() {
        for (key, _) in plan.frontends() {
            packets.extend(packets_to(key, family, runner));
        }
    }
    packets.into_iter().map(|packet| Question { expected: world.outcome(&packet), packet }).collect()
}

/// Whether a process of the host asks a load balancer that is closed to the node. In ipvs mode its packets carry the load balancer's
/// address, and the rule that drops them, which is kube-proxy's, is about that one. The processes of these tests bind the node's own
/// address, which few do, and are let through.
fn binds_past_the_rule(world: &World, packet: &Packet) -> bool {
    let Some((protocol, port)) = packet.port else { return false };
    let key = FrontendKey::Address(packet.to, protocol, port);
    let frontend = world.family(IpFamily::of(packet.to)).and_then(|plan| plan.frontend(&key));
    let is_closed = frontend.is_some_and(|frontend| match frontend.kind {
        FrontendKind::LoadBalancer { ref source_ranges, own_ranges } => {
            source_ranges.is_some() && own_ranges == 0
        }
        FrontendKind::ClusterIp | FrontendKind::ExternalIp | FrontendKind::NodePort => false,
    });
    is_closed && NODE.map(ip).contains(&packet.from)
}

fn packets_to(key: &FrontendKey, family: IpFamily, runner: &mut TestRunner) -> Vec<Packet> {
    let to: Vec<(IpAddr, Protocol, u16)> = match *key {
        FrontendKey::Address(ip, protocol, port) => vec![(ip, protocol, port)],
        FrontendKey::UnmatchedPorts(ip) => vec![(ip, Protocol::Tcp, 99)],
        FrontendKey::NodePort(protocol, port) => NODE.map(|node| (ip(node), protocol, port)).to_vec(),
        FrontendKey::LoopbackNodePort(protocol, port) => vec![(family.loopback(), protocol, port)],
    };
    let to = to.into_iter().filter(|(_, protocol, _)| *protocol != Protocol::Sctp);
    to.map(|(to, protocol, port)| {
        let from = if to.is_loopback() { to } else { sample(&sources(to), runner) };
        Packet { from, interface: None, to, port: Some((protocol, port)) }
    })
    .collect()
}

fn sources(to: IpAddr) -> impl Strategy<Value = IpAddr> {
    let own = [["192.0.2.1", "10.244.1.4", "10.244.2.5"], ["fd00::1", "fd44::4", "fd44::5"]].concat();
    let all = CLIENTS.into_iter().chain(PODS).chain(own);
    let same_family: Vec<IpAddr> = all.map(ip).filter(|from| from.is_ipv4() == to.is_ipv4()).collect();
    proptest::sample::select(same_family)
}
