//! Another program holds the lock of the `legacy` variant of iptables for a minute.

use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ferrule_testkit::Program;
use tempfile::NamedTempFile;

use crate::root::wait;
use crate::stand::{ASKING_POD, BINARY, PATIENCE, PODS, Stand, VIP, is_answered_by, service, slice, until};
use crate::table::{Seen, Table};

const ATTACK: &str = "holds the legacy variant's lock for a minute";
const HELD: Duration = Duration::from_mins(1);
/// A change that waits for a minute is one that this node does not take, and health says so; less than that.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(50);
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// Begins beside the other attacks, since it takes so long.
pub fn begin(table: &Table) -> Option<JoinHandle<Seen>> {
    (table.is_full() && table.is_wanted(ATTACK)).then(|| thread::spawn(held))
}

/// Waits for its end.
pub fn finish(table: &mut Table, attack: Option<JoinHandle<Seen>>) {
    table.group("another root");
    if let Some(attack) = attack {
        let expected =
            "the rules stay, told once, healthy until a change has waited for a minute; it follows";
        table.attack(ATTACK, expected, || {
            attack.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
    }
}

fn held() -> Seen {
    let stand = Stand::new();
    let node = stand.net.node();
    for family in ["iptables-legacy", "ip6tables-legacy"] {
        node.feed(family, &["-t", "mangle", "-N", "KUBE-IPTABLES-HINT"], "")
            .map_err(|error| error.with_sources())?;
    }
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS[..1])));
    let lock = NamedTempFile::new().expect("a lock");
    let place = format!("XTABLES_LOCKFILE={}", lock.path().display());
    let folder = format!("--manifests={}", stand.folder().display());
    let mode =
        ["--proxy-mode=iptables", "--hostname-override=node-a", "--cluster-cidr=10.244.0.0/16", "-v=2"];
    let arguments = [&[place.as_str(), BINARY, &folder], &mode[..]].concat();
    let program = Program::start(node, Path::new("/usr/bin/env"), &arguments).expect("the program");
    program.wait_for("family=\"IPv6\" written=", 0, PATIENCE).ok_or("no first sync")?;
    let said = program.said();
    let holder = lock.reopen().expect("the lock");
    holder.lock().expect("it is free");
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS[1..2])));
    let since = Instant::now();
    while since.elapsed() < HELD {
        wait(BETWEEN_LOOKS);
        let health = node.page_status(10256, "/healthz");
        if health != Some(200) && since.elapsed() < HEALTH_TIMEOUT {
            return Err(format!("health is {health:?} after {:?}", since.elapsed()));
        }
        if !is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS[..1]) {
            return Err(format!("not served after {:?}", since.elapsed()));
        }
    }
    drop(holder);
    let released = Instant::now();
    stand.ask_until(ASKING_POD, VIP, 80, |seen| is_answered_by(seen, &PODS[1..2]));
    until(|| (node.page_status(10256, "/healthz") == Some(200)).then_some(()));
    let log = program.log();
    let told = log.iter().skip(said).filter(|line| line.contains("changes wait for it")).count();
    match told {
        // One for each family.
        1 | 2 => Ok(format!("told once, the change {} ms after", released.elapsed().as_millis())),
        _ => Err(format!("{told} lines about it")),
    }
}
