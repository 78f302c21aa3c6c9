//! What others or an odd Service can put in the way of iptables mode: rules iptables cannot show, chains with names like ours,
//! rule text that is refused. The rest is served all the same, and nothing is written twice.
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

mod support;

use ferrule_backends::iptables::{Host, Reconciler, RejectedPart, remove_leftovers};
use ferrule_backends::{SyncOutcome, Trigger};
use ferrule_kernel::iptables::{IptablesError, Saved, Variant};
use ferrule_kernel::port::{Faults, Faulty};
use ferrule_model::IpFamily;
use support::iptables::{Writer, name, run, saved, with_each_writer, with_iptables};
use support::nft;
use support::xtables::{Lab, world};

const TWO_SERVICES: &str = "service one clusterIP 10.96.0.1 port 80→8080
    endpoint one 10.244.1.1 node a
    service odd clusterIP 10.96.0.2 port 80→8080
    endpoint odd 10.244.1.2 node a";
const NO_FAULTS: Faults = Faults { before: 0, after: 0 };

fn is_unreadable(error: &IptablesError) -> bool {
    matches!(error, IptablesError::Unreadable { table, .. } if table == "filter")
}

fn has(saved: &Saved, text: &str) -> bool {
    saved.to_string().contains(text)
}

#[test]
fn a_table_that_iptables_cannot_show_is_told_and_not_filled_again() {
    with_iptables(|| {
        let mut lab = Lab::new(TWO_SERVICES, Writer::Programs(Variant::Nft));
        let restores = lab.restores();
        nft(&["add", "rule", "ip", "filter", "FORWARD", "ct", "state", "established", "accept"]);
        let before = nft(&["-s", "list", "ruleset"]);
        for _ in 0..3 {
            assert!(is_unreadable(&lab.verify().expect_err("filter cannot be read")));
        }
        assert_eq!((lab.restores(), nft(&["-s", "list", "ruleset"])), (restores, before));
        lab.then("endpoint one 10.244.1.9 node a");
        assert!(nft(&["list", "table", "ip", "nat"]).contains("10.244.1.9"), "changes are still written");
        nft(&["flush", "chain", "ip", "filter", "FORWARD"]);
        remove_leftovers().expect("a removal");
        assert_eq!(lab.verify().expect("a verification").outcome, SyncOutcome::Created);
        assert_eq!(lab.verify().expect("a verification").outcome, SyncOutcome::UpToDate);
    });
}

#[test]
fn over_netlink_a_table_that_iptables_cannot_show_is_read_healed_and_cleaned() {
    with_iptables(|| {
        let mut lab = Lab::new(TWO_SERVICES, Writer::Netlink);
        nft(&["add", "rule", "ip", "filter", "FORWARD", "ct", "state", "established", "accept"]);
        assert_eq!(lab.verify().expect("a verification").outcome, SyncOutcome::UpToDate);
        nft(&["flush", "chain", "ip", "filter", "KUBE-FORWARD"]);
        assert_eq!(lab.verify().expect("a verification").outcome, SyncOutcome::Rewritten);
        let forward = nft(&["list", "chain", "ip", "filter", "KUBE-FORWARD"]);
        assert!(forward.contains("0x4000") || forward.contains("mark"), "{forward}");
        remove_leftovers().expect("a removal");
        let rules = nft(&["list", "ruleset"]);
        assert!(rules.contains("ct state established accept") && !rules.contains("KUBE-SVC-"), "{rules}");
    });
}

#[test]
fn a_table_of_others_that_iptables_cannot_show_has_nothing_left_of_ours() {
    with_iptables(|| {
        nft(&["add", "table", "ip", "filter"]);
        let hook = "{ type filter hook forward priority filter; }";
        nft(&["add", "chain", "ip", "filter", "FORWARD", hook]);
        nft(&["add", "rule", "ip", "filter", "FORWARD", "ct", "state", "established", "accept"]);
        assert_eq!(remove_leftovers().expect("nothing of ours is there").chains, 0);
    });
}

