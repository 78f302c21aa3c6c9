//! The real kube-proxy and Ferrule on one API server, in one run: how long what takes, and what it costs.
//!
//! `make bench-peer` prints the tables and writes them with all figures as JSON, and a chart, to a folder. Each proxy has
//! a node of its own and runs alone; both are run as users run them, in nftables mode, with their default pacing. Connections
//! that take their rules are made afterwards, to both nodes in turns. Sizes that kube-proxy does not finish in time are marked so.
#![allow(clippy::print_stdout, reason = "this program prints tables")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock and waits")]

mod changes;
mod chart;
mod cluster;
mod figures;
mod prober;
mod proxy;
mod rate;
mod report;
#[path = "../cluster/source.rs"]
mod source;
#[path = "../cluster/store.rs"]
mod store;
mod stored;
mod usage;

use ferrule_testkit::api_server::or_skip;

use cluster::{Cluster, Size};
use figures::Measured;
use proxy::Make;

/// One API server each: the sizes of a row are grown into one another.
const ROWS: [&[Size]; 2] = [
    &[Size::of(10, 10), Size::of(1_000, 10), Size::of(5_000, 10), Size::of(10_000, 10)],
    &[Size::of(30_000, 1), Size::of(45_000, 1)],
];

fn main() {
    if !or_skip() {
        return;
    }
    let wanted = std::env::var("SIZES").unwrap_or_default();
    let is_wanted =
        |size: &&Size| wanted.is_empty() || wanted.split(',').any(|name| name == size.to_string());
    let mut measured = Vec::new();
    for row in ROWS {
        let sizes: Vec<&Size> = row.iter().filter(is_wanted).collect();
        let Some(first) = sizes.first() else { continue };
        let mut cluster = Cluster::new(**first);
        for size in sizes {
            println!("{size}: creating …");
            cluster.grow(*size);
            let mut both = [Make::KubeProxy, Make::Ferrule].map(|make| {
                println!("{size}: {make} …");
                let measuring = figures::measure(&cluster, make);
                println!("{}", measuring.figures.line());
                measuring
            });
            println!("{size}: connections …");
            figures::measure_rules(&mut both);
            measured.extend(both.map(|one| Measured { size: *size, make: one.make, figures: one.figures }));
        }
    }
    report::write(&measured);
}
