//! The program in iptables mode: it serves, heals, takes over and hands over.

use std::path::Path;
use std::process::Command;

use ferrule_testkit::Program;
use ferrule_testkit::netns::or_skip;

use crate::stand::{
    ASKING_POD, BINARY, CLIENT, NODE, PATIENCE, PODS, Stand, VIP, is_answered_by, service, slice, until,
};

pub const MODE: [&str; 3] =
    ["--proxy-mode=iptables", "--iptables-sync-period=1s", "--iptables-min-sync-period=1ms"];

/// The same where the rules are read and written by the programs.
pub const BY_PROGRAMS: [&str; 4] = [MODE[0], MODE[1], MODE[2], "--iptables-access=programs"];

pub fn ready() -> Option<Stand> {
    let has = Command::new("iptables-save").arg("-V").output().is_ok();
    assert!(has || std::env::var("CI").is_err(), "this test needs the iptables programs");
    if !or_skip() || !has {
        return None;
    }
    let stand = Stand::new();
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS)));
    Some(stand)
}

pub fn serve(stand: &Stand, flags: &[&str]) -> Program {
    let program = stand.start(flags);
    let synced = program.wait_for("family=\"IPv6\" written=", 0, PATIENCE);
    assert!(synced.is_some(), "no first sync:\n{}", program.log().join("\n"));
    program
}

pub fn run(stand: &Stand, program: &str, arguments: &[&str]) -> String {
    let output = stand.net.node().feed(program, arguments, "").map_err(|error| error.with_sources());
    String::from_utf8(output.expect("it succeeds").stdout).expect("text")
}

/// The rules, without the lines that say when they were saved.
pub fn rules(stand: &Stand) -> String {
    let saved = run(stand, "iptables-save", &[]);
    saved.lines().filter(|line| !line.starts_with('#')).map(without_counters).collect::<Vec<_>>().join("\n")
}

fn without_counters(line: &str) -> &str {
    if line.starts_with(':') { line.split('[').next().unwrap_or(line) } else { line }
}

#[test]
fn it_serves_and_a_restart_writes_nothing() {
    let Some(stand) = ready() else { return };
    let program = serve(&stand, &MODE);
    assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS));
    assert!(is_answered_by(&stand.ask(CLIENT, NODE, 30080), &PODS));
    assert!(
        is_answered_by(&stand.ask("127.0.0.1", "127.0.0.1", 30080), &PODS),
        "{}",
        program.log().join("\n")
    );
    program.terminate().expect("it ends");
    let before = rules(&stand);
    let generation = run(&stand, "nft", &["-a", "list", "ruleset"]);
    let program = serve(&stand, &MODE);
    let written = program.log().iter().filter(|line| line.contains("Rules written")).count();
    assert_eq!((rules(&stand), written), (before, 0));
    assert_eq!(run(&stand, "nft", &["-a", "list", "ruleset"]).lines().count(), generation.lines().count());
}

#[test]
fn a_flush_is_noticed_and_repaired() {
    let Some(stand) = ready() else { return };
    let program = serve(&stand, &BY_PROGRAMS);
    let before = rules(&stand);
    for (damage, told) in
        [(&["mangle", "nat", "filter"][..], "all tables emptied"), (&["filter"][..], "tables filter emptied")]
    {
        let said = program.said();
        for table in damage {
            run(&stand, "iptables", &["-t", table, "-F"]);
            run(&stand, "iptables", &["-t", table, "-X"]);
        }
        let line = program.wait_for("Another program changed our rules, repaired", said, PATIENCE);
        assert!(line.is_some(), "{}", program.log().join("\n"));
        let line = line.unwrap_or_default();
        assert!(line.contains(told), "{line}");
        assert_eq!(sorted(&rules(&stand)), sorted(&before));
        assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS));
    }
}

pub fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn each_mode_removes_what_the_other_left() {
    let Some(stand) = ready() else { return };
    serve(&stand, &["--proxy-mode=nftables"]).terminate().expect("it ends");
    assert!(run(&stand, "nft", &["list", "tables"]).contains("ip kube-proxy"));
    let program = serve(&stand, &MODE);
    until(|| (!run(&stand, "nft", &["list", "tables"]).contains("kube-proxy")).then_some(()));
    assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS));
    program.terminate().expect("it ends");
    assert!(rules(&stand).contains("KUBE-SVC-"));
    let _program = serve(&stand, &["--proxy-mode=nftables"]);
    until(|| (!rules(&stand).contains("KUBE-SERVICES")).then_some(()));
    assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS));
}

#[test]
fn a_change_of_the_variant_leaves_nothing_in_the_other() {
    let Some(stand) = ready() else { return };
    run(&stand, "iptables-legacy", &["-t", "mangle", "-N", "KUBE-IPTABLES-HINT"]);
    serve(&stand, &MODE).terminate().expect("it ends");
    let legacy = || run(&stand, "iptables-legacy-save", &[]);
    assert!(legacy().contains("KUBE-SVC-") && !run(&stand, "iptables-nft-save", &[]).contains("KUBE-SVC-"));
    assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS));
    run(&stand, "iptables-legacy", &["-t", "mangle", "-X", "KUBE-IPTABLES-HINT"]);
    run(&stand, "iptables-nft", &["-t", "mangle", "-N", "KUBE-IPTABLES-HINT"]);
    let _program = serve(&stand, &MODE);
    assert!(run(&stand, "iptables-nft-save", &[]).contains("KUBE-SVC-"));
    until(|| (!legacy().contains("KUBE-SERVICES")).then_some(()));
    assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS));
}

