//! Choosing the node's addresses.

use NodeAddressKind::{External, Internal};

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("a well-formed address in a test")
}

fn check_host_ips(addresses: &[(NodeAddressKind, &str)], expected: &[&str]) {
    let addresses: Vec<_> = addresses.iter().map(|(kind, text)| (*kind, ip(text))).collect();
    let expected: Vec<_> = expected.iter().map(|text| ip(text)).collect();
    assert_eq!(host_ips(&addresses), expected);
}

/// Row: model M13
#[test]
fn an_internal_address_beats_external_ones_in_any_order() {
    check_host_ips(&[(Internal, "1.2.3.4"), (External, "4.3.2.1"), (External, "4.3.2.2")], &["1.2.3.4"]);
    check_host_ips(&[(External, "4.3.2.1"), (External, "4.3.2.2"), (Internal, "1.2.3.4")], &["1.2.3.4"]);
}

/// Row: model M14
#[test]
fn without_an_internal_address_the_first_external_one_counts() {
    check_host_ips(&[(External, "4.3.2.1"), (External, "4.3.2.2")], &["4.3.2.1"]);
}

/// Row: model M15
#[test]
fn two_internal_addresses_of_different_families_both_count() {
    check_host_ips(
        &[(Internal, "1.2.3.4"), (Internal, "a:b::c:d"), (External, "4.3.2.1"), (External, "d:c::b:a")],
        &["1.2.3.4", "a:b::c:d"],
    );
}

/// Row: model M16
#[test]
fn the_second_family_may_come_from_an_external_address() {
    check_host_ips(
        &[(Internal, "a:b::c:d"), (External, "d:c::b:a"), (External, "4.3.2.1")],
        &["a:b::c:d", "4.3.2.1"],
    );
}

fn check_node_ips(bind: &str, host_ips: &[&str], primary: IpFamily, v4: &str, v6: &str) {
    let host_ips: Vec<_> = host_ips.iter().map(|text| ip(text)).collect();
    let settled = NodeIps::resolve(&host_ips, Some(ip(bind)));
    assert_eq!(settled, NodeIps { primary, v4: ip(v4), v6: ip(v6) });
}

/// Row: model M17
#[test]
fn a_bind_address_stands_in_for_a_missing_node() {
    check_node_ips("10.0.0.1", &[], IpFamily::V4, "10.0.0.1", "::1");
}

/// Row: model M18
#[test]
fn an_unspecified_bind_address_says_nothing() {
    check_node_ips("::", &["192.168.1.1"], IpFamily::V4, "192.168.1.1", "::1");
}

/// Row: model M19
#[test]
fn a_bind_address_wins_and_sets_the_primary_family() {
    let host = ["2001:db8::2", "90.90.90.90"];
    check_node_ips("80.80.80.80", &host, IpFamily::V4, "80.80.80.80", "2001:db8::2");
}

/// Row: model M20
#[test]
fn a_loopback_bind_address_is_still_an_address() {
    check_node_ips("::1", &["90.90.90.90", "2001:db8::2"], IpFamily::V6, "90.90.90.90", "::1");
}

fn node(host_ips: &[&str], pod_cidrs: &[&str]) -> Node {
    let pod_cidrs = pod_cidrs.iter().map(|text| text.parse().expect("a block")).collect();
    Node { host_ips: host_ips.iter().map(|text| ip(text)).collect(), pod_cidrs, ..Node::default() }
}

#[test]
fn what_a_node_loses_stays_in_use_and_is_reported() {
    let before = node(&["192.0.2.1", "fd00::1"], &["10.244.1.0/24"]);
    let mut bare = node(&[], &[]);
    let kept: Vec<String> =
        bare.keep_missing(&before).iter().map(|field| field.diagnostic("a").to_string()).collect();
    assert_eq!(bare, before);
    assert_eq!(kept.len(), 3, "{kept:?}");
    assert_eq!(kept[0], "Node a: status.addresses: missing, the last known one of IPv4 stays in use");
    assert_eq!(kept[2], "Node a: spec.podCIDRs: missing, the last known one of IPv4 stays in use");
}

#[test]
fn one_family_is_kept_behind_what_the_node_still_has() {
    let mut now = node(&["fd00::2"], &["10.244.2.0/24"]);
    let kept = now.keep_missing(&node(&["192.0.2.1", "fd00::1"], &["10.244.1.0/24"]));
    assert_eq!(now, node(&["fd00::2", "192.0.2.1"], &["10.244.2.0/24"]));
    assert_eq!(kept.len(), 1, "{kept:?}");
}
