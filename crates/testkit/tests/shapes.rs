//! What a frontend's shape means to a packet, worked out a second time, is what the reference interpreter says.

use std::net::{IpAddr, SocketAddr};

use ferrule_model::{Change, Cluster, parse_ip};
use ferrule_plan::{
    Delivery, FamilyPlan, Frontend, FrontendKey, FrontendKind, LocalPods, Masquerade, NodePortScope,
    NodeTraffic, Outcome, Outsiders, Packet, PoolScope, Quirk, Refusal, Shape, outcome, plan,
};
use ferrule_testkit::random;
use proptest::prelude::*;

fn cluster_after(changes: Vec<Change>) -> Cluster {
    let mut cluster = Cluster::default();
    for change in changes {
        cluster.apply(change);
    }
    cluster
}

/// A pod here, a pod elsewhere, this host, and two strangers, one of them in a source range; of both families.
const CLIENTS: [(&str, Option<&str>); 10] = [
    ("10.244.1.5", Some("cali1")),
    ("10.244.2.2", Some("eth0")),
    ("192.0.2.1", None),
    ("198.51.100.9", Some("eth0")),
    ("203.0.113.99", Some("eth0")),
    ("fd44::5", Some("cali1")),
    ("fd44:0:1::5", Some("eth0")),
    ("fd00::1", None),
    ("2001:db8::9", Some("eth0")),
    ("2001:db9::9", Some("eth0")),
];

/// Packets to a frontend from everyone; none if it is not about packets that a client can send from afar.
fn packets(plan: &FamilyPlan, key: &FrontendKey) -> Vec<Packet> {
    let (to, port) = match *key {
        FrontendKey::Address(ip, protocol, port) => (ip, (protocol, port)),
        FrontendKey::NodePort(protocol, port) => {
            let own = plan.node.host_addresses.iter().copied().find(|ip| accepts(&plan.node, *ip));
            let is_taken = |ip: &IpAddr| plan.frontend(&FrontendKey::Address(*ip, protocol, port)).is_some();
            let Some(ip) = own.filter(|ip| !is_taken(ip)) else { return Vec::new() };
            (ip, (protocol, port))
        }
        FrontendKey::UnmatchedPorts(_) | FrontendKey::LoopbackNodePort(..) => return Vec::new(),
    };
    let clients = CLIENTS.iter().filter_map(|(from, interface)| Some((parse_ip(from)?, interface)));
    let clients = clients.filter(|(from, _)| from.is_ipv4() == to.is_ipv4());
    clients
        .map(|(from, interface)| Packet {
            from,
            interface: interface.map(str::to_owned),
            to,
            port: Some(port),
        })
        .collect()
}

fn accepts(node: &NodeTraffic, ip: IpAddr) -> bool {
    let is_listed = match &node.node_port_addresses {
        NodePortScope::All => true,
        NodePortScope::Only(addresses) => addresses.contains(&ip),
    };
    is_listed && !ip.is_loopback()
}

