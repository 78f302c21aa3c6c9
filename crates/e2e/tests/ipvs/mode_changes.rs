//! ipvs mode gives way to others and takes over from them, while clients connect and others stay connected.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use ferrule_testkit::Program;

use crate::beside_others;
use crate::clients::Clients;
use crate::kernel::SeenNode;
use crate::node::{Node, PATIENCE, PAUSE};

/// How long clients connect in each mode.
const IN_EACH: Duration = Duration::from_secs(2);
/// The addresses of Services are taken for local pods' then, and not masqueraded.
const WIDE_BLOCK: &[&str] = &["--cluster-cidr=10.0.0.0/8"];
/// The kernel forgets a connection two minutes after it was closed.
const DRAINED_WITHIN: Duration = Duration::from_mins(8);

/// A node, who connects to it, and the proxy that runs.
struct Tour {
    node: Node,
    clients: Clients,
    ferrule: Option<Program>,
    modes: Vec<&'static str>,
}

impl Tour {
    fn begin(name: &'static str, mode: &'static str) -> Self {
        let node = Node::new(name);
        let (ferrule, _) = node.run_ferrule_in(mode, &[]);
        node.wait_until_served(&ferrule);
        let clients = Clients::connecting_to(&node);
        clients.go_on(IN_EACH);
        Self { node, clients, ferrule: Some(ferrule), modes: vec![mode] }
    }

    /// Another mode. Its process starts once the other has ended, as a DaemonSet has it.
    fn change_to(&mut self, mode: &'static str) {
        if let Some(old) = self.ferrule.take() {
            old.terminate().expect("it ends");
        }
        self.clients.go_on(IN_EACH / 4);
        self.ferrule = Some(self.node.run_ferrule_in(mode, &[]).0);
        self.clients.go_on(IN_EACH);
        self.modes.push(mode);
    }

    /// Waits for a state of the node.
    fn wait(&self, is_reached: impl Fn(&Node) -> bool) {
        if let Some(ferrule) = &self.ferrule {
            wait((&self.node, ferrule), PATIENCE, is_reached);
        }
    }

    /// Nobody noticed anything. The node and the proxy that runs.
    fn end(self) -> (Node, Program) {
        let Self { node, clients, ferrule, modes } = self;
        let ferrule = ferrule.expect("one always runs");
        let rate = clients.rate();
        let (tried, failed) = clients.stop();
        let modes = modes.join(" → ");
        println!(
            "{modes}: {tried} connects, {rate:.0} a second, and 8 kept connections: {} failed",
            failed.len()
        );
        assert_eq!(failed, Vec::<String>::new(), "{}", ferrule.log().join("\n"));
        (node, ferrule)
    }
}

/// Waits until a node is as it should be.
fn wait((node, ferrule): (&Node, &Program), patience: Duration, is_reached: impl Fn(&Node) -> bool) {
    let give_up = Instant::now() + patience;
    while !is_reached(node) {
        let log = || ferrule.log().join("\n");
        assert!(
            Instant::now() < give_up,
            "{:?}\n{:?}\n{:?}\n{}",
            node.seen(),
            node.rules(),
            node.tables(),
            log()
        );
        std::thread::park_timeout(PAUSE);
    }
}

/// The weights of the real servers to which connections are kept.
fn weights(node: &Node) -> Vec<u32> {
    node.seen().real_servers_of(node.echo()).iter().map(|server| server.weight).collect()
}

