//! Which virtual servers and addresses there are.

use ferrule_model::IpFamily;

use super::Node;
use crate::IpvsOptions;

const NONE: [&str; 0] = [];

/// Row: ipvs R1
#[test]
fn each_family_serves_its_own_addresses() {
    let facts = "service v4 clusterIP 10.20.30.41 port p80 80
        service v6 clusterIP 1002:ab8::2:1 port p80 80
        endpoint v4 10.180.0.1 node elsewhere
        endpoint v6 1009:ab8::5:6 node elsewhere";
    assert_eq!(Node::of(facts).servers(), ["10.20.30.41:80/TCP: 10.180.0.1:80"]);
    let node = Node::start(IpFamily::V6, "", facts, IpvsOptions::default());
    assert_eq!(node.servers(), ["[1002:ab8::2:1]:80/TCP: [1009:ab8::5:6]:80"]);
    assert_eq!(node.set("KUBE-6-CLUSTER-IP"), ["1002:ab8::2:1,tcp:80"]);
}

/// Row: ipvs R2
#[test]
fn a_service_without_endpoints_has_a_virtual_server() {
    let node = Node::of("service svc clusterIP 10.20.30.41 port p80 80");
    assert_eq!(node.servers(), ["10.20.30.41:80/TCP:"]);
    assert_eq!(node.addresses(), ["10.20.30.41"]);
}

/// Row: ipvs R3
#[test]
fn a_node_port_is_served_on_the_addresses_of_its_family() {
    let node = Node::of(
        "service svc NodePort clusterIP 10.20.30.41,fd96::41 port p80 80 nodePort 3001
        endpoint svc 10.180.0.1 node elsewhere
        endpoint svc fd44::1 node elsewhere",
    );
    let expected = ["10.20.30.41:80/TCP: 10.180.0.1:80", "100.101.102.103:3001/TCP: 10.180.0.1:80"];
    assert_eq!(node.servers(), expected);
    assert_eq!(node.addresses(), ["10.20.30.41"], "an address of the node is not bound");
}

/// Row: ipvs R5
#[test]
fn a_node_port_without_endpoints_has_virtual_servers() {
    let node = Node::of("service svc NodePort clusterIP 10.20.30.41 port p80 80 nodePort 3001");
    assert_eq!(node.servers(), ["10.20.30.41:80/TCP:", "100.101.102.103:3001/TCP:"]);
}

/// Row: ipvs R9
/// Row: ipvs R10
/// Row: ipvs R11
/// Row: ipvs R12
#[test]
fn node_ports_are_on_every_address_but_loopback_and_link_local_ones() {
    let facts = "node host addresses 1.2.3.4,2000::1 alsoOn 169.254.0.1,127.6.7.8,fe80::1,::1
        service svc NodePort clusterIP 10.20.30.41,fd96::41 port p80 80 nodePort 3001";
    let on = |family| {
        let servers = Node::start(family, "", facts, IpvsOptions::default()).servers();
        servers.into_iter().filter(|server| server.contains(":3001")).collect::<Vec<_>>()
    };
    assert_eq!(on(IpFamily::V4), ["1.2.3.4:3001/TCP:", "169.254.0.1:3001/TCP:"]);
    assert_eq!(on(IpFamily::V6), ["[2000::1]:3001/TCP:"]);
}

/// Row: ipvs R13
/// Row: ipvs R14
#[test]
fn external_addresses_are_served_and_bound() {
    let node = Node::of(
        "service svc externalIP 50.60.70.81,2012::51 clusterIP 10.20.30.41,fd96::41 port p80 80
        service one externalIP 50.60.70.82 clusterIP 10.20.30.42 port p80 80
        endpoint svc 10.180.0.1 node elsewhere",
    );
    let expected = [
        "10.20.30.41:80/TCP: 10.180.0.1:80",
        "10.20.30.42:80/TCP:",
        "50.60.70.81:80/TCP: 10.180.0.1:80",
        "50.60.70.82:80/TCP:",
    ];
    assert_eq!(node.servers(), expected);
    assert_eq!(node.set("KUBE-EXTERNAL-IP"), ["50.60.70.81,tcp:80", "50.60.70.82,tcp:80"]);
    assert_eq!(node.addresses(), ["10.20.30.41", "10.20.30.42", "50.60.70.81", "50.60.70.82"]);
    assert_eq!(node.set("KUBE-IPVS-IPS"), node.addresses());
}

/// Row: ipvs R21
#[test]
fn addresses_that_a_load_balancer_answers_itself_are_not_served() {
    let servers = |mode: &str| {
        let facts = format!("service svc LoadBalancer 1.2.3.4 {mode} clusterIP 10.20.30.41 port p80 80");
        Node::of(&facts).servers().len()
    };
    assert_eq!((servers("ipMode Proxy"), servers("ipMode VIP"), servers("")), (1, 2, 2));
}

/// Row: ipvs R24
/// Row: ipvs R25
#[test]
fn affinity_and_the_scheduler_are_flags_of_every_virtual_server() {
    let facts = "service svc NodePort externalIP 50.60.70.81 clusterIP 10.20.30.41 port p80 80 nodePort 3001 sessionAffinity ClientIP 10800";
    assert_eq!(Node::of(facts).flags(), [(0x1, 10800); 3]);
    let mh = IpvsOptions { scheduler: "mh".to_owned(), ..IpvsOptions::default() };
    assert_eq!(Node::start(IpFamily::V4, "", facts, mh.clone()).flags(), [(0x11, 10800); 3]);
    let plain = "service svc clusterIP 10.20.30.41 port p80 80";
    assert_eq!(Node::start(IpFamily::V4, "", plain, mh).flags(), [(0x10, 0)]);
}

