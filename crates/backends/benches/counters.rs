//! What counting connections costs: new connections to a Service in nftables mode for each second of processor time, client, kernel and
//! server together, with counters and without, in turn. Processor time is what another program on the machine disturbs least.
//!
//! One client and one server on a real kernel, in a network namespace of its own. Rounds alternate, so that what else the machine
//! does meets both; each round with counters is compared with those without beside it.
#![allow(clippy::print_stdout, reason = "this program prints a table")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use ferrule_backends::Trigger;
use ferrule_backends::counters::{CountedServices, PlanChange, Selection, SharedReading, TableCounters};
use ferrule_backends::nftables::Reconciler;
use ferrule_kernel::nft::{Family, NftClient};
use ferrule_kernel::sys::enter_new_network_namespace;
use ferrule_model::{IpFamily, PerFamily};
use ferrule_testkit::World;
use rustix::time::{ClockId, clock_gettime};

const VIP: &str = "10.96.0.1:80";
const ENDPOINT: &str = "10.1.0.1:80";
/// Beside the one that is asked.
const SERVICES: usize = 1000;
const ROUND: Duration = Duration::from_millis(150);
/// Pairs of rounds if `ROUNDS` is not set.
const DEFAULT_ROUNDS: usize = 60;

fn main() -> ExitCode {
    let measured = thread::spawn(|| enter_new_network_namespace().map(|()| measure()));
    match measured.join() {
        Ok(Ok(Ok(()))) => ExitCode::SUCCESS,
        Ok(Ok(Err(error))) => {
            println!("failed: {error}");
            ExitCode::FAILURE
        }
        Ok(Err(error)) => {
            println!("skipped: making a network namespace needs root ({error})");
            ExitCode::SUCCESS
        }
        Err(_) => ExitCode::FAILURE,
    }
}

fn measure() -> io::Result<()> {
    prepare_namespace()?;
    let world = world()?;
    let plan = world.family(IpFamily::V4).ok_or_else(|| io::Error::other("no plan"))?;
    let client = NftClient::open(Family::Ip).map_err(io::Error::other)?;
    Reconciler::new(client).sync(plan, Trigger::verify()).map_err(io::Error::other)?;
    let address: SocketAddr = ENDPOINT.parse().map_err(io::Error::other)?;
    let listener = TcpListener::bind(address)?;
    thread::spawn(move || while listener.accept().is_ok() {});
    let rounds = std::env::var("ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(DEFAULT_ROUNDS);
    let mut without = vec![connections(None)?.0];
    let mut with = Vec::new();
    for _ in 0..rounds {
        with.push(connections(Some(&world))?.0);
        without.push(connections(None)?.0);
    }
    report(&with, &without);
    Ok(())
}

/// What this process has used so far.
fn processor_time() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime).try_into().unwrap_or_default()
}

/// Connections for each second of processor time of one round, and how many there were.
fn connections(counted: Option<&World>) -> io::Result<(f64, u64)> {
    let counters = counted.map(counters).transpose()?;
    let vip: SocketAddr = VIP.parse().map_err(io::Error::other)?;
    let (began, used, mut made) = (Instant::now(), processor_time(), 0_u64);
    while began.elapsed() < ROUND {
        let mut stream = TcpStream::connect(vip)?;
        // Accepted and closed by the server: a queue that is full would stall the client for a second.
        stream.read_exact(&mut [0]).err();
        // A reset leaves nothing behind.
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
        made += 1;
    }
    let took = processor_time().saturating_sub(used).as_secs_f64();
    if let Some(counters) = counters {
        let counted = counters.get().map_err(io::Error::other)?;
        let asked = counted.services.iter().map(|service| service.connections).sum::<u64>();
        // A first packet that conntrack drops, since another client had its port a moment ago, counts again when it is repeated.
        assert!(asked >= made && asked - made <= 3, "all connections count: made {made}, counted {asked}");
        drop(counters);
        TableCounters::remove().map_err(io::Error::other)?;
    }
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    Ok((made as f64 / took, made))
}

fn counters(world: &World) -> io::Result<SharedReading> {
    let table = TableCounters::open(&[IpFamily::V4], SERVICES + 1).map_err(io::Error::other)?;
    let selection = Selection::new(CountedServices::All, SERVICES + 1);
    let counters = SharedReading::new(Box::new(table), selection, SERVICES + 1);
    let (deltas, touched) = (PerFamily::default(), BTreeSet::new());
    let change = PlanChange { plan: &world.plan, deltas: &deltas, touched: &touched, asks: &|_| true };
    let notes = counters.follow(&change);
    assert_eq!(notes, [], "counters are written");
    Ok(counters)
}

/// A Service that is asked, and many others.
fn world() -> io::Result<World> {
    let mut facts =
        String::from("service asked clusterIP 10.96.0.1 port p 80\nendpoint asked 10.1.0.1 node b\n");
    for number in 2..SERVICES + 2 {
        let (high, low) = (number / 256, number % 256);
        // Writing to a String cannot fail.
        let _ = writeln!(facts, "service s{number} clusterIP 10.96.{high}.{low} port p 80");
        let _ = writeln!(facts, "endpoint s{number} 10.1.{high}.{low} node b");
    }
    World::of(&facts).map_err(|error| io::Error::other(error.to_string()))
}

/// Everything is on loopback, and the kernel soon forgets connections that were reset.
fn prepare_namespace() -> io::Result<()> {
    for arguments in ["link set lo up", "address add 10.1.0.1/32 dev lo", "route add 10.96.0.0/16 dev lo"] {
        let status = Command::new("ip").args(arguments.split(' ')).status()?;
        if !status.success() {
            return Err(io::Error::other(format!("ip {arguments}")));
        }
    }
    std::fs::write("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close", "1")
}

fn report(with: &[f64], without: &[f64]) {
    let beside = |at: usize| f64::midpoint(without[at], without[at + 1]);
    let mut costs: Vec<f64> =
        with.iter().enumerate().map(|(at, rate)| 100.0 * (1.0 - rate / beside(at))).collect();
    costs.sort_by(f64::total_cmp);
    let quantile = |sorted: &[f64], part: usize| sorted[(sorted.len() - 1) * part / 4];
    let median = |rates: &[f64]| {
        let mut rates = rates.to_vec();
        rates.sort_by(f64::total_cmp);
        quantile(&rates, 2)
    };
    println!("| connections in a second of processor time | median |\n|---|---|");
    println!("| without counters | {:.0} |", median(without));
    println!("| with counters | {:.0} |", median(with));
    println!(
        "\ncost: {:.2} % of the connection rate (quartiles {:.2} % to {:.2} %, {} pairs of rounds)",
        quantile(&costs, 2),
        quantile(&costs, 1),
        quantile(&costs, 3),
        costs.len()
    );
}
