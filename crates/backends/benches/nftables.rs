//! nftables on the real kernel, in a network namespace of its own: first syncs, single changes, restarts.
//!
//! `make bench` prints one table at the end. *Ours* is user-space work from the plan to the bytes handed over, *kernel* is what
//! `commit` takes. Times are for comparing rows of one run; machines differ and are noisy.
#![allow(clippy::print_stdout, reason = "this program prints a table")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ferrule_backends::nftables::{Reconciler, RuleSet, StableIds};
use ferrule_backends::{SyncOutcome, Trigger};
use ferrule_kernel::nft::{Family, NftClient};
use ferrule_kernel::port::NftTables as _;
use ferrule_kernel::sys::enter_new_network_namespace;
use ferrule_model::{
    Change, Cluster, Conditions, Endpoint, EndpointSlice, IpFamily, NodeName, PerFamily, PortName, Protocol,
    Service, ServiceName, ServicePort, SliceName, SlicePort, canonical_endpoints,
};
use ferrule_plan::{FamilyPlan, NodePlan, NodeView, Quirks, plan, replan};

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

/// How often the kernel counts the time a thread takes, on every machine we know.
const MILLIS_PER_TICK: u64 = 10;

/// The time this thread has taken so far, in user space and in the kernel.
fn cpu_ticks() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/thread-self/stat").expect("the thread's own line");
    let fields: Vec<&str> = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let field = |at: usize| fields.get(at).and_then(|field| field.parse().ok()).unwrap_or(0);
    (field(11), field(12))
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

fn cluster(services: u32, endpoints: u32) -> Cluster {
    let mut cluster = Cluster::default();
    for number in 0..services {
        cluster.apply(put_service(number));
        cluster.apply(slice(number, endpoints_with(number, endpoints, None)));
    }
    cluster
}

fn put_service(number: u32) -> Change {
    let port =
        ServicePort { name: PortName::new("http"), protocol: Protocol::Tcp, number: 80, node_port: None };
    let service = Service {
        cluster_ips: PerFamily { v4: Some(address([10, 96], number)), v6: None },
        ports: [port].into(),
        ..Service::default()
    };
    Change::Service(name(number), Some(Arc::new(service)))
}

fn slice(number: u32, endpoints: Vec<Endpoint>) -> Change {
    let ports = [SlicePort { name: PortName::new("http"), protocol: Protocol::Tcp, number: 8080 }].into();
    let slice = EndpointSlice {
        service: name(number),
        family: IpFamily::V4,
        ports,
        endpoints: canonical_endpoints(endpoints),
    };
    Change::Slice(SliceName::of("bench", &format!("service-{number}")), Some(slice), None)
}

/// The first endpoints of a service, and one that was not there before.
fn endpoints_with(service: u32, count: u32, new: Option<u32>) -> Vec<Endpoint> {
    let old = (0..count).map(|at| address([10, 128], service * 64 + at));
    let new = new.map(|round| address([10, 64], round));
    let endpoint = |ip| Endpoint { ip, conditions: Conditions::READY, is_local: false, hints: None };
    old.chain(new).map(endpoint).collect()
}

fn name(number: u32) -> ServiceName {
    ServiceName::of("bench", &format!("service-{number}"))
}

fn address([a, b]: [u8; 2], number: u32) -> IpAddr {
    IpAddr::V4((u32::from_be_bytes([a, b, 0, 0]) + number).into())
}

fn print_table(rows: &[[String; 3]]) {
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or_default();
    let (first, second) = (width(0), width(1));
    println!("\n{:first$}  {:second$}  REMARK", "WORK", "MEASURED");
    for [work, measured, remark] in rows {
        println!("{work:first$}  {measured:second$}  {remark}");
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
