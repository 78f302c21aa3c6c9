//! Random clusters for properties that must hold for all of them.
//!
//! The domains are tiny on purpose: few names, few addresses, few ports, so that Services collide, slices move between
//! Services and duplicates abound. A case that fails shrinks to a small one.

use std::net::IpAddr;
use std::sync::Arc;

use ferrule_model::{
    Change, Conditions, Endpoint, EndpointSlice, Hints, IpFamily, Node, NodeName, PerFamily, PortName,
    Protocol, Service, ServiceName, ServicePort, SliceName, SlicePort, SourceRanges, Timestamp,
    TrafficPolicy, Zone, canonical_endpoints,
};
use ferrule_plan::{ExternalIps, LocalDetection, LoopbackNodePorts, NodeView, Quirks};
use ipnet::IpNet;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::{select, subsequence};

/// The node the proxy runs on.
pub const OWN_NODE: &str = "a";

/// Any change to a small cluster.
pub fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => (service_name(), option::weighted(0.8, service()))
            .prop_map(|(name, service)| Change::Service(name, service.map(Arc::new))),
        8 => (select(vec!["x", "y", "z", "w"]), option::weighted(0.85, slice()))
            .prop_map(|(name, slice)| Change::Slice(SliceName::of("default", name), slice, None)),
        1 => node().prop_map(|node| Change::Node(Some(node))),
        1 => (select(vec!["k", "m"]), option::of(vec(service_block(), 0..3)))
            .prop_map(|(name, blocks)| Change::ServiceCidr(name.to_string(), blocks)),
    ]
}

/// A sequence of changes.
pub fn changes() -> impl Strategy<Value = Vec<Change>> {
    vec(change(), 0..14)
}

/// Any settings of a proxy on [`OWN_NODE`].
pub fn view() -> impl Strategy<Value = NodeView> {
    let quirks = select(vec![Quirks::NONE, Quirks::NFTABLES, Quirks::IPTABLES, Quirks::IPVS]);
    let families = select(vec![IpFamily::BOTH.to_vec(), vec![IpFamily::V4], vec![IpFamily::V6]]);
    let selectors = subsequence(vec!["primary", "localhost", "192.0.2.0/24", "fd00::/16"], 0..=2);
    (quirks, families, detection(), loopback(), selectors, (any::<bool>(), external_ips())).prop_map(
        |(
            quirks,
            families,
            local_detection,
            loopback_node_ports,
            selectors,
            (masquerade_all, external_ips),
        )| NodeView {
            quirks,
            families,
            local_detection,
            loopback_node_ports,
            masquerade_all,
            external_ips,
            node_port_addresses: selectors
                .iter()
                .filter_map(|text| ferrule_model::NodePortSelector::parse(text))
                .collect(),
            interface_addresses: ["127.0.0.1", "::1", "192.0.2.1", "192.0.2.2", "fd00::1", "fe80::1"]
                .iter()
                .filter_map(|text| ferrule_model::parse_ip(text))
                .collect(),
            ..NodeView::new(NodeName::new(OWN_NODE))
        },
    )
}

fn external_ips() -> impl Strategy<Value = ExternalIps> {
    prop_oneof![
        Just(ExternalIps::All),
        Just(ExternalIps::None),
        Just(ExternalIps::Within(blocks(&["203.0.113.0/29", "2001:db8::/32"]))),
    ]
}

fn detection() -> impl Strategy<Value = LocalDetection> {
    prop_oneof![
        Just(LocalDetection::None),
        Just(LocalDetection::NodeCidrs),
        Just(LocalDetection::ClusterCidrs(blocks(&["10.244.0.0/16", "fd44::/32"]))),
        Just(LocalDetection::InterfaceNamePrefix("cali".into())),
    ]
}

fn loopback() -> impl Strategy<Value = LoopbackNodePorts> {
    select(vec![
        LoopbackNodePorts::NotServed,
        LoopbackNodePorts::InKernel,
        LoopbackNodePorts::ForwardedOrRejected,
    ])
}

fn service_name() -> impl Strategy<Value = ServiceName> {
    select(vec!["s", "t", "u"]).prop_map(|name| ServiceName::of("default", name))
}

fn service() -> impl Strategy<Value = Service> {
    let addresses =
        (cluster_ips(), subsequence(external_addresses(), 0..=2), subsequence(external_addresses(), 0..=2));
    let policies = (policy(), policy(), source_ranges());
    let rest = (
        0..3_i64,
        option::weighted(0.3, 1..86_400_u32),
        option::weighted(0.3, Just(32_000)),
        service_ports(),
    );
    (addresses, policies, rest).prop_map(
        |((cluster_ips, external_ips, vips), (internal_policy, external_policy, source_ranges), rest)| {
            Service {
                created: Timestamp::from_micros(rest.0),
                cluster_ips,
                external_ips: external_ips.into(),
                load_balancer_vips: vips.into(),
                source_ranges,
                internal_policy,
                external_policy,
                affinity_seconds: rest.1,
                health_check_port: rest.2,
                is_counted: false,
                ports: rest.3,
            }
        },
    )
}

fn cluster_ips() -> impl Strategy<Value = PerFamily<IpAddr>> {
    let of_family = |texts: &[&str]| option::weighted(0.8, select(ips(texts)));
    (of_family(&["10.96.0.1", "10.96.0.2", "203.0.113.7"]), of_family(&["fd96::1", "fd96::2"]))
        .prop_map(|(v4, v6)| PerFamily { v4, v6 })
}

