//! Leaving ipvs mode while connections are open.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ferrule_kernel::ipvs::VirtualServerId;
use ferrule_model::IpFamily;

use super::Node;
use super::node::id;
use crate::ipvs::departure::{Departed, depart};
use crate::ipvs::kernel::{Kernel, Known};
use crate::ipvs::sets::specs;
use crate::ipvs::wanted::Wanted;
use crate::{BackendError, OpenConnections, StillOpen};

const FACTS: &str = "service web clusterIP 10.20.30.41 port http 80 port alt 81 port dns 53/udp
    endpoint web 10.0.1.1 node b
    endpoint web 10.0.1.2 node b
    service other clusterIP 10.20.30.42 port http 80
    endpoint other 10.0.1.3 node b";
const WEB: &str = "10.20.30.41:80";

/// What a pass did.
struct Pass {
    departed: Departed,
    writes: Vec<String>,
    forgotten: Vec<VirtualServerId>,
}

/// Another mode serves; one pass over what ipvs mode left.
fn pass(node: &Node, connections: OpenConnections) -> Result<Pass, BackendError> {
    let fake = &node.kernel;
    fake.take_writes();
    let mut kernel = Kernel {
        servers: Box::new(fake.clone()),
        sets: Box::new(fake.clone()),
        links: Box::new(fake.clone()),
        forwards_ipv6: || true,
    };
    let host_addresses = BTreeSet::from(["100.101.102.103".parse::<IpAddr>().unwrap()]);
    let known = Known {
        family: IpFamily::V4,
        specs: &specs(IpFamily::V4),
        ours: BTreeSet::new(),
        foreign: BTreeSet::new(),
        host_addresses: &host_addresses,
        is_known_ours: false,
        wanted: &Wanted::default(),
        is_lenient: true,
    };
    let mut forgotten = Vec::new();
    let departed = depart(&mut kernel, &known, connections, &mut |services| {
        forgotten.extend_from_slice(services);
        Ok(())
    })?;
    Ok(Pass { departed, writes: fake.take_writes(), forgotten })
}

/// Removes everything, as `--cleanup` does.
pub fn cut(node: &Node) {
    pass(node, OpenConnections::Cut).unwrap();
}

fn waits(node: &Node) -> Pass {
    pass(node, OpenConnections::LeftToEnd).unwrap()
}

#[test]
fn what_has_connections_stays_without_new_ones_and_the_rest_goes() {
    let node = Node::of(FACTS);
    node.connections(WEB, "10.0.1.1:80", 2, 1);
    let Pass { departed, writes, .. } = waits(&node);
    assert_eq!(departed, Departed { servers: 3, open: StillOpen { servers: 1, connections: 3 } });
    let expected = [
        "server set 10.20.30.41:80/TCP 10.0.1.1:80 weight 0",
        "server delete 10.20.30.41:80/TCP 10.0.1.2:80",
        "addr delete 10.20.30.42",
        "set delete KUBE-CLUSTER-IP 10.20.30.41,tcp:81",
        "set delete KUBE-CLUSTER-IP 10.20.30.41,udp:53",
        "set delete KUBE-CLUSTER-IP 10.20.30.42,tcp:80",
        "ipvs delete 10.20.30.41:81/TCP",
        "ipvs delete 10.20.30.41:53/UDP",
        "ipvs delete 10.20.30.42:80/TCP",
    ];
    let mut sorted = (writes.clone(), expected.map(str::to_owned).to_vec());
    sorted.0.sort_unstable();
    sorted.1.sort_unstable();
    assert_eq!(sorted.0, sorted.1);
    // A port is refused before its server goes, and an address leads nowhere before that.
    let last = |beginning: &str| writes.iter().rposition(|write| write.starts_with(beginning)).unwrap();
    let first = |beginning: &str| writes.iter().position(|write| write.starts_with(beginning)).unwrap();
    assert!(last("server set") < first("addr"), "{writes:#?}");
    assert!(last("addr") < first("set delete") && last("set delete") < first("ipvs delete"), "{writes:#?}");
    // What keeps the host's listeners out stays with the address.
    assert_eq!((node.addresses(), node.set("KUBE-IPVS-IPS").len()), (vec!["10.20.30.41".to_owned()], 2));
}

