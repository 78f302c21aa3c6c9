//! Which existing flows are stale under a plan.
//!
//! Finding and deleting them in the kernel is the kernel crate's work; here is the judgement alone.

use std::net::{IpAddr, SocketAddr};

use ferrule_model::{IpFamily, Protocol};
use ferrule_plan::{Flow, PlanDelta, StaleFlows};
use ferrule_testkit::{Step, World};

use Protocol::{Sctp, Tcp, Udp};

/// The Service of all rows: three protocols on each of three addresses, two of them on a node port.
const SERVICE: &str = "
    node me addresses 192.0.2.1
    service svc LoadBalancer 1.2.3.4 clusterIP 172.30.1.1 externalIP 192.168.99.100 \
        port udp 8000→9090/udp nodePort 32000 port tcp 8000→9090/tcp port sctp 8000→9090/sctp nodePort 32000";
const FRONTENDS: [&str; 3] = ["172.30.1.1", "1.2.3.4", "192.168.99.100"];
const NODE: &str = "192.0.2.1";
const SERVING: &str = "10.240.0.4";
const NOT_SERVING: &str = "10.240.1.5";
const DELETED: &str = "10.240.2.6";

/// The Service with one endpoint that serves, one that does not, and one that is gone.
fn fixture() -> World {
    let endpoints = format!(
        "endpoint svc {SERVING} ready\n endpoint svc {NOT_SERVING} notReady\n endpoint svc {DELETED} ready"
    );
    let mut world = World::of(&format!("{SERVICE}\n{endpoints}")).expect("a world");
    world.then(&format!("gone endpoint svc {DELETED}")).expect("words the world knows");
    world
}

fn at(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse().expect("an address"), port)
}

fn udp(to: SocketAddr, answered_by: SocketAddr) -> Flow {
    Flow { protocol: Udp, to, answered_by, is_attempt: false }
}

fn is_stale(world: &World, flow: &Flow) -> bool {
    StaleFlows::from_plan(world.family(IpFamily::V4).expect("an IPv4 plan")).contains(flow)
}

/// How many of these flows must go.
fn check(id: &str, world: &World, flows: &[Flow], deleted: usize) {
    let stale: Vec<&Flow> = flows.iter().filter(|flow| is_stale(world, flow)).collect();
    assert_eq!(stale.len(), deleted, "{id}: of {} flows these go: {stale:?}", flows.len());
}

/// A UDP flow through each of the three addresses.
fn through_frontends(port: u16, answered_by: SocketAddr) -> Vec<Flow> {
    FRONTENDS.iter().map(|ip| udp(at(ip, port), answered_by)).collect()
}

/// A UDP flow to each of the three addresses that nothing redirects.
fn not_redirected(port: u16) -> Vec<Flow> {
    FRONTENDS.iter().map(|ip| udp(at(ip, port), at(ip, port))).collect()
}

/// Row: model K1-K4
#[test]
fn a_udp_flow_lives_as_long_as_its_endpoint_serves() {
    let world = fixture();
    check("K1", &world, &through_frontends(8000, at(SERVING, 9090)), 0);
    check("K2", &world, &through_frontends(8000, at(SERVING, 8080)), 3);
    check("K3", &world, &through_frontends(8000, at(NOT_SERVING, 9090)), 3);
    check("K4", &world, &through_frontends(8000, at(DELETED, 9090)), 3);
}

/// Row: model K5, K9, K10
#[test]
fn only_ports_of_services_are_looked_at() {
    let world = fixture();
    for endpoint in [SERVING, NOT_SERVING, DELETED] {
        check("K5", &world, &through_frontends(3000, at(endpoint, 9090)), 0);
    }
    check("K9", &world, &not_redirected(8000), 3);
    check("K10", &world, &not_redirected(3000), 0);
}

/// But for attempts that nobody answered: see below.
///
/// Row: model K6
#[test]
fn tcp_and_sctp_flows_are_never_stale() {
    let world = fixture();
    for protocol in [Tcp, Sctp] {
        let flows: Vec<Flow> = all_kinds().into_iter().map(|flow| Flow { protocol, ..flow }).collect();
        check("K6", &world, &flows, 0);
    }
}

