//! Which real servers a virtual server has.

use super::Node;

/// Row: ipvs R39
#[test]
fn ready_endpoints_are_real_servers_and_local_ones_are_masqueraded_to_themselves() {
    let mut node = Node::of(
        "service svc clusterIP 10.20.30.41 port p80 80
        endpoint svc 10.0.1.1 node host ready
        endpoint svc 10.0.1.2 node b ready
        endpoint svc 10.0.1.3 node c ready
        endpoint svc 10.0.1.4 node d notReady",
    );
    assert_eq!(node.servers(), ["10.20.30.41:80/TCP: 10.0.1.1:80, 10.0.1.2:80, 10.0.1.3:80"]);
    assert_eq!(node.set("KUBE-LOOP-BACK"), ["10.0.1.1,tcp:80,10.0.1.1"]);
    node.then("gone endpoint svc 10.0.1.1\ngone endpoint svc 10.0.1.2\ngone endpoint svc 10.0.1.3\ngone endpoint svc 10.0.1.4");
    assert_eq!(node.servers(), ["10.20.30.41:80/TCP:"]);
    assert!(node.set("KUBE-LOOP-BACK").is_empty());
}

/// Row: ipvs R40
#[test]
fn internal_policy_local_has_local_endpoints_or_none() {
    let service = "service svc clusterIP 10.20.30.41 port p80 80 internalTrafficPolicy Local\n";
    let remote = "endpoint svc 10.0.1.2 node b\nendpoint svc 10.0.1.3 node c\n";
    let node = Node::of(&format!("{service}{remote}endpoint svc 10.0.1.1 node host"));
    assert_eq!(
        (node.servers(), node.set("KUBE-LOOP-BACK").len()),
        (vec!["10.20.30.41:80/TCP: 10.0.1.1:80".to_owned()], 1)
    );
    let node = Node::of(&format!("{service}{remote}"));
    assert_eq!(
        (node.servers(), node.set("KUBE-LOOP-BACK").len()),
        (vec!["10.20.30.41:80/TCP:".to_owned()], 0)
    );
}

const TERMINATING: &str = "endpoint svc 10.0.1.1 node host ready
    endpoint svc 10.0.1.2 node host ready
    endpoint svc 10.0.1.3 node host terminating
    endpoint svc 10.0.1.4 node host terminated
    endpoint svc 10.0.1.5 node b ready";

/// Row: ipvs R41
#[test]
fn every_local_endpoint_is_masqueraded_to_itself() {
    let node =
        Node::of(&format!("service svc externalIP 1.2.3.4 clusterIP 10.20.30.41 port p80 80\n{TERMINATING}"));
    let servers = "10.0.1.1:80, 10.0.1.2:80, 10.0.1.5:80";
    assert_eq!(
        node.servers(),
        [format!("1.2.3.4:80/TCP: {servers}"), format!("10.20.30.41:80/TCP: {servers}")]
    );
    assert_eq!(node.set("KUBE-LOOP-BACK").len(), 4);
}

/// Row: ipvs R42
#[test]
fn external_policy_local_has_ready_local_endpoints() {
    let node = Node::of(&format!(
        "service svc externalIP 1.2.3.4 clusterIP 10.20.30.41 port p80 80 externalTrafficPolicy Local\n{TERMINATING}"
    ));
    let expected = [
        "1.2.3.4:80/TCP: 10.0.1.1:80, 10.0.1.2:80",
        "10.20.30.41:80/TCP: 10.0.1.1:80, 10.0.1.2:80, 10.0.1.5:80",
    ];
    assert_eq!(node.servers(), expected);
}

/// Row: ipvs R43
#[test]
fn local_endpoints_that_terminate_are_the_last_resort_of_local_policy() {
    let node = Node::of(
        "service svc externalIP 1.2.3.4 clusterIP 10.20.30.41 port p80 80 externalTrafficPolicy Local
        endpoint svc 10.0.1.1 node host terminating
        endpoint svc 10.0.1.2 node host terminating
        endpoint svc 10.0.1.3 node host terminated
        endpoint svc 10.0.1.5 node b ready",
    );
    assert_eq!(
        node.servers(),
        ["1.2.3.4:80/TCP: 10.0.1.1:80, 10.0.1.2:80", "10.20.30.41:80/TCP: 10.0.1.5:80"]
    );
}

/// Row: ipvs R44
#[test]
fn endpoints_that_terminate_are_used_where_there_are_no_others() {
    let node = Node::of(
        "service svc clusterIP 10.20.30.41 port p80 80
        endpoint svc 10.0.1.1 node host terminating
        endpoint svc 10.0.1.2 node b terminating
        endpoint svc 10.0.1.3 node b terminated",
    );
    assert_eq!(node.servers(), ["10.20.30.41:80/TCP: 10.0.1.1:80, 10.0.1.2:80"]);
}

/// Row: ipvs R45
#[test]
fn services_without_local_endpoints_are_counted() {
    let counted = |policies: &str, endpoint: &str| {
        let facts = format!(
            "service svc NodePort clusterIP 10.20.30.41 port p80 80 nodePort 3001 {policies}\n{endpoint}"
        );
        let counts = Node::of(&facts).world.family(ferrule_model::IpFamily::V4).unwrap().no_local_endpoints();
        (counts.internal, counts.external)
    };
    let remote = "endpoint svc 10.0.1.2 node b";
    assert_eq!(counted("internalTrafficPolicy Local", remote), (1, 0));
    assert_eq!(counted("externalTrafficPolicy Local", remote), (0, 1));
    assert_eq!(counted("internalTrafficPolicy Local externalTrafficPolicy Local", remote), (1, 1));
    assert_eq!(counted("internalTrafficPolicy Local externalTrafficPolicy Local", ""), (0, 0));
}

#[test]
fn an_endpoint_of_two_services_is_masqueraded_to_itself_until_both_are_gone() {
    let mut node = Node::of(
        "service a clusterIP 10.20.30.41 port p80 80
        service b clusterIP 10.20.30.42 port p80 80
        endpoint a 10.0.1.1 node host
        endpoint b 10.0.1.1 node host",
    );
    node.then("gone service a\ngone endpoint a 10.0.1.1");
    assert_eq!(node.set("KUBE-LOOP-BACK"), ["10.0.1.1,tcp:80,10.0.1.1"]);
    node.then("gone endpoint b 10.0.1.1");
    assert!(node.set("KUBE-LOOP-BACK").is_empty());
}
