//! iptables mode over netlink on the real kernel, in a network namespace of its own: first syncs, single changes, restarts,
//! repairs, and what of it is the kernel's own time.
//!
//! `make bench-iptables` prints one table; `SIZES` says how many Services there are, with ten endpoints each; `PROGRAMS=1` also
//! times the same first sync with `iptables-restore`, which takes a minute at 5,000. *Ours* is user-space time of this process,
//! *kernel* its time in system calls. Times are for comparing rows of one run; machines differ and are noisy.
#![allow(clippy::print_stdout, reason = "this program prints a table")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

mod common;

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ferrule_backends::iptables::{Host, Reconciler};
use ferrule_backends::{SyncOutcome, SyncReport, Trigger};
use ferrule_kernel::iptables::{IptablesCommands, RestoreText, TableAccess, Variant};
use ferrule_kernel::nft::{Family, NftWatch, Subscription};
use ferrule_kernel::port::XTables;
use ferrule_kernel::sys::enter_new_network_namespace;
use ferrule_model::{Change, Cluster, IpFamily, NodeName};
use ferrule_plan::{FamilyPlan, NodePlan, NodeView, Quirks, plan, replan};

use common::{MILLIS_PER_TICK, cluster, cpu_ticks, endpoints_with, millis, print_table, put_service, slice};

const ENDPOINTS: u32 = 10;
/// How many changes of each kind are timed.
const CHANGES: u32 = 20;
const ONE_CHAIN: [&str; 5] = ["iptables-nft", "-t", "nat", "-F", "KUBE-MARK-MASQ"];
const WHOLE_TABLE: [&str; 4] = ["iptables-nft", "-t", "nat", "-F"];
const NETLINK: TableAccess = TableAccess::Netlink(Family::Ip);

type Row = [String; 3];
type Tables = Box<dyn XTables + Send>;

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

fn rows() -> Vec<Row> {
    let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    let sizes = variable("SIZES").unwrap_or_else(|| "1000 5000 10000".into());
    let mut rows = Vec::new();
    for services in sizes.split_whitespace().filter_map(|size| size.parse().ok()) {
        println!("{services} services x {ENDPOINTS} …");
        rows.extend(measure(services));
        if variable("PROGRAMS").is_some() {
            rows.push(by_programs(services));
        }
    }
    rows
}

/// A cluster with its plan and the tables for it.
struct Bench {
    services: u32,
    cluster: Cluster,
    plan: NodePlan,
    view: NodeView,
    subscription: Subscription,
    reconciler: Reconciler<Tables>,
}

/// Reads notifications on a thread of its own, as the program does, until it is dropped.
struct Reader {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    fn start(mut watch: NftWatch) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                let _ = watch.read();
                thread::sleep(Duration::from_millis(1));
            }
        });
        Self { is_over, thread: Some(thread) }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the reader ends");
        }
    }
}

/// What something took: in all, of this process, and of the kernel.
struct Took {
    all: Duration,
    ours: u64,
    kernel: u64,
}

impl Took {
    fn by<T>(work: impl FnOnce() -> T) -> (T, Self) {
        let (start, (user, kernel)) = (Instant::now(), cpu_ticks());
        let done = work();
        let (now_user, now_kernel) = cpu_ticks();
        let (ours, kernel) = ((now_user - user) * MILLIS_PER_TICK, (now_kernel - kernel) * MILLIS_PER_TICK);
        (done, Self { all: start.elapsed(), ours, kernel })
    }

    fn shown(&self) -> String {
        format!("{:.0} ms in all: {} ms ours, {} ms the kernel's", millis(self.all), self.ours, self.kernel)
    }
}

fn measure(services: u32) -> Vec<Row> {
    let mut bench = Bench::new(services, NETLINK);
    let mut rows = vec![bench.first_sync("first sync")];
    rows.extend(bench.restarts());
    rows.extend(bench.changes());
    rows.extend(bench.kernels_share());
    rows.extend(bench.repairs());
    bench.remove();
    rows
}

fn by_programs(services: u32) -> Row {
    let commands = IptablesCommands::new(Family::Ip, Variant::Nft);
    let mut bench = Bench::new(services, TableAccess::Commands(commands));
    let row = bench.first_sync("first sync by iptables-restore --noflush");
    bench.remove();
    row
}

impl Bench {
    fn new(services: u32, access: TableAccess) -> Self {
        let cluster = cluster(services, ENDPOINTS);
        let view = NodeView {
            quirks: Quirks::IPTABLES,
            families: vec![IpFamily::V4],
            ..NodeView::new(NodeName::new("a"))
        };
        let (plan, _) = plan(&cluster, &view);
        let subscription = Subscription::default();
        let reconciler = reconciler(access).pausing(&subscription);
        Self { services, cluster, plan, view, subscription, reconciler }
    }

    fn row(&self, what: &str, measured: String, remark: String) -> Row {
        [format!("{what}, {} services x {ENDPOINTS}", self.services), measured, remark]
    }

    fn first_sync(&mut self, what: &str) -> Row {
        let (report, took) = Took::by(|| verify(&mut self.reconciler, &self.plan));
        self.row(what, took.shown(), format!("{} objects in {} commits", report.written, report.commits))
    }

