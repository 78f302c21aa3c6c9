//! What each change costs in iptables mode: the rows of the specification's sync table, where kube-proxy writes all dispatch
//! rules every time and we write what changed.
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

mod support;

use ferrule_backends::SyncOutcome;
use ferrule_backends::iptables::{Host, Reconciler};
use ferrule_kernel::port::{Faults, Faulty};
use support::iptables::{Writer, name, run, with_each_writer};
use support::xtables::{Lab, Nowhere, chains, removed, totals, world};

const TWO_SERVICES: &str = "service one clusterIP 10.96.0.1 port 80→8080
    endpoint one 10.244.1.1 node a
    service two clusterIP 10.96.0.2 port 80→8080
    endpoint two 10.244.1.2 node a";
const THIRD: &str = "service three clusterIP 10.96.0.3 port 80→8080\nendpoint three 10.244.1.3 node a";

/// Row: iptables J1
#[test]
fn a_first_sync_writes_everything_and_a_second_start_nothing() {
    with_each_writer(|writer| {
        let mut lab = Lab::new(TWO_SERVICES, writer);
        let saved = lab.saved();
        let jumps = |table: &str, chain: &str| -> Vec<String> {
            let rules = saved.table(table).into_iter().flat_map(|table| &table.rules);
            let rules = rules.filter(|rule| rule.chain.as_str() == chain);
            rules.filter_map(|rule| rule.text.rsplit(' ').next().map(str::to_owned)).collect()
        };
        let firewall = ["KUBE-FIREWALL", "KUBE-PROXY-FIREWALL"];
        assert_eq!(
            jumps("filter", "INPUT"),
            [&firewall[..], &["KUBE-NODEPORTS", "KUBE-EXTERNAL-SERVICES"]].concat()
        );
        assert_eq!(jumps("filter", "OUTPUT"), [&firewall[..], &["KUBE-SERVICES"]].concat());
        let forward = ["KUBE-PROXY-FIREWALL", "KUBE-FORWARD", "KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES"];
        assert_eq!(jumps("filter", "FORWARD"), forward);
        assert_eq!(jumps("nat", "POSTROUTING"), ["KUBE-POSTROUTING"]);
        assert_eq!(
            saved.table("nat").map(|nat| nat.chains.iter().filter(|chain| chain.name.contains("-S")).count()),
            Some(5)
        );
        assert_eq!(lab.restores(), 1);
        let again = Lab::new(TWO_SERVICES, writer);
        let mut again = again;
        assert_eq!((again.restores(), again.saved()), (0, saved));
    });
}

