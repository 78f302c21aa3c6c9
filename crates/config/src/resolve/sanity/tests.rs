//! The table of settings that do not fit together.

use ferrule_model::parse_cidr;

use super::*;
use crate::settings::FlagOnly;
use crate::{cli::parse, config::complete};

fn settings(flags: &[&str]) -> Settings {
    let line = parse(flags).expect("good flags");
    let completed = complete(&line, |_| panic!("no file is asked for")).expect("completes");
    Settings::resolve(&completed, &FlagOnly::default()).expect("valid")
}

fn blocks(list: &[&str]) -> Vec<IpNet> {
    list.iter().map(|text| parse_cidr(text).expect("a block")).collect()
}

/// Check A: the complaint about these NodePort blocks and cluster blocks.
fn complaint(node_ports: &[&str], cluster: &str, primary: IpFamily) -> Option<NodePortComplaint> {
    let flag = format!("--cluster-cidr={cluster}");
    let settings = if cluster.is_empty() { settings(&[]) } else { settings(&[&flag]) };
    let node = NodeContext { pod_cidrs: &[], node_port_blocks: &blocks(node_ports), primary };
    check_node_ports(&settings, &node)
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Fine,
    Error,
    Fatal,
}

/// Check B on a single-stack and on a dual-stack node.
fn outcomes(flags: &[&str], pod_cidrs: &[&str], primary: IpFamily) -> [Outcome; 2] {
    let settings = settings(flags);
    let node = NodeContext { pod_cidrs: &blocks(pod_cidrs), node_port_blocks: &[], primary };
    [Stack::Single, Stack::Dual].map(|stack| {
        let mismatch = check_families(&settings, &node, Families { primary, stack });
        match mismatch.settings.as_slice() {
            [] => Outcome::Fine,
            _ if mismatch.is_fatal() => Outcome::Fatal,
            _ => Outcome::Error,
        }
    })
}

const FINE: [Outcome; 2] = [Outcome::Fine, Outcome::Fine];

/// Row: server 8.5 #1
#[test]
fn one_family_throughout_is_fine_and_so_is_nothing() {
    assert_eq!(complaint(&["10.0.0.0/8"], "10.0.0.0/8", IpFamily::V4), None);
    assert_eq!(outcomes(&[], &[], IpFamily::V4), FINE);
}

/// Row: server 8.5 #2
#[test]
fn both_families_throughout_are_fine() {
    assert_eq!(complaint(&["10.0.0.0/8", "fd00::/64"], "10.0.0.0/8,fd00::/64", IpFamily::V4), None);
    for cluster in ["10.0.0.0/8", "10.0.0.0/8,fd00::/64", "fd00::/64,10.0.0.0/8"] {
        assert_eq!(outcomes(&[&format!("--cluster-cidr={cluster}")], &[], IpFamily::V4), FINE, "{cluster}");
    }
}

/// Row: server 8.5 #3
///
/// An unset detection mode is ClusterCIDR by the time settings exist, so another mode stands for it here.
#[test]
fn no_node_port_addresses_and_a_foreign_unused_cluster_block_are_errors() {
    assert_eq!(complaint(&[], "10.0.0.0/8", IpFamily::V4), Some(NodePortComplaint::AllAddresses));
    let flags = ["--cluster-cidr=fd00::/64", "--detect-local-mode=NodeCIDR"];
    assert_eq!(outcomes(&flags, &[], IpFamily::V4), [Outcome::Error, Outcome::Error]);
}

/// Row: server 8.5 #4
#[test]
fn dual_stack_with_node_ports_of_one_family_and_a_foreign_used_cluster_block() {
    assert_eq!(
        complaint(&["10.0.0.0/8"], "10.0.0.0/8,fd00::/64", IpFamily::V4),
        Some(NodePortComplaint::OtherFamilyUnrestricted(IpFamily::V6))
    );
    let flags = ["--cluster-cidr=fd00::/64", "--detect-local-mode=ClusterCIDR"];
    assert_eq!(outcomes(&flags, &[], IpFamily::V4), [Outcome::Fatal, Outcome::Error]);
}

/// Row: server 8.5 #5
#[test]
fn node_ports_of_the_other_family_and_foreign_pod_blocks() {
    assert_eq!(
        complaint(&["10.0.0.0/8"], "", IpFamily::V6),
        Some(NodePortComplaint::PrimaryFamilyUnrestricted(IpFamily::V6))
    );
    let flags = ["--detect-local-mode=NodeCIDR"];
    assert_eq!(outcomes(&flags, &["fd00::/64"], IpFamily::V4), [Outcome::Fatal, Outcome::Fatal]);
}

/// Row: server 8.5 #6
#[test]
fn a_foreign_source_vip_is_an_error() {
    let mut settings = settings(&[]);
    settings.source_vip = SourceVip::Address("fd00::1".parse().expect("an address"));
    let node = NodeContext { pod_cidrs: &[], node_port_blocks: &[], primary: IpFamily::V4 };
    for stack in [Stack::Single, Stack::Dual] {
        let mismatch = check_families(&settings, &node, Families { primary: IpFamily::V4, stack });
        let setting = MismatchedSetting { name: "winkernel.sourceVip", fatal: false };
        assert_eq!(mismatch.settings, [setting]);
    }
}

/// Row: server 8.5 #7
#[test]
fn a_foreign_metrics_address_is_an_error_on_a_single_stack_node() {
    let flags = ["--metrics-bind-address=10.0.0.1:9999"];
    assert_eq!(outcomes(&flags, &[], IpFamily::V6), [Outcome::Error, Outcome::Fine]);
}

/// Row: server 8.5 #8
#[test]
fn a_wildcard_metrics_address_has_no_family() {
    assert_eq!(outcomes(&["--metrics-bind-address=0.0.0.0:9999"], &[], IpFamily::V6), FINE);
}

/// Row: server 8.5 #9
#[test]
fn foreign_excluded_blocks_are_an_error_on_a_single_stack_node() {
    let flags = ["--ipvs-exclude-cidrs=10.0.0.0/8,11.0.0.0/8", "--metrics-bind-address=[::1]:1"];
    assert_eq!(outcomes(&flags, &[], IpFamily::V6), [Outcome::Error, Outcome::Fine]);
}

#[test]
fn warnings_say_what_is_missing() {
    let node = NodeContext { pod_cidrs: &[], node_port_blocks: &[], primary: IpFamily::V6 };
    let families = Families { primary: IpFamily::V6, stack: Stack::Single };
    let mismatch = check_families(&settings(&["--cluster-cidr=10.0.0.0/8"]), &node, families);
    assert!(mismatch.is_fatal());
    assert!(
        mismatch.text().contains("IPv6") && mismatch.text().contains("clusterCIDR"),
        "{}",
        mismatch.text()
    );
    assert!(NodePortComplaint::AllAddresses.text().contains("primary"));
}
