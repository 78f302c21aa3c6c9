//! iptables mode over netlink: what the kernel announces is repaired at once with the name of the program, restarts read little,
//! and busy neighbours are in nobody's way.

use std::fmt::Write as _;
use std::process::{Child, Stdio};

use ferrule_testkit::Program;
use rustix::process::Signal;

use crate::iptables::{MODE, ready, rules, run, serve, sorted};
use crate::stand::{ASKING_POD, BINARY, PATIENCE, PODS, Stand, VIP, is_answered_by, service, slice, until};

const REPAIRED: &str = "Another program changed our rules, repaired";
const VIP_OF_OTHER: &str = "10.96.0.33";
/// Long enough for checks by the clock not to be what heals.
const SLOW_CHECKS: [&str; 3] = [MODE[0], "--iptables-sync-period=10m", MODE[2]];

/// The name of a chain that begins like this.
fn chain(stand: &Stand, beginning: &str) -> String {
    let saved = rules(stand);
    let line = saved.lines().find_map(|line| {
        line.strip_prefix(':')?.split(' ').next().filter(|name| name.starts_with(beginning))
    });
    line.expect("a chain").to_owned()
}

fn repaired(program: &Program, after: usize) -> String {
    let line = program.wait_for(REPAIRED, after, PATIENCE);
    assert!(line.is_some(), "not repaired:\n{}", program.log().join("\n"));
    line.unwrap_or_default()
}

#[test]
fn damage_is_repaired_at_once_with_the_name_of_the_program() {
    let Some(stand) = ready() else { return };
    let program = serve(&stand, &SLOW_CHECKS);
    let before = rules(&stand);
    let (endpoint, service) = (chain(&stand, "KUBE-SEP-"), chain(&stand, "KUBE-SVC-"));
    for (damage, what) in [
        (&["-t", "nat", "-F", &endpoint][..], format!("rule of {endpoint} removed")),
        (&["-t", "nat", "-D", &service, "1"], format!("rule of {service} removed")),
        (&["-t", "nat", "-A", &endpoint, "-j", "ACCEPT"], format!("rule of {endpoint} added or changed")),
        (&["-t", "filter", "-F", "INPUT"], "jump of INPUT removed".to_owned()),
        (&["-t", "nat", "-X", "KUBE-PROXY-CANARY"], "chain KUBE-PROXY-CANARY removed".to_owned()),
        (&["-t", "nat", "-F"], "rule of ".to_owned()),
    ] {
        let said = program.said();
        run(&stand, "iptables", damage);
        let line = repaired(&program, said);
        assert!(line.contains(&what) && line.contains("by=\"iptables (process "), "{damage:?}: {line}");
        assert_eq!(sorted(&rules(&stand)), sorted(&before), "{damage:?}");
        assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS), "{damage:?}");
    }
}

/// Under its new name the chain is nobody's business, but nothing of ours may lead to it.
#[test]
fn a_chain_that_is_renamed_is_written_again_and_so_is_what_leads_to_it() {
    let Some(stand) = ready() else { return };
    let program = serve(&stand, &SLOW_CHECKS);
    let before = rules(&stand);
    let chains = [chain(&stand, "KUBE-SEP-"), chain(&stand, "KUBE-SVC-"), "KUBE-SERVICES".to_owned()];
    for (chain, new_name) in chains.iter().zip(["OTHER-1", "OTHER-2", "OTHER-3"]) {
        let said = program.said();
        run(&stand, "iptables", &["-t", "nat", "-E", chain, new_name]);
        let line = repaired(&program, said);
        assert!(line.contains(&format!("chain {chain} renamed")), "{line}");
        assert!(line.contains("by=\"iptables (process "), "{line}");
        let after = rules(&stand);
        let missing: Vec<&str> = sorted(&before).into_iter().filter(|line| !after.contains(line)).collect();
        assert_eq!(missing, Vec::<&str>::new(), "{chain}");
        let leads_there = |line: &&str| line.starts_with("-A KUBE-") && line.ends_with(new_name);
        assert_eq!(after.lines().find(leads_there), None, "{chain}");
    }
    assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS));
}

/// So many rules of another program that their notifications do not fit into a receive buffer.
fn many_foreign_rules() -> String {
    let mut text = String::from("table ip many { chain c {\n");
    for number in 0..60_000 {
        let _ = writeln!(text, "ip saddr 10.0.0.{} tcp dport {number} counter accept", number % 250);
    }
    text + "}\n}\n"
}

#[test]
fn where_notifications_are_lost_damage_is_repaired_with_the_names_of_the_programs() {
    let Some(stand) = ready() else { return };
    let program = serve(&stand, &SLOW_CHECKS);
    let before = rules(&stand);
    let (endpoint, said) = (chain(&stand, "KUBE-SEP-"), program.said());
    // It cannot read until all has happened.
    program.signal(Signal::STOP).expect("a signal");
    until(|| program.is_stopped().then_some(()));
    run(&stand, "iptables", &["-t", "nat", "-F", &endpoint]);
    stand.net.node().feed("nft", &["-f", "-"], &many_foreign_rules()).expect("many rules");
    program.signal(Signal::CONT).expect("a signal");
    let line = repaired(&program, said);
    assert!(line.contains("more than the kernel could announce"), "{line}");
    assert!(line.contains("iptables (process ") && line.contains("nft (process "), "{line}");
    assert_eq!(sorted(&rules(&stand)), sorted(&before));
    assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS));
}