/// Row: ipvs R26
/// Row: ipvs R28
#[test]
fn what_is_there_is_not_written_again() {
    let mut node =
        Node::of("service svc clusterIP 10.20.30.41 port p80 80\nendpoint svc 10.180.0.1 node elsewhere");
    node.kernel.take_writes();
    node.restart();
    let report = node.verify();
    assert_eq!((node.kernel.take_writes(), report.commits), (Vec::new(), 0));
    assert_eq!(node.diff(), NONE);
}

/// Row: ipvs R27
#[test]
fn a_virtual_server_is_changed_in_place() {
    let service = "service svc clusterIP 10.20.30.41 port p80 80";
    let mut node = Node::of(&format!("{service}\nendpoint svc 10.180.0.1 node elsewhere"));
    let written = node.then(&format!("{service} sessionAffinity ClientIP 60"));
    assert_eq!(written.len(), 1, "{written:?}");
    assert!(written[0].starts_with("ipvs set 10.20.30.41:80/TCP rr"), "{written:?}");
    assert_eq!(node.servers(), ["10.20.30.41:80/TCP: 10.180.0.1:80"]);
}

#[test]
fn a_service_without_endpoints_takes_over_another_affinity() {
    let service = "service svc clusterIP 10.20.30.41 port p80 80";
    let mut node = Node::of(service);
    node.then(&format!("{service} sessionAffinity ClientIP 60"));
    assert_eq!(node.flags(), [(0x1, 60)]);
}

/// Row: ipvs R29
#[test]
fn an_address_is_bound_as_long_as_one_port_needs_it() {
    let service = "service svc clusterIP 10.20.30.41 port";
    let mut node = Node::of(&format!("{service} a 80 port b 81"));
    assert_eq!(node.addresses(), ["10.20.30.41"]);
    let written = node.then(&format!("{service} a 80"));
    assert!(written.iter().all(|line| !line.starts_with("addr")), "{written:?}");
    let written = node.then(&format!("{service} a 80 port b 81 port c 82"));
    assert!(written.iter().all(|line| !line.starts_with("addr")), "{written:?}");
    assert_eq!(node.servers().len(), 3);
    node.then("gone service svc");
    assert_eq!((node.addresses().len(), node.servers().len(), node.filled_sets().len()), (0, 0, 0));
}

/// Row: ipvs R60
#[test]
fn an_address_of_the_node_is_served_and_not_bound() {
    let mut node = Node::unsynced(
        IpFamily::V4,
        "",
        "service svc externalIP 100.101.102.103 clusterIP 10.20.30.41 port p80 80
        endpoint svc 10.180.0.1 node elsewhere",
        IpvsOptions::default(),
    );
    let report = node.verify();
    assert!(node.servers().contains(&"100.101.102.103:80/TCP: 10.180.0.1:80".to_owned()));
    assert_eq!(node.addresses(), ["10.20.30.41"]);
    assert_eq!(node.set("KUBE-IPVS-IPS"), ["10.20.30.41"]);
    assert_eq!(
        report.notes.iter().filter_map(|note| note.event).collect::<Vec<_>>(),
        ["ServiceAddressOnNode"]
    );
    assert!(node.verify().notes.is_empty(), "it is noted once");
}

#[test]
fn the_api_server_and_dns_are_served_first() {
    let node = Node::of(
        "service aaa clusterIP 10.0.0.1 port p80 80
        service kube-system/kube-dns clusterIP 10.0.0.10 port dns 53/udp
        service kube-system/names clusterIP 10.0.0.53 port dns 53/udp port metrics 9153
        service default/kubernetes clusterIP 10.0.0.2 port https 443",
    );
    let writes = node.kernel.take_writes();
    let at = |line: &str| writes.iter().position(|written| written == line).expect(line);
    let bound = [at("addr add 10.0.0.2"), at("addr add 10.0.0.10"), at("addr add 10.0.0.53")];
    let others = writes.iter().position(|line| line.contains("10.0.0.1,") || line.contains("10.0.0.1:"));
    assert!(
        bound.into_iter().max() < others,
        "they can be reached before anything is written for others: {writes:#?}"
    );
}

#[test]
fn node_ports_follow_the_addresses_of_the_node() {
    let mut node = Node::of("service svc NodePort clusterIP 10.20.30.41 port p80 80 nodePort 3001");
    node.then("node host addresses 100.101.102.103 alsoOn 100.101.102.104");
    assert_eq!(node.servers().len(), 3);
    node.then("node host addresses 100.101.102.104");
    assert_eq!(node.servers(), ["10.20.30.41:80/TCP:", "100.101.102.104:3001/TCP:"]);
}

#[test]
fn another_scheduler_is_taken_over_in_place() {
    let mut node =
        Node::of("service svc clusterIP 10.20.30.41 port p80 80\nendpoint svc 10.180.0.1 node elsewhere");
    node.reconfigure(IpvsOptions { scheduler: "wlc".to_owned(), ..IpvsOptions::default() });
    let written = node.then("endpoint svc 10.180.0.2 node elsewhere");
    let expected =
        ["ipvs set 10.20.30.41:80/TCP wlc", "server add 10.20.30.41:80/TCP 10.180.0.2:80 weight 1"];
    assert_eq!(written, expected);
}
