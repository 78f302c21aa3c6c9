//! Taking over from the real kube-proxy while clients connect: nobody notices.

mod clients;
mod node;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ferrule_testkit::api_server;
use ferrule_testkit::netns;

use clients::Clients;
use node::Node;

/// Clients of several tests at once would be in each other's way.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
/// How long clients connect before, between and after the change.
const WHILE: Duration = Duration::from_secs(3);

#[test]
fn kube_proxys_table_is_taken_over_without_a_failed_connect() {
    if !netns::or_skip() || !api_server::or_skip() {
        return;
    }
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let node = Node::new("taken-over", "10.96.71.1");
    let kube_proxy = node.start_kube_proxy("nftables");
    node.wait_until_served();
    assert!(node.chains().contains("default/taken-over"), "kube-proxy's own chains are there");
    let clients = Clients::connecting_to(&node);
    clients.go_on(WHILE);
    kube_proxy.kill().expect("kube-proxy is killed");
    clients.go_on(Duration::from_millis(500));
    let ferrule = node.start_ferrule(&["--proxy-mode=nftables"]);
    let written = ferrule.wait_for("Rules written\" family=\"IPv4\"", 0, node::PATIENCE);
    assert!(written.is_some(), "{}", ferrule.log().join("\n"));
    clients.go_on(WHILE);
    let (tried, failed) = clients.stop();
    assert!(tried > 5_000, "only {tried} connects were tried");
    assert_eq!(failed, Vec::<String>::new(), "of {tried}");
    assert!(!node.chains().contains("default/taken-over"), "kube-proxy's chains are gone");
}
