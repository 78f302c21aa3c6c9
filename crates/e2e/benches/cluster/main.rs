//! The program on a real API server with many Services: how long a start takes and what it costs, and whether a storm of
//! changes loses any.
//!
//! `make bench-cluster` prints one table. `SERVICES` and `STORM_SECONDS` make it larger or smaller; `BUILDS` names other builds of the
//! program, by their paths, whose starts are compared instead. Everything runs on one
//! machine, the API server and etcd too, so what they cannot do shows as a lower rate than was asked for.
#![allow(clippy::print_stdout, reason = "this program prints a table")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock and waits")]

mod builds;
mod cluster;
mod process;
mod source;
mod store;
mod storm;

use std::path::PathBuf;
use std::time::Duration;

use ferrule_testkit::api_server::or_skip;

use cluster::BenchCluster;
use process::Measured;

fn main() {
    if !or_skip() {
        return;
    }
    let services = number("SERVICES", 10_000);
    let seconds = number("STORM_SECONDS", 60);
    let rate = number("STORM_RATE", 1_000);
    println!("Creating {services} Services with 10 endpoints each …");
    let cluster = BenchCluster::create(services);
    println!("| what | seconds | CPU seconds | resident MiB | written |\n|---|---|---|---|---|");
    let builds = std::env::var("BUILDS").unwrap_or_default();
    let builds: Vec<PathBuf> = builds.split_whitespace().map(PathBuf::from).collect();
    if !builds.is_empty() {
        builds::compare(&cluster, &builds);
        return;
    }
    let (_, first) = cluster.started();
    first.print("first start");
    let (proxy, second) = cluster.started();
    second.print("second start");
    println!("Changing {rate} slices a second for {seconds} s …");
    let asked = (u32::try_from(rate).unwrap_or(1_000), Duration::from_secs(seconds as u64));
    storm::run(&cluster, &proxy, asked).print();
}

fn number(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

impl Measured {
    fn print(&self, what: &str) {
        let Self { took, cpu, resident, written } = self;
        println!(
            "| {what} | {:.2} | {:.2} | {resident:.1} | {written} |",
            took.as_secs_f64(),
            cpu.as_secs_f64()
        );
    }
}
