//! What must hold for any cluster and any order of events, tried on random ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ferrule_model::{Change, Cluster, IpFamily, ServiceName, ServicePortName, Touched, TrafficPolicy};
use ferrule_plan::{
    FamilyPlan, Frontend, FrontendKey, LocalEndpoints, NodePlan, NodeView, PlanDelta, PlannedPort, Pool,
    PoolId, PoolScope, Replaced, TrafficSource, plan, replan, show,
};
use ferrule_testkit::random;
use proptest::prelude::*;

/// The least number of random cases for each property in the normal run.
const CASES: u32 = 10_000;

fn cluster_after(changes: impl IntoIterator<Item = Change>) -> Cluster {
    let mut cluster = Cluster::default();
    for change in changes {
        cluster.apply(change);
    }
    cluster
}

/// The same events in another order that keeps the order of each object's own events, as watches do.
fn reordered(changes: &[Change], choices: &[usize]) -> Vec<Change> {
    let mut queues: BTreeMap<String, Vec<Change>> = BTreeMap::new();
    for change in changes.iter().rev() {
        queues.entry(object_of(change)).or_default().push(change.clone());
    }
    let mut out = Vec::new();
    let mut choices = choices.iter().cycle();
    while !queues.is_empty() {
        let pick = choices.next().copied().unwrap_or_default() % queues.len();
        let key = queues.keys().nth(pick).cloned().expect("a pick below the length");
        let queue = queues.get_mut(&key).expect("a key just taken");
        out.extend(queue.pop());
        if queue.is_empty() {
            queues.remove(&key);
        }
    }
    out
}

fn object_of(change: &Change) -> String {
    match change {
        Change::Service(name, _) => format!("service {name}"),
        Change::Slice(name, ..) => format!("slice {name}"),
        Change::Endpoints(name, ..) => format!("endpoints {name}"),
        Change::Node(_) => "node".into(),
        Change::ServiceCidr(name, _) => format!("service CIDR {name}"),
    }
}

/// Plans step by step under one view after the other, which the change of view must not show.
fn under_changing_views(changes: &[Change], views: &[NodeView]) -> Result<(), TestCaseError> {
    let mut cluster = Cluster::default();
    let mut current = NodePlan::default();
    let mut views = views.iter().cycle();
    for batch in changes.chunks(2) {
        let Some(view) = views.next() else { return Ok(()) };
        let mut touched = Touched { node: true, ..Touched::default() };
        for change in batch {
            touched.merge(cluster.apply(change.clone()).touched);
        }
        replan(&mut current, &cluster, &touched, view);
        prop_assert_eq!(&current, &plan(&cluster, view).0);
    }
    Ok(())
}

/// Plans step by step, a few changes at a time, handing each step's plans and deltas to a check.
fn step_by_step(
    changes: &[Change],
    batch: usize,
    view: &NodeView,
    mut check: impl FnMut(&NodePlan, &NodePlan, &ferrule_model::PerFamily<PlanDelta>),
) -> (Cluster, NodePlan) {
    let mut cluster = Cluster::default();
    let (mut current, _) = plan(&cluster, view);
    for batch in changes.chunks(batch) {
        let mut touched = Touched::default();
        for change in batch {
            touched.merge(cluster.apply(change.clone()).touched);
        }
        let before = current.clone();
        let (deltas, _) = replan(&mut current, &cluster, &touched, view);
        check(&before, &current, &deltas);
    }
    (cluster, current)
}

fn frontends(plan: &FamilyPlan) -> BTreeMap<FrontendKey, Arc<Frontend>> {
    plan.frontends().map(|(key, frontend)| (*key, Arc::clone(frontend))).collect()
}

fn pools(plan: &FamilyPlan) -> BTreeMap<PoolId, Arc<Pool>> {
    plan.pools().into_iter().map(|(id, pool)| (id, Arc::clone(pool))).collect()
}

