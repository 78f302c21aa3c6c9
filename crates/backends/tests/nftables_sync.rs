//! What each change costs: the rows of the specification's sync table, restated for a layout where a Service is map elements.
//!
//! Each step's objects are counted twice, as the reconciler reports them and as the kernel shows them; the lab holds one against
//! the other. The stamp, one element that every commit replaces, is left out of the texts here.

mod support;

use ferrule_backends::nftables::Reconciler;
use ferrule_backends::nftables::names::SetName;
use ferrule_backends::{SyncOutcome, SyncReport, Trigger};
use ferrule_kernel::port::{Faults, Faulty};
use ferrule_model::IpFamily;
use support::lab::{Lab, world};
use support::{client, in_namespace, nft};

const TWO_SERVICES: &str = "service one clusterIP 10.96.0.1 port 80→8080
    endpoint one 10.244.1.1 node a
    service two clusterIP 10.96.0.2 port 80→8080
    endpoint two 10.244.1.2 node a";

/// Row: nftables Y1
#[test]
fn a_third_service_is_four_elements_and_no_chain() {
    in_namespace(|| {
        let mut lab = Lab::new(TWO_SERVICES);
        let done =
            lab.then("service three clusterIP 10.96.0.3 port 80→8080\nendpoint three 10.244.1.3 node a");
        assert_eq!(done.changed, "cluster-ips +1, endpoints +1, hairpin-connections +1, services +1");
        assert_eq!((done.report.outcome, done.report.commits), (SyncOutcome::Incremental, 1));
    });
}

/// Row: nftables Y2
#[test]
fn a_service_that_goes_takes_its_elements_along() {
    in_namespace(|| {
        let mut lab = Lab::new(TWO_SERVICES);
        let done = lab.then("gone service two");
        assert_eq!(done.changed, "cluster-ips -1, endpoints -1, hairpin-connections -1, services -1");
    });
}

/// Row: nftables Y3
#[test]
fn nothing_is_left_to_do_after_a_service_went() {
    in_namespace(|| {
        let mut lab = Lab::new(TWO_SERVICES);
        let before = lab.contents();
        lab.then("service three clusterIP 10.96.0.3 port 80→8080\nendpoint three 10.244.1.3 node a");
        lab.then("gone service three");
        assert_eq!(lab.contents(), before);
        assert_eq!(lab.verify().expect("a verification"), SyncReport::default());
    });
}

/// Row: nftables Y4
#[test]
fn a_cluster_ip_without_endpoints_is_one_element() {
    in_namespace(|| {
        let mut lab = Lab::new(TWO_SERVICES);
        let done = lab.then("service empty clusterIP 10.96.0.3 port 80→8080");
        // Unused ports of a cluster IP are refused anyway; only external addresses are listed as lacking endpoints.
        assert_eq!(done.changed, "cluster-ips +1");
        let done = lab
            .then("service empty LoadBalancer 203.0.113.7 clusterIP 10.96.0.3 port 80→8080 nodePort 30080");
        assert_eq!(done.changed, "unserved-nodeports +1, unserved-services +1");
    });
}

/// Row: nftables Y5
#[test]
fn a_first_endpoint_is_a_verdict_a_slot_and_a_hairpin() {
    in_namespace(|| {
        let mut lab = Lab::new(TWO_SERVICES);
        lab.then("service empty clusterIP 10.96.0.3 port 80→8080 externalIP 203.0.113.7");
        let done = lab.then("endpoint empty 10.244.1.3 node a");
        assert_eq!(
            done.changed,
            "dispatch +1, endpoints +2, hairpin-connections +1, services +2, unserved-services -1, chain external-1 new"
        );
    });
}

/// Row: nftables Y6
#[test]
fn an_endpoint_that_is_replaced_changes_its_slot_alone() {
    in_namespace(|| {
        let mut lab = Lab::new(TWO_SERVICES);
        let done = lab.then("gone endpoint one 10.244.1.1\nendpoint one 10.244.1.9 node a");
        assert_eq!(done.changed, "endpoints ~1, hairpin-connections +1 -1");
    });
}

