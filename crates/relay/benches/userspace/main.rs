//! The relay beside HAProxy in TCP mode and kube-proxy 1.25 in userspace mode: connections, bytes, latency, memory, datagrams.
//!
//! All run at the same time in one network namespace and take turns of a second or less, so that a busy machine is busy for each
//! of them. The same program is the load, the endpoints and the relay, in processes of their own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a benchmark stops at the first surprise and prints its results"
)]

mod crowd;
mod direct;
mod endpoints;
mod kube_proxy;
mod load;
mod peers;
mod process;
mod table;

use std::time::Duration;

use ferrule_kernel::datagrams::Merging;
use table::Table;

/// Worker threads of the relay and of HAProxy.
pub const THREADS: usize = 2;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.first().map(String::as_str) {
        Some("endpoint") => endpoints::serve(&arguments[1..]),
        Some("relay") => peers::run_relay(&arguments[1..]),
        Some("crowd") => crowd::run(&arguments[1..]),
        _ => compare(),
    }
}

/// How often and how long each is measured: `ROUNDS` of one second.
fn rounds() -> usize {
    std::env::var("ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5)
}

fn wanted(part: &str) -> bool {
    std::env::var("PARTS").map_or(true, |parts| parts.is_empty() || parts.split(' ').any(|one| one == part))
}

fn compare() {
    process::raise_descriptor_limit();
    let namespace = process::enter_namespace();
    let peers = peers::start(&namespace);
    let mut table = Table::new(peers.iter().map(|peer| peer.name.clone()).collect());
    if wanted("rate") {
        connections_a_second(&peers, &mut table);
    }
    if wanted("degraded") {
        connections_past_a_silent_endpoint(&peers, &mut table);
    }
    if wanted("bulk") {
        bulk(&peers, &mut table);
    }
    if wanted("latency") {
        latency_and_memory(&peers, &mut table);
    }
    if wanted("udp") {
        datagrams(&peers, &mut table);
    }
    table.print();
}

fn connections_a_second(peers: &[peers::Peer], table: &mut Table) {
    let mut rates = vec![Vec::new(); peers.len()];
    let mut costs = vec![Vec::new(); peers.len()];
    for _ in 0..rounds() {
        for (at, peer) in peers.iter().enumerate() {
            let before = peer.cpu();
            let (count, elapsed) = load::connections(peer.echo, 64, Duration::from_secs(1));
            rates[at].push(count as f64 / elapsed.as_secs_f64());
            if count > 0 {
                costs[at].push(peer.cpu().saturating_sub(before).as_secs_f64() * 1e6 / count as f64);
            }
        }
    }
    table.add("connections a second", "/s", rates.iter().map(|all| table::median(all)));
    table.add("CPU of a connection", "µs", costs.iter().map(|all| table::median(all)));
}

fn connections_past_a_silent_endpoint(peers: &[peers::Peer], table: &mut Table) {
    let mut rates = vec![Vec::new(); peers.len()];
    for _ in 0..rounds() {
        for (at, peer) in peers.iter().enumerate() {
            if let Some(address) = peer.degraded {
                let (count, elapsed) = load::connections(address, 64, Duration::from_secs(1));
                rates[at].push(count as f64 / elapsed.as_secs_f64());
            }
        }
    }
    // Of all rounds: a proxy that waits for one client after the other has rounds without any.
    let mean = |all: &Vec<f64>| all.iter().sum::<f64>() / all.len() as f64;
    table.add("the same, one endpoint of five silent", "/s", rates.iter().map(mean));
}

fn bulk(peers: &[peers::Peer], table: &mut Table) {
    let mut rates = vec![Vec::new(); peers.len()];
    let mut costs = vec![Vec::new(); peers.len()];
    for _ in 0..rounds() {
        for (at, peer) in peers.iter().enumerate() {
            let before = peer.cpu();
            let (bytes, elapsed) = load::download(peer.source, 4, Duration::from_secs(1));
            let gigabytes = bytes as f64 / 1e9;
            rates[at].push(gigabytes * 8.0 / elapsed.as_secs_f64());
            costs[at].push(peer.cpu().saturating_sub(before).as_secs_f64() * 1e3 / gigabytes.max(1e-9));
        }
    }
    table.add("bulk throughput, 4 connections", "Gbit/s", rates.iter().map(|all| table::median(all)));
    table.add("CPU of a gigabyte", "ms", costs.iter().map(|all| table::median(all)));
}

/// Idle connections that are open meanwhile: 10,000 unless this machine permits fewer descriptors for a process.
fn open_connections(peer: &peers::Peer) -> usize {
    10_000.min((process::descriptor_limit() - 1_000) / peer.descriptors.max(2))
}

fn latency_and_memory(peers: &[peers::Peer], table: &mut Table) {
    let before: Vec<u64> = peers.iter().map(peers::Peer::resident).collect();
    let open: Vec<usize> = peers.iter().map(open_connections).collect();
    let mut crowds: Vec<crowd::Crowd> =
        peers.iter().zip(&open).map(|(peer, open)| crowd::Crowd::open(peer.echo, *open)).collect();
    let after: Vec<u64> = peers.iter().map(peers::Peer::resident).collect();
    let grown = before.iter().zip(&after).zip(&open);
    let grown = grown.map(|((before, after), open)| after.saturating_sub(*before) as f64 / *open as f64);
    table.add("open connections meanwhile", "", open.iter().map(|open| *open as f64));
    table.add("resident memory of a connection", "bytes", grown);
    // The percentiles of each slice, and of those the median: a slice in which another program had the processor counts once.
    let mut middle = vec![Vec::new(); peers.len()];
    let mut slowest = vec![Vec::new(); peers.len()];
    for _ in 0..rounds() * 4 {
        for (at, crowd) in crowds.iter_mut().enumerate() {
            let samples = crowd.echo(Duration::from_millis(250));
            middle[at].push(table::percentile(&samples, 0.5).as_secs_f64() * 1e6);
            slowest[at].push(table::percentile(&samples, 0.99).as_secs_f64() * 1e6);
        }
    }
    let middle: Vec<f64> = middle.iter().map(|all| table::median(all)).collect();
    let slowest: Vec<f64> = slowest.iter().map(|all| table::median(all)).collect();
    table.add("1 KiB echo among them, p50", "µs", middle.iter().copied());
    table.add("1 KiB echo among them, p99", "µs", slowest.iter().copied());
    table.add("added by the proxy, p50", "µs", middle.iter().map(|all| all - middle[0]));
    table.add("added by the proxy, p99", "µs", slowest.iter().map(|all| all - slowest[0]));
}

fn datagrams(peers: &[peers::Peer], table: &mut Table) {
    for (clients, merging) in
        [("clients that send one by one", Merging::OFF), ("clients that send merged", Merging::default())]
    {
        let mut rates = vec![Vec::new(); peers.len()];
        let mut costs = vec![Vec::new(); peers.len()];
        for _ in 0..rounds() {
            for (at, peer) in peers.iter().enumerate() {
                if let Some(address) = peer.datagrams {
                    let before = peer.cpu();
                    let (count, elapsed) = load::datagrams(address, merging, Duration::from_secs(1));
                    rates[at].push(count as f64 / elapsed.as_secs_f64());
                    costs[at]
                        .push(peer.cpu().saturating_sub(before).as_secs_f64() * 1e6 / count.max(1) as f64);
                }
            }
        }
        let rates = rates.iter().map(|all| table::median(all));
        table.add(&format!("UDP echoes a second, 64 {clients}"), "/s", rates);
        table.add("CPU of a UDP echo", "µs", costs.iter().map(|all| table::median(all)));
    }
}