/// The endpoints of each port on this node, where the mode asks for them.
fn hairpins(plan: &FamilyPlan) -> BTreeMap<ServicePortName, LocalEndpoints> {
    let ports = plan.ports().filter(|port| !port.hairpins().is_empty());
    ports.map(|port| (port.owner().clone(), port.hairpins().into())).collect()
}

/// What of a Service a frontend without endpoints does not show.
fn policies(plan: &FamilyPlan) -> BTreeMap<ServiceName, (Option<u32>, TrafficPolicy)> {
    let policies = |port: PlannedPort<'_>| (port.affinity_seconds(), port.external_policy());
    plan.ports().map(|port| (port.owner().service.clone(), policies(port))).collect()
}

/// The entries that differ between two maps.
fn differences<K: Ord + Clone, V: PartialEq + Clone>(
    was: &BTreeMap<K, V>,
    now: &BTreeMap<K, V>,
) -> BTreeMap<K, Replaced<V>> {
    let keys = was.keys().chain(now.keys()).filter(|key| was.get(key) != now.get(key));
    keys.map(|key| (key.clone(), Replaced { was: was.get(key).cloned(), now: now.get(key).cloned() }))
        .collect()
}

/// Exact where something changed, and closed: a frontend that forwards to a changed pool is there, nothing else is.
fn check_delta(was: &FamilyPlan, now: &FamilyPlan, delta: &PlanDelta) -> Result<(), TestCaseError> {
    prop_assert_eq!(delta.node, was.node != now.node);
    let (frontends_was, frontends_now) = (frontends(was), frontends(now));
    let mut expected = differences(&frontends_was, &frontends_now);
    prop_assert_eq!(&delta.pools, &differences(&pools(was), &pools(now)));
    for (key, frontend) in &frontends_now {
        let uses_changed_pool = [PoolScope::Cluster, PoolScope::Local].into_iter().any(|scope| {
            let id = PoolId { owner: frontend.owner.clone(), scope };
            frontend.shape.uses_pool(scope) && delta.pools.contains_key(&id)
        });
        if uses_changed_pool || delta.policies.contains(&frontend.owner.service) {
            let same = Replaced { was: Some(Arc::clone(frontend)), now: Some(Arc::clone(frontend)) };
            expected.entry(*key).or_insert(same);
        }
    }
    prop_assert_eq!(&delta.frontends, &expected);
    prop_assert_eq!(&delta.health_checks, &differences(&was.health_checks(), &now.health_checks()));
    prop_assert_eq!(&delta.hairpins, &differences(&hairpins(was), &hairpins(now)));
    let (was, now) = (policies(was), policies(now));
    let is_in_both = |name: &&ServiceName| was.contains_key(*name) && now.contains_key(*name);
    let differs = |name: &&ServiceName| was.get(*name) != now.get(*name);
    let changed: BTreeSet<_> = was.keys().filter(is_in_both).filter(differs).collect();
    // One without ports shows none of it.
    let visible: BTreeSet<_> = delta.policies.iter().filter(is_in_both).collect();
    prop_assert_eq!(visible, changed);
    Ok(())
}

