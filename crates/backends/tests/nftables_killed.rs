//! A process that keeps a table is killed two hundred times at any moment: no client ever sees half of a plan.
//!
//! The other process is this program again, with a variable set to make it keep the table. It walks a stream of plans and notes in a file
//! which one it has begun and which it has done, so that at any time one knows which plans may be in the kernel.
#![allow(clippy::print_stdout, reason = "the test says how much it did")]

mod support;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use ferrule_backends::nftables::Reconciler;
use ferrule_backends::{SyncReport, Trigger};
use ferrule_model::{IpFamily, Protocol};
use ferrule_plan::Packet;
use ferrule_testkit::netns::{NetSpec, NetWorld, Probe, Seen, or_skip};
use support::lab::Lab;
use support::stream::{self, PASSING, PERMANENT, Progress, TURNS, mixed};
use support::{client, ip, pause};

const KILLS: u64 = 200;
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Set in the other process: the file of its progress.
const KEEPER: &str = "FERRULE_TEST_KEEPER";
const CLIENTS: u8 = 8;

/// Not a test of its own: what the other process does. It ends when it is killed, or with an error.
#[test]
fn keeps_a_table_until_it_is_killed() {
    let Some(path) = env::var_os(KEEPER) else { return };
    let progress = Progress::open(Path::new(&path)).expect("the file of progress");
    // The plan that was begun may or may not be in the kernel; go on from it.
    let mut plan = progress.begun();
    let mut lab = Lab::with(stream::world(plan), client(IpFamily::V4));
    let again = Reconciler::new(client(IpFamily::V4)).sync(lab.plan(), Trigger::verify());
    assert_eq!(again.expect("a second start"), SyncReport::default(), "the first start left work to do");
    progress.set_done(plan);
    loop {
        plan += 1;
        progress.set_begun(plan);
        let report = lab.try_then(&stream::step(plan)).expect("a change");
        progress.set_done(plan);
        // Let clients see this plan for a while; what lingers goes after it.
        pause(Duration::from_millis(10));
        if report.deferred_objects() > 0 {
            lab.reconciler.run_deferred().expect("the end of a change");
        }
    }
}

fn net() -> NetWorld {
    let mut spec = NetSpec::node([ip("192.0.2.1")]);
    let web = (1..=TURNS).map(|number| (number, IpAddr::from([10, 244, 1, number])));
    let sticky = (1..=PERMANENT + PASSING).map(|number| (number, IpAddr::from([10, 244, 2, number])));
    for (number, address) in web.chain(sticky) {
        let served = [(Protocol::Tcp, 8080)];
        spec = if number % 2 == 0 { spec.pod(address, &served) } else { spec.beyond(address, &served) };
    }
    for number in 1..=CLIENTS {
        spec = spec.beyond(IpAddr::from([198, 51, 100, number]), &[]);
    }
    NetWorld::build(spec).map_err(|error| error.with_sources()).expect("a world")
}

/// Starts the other process in the node's namespace.
fn keeper(net: &NetWorld, path: &Path) -> Child {
    let program = env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(["--exact", "keeps_a_table_until_it_is_killed", "--nocapture"]).env(KEEPER, path);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    net.node().run(|| command.spawn()).expect("the node's namespace").expect("the other process")
}

/// Kills and restarts the other process; it must never have ended by itself.
fn kill_again_and_again(net: &NetWorld, path: &Path, progress: &Progress) {
    for kill in 0..KILLS {
        let mut keeper = keeper(net, path);
        // Any moment of the start, or of one of the first changes after it.
        pause(Duration::from_micros(mixed(kill) % 60_000));
        assert_eq!(keeper.try_wait().expect("its state"), None, "it ended before kill {kill}");
        keeper.kill().expect("a kill");
        keeper.wait().expect("its end");
    }
    // The last one may finish what it begins.
    let mut keeper = keeper(net, path);
    let goal = progress.begun() + 5;
    let deadline = Instant::now() + Duration::from_secs(20);
    while progress.done() < goal && Instant::now() < deadline {
        pause(Duration::from_millis(1));
    }
    keeper.kill().expect("a kill");
    keeper.wait().expect("its end");
    assert!(progress.done() >= goal, "it did not converge");
}

