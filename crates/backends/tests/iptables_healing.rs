//! Somebody flushed the tables, removed a chain, holds the lock: what is noticed, and how it is made good.
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

mod support;

use std::process::Command;

use ferrule_backends::SyncOutcome;
use ferrule_backends::iptables::{CANARY, CanaryState, canary};
use ferrule_kernel::iptables::{IptablesCommands, IptablesError, RestoreText, Variant};
use ferrule_kernel::nft::Family;
use ferrule_kernel::port::XTables as _;
use support::iptables::{Writer, has_iptables, name, run, with_each_writer, with_iptables};
use support::xtables::Lab;

const SERVICE: &str = "service one clusterIP 10.96.0.1 port 80→8080\nendpoint one 10.244.1.1 node a";
const TABLES: [&str; 3] = ["mangle", "filter", "nat"];

fn iptables(writer: Writer, arguments: &[&str]) {
    run(&name(writer), arguments);
}

fn state(writer: Writer) -> CanaryState {
    canary(&mut writer.tables()).expect("an answer")
}

/// Row: iptables J17
#[test]
fn emptied_tables_are_noticed_and_made_good() {
    with_each_writer(|writer| {
        let mut lab = Lab::new(SERVICE, writer);
        let before = lab.saved();
        assert_eq!(state(writer), CanaryState::Intact);
        for (at, table) in TABLES.into_iter().enumerate() {
            iptables(writer, &["-t", table, "-F"]);
            iptables(writer, &["-t", table, "-X"]);
            let expected = if at < 2 { CanaryState::PartlyFlushed(vec![]) } else { CanaryState::Flushed };
            match (state(writer), expected) {
                (CanaryState::PartlyFlushed(tables), CanaryState::PartlyFlushed(_)) => {
                    assert_eq!(tables.len(), at + 1);
                }
                (found, expected) => assert_eq!(found, expected),
            }
        }
        assert_eq!(lab.verify().expect("a verification").outcome, SyncOutcome::Created);
        assert_eq!((state(writer), lab.saved().tables.len()), (CanaryState::Intact, before.tables.len()));
        let rules = |saved: &ferrule_kernel::iptables::Saved| saved.to_string().lines().count();
        assert_eq!(rules(&lab.saved()), rules(&before));
    });
}

/// Row: iptables J18
#[test]
fn tables_that_are_emptied_one_after_the_other_are_waited_for() {
    with_each_writer(|writer| {
        let _lab = Lab::new(SERVICE, writer);
        iptables(writer, &["-t", "mangle", "-X", CANARY]);
        iptables(writer, &["-t", "filter", "-X", CANARY]);
        assert_eq!(state(writer), CanaryState::PartlyFlushed(vec!["mangle", "filter"]));
        iptables(writer, &["-t", "nat", "-X", CANARY]);
        assert_eq!(state(writer), CanaryState::Flushed);
    });
}

/// kube-proxy looks for its chain alone and does not see this.
#[test]
fn rules_that_are_flushed_are_noticed_though_the_chains_are_there() {
    with_each_writer(|writer| {
        let mut lab = Lab::new(SERVICE, writer);
        let before = lab.saved();
        iptables(writer, &["-F"]);
        assert_eq!(state(writer), CanaryState::PartlyFlushed(vec!["filter"]));
        assert_eq!(lab.verify().expect("a verification").outcome, SyncOutcome::Rewritten);
        assert_eq!((lab.saved(), state(writer)), (before, CanaryState::Intact));
    });
}

#[test]
fn a_chain_that_was_removed_or_emptied_or_changed_is_written_anew_and_no_other() {
    with_each_writer(|writer| {
        let mut lab = Lab::new(SERVICE, writer);
        let before = lab.saved();
        let chains: Vec<String> =
            before.table("nat").expect("nat").chains.iter().map(|chain| chain.name.to_string()).collect();
        let of_service = chains.iter().find(|chain| chain.starts_with("KUBE-SVC-")).expect("a chain");
        for damage in [
            vec!["-t", "nat", "-F", of_service.as_str()],
            vec!["-t", "nat", "-A", of_service, "-j", "RETURN"],
            vec!["-t", "nat", "-D", "PREROUTING", "1"],
            vec!["-t", "nat", "-I", "KUBE-SERVICES", "-d", "10.96.0.7", "-j", of_service],
            vec!["-t", "nat", "-F", "KUBE-SERVICES"],
            vec!["-t", "filter", "-D", "KUBE-FORWARD", "1"],
        ] {
            iptables(writer, &damage);
            let report = lab.verify().expect("a verification");
            assert_eq!((report.outcome, report.commits), (SyncOutcome::Rewritten, 1), "{damage:?}");
            assert!(report.written <= 5, "{damage:?}: {report:?}");
            assert_eq!(lab.saved(), before, "{damage:?}");
        }
    });
}

/// Started again where `/run` is another folder, so that no other program's lock is involved.
const AGAIN: &str = "FERRULE_TEST_WITH_OWN_LOCK";

/// Row: iptables J19
#[test]
fn a_lock_that_somebody_holds_is_waited_for_told_and_no_loss() {
    if !has_iptables() {
        return;
    }
    if std::env::var_os(AGAIN).is_some() {
        with_iptables(held_lock);
        return;
    }
    let script = "mount -t tmpfs tmpfs /run && exec \"$0\" --exact a_lock_that_somebody_holds_is_waited_for_told_and_no_loss --nocapture";
    let test = std::env::current_exe().expect("this test");
    let output = Command::new("unshare").args(["-m", "sh", "-c", script]).arg(test).env(AGAIN, "1").output();
    let output = output.expect("unshare");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let may_not = !output.status.success() && said.contains("Operation not permitted");
    assert!(output.status.success() || may_not && std::env::var("CI").is_err(), "{said}");
    if may_not {
        println!("skipped: needs root, to have a /run of its own");
    }
}

fn held_lock() {
    let mut commands = IptablesCommands::new(Family::Ip, Variant::Legacy);
    commands.restore(&RestoreText::literal("*filter\nCOMMIT\n")).expect("the lock is free");
    let holder = std::fs::File::open("/run/xtables.lock").expect("the lock's file");
    holder.lock().expect("the lock");
    let failed = commands
        .restore(&RestoreText::literal("*filter\n:X - [0:0]\nCOMMIT\n"))
        .expect_err("the lock is held");
    assert!(failed.is_locked() && failed.changed_nothing(), "{failed}");
    assert!(
        failed.to_string().contains("another program holds the xtables lock (/run/xtables.lock)"),
        "{failed}"
    );
    assert!(canary(&mut commands).is_err(), "nothing is known of the tables");
    drop(holder);
    commands.restore(&RestoreText::literal("*filter\n:X - [0:0]\nCOMMIT\n")).expect("the lock is free again");
}

#[test]
fn a_lock_is_an_error_of_its_own() {
    let error = IptablesError::Missing { program: "iptables-save".to_owned(), operation: "reading" };
    let cause = error.to_string();
    assert!(cause.contains("iptables-save is missing; install the package iptables"), "{cause}");
}
