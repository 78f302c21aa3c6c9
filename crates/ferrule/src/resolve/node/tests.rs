//! The wait for the Node object, second by second, and its later changes.

use ferrule_model::parse_ip;

use super::*;

fn node(ips: &str, pod_cidrs: &str) -> Node {
    Node {
        host_ips: ips.split_whitespace().map(|text| parse_ip(text).expect("an address")).collect(),
        pod_cidrs: pod_cidrs.split_whitespace().map(|text| text.parse().expect("a block")).collect(),
        ..Node::default()
    }
}

/// Looks once a second at what `seen` shows, until the wait is over; tells after how many seconds.
fn wait(mode: &DetectLocal, seen: impl Fn(u64) -> Option<Node>) -> (u64, Result<NodeFacts, NodeStartError>) {
    let mut wait = NodeWait::new(NodeName::new("a"), mode);
    for second in 0..1000 {
        match wait.look(Duration::from_secs(second), seen(second).as_ref()) {
            Ok(NodeStart::Wait) => {}
            Ok(NodeStart::Ready(facts)) => return (second, Ok(facts)),
            Err(error) => return (second, Err(error)),
        }
    }
    panic!("the wait never ends");
}

fn facts(node: &Node) -> NodeFacts {
    NodeFacts::of(node)
}

/// Row: server 8.4 #1
/// Row: model M1
#[test]
fn a_node_that_never_appears_is_given_up_after_30_seconds() {
    assert_eq!(wait(&DetectLocal::ClusterCidr, |_| None), (30, Ok(NodeFacts::default())));
}

/// Row: server 8.4 #2
/// Row: model M2
#[test]
fn with_node_cidr_a_node_that_never_appears_is_fatal() {
    let name = NodeName::new("a");
    assert_eq!(wait(&DetectLocal::NodeCidr, |_| None), (330, Err(NodeStartError::NeverAppeared(name))));
}

/// Row: server 8.4 #3
/// Row: model M3
#[test]
fn a_node_without_addresses_is_taken_after_30_seconds() {
    let (after, result) = wait(&DetectLocal::ClusterCidr, |_| Some(node("", "")));
    assert_eq!((after, result), (30, Ok(NodeFacts::default())));
}

/// Row: server 8.4 #4
/// Row: model M4
#[test]
fn an_address_that_comes_in_time_is_used() {
    let late = |second| Some(if second < 10 { node("", "") } else { node("10.0.0.1", "") });
    assert_eq!(wait(&DetectLocal::ClusterCidr, late), (10, Ok(facts(&node("10.0.0.1", "")))));
}

/// Row: server 8.4 #5
/// Row: model M5
#[test]
fn with_node_cidr_a_node_without_pod_blocks_is_fatal() {
    let name = NodeName::new("a");
    let (after, result) = wait(&DetectLocal::NodeCidr, |_| Some(node("10.0.0.1", "")));
    assert_eq!((after, result), (300, Err(NodeStartError::NoPodCidr(name))));
}

/// Row: server 8.4 #6
/// Row: model M6
#[test]
fn when_pod_blocks_come_late_the_newest_addresses_count() {
    let late =
        |second| Some(if second < 90 { node("10.0.0.1", "") } else { node("10.0.0.2", "10.1.0.0/24") });
    assert_eq!(wait(&DetectLocal::NodeCidr, late), (90, Ok(facts(&node("10.0.0.2", "10.1.0.0/24")))));
}

/// Row: server 8.4 #7
/// Row: model M7
#[test]
fn pod_blocks_without_an_address_are_used() {
    let (after, result) = wait(&DetectLocal::NodeCidr, |_| Some(node("", "10.1.0.0/24")));
    assert_eq!((after, result), (30, Ok(facts(&node("", "10.1.0.0/24")))));
}

fn reaction(mode: &DetectLocal, before: &Node, after: Option<&Node>) -> NodeReaction {
    react(&facts(before), after, mode)
}

/// Row: server 8.4 #8
#[test]
fn an_update_with_the_same_addresses_changes_nothing() {
    let same = node("10.0.0.1", "");
    assert_eq!(reaction(&DetectLocal::ClusterCidr, &same, Some(&same)), NodeReaction::Nothing);
}

/// Row: server 8.4 #9
///
/// kube-proxy 1.37 exits; Ferrule takes the new addresses over.
#[test]
fn new_addresses_are_adopted() {
    let (before, after) = (node("10.0.0.1", ""), node("10.0.0.2", ""));
    let adopt = NodeReaction::Adopt(facts(&after));
    assert_eq!(reaction(&DetectLocal::ClusterCidr, &before, Some(&after)), adopt);
}

/// Row: server 8.4 #10
///
/// kube-proxy exits on different ones; Ferrule takes them over.
#[test]
fn new_pod_blocks_are_adopted_where_they_matter() {
    let (before, after) = (node("10.0.0.1", "10.1.0.0/24"), node("10.0.0.1", "10.2.0.0/24"));
    let adopt = NodeReaction::Adopt(facts(&after));
    assert_eq!(reaction(&DetectLocal::NodeCidr, &before, Some(&before)), NodeReaction::Nothing);
    assert_eq!(reaction(&DetectLocal::NodeCidr, &before, Some(&after)), adopt);
    assert_eq!(reaction(&DetectLocal::ClusterCidr, &before, Some(&after)), NodeReaction::Nothing);
}

/// Row: server 8.4 #11
///
/// kube-proxy 1.37 exits; Ferrule goes on serving.
#[test]
fn a_deleted_node_is_served_on() {
    let before = node("10.0.0.1", "");
    assert_eq!(reaction(&DetectLocal::NodeCidr, &before, None), NodeReaction::KeepServing);
}

/// Row: server 8.4 #12
#[test]
fn the_newest_node_is_what_is_known_next() {
    let (first, second) = (node("10.0.0.1", ""), node("10.0.0.2", ""));
    let NodeReaction::Adopt(known) = reaction(&DetectLocal::ClusterCidr, &first, Some(&second)) else {
        panic!("not adopted");
    };
    assert_eq!(react(&known, Some(&second), &DetectLocal::ClusterCidr), NodeReaction::Nothing);
}