#[test]
fn cleanup_removes_the_rules_of_every_mode() {
    let Some(stand) = ready() else { return };
    serve(&stand, &MODE).terminate().expect("it ends");
    run(&stand, BINARY, &["--cleanup"]);
    let left = rules(&stand);
    let chains: Vec<&str> = left.lines().filter(|line| line.starts_with(":KUBE")).collect();
    assert_eq!(chains, [":KUBE-FIREWALL - "], "{left}");
}

#[test]
fn without_the_programs_it_serves_all_the_same() {
    let Some(stand) = ready() else { return };
    let folder = stand.folder().to_string_lossy().into_owned();
    let mut arguments =
        vec!["PATH=/nonexistent", BINARY, "--manifests", &folder, "--hostname-override=node-a", "-v=2"];
    arguments.extend(MODE);
    arguments.push("--cluster-cidr=10.244.0.0/16");
    let program = Program::start(stand.net.node(), Path::new("/usr/bin/env"), &arguments).expect("it starts");
    let synced = program.wait_for("family=\"IPv6\" written=", 0, PATIENCE);
    assert!(synced.is_some(), "{}", program.log().join("\n"));
    assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS));
    program.terminate().expect("it ends");
    run(&stand, "/usr/bin/env", &["PATH=/nonexistent", BINARY, "--cleanup"]);
    assert!(!rules(&stand).contains("KUBE-SVC-"), "{}", rules(&stand));
}

#[test]
fn without_the_programs_that_were_asked_for_there_is_one_clear_error() {
    let Some(stand) = ready() else { return };
    let folder = stand.folder().to_string_lossy().into_owned();
    let access = "--iptables-access=programs";
    let arguments = ["PATH=/nonexistent", BINARY, "--proxy-mode=iptables", access, "--manifests", &folder];
    let program = Program::start(stand.net.node(), Path::new("/usr/bin/env"), &arguments).expect("it starts");
    let line = program.wait_for("the program iptables is missing; install the package iptables", 0, PATIENCE);
    assert!(line.is_some(), "{}", program.log().join("\n"));
    assert!(!program.wait().expect("it ends").success());
    let cleanup = ["PATH=/nonexistent", BINARY, "--cleanup"];
    run(&stand, "/usr/bin/env", &cleanup);
}

/// Row: iptables I24
#[test]
fn loopback_among_the_node_port_addresses_is_complained_about_if_it_is_not_served() {
    let Some(stand) = ready() else { return };
    let mut flags = MODE.to_vec();
    flags.extend(["--iptables-localhost-nodeports=false", "--nodeport-addresses=127.0.0.1/32,192.0.2.0/24"]);
    let program = serve(&stand, &flags);
    let line = program.wait_for("NodePorts are not served on localhost", 0, PATIENCE);
    assert!(line.is_some_and(|line| line.contains("127.0.0.1/32")), "{}", program.log().join("\n"));
    assert!(!is_answered_by(&stand.ask("127.0.0.1", "127.0.0.1", 30080), &PODS));
    assert!(is_answered_by(&stand.ask(CLIENT, NODE, 30080), &PODS));
}

#[test]
fn what_ipvs_mode_left_goes_once_the_rules_are_written() {
    let Some(stand) = ready() else { return };
    for arguments in [
        &["-N", "KUBE-IPVS-FILTER"][..],
        &["-A", "INPUT", "-j", "KUBE-IPVS-FILTER"],
        &["-t", "nat", "-N", "KUBE-LOAD-BALANCER"],
        &["-t", "nat", "-N", "KUBE-SERVICES"],
        &["-t", "nat", "-A", "KUBE-SERVICES", "-j", "KUBE-LOAD-BALANCER"],
    ] {
        run(&stand, "iptables", arguments);
    }
    // It is no dummy device, so it is another program's.
    run(&stand, "ip", &["link", "add", "kube-ipvs0", "type", "veth", "peer", "name", "other0"]);
    let program = serve(&stand, &MODE);
    let is_gone = || {
        let left = rules(&stand);
        (!["KUBE-IPVS", "KUBE-LOAD-BALANCER"].iter().any(|name| left.contains(name))).then_some(())
    };
    until(is_gone);
    assert!(run(&stand, "ip", &["-o", "link"]).contains("kube-ipvs0"));
    assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS), "{}", program.log().join("\n"));
}

/// Row: server 1.4
#[test]
fn init_only_lets_loopback_be_routed_where_node_ports_are_served_on_it() {
    let Some(stand) = ready() else { return };
    let setting = "net.ipv4.conf.all.route_localnet";
    for (more, expected) in [("--nodeport-addresses=primary", "0"), ("--nodeport-addresses=0.0.0.0/0", "1")] {
        let program = stand.start(&[MODE[0], "--init-only", more]);
        assert!(program.wait().expect("it ends").success());
        assert_eq!(run(&stand, "sysctl", &["-n", setting]).trim(), expected, "{more}");
    }
}
