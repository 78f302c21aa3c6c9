//! ipvs mode on a kernel that has IPVS, beside the real kube-proxy: what both write, what one finds of the other, and what
//! becomes of connections.
//!
//! Such a kernel is in the virtual machine of `scripts/vm-ipvs`; elsewhere the tests are skipped.
#![allow(
    clippy::print_stdout,
    reason = "a skipped test says so, and the others how much they did and how long it took"
)]

#[path = "../handover/clients.rs"]
mod clients;
mod clients_stay_away;
mod cluster;
mod counters;
mod drain;
mod drift;
mod dump;
mod handover;
mod kernel;
mod localhost;
mod mode_changes;
mod node;
mod pair;
#[path = "../conformance/random.rs"]
#[allow(dead_code, reason = "no packets are sent to these clusters here")]
mod random;
mod speed;
mod trouble;

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use cluster::EVERY_KIND;
use node::can_run;
use pair::Pair;

/// They share an API server, whose every Service is everybody's, and a slow processor.
static CLUSTER: RwLock<()> = RwLock::new(());

/// Nobody else changes the cluster meanwhile. Nothing where something is lacking.
fn alone() -> Option<RwLockWriteGuard<'static, ()>> {
    let turn = CLUSTER.write().unwrap_or_else(PoisonError::into_inner);
    can_run().then_some(turn)
}

/// Others that do not mind may change the cluster meanwhile: drains wait most of the time.
fn beside_others() -> Option<RwLockReadGuard<'static, ()>> {
    let turn = CLUSTER.read().unwrap_or_else(PoisonError::into_inner);
    can_run().then_some(turn)
}

/// A number from the environment.
fn count(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn an_operator_sees_what_kube_proxy_would_have_written() {
    let Some(_turn) = beside_others() else { return };
    let (mut pair, started) = (Pair::new(), Instant::now());
    let (first, clusters) = (count("FERRULE_SEED", 1), count("FERRULE_CLUSTERS", 3));
    for seed in first..first + clusters {
        // Each has Services of the names of the one before, so that it is a change of it too.
        let text = random::Cluster::of_seed(seed).lines().join("\n");
        let settled = pair.settle(&text).map_err(|difference| println!("seed {seed}:\n{difference}\n{text}"));
        let lines = settled.expect("equal nodes");
        println!("random cluster {seed}: {lines} equal lines after {:.0?}", started.elapsed());
    }
    let lines = pair.settle(EVERY_KIND).map_err(|difference| println!("{difference}")).expect("equal nodes");
    println!("every kind of Service: {lines} equal lines after {:.0?}", started.elapsed());
    // In the place of kube-proxy it finds everything as it wants it.
    for said in pair.hand_over() {
        assert!(said.contains("written=0") && said.contains("up-to-date"), "{said}");
    }
}
