//! The real kube-proxy and Ferrule side by side: the same API server, equal worlds around them, the same packets, the same
//! answers.
//!
//! In the normal run it is the clusters of the packet stories and some random ones; `make conformance` asks for hundreds.
//! A cluster that differs is made as small as it can be and printed as a story.
//!
//! ipvs mode needs a kernel that has IPVS: `scripts/vm-ipvs e2e/conformance=ipvs`. There what an operator sees of both nodes
//! is compared, too.
#![allow(clippy::print_stdout, reason = "the test says how much it compared")]

mod comparison;
mod configuration;
#[path = "../ipvs/dump.rs"]
mod dump;
mod faults;
mod marker;
mod pair;
mod random;
mod shadow;
mod shrink;

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use ferrule_plan::Packet;
use ferrule_testkit::netns::NetSpec;
use ferrule_testkit::{Scene, Story, World, api_server, netns, stories_in};

use comparison::{Compared, compare};
use pair::{Pair, Unequal};

/// They share an API server, whose every Service is everybody's.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// How the proxies are run, besides their mode: as many random clusters each.
const PROXIES: [&str; 4] = [
    "detectLocal ClusterCIDR 10.244.0.0/16,fd44::/32\nnodePortAddresses primary",
    "detectLocal NodeCIDR\nnodePortAddresses 192.0.2.0/24,127.0.0.0/8,2001:db8::/64",
    "detectLocal InterfaceNamePrefix cali\nmasqueradeAll\nnodePortAddresses primary",
    "detectLocal none\nnodePortAddresses 0.0.0.0/0,::/0",
];

/// What was compared and what differed.
#[derive(Default)]
struct Tally {
    clusters: usize,
    packets: usize,
    answered: usize,
    /// What an operator sees on both nodes.
    lines: usize,
    different: Vec<String>,
}

impl Tally {
    fn check(self, mode: &str, what: &str) {
        let Self { clusters, packets, answered, lines, different } = self;
        println!("{mode}: {packets} packets to {clusters} {what} agreed, {answered} of them answered");
        if lines > 0 {
            println!("{mode}: {lines} lines of what an operator sees agreed");
        }
        assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
        assert!(packets > clusters, "too few packets");
        assert!(answered * 4 > packets, "only {answered} of {packets} packets were answered");
    }
}

fn can_run() -> bool {
    netns::or_skip() && api_server::or_skip()
}

/// Whether the kernel has IPVS; where it must have it, in the virtual machine, it has.
fn has_ipvs() -> bool {
    let has = matches!(ferrule_kernel::ipvs::Ipvs::open_loaded(), Ok(Some(_)));
    assert!(has || std::env::var_os("FERRULE_TEST_IPVS").is_none(), "this kernel has no IPVS");
    if !has {
        println!("skipped: this kernel has no IPVS; scripts/vm-ipvs runs one that has");
    }
    has
}