/// Row: nftables Y7
#[test]
fn a_second_endpoint_is_a_slot_and_another_verdict() {
    in_namespace(|| {
        let mut lab = Lab::new(TWO_SERVICES);
        let done = lab.then("endpoint one 10.244.1.9 node a");
        assert_eq!(
            done.changed,
            "dispatch +1, endpoints +1, hairpin-connections +1, services ~1, chain cluster-2 new"
        );
        // The chain first: to a packet that is under way when it comes into being, it is empty.
        assert_eq!(done.report.commits, 2);
        // The second Service of that size finds the chain.
        let done = lab.then("endpoint two 10.244.1.8 node a");
        assert_eq!(done.changed, "endpoints +1, hairpin-connections +1, services ~1");
        assert_eq!(done.report.commits, 1);
    });
}

const ONE_OF_TWO_ENDPOINTS: &str = "service one clusterIP 10.96.0.1 port 80→8080
    endpoint one 10.244.1.1 node a
    endpoint one 10.244.1.9 node a";
const BOTH_GONE: &str = "gone endpoint one 10.244.1.1\ngone endpoint one 10.244.1.9";
const BOTH_BACK: &str = "endpoint one 10.244.1.1 node a\nendpoint one 10.244.1.9 node a";

/// Row: nftables Y8
#[test]
fn a_service_that_loses_all_endpoints_keeps_its_address() {
    in_namespace(|| {
        let mut lab = Lab::new(ONE_OF_TWO_ENDPOINTS);
        let done = lab.then(BOTH_GONE);
        assert_eq!(done.changed, "endpoints -2, hairpin-connections -2, services -1");
    });
}

/// Row: nftables Y9
#[test]
fn endpoints_that_come_back_find_the_chain_of_their_number() {
    in_namespace(|| {
        let mut lab = Lab::new(ONE_OF_TWO_ENDPOINTS);
        let before = lab.contents();
        lab.then(BOTH_GONE);
        let done = lab.then(BOTH_BACK);
        assert_eq!(done.changed, "endpoints +2, hairpin-connections +2, services +1");
        assert_eq!(lab.contents(), before);
    });
}

/// Row: nftables Y10
#[test]
fn endpoints_that_come_back_after_their_chain_was_cleared_away_make_it_anew() {
    in_namespace(|| {
        let mut lab = Lab::new(ONE_OF_TWO_ENDPOINTS);
        let before = lab.contents();
        lab.then(BOTH_GONE);
        // Unused chains go with a rewrite, as after damage, but a moment later: a packet may be under way to them.
        nft(&["flush", "set", "ip", "kube-proxy", "cluster-ips"]);
        let report = lab.verify().expect("a rewrite");
        assert_eq!((report.outcome, report.deferred_objects()), (SyncOutcome::Rewritten, 2));
        assert_eq!(lab.done(report).changed, "");
        assert_eq!(lab.run_deferred().changed, "dispatch -1, chain cluster-2 gone");
        let done = lab.then(BOTH_BACK);
        assert_eq!(
            done.changed,
            "dispatch +1, endpoints +2, hairpin-connections +2, services +1, chain cluster-2 new"
        );
        assert_eq!(lab.contents(), before);
    });
}

#[test]
fn a_chain_that_comes_into_use_again_before_it_goes_stays() {
    in_namespace(|| {
        let mut lab = Lab::new(ONE_OF_TWO_ENDPOINTS);
        let before = lab.contents();
        lab.then(BOTH_GONE);
        nft(&["flush", "set", "ip", "kube-proxy", "cluster-ips"]);
        assert_eq!(lab.verify().expect("a rewrite").deferred_objects(), 2);
        lab.try_then(BOTH_BACK).expect("a sync");
        assert_eq!(lab.contents(), before);
        assert_eq!(lab.verify().expect("a verification"), SyncReport::default());
    });
}

