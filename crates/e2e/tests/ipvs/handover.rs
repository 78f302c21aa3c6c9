//! Ferrule in the place of kube-proxy, and kube-proxy in the place of Ferrule, while clients connect.

use std::time::Duration;

use crate::clients::Clients;
use crate::kernel::SeenNode;
use crate::node::{Node, PATIENCE};
use crate::turn;

/// How long clients connect before a change, while nobody runs, and after the change.
const BEFORE: Duration = Duration::from_secs(1);
const BETWEEN: Duration = Duration::from_secs(1);
const AFTER: Duration = Duration::from_secs(2);

#[test]
fn nobody_notices_that_ferrule_takes_over_from_kube_proxy_and_gives_back() {
    let Some(_turn) = turn() else { return };
    let node = Node::new("handed-over");
    let kube_proxy = node.start_kube_proxy();
    node.wait_until(SeenNode::has_everything, &kube_proxy);
    node.wait_until_served(&kube_proxy);
    let clients = Clients::connecting_to(&node);
    clients.go_on(BEFORE);

    kube_proxy.kill().expect("it is killed");
    clients.go_on(BETWEEN);
    let before = node.seen();
    let (ferrule, said) = node.run_ferrule(&[]);
    assert!(said.contains("written=0") && said.contains("up-to-date"), "{said}");
    clients.go_on(AFTER);
    assert_eq!(node.seen(), before, "nothing is touched");

    ferrule.terminate().expect("it ends");
    clients.go_on(BETWEEN);
    let kube_proxy = node.start_kube_proxy();
    let synced = kube_proxy.wait_for("SyncProxyRules complete", 0, PATIENCE);
    assert!(synced.is_some(), "{}", kube_proxy.log().join("\n"));
    clients.go_on(AFTER);
    assert_eq!(node.seen(), before, "kube-proxy finds everything as it left it");

    let rate = clients.rate();
    let (tried, failed) = clients.stop();
    println!("{tried} connects, {rate:.0} a second, and 8 kept connections: {} failed", failed.len());
    assert_eq!(failed, Vec::<String>::new());
}
