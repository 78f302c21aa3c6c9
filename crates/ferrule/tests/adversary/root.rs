//! Another program with root's rights meddles with our rules, while we watch and while we do not.

use std::time::Duration;

use rustix::process::Signal;

use crate::stand::{ASKING_POD, PATIENCE, PODS, VIP, is_answered_by};
use crate::table::{Seen, Table};
use crate::victim::Victim;

const UNDONE: &str = "undone, read back, told with the program's name";
/// Each an nft command about the table `ip kube-proxy`, written `T`.
const MEDDLING: [(&str, &str); 10] = [
    ("deletes the table", "delete table T"),
    ("flushes a map", "flush map T services"),
    ("sets a policy of drop before routing", "add chain T nat-prerouting { policy drop; }"),
    ("sets a policy of drop on forwarding", "add chain T filter-forward { policy drop; }"),
    ("puts a rule before ours", "insert rule T services drop"),
    (
        "adds a hooked chain under a name of ours",
        "add chain T cluster-99 { type filter hook input priority 0; policy drop; }",
    ),
    (
        "moves a chain to another hook",
        "delete chain T filter-input; add chain T filter-input { type filter hook output priority 0; policy drop; }",
    ),
    ("adds a set", "add set T mine { type ipv4_addr; }"),
    ("adds a quota", "add quota T mine { over 1 bytes }"),
    ("puts the table to sleep", "add table T { flags dormant; }"),
];

pub fn attack(table: &mut Table) {
    table.group("another root");
    let mut victim = Victim::new(&[]);
    let before = frame(&victim);
    for (what, script) in MEDDLING {
        table.attack(what, UNDONE, || {
            let said = victim.program.said();
            meddle(&victim, script);
            let seen = victim.is_well_and_said(said, "repaired");
            unchanged(&victim, &before).and(seen)
        });
        table.attack(format!("{what}, while it does not run"), "undone by the next start", || {
            let before_pid = victim.program.id();
            victim.stop();
            meddle(&victim, script);
            victim.resume();
            assert_ne!(victim.program.id(), before_pid);
            let seen = victim.is_well();
            unchanged(&victim, &before).and(seen)
        });
    }
    table.attack("flushes the table 50 times in a row", "serves again; at most 30 lines about it", || {
        let said = victim.program.said();
        for _ in 0..50 {
            meddle(&victim, "flush table T");
        }
        let seen = victim.is_well()?;
        let lines = victim.program.log().iter().skip(said).filter(|line| line.contains("repaired")).count();
        if lines > 30 { Err(format!("{lines} lines")) } else { Ok(format!("{seen}; {lines} lines")) }
    });
    table.attack("stops the process for three seconds and lets it go on", "catches up", || {
        victim.while_stopped(|| {
            meddle(&victim, "flush table T");
            wait(Duration::from_secs(3));
            Ok(())
        })?;
        victim.is_well()
    });
    table.attack("sends signals that mean nothing to it", "serves on", || {
        for meaningless in [Signal::WINCH, Signal::CHILD, Signal::PIPE, Signal::URG] {
            signal(&victim, meaningless)?;
        }
        victim.is_well()
    });
    table.attack("kills it", "the rules stay, the next start serves", || {
        victim.kill();
        let packet = victim.stand.ask(ASKING_POD, VIP, 80);
        victim.resume();
        if !is_answered_by(&packet, &PODS) {
            return Err(format!("without it: {packet:?}"));
        }
        victim.is_well()
    });
}

/// Everything but elements, which packets show.
fn frame(victim: &Victim) -> String {
    victim.stand.nft(&["--terse", "list", "table", "ip", "kube-proxy"])
}

fn unchanged(victim: &Victim, before: &str) -> Seen {
    // What packets of a moment ago may need goes a little later.
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let now = frame(victim);
        if now == before {
            return Ok(String::new());
        }
        if std::time::Instant::now() > deadline {
            return Err(format!("something stays:\n{now}"));
        }
    }
}

fn meddle(victim: &Victim, script: &str) {
    victim.stand.nft(&[&script.replace(" T", " ip kube-proxy")]);
}

fn signal(victim: &Victim, signal: Signal) -> Result<(), String> {
    victim.program.signal(signal).map_err(|error| error.to_string())
}

/// Lets time pass, where time itself is what a test is about.
pub fn wait(time: Duration) {
    let until = std::time::Instant::now() + time;
    while std::time::Instant::now() < until {
        std::thread::park_timeout(until.saturating_duration_since(std::time::Instant::now()));
    }
}
