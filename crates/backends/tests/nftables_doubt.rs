//! What a reconciler takes for granted, and what it reads again: after restarts, damage, and commits of others.

mod support;

use ferrule_backends::nftables::Reconciler;
use ferrule_backends::nftables::names::SetName;
use ferrule_backends::{SyncOutcome, SyncReport, Trigger};
use ferrule_model::IpFamily;
use support::counting::Counting;
use support::lab::{Lab, world};
use support::older_layout::write_layout_3;
use support::{client, in_namespace, nft};

const TWO_SERVICES: &str = "service one clusterIP 10.96.0.1,fd96::1 port 80→8080
    endpoint one 10.244.1.1 node a
    service two clusterIP 10.96.0.2 port 80→8080
    endpoint two 10.244.1.2 node a";
const STICKY: &str = "service one clusterIP 10.96.0.1 port 80→8080 sessionAffinity ClientIP 600
    endpoint one 10.244.1.1 node a";

#[test]
fn what_was_deferred_is_not_forgotten_by_a_restart_or_a_verification() {
    in_namespace(|| {
        for restarts in [true, false] {
            let mut lab = Lab::new(STICKY);
            let lingering =
                lab.then("service one clusterIP 10.96.0.1 port 80→8080").report.deferred_objects();
            assert_eq!(lingering, 3);
            if restarts {
                lab.reconciler = Reconciler::new(client(IpFamily::V4));
            }
            lab.verify().expect("a verification");
            lab.reconciler.run_deferred().expect("the end of it");
            for set in [SetName::StickyPools, SetName::StickySlots, SetName::StickyEndpoints] {
                assert_eq!(lab.count(set), 0, "left in {} (restarts: {restarts})", set.as_str());
            }
            // Of a rewrite, the old chains are still to go.
            lab.reconciler.run_deferred().expect("the end of it");
            assert_eq!(lab.verify().expect("another verification"), SyncReport::default());
            lab.reconciler.remove_everything().expect("the table goes");
        }
    });
}

#[test]
fn damage_is_found_by_a_verification_even_if_a_change_was_written_in_between() {
    in_namespace(|| {
        let mut lab = Lab::new(TWO_SERVICES);
        let before = lab.contents();
        nft(&["flush", "chain", "ip", "kube-proxy", "masquerading"]);
        lab.try_then("endpoint one 10.244.1.9 node a").expect("a change over the damage");
        lab.try_then("gone endpoint one 10.244.1.9").expect("another one");
        // Neither this run nor the next may take the table for its own state.
        let mut next = Reconciler::new(client(IpFamily::V4));
        assert_eq!(
            next.sync(lab.plan(), Trigger::verify()).expect("a restart").outcome,
            SyncOutcome::Rewritten
        );
        next.run_deferred().expect("the end of it");
        assert_eq!(lab.verify().expect("a verification").outcome, SyncOutcome::UpToDate);
        assert_eq!(lab.contents(), before);
        nft(&["flush", "chain", "ip", "kube-proxy", "masquerading"]);
        lab.try_then("endpoint one 10.244.1.9 node a").expect("a change over the damage");
        assert_eq!(lab.verify().expect("a verification").outcome, SyncOutcome::Rewritten);
        lab.reconciler.run_deferred().expect("the end of it");
        assert_eq!(lab.verify().expect("another verification"), SyncReport::default());
    });
}

#[test]
fn commits_of_the_other_family_are_no_reason_to_read_everything() {
    in_namespace(|| {
        let world = world(TWO_SERVICES);
        let plan = |family| world.family(family).expect("both are served");
        let mut v4 = Reconciler::new(Counting::new(client(IpFamily::V4)));
        let mut v6 = Reconciler::new(client(IpFamily::V6)).share_generations_with(&v4);
        v4.sync(plan(IpFamily::V4), Trigger::verify()).expect("IPv4");
        v6.sync(plan(IpFamily::V6), Trigger::verify()).expect("IPv6");
        assert_eq!(
            v4.sync(plan(IpFamily::V4), Trigger::verify()).expect("a verification"),
            SyncReport::default()
        );
        assert_eq!(v4.kernel().listings, 0, "no other program had committed anything");
        nft(&["add", "table", "ip", "another-program"]);
        for _ in 0..2 {
            assert_eq!(
                v4.sync(plan(IpFamily::V4), Trigger::verify()).expect("a verification"),
                SyncReport::default()
            );
            // Once is enough: afterwards it is known again.
            assert_eq!(v4.kernel().listings, 1);
        }
    });
}

#[test]
fn after_a_restart_the_family_that_committed_last_vouches_for_the_other() {
    in_namespace(|| {
        let world = world(TWO_SERVICES);
        let plan = |family| world.family(family).expect("both are served");
        let mut listings = Vec::new();
        for restart in 0..3 {
            let mut v4 = Reconciler::new(Counting::new(client(IpFamily::V4)));
            let mut v6 = Reconciler::new(Counting::new(client(IpFamily::V6))).share_generations_with(&v4);
            v4.load_stamp().and_then(|()| v6.load_stamp()).expect("what is there");
            let v4_report = v4.sync(plan(IpFamily::V4), Trigger::verify()).expect("IPv4");
            let v6_report = v6.sync(plan(IpFamily::V6), Trigger::verify()).expect("IPv6");
            assert_eq!(v4_report.commits + v6_report.commits == 0, restart > 0);
            listings.push(v4.kernel().listings + v6.kernel().listings);
            if restart == 1 {
                nft(&["add", "table", "ip", "another-program"]);
            }
        }
        assert_eq!(listings, [0, 0, 2], "everything is read only after a foreign commit");
    });
}