/// Two programs, or one that runs twice, before anything could be done about the first.
#[test]
fn two_changes_that_are_repaired_together_are_both_named() {
    let Some(stand) = ready() else { return };
    let program = serve(&stand, &SLOW_CHECKS);
    let before = rules(&stand);
    let (endpoint, service, said) = (chain(&stand, "KUBE-SEP-"), chain(&stand, "KUBE-SVC-"), program.said());
    program.signal(Signal::STOP).expect("a signal");
    until(|| program.is_stopped().then_some(()));
    run(&stand, "iptables", &["-t", "nat", "-F", &endpoint]);
    run(&stand, "nft", &["flush", "chain", "ip", "nat", &service]);
    program.signal(Signal::CONT).expect("a signal");
    repaired(&program, said);
    // One line if both were read before the repair began, two if not.
    let is_named = || {
        let log = program.log();
        let lines = log.iter().filter(|line| line.contains(REPAIRED));
        let lines: String = lines.map(String::as_str).collect();
        let parts = [&endpoint, &service, "iptables (process ", "nft (process "];
        parts.iter().all(|part| lines.contains(*part)).then_some(())
    };
    until(is_named);
    assert_eq!(sorted(&rules(&stand)), sorted(&before));
}

/// A rule of another program whose jump we do not understand keeps the chain it jumps to, and nothing else.
#[test]
fn a_chain_that_is_used_in_ways_we_do_not_understand_stays_and_the_rest_goes_on() {
    let Some(stand) = ready() else { return };
    let program = serve(&stand, &SLOW_CHECKS);
    let service_chain = chain(&stand, "KUBE-SVC-");
    run(&stand, "nft", &["add", "chain", "ip", "nat", "other"]);
    let map = format!("{{ 10.96.0.3 : jump {service_chain} }}");
    run(&stand, "nft", &["add", "rule", "ip", "nat", "other", "ip", "daddr", "vmap", &map]);
    let other = service("").replace("name: web", "name: other").replace("10.96.0.10", VIP_OF_OTHER);
    let other =
        other.replace("nodePort: 30080", "nodePort: 30090").replace("nodePort: 30053", "nodePort: 30063");
    let slice = slice(&PODS[..1]).replace("web", "other");
    stand.write("web.yaml", &format!("{other}---\n{slice}"));
    stand.ask_until(ASKING_POD, VIP_OF_OTHER, 80, |seen| is_answered_by(seen, &PODS[..1]));
    let left = run(&stand, "nft", &["list", "chain", "ip", "nat", &service_chain]);
    assert!(!left.contains("KUBE-SEP-"), "it is emptied: {left}");
    program.terminate().expect("it ends");
    let program = serve(&stand, &SLOW_CHECKS);
    stand.ask_until(ASKING_POD, VIP_OF_OTHER, 80, |seen| is_answered_by(seen, &PODS[..1]));
    assert!(!program.log().iter().any(|line| line.contains("Sync failed")), "{}", program.log().join("\n"));
    program.terminate().expect("it ends");
    run(&stand, BINARY, &["--cleanup"]);
    assert!(!run(&stand, "nft", &["list", "table", "ip", "nat"]).contains("KUBE-SEP-"));
}

#[test]
fn a_table_that_is_switched_off_is_switched_on_again() {
    let Some(stand) = ready() else { return };
    let program = serve(&stand, &SLOW_CHECKS);
    // The check that follows a start may be the first to see damage, and knows less about it.
    let checked = program.wait_for("\"Rules verified\" family=\"IPv4\"", 0, PATIENCE);
    assert!(checked.is_some(), "{}", program.log().join("\n"));
    let said = program.said();
    run(&stand, "nft", &["add", "table", "ip", "nat", "{ flags dormant; }"]);
    let line = repaired(&program, said);
    assert!(line.contains("table nat added or changed"), "{line}\n{}", program.log().join("\n"));
    assert!(!run(&stand, "nft", &["list", "table", "ip", "nat"]).contains("dormant"));
    assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS));
}

#[test]
fn a_table_that_goes_comes_back() {
    let Some(stand) = ready() else { return };
    let program = serve(&stand, &SLOW_CHECKS);
    let before = rules(&stand);
    let said = program.said();
    run(&stand, "nft", &["delete", "table", "ip", "nat"]);
    assert!(repaired(&program, said).contains("table nat removed"));
    assert_eq!(sorted(&rules(&stand)), sorted(&before));
}