/// Nobody was redirected while there were no rules, and conntrack would leave it at that.
#[test]
fn an_attempt_to_connect_that_met_no_rules_goes_unless_somebody_answered() {
    let world = fixture();
    let attempts = |to: &[SocketAddr], is_attempt| -> Vec<Flow> {
        let of = |protocol| move |to: &SocketAddr| Flow { protocol, is_attempt, ..udp(*to, *to) };
        [Tcp, Sctp].into_iter().flat_map(|protocol| to.iter().map(of(protocol))).collect()
    };
    let frontends = FRONTENDS.map(|ip| at(ip, 8000));
    check("to a Service", &world, &attempts(&frontends, true), 6);
    check("answered", &world, &attempts(&frontends, false), 0);
    check("to another port", &world, &attempts(&FRONTENDS.map(|ip| at(ip, 3000)), true), 0);
    // The node port of this fixture is one of SCTP and UDP.
    check("to a node port", &world, &attempts(&[at(NODE, 32000)], true), 1);
    check("to another host's port", &world, &attempts(&[at("192.0.2.7", 32000)], true), 0);
    let redirected = Flow { protocol: Tcp, is_attempt: true, ..udp(frontends[0], at(SERVING, 9090)) };
    check("on its way to an endpoint", &world, &[redirected], 0);
}

/// Row: model K7, K8
#[test]
fn node_port_flows_live_as_long_as_their_endpoint_serves() {
    let world = fixture();
    for host in [NODE, "127.0.0.1"] {
        check("K7", &world, &[udp(at(host, 32000), at(SERVING, 9090))], 0);
        let stale = [NOT_SERVING, DELETED].map(|endpoint| udp(at(host, 32000), at(endpoint, 9090)));
        check("K8", &world, &stale, 2);
    }
}

/// Every kind of UDP flow in the tables, once for each address it can go to.
fn all_kinds() -> Vec<Flow> {
    let mut flows = Vec::new();
    for answered_by in [at(SERVING, 9090), at(SERVING, 8080), at(NOT_SERVING, 9090), at(DELETED, 9090)] {
        flows.extend(through_frontends(8000, answered_by));
    }
    flows.extend(through_frontends(3000, at(SERVING, 9090)));
    flows.extend(not_redirected(8000));
    flows.extend(not_redirected(3000));
    flows.extend([SERVING, NOT_SERVING, DELETED].map(|endpoint| udp(at(NODE, 32000), at(endpoint, 9090))));
    flows
}

/// Row: model K11
#[test]
fn of_all_kinds_of_flows_the_stale_ones_go() {
    let world = fixture();
    let flows: Vec<Flow> = Protocol::ALL
        .into_iter()
        .flat_map(|protocol| all_kinds().into_iter().map(move |flow| Flow { protocol, ..flow }))
        .collect();
    assert_eq!(flows.len(), 72, "K11");
    check("K11", &world, &flows, 14);
}

/// How many requests to the kernel that takes is the kernel crate's matter.
///
/// Row: model K12
#[test]
fn among_a_million_flows_only_those_of_the_service_port_go() {
    let world = fixture();
    let stale = StaleFlows::from_plan(world.family(IpFamily::V4).expect("an IPv4 plan"));
    let external: IpAddr = FRONTENDS[2].parse().expect("an address");
    let mut random = 1_u64;
    let mut ports = std::iter::repeat_with(|| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        u16::try_from(random >> 48).expect("sixteen bits are left")
    });
    let (mut expected, mut found) = (0, 0);
    for port in ports.by_ref().take(1_000_000).chain([8000]) {
        let flow = udp(SocketAddr::new(external, port), at(DELETED, 9090));
        expected += usize::from(port == 8000);
        found += usize::from(stale.contains(&flow));
        assert_eq!(stale.contains(&flow), port == 8000, "K12: {flow:?}");
    }
    assert_eq!(found, expected, "K12");
    assert!(found > 1, "K12: some random port is the Service's");
}