#[test]
fn what_went_out_of_use_is_no_reason_to_write_at_a_restart() {
    in_namespace(|| {
        let mut lab = Lab::new(ONE_OF_TWO_ENDPOINTS);
        let services = || nft(&["list", "map", "ip", "kube-proxy", "services"]);
        let before = services();
        lab.then(BOTH_GONE);
        // Another program's commit: the restart has to read every object.
        nft(&["add", "table", "ip", "theirs"]);
        lab.reconciler = Reconciler::new(client(IpFamily::V4));
        assert_eq!(lab.verify().expect("a restart"), SyncReport::default());
        // A chain of another size gets another number, the old one finds its own.
        lab.then("endpoint one 10.244.1.1 node a");
        lab.try_then("endpoint one 10.244.1.9 node a").expect("a sync");
        assert_eq!(services(), before);
        assert_eq!(lab.verify().expect("a verification"), SyncReport::default());
    });
}

/// Row: nftables Y11
#[test]
fn a_sync_without_change_does_nothing() {
    in_namespace(|| {
        let mut lab = Lab::new(TWO_SERVICES);
        assert_eq!(lab.verify().expect("a verification"), SyncReport::default());
        let done = lab.then("endpoint one 10.244.1.1 node a");
        assert_eq!((done.report, done.changed.as_str()), (SyncReport::default(), ""));
    });
}

/// Row: nftables Y12
#[test]
fn a_restart_that_finds_an_older_state_writes_all_of_it_at_once() {
    in_namespace(|| {
        let mut lab = Lab::new(TWO_SERVICES);
        lab.say("endpoint one 10.244.1.9 node a\nservice three clusterIP 10.96.0.3 port 80→8080");
        lab.reconciler = Reconciler::new(client(IpFamily::V4));
        let report = lab.verify().expect("a restart");
        // The new chain comes first, not used yet; then everything else in one commit.
        assert_eq!((report.outcome, report.commits), (SyncOutcome::Rewritten, 2));
        let done = lab.done(report);
        assert_eq!(
            done.changed,
            "cluster-ips +1, dispatch +1, endpoints +1, hairpin-connections +1, services ~1, chain cluster-2 new"
        );
    });
}

/// Row: nftables Y13
#[test]
fn after_a_failed_commit_everything_is_read() {
    in_namespace(|| {
        for faults in [Faults { before: 1000, after: 0 }, Faults { before: 0, after: 1000 }] {
            let mut lab = Lab::new(TWO_SERVICES);
            let failing = Faulty::new(client(IpFamily::V4), faults, 1);
            let mut faulty = Lab::with(lab.world.clone(), failing);
            faulty.try_then("service three clusterIP 10.96.0.3 port 80").expect_err("a failure on purpose");
            // The same reconciler over a kernel that works again.
            lab.say("service three clusterIP 10.96.0.3 port 80");
            *faulty.reconciler.kernel() =
                Faulty::new(client(IpFamily::V4), Faults { before: 0, after: 0 }, 1);
            let outcome = if faults.before > 0 { SyncOutcome::Rewritten } else { SyncOutcome::UpToDate };
            assert_eq!(faulty.verify().expect("another try").outcome, outcome);
            let found = Reconciler::new(client(IpFamily::V4)).sync(lab.plan(), Trigger::verify());
            assert_eq!(found.expect("a start"), SyncReport::default());
            faulty.reconciler.remove_everything().expect("the table goes");
        }
    });
}

/// Row: nftables Y14
#[test]
fn service_ranges_are_each_familys_own() {
    in_namespace(|| {
        let world = world("serviceCIDR more 10.112.0.0/16,fd97::/112");
        for family in IpFamily::BOTH {
            Lab::with(world.clone(), client(family));
        }
        let v4 = nft(&["list", "chain", "ip", "kube-proxy", "cluster-ips-check"]);
        let v6 = nft(&["list", "chain", "ip6", "kube-proxy", "cluster-ips-check"]);
        assert!(v4.contains("10.96.0.0/12") && v4.contains("10.112.0.0/16"), "{v4}");
        assert!(v6.contains("fd96::/112") && v6.contains("fd97::/112"), "{v6}");
        let mut lab = Lab::with(world, client(IpFamily::V4));
        let done = lab.then("gone serviceCIDR more");
        assert_eq!(done.changed, "chain cluster-ips-check changed");
        assert_eq!((done.report.outcome, done.report.commits), (SyncOutcome::Rewritten, 1));
    });
}

