//! NodePort addresses: the configured blocks against the node's interfaces.

use super::*;

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().expect("a well-formed address in a test")).collect()
}

fn blocks(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| parse_cidr(text).expect("a well-formed block in a test")).collect()
}

/// What one family's object should say: everything matches or not, and which interface addresses are in.
fn check(cidrs: &[&str], interfaces: &[&str], family: IpFamily, match_all: bool, expected: &[&str]) {
    let addresses = NodePortAddresses::new(family, &blocks(cidrs));
    assert_eq!(addresses.match_all(), match_all, "match-all for {family} of {cidrs:?}");
    let expected: BTreeSet<IpAddr> = ips(expected).into_iter().collect();
    assert_eq!(addresses.among(ips(interfaces)), expected, "addresses for {family} of {cidrs:?}");
}

use IpFamily::{V4, V6};

/// Row: model N1
/// Row: server 8.10 #1
#[test]
fn a_block_selects_the_interfaces_inside_it() {
    let interfaces = ["10.20.30.51", "100.200.201.1"];
    check(&["10.20.30.0/24"], &interfaces, V4, false, &["10.20.30.51"]);
    check(&["10.20.30.0/24"], &interfaces, V6, true, &[]);
}

/// Row: model N2
/// Row: server 8.10 #2
#[test]
fn the_ipv4_zero_block_selects_everything() {
    let interfaces = ["10.20.30.51", "127.0.0.1"];
    check(&["0.0.0.0/0"], &interfaces, V4, true, &interfaces);
    check(&["0.0.0.0/0"], &interfaces, V6, true, &[]);
}

/// Row: model N3
/// Row: server 8.10 #3
#[test]
fn ipv6_blocks_leave_ipv4_open() {
    let interfaces = ["2001:db8::1", "::1"];
    check(&["2001:db8::/64", "::1/128"], &interfaces, V4, true, &[]);
    check(&["2001:db8::/64", "::1/128"], &interfaces, V6, false, &interfaces);
}

/// Row: model N4
#[test]
fn the_ipv6_zero_block_selects_everything() {
    let interfaces = ["2001:db8::1", "::1"];
    check(&["::/0"], &interfaces, V4, true, &[]);
    check(&["::/0"], &interfaces, V6, true, &interfaces);
}

/// Row: model N5, N6
/// Row: server 8.10 #4
#[test]
fn loopback_blocks_select_loopback_addresses() {
    check(&["127.0.0.1/32"], &["10.20.30.51", "127.0.0.1"], V4, false, &["127.0.0.1"]);
    check(&["127.0.0.1/32"], &["10.20.30.51", "127.0.0.1"], V6, true, &[]);
    check(&["127.0.0.0/8"], &["127.0.1.1"], V4, false, &["127.0.1.1"]);
    check(&["127.0.0.0/8"], &["127.0.1.1"], V6, true, &[]);
}

/// Row: model N7, N8
/// Row: server 8.10 #5
#[test]
fn several_blocks_add_up_and_may_match_nothing() {
    let cidrs = ["10.20.30.0/24", "100.200.201.0/24"];
    let both = ["10.20.30.51", "100.200.201.1"];
    check(&cidrs, &both, V4, false, &both);
    check(&cidrs, &both, V6, true, &[]);
    check(&cidrs, &["192.168.1.2", "127.0.0.1"], V4, false, &[]);
    check(&cidrs, &["192.168.1.2", "127.0.0.1"], V6, true, &[]);
}

/// Row: model N9, N10
/// Row: server 8.10 #6
#[test]
fn an_empty_list_selects_everything() {
    let v4 = ["192.168.1.2", "127.0.0.1"];
    check(&[], &v4, V4, true, &v4);
    check(&[], &v4, V6, true, &[]);
    let v6 = ["2001:db8::1", "::1"];
    check(&[], &v6, V4, true, &[]);
    check(&[], &v6, V6, true, &v6);
}