/// As Kubernetes 1.37 has it: before, such flows were kept.
///
/// Row: model K13, K14
#[test]
fn a_service_without_endpoints_keeps_no_flow_but_those_of_its_node_port() {
    let world =
        World::of(&format!("{SERVICE}\n endpoint other {SERVING} port udp 9090/udp")).expect("a world");
    let mut flows = through_frontends(8000, at(SERVING, 9090));
    flows.extend(through_frontends(8000, at(NOT_SERVING, 9090)));
    check("K13", &world, &flows, 6);
    check("K14: node port", &world, &[udp(at(NODE, 32000), at(SERVING, 9090))], 0);
    let tcp: Vec<Flow> = flows.iter().map(|flow| Flow { protocol: Tcp, ..*flow }).collect();
    check("K14: TCP", &world, &tcp, 0);
    check("K14: another port", &world, &through_frontends(3000, at(SERVING, 9090)), 0);
}

/// kube-proxy deletes any flow through the node to a port with the number of a node port. Only flows to addresses of
/// this host can be a node port's, so here only those are judged (Q7).
///
/// Row: model K15
#[test]
fn flows_to_other_hosts_are_not_of_a_node_port() {
    let elsewhere = at("198.51.100.7", 32000);
    check("K15", &fixture(), &[udp(elsewhere, elsewhere), udp(elsewhere, at(DELETED, 9090))], 0);
}

/// Row: model K16
#[test]
fn an_endpoint_on_its_way_out_keeps_its_flows() {
    let world = World::of(&format!("{SERVICE}\n endpoint svc {SERVING} terminating")).expect("a world");
    check("K16", &world, &through_frontends(8000, at(SERVING, 9090)), 0);
    check("K16", &world, &[udp(at(NODE, 32000), at(SERVING, 9090))], 0);
}

fn delta(step: &Step) -> &PlanDelta {
    step.deltas.get(IpFamily::V4).expect("an IPv4 delta")
}

/// kube-proxy knows only the Services that are there and keeps the flows of a deleted one (Q8). The delta still knows it,
/// so here its redirected flows go with it; without a delta, as after a restart, they are kept.
///
/// Row: model K17
#[test]
fn the_flows_of_a_deleted_service_go_with_it() {
    let mut world = World::of(&format!("{SERVICE}\n endpoint svc {SERVING} ready")).expect("a world");
    let step = world
        .then(&format!("gone service svc\n gone endpoint svc {SERVING}"))
        .expect("words the world knows");
    let mut redirected = through_frontends(8000, at(SERVING, 9090));
    redirected.push(udp(at(NODE, 32000), at(SERVING, 9090)));
    check("K17: without the delta", &world, &redirected, 0);

    let stale = StaleFlows::from_delta(world.family(IpFamily::V4).expect("an IPv4 plan"), delta(&step));
    assert!(redirected.iter().all(|flow| stale.contains(flow)), "K17: with the delta");
    assert!(!not_redirected(8000).iter().any(|flow| stale.contains(flow)), "K17: nobody redirected these");
    let tcp = redirected.iter().map(|flow| Flow { protocol: Tcp, ..*flow });
    assert!(!tcp.into_iter().any(|flow| stale.contains(&flow)), "K17: TCP");
}

/// A port of another Service may have the number of the node port that went.
#[test]
fn a_deleted_node_port_takes_no_flow_of_another_address_along() {
    let other = "service other clusterIP 172.30.1.2 port udp 32000→53/udp\n endpoint other 10.240.9.9 ready";
    let mut world =
        World::of(&format!("{SERVICE}\n endpoint svc {SERVING} ready\n{other}")).expect("a world");
    let step = world.then("gone service svc").expect("words the world knows");
    let stale = StaleFlows::from_delta(world.family(IpFamily::V4).expect("an IPv4 plan"), delta(&step));
    assert!(stale.contains(&udp(at(NODE, 32000), at(SERVING, 9090))), "the node port's own flow");
    assert!(!stale.contains(&udp(at("172.30.1.2", 32000), at("10.240.9.9", 53))), "another Service's flow");
    assert!(!stale.contains(&udp(at("198.51.100.7", 32000), at("10.240.9.9", 53))), "somebody else's flow");
}
