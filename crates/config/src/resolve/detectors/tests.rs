//! The table of local detectors.

use ferrule_model::{IpFamily, PerFamily, parse_cidr};
use ferrule_plan::LocalPods;

use super::*;
use crate::settings::FlagOnly;

fn both(pods: &LocalPods) -> PerFamily<LocalPods> {
    PerFamily { v4: Some(pods.clone()), v6: Some(pods.clone()) }
}

const V4: &str = "10.0.0.0/14";
const V6: &str = "2002:0:0:1234::/64";

fn blocks(list: &[&str]) -> Vec<IpNet> {
    list.iter().filter_map(|text| parse_cidr(text)).collect()
}

/// Blocks given, primary family, then the expected detector of each family and whether the primary one has none.
type Pattern = (&'static [&'static str], IpFamily, Option<&'static str>, Option<&'static str>, bool);

const PATTERNS: [Pattern; 6] = [
    (&[V4], IpFamily::V4, Some(V4), None, false),
    (&[V6], IpFamily::V6, None, Some(V6), false),
    (&[V4], IpFamily::V6, Some(V4), None, true),
    (&[V6], IpFamily::V4, None, Some(V6), true),
    (&[V4, V6], IpFamily::V4, Some(V4), Some(V6), false),
    (&[""], IpFamily::V4, None, None, true),
];

fn check(mode: &DetectLocal, pattern: &Pattern) {
    let (list, primary, v4, v6, primary_lacks_one) = pattern;
    let (given, ignored) = (blocks(list), blocks(&["192.0.2.0/24", "2001:db8::/32"]));
    let detectors = match mode {
        DetectLocal::NodeCidr => detectors(mode, &ignored, &given),
        _ => detectors(mode, &given, &ignored),
    };
    let source = |text: Option<&str>| text.and_then(parse_cidr).map(LocalPods::From);
    assert_eq!(detectors, PerFamily { v4: source(*v4), v6: source(*v6) }, "{list:?}");
    assert_eq!(detectors.get(*primary).is_none(), *primary_lacks_one, "{list:?}");
}

/// The detector of each family, for these blocks of the cluster and of the node.
fn detectors(mode: &DetectLocal, cluster_cidrs: &[IpNet], pod_cidrs: &[IpNet]) -> PerFamily<LocalPods> {
    let detection = local_detection(mode, cluster_cidrs);
    let of_family = |family| detection.local_pods(pod_cidrs, family);
    PerFamily { v4: of_family(IpFamily::V4), v6: of_family(IpFamily::V6) }
}

/// Row: server 8.6 #1
#[test]
fn an_ipv4_cluster_block_detects_ipv4() {
    check(&DetectLocal::ClusterCidr, &PATTERNS[0]);
}

/// Row: server 8.6 #2
#[test]
fn an_ipv6_cluster_block_detects_ipv6() {
    check(&DetectLocal::ClusterCidr, &PATTERNS[1]);
}

/// Row: server 8.6 #3
#[test]
fn only_ipv4_on_an_ipv6_node_detects_nothing_of_the_primary_family() {
    check(&DetectLocal::ClusterCidr, &PATTERNS[2]);
}

/// Row: server 8.6 #4
#[test]
fn only_ipv6_on_an_ipv4_node_detects_nothing_of_the_primary_family() {
    check(&DetectLocal::ClusterCidr, &PATTERNS[3]);
}

/// Row: server 8.6 #5
#[test]
fn a_pair_detects_both_in_any_order_and_on_any_node() {
    for list in [&[V4, V6], &[V6, V4]] {
        for primary in IpFamily::BOTH {
            check(&DetectLocal::ClusterCidr, &(list, primary, Some(V4), Some(V6), false));
        }
    }
}

/// Row: server 8.6 #6
#[test]
fn an_empty_block_detects_nothing() {
    check(&DetectLocal::ClusterCidr, &PATTERNS[5]);
}

/// Row: server 8.6 #7
#[test]
fn with_node_cidr_the_nodes_blocks_count_and_the_clusters_do_not() {
    for pattern in &PATTERNS {
        check(&DetectLocal::NodeCidr, pattern);
    }
}

/// Row: server 8.6 #8
///
/// There is no detector for an unknown mode because there are no settings with one.
#[test]
fn an_unknown_mode_never_gets_this_far() {
    use crate::{cli::parse, config::complete, settings::Settings};
    let line = parse(&["--detect-local-mode=abcd"]).expect("parses");
    let completed = complete(&line, |_| panic!("no file")).expect("completes");
    let problems = Settings::resolve(&completed, &FlagOnly::default()).expect_err("refused");
    assert!(problems.to_string().contains("DetectLocalMode"));
}

/// Row: server 8.6 #9
#[test]
fn interfaces_detect_both_families() {
    for name in ["eth", "1234567890123456789"] {
        let bridge = LocalPods::ByInterface(name.to_owned());
        assert_eq!(detectors(&DetectLocal::BridgeInterface(name.to_owned()), &[], &[]), both(&bridge));
        let prefix = LocalPods::ByInterfacePrefix(name.to_owned());
        let mode = DetectLocal::InterfaceNamePrefix(name.to_owned());
        assert_eq!(detectors(&mode, &[], &[]), both(&prefix));
    }
}

#[test]
fn host_bits_are_cleared() {
    let given = ["10.1.2.3/8".parse().expect("a block")];
    let detectors = detectors(&DetectLocal::ClusterCidr, &given, &[]);
    assert_eq!(detectors.v4, parse_cidr("10.0.0.0/8").map(LocalPods::From));
}
