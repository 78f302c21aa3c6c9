//! Time, allocations and memory of the pure middle: one endpoint change, a full plan, and what is kept in memory.
//!
//! `make bench` prints one table at the end. Times are for comparing rows of one run; machines differ and are noisy.
#![allow(clippy::print_stdout, reason = "this program prints a table")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::alloc::System;
use std::fmt;
use std::fs;
use std::hint::black_box;
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrule_model::{
    Change, Cluster, Conditions, Endpoint, EndpointSlice, IpFamily, Node, NodeName, PerFamily, PortName,
    Protocol, Service, ServiceName, ServicePort, SliceName, SlicePort, canonical_endpoints,
};
use ferrule_plan::{LocalDetection, NodePlan, NodeView, Quirks, plan, replan};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const MIB: f64 = 1024.0 * 1024.0;
const SIZES: [u32; 4] = [100, 1_000, 10_000, 45_000];
const ENDPOINTS: u32 = 10;

fn main() -> ExitCode {
    // First, while the heap is still small, so that resident memory tells something too.
    let memory = memory();
    let mut rows = Vec::new();
    for (caches, rounds) in [(Caches::Cold, 400), (Caches::Warm, 20_000)] {
        println!("One endpoint replaced, {rounds} changes over random services, {caches}:");
        let costs: Vec<ChangeCost> =
            SIZES.into_iter().map(|services| endpoint_change(services, caches, rounds)).collect();
        let smallest = costs[0].median;
        for (services, cost) in SIZES.iter().zip(&costs) {
            let bar = (caches == Caches::Cold).then_some(2.0);
            rows.push(Row {
                work: format!("one endpoint change, {services} services x {ENDPOINTS}, {caches}"),
                measured: cost.to_string(),
                ratio: Some((ratio(cost.median, smallest), "of 100 services'", bar)),
            });
        }
    }
    rows.push(many_ports());
    rows.push(full_plan());
    rows.push(memory);
    print_table(&rows);
    if rows.iter().any(Row::is_missed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// In a real process every change finds cold caches, since seconds of other work lie between two: that is what must stay
/// flat. Back to back, a small cluster stays in the processor's caches and a big one cannot, so the ratio there is the
/// memory's, not the planner's; it is shown for comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caches {
    Warm,
    Cold,
}

impl fmt::Display for Caches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warm => "back to back",
            Self::Cold => "cold caches",
        })
    }
}

/// Writes over more memory than the caches hold.
struct Scrubber(Vec<u64>);

impl Scrubber {
    fn new() -> Self {
        Self(vec![0; 64 * 1024 * 1024 / 8])
    }

    fn scrub(&mut self) {
        for word in self.0.iter_mut().step_by(8) {
            *word = word.wrapping_add(1);
        }
        black_box(&self.0);
    }
}

struct ChangeCost {
    median: Duration,
    p99: Duration,
    allocations: f64,
    bytes: f64,
}

impl fmt::Display for ChangeCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (median, p99) = (micros(self.median), micros(self.p99));
        let kib = self.bytes / 1024.0;
        write!(f, "p50 {median:.1} µs, p99 {p99:.1} µs, {:.0} allocations, {kib:.1} KiB", self.allocations)
    }
}

/// Replaces one endpoint of a service chosen at random, through `apply` and `replan`, many times.
fn endpoint_change(services: u32, caches: Caches, rounds: u32) -> ChangeCost {
    let mut cluster = cluster(services, ENDPOINTS);
    let view = view();
    let (mut current, _) = plan(&cluster, &view);
    let mut times = Vec::with_capacity(rounds as usize);
    let mut chosen = Lottery(0x5eed);
    let changes: Vec<Change> =
        (0..rounds).map(|round| replaced_endpoint(chosen.below(services), round)).collect();
    let mut scrubber = Scrubber::new();
    let region = Region::new(ALLOCATOR);
    for change in changes {
        if caches == Caches::Cold {
            scrubber.scrub();
        }
        let start = Instant::now();
        let touched = cluster.apply(change).touched;
        let (deltas, _) = replan(&mut current, &cluster, &touched, &view);
        times.push(start.elapsed());
        assert_eq!(deltas.get(IpFamily::V4).map(|delta| delta.pools.len()), Some(1), "one pool changes");
        black_box(&current);
    }
    let stats = region.change();
    times.sort_unstable();
    let cost = ChangeCost {
        median: times[times.len() / 2],
        p99: times[times.len() * 99 / 100],
        allocations: average(stats.allocations + stats.reallocations, rounds),
        bytes: average(stats.bytes_allocated, rounds),
    };
    println!("  {services:>6} services  p50 {:>7.2?}  p99 {:>7.2?}", cost.median, cost.p99);
    cost
}