/// Counters and the lists of sticky clients are what a rewrite would lose.
#[test]
fn a_repair_keeps_the_counters_of_chains_that_are_right() {
    let Some(stand) = ready() else { return };
    let program = serve(&stand, &SLOW_CHECKS);
    assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS));
    let counted = || {
        let saved = run(&stand, "iptables-save", &["-c", "-t", "nat"]);
        saved.lines().filter(|line| line.contains("cluster IP") && !line.starts_with("[0:0]")).count()
    };
    let before = counted();
    assert!(before > 0, "a packet was counted");
    let said = program.said();
    run(&stand, "iptables", &["-t", "nat", "-F", "KUBE-MARK-MASQ"]);
    repaired(&program, said);
    assert_eq!(counted(), before);
}

#[test]
fn a_restart_with_nothing_changed_commits_nothing() {
    let Some(stand) = ready() else { return };
    serve(&stand, &SLOW_CHECKS).terminate().expect("it ends");
    let monitor = Monitor::start(&stand);
    let program = serve(&stand, &SLOW_CHECKS);
    assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS));
    run(&stand, "nft", &["add", "table", "ip", "the-end"]);
    let committed = monitor.until_committed("the-end");
    let ours: Vec<&str> = committed.lines().filter(|line| line.contains("(ferrule")).collect();
    assert_eq!(ours, Vec::<&str>::new(), "{committed}\n{}", program.log().join("\n"));
}

/// What `nft monitor` prints.
struct Monitor {
    child: Child,
    output: tempfile::NamedTempFile,
}

impl Monitor {
    fn start(stand: &Stand) -> Self {
        let output = tempfile::NamedTempFile::new().expect("a file");
        let to = output.reopen().expect("the file");
        let child = stand.net.node().run(|| {
            std::process::Command::new("stdbuf")
                .args(["-oL", "nft", "monitor"])
                .stdout(to)
                .stderr(Stdio::null())
                .spawn()
        });
        let monitor = Self { child: child.expect("the node").expect("nft monitor"), output };
        // It listens once it shows something.
        until(|| {
            run(stand, "nft", &["add", "table", "ip", "the-beginning"]);
            run(stand, "nft", &["delete", "table", "ip", "the-beginning"]);
            monitor.text().contains("the-beginning").then_some(())
        });
        std::fs::write(monitor.output.path(), "").expect("an empty file");
        monitor
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.output.path()).unwrap_or_default()
    }

    /// What was committed up to the commit with this word in it, each with the name of the program.
    fn until_committed(&self, word: &str) -> String {
        let is_committed =
            |text: &String| text.split_once(word).is_some_and(|(_, rest)| rest.contains("new generation"));
        until(|| Some(self.text()).filter(is_committed))
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Something like a CNI plugin: adds and deletes rules beside ours, twenty times a second, and a table of its own now and then.
fn neighbour(stand: &Stand, rounds: usize) -> Child {
    let mut script = String::from("set -e\niptables -t nat -N CNI-X\niptables -N CNI-Y\n");
    for round in 0..rounds {
        let _ = write!(
            script,
            "iptables -t nat -I POSTROUTING -s 198.51.100.{0} -j CNI-X\niptables -A FORWARD -s 198.51.100.{0} -j CNI-Y\n\
             iptables -t nat -A CNI-X -d 198.51.100.{0} -j RETURN\nsleep 0.02\n\
             iptables -t nat -D POSTROUTING -s 198.51.100.{0} -j CNI-X\niptables -D FORWARD -s 198.51.100.{0} -j CNI-Y\nsleep 0.02\n",
            round % 250
        );
        if round % 10 == 0 {
            let _ = writeln!(script, "nft add table ip other-{round}");
        }
    }
    let child = stand.net.node().run(|| {
        std::process::Command::new("sh")
            .args(["-c", &script])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
    });
    child.expect("the node").expect("a shell")
}

#[test]
fn beside_a_busy_neighbour_no_rule_is_lost_on_either_side() {
    const ROUNDS: usize = 60;
    let Some(stand) = ready() else { return };
    let neighbour = neighbour(&stand, ROUNDS);
    // A start, and a change every so often, in the middle of it.
    let program = serve(&stand, &SLOW_CHECKS);
    for change in 0..12 {
        let pods = if change % 2 == 0 { &PODS[..1] } else { &PODS[1..] };
        stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(pods)));
        stand.ask_until(ASKING_POD, VIP, 80, |seen| is_answered_by(seen, pods));
    }
    let output = neighbour.wait_with_output().expect("the neighbour");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let log = program.log();
    assert!(
        !log.iter().any(|line| line.contains("Sync failed") || line.contains(REPAIRED)),
        "{}",
        log.join("\n")
    );
    let saved = rules(&stand);
    let theirs = saved.lines().filter(|line| line.starts_with("-A CNI-X ")).count();
    assert_eq!(theirs, ROUNDS, "{saved}");
    assert!(!saved.contains("-A FORWARD -s 198.51.100."), "what they deleted is gone");
    assert_eq!(saved.lines().filter(|line| line.ends_with("-j KUBE-SERVICES")).count(), 4);
}