/// Row: nftables Y15
#[test]
fn a_node_that_changes_its_zone_plans_again_and_writes_what_differs() {
    in_namespace(|| {
        let mut lab = Lab::new(
            "node a addresses 192.0.2.1 podCIDR 10.244.1.0/24 zone east
             service one clusterIP 10.96.0.1 port 80→8080
             endpoint one 10.244.1.1 node a forZone east
             endpoint one 10.244.2.1 node b forZone west
             service two clusterIP 10.96.0.2 port 80→8080
             endpoint two 10.244.1.2 node a",
        );
        let done = lab.then("node a addresses 192.0.2.1 podCIDR 10.244.1.0/24 zone west");
        assert_eq!(done.changed, "endpoints ~1, hairpin-connections -1");
        let done = lab.then("node a addresses 192.0.2.1 podCIDR 10.244.1.0/24 zone north");
        assert_eq!(
            done.changed,
            "dispatch +1, endpoints +1 ~1, hairpin-connections +1, services ~1, chain cluster-2 new"
        );
    });
}

/// Row: nftables Y16
#[test]
fn services_that_share_an_endpoint_share_its_hairpin() {
    in_namespace(|| {
        let mut lab =
            Lab::new("service one clusterIP 10.96.0.1 port 80→8080\nendpoint one 10.244.1.1 node a");
        let done = lab.then("service two clusterIP 10.96.0.2 port 80→8080\nendpoint two 10.244.1.1 node a");
        assert_eq!(done.changed, "cluster-ips +1, endpoints +1, services +1");
        let done = lab.then("gone service one");
        assert_eq!(done.changed, "cluster-ips -1, endpoints -1, services -1");
        let done = lab.then("gone endpoint two 10.244.1.1");
        assert_eq!(done.changed, "endpoints -1, hairpin-connections -1, services -1");
    });
}

/// Row: nftables Y17
#[test]
fn affinity_that_is_switched_off_goes_in_two_steps() {
    in_namespace(|| {
        let mut lab = Lab::new(
            "service one clusterIP 10.96.0.1 port 80→8080 sessionAffinity ClientIP 600
             endpoint one 10.244.1.1 node a
             endpoint one 10.244.1.9 node a",
        );
        let done = lab.then("service one clusterIP 10.96.0.1 port 80→8080");
        // A packet under way may still need the old elements, so they stay for a moment.
        assert_eq!(done.changed, "dispatch +1, endpoints +2, services ~1, chain cluster-2 new");
        assert_eq!(done.report.deferred_objects(), 5);
        assert_eq!(lab.run_deferred().changed, "sticky-endpoints -2, sticky-pools -1, sticky-slots -2");
        assert_eq!(lab.verify().expect("a verification"), SyncReport::default());
    });
}

const STICKY: &str = "service one clusterIP 10.96.0.1 port 80→8080 sessionAffinity ClientIP 600
    endpoint one 10.244.1.1 node a";

/// Row: nftables Y18
#[test]
fn another_timeout_is_another_chain_and_keeps_every_client() {
    in_namespace(|| {
        let mut lab = Lab::new(STICKY);
        let id = "7:1000";
        nft(&[
            "add",
            "element",
            "ip",
            "kube-proxy",
            "affinity",
            &format!("{{ 10.244.1.100 . {id} : 7:1001 }}"),
        ]);
        let done = lab.then("service one clusterIP 10.96.0.1 port 80→8080 sessionAffinity ClientIP 900");
        assert_eq!(
            done.changed,
            "dispatch +1, services ~1, chain cluster-sticky-1-900s new, chain sticky-1-900s new"
        );
        assert_eq!(lab.count(SetName::Affinity), 1);
    });
}

