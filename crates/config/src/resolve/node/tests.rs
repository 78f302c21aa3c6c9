//! The wait for the Node object, second by second, and its later changes.

use ferrule_model::{Change, Cluster, Touched, parse_ip};
use ferrule_plan::{LocalDetection, NodeView, plan};

use super::*;

fn node(ips: &str, pod_cidrs: &str) -> Node {
    Node {
        host_ips: ips.split_whitespace().map(|text| parse_ip(text).expect("an address")).collect(),
        pod_cidrs: pod_cidrs.split_whitespace().map(|text| text.parse().expect("a block")).collect(),
        ..Node::default()
    }
}

/// Observes once a second what `seen` shows, until the wait is over; also says after how many seconds.
fn wait(
    mode: &DetectLocal,
    seen: impl Fn(u64) -> Option<Node>,
) -> (u64, Result<NodeAddresses, NodeStartError>) {
    let mut wait = NodeWait::new(NodeName::new("a"), mode);
    for second in 0..1000 {
        match wait.observe(Duration::from_secs(second), seen(second).as_ref()) {
            Ok(NodeStart::Wait) => {}
            Ok(NodeStart::Ready(addresses)) => return (second, Ok(addresses)),
            Err(error) => return (second, Err(error)),
        }
    }
    panic!("the wait never ends");
}

fn addresses(node: &Node) -> NodeAddresses {
    NodeAddresses::from_node(node)
}

/// Row: server 8.4 #1
/// Row: model M1
#[test]
fn a_node_that_never_appears_is_given_up_after_30_seconds() {
    assert_eq!(wait(&DetectLocal::ClusterCidr, |_| None), (30, Ok(NodeAddresses::default())));
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
    assert_eq!((after, result), (30, Ok(NodeAddresses::default())));
}

/// Row: server 8.4 #4
/// Row: model M4
#[test]
fn an_address_that_comes_in_time_is_used() {
    let late = |second| Some(if second < 10 { node("", "") } else { node("10.0.0.1", "") });
    assert_eq!(wait(&DetectLocal::ClusterCidr, late), (10, Ok(addresses(&node("10.0.0.1", "")))));
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
    assert_eq!(wait(&DetectLocal::NodeCidr, late), (90, Ok(addresses(&node("10.0.0.2", "10.1.0.0/24")))));
}

/// Row: server 8.4 #7
/// Row: model M7
#[test]
fn pod_blocks_without_an_address_are_used() {
    let (after, result) = wait(&DetectLocal::NodeCidr, |_| Some(node("", "10.1.0.0/24")));
    assert_eq!((after, result), (30, Ok(addresses(&node("", "10.1.0.0/24")))));
}

/// A cluster that knows this Node.
fn cluster(node: &Node) -> Cluster {
    let mut cluster = Cluster::default();
    cluster.apply(Change::Node(Some(node.clone())));
    cluster
}

fn update(cluster: &mut Cluster, node: &Node) -> Touched {
    cluster.apply(Change::Node(Some(node.clone()))).touched
}

/// Row: server 8.4 #8
#[test]
fn an_update_with_the_same_addresses_changes_nothing() {
    let same = node("10.0.0.1", "");
    assert_eq!(update(&mut cluster(&same), &same), Touched::default());
}

/// Row: server 8.4 #9
///
/// kube-proxy 1.37 exits; Ferrule adopts the new addresses.
#[test]
fn new_addresses_are_adopted() {
    let (before, after) = (node("10.0.0.1", ""), node("10.0.0.2", ""));
    let mut cluster = cluster(&before);
    assert!(update(&mut cluster, &after).node);
    assert_eq!(cluster.node().map(|node| &node.host_ips), Some(&after.host_ips));
}

/// Row: server 8.4 #10
///
/// kube-proxy exits on different ones; Ferrule adopts them.
#[test]
fn new_pod_blocks_are_adopted_where_they_matter() {
    let (before, after) = (node("10.0.0.1", "10.1.0.0/24"), node("10.0.0.1", "10.2.0.0/24"));
    let plans = |local_detection: LocalDetection| {
        let view = NodeView { local_detection, ..NodeView::new(NodeName::new("a")) };
        let mut cluster = cluster(&before);
        let (first, _) = plan(&cluster, &view);
        update(&mut cluster, &after);
        (first, plan(&cluster, &view).0)
    };
    let (by_node, by_node_after) = plans(LocalDetection::NodeCidrs);
    assert!(by_node != by_node_after);
    let (by_cluster, by_cluster_after) = plans(LocalDetection::ClusterCidrs(Vec::new()));
    assert!(by_cluster == by_cluster_after);
}

/// Row: server 8.4 #11
///
/// kube-proxy 1.37 exits; Ferrule keeps serving.
#[test]
fn a_deleted_node_is_served_on() {
    let before = node("10.0.0.1", "");
    let mut cluster = cluster(&before);
    assert_eq!(cluster.apply(Change::Node(None)).touched, Touched::default());
    assert_eq!(cluster.node(), Some(&before));
}

/// Row: server 8.4 #12
#[test]
fn the_newest_node_is_what_is_known_next() {
    let (first, second) = (node("10.0.0.1", ""), node("10.0.0.2", ""));
    let mut cluster = cluster(&first);
    assert!(update(&mut cluster, &second).node);
    assert_eq!(update(&mut cluster, &second), Touched::default());
}