/// What clients see while this happens.
#[derive(Default)]
struct Clients {
    asked: usize,
    homes: BTreeMap<IpAddr, IpAddr>,
    complaints: Vec<String>,
}

impl Clients {
    /// Asks both Services from everywhere; the answers must be of a plan that may have been in the kernel meanwhile.
    fn ask(&mut self, net: &NetWorld, progress: &Progress) {
        let packet = |client: u8, to: &str, port| Packet {
            from: IpAddr::from([198, 51, 100, client]),
            interface: None,
            to: ip(to),
            port: Some((Protocol::Tcp, port)),
        };
        let each = (1..=CLIENTS).flat_map(|client| {
            [
                packet(client, "10.96.0.10", 80),
                packet(client, "192.0.2.1", 30080),
                packet(client, "10.96.0.11", 80),
            ]
        });
        let probes: Vec<Probe> = each.map(|packet| Probe { packet, timeout: PROBE_TIMEOUT }).collect();
        let from = progress.done();
        let seen = net.probe_all(&probes).expect("probes");
        let plans = from..=progress.begun();
        self.asked += probes.len();
        for (probe, seen) in probes.iter().zip(seen) {
            let is_sticky = probe.packet.to == ip("10.96.0.11");
            let problem = if is_sticky {
                self.judge_sticky(probe.packet.from, &seen, plans.clone())
            } else {
                judge(&seen, 1, plans.clone().flat_map(stream::web))
            };
            let say =
                |problem| format!("{} → {}, plans {plans:?}: {problem}", probe.packet.from, probe.packet.to);
            self.complaints.extend(problem.map(say));
        }
    }

    fn judge_sticky(
        &mut self,
        client: IpAddr,
        seen: &Seen,
        plans: std::ops::RangeInclusive<u64>,
    ) -> Option<String> {
        let problem = judge(seen, 2, plans.flat_map(stream::sticky));
        let Seen::Answered { by, .. } = seen else { return problem };
        let home = self.homes.insert(client, by.ip());
        let stays = |home: &IpAddr| (1..=PERMANENT).any(|number| *home == IpAddr::from([10, 244, 2, number]));
        let moved = home.filter(stays).filter(|home| *home != by.ip());
        problem.or(moved.map(|home| format!("left {home} for {by}")))
    }
}

/// An answer must come from one of these endpoints.
fn judge(seen: &Seen, net: u8, mut numbers: impl Iterator<Item = u8>) -> Option<String> {
    let Seen::Answered { by, .. } = seen else { return Some(seen.to_string()) };
    let is_right = numbers.any(|number| by.ip() == IpAddr::from([10, 244, net, number]));
    (!is_right).then(|| format!("answered by {by}, which is in none of them"))
}

/// A file of its own for each run.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn two_hundred_kills_are_seen_by_no_client() {
    if env::var_os(KEEPER).is_some() || !or_skip() {
        return;
    }
    let net = net();
    let scratch = Scratch(env::temp_dir().join(format!("ferrule-progress-{}", std::process::id())));
    let progress = Progress::open(&scratch.0).expect("the file of progress");
    progress.set_begun(1);
    progress.set_done(1);
    support::program(&net, &stream::world(1));
    let (stop, mut clients) = (AtomicBool::new(false), Clients::default());
    thread::scope(|scope| {
        let killing = scope.spawn(|| {
            // Also if it fails, the clients must end.
            let _stop = Stop(&stop);
            kill_again_and_again(&net, &scratch.0, &progress);
        });
        while !stop.load(Ordering::Relaxed) {
            clients.ask(&net, &progress);
        }
        killing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    let plans = progress.done();
    println!(
        "{KILLS} kills in {plans} plans, {} connects, {} wrong",
        clients.asked,
        clients.complaints.len()
    );
    assert!(clients.complaints.is_empty(), "{:?}", &clients.complaints[..clients.complaints.len().min(5)]);
    assert!(clients.asked > 1000, "only {} connects", clients.asked);
}

/// Stops the clients when it goes.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