fn external_addresses() -> Vec<IpAddr> {
    ips(&["203.0.113.7", "203.0.113.8", "192.0.2.1", "2001:db8::7"])
}

fn policy() -> impl Strategy<Value = TrafficPolicy> {
    select(vec![TrafficPolicy::Cluster, TrafficPolicy::Local])
}

fn source_ranges() -> impl Strategy<Value = SourceRanges> {
    prop_oneof![
        3 => Just(SourceRanges::Anyone),
        1 => Just(SourceRanges::Nobody),
        2 => subsequence(blocks(&["198.51.100.0/24", "192.0.2.0/24", "2001:db8::/32"]), 1..=2)
            .prop_map(|ranges| SourceRanges::Only(ranges.into())),
    ]
}

/// Ports that satisfy the invariant of [`Service::ports`]: ordered, no name or number twice for a protocol.
fn service_ports() -> impl Strategy<Value = Box<[ServicePort]>> {
    let port =
        (port_name(), protocol(), select(vec![53_u16, 80]), option::of(select(vec![30_000_u16, 30_001])));
    vec(port, 0..4).prop_map(|ports| {
        let mut kept: Vec<ServicePort> = Vec::new();
        for (name, protocol, number, node_port) in ports {
            let collides = |other: &ServicePort| {
                other.protocol == protocol && (other.name == name || other.number == number)
            };
            if !kept.iter().any(collides) {
                kept.push(ServicePort { name, protocol, number, node_port });
            }
        }
        kept.sort();
        kept.into()
    })
}

fn slice() -> impl Strategy<Value = EndpointSlice> {
    let family = select(IpFamily::BOTH.to_vec());
    let port = (port_name(), protocol(), select(vec![8080_u16, 9090]));
    let ports = vec(port, 0..3).prop_map(|ports| {
        let mut ports: Vec<SlicePort> =
            ports.into_iter().map(|(name, protocol, number)| SlicePort { name, protocol, number }).collect();
        ports.sort();
        ports.dedup();
        ports
    });
    (service_name(), family, ports, vec(endpoint(), 0..5)).prop_map(|(service, family, ports, endpoints)| {
        let of_family = endpoints.into_iter().map(|endpoint| endpoint_in(family, endpoint)).collect();
        EndpointSlice { service, family, ports: ports.into(), endpoints: canonical_endpoints(of_family) }
    })
}

/// An endpoint before the family of its address is known.
#[derive(Clone, Debug)]
struct EndpointDraft {
    number: u8,
    conditions: Conditions,
    is_local: bool,
    hints: Option<Arc<Hints>>,
}

fn endpoint() -> impl Strategy<Value = EndpointDraft> {
    let conditions = any::<(bool, bool, bool)>().prop_map(|(ready, serving, terminating)| Conditions {
        ready,
        serving,
        terminating,
    });
    let ready_mostly = prop_oneof![2 => Just(Conditions::READY), 1 => conditions];
    // Not zero: the first address of an IPv6 prefix is the subnet-router anycast address, which no host can have.
    (1..13_u8, ready_mostly, any::<bool>(), option::weighted(0.6, hints())).prop_map(
        |(number, conditions, is_local, hints)| EndpointDraft { number, conditions, is_local, hints },
    )
}

fn endpoint_in(family: IpFamily, draft: EndpointDraft) -> Endpoint {
    let EndpointDraft { number, conditions, is_local, hints } = draft;
    let ip = match family {
        IpFamily::V4 => IpAddr::from([10, 244, number % 3, number]),
        IpFamily::V6 => IpAddr::from([0xfd44, 0, 0, 0, 0, 0, 0, u16::from(number)]),
    };
    Endpoint { ip, conditions, is_local, hints }
}

fn hints() -> impl Strategy<Value = Arc<Hints>> {
    let zones = subsequence(vec![Zone::new("z1"), Zone::new("z2")], 0..=2);
    let nodes = subsequence(vec![NodeName::new("a"), NodeName::new("b")], 0..=2);
    (zones, nodes).prop_map(|(zones, nodes)| Arc::new(Hints { zones: zones.into(), nodes: nodes.into() }))
}

fn node() -> impl Strategy<Value = Node> {
    let host_ips = subsequence(ips(&["192.0.2.1", "fd00::1"]), 0..=2);
    let pod_cidrs = subsequence(blocks(&["10.244.1.0/24", "fd44::/64"]), 0..=2);
    let zone = option::of(select(vec!["z1", "z2", ""])).prop_map(|zone| zone.map(Zone::new));
    (host_ips, pod_cidrs, zone, any::<bool>()).prop_map(|(host_ips, pod_cidrs, zone, leaving)| Node {
        host_ips,
        pod_cidrs,
        zone,
        leaving,
    })
}

fn port_name() -> impl Strategy<Value = PortName> {
    select(vec!["", "p", "q"]).prop_map(PortName::new)
}

fn protocol() -> impl Strategy<Value = Protocol> {
    select(Protocol::ALL.to_vec())
}

fn service_block() -> impl Strategy<Value = IpNet> {
    select(blocks(&["10.96.0.0/16", "10.97.0.0/16", "fd96::/112"]))
}

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().filter_map(|text| ferrule_model::parse_ip(text)).collect()
}

fn blocks(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().filter_map(|text| ferrule_model::parse_cidr(text)).collect()
}
