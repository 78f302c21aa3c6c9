//! Several builds of the program beside each other: first starts in turn, and the median of each.

use std::path::PathBuf;

use crate::cluster::BenchCluster;
use crate::process::Measured;

/// An odd number, so that there is a median.
const ROUNDS: usize = 7;

/// Prints a row for each build.
pub fn compare(cluster: &BenchCluster, builds: &[PathBuf]) {
    let mut starts: Vec<Vec<Measured>> = builds.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for (build, starts) in builds.iter().zip(&mut starts) {
            cluster.clean_up(build);
            starts.push(cluster.started_as(build).1);
        }
    }
    for (build, starts) in builds.iter().zip(&mut starts) {
        let median = |value: fn(&Measured) -> f64, starts: &mut Vec<Measured>| {
            starts.sort_by(|one, other| value(one).total_cmp(&value(other)));
            value(&starts[ROUNDS / 2])
        };
        let took = median(|start| start.took.as_secs_f64(), starts);
        let cpu = median(|start| start.cpu.as_secs_f64(), starts);
        let resident = median(|start| start.resident, starts);
        let written = starts[0].written;
        println!("| {} | {took:.2} | {cpu:.2} | {resident:.1} | {written} |", build.display());
    }
}
