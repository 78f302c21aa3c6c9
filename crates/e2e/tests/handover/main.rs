//! One proxy in the place of another, or another mode, while clients connect: nobody notices.
//!
//! The real kube-proxy is taken over in both of its modes, and takes over from us in the same mode. That it changes modes is not
//! tried: it removes the old rules before it writes its own, and connections fail meanwhile, whoever wrote the old ones.

#![allow(clippy::print_stdout, reason = "a tour says how many connected")]

mod clients;
mod node;
mod tour;

use node::Proxy::{Ferrule, KubeProxy};
use tour::Tour;

#[test]
fn kube_proxys_table_is_taken_over_and_given_back() {
    let Some(mut tour) = Tour::begin("table", KubeProxy("nftables")) else { return };
    assert!(tour.node.chains().contains("default/table"), "kube-proxy's own chains are there");
    for _ in 0..2 {
        tour.hand_over_to(Ferrule("nftables"));
        assert!(!tour.node.chains().contains("default/table"), "kube-proxy's chains are gone");
        tour.hand_over_to(KubeProxy("nftables"));
        assert!(tour.node.chains().contains("default/table"), "kube-proxy's chains are back");
    }
    tour.end();
}

#[test]
fn kube_proxys_iptables_rules_are_adopted_and_given_back() {
    let Some(mut tour) = Tour::begin("adopted", KubeProxy("iptables")) else { return };
    let synced = tour.hand_over_to(Ferrule("iptables"));
    assert!(synced.contains("written=0") && synced.contains("up-to-date"), "{synced}");
    assert!(tour.node.iptables().contains("default/adopted:http"));
    tour.hand_over_to(KubeProxy("iptables"));
    assert!(tour.node.iptables().contains("default/adopted:http"));
    tour.end();
}

#[test]
fn each_mode_gives_way_to_the_other() {
    let Some(mut tour) = Tour::begin("modes", KubeProxy("iptables")) else { return };
    for (mode, is_there) in [("nftables", false), ("iptables", true), ("nftables", false)] {
        tour.hand_over_to(Ferrule(mode));
        assert_eq!(tour.node.iptables().contains("default/modes:http"), is_there);
        assert_eq!(tour.node.chains().contains("table ip kube-proxy"), !is_there);
    }
    tour.hand_over_to(Ferrule("iptables"));
    let node = tour.end();
    assert!(!node.rules_in_iptables().is_empty());
    node.clean_up();
    assert_eq!((node.rules_in_iptables(), node.tables_of_proxies()), (Vec::new(), Vec::new()));
}