/// Row: iptables J8
#[test]
fn broken_rule_text_costs_its_service_and_no_other() {
    with_each_writer(|writer| {
        let kernel = Faulty::new(writer.tables(), NO_FAULTS, 1);
        let mut lab = Lab::with(world(""), kernel, Host::default());
        lab.reconciler.kernel().tables.corrupt(Some("default/odd"));
        lab.then(TWO_SERVICES);
        let rejected = lab.reconciler.take_rejected();
        assert!(
            matches!(&rejected[..], [one] if matches!(&one.what, RejectedPart::Port(port) if port.service.to_string() == "default/odd")),
            "{rejected:?}"
        );
        assert!(has(&lab.saved(), "default/one") && !has(&lab.saved(), "default/odd"));
        // Changes of others are written, verifications try again and find no damage.
        let report = lab.then("endpoint one 10.244.1.9 node a");
        assert_eq!((report.outcome, lab.reconciler.take_rejected().len()), (SyncOutcome::Incremental, 0));
        let report = lab.verify().expect("a verification");
        assert_eq!((report.outcome.is_repair(), lab.reconciler.take_rejected().len()), (false, 1));
        lab.reconciler.kernel().tables.corrupt(None);
        lab.verify().expect("a verification");
        assert!(has(&lab.saved(), "default/odd"), "what is good again is written");
        assert_eq!(lab.verify().expect("a verification").outcome, SyncOutcome::UpToDate);
    });
}

#[test]
fn a_refused_service_is_tried_again_when_it_changes() {
    with_iptables(|| {
        let kernel = Faulty::new(Writer::Netlink.tables(), NO_FAULTS, 1);
        let mut lab = Lab::with(world(""), kernel, Host::default());
        lab.reconciler.kernel().tables.corrupt(Some("10.244.1.2:8080"));
        lab.then(TWO_SERVICES);
        assert!(!has(&lab.saved(), "default/odd"));
        lab.then("gone endpoint odd 10.244.1.2\nendpoint odd 10.244.1.3 node a");
        assert!(has(&lab.saved(), "10.244.1.3:8080"));
        assert_eq!(lab.verify().expect("a verification").outcome, SyncOutcome::UpToDate);
    });
}

/// Row: iptables J13
#[test]
fn counters_that_rules_cannot_use_are_done_without() {
    with_each_writer(|writer| {
        // Nobody made these counters, so the kernel refuses rules that count into them.
        let mut reconciler = Reconciler::new(writer.tables(), Host::default()).counting(|_| true);
        let world = world(TWO_SERVICES);
        let plan = world.family(IpFamily::V4).expect("IPv4 is served");
        reconciler.sync(plan, Trigger::verify()).expect("a sync");
        let rejected = reconciler.take_rejected();
        assert!(matches!(&rejected[..], [one] if one.what == RejectedPart::Counters), "{rejected:?}");
        let saved = saved(writer.tables());
        assert!(has(&saved, "KUBE-SVC-") && !has(&saved, "nfacct"));
        assert_eq!(
            reconciler.sync(plan, Trigger::verify()).expect("a verification").outcome,
            SyncOutcome::UpToDate
        );
        assert!(reconciler.take_rejected().is_empty());
    });
}

#[test]
fn a_chain_of_another_program_with_a_name_like_ours_keeps_what_it_jumps_to() {
    with_each_writer(|writer| {
        let mut lab = Lab::new(TWO_SERVICES, writer);
        let nat = lab.saved().table("nat").cloned().expect("nat");
        let jump = nat.rules.iter().find(|rule| rule.text.contains("default/odd cluster IP"));
        let chain = jump.and_then(|rule| rule.text.rsplit(' ').next()).expect("a chain").to_owned();
        run(&name(writer), &["-t", "nat", "-N", "KUBE-ROUTER-X"]);
        run(&name(writer), &["-t", "nat", "-A", "KUBE-ROUTER-X", "-j", &chain]);
        let gone = lab.try_then("gone service odd");
        assert_eq!(gone.is_ok(), writer == Writer::Netlink, "the chain is in use: {gone:?}");
        lab.verify().expect("a verification continues without removing it");
        assert!(has(&lab.saved(), &format!("-A KUBE-ROUTER-X -j {chain}")));
        assert!(!has(&lab.saved(), "default/odd"));
        assert_eq!(lab.verify().expect("a verification").outcome, SyncOutcome::UpToDate);
    });
}
