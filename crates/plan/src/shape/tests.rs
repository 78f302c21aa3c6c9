//! Every shape, seen by every kind of client: its rules say what it means, and use the pools it says it uses.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use ferrule_model::{IpFamily, PortName, Protocol, ServiceName, ServicePortName};

use super::*;
use crate::{LocalPods, LoopbackNodePorts, NodePortScope, Quirks};

const SERVED_AT: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7));
const KEY: FrontendKey = FrontendKey::Address(SERVED_AT, Protocol::Tcp, 80);

/// Who sends a packet, as far as rules tell clients apart.
#[derive(Clone, Copy, Debug)]
struct Client {
    is_local_pod: bool,
    is_this_host: bool,
    is_in_ranges: bool,
}

fn shapes() -> Vec<Shape> {
    let mut all = vec![Shape::Refuse(Refusal::Drop), Shape::Refuse(Refusal::Reject)];
    for pool in [PoolScope::Cluster, PoolScope::Local] {
        for masquerade in [Masquerade::AsClusterIps, Masquerade::Always, Masquerade::Never] {
            all.push(Shape::OnePool { pool, masquerade });
        }
    }
    all.extend([Outsiders::LocalPool, Outsiders::Dropped].map(|outsiders| Shape::ShortCircuit { outsiders }));
    all
}

fn kinds() -> Vec<FrontendKind> {
    let ranges: Arc<[IpNet]> = vec!["192.0.2.0/24".parse().expect("a block")].into();
    vec![
        FrontendKind::ClusterIp,
        FrontendKind::LoadBalancer { source_ranges: None, own_ranges: 0 },
        FrontendKind::LoadBalancer { source_ranges: Some(ranges), own_ranges: 0 },
        FrontendKind::ExternalIp,
        FrontendKind::NodePort,
    ]
}

fn clients() -> impl Iterator<Item = Client> {
    (0..8_u8).map(|bits| Client {
        is_local_pod: bits & 1 != 0,
        is_this_host: bits & 2 != 0,
        is_in_ranges: bits & 4 != 0,
    })
}

fn nodes() -> Vec<NodeTraffic> {
    let mut all = Vec::new();
    for masquerade_all in [false, true] {
        for local_pods in [None, Some(LocalPods::ByInterface("cni0".into()))] {
            for quirks in [Quirks::NONE, Quirks::IPTABLES] {
                for host_addresses in [BTreeSet::new(), BTreeSet::from([SERVED_AT])] {
                    all.push(NodeTraffic {
                        masquerade_all,
                        local_pods: local_pods.clone(),
                        quirks,
                        host_addresses,
                        ..node()
                    });
                }
            }
        }
    }
    all
}

fn node() -> NodeTraffic {
    NodeTraffic {
        family: IpFamily::V4,
        masquerade_mark: 1,
        masquerade_all: false,
        local_pods: None,
        node_port_addresses: NodePortScope::All,
        loopback_node_ports: LoopbackNodePorts::NotServed,
        loopback_addresses: NodePortScope::All,
        guarded_service_cidrs: BTreeSet::new(),
        host_addresses: BTreeSet::new(),
        quirks: Quirks::NONE,
    }
}

fn frontend(kind: FrontendKind, shape: Shape) -> Frontend {
    let owner = ServicePortName {
        service: ServiceName::of("default", "svc"),
        port: PortName::new(""),
        protocol: Protocol::Tcp,
    };
    Frontend { owner, kind, shape }
}

/// What a shape means, worked out without its rules.
fn by_shape(frontend: &Frontend, node: &NodeTraffic, client: Client) -> Verdict {
    let is_restricted = frontend.source_ranges().is_some();
    let is_local_pod = client.is_local_pod && node.local_pods.is_some();
    match frontend.shape {
        _ if is_restricted && !client.is_in_ranges => Verdict::Drop,
        Shape::Refuse(_) if client.is_this_host && bypasses(frontend, node) => Verdict::Pass,
        Shape::Refuse(Refusal::Reject) => Verdict::Reject,
        Shape::OnePool { pool, masquerade } => {
            let masquerade = match masquerade {
                Masquerade::Always => true,
                Masquerade::Never => false,
                Masquerade::AsClusterIps => node.masquerade_all || node.local_pods.is_some() && !is_local_pod,
            };
            Verdict::Forward { pool, masquerade }
        }
        Shape::ShortCircuit { .. } if is_local_pod => {
            Verdict::Forward { pool: PoolScope::Cluster, masquerade: false }
        }
        Shape::ShortCircuit { .. } if client.is_this_host => {
            Verdict::Forward { pool: PoolScope::Cluster, masquerade: true }
        }
        Shape::ShortCircuit { outsiders: Outsiders::LocalPool } => {
            Verdict::Forward { pool: PoolScope::Local, masquerade: false }
        }
        Shape::Refuse(Refusal::Drop) | Shape::ShortCircuit { outsiders: Outsiders::Dropped } => Verdict::Drop,
    }
}

/// An external address that is not the host's own, in iptables mode.
fn bypasses(frontend: &Frontend, node: &NodeTraffic) -> bool {
    node.quirks == Quirks::IPTABLES
        && node.host_addresses.is_empty()
        && matches!(frontend.kind, FrontendKind::ExternalIp | FrontendKind::LoadBalancer { .. })
}

fn by_rules(frontend: &Frontend, node: &NodeTraffic, client: Client) -> Verdict {
    let rules = frontend.rules(&KEY, node);
    let is_meant = |source: &TrafficSource| match source {
        TrafficSource::LocalPods => client.is_local_pod,
        TrafficSource::ThisHost => client.is_this_host,
        TrafficSource::OutsideRanges(_) => !client.is_in_ranges,
        TrafficSource::Anyone => true,
    };
    let first_match = rules.iter().find(|(source, _)| is_meant(source));
    first_match.expect("a list always ends in an answer for anyone").1
}

#[test]
fn rules_say_what_the_shape_means_for_every_client() {
    for node in nodes() {
        for kind in kinds() {
            for shape in shapes() {
                let frontend = frontend(kind.clone(), shape);
                for client in clients() {
                    let (expected, found) =
                        (by_shape(&frontend, &node, client), by_rules(&frontend, &node, client));
                    assert_eq!(found, expected, "{frontend:?} for {client:?} on {node:?}");
                }
            }
        }
    }
}

#[test]
fn rules_forward_to_the_pools_that_the_shape_uses() {
    for shape in shapes() {
        let rules = frontend(FrontendKind::ExternalIp, shape).rules(&KEY, &node());
        for scope in [PoolScope::Cluster, PoolScope::Local] {
            let forwards = |verdict| matches!(verdict, Verdict::Forward { pool, .. } if pool == scope);
            let is_used = rules.iter().any(|(_, verdict)| forwards(verdict));
            assert_eq!(is_used, shape.uses_pool(scope), "{shape:?}: {scope}");
        }
        let refusal = shape.refusal().map(Verdict::from);
        let is_refused = !matches!(rules.otherwise(), Verdict::Forward { .. });
        assert_eq!(refusal, is_refused.then_some(rules.otherwise()), "{shape:?}");
    }
}