/// Clients stick by numbers that a restart reads back, whatever pools a service's addresses lead to.
#[test]
fn a_restart_writes_nothing_for_any_combination_of_policies() {
    in_namespace(|| {
        let mut wrong = Vec::new();
        for internal in ["", "internalTrafficPolicy Local"] {
            for external in ["", "externalTrafficPolicy Local"] {
                for affinity in ["", "sessionAffinity ClientIP 600"] {
                    for endpoints in ["endpoint one 10.244.1.1 node a", "endpoint one 10.244.2.1 node b"] {
                        let text = format!(
                            "node a addresses 192.0.2.1
                            service one LoadBalancer 203.0.113.7 clusterIP 10.96.0.1 port 80→8080 nodePort 30080 {internal} {external} {affinity}
                            {endpoints}
                            endpoint one 10.244.2.2 node b
                            endpoint one 10.244.2.3 node b"
                        );
                        let mut lab = Lab::new(&text);
                        lab.reconciler = Reconciler::new(client(IpFamily::V4));
                        let report = lab.verify().expect("a restart");
                        if report != SyncReport::default() {
                            wrong.push(format!("{internal} {external} {affinity} {endpoints}: {report:?}"));
                        }
                        lab.reconciler.remove_everything().expect("the table goes");
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

/// Two of a kind in one place is a mistake, but must not end in a fight.
#[test]
fn a_repair_leaves_alone_what_another_of_the_same_mind_wrote() {
    in_namespace(|| {
        let mut lab = Lab::new(TWO_SERVICES);
        let mut other = Reconciler::new(client(IpFamily::V4));
        other.sync(lab.plan(), Trigger::verify()).expect("the other adopts");
        lab.then("endpoint one 10.244.1.9 node a");
        // The other sees a foreign commit, and wants the same by now.
        assert_eq!(other.sync(lab.plan(), Trigger::repair()).expect("no repair"), SyncReport::default());
        nft(&["flush", "chain", "ip", "kube-proxy", "masquerading"]);
        assert_eq!(
            other.sync(lab.plan(), Trigger::repair()).expect("a repair").outcome,
            SyncOutcome::Rewritten
        );
    });
}

/// Which id a chain has depends on the chains that existed before it.
#[test]
fn a_repair_leaves_alone_what_another_wrote_with_ids_of_its_own() {
    in_namespace(|| {
        let mut lab = Lab::new(TWO_SERVICES);
        let mut other = Reconciler::new(client(IpFamily::V4));
        other.sync(lab.plan(), Trigger::verify()).expect("the other adopts");
        lab.then("endpoint one 10.244.1.9 node a\nendpoint one 10.244.1.8 node a");
        lab.then("endpoint two 10.244.1.7 node a");
        let numbers = || nft(&["list", "map", "ip", "kube-proxy", "dispatch"]);
        let before = numbers();
        // The other assigns ids from the start.
        nft(&["flush", "ruleset"]);
        assert_eq!(
            other.sync(lab.plan(), Trigger::verify()).expect("a repair").outcome,
            SyncOutcome::Created
        );
        assert_ne!(numbers(), before);
        let plan = lab.world.family(IpFamily::V4).expect("a plan");
        assert_eq!(lab.reconciler.sync(plan, Trigger::repair()).expect("no repair"), SyncReport::default());
        lab.try_then("endpoint two 10.244.1.6 node a").expect("the next change");
        assert_eq!(other.sync(lab.plan(), Trigger::repair()).expect("no repair"), SyncReport::default());
    });
}

#[test]
fn a_table_of_an_older_layout_is_rewritten_once_and_keeps_its_clients() {
    in_namespace(|| {
        let mut lab = Lab::new(STICKY);
        let before = lab.contents();
        let remembered = "{ 10.244.1.100 . 7:1000 : 7:1001 }";
        nft(&["add", "element", "ip", "kube-proxy", "affinity", remembered]);
        write_layout_3(IpFamily::V4);
        assert_ne!(lab.contents(), before);
        lab.reconciler = Reconciler::new(client(IpFamily::V4));
        let report = lab.verify().expect("a start");
        // Packets under way may still look up the old map, so it goes a moment later.
        assert_eq!((report.outcome, report.deferred_objects()), (SyncOutcome::Rewritten, 1));
        lab.reconciler.run_deferred().expect("what was deferred");
        assert_eq!(lab.contents(), before);
        assert_eq!(lab.count(SetName::Affinity), 1);
        lab.reconciler = Reconciler::new(client(IpFamily::V4));
        assert_eq!(lab.verify().expect("the next start"), SyncReport::default());
    });
}
