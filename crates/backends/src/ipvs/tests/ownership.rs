//! What is ours and what is others'.

use std::net::SocketAddr;

use ferrule_kernel::ipset::SetChange;
use ferrule_kernel::ipvs::{IpvsChange, RealServer, VirtualServer};
use ferrule_kernel::nft::Family;
use ferrule_kernel::port::{AddressSets, VirtualServers};
use ferrule_model::IpFamily;

use super::Node;
use super::node::id;
use crate::IpvsOptions;

fn add(node: &Node, service: &str, servers: &[&str]) {
    let server = VirtualServer { id: id(service), scheduler: "wlc".into(), flags: 0, timeout: 0 };
    let mut changes = vec![IpvsChange::AddService(server)];
    for address in servers {
        let address: SocketAddr = address.parse().unwrap();
        changes
            .push(IpvsChange::AddServer { service: id(service), server: RealServer { address, weight: 1 } });
    }
    assert!(VirtualServers::apply(&mut node.kernel.clone(), &changes).unwrap().iter().all(Result::is_ok));
    node.kernel.take_writes();
}

fn with_excluded(blocks: &[&str], facts: &str) -> Node {
    let exclude_cidrs = blocks.iter().map(|block| block.parse().unwrap()).collect();
    Node::start(IpFamily::V4, "", facts, IpvsOptions { exclude_cidrs, ..IpvsOptions::default() })
}

/// Row: ipvs R30
/// Row: ipvs R31
#[test]
fn stale_servers_go_and_those_of_others_stay() {
    let facts = "service stale clusterIP 6.6.6.6 port p80 80
        service excluded clusterIP 4.4.4.4 port p80 80
        service active clusterIP 1.1.1.1 port p80 80
        endpoint stale 10.0.1.1 node b";
    let mut node = with_excluded(&["3.3.3.0/24", "4.4.4.0/24"], facts);
    add(&node, "3.3.3.3:80", &["10.9.9.9:80"]);
    add(&node, "5.5.5.5:80", &["10.9.9.9:80"]);
    node.restart();
    drop(node.world.then("gone service stale\ngone service excluded").unwrap());
    let report = node.verify();
    // kube-proxy deletes 5.5.5.5 as well: see docs/differences.md.
    let expected =
        ["1.1.1.1:80/TCP:", "3.3.3.3:80/TCP: 10.9.9.9:80", "4.4.4.4:80/TCP:", "5.5.5.5:80/TCP: 10.9.9.9:80"];
    assert_eq!(node.servers(), expected);
    let named: Vec<_> = report.notes.iter().filter_map(|note| note.detail.as_deref()).collect();
    assert_eq!(named, ["3.3.3.3:80/TCP, 5.5.5.5:80/TCP"]);
    assert!(node.verify().notes.is_empty(), "they are named once");
}

/// Row: ipvs R32
#[test]
fn real_servers_of_an_excluded_server_are_left_alone() {
    let facts = "service svc clusterIP 4.4.4.4 port p80 80\nendpoint svc 10.0.1.1 node b\nendpoint svc 10.0.1.2 node b";
    let mut node = with_excluded(&["4.4.4.0/24"], facts);
    node.then("gone service svc");
    node.verify();
    node.run_deferred();
    assert_eq!(node.servers(), ["4.4.4.4:80/TCP: 10.0.1.1:80, 10.0.1.2:80"]);
}

/// Row: ipvs R53
#[test]
fn excluded_blocks_count_in_their_own_family() {
    let exclude_cidrs: Vec<ipnet::IpNet> =
        ["4.4.4.0/24", "fd96::/16"].map(|block| block.parse().unwrap()).to_vec();
    for (family, left) in [(IpFamily::V4, "4.4.4.4:80/TCP:"), (IpFamily::V6, "[fd96::4]:80/TCP:")] {
        let options = IpvsOptions { exclude_cidrs: exclude_cidrs.clone(), ..IpvsOptions::default() };
        let mut node = Node::start(family, "", "service svc clusterIP 4.4.4.4,fd96::4 port p80 80", options);
        node.then("gone service svc");
        assert_eq!(node.servers(), [left]);
    }
}

#[test]
fn a_virtual_server_of_another_program_on_a_service_address_is_left_alone() {
    let facts =
        "service svc clusterIP 10.20.30.41 port p80 80\nservice other clusterIP 10.20.30.42 port p80 80";
    let mut node = Node::unsynced(IpFamily::V4, "", facts, IpvsOptions::default());
    add(&node, "10.20.30.41:80", &["10.9.9.9:80"]);
    let report = node.verify();
    assert_eq!(node.servers(), ["10.20.30.41:80/TCP: 10.9.9.9:80", "10.20.30.42:80/TCP:"]);
    assert_eq!(report.rejected.len(), 1);
    assert!(report.rejected[0].reason.contains("another program"), "{report:?}");
    // Nothing leads to it, and nothing says that it is ours.
    assert_eq!(
        (node.addresses(), node.set("KUBE-CLUSTER-IP")),
        (vec!["10.20.30.42".to_owned()], vec!["10.20.30.42,tcp:80".to_owned()])
    );
    for _ in 0..2 {
        assert_eq!(node.verify().commits, 0);
        node.restart();
    }
    assert_eq!(node.servers().len(), 2);
    assert_eq!(node.servers()[0], "10.20.30.41:80/TCP: 10.9.9.9:80");
}

