//! This Node as the API server sends it, and what an event about it changes.

use ferrule_model::{Change, Cluster, Node, Touched};
use ferrule_watch::api;
use ferrule_watch::convert::{self, Converted};
use serde_json::{Value, json};

/// Puts Nodes that can be used as they are, and says what each touches.
fn put(cluster: &mut Cluster, mut object: Value) -> Touched {
    object["metadata"]["name"] = json!("me");
    let object: api::Node = serde_json::from_value(object).expect("a Node a decoder can read");
    let Converted { change, diagnostics } = convert::node(&object);
    assert_eq!(diagnostics, [], "{object:?}");
    cluster.apply(change.expect("a change")).touched
}

fn nothing() -> Touched {
    Touched::default()
}

fn the_node() -> Touched {
    Touched { node: true, ..nothing() }
}

fn its_eligibility() -> Touched {
    Touched { eligibility: true, ..nothing() }
}

fn with_addresses(addresses: &[&str]) -> Value {
    let addresses: Vec<Value> =
        addresses.iter().map(|address| json!({"type": "InternalIP", "address": address})).collect();
    json!({"status": {"addresses": addresses}})
}

fn with_pod_cidrs(cidrs: &[&str]) -> Value {
    json!({"spec": {"podCIDRs": cidrs}})
}

/// kube-proxy stops when its addresses change, to be started anew; here the new ones are taken over.
///
/// Row: model M8, M9
#[test]
fn other_addresses_are_taken_over() {
    let mut cluster = Cluster::default();
    assert!(put(&mut cluster, with_addresses(&["192.0.2.1"])).node, "M8: the first ones");
    assert_eq!(put(&mut cluster, with_addresses(&["192.0.2.1"])), nothing(), "M8");
    assert_eq!(
        put(&mut cluster, with_addresses(&["192.0.2.1", "192.0.2.9"])),
        nothing(),
        "M8: one that does not count"
    );
    assert_eq!(put(&mut cluster, with_addresses(&["192.0.2.2"])), the_node(), "M9");
    let now = cluster.node().map(|node| node.host_ips.clone()).unwrap_or_default();
    assert_eq!(now, ["192.0.2.2".parse::<std::net::IpAddr>().unwrap()], "M9");
}

/// kube-proxy stops when its pod CIDRs change; here the new ones are taken over.
///
/// Row: model M10
#[test]
fn other_pod_cidrs_are_taken_over() {
    let mut cluster = Cluster::default();
    put(&mut cluster, with_pod_cidrs(&["10.244.1.0/24"]));
    assert_eq!(put(&mut cluster, with_pod_cidrs(&["10.244.1.0/24"])), nothing(), "M10: the same");
    assert_eq!(put(&mut cluster, with_pod_cidrs(&["10.244.2.0/24"])), the_node(), "M10: others");
}

/// kube-proxy stops here too; to go on with none would open NodePorts on every address.
#[test]
fn addresses_and_pod_cidrs_that_vanish_stay_in_use() {
    let mut cluster = Cluster::default();
    put(&mut cluster, with_addresses(&["192.0.2.1", "2001:db8::1"]));
    let before = cluster.clone();
    assert_eq!(put(&mut cluster, with_addresses(&[])), nothing(), "no addresses");
    assert_eq!(put(&mut cluster, with_addresses(&["192.0.2.1"])), nothing(), "none of IPv6");
    assert_eq!(cluster, before);
    put(&mut cluster, with_pod_cidrs(&["10.244.1.0/24"]));
    assert_eq!(put(&mut cluster, with_pod_cidrs(&[])), nothing(), "no pod CIDRs");
}

/// kube-proxy 1.37 stops when its Node is deleted; here the last known one stays in force, and traffic goes on.
///
/// Row: model M11
#[test]
fn a_deleted_node_stays_in_force() {
    let mut cluster = Cluster::default();
    put(&mut cluster, with_addresses(&["192.0.2.1"]));
    let before = cluster.clone();
    assert_eq!(cluster.apply(Change::Node(None)).touched, nothing(), "M11");
    assert_eq!(cluster, before, "M11");
}

