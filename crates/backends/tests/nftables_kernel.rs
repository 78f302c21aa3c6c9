//! Random clusters on the real kernel, in a network namespace of their own: written, read back, changed, damaged, adopted.

mod support;

use std::{env, thread};

use ferrule_backends::nftables::Reconciler;
use ferrule_backends::{SyncOutcome, SyncReport, Trigger};
use ferrule_kernel::port::{Faults, Faulty};
use ferrule_kernel::sys::enter_new_network_namespace;
use ferrule_model::{Change, Cluster, IpFamily, PerFamily};
use ferrule_plan::{FamilyPlan, NodePlan, NodeView, PlanDelta, Quirks, plan, replan};
use ferrule_testkit::{World, random};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use support::{client, in_namespace, nft};

/// How many random worlds each test tries: fewer on a machine that is only imitated.
fn worlds() -> u64 {
    env::var("FERRULE_TEST_WORLDS").ok().and_then(|number| number.parse().ok()).unwrap_or(40)
}

/// The same random values in every run.
fn sample<T>(strategy: &impl Strategy<Value = T>, runner: &mut TestRunner) -> T {
    strategy.new_tree(runner).expect("a strategy that always gives a value").current()
}

fn runner() -> TestRunner {
    TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]))
}

/// A cluster on its way, with the plan for it.
struct Journey {
    cluster: Cluster,
    view: NodeView,
    plan: NodePlan,
}

impl Journey {
    fn new(view: NodeView) -> Self {
        let view = NodeView { quirks: Quirks::NFTABLES, families: IpFamily::BOTH.to_vec(), ..view };
        let cluster = Cluster::default();
        let (plan, _) = plan(&cluster, &view);
        Self { cluster, view, plan }
    }

    fn go(&mut self, change: Change) -> PerFamily<PlanDelta> {
        let touched = self.cluster.apply(change).touched;
        replan(&mut self.plan, &self.cluster, &touched, &self.view).0
    }

    fn family(&self, family: IpFamily) -> &FamilyPlan {
        self.plan.families.get(family).expect("both families are served")
    }
}

/// A second start must find everything as wanted, by the stamp and, after a foreign commit, by reading all of it.
fn check_adopted(plan: &FamilyPlan, family: IpFamily) {
    let nothing = SyncReport::default();
    let found = Reconciler::new(client(family)).sync(plan, Trigger::verify()).expect("a start by the stamp");
    assert_eq!(found, nothing, "by the stamp");
    nft(&["add", "table", "ip", "another-program"]);
    nft(&["delete", "table", "ip", "another-program"]);
    let found = Reconciler::new(client(family)).sync(plan, Trigger::verify()).expect("a start by reading");
    assert_eq!(found, nothing, "by reading everything");
}

#[test]
fn random_clusters_are_written_changed_and_adopted() {
    in_namespace(|| {
        let mut runner = runner();
        for _ in 0..worlds() {
            let mut journey = Journey::new(sample(&random::view(), &mut runner));
            let changes = sample(&random::changes(), &mut runner);
            for family in IpFamily::BOTH {
                let mut reconciler = Reconciler::new(client(family));
                reconciler.sync(journey.family(family), Trigger::verify()).expect("a first sync");
                for change in &changes {
                    let deltas = journey.go(change.clone());
                    let delta = deltas.get(family).expect("both families are served");
                    let report =
                        reconciler.sync(journey.family(family), Trigger::Changed(delta)).expect("a change");
                    if report.deferred_objects() > 0 {
                        reconciler.run_deferred().expect("the end of a change");
                    }
                }
                check_adopted(journey.family(family), family);
                reconciler.remove_everything().expect("the table goes");
                journey = Journey::new(journey.view);
            }
        }
        assert_eq!(nft(&["list", "ruleset"]), "", "nothing is left");
    });
}

#[test]
fn a_table_that_fails_on_purpose_converges() {
    in_namespace(|| {
        let mut runner = runner();
        for seed in 0..worlds() {
            let mut journey = Journey::new(sample(&random::view(), &mut runner));
            let faults = Faults { before: 150, after: 150 };
            let mut reconciler = Reconciler::new(Faulty::new(client(IpFamily::V4), faults, seed));
            let mut must_verify = true;
            for change in sample(&random::changes(), &mut runner) {
                let deltas = journey.go(change);
                let plan = journey.family(IpFamily::V4);
                let delta = deltas.get(IpFamily::V4).expect("both families are served");
                let trigger = if must_verify { Trigger::verify() } else { Trigger::Changed(delta) };
                must_verify = reconciler.sync(plan, trigger).is_err();
            }
            let plan = journey.family(IpFamily::V4);
            let settled = (0..50).any(|_| {
                reconciler.sync(plan, Trigger::verify()).is_ok() && reconciler.run_deferred().is_ok()
            });
            assert!(settled, "50 tries in a row failed");
            check_adopted(plan, IpFamily::V4);
            let mut reconciler = Reconciler::new(client(IpFamily::V4));
            reconciler.remove_everything().expect("the table goes");
        }
    });
}