fn full_plan() -> Row {
    let cluster = cluster(10_000, 10);
    let view = view();
    let region = Region::new(ALLOCATOR);
    let mut times: Vec<Duration> = (0..5)
        .map(|_| {
            let start = Instant::now();
            black_box(plan(&cluster, &view));
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    Row {
        work: "full plan, 10000 services x 10".into(),
        measured: format!(
            "{:.1} ms, {} allocations a service",
            micros(times[2]) / 1000.0,
            region.change().allocations / 5 / 10_000
        ),
        ratio: None,
    }
}

/// One endpoint of a Service with very many ports: nothing may grow with the square of anything.
fn many_ports() -> Row {
    let mut times = [1_000_u16, 4_000].map(|ports| {
        let mut cluster = cluster(1, ENDPOINTS);
        let (service, slice_ports) = service_with(ports);
        cluster.apply(Change::Service(name(0), Some(Arc::new(service))));
        let view = view();
        cluster.apply(slice_of(&slice_ports, 0));
        let (mut current, _) = plan(&cluster, &view);
        let change = slice_of(&slice_ports, 1);
        let start = Instant::now();
        let touched = cluster.apply(change).touched;
        replan(&mut current, &cluster, &touched, &view);
        start.elapsed()
    });
    times.sort_unstable();
    Row {
        work: "one endpoint change, a service of 4000 ports".into(),
        measured: format!("{:.2} ms", micros(times[1]) / 1000.0),
        ratio: Some((ratio(times[1], times[0]), "of 1000 ports'", Some(8.0))),
    }
}

fn service_with(ports: u16) -> (Service, Box<[SlicePort]>) {
    let port_name = |at: u16| PortName::new(&format!("p{at:05}"));
    let service_ports = (0..ports).map(|at| ServicePort {
        name: port_name(at),
        protocol: Protocol::Tcp,
        number: at + 1,
        node_port: None,
    });
    let slice_ports =
        (0..ports).map(|at| SlicePort { name: port_name(at), protocol: Protocol::Tcp, number: at + 1 });
    (Service { ports: service_ports.collect(), ..service(0) }, slice_ports.collect())
}

fn slice_of(ports: &[SlicePort], round: u32) -> Change {
    let Change::Slice(name, Some(slice), _) = replaced_endpoint(0, round) else {
        unreachable!("a replaced endpoint is a slice that was put")
    };
    Change::Slice(name, Some(EndpointSlice { ports: ports.into(), ..slice }), None)
}

/// What cluster and plan keep at 30,000 services with 150,000 endpoints.
fn memory() -> Row {
    let resident_before = resident_bytes();
    let region = Region::new(ALLOCATOR);
    let cluster = cluster(30_000, 5);
    let cluster_bytes = live(&region);
    let (plan, _): (NodePlan, _) = plan(&cluster, &view());
    let both = live(&region);
    let resident = resident_bytes().saturating_sub(resident_before);
    black_box((&cluster, &plan));
    Row {
        work: "memory, 30000 services / 150000 endpoints".into(),
        measured: format!(
            "{:.1} MiB (cluster {:.1}, plan {:.1}); resident with the allocator's slack {:.1} MiB",
            mib(both),
            mib(cluster_bytes),
            mib(both - cluster_bytes),
            mib(resident)
        ),
        ratio: Some((mib(both) / 60.0, "of 60 MiB", Some(1.0))),
    }
}

fn live(region: &Region<'_, System>) -> usize {
    let stats = region.change();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

/// Realistic Services: a named port, a cluster IP, every tenth with a load-balancer address and, while they last, a node port.
fn cluster(services: u32, endpoints: u32) -> Cluster {
    let mut cluster = Cluster::default();
    let pod_cidrs = vec!["10.244.0.0/24".parse().expect("a CIDR")];
    let host_ips = vec![IpAddr::from([192, 0, 2, 1])];
    cluster.apply(Change::Node(Some(Node { host_ips, pod_cidrs, ..Node::default() })));
    for number in 0..services {
        cluster.apply(Change::Service(name(number), Some(Arc::new(service(number)))));
        cluster.apply(slice_change(number, (0..endpoints).map(|at| endpoint(number, at)).collect()));
    }
    cluster
}

fn service(number: u32) -> Service {
    let exposed = number.is_multiple_of(10);
    // The usual range has 2,768 node ports; Services beyond that have none.
    let node_port = u16::try_from(number / 10).ok().filter(|at| exposed && *at < 2_768).map(|at| 30_000 + at);
    let vip = exposed.then(|| address([203, 0], number));
    Service {
        cluster_ips: PerFamily { v4: Some(address([10, 96], number)), v6: None },
        load_balancer_vips: vip.into_iter().collect(),
        ports: [ServicePort { name: PortName::new("http"), protocol: Protocol::Tcp, number: 80, node_port }]
            .into(),
        ..Service::default()
    }
}

fn name(number: u32) -> ServiceName {
    ServiceName::of(&format!("team-{}", number % 100), &format!("backend-service-{number}"))
}

fn slice_change(number: u32, endpoints: Vec<Endpoint>) -> Change {
    let ports = [SlicePort { name: PortName::new("http"), protocol: Protocol::Tcp, number: 8080 }].into();
    let slice = EndpointSlice {
        service: name(number),
        family: IpFamily::V4,
        ports,
        endpoints: canonical_endpoints(endpoints),
    };
    let slice_name =
        SliceName::of(&format!("team-{}", number % 100), &format!("backend-service-{number}-x7k2p"));
    Change::Slice(slice_name, Some(slice), None)
}

fn endpoint(service: u32, at: u32) -> Endpoint {
    Endpoint {
        ip: address([10, 128], service * 16 + at),
        conditions: Conditions::READY,
        is_local: at == 0,
        hints: None,
    }
}

/// The service's slice with its last endpoint replaced by one that was not there before.
fn replaced_endpoint(service: u32, round: u32) -> Change {
    let mut endpoints: Vec<Endpoint> = (0..ENDPOINTS - 1).map(|at| endpoint(service, at)).collect();
    endpoints.push(Endpoint {
        ip: address([10, 64], round),
        conditions: Conditions::READY,
        is_local: false,
        hints: None,
    });
    slice_change(service, endpoints)
}

fn address([a, b]: [u8; 2], number: u32) -> IpAddr {
    IpAddr::V4((u32::from_be_bytes([a, b, 0, 0]) + number).into())
}

fn view() -> NodeView {
    NodeView {
        families: vec![IpFamily::V4],
        local_detection: LocalDetection::NodeCidrs,
        quirks: Quirks::NFTABLES,
        interface_addresses: [IpAddr::from([192, 0, 2, 1])].into(),
        ..NodeView::new(NodeName::new("a"))
    }
}

/// A small fixed sequence of numbers, the same in every run.
struct Lottery(u64);

impl Lottery {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.0 >> 33) % u64::from(limit)).unwrap_or_default()
    }
}