/// Row: model N11, N12, N13
/// Row: server 8.10 #7, 8.10 #8
#[test]
fn a_zero_block_anywhere_makes_the_others_moot() {
    check(&["1.2.3.0/24", "0.0.0.0/0"], &["1.2.3.4"], V4, true, &["1.2.3.4"]);
    check(&["1.2.3.0/24", "0.0.0.0/0"], &["1.2.3.4"], V6, true, &[]);
    let interfaces = ["1.2.3.4", "2001:db8::1", "127.0.0.1", "::1"];
    let n12 = ["0.0.0.0/0", "1.2.3.0/24", "2001:db8::1/128"];
    check(&n12, &interfaces, V4, true, &["1.2.3.4", "127.0.0.1"]);
    check(&n12, &interfaces, V6, false, &["2001:db8::1"]);
    let n13 = ["::/0", "1.2.3.0/24", "2001:db8::1/128"];
    check(&n13, &interfaces, V4, false, &["1.2.3.4"]);
    check(&n13, &interfaces, V6, true, &["2001:db8::1", "::1"]);
}

/// Row: model N14-N21
/// Row: server 8.10 #9
#[test]
fn loopback_is_contained_when_a_block_reaches_it() {
    let base = ["224.0.0.0/24", "192.168.0.0/16", "fd00:1:d::/64"];
    for (extra, expected) in [
        (None, true),
        (Some("0.0.0.0/0"), true),
        (Some("::/0"), false),
        (Some("127.0.0.0/8"), true),
        (Some("::1/128"), false),
        (Some("127.0.2.0/28"), true),
        (Some("64.0.0.0/2"), true),
        (Some("128.0.2.0/28"), false),
    ] {
        let list: Vec<&str> = extra.map_or(Vec::new(), |extra| base.into_iter().chain([extra]).collect());
        let v4 = NodePortAddresses::new(V4, &blocks(&list));
        assert_eq!(v4.contains_ipv4_loopback(), expected, "with {extra:?}");
        assert!(!NodePortAddresses::new(V6, &blocks(&list)).contains_ipv4_loopback(), "IPv6 with {extra:?}");
    }
}

/// Row: model N22, N23, N24
/// Row: server 8.10 #10
#[test]
fn loopback_is_explicit_only_when_named() {
    for (family, list, expected) in [
        (V4, &["127.0.0.0/8"][..], true),
        (V6, &["::1/128"], true),
        (V4, &["0.0.0.0/0"], false),
        (V6, &["::/0"], false),
        (V4, &[], false),
        (V4, &["192.168.1.1/32"], false),
        (V4, &["::1/128"], false),
        (V4, &["127.0.0.0/8", "0.0.0.0/0"], true),
        (V4, &["0.0.0.0/0", "127.0.0.0/8"], true),
    ] {
        let addresses = NodePortAddresses::new(family, &blocks(list));
        assert_eq!(addresses.contains_explicit_loopback(), expected, "{family} {list:?}");
    }
}

fn check_expansion(entries: &[&str], v6: &str, expected: &[&str]) {
    let selectors: Vec<_> =
        entries.iter().map(|entry| NodePortSelector::parse(entry).expect("a valid entry")).collect();
    let node = NodeIps { primary: V4, v4: ips(&["192.168.1.1"])[0], v6: ips(&[v6])[0] };
    assert_eq!(expand(&selectors, &node), blocks(expected), "expanding {entries:?}");
}

/// Row: model N25, N26
#[test]
fn primary_stands_for_the_known_node_addresses() {
    check_expansion(&["primary"], "fd00::1", &["192.168.1.1/32", "fd00::1/128"]);
    check_expansion(&["primary"], "::1", &["192.168.1.1/32"]);
    assert!(NodePortAddresses::new(V6, &blocks(&["192.168.1.1/32"])).match_all());
}

/// Row: model N27, N28, N29, N30
#[test]
fn keywords_expand_in_place() {
    check_expansion(&["localhost"], "::1", &["127.0.0.0/8", "::1/128"]);
    check_expansion(&["all"], "fd00::1", &["0.0.0.0/0", "::/0"]);
    check_expansion(
        &["primary", "localhost"],
        "fd00::1",
        &["192.168.1.1/32", "fd00::1/128", "127.0.0.0/8", "::1/128"],
    );
    check_expansion(&["localhost", "10.0.0.0/8"], "fd00::1", &["127.0.0.0/8", "::1/128", "10.0.0.0/8"]);
}

#[test]
fn anything_else_is_no_entry() {
    for text in ["foo", "1.2.3", "0", "10.20.30.40", "::0", "::1", "2001:db8:xyz/64", "Primary", ""] {
        assert_eq!(NodePortSelector::parse(text), None, "{text:?}");
    }
    assert!(NodePortSelector::parse("10.0.0.0/0").is_some());
}
