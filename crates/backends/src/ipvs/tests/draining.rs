//! Real servers that are no longer wanted.

use std::time::Duration;

use ferrule_model::IpFamily;

use super::Node;
use crate::IpvsOptions;

const TWO: &str = "service svc clusterIP 10.20.30.41 port p80 80
    endpoint svc 10.0.1.1 node b
    endpoint svc 10.0.1.2 node b";
const SERVICE: &str = "10.20.30.41:80";

/// Row: ipvs R34
#[test]
fn without_connections_it_goes_at_once() {
    let mut node = Node::of(TWO);
    assert_eq!(node.then("gone endpoint svc 10.0.1.2"), ["server delete 10.20.30.41:80/TCP 10.0.1.2:80"]);
}

/// Row: ipvs R35
#[test]
fn with_connections_it_gets_no_new_ones_and_goes_when_they_are_over() {
    for (active, inactive) in [(10, 0), (0, 10)] {
        let options = IpvsOptions { drain_limit: Some(Duration::from_nanos(1)), ..IpvsOptions::default() };
        for (limit, goes) in [(IpvsOptions::default(), false), (options, true)] {
            let mut node = Node::start(IpFamily::V4, "", TWO, limit);
            node.connections(SERVICE, "10.0.1.2:80", active, inactive);
            let report = node.try_then("gone endpoint svc 10.0.1.2").unwrap();
            let draining = ["10.20.30.41:80/TCP: 10.0.1.1:80, 10.0.1.2:80 weight 0"];
            assert!(goes || node.servers() == draining, "{:?}", node.servers());
            assert_eq!(report.deferred.map(|deferred| deferred.objects), (!goes).then_some(1));
        }
    }
}

/// Row: ipvs R35
#[test]
fn a_later_count_removes_it() {
    let mut node = Node::of(TWO);
    node.connections(SERVICE, "10.0.1.2:80", 1, 0);
    node.then("gone endpoint svc 10.0.1.2");
    node.connections(SERVICE, "10.0.1.2:80", 0, 0);
    // Another process, as after a restart, counts at once.
    node.restart();
    node.verify();
    assert_eq!(node.servers(), ["10.20.30.41:80/TCP: 10.0.1.1:80"]);
}

/// Row: ipvs R36
#[test]
fn udp_and_sctp_servers_go_at_once() {
    for protocol in ["udp", "sctp"] {
        let mut node = Node::of(&format!(
            "service svc clusterIP 10.20.30.41 port p80 80/{protocol}\nendpoint svc 10.0.1.1 node b\nendpoint svc 10.0.1.2 node b"
        ));
        node.connections(&format!("{SERVICE}/{protocol}"), "10.0.1.2:80", 5, 5);
        node.then("gone endpoint svc 10.0.1.2");
        assert_eq!(node.servers().len(), 1);
        assert!(!node.servers()[0].contains("10.0.1.2"), "{protocol}");
    }
}

/// Row: ipvs R37
#[test]
fn a_server_that_is_gone_already_is_forgotten() {
    use ferrule_kernel::ipvs::IpvsChange;
    use ferrule_kernel::port::VirtualServers as _;
    let mut node = Node::of(TWO);
    let delete = IpvsChange::DeleteServer {
        service: super::node::id(SERVICE),
        server: "10.0.1.2:80".parse().unwrap(),
    };
    node.kernel.clone().apply(&[delete]).unwrap();
    let report = node.try_then("gone endpoint svc 10.0.1.2").unwrap();
    assert!(report.rejected.is_empty(), "{report:?}");
}

/// Row: ipvs R33
/// Row: ipvs R38
#[test]
fn one_that_comes_back_is_revived_in_place() {
    let mut node = Node::of(TWO);
    node.connections(SERVICE, "10.0.1.2:80", 1, 0);
    node.then("gone endpoint svc 10.0.1.2");
    let revived = ["server set 10.20.30.41:80/TCP 10.0.1.2:80 weight 1"];
    assert_eq!(node.then("endpoint svc 10.0.1.2 node b"), revived);
    // The same if the process was restarted meanwhile.
    node.then("gone endpoint svc 10.0.1.2");
    node.restart();
    let step = node.world.then("endpoint svc 10.0.1.2 node b").unwrap();
    drop(step);
    node.kernel.take_writes();
    node.verify();
    assert_eq!(node.kernel.take_writes(), revived);
}

#[test]
fn draining_survives_a_restart() {
    let mut node = Node::of(TWO);
    node.connections(SERVICE, "10.0.1.2:80", 1, 0);
    node.then("gone endpoint svc 10.0.1.2");
    node.restart();
    let report = node.verify();
    assert_eq!((report.commits, report.deferred.map(|deferred| deferred.objects)), (0, Some(1)));
    assert_eq!(node.servers(), ["10.20.30.41:80/TCP: 10.0.1.1:80, 10.0.1.2:80 weight 0"]);
    assert_eq!(node.run_deferred().removed, 0, "it is not time to count again");
}

#[test]
fn new_servers_come_before_old_ones_go() {
    let mut node = Node::of(TWO);
    let written = node.then("gone endpoint svc 10.0.1.2\nendpoint svc 10.0.1.3 node b");
    let expected = [
        "server add 10.20.30.41:80/TCP 10.0.1.3:80 weight 1",
        "server delete 10.20.30.41:80/TCP 10.0.1.2:80",
    ];
    assert_eq!(written, expected);
}

#[test]
fn a_weight_that_was_not_taken_is_written_again() {
    let mut node = Node::of(TWO);
    node.connections(SERVICE, "10.0.1.2:80", 1, 0);
    node.kernel.reject("server set", 1, 22);
    node.then("gone endpoint svc 10.0.1.2");
    node.verify();
    assert_eq!(node.servers(), ["10.20.30.41:80/TCP: 10.0.1.1:80, 10.0.1.2:80 weight 0"]);
}

#[test]
fn a_server_past_its_limit_that_is_gone_is_not_tried_for_ever() {
    const ENOENT: i32 = 2;
    let limit = IpvsOptions { drain_limit: Some(Duration::from_nanos(1)), ..IpvsOptions::default() };
    let mut node = Node::start(IpFamily::V4, "", TWO, limit);
    node.connections(SERVICE, "10.0.1.2:80", 1, 0);
    node.kernel.reject("server delete", 1, ENOENT);
    let report = node.try_then("gone endpoint svc 10.0.1.2").unwrap();
    assert_eq!((report.deferred, report.rejected.len()), (None, 0));
}
