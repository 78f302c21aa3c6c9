//! Rights that a run does not need are given up before it begins, by every thread, and the programs it runs get none back.

use std::fs;

use ferrule_testkit::Program;
use ferrule_testkit::netns::or_skip;

use crate::iptables::run;
use crate::stand::{ASKING_POD, PATIENCE, PODS, Stand, VIP, is_answered_by, service, slice};

const NET_BIND_SERVICE: u64 = 1 << 10;
const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;

/// A field of `/proc/PID/task/*/status`, for each thread.
fn of_threads(program: &Program, field: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{}/task", program.id())).expect("its threads");
    let statuses = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("status")).ok());
    let value = |status: String| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
            .map(|value| value.trim().to_owned())
    };
    statuses.filter_map(value).collect()
}

fn capabilities(program: &Program, field: &str) -> Vec<u64> {
    let texts = of_threads(program, field);
    texts.iter().map(|text| u64::from_str_radix(text, 16).expect("a number")).collect()
}

fn serving(arguments: &[&str]) -> (Stand, Program) {
    serving_on(Stand::new(), arguments)
}

fn serving_on(stand: Stand, arguments: &[&str]) -> (Stand, Program) {
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS)));
    let program = stand.start(arguments);
    let synced = program.wait_for("family=\"IPv6\" written=", 0, PATIENCE);
    assert!(synced.is_some(), "no first sync:\n{}", program.log().join("\n"));
    (stand, program)
}

#[track_caller]
fn check(arguments: &[&str], allowed: u64, seccomp: &str) {
    check_on(Stand::new(), arguments, allowed, seccomp);
}

#[track_caller]
fn check_on(stand: Stand, arguments: &[&str], allowed: u64, seccomp: &str) {
    let (stand, program) = serving_on(stand, arguments);
    for field in ["CapEff", "CapPrm", "CapBnd"] {
        let found = capabilities(&program, field);
        let is_allowed = |set: &u64| set & !allowed == 0;
        assert!(found.len() > 3 && found.iter().all(is_allowed), "{arguments:?}: {field} {found:x?}");
    }
    assert!(capabilities(&program, "CapEff").contains(&allowed), "{arguments:?}: what is needed is there");
    assert!(of_threads(&program, "NoNewPrivs").iter().all(|value| value == "1"), "{arguments:?}");
    assert!(of_threads(&program, "Seccomp").iter().any(|value| value == seccomp), "{arguments:?}");
    // And it still does its work: a change, and a repair.
    assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS));
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS[2..])));
    stand.ask_until(ASKING_POD, VIP, 80, |seen| is_answered_by(seen, &PODS[2..]));
}

#[test]
fn nftables_mode_keeps_two_capabilities() {
    if or_skip() {
        check(&[], NET_ADMIN | NET_BIND_SERVICE, "0");
    }
}

#[test]
fn iptables_mode_keeps_raw_sockets_only_where_the_legacy_variant_has_tables() {
    if or_skip() {
        check(&["--proxy-mode=iptables"], NET_ADMIN | NET_BIND_SERVICE, "0");
        let stand = Stand::new();
        run(&stand, "iptables-legacy", &["-N", "X"]);
        check_on(stand, &["--proxy-mode=iptables"], NET_ADMIN | NET_BIND_SERVICE | NET_RAW, "0");
    }
}

#[test]
fn a_strict_sandbox_filters_system_calls_and_serves_all_the_same() {
    if or_skip() {
        check(&["--sandbox=strict"], NET_ADMIN | NET_BIND_SERVICE, "2");
        check(&["--sandbox=strict", "--proxy-mode=iptables"], NET_ADMIN | NET_BIND_SERVICE, "2");
    }
}

#[test]
fn without_a_sandbox_nothing_is_given_up() {
    if !or_skip() {
        return;
    }
    let (_stand, program) = serving(&["--sandbox=none"]);
    assert!(of_threads(&program, "NoNewPrivs").contains(&"0".to_owned()));
}

#[test]
fn an_unknown_sandbox_is_a_clear_error() {
    if !or_skip() {
        return;
    }
    let program = Stand::new().start(&["--sandbox=paranoid"]);
    let line = program.wait_for("command failed", 0, PATIENCE).expect("a refusal");
    assert!(line.contains("--sandbox") && line.contains("strict"), "{line}");
    assert_eq!(program.wait().expect("it ends").code(), Some(1));
}
