//! The rules of iptables mode are those the real kube-proxy writes for the same cluster, rule for rule.
#![allow(clippy::print_stdout, reason = "the test says how much it compared")]

mod clusters;
mod nodes;

use ferrule_testkit::{api_server, netns};

use clusters::Cluster;
use nodes::Pair;

/// How many random clusters are compared, each three times: new, changed, gone.
const CLUSTERS: u64 = 40;

#[test]
fn rules_are_those_of_the_real_kube_proxy() {
    let has_iptables = std::process::Command::new("iptables-save").arg("-V").output().is_ok();
    assert!(has_iptables || std::env::var("CI").is_err(), "this test needs the iptables programs");
    if !has_iptables || !netns::or_skip() || !api_server::or_skip() {
        return;
    }
    let mut pair = Pair::start();
    let (mut compared, mut rules) = (0, 0);
    for seed in 0..CLUSTERS {
        let mut cluster = Cluster::random(seed);
        pair.write(&cluster.objects());
        let mut steps = vec![("new", pair.settle())];
        cluster.change();
        pair.rewrite(&cluster.slices());
        steps.push(("changed", pair.settle()));
        pair.delete(&cluster.objects());
        steps.push(("gone", pair.settle()));
        for (step, settled) in steps {
            let count = settled.unwrap_or_else(|difference| {
                let told = format!("cluster {seed}, {step}:\n{difference}\n{}", cluster.text());
                std::panic::resume_unwind(Box::new(told))
            });
            rules += count;
            compared += 1;
        }
    }
    println!("{rules} rules of {compared} states of {CLUSTERS} clusters are equal");
}
