//! iptables mode beside the real kube-proxy's, on one API server: first syncs, single changes, and how long the lock is held.
//!
//! `make bench-iptables` prints one table; `SIZES` says how many Services there are, with ten endpoints each, `VARIANTS` which
//! variants of iptables are measured, and `PEER=0` leaves kube-proxy out, which takes long. The two run one after the other, each
//! in a network namespace of its own, with the same flags. Times are for comparing rows of one run.
#![allow(clippy::print_stdout, reason = "this program prints a table")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock and waits")]

#[path = "../cluster/cluster.rs"]
#[allow(dead_code, reason = "the other benchmark uses the rest")]
mod cluster;
mod lock;
#[path = "../cluster/process.rs"]
#[allow(dead_code, reason = "the other benchmark uses the rest")]
mod process;
mod proxy;
#[path = "../cluster/source.rs"]
mod source;

use std::time::Duration;

use ferrule_testkit::api_server::or_skip;

use cluster::BenchCluster;
use proxy::{Found, Make, Variant};

fn main() {
    if !or_skip() {
        return;
    }
    let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    let sizes = variable("SIZES").unwrap_or_else(|| "1000 5000 10000".into());
    let variants = variable("VARIANTS").unwrap_or_else(|| "nft legacy".into());
    let variants = [Variant::Nft, Variant::Legacy]
        .into_iter()
        .filter(|variant| variants.split_whitespace().any(|name| name == variant.name()));
    let with_peer = variable("PEER").as_deref() != Some("0");
    let mut cluster = BenchCluster::create(0);
    println!("| Services × 10 | variant | what | Ferrule | kube-proxy 1.37.1 |\n|---|---|---|---|---|");
    for services in sizes.split_whitespace().filter_map(|size| size.parse().ok()) {
        cluster.grow_to(services);
        for variant in variants.clone() {
            let measured = |make| match proxy::measure(&cluster, make, variant) {
                Some(found) => Measured::Found(found),
                None => Measured::TimedOut,
            };
            let ours = measured(Make::Ferrule);
            let theirs = if with_peer { measured(Make::KubeProxy) } else { Measured::LeftOut };
            for row in compared(services, variant, [ours, theirs]) {
                println!("{row}");
            }
        }
    }
}

enum Measured {
    Found(Found),
    TimedOut,
    LeftOut,
}

impl Measured {
    fn found(&self) -> Option<&Found> {
        match self {
            Self::Found(found) => Some(found),
            Self::TimedOut | Self::LeftOut => None,
        }
    }
}

fn compared(services: usize, variant: Variant, [ours, theirs]: [Measured; 2]) -> Vec<String> {
    let row = |what: &str, of: &dyn Fn(&Found) -> Option<String>| {
        let shown = |measured: &Measured| match measured {
            Measured::LeftOut => "not measured".into(),
            Measured::TimedOut => "not within ten minutes".into(),
            Measured::Found(found) => of(found).unwrap_or_else(|| "–".into()),
        };
        let is_any = [&ours, &theirs].iter().any(|measured| measured.found().and_then(of).is_some());
        let row =
            format!("| {services} | {} | {what} | {} | {} |", variant.name(), shown(&ours), shown(&theirs));
        is_any.then_some(row)
    };
    let rows = [
        row("start, until all rules are written", &|found| Some(shown(found.start))),
        row("of that, the first sync", &|found| Some(shown(found.first_sync))),
        row("the lock held meanwhile", &|found| found.lock_at_start.map(shown)),
        row("the slowest of eight new Services right after the start", &|found| {
            Some(shown(found.slowest_new_service))
        }),
        row("one endpoint replaced: the sync", &|found| Some(shown(found.change))),
        row("one endpoint replaced: from the API server to the rule", &|found| Some(shown(found.latency))),
        row("the lock held for it", &|found| found.lock_for_change.map(shown)),
        row("repairs though nobody touched the rules", &|found| {
            found.false_alarms.map(|count| count.to_string())
        }),
        row("another program empties one chain: repaired after", &|found| {
            found.healed.map(|[chain, _]| shown(chain))
        }),
        row("another program empties table nat: repaired after", &|found| {
            found.healed.map(|[_, table]| shown(table))
        }),
        row("resident memory before that, and the most there was", &|found| {
            Some(format!("{:.0} MiB, {:.0} MiB", found.resident.0, found.resident.1))
        }),
    ];
    rows.into_iter().flatten().collect()
}

fn shown(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        format!("{} ms", time.as_millis())
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}
