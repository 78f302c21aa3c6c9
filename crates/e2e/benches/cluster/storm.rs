//! Slices change, a thousand times a second if nobody says otherwise: none of the changes may be lost, and health must not suffer.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ferrule_testkit::Program;

use crate::cluster::{BenchCluster, cluster_ip, first_pod, stored_slice};
use crate::store::Store;

/// How many changes are under way at a time.
const HANDS: usize = 32;

/// What a storm came to.
pub struct Storm {
    changes: u32,
    took: Duration,
    cpu: Duration,
    resident: (f64, f64),
    unwell: usize,
    health_checks: usize,
    settled: Duration,
}

impl Storm {
    pub fn print(&self) {
        let Self { changes, took, cpu, resident, unwell, health_checks, settled } = self;
        let rate = f64::from(*changes) / took.as_secs_f64();
        println!("| what | value |\n|---|---|");
        println!("| changes written to the API server's store | {changes} ({rate:.0}/s) |");
        println!("| lost | 0 |");
        println!(
            "| first look that found the last version of all, after the storm | {} ms |",
            settled.as_millis()
        );
        println!(
            "| CPU of the proxy | {:.0} % of one core |",
            100.0 * cpu.as_secs_f64() / took.as_secs_f64()
        );
        println!("| resident MiB before, at most | {:.1}, {:.1} |", resident.0, resident.1);
        println!("| /healthz other than 200 | {unwell} of {health_checks} |");
    }
}

/// Changes slices at a rate for some time, then holds the kernel against what was written last.
pub fn run(cluster: &BenchCluster, proxy: &Program, (rate, time): (u32, Duration)) -> Storm {
    let before = (proxy.processor_time(), proxy.resident().0);
    let changes = AtomicU32::new(0);
    let is_over = AtomicBool::new(false);
    let began = Instant::now();
    let (versions, (unwell, health_checks, most)) = std::thread::scope(|scope| {
        let looking = scope.spawn(|| look(cluster, proxy, &is_over));
        let hands: Vec<_> = (0..HANDS)
            .map(|hand| {
                scope.spawn({
                    let changes = &changes;
                    move || change(cluster, hand, (began, rate, time), changes)
                })
            })
            .collect();
        let versions: Vec<_> = hands.into_iter().flat_map(|hand| hand.join().expect("a hand")).collect();
        is_over.store(true, Ordering::Relaxed);
        (versions, looking.join().expect("a look"))
    });
    let took = began.elapsed();
    let cpu = proxy.processor_time().saturating_sub(before.0);
    let settled = settle(cluster, &versions);
    assert_eq!(unwell, 0, "/healthz answered badly");
    Storm {
        changes: changes.into_inner(),
        took,
        cpu,
        resident: (before.1, most),
        unwell,
        health_checks,
        settled,
    }
}

/// One hand: changes every so many-th slice, over and over, no faster than its share. Returns the last version of each.
fn change(
    cluster: &BenchCluster,
    hand: usize,
    (began, rate, time): (Instant, u32, Duration),
    changes: &AtomicU32,
) -> Vec<(usize, usize)> {
    let mut store = store(cluster);
    let own: Vec<usize> = (hand..cluster.services).step_by(HANDS).collect();
    let mut versions = vec![0_usize; own.len()];
    let hands = u32::try_from(HANDS).expect("a few");
    for turn in 0_u32.. {
        let due = Duration::from_secs(1) * turn * hands / rate;
        if began.elapsed() >= time || due >= time {
            break;
        }
        std::thread::sleep(due.saturating_sub(began.elapsed()));
        let at = turn as usize % own.len();
        let (nth, version) = (own[at], versions[at] + 1);
        let (key, slice) = stored_slice(nth, version);
        store.put(&key, &slice).expect("a change");
        versions[at] = version;
        changes.fetch_add(1, Ordering::Relaxed);
    }
    own.into_iter().zip(versions).collect()
}

/// How often health was bad, how often it was asked, and the most memory that was seen.
fn look(cluster: &BenchCluster, proxy: &Program, is_over: &AtomicBool) -> (usize, usize, f64) {
    let (mut unwell, mut asked, mut most) = (0, 0, 0.0_f64);
    while !is_over.load(Ordering::Relaxed) {
        let status = cluster.node.page_status(10256, "/healthz");
        asked += 1;
        unwell += usize::from(status != Some(200));
        most = most.max(proxy.resident().0);
        std::thread::sleep(Duration::from_millis(100));
    }
    (unwell, asked, most)
}

/// How long until the kernel has the last version of everything.
fn settle(cluster: &BenchCluster, versions: &[(usize, usize)]) -> Duration {
    let began = Instant::now();
    loop {
        let looked = began.elapsed();
        let listed = cluster.node.feed("nft", &["list", "map", "ip", "kube-proxy", "endpoints"], "");
        let text = String::from_utf8(listed.expect("nft").stdout).expect("text");
        let present: BTreeSet<String> = text.split([',', '{']).filter_map(vip_and_pod).collect();
        let wanted = |&(nth, version): &(usize, usize)| {
            let pair = |version| format!("{} {}", cluster_ip(nth), first_pod(nth, version));
            present.contains(&pair(version)) && (version == 0 || !present.contains(&pair(version - 1)))
        };
        let lost: Vec<_> = versions.iter().filter(|slice| !wanted(slice)).collect();
        if lost.is_empty() {
            return looked;
        }
        assert!(
            began.elapsed() < Duration::from_mins(2),
            "{} changes were lost: {:?}",
            lost.len(),
            lost.first()
        );
    }
}

/// From `10.96.0.10 . tcp . 80 . 0 : 10.244.1.11 . 8080` the two addresses.
fn vip_and_pod(element: &str) -> Option<String> {
    let (key, value) = element.trim().split_once(" : ")?;
    Some(format!("{} {}", key.split(" . ").next()?, value.split(" . ").next()?))
}

/// A connection to the API server's store.
fn store(cluster: &BenchCluster) -> Store {
    cluster.server.namespace().run(Store::connect).expect("the namespace").expect("etcd")
}