    fn restarts(&self) -> Vec<Row> {
        let start = |what: &str| {
            let mut reconciler = reconciler(NETLINK);
            let (report, took) = Took::by(|| verify(&mut reconciler, &self.plan));
            self.row(what, took.shown(), format!("{} objects written", report.written))
        };
        let untouched = start("restart, nothing happened since");
        run(&["nft", "add", "table", "ip", &format!("another-program-{}", self.services)]);
        vec![untouched, start("restart, another program committed since")]
    }

    fn changes(&mut self) -> Vec<Row> {
        let services = self.services;
        let service = |round: u32| round * 37 % services;
        vec![
            self.timed("one endpoint replaced", &|round| {
                vec![slice(service(round), endpoints_with(service(round), 9, Some(round)))]
            }),
            self.timed("one new service with an endpoint", &|round| {
                let number = services + 1 + round;
                vec![put_service(number), slice(number, endpoints_with(number, 1, None))]
            }),
            self.timed("one service gone", &|round| {
                let number = services + 1 + round;
                let (Change::Service(name, _), Change::Slice(slice, ..)) =
                    (put_service(number), slice(number, Vec::new()))
                else {
                    unreachable!("these are what they are made as");
                };
                vec![Change::Service(name, None), Change::Slice(slice, None, None)]
            }),
        ]
    }

    fn timed(&mut self, what: &str, make: &dyn Fn(u32) -> Vec<Change>) -> Row {
        let mut times = Vec::new();
        let ((), took) = Took::by(|| {
            for round in 0..CHANGES {
                let start = Instant::now();
                self.change(make(round));
                times.push(start.elapsed());
            }
        });
        times.sort_unstable();
        let median = millis(times[times.len() / 2]);
        let each = |total: u64| total / u64::from(CHANGES);
        let measured =
            format!("p50 {median:.1} ms; {} ms ours, {} ms the kernel's", each(took.ours), each(took.kernel));
        self.row(what, measured, String::new())
    }

    fn change(&mut self, changes: Vec<Change>) {
        let mut touched = Vec::new();
        for change in changes {
            touched.push(self.cluster.apply(change).touched);
        }
        let mut all = touched.pop().expect("a change");
        for touched in touched {
            all.merge(touched);
        }
        let (deltas, _) = replan(&mut self.plan, &self.cluster, &all, &self.view);
        let delta = deltas.get(IpFamily::V4).expect("IPv4 is served");
        let report = self.reconciler.sync(family(&self.plan), Trigger::Changed(delta)).expect("a sync");
        assert_eq!(report.outcome, SyncOutcome::Incremental);
    }

    /// The kernel checks all jumps of a table when a commit adds one, or an expression of x_tables; not when rules only go.
    fn kernels_share(&self) -> Vec<Row> {
        let commit = |what: &str, text: &'static str| {
            let mut tables = NETLINK.open().expect("the tables");
            let text = RestoreText::literal(text);
            let ((), took) = Took::by(|| tables.restore(&text).expect("a commit"));
            self.row(
                what,
                format!("{:.1} ms", millis(took.all)),
                "the least a commit of this form takes".into(),
            )
        };
        vec![
            commit("an empty chain is made", "*nat\n:BENCH - [0:0]\nCOMMIT\n"),
            commit("a rule without jump or match", "*nat\n-A BENCH -d 192.0.2.1/32\nCOMMIT\n"),
            commit("a rule with a jump", "*nat\n-A BENCH -j KUBE-MARK-MASQ\nCOMMIT\n"),
            commit("rules are removed", "*nat\n:BENCH - [0:0]\nCOMMIT\n"),
            commit("the chain is removed", "*nat\n-X BENCH\nCOMMIT\n"),
        ]
    }

    fn repairs(&mut self) -> Vec<Row> {
        let subscription = self.subscription.clone();
        let mut repair = |what: &str, command: &[&str], watch: Option<NftWatch>| {
            run(command);
            let _reader = watch.map(Reader::start);
            let plan = family(&self.plan);
            let (report, took) =
                Took::by(|| self.reconciler.sync(plan, Trigger::repair()).expect("a repair"));
            assert_eq!(report.outcome, SyncOutcome::Rewritten);
            [
                format!("repair after {what}, {} services x {ENDPOINTS}", self.services),
                took.shown(),
                format!("{} objects written", report.written),
            ]
        };
        vec![
            repair("one rule is gone, all is read", &ONE_CHAIN, None),
            repair("iptables -F of table nat", &WHOLE_TABLE, None),
            repair("iptables -F, all is announced to us", &WHOLE_TABLE, NftWatch::open().ok()),
            repair(
                "iptables -F, the subscription paused",
                &WHOLE_TABLE,
                NftWatch::open_pausable(&subscription).ok(),
            ),
        ]
    }

    /// The next one starts on empty tables.
    fn remove(mut self) {
        self.reconciler.remove_everything().expect("a removal");
    }
}

fn verify(reconciler: &mut Reconciler<Tables>, plan: &NodePlan) -> SyncReport {
    reconciler.sync(family(plan), Trigger::verify()).expect("a sync")
}

fn family(plan: &NodePlan) -> &FamilyPlan {
    plan.families.get(IpFamily::V4).expect("IPv4 is served")
}

fn reconciler(access: TableAccess) -> Reconciler<Tables> {
    Reconciler::new(access.open().expect("the tables"), Host::default())
}

fn run(command: &[&str]) {
    let status = Command::new(command[0]).args(&command[1..]).status().expect("the program");
    assert!(status.success(), "{command:?}");
}
