//! The rules of iptables mode are those the real kube-proxy writes for the same cluster, rule for rule.
#![allow(clippy::print_stdout, reason = "the test says how much it compared")]

mod clusters;
mod nodes;

use ferrule_testkit::{api_server, netns};

use clusters::Cluster;
use nodes::{Pair, delete};

/// How both are run, and how many random clusters are compared so, each three times: new, changed, gone.
const RUNS: [(&[&str], u64); 5] = [
    (&["--cluster-cidr=10.244.0.0/16,fd44::/32"], 40),
    (&["--cluster-cidr=10.244.0.0/16,fd44::/32", BY_PROGRAMS], 10),
    (
        &[
            "--masquerade-all",
            "--cluster-cidr=10.244.0.0/16",
            "--nodeport-addresses=192.0.2.0/24,127.0.0.0/8,fd00::/64",
        ],
        10,
    ),
    (
        &[
            "--detect-local-mode=InterfaceNamePrefix",
            "--pod-interface-name-prefix=veth",
            "--iptables-localhost-nodeports=false",
            "--iptables-masquerade-bit=3",
        ],
        10,
    ),
    (
        &[
            "--detect-local-mode=BridgeInterface",
            "--pod-bridge-interface=cbr0",
            "--nodeport-addresses=primary",
        ],
        10,
    ),
];

/// A flag that only Ferrule has: rules are written by the programs, not over netlink.
pub const BY_PROGRAMS: &str = "--iptables-access=programs";

#[test]
fn rules_are_those_of_the_real_kube_proxy() {
    let has_iptables = std::process::Command::new("iptables-save").arg("-V").output().is_ok();
    assert!(has_iptables || std::env::var("CI").is_err(), "this test needs the iptables programs");
    if !has_iptables || !netns::or_skip() || !api_server::or_skip() {
        return;
    }
    let (mut compared, mut rules) = (0, 0);
    for (number, (flags, clusters)) in RUNS.into_iter().enumerate() {
        let mut pair = Pair::start(u8::try_from(number).unwrap_or_default(), flags);
        for seed in 0..clusters {
            let counts = compare(&mut pair, Cluster::random(seed + 1000 * number as u64));
            rules += counts.iter().sum::<usize>();
            compared += counts.len();
        }
        pair.write(&Cluster::random(7).objects());
        pair.settle().expect("equal rules");
        pair.hand_over(flags);
        delete(&Cluster::random(7).objects());
    }
    println!("{rules} rules of {compared} states of clusters are equal");
    assert!(rules > 10 * compared, "too few rules");
}

/// How many rules there were of the cluster when it was new, changed, and gone.
fn compare(pair: &mut Pair, mut cluster: Cluster) -> Vec<usize> {
    pair.write(&cluster.objects());
    let mut steps = vec![("new", pair.settle())];
    cluster.change();
    pair.rewrite(&cluster.slices());
    steps.push(("changed", pair.settle()));
    delete(&cluster.objects());
    steps.push(("gone", pair.settle()));
    let told = |(step, settled): (&str, Result<usize, String>)| {
        settled
            .map_err(|difference| println!("{step}:\n{difference}\n{}", cluster.text()))
            .expect("equal rules")
    };
    steps.into_iter().map(told).collect()
}