/// The outcome by the frontend's shape, without its rules.
fn by_shape(plan: &FamilyPlan, frontend: &Frontend, packet: &Packet) -> Outcome {
    let node = &plan.node;
    let is_host = node.host_addresses.contains(&packet.from);
    let is_pod = node.local_pods.as_ref().is_some_and(|pods| match pods {
        LocalPods::From(block) => block.contains(&packet.from),
        LocalPods::ByInterface(name) => packet.interface.as_ref() == Some(name),
        LocalPods::ByInterfacePrefix(prefix) => {
            packet.interface.as_ref().is_some_and(|name| name.starts_with(prefix))
        }
    });
    let is_admitted =
        frontend.source_ranges().is_none_or(|ranges| ranges.iter().any(|range| range.contains(&packet.from)));
    if !is_admitted {
        let is_refused_before = is_host && node.quirks.has(Quirk::HostRefusedBeforeRanges);
        return match frontend.shape {
            Shape::Refuse(Refusal::Reject) if is_refused_before => Outcome::Rejected,
            Shape::Refuse(_) | Shape::OnePool { .. } | Shape::ShortCircuit { .. } => Outcome::Dropped,
        };
    }
    match frontend.shape {
        Shape::Refuse(_) if is_host && host_bypasses(node, frontend, packet) => Outcome::Untouched,
        Shape::Refuse(Refusal::Reject) => Outcome::Rejected,
        Shape::OnePool { pool, masquerade } => {
            let masqueraded = match masquerade {
                Masquerade::Always => true,
                Masquerade::Never => false,
                Masquerade::AsClusterIps => node.masquerade_all || node.local_pods.is_some() && !is_pod,
            };
            forwarded(plan, frontend, packet, Forward { pool, masqueraded })
        }
        Shape::ShortCircuit { .. } if is_pod => {
            forwarded(plan, frontend, packet, Forward { pool: PoolScope::Cluster, masqueraded: false })
        }
        Shape::ShortCircuit { .. } if is_host => {
            forwarded(plan, frontend, packet, Forward { pool: PoolScope::Cluster, masqueraded: true })
        }
        Shape::ShortCircuit { outsiders: Outsiders::LocalPool } => {
            forwarded(plan, frontend, packet, Forward { pool: PoolScope::Local, masqueraded: false })
        }
        Shape::Refuse(Refusal::Drop) | Shape::ShortCircuit { outsiders: Outsiders::Dropped } => {
            Outcome::Dropped
        }
    }
}

fn host_bypasses(node: &NodeTraffic, frontend: &Frontend, packet: &Packet) -> bool {
    let is_external = match frontend.kind {
        FrontendKind::LoadBalancer { .. } | FrontendKind::ExternalIp => true,
        FrontendKind::ClusterIp | FrontendKind::NodePort => false,
    };
    is_external
        && !node.host_addresses.contains(&packet.to)
        && node.quirks.has(Quirk::HostBypassesExternalRefusals)
}

/// Where a packet goes, and how.
#[derive(Clone, Copy)]
struct Forward {
    pool: PoolScope,
    masqueraded: bool,
}

fn forwarded(plan: &FamilyPlan, frontend: &Frontend, packet: &Packet, forward: Forward) -> Outcome {
    let pool = plan.pool(&frontend.owner, forward.pool).expect("a pool that the shape uses");
    let any = plan.node.quirks.has(Quirk::HairpinOfAnyEndpoint);
    let to = pool.endpoints.iter().map(|endpoint| Delivery {
        endpoint: SocketAddr::new(endpoint.ip, endpoint.port),
        masqueraded: forward.masqueraded || endpoint.ip == packet.from && (endpoint.is_local || any),
    });
    Outcome::Forwarded { to: to.collect(), sticky: pool.affinity_seconds }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, ..ProptestConfig::default() })]

    #[test]
    fn rules_and_shape_come_to_the_same_for_every_packet(
        changes in random::changes(),
        view in random::view(),
    ) {
        let (plan, _) = plan(&cluster_after(changes), &view);
        for (_, plan) in plan.families.iter() {
            for (key, frontend) in plan.frontends() {
                for packet in packets(plan, key) {
                    let expected = by_shape(plan, frontend, &packet);
                    prop_assert_eq!(outcome(plan, &packet), expected, "{} for {:?}", key, packet);
                }
            }
        }
    }

    /// iptables has one chain for all of them.
    #[test]
    fn the_kernel_forwards_one_way_from_all_external_frontends_of_a_port(
        changes in random::changes(),
        view in random::view(),
    ) {
        let (plan, _) = plan(&cluster_after(changes), &view);
        for (_, plan) in plan.families.iter() {
            for port in plan.ports() {
                let external = port.frontends().filter(|found| {
                    found.frontend.kind != FrontendKind::ClusterIp
                        && !matches!(found.key, FrontendKey::LoopbackNodePort(..))
                });
                let forwarding = external.filter(|found| !matches!(found.frontend.shape, Shape::Refuse(_)));
                let shapes: Vec<Shape> = forwarding.map(|found| found.frontend.shape).collect();
                prop_assert!(shapes.windows(2).all(|pair| pair[0] == pair[1]), "{:?}", shapes);
            }
        }
    }
}