/// One cluster with a bit of everything.
fn full_world() -> World {
    let mut world = World::default();
    world
        .run_proxy(
            "mode nftables\ndetectLocal ClusterCIDR 10.244.0.0/16,fd44::/32\nnodePortAddresses primary",
        )
        .expect("settings");
    world
        .say(
            "node a addresses 192.0.2.1,fd00::1 podCIDR 10.244.1.0/24
             serviceCIDR 10.96.0.0/12,fd96::/112
             service web LoadBalancer 203.0.113.7 clusterIP 10.96.0.10,fd96::10 port http 80→8080 nodePort 30080 \
             externalTrafficPolicy Local healthCheckNodePort 32000 sourceRanges 198.51.100.0/24,192.0.2.0/24
             endpoint web 10.244.1.5 node a
             endpoint web 10.244.2.5 node b
             endpoint web fd44::5 node a
             service dns clusterIP 10.96.0.53,fd96::53 port dns 53/udp
             endpoint dns 10.244.1.53 node a
             endpoint dns fd44::53 node b
             service sticky NodePort clusterIP 10.96.0.15,fd96::15 port 80→8080 nodePort 30015 sessionAffinity ClientIP 600
             endpoint sticky 10.244.1.15 node a
             endpoint sticky 10.244.2.15 node b
             endpoint sticky fd44::15 node a
             service empty LoadBalancer 203.0.113.8 clusterIP 10.96.0.99 port 80 nodePort 30099"
                .replace("\\\n", " ")
                .as_str(),
        )
        .expect("facts");
    world.settle();
    world
}

fn plan_of(world: &World, family: IpFamily) -> &FamilyPlan {
    world.family(family).expect("both families are served")
}

#[test]
fn what_others_break_is_healed_and_their_own_tables_are_left_alone() {
    in_namespace(|| {
        let world = full_world();
        let plan = plan_of(&world, IpFamily::V4);
        let mut reconciler = Reconciler::new(client(IpFamily::V4));
        reconciler.sync(plan, Trigger::verify()).expect("a first sync");
        nft(&["add", "table", "ip", "theirs"]);
        nft(&["add", "chain", "ip", "theirs", "input"]);
        let theirs = nft(&["list", "table", "ip", "theirs"]);
        let whole = nft(&["list", "table", "ip", "kube-proxy"]);
        for damage in [
            &["flush", "chain", "ip", "kube-proxy", "services"][..],
            &["flush", "chain", "ip", "kube-proxy", "nat-postrouting"],
            &["flush", "set", "ip", "kube-proxy", "cluster-ips"],
            &["flush", "map", "ip", "kube-proxy", "services"],
            &["flush", "map", "ip", "kube-proxy", "dispatch"],
            &["add", "element", "ip", "kube-proxy", "dispatch", "{ 7000:fff : goto cluster-ips-check }"],
            &["add", "element", "ip", "kube-proxy", "cluster-ips", "{ 10.1.2.3 }"],
            &["add", "chain", "ip", "kube-proxy", "stray"],
            &["add", "rule", "ip", "kube-proxy", "masquerading", "accept"],
            &["delete", "table", "ip", "kube-proxy"],
        ] {
            nft(damage);
            let healed = reconciler.sync(plan, Trigger::verify()).expect("healing");
            assert_ne!(healed.outcome, SyncOutcome::UpToDate, "{damage:?} was not noticed");
            assert_eq!(
                without_stamp(&nft(&["list", "table", "ip", "kube-proxy"])),
                without_stamp(&whole),
                "{damage:?}"
            );
            assert_eq!(nft(&["list", "table", "ip", "theirs"]), theirs);
        }
        check_adopted(plan, IpFamily::V4);
    });
}

/// The listing without the line of the stamp, which changes with every commit, and with chains in the order of their names.
fn without_stamp(listing: &str) -> Vec<String> {
    let mut blocks: Vec<String> = listing.split("\n\n").map(str::to_owned).collect();
    blocks.retain(|block| !block.contains("ferrule-stamp"));
    blocks.sort();
    blocks
}

#[test]
fn nft_lists_what_we_write_and_loads_its_own_listing() {
    in_namespace(|| {
        let world = full_world();
        for family in IpFamily::BOTH {
            let mut reconciler = Reconciler::new(client(family));
            reconciler.sync(plan_of(&world, family), Trigger::verify()).expect("a first sync");
        }
        nft(&["-j", "list", "ruleset"]);
        let listing = nft(&["list", "ruleset"]);
        let again = thread::spawn(move || {
            enter_new_network_namespace().expect("another namespace");
            let file = env::temp_dir().join(format!("ferrule-listing-{}", std::process::id()));
            std::fs::write(&file, &listing).expect("a temporary file");
            nft(&["-f", file.to_str().expect("a plain path")]);
            std::fs::remove_file(file).expect("the temporary file");
            (listing, nft(&["list", "ruleset"]))
        });
        let (listing, again) = again.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        assert_eq!(listing, again);
    });
}

#[test]
fn a_table_of_another_layout_is_replaced_in_one_go() {
    in_namespace(|| {
        nft(&["add", "table", "ip", "kube-proxy"]);
        nft(&[
            "add",
            "set",
            "ip",
            "kube-proxy",
            "cluster-ips",
            "{ type ipv4_addr ; comment \"Active ClusterIPs\" ; }",
        ]);
        nft(&["add", "chain", "ip", "kube-proxy", "nat-output", "{ type nat hook output priority -100 ; }"]);
        nft(&["add", "chain", "ip", "kube-proxy", "service-ABC"]);
        let world = full_world();
        let mut reconciler = Reconciler::new(client(IpFamily::V4));
        let report = reconciler.sync(plan_of(&world, IpFamily::V4), Trigger::verify()).expect("a take-over");
        // All of it at once; then, once it was read back, the stamp that vouches for it.
        assert_eq!((report.outcome, report.commits), (SyncOutcome::Created, 2));
        assert!(!nft(&["list", "table", "ip", "kube-proxy"]).contains("service-ABC"));
        check_adopted(plan_of(&world, IpFamily::V4), IpFamily::V4);
    });
}