fn count(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Every scene of the stories of a folder.
fn told_clusters(mode: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../stories").join(format!("packets-{mode}"));
    let mut all: Vec<(String, Vec<Scene>)> = Vec::new();
    for path in stories_in(&folder).expect("the stories folder") {
        let text = std::fs::read_to_string(&path).expect("a story file");
        let scenes = Story::parse(&text).and_then(|story| story.scenes()).expect("a story that runs");
        all.push((path.file_stem().map(|stem| stem.to_string_lossy().into()).unwrap_or_default(), scenes));
    }
    // One world with everybody of all stories: the proxies need not start again for each.
    let everybody: Vec<Scene> = all.iter().flat_map(|(_, scenes)| scenes.clone()).collect();
    let mut pair = Pair::build(NetSpec::of_scenes(&everybody));
    let mut tally = Tally::default();
    for (name, scene) in all.iter().flat_map(|(name, scenes)| scenes.iter().map(move |scene| (name, scene))) {
        tell(&mut pair, name, scene, &mut tally);
    }
    tally.check(mode, "scenes of stories");
}

fn tell(pair: &mut Pair, name: &str, scene: &Scene, tally: &mut Tally) {
    let packets = scene.rows.iter().flat_map(|row| row.packets.clone());
    let packets: Vec<Packet> = packets.collect();
    tally.clusters += 1;
    if let Err(problem) = pair.settle(&scene.world) {
        tally.different.push(format!("{name}: {problem}"));
        return;
    }
    if configuration::mode(&scene.world.view) == "ipvs" {
        look(pair, &scene.world, name, tally);
        // They are slow, and each is another chance to see where it hangs.
        println!("scene {} of {name} is settled", tally.clusters);
    }
    if let Err(problem) = pair.shadow_agrees() {
        tally.different.push(format!("{name}, in shadow mode: {problem}"));
    }
    let Compared { agreed, answered, different } = compare(pair, &scene.world, packets);
    tally.packets += agreed;
    tally.answered += answered;
    tally.different.extend(different.into_iter().map(|one| format!("{name}: {one}")));
}

/// Compares what an operator sees.
///
/// An endpoint that leaves, comes back and leaves again within a minute is one that kube-proxy takes to be draining: it stays in use, at
/// its full weight. The next sync after that minute removes it, and nothing but a change brings one about within the hour.
fn look(pair: &mut Pair, world: &World, name: &str, tally: &mut Tally) {
    let mut seen = pair.wait_until_equal();
    if let Err(Unequal { is_kube_proxys_stale_server: true, differences }) = &seen {
        println!(
            "{name}: kube-proxy still uses an endpoint that left, so another sync is brought about\n{differences}"
        );
        seen = match pair.settle(world) {
            Ok(()) => pair.wait_until_equal(),
            Err(problem) => Err(Unequal::because(problem)),
        };
    }
    match seen {
        Ok(lines) => tally.lines += lines,
        Err(Unequal { differences, .. }) => {
            println!("{name}: an operator sees a difference\n{differences}");
            tally.different.push(format!("{name}: {differences}"));
        }
    }
}

/// Random clusters, each new and changed.
fn random_clusters(mode: &str, clusters: u64, flag: Option<&str>) {
    let first = count("CONFORMANCE_SEED", 1);
    let mut tally = Tally::default();
    for (nth, settings) in (0_u64..).zip(PROXIES) {
        let loopback = if mode == "iptables" { "\nloopbackNodePorts inKernel" } else { "" };
        let proxy = format!("mode {mode}{loopback}\n{settings}");
        let pair = Pair::build(random::hosts());
        let mut pair = match flag {
            Some(flag) => pair.with_flag(flag),
            None => pair,
        };
        for seed in (0..clusters).filter(|number| number % PROXIES.len() as u64 == nth) {
            one_random_cluster(&mut pair, &proxy, first + seed, &mut tally);
        }
    }
    tally.check(mode, "states of random clusters");
}

fn one_random_cluster(pair: &mut Pair, proxy: &str, seed: u64, tally: &mut Tally) {
    let mut cluster = random::Cluster::of_seed(seed);
    // In ipvs mode a state takes half a minute, and every cluster is a change of the one before.
    let states: &[&str] = match (proxy.starts_with("mode ipvs"), seed % 2) {
        (false, _) => &["new", "changed"],
        (true, 0) => &["changed"],
        (true, _) => &["new"],
    };
    for state in states.iter().copied() {
        if state == "changed" {
            cluster.change();
        }
        let lines = cluster.lines();
        let world = shrink::world(proxy, &lines).expect("lines that say something");
        tally.clusters += 1;
        if let Err(problem) = pair.settle(&world) {
            tally.different.push(format!("seed {seed}, {state}: {problem}\n{}", lines.join("\n")));
            return;
        }
        let is_ipvs = configuration::mode(&world.view) == "ipvs";
        let (name, began) = (format!("seed {seed}, {state}"), Instant::now());
        if is_ipvs {
            look(pair, &world, &name, tally);
        }
        if let Err(problem) = pair.shadow_agrees() {
            println!("{name}, in shadow mode:\n{problem}\n{}", lines.join("\n"));
            tally.different.push(format!("{name}, in shadow mode: {problem}"));
        }
        let Compared { agreed, answered, different } = compare(pair, &world, cluster.packets());
        tally.packets += agreed;
        tally.answered += answered;
        if is_ipvs {
            // They are slow, and each is another chance to see where it hangs.
            println!("{name}: {agreed} packets agreed, {:.0?} after it was settled", began.elapsed());
            let found = different.iter().map(|one| format!("{name}: {one}"));
            tally.different.extend(found.inspect(|one| println!("{one}")));
            if !different.is_empty() {
                println!("{}", lines.join("\n"));
            }
            continue;
        }
        if let Some(first) = different.first() {
            let found: Vec<String> = different.iter().map(ToString::to_string).collect();
            // At once: making it smaller takes its time.
            println!("seed {seed}, {state}:\n{}", found.join("\n"));
            let story = shrink::story(pair, proxy, lines, first);
            tally.different.push(format!("seed {seed}, {state}:\n{}\n{story}", found.join("\n")));
            return;
        }
    }
}

#[test]
fn clusters_of_stories_nftables() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if can_run() {
        told_clusters("nftables");
    }
}

#[test]
fn clusters_of_stories_iptables() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if can_run() {
        told_clusters("iptables");
    }
}

#[test]
fn random_clusters_nftables() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if can_run() {
        random_clusters("nftables", count("CONFORMANCE_NFTABLES", 8), None);
    }
}

#[test]
fn random_clusters_iptables() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if can_run() {
        random_clusters("iptables", count("CONFORMANCE_IPTABLES", 4), None);
    }
}

#[test]
fn random_clusters_iptables_by_its_programs() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if can_run() {
        let clusters = count("CONFORMANCE_IPTABLES", 4) / 2;
        random_clusters("iptables", clusters, Some("--iptables-access=programs"));
    }
}

#[test]
fn shadow_mode_finds_what_is_broken_nftables() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if can_run() {
        faults::check::<faults::Table>();
    }
}

#[test]
fn shadow_mode_finds_what_is_broken_iptables() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if can_run() {
        faults::check::<faults::Chains>();
    }
}

#[test]
fn shadow_mode_finds_what_is_broken_ipvs() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if can_run() && has_ipvs() {
        faults::check::<faults::VirtualServers>();
    }
}

#[test]
fn clusters_of_stories_ipvs() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if can_run() && has_ipvs() && count("CONFORMANCE_STORIES", 1) > 0 {
        told_clusters("ipvs");
    }
}

#[test]
fn random_clusters_ipvs() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if can_run() && has_ipvs() {
        random_clusters("ipvs", count("CONFORMANCE_IPVS", 4), None);
    }
}
