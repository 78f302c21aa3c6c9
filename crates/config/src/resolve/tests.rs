//! The node's addresses and its NodePort blocks, as settings and the Node object decide them together.

use std::net::IpAddr;

use ferrule_model::{IpFamily, NodeIps, NodePortSelector, parse_ip};

use super::node_ports;

fn ips(list: &str) -> Vec<IpAddr> {
    list.split_whitespace().map(|text| parse_ip(text).expect("an address")).collect()
}

fn check(bind: &str, node: &str, primary: IpFamily, v4: &str, v6: &str) {
    let settled = NodeIps::resolve(&ips(node), parse_ip(bind));
    assert_eq!(settled.primary, primary, "bind {bind:?}, node {node:?}");
    assert_eq!(settled.v4, parse_ip(v4).expect("an address"), "bind {bind:?}, node {node:?}");
    assert_eq!(settled.v6, parse_ip(v6).expect("an address"), "bind {bind:?}, node {node:?}");
}

/// Row: server 8.3 #1
#[test]
fn an_ipv4_bind_address_alone_decides() {
    check("10.0.0.1", "", IpFamily::V4, "10.0.0.1", "::1");
}

/// Row: server 8.3 #2
#[test]
fn an_ipv6_bind_address_alone_decides() {
    check("fd00:4321::2", "", IpFamily::V6, "127.0.0.1", "fd00:4321::2");
}

/// Row: server 8.3 #3
#[test]
fn nothing_known_is_loopback() {
    check("", "", IpFamily::V4, "127.0.0.1", "::1");
    check("0.0.0.0", "", IpFamily::V4, "127.0.0.1", "::1");
}

/// Row: server 8.3 #4
#[test]
fn an_ipv4_node_is_ipv4_under_either_wildcard() {
    check("0.0.0.0", "192.168.1.1", IpFamily::V4, "192.168.1.1", "::1");
    check("::", "192.168.1.1", IpFamily::V4, "192.168.1.1", "::1");
}

/// Row: server 8.3 #5
#[test]
fn an_ipv6_node_is_ipv6_under_either_wildcard() {
    check("0.0.0.0", "fd00:1234::1", IpFamily::V6, "127.0.0.1", "fd00:1234::1");
    check("::", "fd00:1234::1", IpFamily::V6, "127.0.0.1", "fd00:1234::1");
}

/// Row: server 8.3 #6
#[test]
fn a_wildcard_does_not_turn_a_dual_stack_node() {
    check("::", "90.90.90.90 2001:db8::2", IpFamily::V4, "90.90.90.90", "2001:db8::2");
}

/// Row: server 8.3 #7
#[test]
fn the_first_node_address_is_primary() {
    check("0.0.0.0", "2001:db8::2 90.90.90.90", IpFamily::V6, "90.90.90.90", "2001:db8::2");
}

/// Row: server 8.3 #8
#[test]
fn a_bind_address_replaces_its_family_and_leads() {
    check("80.80.80.80", "2001:db8::2 90.90.90.90", IpFamily::V4, "80.80.80.80", "2001:db8::2");
}

/// Row: server 8.3 #9
#[test]
fn so_does_an_ipv6_one() {
    check("2001:db8::555", "90.90.90.90 2001:db8::2", IpFamily::V6, "90.90.90.90", "2001:db8::555");
}

/// Row: server 8.3 #10
#[test]
fn a_loopback_bind_address_counts_as_specific() {
    check("127.0.0.1", "2001:db8::2 90.90.90.90", IpFamily::V4, "127.0.0.1", "2001:db8::2");
}

/// Row: server 8.3 #11
#[test]
fn so_does_the_ipv6_loopback() {
    check("::1", "90.90.90.90 2001:db8::2", IpFamily::V6, "90.90.90.90", "::1");
}

/// Row: server 8.3 #12
#[test]
fn keywords_expand_in_place_for_this_node() {
    let blocks = |node: &str, words: &[&str]| -> Vec<String> {
        let selectors: Vec<_> =
            words.iter().map(|word| NodePortSelector::parse(word).expect("a selector")).collect();
        let settled = NodeIps::resolve(&ips(node), None);
        node_ports(&selectors, &settled).blocks.iter().map(ToString::to_string).collect()
    };
    let dual = "192.168.1.1 fd00::1";
    assert_eq!(blocks(dual, &["primary"]), ["192.168.1.1/32", "fd00::1/128"]);
    assert_eq!(blocks("192.168.1.1", &["primary"]), ["192.168.1.1/32"]);
    assert_eq!(blocks("fd00::1", &["localhost"]), ["127.0.0.0/8", "::1/128"]);
    assert_eq!(blocks(dual, &["all"]), ["0.0.0.0/0", "::/0"]);
    assert_eq!(
        blocks(dual, &["primary", "localhost"]),
        ["192.168.1.1/32", "fd00::1/128", "127.0.0.0/8", "::1/128"]
    );
    assert_eq!(blocks(dual, &["localhost", "10.0.0.0/8"]), ["127.0.0.0/8", "::1/128", "10.0.0.0/8"]);
    assert_eq!(blocks(dual, &["10.0.0.0/8", "fd00::/64"]), ["10.0.0.0/8", "fd00::/64"]);
}

#[test]
fn node_ports_come_per_family() {
    let node = NodeIps::resolve(&ips("192.168.1.1"), None);
    let ports = node_ports(&[NodePortSelector::Primary], &node);
    assert!(!ports.v4.match_all());
    // Nothing of the family left means every address of it.
    assert!(ports.v6.match_all());
}