/// Nothing has been read since the other program made it.
#[test]
fn a_virtual_server_of_another_program_is_left_alone_where_a_new_service_finds_it() {
    let mut node = Node::of("service other clusterIP 10.20.30.42 port p80 80");
    add(&node, "10.20.30.50:80", &["10.9.9.9:80"]);
    let failed = node.try_then("service svc clusterIP 10.20.30.50 port p80 80\nendpoint svc 10.0.1.1 node b");
    assert!(failed.is_err(), "{failed:?}");
    for _ in 0..2 {
        let report = node.verify();
        assert_eq!(report.rejected.len(), 1, "{report:?}");
        assert!(report.rejected[0].reason.contains("another program"), "{report:?}");
        assert_eq!(node.servers(), ["10.20.30.42:80/TCP:", "10.20.30.50:80/TCP: 10.9.9.9:80"]);
        assert_eq!(node.addresses(), ["10.20.30.42"]);
        assert_eq!(node.set("KUBE-CLUSTER-IP"), ["10.20.30.42,tcp:80"]);
    }
    node.restart();
    node.verify();
    assert_eq!(node.servers()[1], "10.20.30.50:80/TCP: 10.9.9.9:80");
}

/// One entry of a set has NodePorts on all addresses masqueraded, and names their virtual servers.
#[test]
fn a_node_port_is_served_on_every_address_or_on_none() {
    let facts = "node host addresses 100.101.102.103 alsoOn 100.101.102.104
        service svc NodePort clusterIP 10.20.30.41 port p80 80 nodePort 3001
        endpoint svc 10.0.1.1 node b";
    let mut node =
        Node::unsynced(IpFamily::V4, "nodePortAddresses 100.101.102.0/24", facts, IpvsOptions::default());
    add(&node, "100.101.102.104:3001", &["10.9.9.9:80"]);
    let report = node.verify();
    assert_eq!(node.servers(), ["10.20.30.41:80/TCP: 10.0.1.1:80", "100.101.102.104:3001/TCP: 10.9.9.9:80"]);
    assert_eq!(report.rejected.len(), 2, "{report:?}");
    assert!(node.set("KUBE-NODE-PORT-TCP").is_empty());
    node.restart();
    node.verify();
    assert_eq!(node.servers()[1], "100.101.102.104:3001/TCP: 10.9.9.9:80", "nothing names it as ours");
}

#[test]
fn a_node_port_is_masqueraded_whatever_is_withheld_on_its_number() {
    let facts = "service svc NodePort clusterIP 10.20.30.41 port p80 80 nodePort 3001
        service lb LoadBalancer 7.7.7.7 clusterIP 10.20.30.42 port p80 3001
        endpoint svc 10.0.1.1 node b\nendpoint lb 10.0.1.2 node b";
    let mut node = Node::unsynced(IpFamily::V4, "", facts, IpvsOptions::default());
    add(&node, "7.7.7.7:3001", &["10.9.9.9:80"]);
    node.verify();
    assert!(
        node.servers().contains(&"100.101.102.103:3001/TCP: 10.0.1.1:80".to_owned()),
        "{:?}",
        node.servers()
    );
    assert_eq!(node.set("KUBE-NODE-PORT-TCP"), ["3001"]);
}

#[test]
fn one_port_of_a_bound_address_may_be_anothers() {
    let facts = "service svc clusterIP 10.20.30.41 port a 80 port b 81\nendpoint svc 10.0.1.1 node b";
    let mut node = Node::unsynced(IpFamily::V4, "", facts, IpvsOptions::default());
    add(&node, "10.20.30.41:80", &["10.9.9.9:80"]);
    for _ in 0..2 {
        node.verify();
        let expected = ["10.20.30.41:80/TCP: 10.9.9.9:80", "10.20.30.41:81/TCP: 10.0.1.1:81"];
        assert_eq!((node.servers(), node.addresses().len()), (expected.map(str::to_owned).to_vec(), 1));
        node.restart();
    }
    super::departing::cut(&node);
    assert_eq!(node.servers(), ["10.20.30.41:80/TCP: 10.9.9.9:80"], "nor does clean-up touch it");
}

#[test]
fn servers_are_ours_where_the_sets_were_emptied() {
    let mut node = Node::of("service svc clusterIP 10.20.30.41 port a 80\nendpoint svc 10.0.1.1 node b");
    let spec = &crate::ipvs::sets::specs(IpFamily::V4)[6];
    let mut sets = node.kernel.clone();
    let entries = sets.entries(spec).unwrap();
    let delete = entries.iter().map(|entry| SetChange { set: spec, entry: *entry, add: false });
    AddressSets::apply(&mut sets, &delete.collect::<Vec<_>>()).unwrap();
    node.restart();
    drop(node.world.then("gone service svc").unwrap());
    node.verify();
    assert!(node.servers().is_empty(), "{:?}", node.servers());
}

