//! Ferrule in the place of kube-proxy, and kube-proxy in the place of Ferrule, while clients connect and notice nothing.

use std::time::{Duration, Instant};

use ferrule_testkit::Program;

use crate::alone;
use crate::clients::Clients;
use crate::kernel::SeenNode;
use crate::node::{Node, PATIENCE, PAUSE, servers};

/// How long clients connect before a change, while nobody runs, and after the change.
const BEFORE: Duration = Duration::from_secs(1);
const BETWEEN: Duration = Duration::from_secs(1);
const AFTER: Duration = Duration::from_secs(2);

#[test]
fn ferrule_takes_over_from_kube_proxy_gives_back_and_cleans_up() {
    let Some(_turn) = alone() else { return };
    let node = Node::new("handed-over");
    let kube_proxy = node.start_kube_proxy();
    wait_until_synced(&kube_proxy);
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
    wait_until_synced(&kube_proxy);
    clients.go_on(AFTER);
    assert_eq!(node.seen(), before, "kube-proxy finds everything as it left it");

    let rate = clients.rate();
    let (tried, failed) = clients.stop();
    println!("{tried} connects, {rate:.0} a second, and 8 kept connections: {} failed", failed.len());
    assert_eq!(failed, Vec::<String>::new());

    kube_proxy.kill().expect("it is killed");
    assert_eq!(before.unknown_sets(), Vec::<String>::new());
    assert_eq!(before.real_servers_of(node.service()), servers());
    node.clean_up();
    assert_eq!(node.seen(), SeenNode::default(), "all that kube-proxy left is removed");
    assert_eq!(node.rules(), Vec::<String>::new());
}

/// Waits until kube-proxy has written both families.
fn wait_until_synced(kube_proxy: &Program) {
    let give_up = Instant::now() + PATIENCE;
    let is_synced = |log: &[String], family: &str| {
        log.iter().any(|line| line.contains("syncProxyRules complete") && line.contains(family))
    };
    loop {
        let log = kube_proxy.log();
        if is_synced(&log, "IPv4") && is_synced(&log, "IPv6") {
            return;
        }
        assert!(Instant::now() < give_up, "{}", log.join("\n"));
        std::thread::park_timeout(PAUSE);
    }
}
