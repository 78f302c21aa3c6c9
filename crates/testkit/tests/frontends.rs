//! Frontends that depend on how the proxy is run: external IPs, node ports on loopback.

use ferrule_model::{IpFamily, ServiceName};
use ferrule_plan::FrontendKey;
use ferrule_testkit::World;

/// A world whose proxy is run with some settings.
fn world(settings: &str, cluster: &str) -> World {
    let mut world = World::default();
    world.run_proxy(settings).expect("settings the world knows");
    world.then(cluster).expect("words the world knows");
    world
}

/// The frontends a filter lets through, a line each: `nodePort 30080/tcp: anyone → reject`.
fn frontends(world: &World, wanted: impl Fn(&FrontendKey) -> bool) -> Vec<String> {
    let plan = world.family(IpFamily::V4).expect("an IPv4 plan");
    let wanted = plan.frontends().filter(|(key, _)| wanted(key));
    wanted.map(|(key, frontend)| format!("{key}: {}", frontend.rules(key, &plan.node))).collect()
}

fn is_loopback(key: &FrontendKey) -> bool {
    matches!(key, FrontendKey::LoopbackNodePort(..))
}

fn is_node_port(key: &FrontendKey) -> bool {
    matches!(key, FrontendKey::NodePort(..))
}

/// Row: model S36
#[test]
fn external_ips_can_be_turned_off_and_the_service_stays_external() {
    let cluster = "
        node me addresses 192.0.2.1
        service svc clusterIP 10.96.0.1 port 80 externalIP 1.2.3.4 internalTrafficPolicy Local
        endpoint svc 10.0.0.1 node other";
    let is_external =
        |key: &FrontendKey| matches!(key, FrontendKey::Address(ip, ..) if ip.to_string() == "1.2.3.4");
    let on = world("externalIPs on", cluster);
    assert_eq!(frontends(&on, is_external), ["1.2.3.4:80/tcp: anyone → cluster pool, masquerade"]);
    let off = world("externalIPs off", cluster);
    assert_eq!(frontends(&off, is_external), Vec::<String>::new(), "S36: not served");
    assert_eq!(frontends(&off, |_| true), ["10.96.0.1:80/tcp: anyone → drop"], "S36: all else is");
    let state = off.cluster.service(&ServiceName::of("default", "svc")).expect("the Service");
    let service = state.service().expect("the Service");
    assert!(
        service.is_externally_accessible(&service.ports[0], IpFamily::V4),
        "S36: accessible all the same"
    );
}

/// Row: model T37
#[test]
fn with_no_endpoint_here_outsiders_are_dropped_and_the_zone_serves_pods_and_host() {
    let world = world(
        "mode plain",
        "node me addresses 192.0.2.1 podCIDR 10.244.1.0/24 zone zA
         service svc NodePort clusterIP 10.96.0.1 port 80 nodePort 8080 externalTrafficPolicy Local
         endpoint svc 10.0.0.1 node b forZone zA
         endpoint svc 10.0.0.2 node c forZone zB",
    );
    let expected =
        "nodePort 8080/tcp: local pods → cluster pool · this host → cluster pool, masquerade · anyone → drop";
    assert_eq!(frontends(&world, is_node_port), [expected], "T37");
    let plan = world.family(IpFamily::V4).expect("an IPv4 plan");
    let pools: Vec<String> = plan.pools().iter().map(|(id, pool)| format!("{id}: {pool}")).collect();
    assert_eq!(pools, ["default/svc cluster: 10.0.0.1:80"], "T37");
}

/// One Service with a node port for each protocol.
const ALL_PROTOCOLS: &str = "
    node me addresses 192.0.2.1
    service svc NodePort clusterIP 10.96.0.1 port t 80/tcp nodePort 30080 port u 53/udp nodePort 30053 \
        port s 9/sctp nodePort 30009";

/// kube-proxy rejects UDP there; here it is forwarded as TCP is, and without endpoints no process listens: the host refuses.
///
/// Row: model L14
#[test]
fn with_loopback_listed_udp_node_ports_without_endpoints_are_left_to_the_host() {
    let settings = "loopbackNodePorts forwardedOrRejected\n nodePortAddresses primary,localhost";
    let cluster = "
        node me addresses 192.0.2.1
        service dns NodePort clusterIP 10.96.0.1 port 53/udp nodePort 30053";
    let world = world(settings, cluster);
    assert_eq!(frontends(&world, is_loopback), [""; 0], "L14");
}

/// Row: model L15
#[test]
fn with_loopback_not_listed_every_node_port_is_rejected_there() {
    for addresses in ["primary", "all"] {
        let settings = format!("loopbackNodePorts forwardedOrRejected\n nodePortAddresses {addresses}");
        let expected = [
            "loopback nodePort 30080/tcp: anyone → reject",
            "loopback nodePort 30053/udp: anyone → reject",
            "loopback nodePort 30009/sctp: anyone → reject",
        ];
        let bare = world(&settings, ALL_PROTOCOLS);
        assert_eq!(frontends(&bare, is_loopback), expected, "L15: {addresses}, without endpoints");
        let served = world(&settings, &format!("{ALL_PROTOCOLS}\n endpoint svc 10.0.0.1"));
        assert_eq!(frontends(&served, is_loopback), expected, "L15: {addresses}, with an endpoint");
    }
}

/// Row: model L16
#[test]
fn with_loopback_listed_tcp_and_udp_are_forwarded_there_and_served_as_ever_elsewhere() {
    let settings = "loopbackNodePorts forwardedOrRejected\n nodePortAddresses primary,localhost";
    let world = world(settings, &format!("{ALL_PROTOCOLS}\n endpoint svc 10.0.0.1"));
    let expected = [
        "loopback nodePort 30080/tcp: anyone → cluster pool, masquerade",
        "loopback nodePort 30053/udp: anyone → cluster pool, masquerade",
        "loopback nodePort 30009/sctp: anyone → reject",
    ];
    assert_eq!(frontends(&world, is_loopback), expected, "L16: on loopback");
    let expected = [
        "nodePort 30080/tcp: anyone → cluster pool, masquerade",
        "nodePort 30053/udp: anyone → cluster pool, masquerade",
        "nodePort 30009/sctp: anyone → cluster pool, masquerade",
    ];
    assert_eq!(frontends(&world, is_node_port), expected, "L16: on the node's addresses");
}