#[test]
fn firewall_marks_are_left_alone_and_named() {
    let mut node = Node::unsynced(
        IpFamily::V4,
        "",
        "service svc clusterIP 10.20.30.41 port p80 80",
        IpvsOptions::default(),
    );
    node.kernel.add_fwmark(Family::Ip, 7);
    let report = node.verify();
    assert_eq!(
        report.notes.iter().filter_map(|note| note.detail.as_deref()).collect::<Vec<_>>(),
        ["fwmark 7"]
    );
    assert!(node.verify().notes.is_empty(), "once");
}

#[test]
fn firewall_marks_are_named_where_only_ipv6_is_served() {
    let facts = "service svc clusterIP fd00:10:20::41 port p80 80";
    let mut node = Node::unsynced(IpFamily::V6, "", facts, IpvsOptions::default());
    node.kernel.add_fwmark(Family::Ip, 6);
    node.kernel.add_fwmark(Family::Ip6, 7);
    let notes = node.verify().notes;
    assert_eq!(notes.iter().filter_map(|note| note.detail.as_deref()).collect::<Vec<_>>(), ["fwmark 7"]);
}

const DRAINING: &str = "service svc clusterIP 10.20.30.41 port p80 80
    endpoint svc 10.180.0.1 node other
    endpoint svc 10.180.0.2 node other";

/// A node with an endpoint that has left and still has connections.
fn draining() -> Node {
    let mut node = Node::of(DRAINING);
    node.connections("10.20.30.41:80", "10.180.0.2:80", 1, 0);
    node.then("gone endpoint svc 10.180.0.2");
    assert_eq!(node.servers(), ["10.20.30.41:80/TCP: 10.180.0.1:80, 10.180.0.2:80 weight 0"]);
    node
}

#[test]
fn a_server_of_ours_that_a_listing_misses_stays_ours() {
    let mut node = draining();
    let before = node.servers();
    node.kernel.skip_once(id("10.20.30.41:80"));
    let error = node.try_verify().expect_err("it is there, though it was not listed");
    assert!(error.to_string().contains("10.20.30.41:80/TCP"), "{error}");
    node.kernel.take_writes();
    let report = node.verify();
    assert_eq!((report.rejected, node.servers()), (Vec::new(), before));
    assert_eq!(node.set("KUBE-CLUSTER-IP"), ["10.20.30.41,tcp:80"]);
    assert_eq!(node.addresses(), ["10.20.30.41"]);
}

#[test]
fn what_drains_is_no_difference() {
    let mut node = draining();
    assert!(node.diff().is_empty(), "{:?}", node.diff());
    // Nor is it for another process, which has not seen it leave.
    node.restart();
    assert!(node.diff().is_empty(), "{:?}", node.diff());
}

#[test]
fn a_difference_says_that_connections_are_waited_for() {
    let mut node = Node::of(DRAINING);
    let add = |address: &str| IpvsChange::AddServer {
        service: id("10.20.30.41:80"),
        server: RealServer { address: address.parse().unwrap(), weight: 1 },
    };
    let changes = [add("10.180.0.8:80"), add("10.180.0.9:80")];
    assert!(VirtualServers::apply(&mut node.kernel.clone(), &changes).unwrap().iter().all(Result::is_ok));
    node.connections("10.20.30.41:80", "10.180.0.9:80", 1, 0);
    assert_eq!(
        node.diff(),
        [
            "ipvsadm -e -t 10.20.30.41:80 -r 10.180.0.9:80 -m -w 0",
            "ipvsadm -d -t 10.20.30.41:80 -r 10.180.0.8:80"
        ]
    );
}

#[test]
fn a_network_that_somebody_put_on_our_interface_does_not_keep_others_from_reading() {
    let mut node = Node::of(DRAINING);
    node.kernel.add_network(crate::ipvs::kernel::INTERFACE);
    assert!(node.diff().is_empty());
    assert!(node.read_beside().is_empty(), "one that only reads knows that the interface is ours");
}

#[test]
fn real_servers_of_others_are_read_only_in_our_places() {
    let mut node = Node::of("service svc clusterIP 10.20.30.41 port p80 80");
    add(&node, "192.0.2.7:80", &["10.180.0.7:80"]);
    node.kernel.take_reads();
    node.verify();
    let lists = node.kernel.take_reads().into_iter().filter(|read| read.starts_with("server list"));
    assert_eq!(lists.collect::<Vec<_>>(), ["server list 10.20.30.41:80/TCP"]);
}

#[test]
fn what_kube_proxy_left_is_adopted() {
    let facts = "service svc NodePort externalIP 100.101.102.103 clusterIP 10.20.30.41 port p80 80 nodePort 3001\nendpoint svc 10.0.1.1 node b";
    let mut node = Node::of(facts);
    drop(node.world.then("gone service svc").unwrap());
    node.restart();
    node.verify();
    assert!(node.servers().is_empty(), "sets and interface say whose they were: {:?}", node.servers());
}
