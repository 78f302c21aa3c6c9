//! iptables mode over netlink: the same tables as with the programs, and each takes over what the other wrote.
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

mod support;

use ferrule_backends::iptables::{Host, Reconciler, RejectedPart};
use ferrule_backends::{SyncOutcome, Trigger};
use ferrule_kernel::iptables::direct::NetlinkTables;
use ferrule_kernel::iptables::{IptablesCommands, Saved, Variant};
use ferrule_kernel::nft::Family;
use ferrule_kernel::port::{Faults, Faulty};
use ferrule_model::IpFamily;
use support::iptables::{run, saved, with_iptables};
use support::nft;
use support::xtables::{Lab, world};

const SERVICES: &str =
    "service web LoadBalancer 203.0.113.7 clusterIP 10.96.0.1 port http 80→8080 nodePort 30080 sourceRanges 198.51.100.0/24
    endpoint web 10.244.1.1 node a
    endpoint web 10.245.1.1 node b
    service sticky NodePort clusterIP 10.96.0.2 port 80→8080 nodePort 30081 sessionAffinity ClientIP 600
    endpoint sticky 10.244.1.2 node a
    endpoint sticky 10.245.1.2 node b
    service empty clusterIP 10.96.0.3 port 53/udp";
const NO_FAULTS: Faults = Faults { before: 0, after: 0 };

fn tables() -> NetlinkTables {
    NetlinkTables::open(Family::Ip).expect("a socket")
}

fn commands() -> IptablesCommands {
    IptablesCommands::new(Family::Ip, Variant::Nft)
}

fn has(saved: &Saved, text: &str) -> bool {
    saved.to_string().contains(text)
}

#[test]
fn what_is_written_over_netlink_is_what_the_programs_write() {
    with_iptables(|| {
        let mut lab = Lab::with(world(SERVICES), tables(), Host::default());
        assert_eq!(lab.restores(), 1);
        let ours = run("iptables-nft-save", &[]);
        let mut adopting = Lab::with(world(SERVICES), commands(), Host::default());
        assert_eq!(adopting.restores(), 0, "the programs see nothing to correct: {}", adopting.text());
        adopting.reconciler.remove_everything().expect("a removal");
        let mut programs = Lab::with(world(SERVICES), commands(), Host::default());
        let rules = |text: &str| -> Vec<String> {
            let mut rules: Vec<String> =
                text.lines().filter(|line| line.starts_with("-A")).map(str::to_owned).collect();
            rules.sort();
            rules
        };
        assert_eq!(rules(&ours), rules(&run("iptables-nft-save", &[])));
        let mut again = Lab::with(world(SERVICES), tables(), Host::default());
        assert_eq!((again.restores(), programs.restores()), (0, 1), "{}", again.text());
    });
}

#[test]
fn changes_are_written_verified_and_removed() {
    with_iptables(|| {
        let mut lab = Lab::with(world(SERVICES), tables(), Host::default());
        for change in [
            "endpoint web 10.244.1.9 node a",
            "gone endpoint sticky 10.245.1.2",
            "endpoint empty 10.244.1.3 node a",
            "gone service web",
            "service new clusterIP 10.96.0.9 port 80→8080\nendpoint new 10.244.1.10 node a",
        ] {
            let report = lab.then(change);
            assert_eq!(report.outcome, SyncOutcome::Incremental, "{change}");
            assert_eq!(lab.verify().expect("a verification").outcome, SyncOutcome::UpToDate, "{change}");
        }
        run("iptables-nft", &["-t", "nat", "-F", "KUBE-SERVICES"]);
        assert!(lab.verify().expect("a verification").outcome.is_repair());
        assert_eq!(lab.verify().expect("a verification").outcome, SyncOutcome::UpToDate);
        lab.reconciler.remove_everything().expect("a removal");
        assert!(!has(&saved(commands()), "KUBE-SVC-") && !has(&saved(commands()), "KUBE-SERVICES"));
    });
}

