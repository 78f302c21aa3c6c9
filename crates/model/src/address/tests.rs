//! The tolerant address rules of Kubernetes, row by row.

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("a well-formed address in a test")
}

#[test]
fn addresses_are_read_as_kubernetes_reads_them() {
    for (text, expected) in [
        ("10.0.1.9", Some("10.0.1.9")),
        ("010.000.001.009", Some("10.0.1.9")),
        ("0000000010.0.0.1", Some("10.0.0.1")),
        ("256.0.0.1", None),
        ("1.2.3", None),
        ("1.2.3.4.5", None),
        ("1.2.3.x", None),
        (" 1.2.3.4", None),
        ("", None),
        ("10", None),
        ("fd00::1", Some("fd00::1")),
        ("FD00:0000:00000:0::0001", Some("fd00::1")),
        ("::", Some("::")),
        ("::1", Some("::1")),
        ("1::", Some("1::")),
        ("1:2:3:4:5:6:7:8", Some("1:2:3:4:5:6:7:8")),
        ("1:2:3:4:5:6:7::", Some("1:2:3:4:5:6:7:0")),
        ("1:2:3:4:5:6:7:8::", None),
        ("1::2::3", None),
        (":1", None),
        ("1:", None),
        (":::", None),
        ("12345::", None),
        ("fe80::1%eth0", None),
        ("::ffff:1.2.3.4", Some("1.2.3.4")),
        ("64:ff9b::192.0.2.33", Some("64:ff9b::c000:221")),
        ("::1.2.3.4:5", None),
        ("1.2.3.4:80", None),
    ] {
        assert_eq!(parse_ip(text), expected.map(ip), "reading {text:?}");
    }
}

#[test]
fn cidrs_are_read_masked() {
    for (text, expected) in [
        ("10.1.2.3/24", Some("10.1.2.0/24")),
        ("010.1.2.3/024", Some("10.1.2.0/24")),
        ("0.0.0.0/0", Some("0.0.0.0/0")),
        ("10.0.0.0/0", Some("0.0.0.0/0")),
        ("10.0.0.0/33", None),
        ("fd00:1:d::7/64", Some("fd00:1:d::/64")),
        ("::/129", None),
        ("::ffff:10.1.2.3/104", Some("10.0.0.0/8")),
        ("::ffff:10.1.2.3/95", Some("::fffe:0:0/95")),
        ("10.0.0.0", None),
        ("10.0.0.0/", None),
        ("10.0.0.0/-1", None),
        ("10.0.0.0/8/8", None),
        ("bogus", None),
    ] {
        let parsed = parse_cidr(text).map(|net| net.to_string());
        assert_eq!(parsed.as_deref(), expected, "reading {text:?}");
    }
}

#[test]
fn a_zero_cidr_is_zero_whatever_its_base() {
    assert!(is_zero_cidr(&parse_cidr("10.0.0.0/0").expect("valid")));
    assert!(!is_zero_cidr(&parse_cidr("0.0.0.0/1").expect("valid")));
}

#[test]
fn endpoints_sort_by_their_text() {
    let mut v4: Vec<IpAddr> = ["10.0.1.1", "10.0.1.10", "10.0.1.9", "9.0.0.1"].map(ip).to_vec();
    v4.sort_by(|a, b| text_order(*a, *b));
    assert_eq!(v4, ["10.0.1.10", "10.0.1.1", "10.0.1.9", "9.0.0.1"].map(ip));
    let mut v6: Vec<IpAddr> = ["fd00::2", "fd00::10", "fd00::1"].map(ip).to_vec();
    v6.sort_by(|a, b| text_order(*a, *b));
    assert_eq!(v6, ["fd00::10", "fd00::1", "fd00::2"].map(ip));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(10_000))]

    #[test]
    fn the_order_is_that_of_the_written_text(a: Ipv4Addr, b: Ipv4Addr, c: Ipv6Addr, d: Ipv6Addr) {
        proptest::prop_assert_eq!(text_order(a.into(), b.into()), format!("{a}:").cmp(&format!("{b}:")));
        proptest::prop_assert_eq!(text_order(c.into(), d.into()), format!("[{c}]:").cmp(&format!("[{d}]:")));
    }

    #[test]
    fn any_written_address_is_read_back(v4: Ipv4Addr, v6: Ipv6Addr) {
        proptest::prop_assert_eq!(parse_ip(&v4.to_string()), Some(IpAddr::V4(v4)));
        proptest::prop_assert_eq!(parse_ip(&v6.to_string()), Some(unmapped(v6)));
    }

    #[test]
    fn no_text_makes_the_parsers_panic(text: String) {
        let _ = (parse_ip(&text), parse_cidr(&text));
    }
}