fn resident_bytes() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = statm.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or_default();
    pages * 4096
}

struct Row {
    work: String,
    measured: String,
    /// How it compares, with what, and the most it may be.
    ratio: Option<(f64, &'static str, Option<f64>)>,
}

impl Row {
    fn is_missed(&self) -> bool {
        matches!(self.ratio, Some((ratio, _, Some(bar))) if ratio > bar)
    }

    fn comparison(&self) -> String {
        match self.ratio {
            None => String::new(),
            Some((ratio, base, None)) => format!("{ratio:.2} {base}"),
            Some((ratio, base, Some(bar))) => {
                let verdict = if self.is_missed() { "MISSED" } else { "ok" };
                format!("{ratio:.2} {base}, at most {bar:.0}: {verdict}")
            }
        }
    }
}

fn print_table(rows: &[Row]) {
    let width =
        |cell: fn(&Row) -> &str| rows.iter().map(|row| cell(row).chars().count()).max().unwrap_or_default();
    let (work, measured) = (width(|row| &row.work), width(|row| &row.measured));
    println!("\n{:work$}  {:measured$}  RATIO", "WORK", "MEASURED");
    for row in rows {
        println!("{:work$}  {:measured$}  {}", row.work, row.measured, row.comparison());
    }
}

#[allow(clippy::cast_precision_loss, reason = "shown with one digit")]
fn average(total: usize, rounds: u32) -> f64 {
    total as f64 / f64::from(rounds)
}

#[allow(clippy::cast_precision_loss, reason = "shown with one digit")]
fn mib(bytes: usize) -> f64 {
    bytes as f64 / MIB
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn ratio(time: Duration, base: Duration) -> f64 {
    time.as_secs_f64() / base.as_secs_f64()
}