/// Row: nftables Y19
#[test]
fn ports_without_local_endpoints_are_counted_by_policy() {
    let service = |policies: &str| {
        format!("service one NodePort clusterIP 10.96.0.1 port 80 nodePort 30080 {policies}")
    };
    let (internal, external) = ("internalTrafficPolicy Local", "externalTrafficPolicy Local");
    let both = format!("{internal} {external}");
    for (policies, endpoint, expected) in [
        (internal, "endpoint one 10.244.1.1 node a", (0, 0)),
        (internal, "endpoint one 10.244.2.1 node b", (1, 0)),
        (internal, "", (0, 0)),
        (external, "endpoint one 10.244.1.1 node a", (0, 0)),
        (external, "endpoint one 10.244.2.1 node b", (0, 1)),
        (external, "", (0, 0)),
        (&both, "endpoint one 10.244.1.1 node a", (0, 0)),
        (&both, "endpoint one 10.244.2.1 node b", (1, 1)),
        (&both, "", (0, 0)),
    ] {
        let world = world(&format!("{}\n{endpoint}", service(policies)));
        let counts = world.family(IpFamily::V4).expect("IPv4 is served").no_local_endpoints();
        assert_eq!((counts.internal, counts.external), expected, "{policies} {endpoint}");
    }
}

/// Row: nftables Y20
#[test]
fn addresses_written_with_leading_zeros_are_written_plainly() {
    in_namespace(|| {
        let facts = |ip: &str, range: &str, endpoint: &str| {
            format!(
                "service one LoadBalancer 203.0.113.7 clusterIP {ip} port 80→8080 sourceRanges {range}\n\
                 endpoint one {endpoint} node a"
            )
        };
        let mut lab = Lab::new(&facts("172.30.0.041", "203.0.113.000/025", "010.180.0.001"));
        let listing = nft(&["list", "table", "ip", "kube-proxy"]);
        for wanted in ["172.30.0.41 . tcp . 80", "10.180.0.1 . 8080"] {
            assert!(listing.contains(wanted), "no {wanted} in {listing}");
        }
        let zeros = lab.contents();
        lab.then(&facts("172.30.0.41", "203.0.113.0/25", "10.180.0.1"));
        assert_eq!(lab.contents(), zeros);
    });
}

#[test]
fn an_endpoint_leaves_a_sticky_pool_at_once_whatever_else_changes() {
    in_namespace(|| {
        let mut lab = Lab::new(&format!(
            "{STICKY}\nendpoint one 10.244.1.9 node a
             service two clusterIP 10.96.0.2 port 80→8080
             endpoint two 10.244.1.2 node a"
        ));
        let done = lab.then(
            "gone endpoint one 10.244.1.9
             service two clusterIP 10.96.0.2 port 80→8080 sessionAffinity ClientIP 600",
        );
        // Only what packets under way to the second Service need stays for a moment.
        assert_eq!(done.report.deferred_objects(), 1);
        assert_eq!(lab.count(SetName::StickyEndpoints), 2, "one of each Service");
        assert_eq!(lab.run_deferred().changed, "endpoints -1");
    });
}

#[test]
fn a_new_length_of_source_ranges_is_made_before_it_is_used() {
    in_namespace(|| {
        let facts = |ranges: &str| {
            format!(
                "service one LoadBalancer 203.0.113.7 clusterIP 10.96.0.1 port 80→8080 sourceRanges {ranges}"
            )
        };
        let mut lab = Lab::new(&(facts("198.51.100.0/24") + "\nendpoint one 10.244.1.1 node a"));
        let done = lab.then(&facts("198.51.100.0/24,198.18.0.0/25"));
        // First the set and the rule that looks it up, then the elements: who is admitted is admitted all the time.
        assert_eq!(
            done.changed,
            "source-ranges-25 +1, set source-ranges-25 new, chain source-ranges changed"
        );
        assert_eq!(done.report.commits, 2);
        let done = lab.then(&facts("198.18.0.0/25"));
        assert_eq!(done.changed, "source-ranges-24 -1, chain source-ranges changed");
        assert_eq!(done.report.commits, 1);
    });
}