fn check_rules(plan: &FamilyPlan) -> Result<(), TestCaseError> {
    for (key, frontend) in plan.frontends() {
        let rules = frontend.rules(key, &plan.node);
        let sources: Vec<_> = rules.iter().map(|(source, _)| source).collect();
        let (last, before) = sources.split_last().expect("a list is never empty");
        prop_assert_eq!(*last, &TrafficSource::Anyone, "{}", key);
        prop_assert!(!before.contains(&&TrafficSource::Anyone), "{} goes on after Anyone", key);
        for scope in [PoolScope::Cluster, PoolScope::Local] {
            let pool = plan.pool(&frontend.owner, scope);
            prop_assert!(!frontend.shape.uses_pool(scope) || pool.is_some(), "{} forwards to no pool", key);
        }
    }
    for (id, pool) in plan.pools() {
        prop_assert!(!pool.endpoints.is_empty(), "{} is empty", id);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_events_gives_the_same_cluster_and_plan(
        changes in random::changes(),
        choices in prop::collection::vec(0..100_usize, 1..20),
        view in random::view(),
    ) {
        let one = cluster_after(changes.iter().cloned());
        let other = cluster_after(reordered(&changes, &choices));
        prop_assert!(one == other, "clusters differ");
        prop_assert_eq!(plan(&one, &view), plan(&other, &view));
    }

    #[test]
    fn replanning_equals_planning_afresh(
        changes in random::changes(),
        batch in 1..4_usize,
        view in random::view(),
    ) {
        let (cluster, stepwise) = step_by_step(&changes, batch, &view, |_, _, _| {});
        prop_assert_eq!(stepwise, plan(&cluster, &view).0);
    }

    #[test]
    fn another_view_of_the_node_is_as_good_as_a_fresh_start(
        changes in random::changes(),
        views in prop::collection::vec(random::view(), 1..4),
    ) {
        under_changing_views(&changes, &views)?;
    }

    #[test]
    fn whoever_is_concerned_by_a_change_is_told_what_planning_afresh_would_tell(
        changes in random::changes(),
        last in random::change(),
        view in random::view(),
    ) {
        let mut cluster = cluster_after(changes);
        let (mut current, _) = plan(&cluster, &view);
        let touched = cluster.apply(last).touched;
        let (_, told) = replan(&mut current, &cluster, &touched, &view);
        let (_, all) = plan(&cluster, &view);
        for diagnostic in &told {
            prop_assert!(all.contains(diagnostic), "{} is not so", diagnostic);
        }
        for diagnostic in all.iter().filter(|one| touched.services.iter().any(|name| name.as_str() == one.object)) {
            prop_assert!(told.contains(diagnostic), "{} was not told", diagnostic);
        }
    }

    #[test]
    fn the_delta_is_exact_and_closed(
        changes in random::changes(),
        batch in 1..4_usize,
        view in random::view(),
    ) {
        let mut verdict = Ok(());
        step_by_step(&changes, batch, &view, |was, now, deltas| {
            for family in IpFamily::BOTH {
                let plans = was.families.get(family).zip(now.families.get(family));
                if let (Some((was, now)), Some(delta), true) = (plans, deltas.get(family), verdict.is_ok()) {
                    verdict = check_delta(was, now, delta);
                }
            }
        });
        verdict?;
    }

    #[test]
    fn every_rule_list_ends_in_anyone_and_names_pools_that_are_there(
        changes in random::changes(),
        view in random::view(),
    ) {
        let (plan, _) = plan(&cluster_after(changes), &view);
        for (_, family) in plan.families.iter() {
            check_rules(family)?;
        }
    }

    #[test]
    fn the_same_plan_shows_the_same_text(
        changes in random::changes(),
        choices in prop::collection::vec(0..100_usize, 1..20),
        view in random::view(),
    ) {
        let (_, stepwise) = step_by_step(&changes, 1, &view, |_, _, _| {});
        let other = plan(&cluster_after(reordered(&changes, &choices)), &view).0;
        prop_assert_eq!(show(&stepwise), show(&other));
    }

    #[test]
    fn an_event_said_twice_touches_nothing(changes in random::changes(), again in random::change()) {
        let mut cluster = cluster_after(changes);
        cluster.apply(again.clone());
        let touched = cluster.apply(again).touched;
        prop_assert!(touched.is_empty(), "{:?}", touched);
    }

    #[test]
    fn what_touches_nothing_changes_no_plan(
        changes in random::changes(),
        last in random::change(),
        view in random::view(),
    ) {
        let mut cluster = cluster_after(changes);
        let before = plan(&cluster, &view);
        if cluster.apply(last).touched.is_empty() {
            prop_assert_eq!(before, plan(&cluster, &view));
        }
    }
}
