//! nftables on the real kernel, in a network namespace of its own: first syncs, single changes, restarts.
//!
//! `make bench` prints one table at the end. *Ours* is user-space work from the plan to the bytes handed over, *kernel* is what
//! `commit` takes. Times are for comparing rows of one run; machines differ and are noisy.
#![allow(clippy::print_stdout, reason = "this program prints a table")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod common;

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use ferrule_backends::nftables::{Reconciler, RuleSet, StableIds};
use ferrule_backends::{SyncOutcome, Trigger};
use ferrule_kernel::nft::{Family, NftClient};
use ferrule_kernel::port::NftTables as _;
use ferrule_kernel::sys::enter_new_network_namespace;
use ferrule_model::{Change, Cluster, IpFamily, NodeName};
use ferrule_plan::{FamilyPlan, NodePlan, NodeView, Quirks, plan, replan};

use common::{MILLIS_PER_TICK, cluster, cpu_ticks, endpoints_with, millis, print_table, put_service, slice};

/// How many changes of each kind are timed.
const CHANGES: u32 = 400;

fn main() -> ExitCode {
    let measured = thread::spawn(|| enter_new_network_namespace().map(|()| rows()));
    match measured.join() {
        Ok(Ok(rows)) => {
            print_table(&rows);
            ExitCode::SUCCESS
        }
        Ok(Err(error)) => {
            println!("skipped: making a network namespace needs root ({error})");
            ExitCode::SUCCESS
        }
        Err(_) => ExitCode::FAILURE,
    }
}

fn rows() -> Vec<[String; 3]> {
    let mut rows = Vec::new();
    for (services, endpoints) in [(5_000, 10), (10_000, 10), (45_000, 1), (5_000, 50)] {
        println!("first sync, {services} services x {endpoints} …");
        rows.push(first_sync(services, endpoints));
    }
    for services in [100, 1_000, 10_000, 45_000] {
        println!("single changes among {services} services …");
        rows.extend(changes(services));
    }
    println!("restart among 10000 services …");
    rows.extend(restart(10_000, 10));
    rows
}

/// A cluster with its plan and the table for it.
struct Bench {
    cluster: Cluster,
    plan: NodePlan,
    view: NodeView,
    reconciler: Reconciler<NftClient>,
}

impl Bench {
    fn new(services: u32, endpoints: u32) -> Self {
        let cluster = cluster(services, endpoints);
        let view = NodeView {
            quirks: Quirks::NFTABLES,
            families: vec![IpFamily::V4],
            ..NodeView::new(NodeName::new("a"))
        };
        let (plan, _) = plan(&cluster, &view);
        Self { cluster, plan, view, reconciler: reconciler() }
    }

    fn family(&self) -> &FamilyPlan {
        self.plan.families.get(IpFamily::V4).expect("IPv4 is served")
    }

    /// From the change to the kernel having it.
    fn change(&mut self, change: Change) -> Duration {
        let start = Instant::now();
        let touched = self.cluster.apply(change).touched;
        let (deltas, _) = replan(&mut self.plan, &self.cluster, &touched, &self.view);
        let delta = deltas.get(IpFamily::V4).expect("IPv4 is served");
        let plan = self.plan.families.get(IpFamily::V4).expect("IPv4 is served");
        let report = self.reconciler.sync(plan, Trigger::Changed(delta)).expect("a sync");
        assert_eq!(report.outcome, SyncOutcome::Incremental);
        start.elapsed()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // The next one starts on an empty table; if that fails, it will say so.
        let _ = self.reconciler.remove_everything();
    }
}

fn reconciler() -> Reconciler<NftClient> {
    Reconciler::new(NftClient::open(Family::Ip).expect("a netlink socket"))
}

fn first_sync(services: u32, endpoints: u32) -> [String; 3] {
    let mut bench = Bench::new(services, endpoints);
    let start = Instant::now();
    let (_, elements) = RuleSet::from_plan(bench.family(), StableIds::default());
    let ours = start.elapsed();
    drop(elements);
    let plan = bench.plan.clone();
    let plan = plan.families.get(IpFamily::V4).expect("IPv4 is served");
    let (start, (user, kernel)) = (Instant::now(), cpu_ticks());
    let report = bench.reconciler.sync(plan, Trigger::verify()).expect("a first sync");
    let whole = start.elapsed();
    let (user, kernel) = (cpu_ticks().0 - user, cpu_ticks().1 - kernel);
    [
        format!("first sync, {services} services x {endpoints}"),
        format!(
            "{:.0} ms in all: {} ms ours, {} ms the kernel's (compiling alone: {:.0} ms)",
            millis(whole),
            user * MILLIS_PER_TICK,
            kernel * MILLIS_PER_TICK,
            millis(ours)
        ),
        format!("{} objects in {} commits", report.written, report.commits),
    ]
}

fn changes(services: u32) -> Vec<[String; 3]> {
    let mut bench = Bench::new(services, 10);
    let plan = bench.plan.clone();
    let plan = plan.families.get(IpFamily::V4).expect("IPv4 is served");
    bench.reconciler.sync(plan, Trigger::verify()).expect("a first sync");
    let mut time = |what: &str, make: &dyn Fn(u32) -> Change| {
        let mut times: Vec<Duration> = (0..CHANGES).map(|round| bench.change(make(round))).collect();
        times.sort_unstable();
        let at = |part: usize| millis(times[times.len() * part / 100]);
        [
            format!("{what}, {services} services x 10"),
            format!("p50 {:.3} ms, p99 {:.3} ms", at(50), at(99)),
            String::new(),
        ]
    };
    let service = |round: u32| round * 37 % services;
    vec![
        time("one endpoint replaced", &|round| {
            slice(service(round), endpoints_with(service(round), 9, Some(round)))
        }),
        time("one endpoint added or removed", &|round| {
            slice(service(0), endpoints_with(service(0), if round.is_multiple_of(2) { 9 } else { 10 }, None))
        }),
        time("one new service, no endpoints yet", &|round| put_service(services + 1 + round)),
    ]
}

fn restart(services: u32, endpoints: u32) -> Vec<[String; 3]> {
    let mut bench = Bench::new(services, endpoints);
    let plan = bench.plan.clone();
    let plan = plan.families.get(IpFamily::V4).expect("IPv4 is served");
    bench.reconciler.sync(plan, Trigger::verify()).expect("a first sync");
    let start = |what: &str| {
        let start = Instant::now();
        let report = reconciler().sync(plan, Trigger::verify()).expect("a restart");
        [
            format!("restart, {services} services x {endpoints}, {what}"),
            format!("{:.0} ms", millis(start.elapsed())),
            format!("{} objects written", report.written),
        ]
    };
    let untouched = start("nothing happened since");
    let mut other = NftClient::open_table(Family::Ip, "another-program").expect("a netlink socket");
    let mut transaction = ferrule_kernel::nft::Transaction::new();
    transaction.add_table();
    other.commit(&transaction).expect("another program's commit");
    vec![untouched, start("another program committed since")]
}