#[test]
fn it_goes_when_the_last_connection_has_ended_also_after_a_restart() {
    let node = Node::of(FACTS);
    node.connections(WEB, "10.0.1.1:80", 1, 0);
    waits(&node);
    // Nothing is remembered from one pass to the next, as after a restart.
    node.connections(WEB, "10.0.1.1:80", 0, 1);
    let again = waits(&node);
    assert_eq!((again.writes, again.departed.open.connections), (Vec::<String>::new(), 1), "it is closing");
    node.connections(WEB, "10.0.1.1:80", 0, 0);
    let last = waits(&node);
    assert_eq!(last.departed, Departed { servers: 1, open: StillOpen::default() });
    assert_eq!((node.servers(), node.addresses()), (Vec::<String>::new(), Vec::<String>::new()));
}

#[test]
fn connections_are_cut_where_nobody_waits_for_them() {
    let node = Node::of(FACTS);
    node.connections(WEB, "10.0.1.1:80", 9, 9);
    let departed = pass(&node, OpenConnections::Cut).unwrap().departed;
    assert_eq!(departed, Departed { servers: 4, open: StillOpen::default() });
    assert!(node.servers().is_empty() && node.addresses().is_empty());
}

#[test]
fn flows_of_udp_are_forgotten_and_not_waited_for() {
    let node = Node::of(FACTS);
    node.connections("10.20.30.41:53/udp", "10.0.1.1:53", 5, 5);
    let Pass { departed, forgotten, .. } = waits(&node);
    assert!(departed.open.is_none());
    assert_eq!(forgotten, [id("10.20.30.41:53/udp")]);
}

#[test]
fn associations_of_sctp_are_waited_for() {
    let node = Node::of("service svc clusterIP 10.20.30.41 port p 80/sctp\nendpoint svc 10.0.1.1 node b");
    node.connections("10.20.30.41:80/sctp", "10.0.1.1:80", 1, 0);
    assert_eq!(waits(&node).departed.open, StillOpen { servers: 1, connections: 1 });
}

#[test]
fn a_node_port_is_told_from_others_servers_to_the_end() {
    let facts =
        "service svc NodePort clusterIP 10.20.30.41 port p80 80 nodePort 3001\nendpoint svc 10.0.1.1 node b";
    let node = Node::of(facts);
    node.connections("100.101.102.103:3001", "10.0.1.1:80", 1, 0);
    for _ in 0..2 {
        assert_eq!(waits(&node).departed.open.servers, 1);
        assert_eq!(node.servers(), ["100.101.102.103:3001/TCP: 10.0.1.1:80 weight 0"]);
        assert!(node.addresses().is_empty());
    }
}

#[test]
fn ipvs_mode_takes_back_what_was_about_to_go() {
    let mut node = Node::of(FACTS);
    let before = (node.servers(), node.addresses(), node.set("KUBE-CLUSTER-IP"));
    node.connections(WEB, "10.0.1.1:80", 1, 0);
    waits(&node);
    node.restart();
    node.verify();
    assert_eq!((node.servers(), node.addresses(), node.set("KUBE-CLUSTER-IP")), before);
    let writes = node.kernel.take_writes();
    assert!(writes.contains(&"server set 10.20.30.41:80/TCP 10.0.1.1:80 weight 1".to_owned()), "{writes:#?}");
    assert!(!writes.iter().any(|write| write.contains("ipvs add 10.20.30.41:80")), "its connections go on");
}

#[test]
fn a_pass_that_fails_leaves_what_protects() {
    const ENOMEM: i32 = 12;
    let node = Node::of(FACTS);
    node.kernel.reject("addr list", 1, ENOMEM);
    assert!(pass(&node, OpenConnections::LeftToEnd).is_err());
    assert!(node.kernel.take_writes().is_empty());
    // A port that is still admitted keeps its virtual server: a listener of the host would answer in its place.
    node.connections(WEB, "10.0.1.1:80", 1, 0);
    node.kernel.reject("set delete KUBE-CLUSTER-IP", 1, ENOMEM);
    assert!(pass(&node, OpenConnections::LeftToEnd).is_err());
    assert_eq!(node.servers().len(), 2);
    waits(&node);
    assert_eq!(node.servers(), ["10.20.30.41:80/TCP: 10.0.1.1:80 weight 0"]);
}

/// What says that it is ours must not go before it.
#[test]
fn a_virtual_server_that_cannot_be_removed_is_an_error() {
    for rejected in ["ipvs delete", "addr delete"] {
        let node = Node::of(FACTS);
        node.kernel.reject(rejected, 1, 16);
        assert!(pass(&node, OpenConnections::Cut).is_err(), "{rejected}");
        cut(&node);
        assert!(node.servers().is_empty() && node.addresses().is_empty(), "{rejected}");
    }
}