/// No API object is kept, so there is no resource version to return: what it says is what is known.
///
/// Row: model M12
#[test]
fn a_new_resource_version_alone_means_nothing() {
    let mut cluster = Cluster::default();
    let with_version = |version: &str| {
        let mut object = with_addresses(&["192.0.2.1"]);
        object["metadata"] = json!({"resourceVersion": version});
        object
    };
    put(&mut cluster, with_version("1"));
    let before = cluster.node().cloned();
    assert_eq!(put(&mut cluster, with_version("2")), nothing(), "M12");
    assert_eq!(cluster.node().cloned(), before, "M12");
}

fn with_labels(labels: &Value) -> Value {
    json!({"metadata": {"labels": labels}})
}

/// Row: model M21
/// Row: server 8.12 #2
#[test]
fn labels_other_than_the_zone_are_not_looked_at() {
    for labels in [json!({}), json!({"topology.kubernetes.io/region": "us-east-1"})] {
        let touched = put(&mut Cluster::default(), with_labels(&labels));
        assert_eq!(
            touched,
            Touched { eligibility: true, ..nothing() },
            "M21: {labels}, on the first sight of the node"
        );
    }
}

/// Row: model M22
/// Row: server 8.12 #2
#[test]
fn a_new_zone_touches_nothing_but_the_zone() {
    let zone = "topology.kubernetes.io/zone";
    let region = "topology.kubernetes.io/region";
    let kind = "node.kubernetes.io/instance-type";
    let mut cluster = Cluster::default();
    put(&mut cluster, with_labels(&json!({})));
    assert_eq!(put(&mut cluster, with_labels(&json!({zone: "us-west-2a"}))), the_node(), "M22: added");
    let moved = json!({zone: "us-east-1b", region: "us-east-1", kind: "small"});
    assert_eq!(put(&mut cluster, with_labels(&moved)), the_node(), "M22: another");
    let other_kind = json!({zone: "us-east-1b", region: "us-east-1", kind: "large"});
    assert_eq!(put(&mut cluster, with_labels(&other_kind)), nothing(), "M22: only the instance type");
}

#[test]
fn a_node_that_is_being_removed_is_recognised() {
    let mut cluster = Cluster::default();
    put(&mut cluster, json!({}));
    assert_eq!(put(&mut cluster, json!({"spec": {"taints": [{"key": "other"}]}})), nothing(), "any taint");
    let tainted = json!({"spec": {"taints": [{"key": "ToBeDeletedByClusterAutoscaler"}]}});
    assert_eq!(put(&mut cluster, tainted), its_eligibility(), "tainted");
    assert_eq!(put(&mut cluster, json!({})), its_eligibility(), "the taint is gone");
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    assert_eq!(put(&mut cluster, deleted), its_eligibility(), "being deleted");
}

#[test]
fn a_bad_address_or_block_costs_itself_and_one_complaint() {
    let object: api::Node = serde_json::from_value(json!({
        "metadata": {"name": "me"},
        "spec": {"podCIDRs": ["10.244.1.0/24", "10.244.2.0"]},
        "status": {"addresses": [{"type": "Hostname", "address": "me"}, {"type": "InternalIP", "address": "192.0.2"},
                                 {"type": "ExternalIP", "address": "192.0.2.1"}]}}))
    .expect("a Node a decoder can read");
    let Converted { change, diagnostics } = convert::node(&object);
    let said: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    let complaints = [
        "Node me: status.addresses[1].address: \"192.0.2\" is not an IP address, ignored",
        "Node me: spec.podCIDRs[1]: \"10.244.2.0\" is not a CIDR, ignored",
    ];
    assert_eq!(said, complaints);
    let kept = Node {
        host_ips: vec!["192.0.2.1".parse().unwrap()],
        pod_cidrs: vec!["10.244.1.0/24".parse().unwrap()],
        ..Node::default()
    };
    assert_eq!(change, Some(Change::Node(Some(kept))));
}