/// Row: iptables J2
#[test]
fn a_new_service_is_its_own_chains_and_one_dispatch_rule() {
    with_each_writer(|writer| {
        let mut lab = Lab::new(TWO_SERVICES, writer);
        let before = lab.verify().map(|report| totals(&report)).expect("a verification");
        let report = lab.then(THIRD);
        assert_eq!(totals(&report), (before.0, before.1 + 5));
        let text = lab.text();
        assert_eq!(chains(&text).len(), 2, "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("-I KUBE-SERVICES")).count(), 1, "{text}");
        // Over netlink the verification above saw that nobody else had changed anything.
        let saves = if writer == Writer::Netlink { 1 } else { 2 };
        assert_eq!(
            (report.outcome, report.commits, lab.reconciler.kernel().saves),
            (SyncOutcome::Incremental, 1, saves)
        );
        assert_eq!(lab.verify().expect("a verification").outcome, SyncOutcome::UpToDate);
    });
}

/// Row: iptables J3
#[test]
fn a_service_that_goes_takes_its_chains_along() {
    with_each_writer(|writer| {
        let mut lab = Lab::new(TWO_SERVICES, writer);
        let before = lab.saved();
        let report = lab.then(THIRD);
        let after = lab.then("gone service three");
        assert_eq!(totals(&after).1 + 5, totals(&report).1);
        let text = lab.text();
        assert_eq!((chains(&text), removed(&text).len()), (removed(&text), 2), "{text}");
        assert_eq!(lab.saved(), before);
    });
}

/// Row: iptables J4
#[test]
fn a_service_without_endpoints_is_one_refusal() {
    with_each_writer(|writer| {
        let mut lab = Lab::new(TWO_SERVICES, writer);
        let before = lab.verify().map(|report| totals(&report)).expect("a verification");
        let report = lab.then("service empty clusterIP 10.96.0.9 port 80→8080");
        assert_eq!((totals(&report), report.written), ((before.0 + 1, before.1), 1));
        assert!(
            lab.text().contains("has no endpoints") && lab.text().ends_with("-j REJECT\nCOMMIT\n"),
            "{}",
            lab.text()
        );
    });
}

/// Row: iptables J5
#[test]
fn a_replaced_endpoint_is_two_chains_written_and_one_gone() {
    with_each_writer(|writer| {
        let mut lab = Lab::new(TWO_SERVICES, writer);
        lab.then("gone endpoint one 10.244.1.1\nendpoint one 10.244.1.9 node a");
        let text = lab.text();
        assert_eq!((chains(&text).len(), removed(&text).len()), (3, 1), "{text}");
        assert!(!text.contains("KUBE-SERVICES") && !text.contains("*filter"), "{text}");
        assert_eq!(lab.verify().expect("a verification").outcome, SyncOutcome::UpToDate);
    });
}

/// Row: iptables J6
#[test]
fn a_second_endpoint_leaves_the_chain_of_the_first_alone() {
    with_each_writer(|writer| {
        let mut lab = Lab::new(TWO_SERVICES, writer);
        let before = lab.verify().map(|report| totals(&report)).expect("a verification");
        let report = lab.then("endpoint one 10.244.1.9 node a");
        assert_eq!(totals(&report), (before.0, before.1 + 3));
        let text = lab.text();
        assert_eq!((chains(&text).len(), removed(&text).len()), (2, 0), "{text}");
    });
}

/// Row: iptables J7
#[test]
fn a_sync_without_changes_writes_nothing() {
    with_each_writer(|writer| {
        let mut lab = Lab::new(TWO_SERVICES, writer);
        let report = lab.then("endpoint one 10.244.1.77 node b notReady");
        assert_eq!((report.commits, report.outcome, lab.restores()), (0, SyncOutcome::UpToDate, 1));
    });
}

/// Row: iptables J8
#[test]
fn a_restore_that_fails_changes_nothing_and_the_next_sync_makes_it_good() {
    with_each_writer(|writer| {
        let mut lab = Lab::new(TWO_SERVICES, writer);
        lab.then(THIRD);
        let text = lab.text();
        let chain = *chains(&text).iter().find(|chain| chain.starts_with("KUBE-SVC")).expect("a chain");
        run(&name(writer), &["-t", "nat", "-N", "OTHER"]);
        run(&name(writer), &["-t", "nat", "-A", "OTHER", "-j", chain]);
        let before = lab.saved();
        if writer == Writer::Netlink {
            lab.try_then("gone service three").expect("a chain that is in use is emptied at once");
        } else {
            let failed = lab.try_then("gone service three").expect_err("the chain is in use");
            assert!(!failed.is_locked(), "{failed:?}");
            assert_eq!(lab.saved(), before);
            assert_eq!(lab.verify().expect("a verification").outcome, SyncOutcome::Rewritten);
        }
        let nat = lab.saved();
        let nat = nat.table("nat").expect("nat");
        assert!(
            nat.has_chain(chain) && nat.rules.iter().all(|rule| rule.chain.as_str() != chain),
            "emptied, and left"
        );
        assert_eq!(lab.verify().expect("a verification").outcome, SyncOutcome::UpToDate);
    });
}

/// A Service with so many endpoints.
fn large(name: &str, block: u8, endpoints: u16) -> String {
    let lines = (1..=endpoints).map(|at| {
        format!("endpoint {name} 10.244.{}.{} node b", block + u8::try_from(at / 250).unwrap_or(0), at % 250)
    });
    format!("service {name} clusterIP 10.96.1.{block} port 80→8080\n{}", lines.collect::<Vec<_>>().join("\n"))
}

/// Rows: iptables J9, J10, J11
#[test]
fn above_a_thousand_endpoints_what_is_written_has_no_comments() {
    with_each_writer(|writer| {
        let mut lab = Lab::new(&large("many", 10, 998), writer);
        lab.then("service few clusterIP 10.96.0.9 port 80→8080\nendpoint few 10.244.1.1 node a\nendpoint few 10.244.1.2 node a\nendpoint few 10.244.1.3 node a");
        let text = lab.text();
        let of_endpoints: Vec<&str> =
            text.lines().filter(|line| line.contains("KUBE-SEP-") && line.starts_with("-A")).collect();
        assert!(
            of_endpoints.len() == 9 && of_endpoints.iter().all(|line| !line.contains("comment")),
            "{text}"
        );
        let saved = lab.saved().to_string();
        assert_eq!(saved.matches("many -> ").count(), 998, "what is not touched stays");
        assert_eq!(
            lab.verify().expect("a verification").outcome,
            SyncOutcome::UpToDate,
            "comments are no damage"
        );
        run(&name(writer), &["-t", "nat", "-F", "KUBE-MARK-MASQ"]);
        assert_eq!(lab.repair().expect("a repair").outcome, SyncOutcome::Rewritten);
        assert_eq!(lab.saved().to_string().matches("many -> ").count(), 0, "a repair rewrites everything");
    });
}

/// Chains of Services that went are removed at once, however many endpoints there are: we know them.
///
/// Row: iptables J12
#[test]
fn above_a_thousand_endpoints_stale_chains_still_go_at_once() {
    with_each_writer(|writer| {
        let mut lab = Lab::new(&large("many", 10, 1100), writer);
        lab.then(THIRD);
        lab.then("gone service three");
        assert_eq!(removed(&lab.text()).len(), 2);
    });
}

/// Rows: iptables J13, J14
#[test]
fn what_the_kernel_can_count_is_counted() {
    let node_port = "service one NodePort clusterIP 10.96.0.1 port 80→8080 nodePort 30080\nendpoint one 10.244.1.1 node a";
    let text = |host| Lab::with(world(node_port), Nowhere, host).text();
    let plain = text(Host::default());
    assert!(
        plain.contains("-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP") && !plain.contains("nfacct")
    );
    assert!(plain.contains("-j MASQUERADE --random-fully"));
    let counted = text(Host { counts_invalid: true, counts_loopback: true, ..Host::default() });
    assert!(
        counted.contains("--ctstate INVALID -m nfacct --nfacct-name ct_state_invalid_dropped_pkts -j DROP")
    );
    let first =
        counted.find("-d 127.0.0.0/8 --dport 30080 -m nfacct --nfacct-name localhost_nps_accepted_pkts");
    let second = counted.find("-p tcp --dport 30080 -j KUBE-EXT-");
    assert!(first.is_some() && first < second, "{counted}");
    assert!(!text(Host { tcp_is_liberal: true, ..Host::default() }).contains("INVALID"));
}

/// Row: iptables J20
#[test]
fn addresses_are_written_in_their_canonical_form() {
    let facts = "service one clusterIP 010.096.000.001 port 80→8080\nendpoint one 10.244.001.001 node a";
    let text = Lab::with(world(facts), Nowhere, Host::default()).text();
    assert!(
        text.contains("-d 10.96.0.1 --dport 80") && text.contains("--to-destination 10.244.1.1:8080"),
        "{text}"
    );
}

/// Row: iptables J21
#[test]
fn ports_without_local_endpoints_are_counted_by_policy() {
    let policies = "internalTrafficPolicy Local externalTrafficPolicy Local";
    let service = format!("service one NodePort clusterIP 10.96.0.1 port 80→8080 nodePort 30080 {policies}");
    for (endpoint, expected) in
        [("endpoint one 10.244.1.1 node a", (0, 0)), ("endpoint one 10.244.2.1 node b", (1, 1)), ("", (0, 0))]
    {
        let lab = Lab::with(world(&format!("{service}\n{endpoint}")), Nowhere, Host::default());
        let counts = lab.plan().no_local_endpoints();
        assert_eq!((counts.internal, counts.external), expected, "{endpoint}");
    }
}

/// Row: iptables J22
#[test]
fn rules_are_counted_as_kube_proxy_counts_them() {
    let counts = |facts: &str| {
        let mut lab = Lab::with(world(facts), Nowhere, Host::default());
        lab.verify().map(|report| totals(&report)).expect("a verification")
    };
    assert_eq!(counts(""), (4, 5));
    let service = "service one clusterIP 10.96.0.1 port 80→8080\n";
    assert_eq!(counts(service), (5, 5));
    for (endpoints, expected) in [(1, 10), (2, 13), (10, 37)] {
        let lines: Vec<String> =
            (1..=endpoints).map(|at| format!("endpoint one 10.244.1.{at} node a")).collect();
        let endpoints = lines.join("\n");
        assert_eq!(counts(&format!("{service}{endpoints}")), (4, expected));
    }
}

/// Every step of a long life, with one restore in ten failing before or after it happened.
#[test]
fn restores_that_fail_are_made_good() {
    with_each_writer(|writer| {
        let kernel = Faulty::new(writer.tables(), Faults { before: 150, after: 150 }, 7);
        let mut lab = Lab::with(world(TWO_SERVICES), kernel, Host::default());
        let mut failures = 0;
        for step in 0..60_u8 {
            let facts = match step % 4 {
                0 => THIRD.to_owned(),
                1 => format!("endpoint three 10.244.1.{} node a", 100 + step),
                2 => "service three NodePort clusterIP 10.96.0.3 port 80→8080 nodePort 30080".to_owned(),
                _ => "gone service three".to_owned(),
            };
            let mut result = lab.try_then(&facts);
            while result.is_err() {
                failures += 1;
                result = lab.verify();
            }
        }
        assert!(failures > 5, "only {failures} failures");
        let mut fresh = Reconciler::new(writer.tables(), Host::default());
        assert_eq!(fresh.diff(lab.plan()).expect("a diff").lines, Vec::<String>::new());
    });
}