/// Row: iptables J8
#[test]
fn a_rule_that_cannot_be_written_costs_its_service_and_no_other() {
    with_iptables(|| {
        let mut lab = Lab::with(world(""), Faulty::new(tables(), NO_FAULTS, 1), Host::default());
        lab.reconciler.kernel().tables.corrupt(Some("default/sticky"));
        lab.then(SERVICES);
        let rejected = lab.reconciler.take_rejected();
        assert!(
            matches!(&rejected[..], [one] if matches!(&one.what, RejectedPart::Port(port) if port.service.to_string() == "default/sticky")),
            "{rejected:?}"
        );
        assert!(has(&lab.saved(), "default/web") && !has(&lab.saved(), "default/sticky"));
        lab.reconciler.kernel().tables.corrupt(None);
        lab.verify().expect("a verification");
        assert!(has(&lab.saved(), "default/sticky"), "what is good again is written");
        assert_eq!(lab.verify().expect("a verification").outcome, SyncOutcome::UpToDate);
    });
}

/// Row: iptables J13
#[test]
fn counters_that_the_kernel_rejects_are_done_without() {
    with_iptables(|| {
        let mut reconciler = Reconciler::new(tables(), Host::default()).counting(|_| true);
        let world = world(SERVICES);
        let plan = world.family(IpFamily::V4).expect("IPv4 is served");
        reconciler.sync(plan, Trigger::verify()).expect("a sync");
        let rejected = reconciler.take_rejected();
        assert!(matches!(&rejected[..], [one] if one.what == RejectedPart::Counters), "{rejected:?}");
        assert!(has(&saved(commands()), "KUBE-SVC-") && !has(&saved(commands()), "nfacct"));
    });
}

#[test]
fn a_table_that_iptables_cannot_show_is_read_and_corrected() {
    with_iptables(|| {
        let mut lab = Lab::with(world(SERVICES), tables(), Host::default());
        nft(&["add", "rule", "ip", "filter", "FORWARD", "ct", "state", "established", "accept"]);
        assert_eq!(lab.verify().expect("a verification").outcome, SyncOutcome::UpToDate);
        nft(&["flush", "chain", "ip", "filter", "KUBE-FORWARD"]);
        assert!(lab.verify().expect("a verification").outcome.is_repair());
        assert!(nft(&["list", "table", "ip", "filter"]).contains("ct state established accept"));
        lab.reconciler.remove_everything().expect("a removal");
        assert!(nft(&["list", "table", "ip", "filter"]).contains("ct state established accept"));
    });
}

/// How often a new reconciler reads all rules before it finds that nothing is to be written.
fn reads_of_a_start() -> usize {
    let mut lab = Lab::with(world(SERVICES), tables(), Host::default());
    assert_eq!(lab.restores(), 0, "{}", lab.text());
    lab.reconciler.kernel().saves
}

#[test]
fn a_stamp_vouches_only_for_rules_that_no_other_program_can_have_touched() {
    with_iptables(|| {
        let mut lab = Lab::with(world(SERVICES), tables(), Host::default());
        lab.then("endpoint web 10.244.1.9 node a");
        lab.then("gone endpoint web 10.244.1.9");
        assert_eq!(reads_of_a_start(), 0, "nobody else committed");
        nft(&["add", "table", "ip", "another-program"]);
        assert_eq!(reads_of_a_start(), 1, "somebody did");
        lab.then("endpoint web 10.244.1.9 node a");
        lab.then("gone endpoint web 10.244.1.9");
        assert_eq!(reads_of_a_start(), 1, "and what was changed since then is not proven either");
        lab.verify().expect("a verification");
        lab.then("endpoint web 10.244.1.9 node a");
        lab.then("gone endpoint web 10.244.1.9");
        assert_eq!(reads_of_a_start(), 0, "all was read, and then changed by us alone");
    });
}

#[test]
fn without_room_for_a_stamp_rules_are_written_all_the_same_and_read_by_the_next_start() {
    with_iptables(|| {
        let mut lab = Lab::with(world(SERVICES), tables(), Host::default());
        run("iptables-nft", &["-t", "nat", "-N", "OTHER"]);
        run("iptables-nft", &["-t", "nat", "-A", "OTHER", "-j", "KUBE-PROXY-CANARY"]);
        lab.then("endpoint web 10.244.1.9 node a");
        assert!(has(&lab.saved(), "10.244.1.9:8080"));
        lab.then("gone endpoint web 10.244.1.9");
        assert_eq!(reads_of_a_start(), 1);
    });
}