#[test]
fn connections_through_virtual_servers_outlive_ipvs_mode() {
    let Some(_turn) = beside_others() else { return };
    let mut tour = Tour::begin("gives-way", "ipvs");
    for mode in ["nftables", "iptables"] {
        tour.change_to(mode);
        // They stay for the connections they have.
        let is_quiet = |node: &Node| weights(node).iter().all(|weight| *weight == 0);
        tour.wait(is_quiet);
        assert!(!weights(&tour.node).is_empty(), "{:?}", tour.node.seen());
        tour.clients.go_on(IN_EACH);
        // A restart goes on with it.
        tour.change_to(mode);
        assert!(weights(&tour.node).iter().all(|weight| *weight == 0), "{:?}", tour.node.seen());
        if mode == "nftables" {
            tour.change_to("ipvs");
            assert_eq!(weights(&tour.node), [1, 1]);
            tour.wait(|node| node.tables().is_empty());
        }
    }
    let (node, ferrule) = tour.end();
    let began = Instant::now();
    wait((&node, &ferrule), DRAINED_WITHIN, |node| node.seen() == SeenNode::default());
    println!("nothing was left of ipvs mode {:.0?} after the last connection", began.elapsed());
    let of_ipvs = ["KUBE-IPVS", "KUBE-LOAD-BALANCER", "KUBE-NODE-PORT ", "KUBE-SOURCE-RANGES", "match-set"];
    let rules = node.rules();
    assert!(!rules.is_empty(), "iptables mode serves");
    for rule in &rules {
        assert!(!of_ipvs.iter().any(|part| rule.contains(part)), "{rule}");
    }
}

#[test]
fn ipvs_mode_takes_over_from_the_others() {
    let Some(_turn) = beside_others() else { return };
    let mut tour = Tour::begin("takes-over", "nftables");
    tour.change_to("ipvs");
    tour.wait(|node| node.tables().is_empty());
    tour.clients.go_on(IN_EACH);
    // Connections of both kinds are open now.
    tour.change_to("iptables");
    tour.change_to("ipvs");
    let of_iptables = |node: &Node| node.rules().iter().any(|rule| rule.contains("KUBE-SVC-"));
    tour.wait(|node| !of_iptables(node));
    tour.clients.go_on(IN_EACH);
    let (node, ferrule) = tour.end();
    assert_eq!(weights(&node), [1, 1]);
    ferrule.kill().expect("it is killed");
    node.clean_up();
    assert_eq!(node.seen(), SeenNode::default(), "clean-up waits for nobody");
    // This one of iptables mode is the kubelet's as well, and stays.
    let left = node.rules().into_iter().filter(|rule| !rule.contains("KUBE-FIREWALL"));
    assert_eq!(left.collect::<Vec<_>>(), Vec::<String>::new());
}

/// The address of the Service is still this host's own then, and no endpoint elsewhere could answer to it. A UDP client, which sends
/// from one port all the time, is served by every mode.
#[test]
fn the_host_itself_and_udp_clients_are_served_while_ipvs_mode_drains() {
    let Some(_turn) = beside_others() else { return };
    let node = Node::new("connects");
    let (ferrule, _) = node.run_ferrule(WIDE_BLOCK);
    node.wait_until_served(&ferrule);
    let (open, udp) = (node.connect_to_echo(), node.udp_client());
    ferrule.terminate().expect("it ends");
    for mode in ["ipvs", "nftables", "iptables"] {
        ferrule_in(&node, mode, WIDE_BLOCK, |ferrule| {
            let weight = u32::from(mode == "ipvs");
            wait((&node, ferrule), PATIENCE, |node| weights(node).iter().all(|is| *is == weight));
            wait((&node, ferrule), PATIENCE, |node| {
                let drains = node.rules().iter().any(|rule| rule.contains("FERRULE-IPVS-DRAIN"));
                drains == (mode != "ipvs")
            });
            assert!(is_answered(&udp), "{mode}: a UDP client is on its own\n{}", ferrule.log().join("\n"));
            for _ in 0..4 {
                let answer = node.ask_from_host();
                assert!(answer.contains(' '), "{mode}: {answer}");
                let vip = node.service().ip().to_string();
                // ipvs mode itself goes by the block.
                assert!(
                    mode == "ipvs" || !answer.contains(&vip),
                    "{mode}: an endpoint was asked by {answer}"
                );
            }
        });
    }
    drop(open);
}

/// Whether somebody answers in a few tries: a packet may be lost.
fn is_answered(client: &UdpSocket) -> bool {
    (0..5).any(|_| client.send(b"?").is_ok() && client.recv(&mut [0; 100]).is_ok_and(|length| length > 0))
}

/// Runs something while Ferrule runs in a mode.
fn ferrule_in(node: &Node, mode: &str, flags: &[&str], work: impl FnOnce(&Program)) {
    let (ferrule, _) = node.run_ferrule_in(mode, flags);
    work(&ferrule);
    ferrule.terminate().expect("it ends");
}
