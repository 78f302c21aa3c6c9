//! What is counted follows the plan, within its bound.

use ferrule_testkit::World;

use super::*;

/// A cluster, and a selection that follows it.
struct Followed {
    world: World,
    selection: Selection,
    asking: BTreeSet<&'static str>,
}

impl Followed {
    fn new(services: CountedServices, limit: usize) -> Self {
        let (world, asking) = (World::of("").expect("no facts"), BTreeSet::new());
        Self { world, selection: Selection::new(services, limit), asking }
    }

    fn then(&mut self, facts: &str) -> SelectionChange {
        let step = self.world.then(facts).expect("facts");
        self.follow(&step.touched.services, &step.deltas)
    }

    fn follow(&mut self, touched: &BTreeSet<ServiceName>, deltas: &PerFamily<PlanDelta>) -> SelectionChange {
        let asks = |name: &ServiceName| self.asking.contains(name.name());
        let plan = &self.world.plan;
        self.selection.follow(&PlanChange { plan, deltas, touched, asks: &asks })
    }

    /// A label was set or taken away; the plan is as it was.
    fn relabelled(&mut self, name: &str) -> SelectionChange {
        let touched = BTreeSet::from([ServiceName::of("default", name)]);
        self.follow(&touched, &PerFamily::default())
    }

    fn counted(&self) -> Vec<String> {
        self.selection.selected().ports().map(ToString::to_string).collect()
    }

    /// What a new selection would choose.
    fn chosen_afresh(&self) -> Arc<Selected> {
        let mut fresh = Selection::new(self.selection.services, self.selection.limit);
        let plan = &self.world.plan;
        let asks = |name: &ServiceName| self.asking.contains(name.name());
        let deltas = PerFamily::default();
        let touched = self.asking.iter().map(|name| ServiceName::of("default", name)).collect();
        fresh.follow(&PlanChange { plan, deltas: &deltas, touched: &touched, asks: &asks });
        fresh.selected()
    }
}

const STEPS: [&str; 8] = [
    "service a clusterIP 10.0.0.1 port p 80\nendpoint a 10.1.0.1 node b",
    "service b clusterIP 10.0.0.2 externalIP 1.2.3.4 port p 80 port q 81\nendpoint b 10.1.0.2 node b",
    "endpoint a 10.1.0.3 node b",
    "gone endpoint a 10.1.0.1",
    "gone service b",
    "service b clusterIP 10.0.0.2 port p 80",
    "service a clusterIP 10.0.0.9 port p 80",
    "gone service a\nservice c clusterIP 10.0.0.9 port p 80",
];

#[test]
fn what_is_followed_is_what_would_be_chosen_afresh() {
    let mut followed = Followed::new(CountedServices::All, 100);
    let mut told: BTreeMap<(IpFamily, FrontendKey), ServicePortName> = BTreeMap::new();
    for facts in STEPS {
        for (place, owner) in followed.then(facts).frontends {
            match owner {
                Some(owner) => drop(told.insert(place, owner)),
                None => assert!(told.remove(&place).is_some(), "{place:?} was not counted"),
            }
        }
        let selected = followed.selection.selected();
        assert_eq!(selected, followed.chosen_afresh(), "after {facts}");
        assert_eq!(selected.frontends, told, "after {facts}");
    }
}

#[test]
fn no_more_than_the_limit_is_counted_and_room_is_used_again() {
    let mut followed = Followed::new(CountedServices::All, 2);
    followed.then("service b clusterIP 10.0.0.2 port p 80\nservice c clusterIP 10.0.0.3 port p 80");
    followed.then("service a clusterIP 10.0.0.1 port p 80");
    assert_eq!(
        (followed.counted(), followed.selection.omitted()),
        (vec!["default/b:p".into(), "default/c:p".into()], 1)
    );
    followed.then("gone service b");
    assert_eq!(
        (followed.counted(), followed.selection.omitted()),
        (vec!["default/a:p".into(), "default/c:p".into()], 0)
    );
    followed.then("service d clusterIP 10.0.0.4 port p 80");
    followed.then("gone service d");
    assert_eq!(followed.selection.omitted(), 0, "what is gone is not left out");
}

#[test]
fn one_that_was_left_out_is_taken_in_whole() {
    let mut followed = Followed::new(CountedServices::All, 1);
    followed.then("service a clusterIP 10.0.0.1 port p 80\nservice b clusterIP 10.0.0.2 port p 80");
    assert_eq!(followed.counted(), ["default/a:p"]);
    // The delta has the new address of `b` alone, behind the one that makes room.
    followed.then("gone service a\nservice b clusterIP 10.0.0.2 externalIP 11.0.0.4 port p 80");
    assert_eq!(followed.counted(), ["default/b:p"]);
    assert_eq!(followed.selection.omitted(), 0);
    assert_eq!(followed.selection.selected(), followed.chosen_afresh());
}

#[test]
fn an_address_that_went_to_another_service_leaves_its_old_one_out_no_longer() {
    let mut followed = Followed::new(CountedServices::All, 1);
    followed.then("service a clusterIP 10.0.0.1 port p 80\nservice b clusterIP 10.0.0.2 port p 80");
    followed.then("gone service b\nservice c clusterIP 10.0.0.2 port p 80");
    let omitted: Vec<_> = followed.selection.omitted.iter().map(ToString::to_string).collect();
    assert_eq!(omitted, ["default/c:p"]);
}

#[test]
fn nothing_begins_before_the_first_plan() {
    let mut selection = Selection::new(CountedServices::All, 1);
    let (plan, deltas, touched) = (NodePlan::default(), PerFamily::default(), BTreeSet::new());
    selection.follow(&PlanChange { plan: &plan, deltas: &deltas, touched: &touched, asks: &|_| true });
    assert!(!selection.has_begun());
}

#[test]
fn only_services_that_ask_for_it_are_counted_from_when_they_ask() {
    let mut followed = Followed::new(CountedServices::Labelled, 10);
    followed.then("service a clusterIP 10.0.0.1 port p 80\nservice b clusterIP 10.0.0.2 port p 80");
    assert_eq!(followed.counted(), Vec::<String>::new());
    followed.asking.insert("b");
    assert_eq!(followed.relabelled("b").frontends.len(), 1);
    assert_eq!(followed.counted(), ["default/b:p"]);
    assert!(followed.relabelled("b").frontends.is_empty(), "nothing changed");
    followed.asking.clear();
    followed.relabelled("b");
    assert_eq!(followed.counted(), Vec::<String>::new());
}

#[test]
fn an_address_that_goes_to_another_service_counts_for_that_one() {
    let mut followed = Followed::new(CountedServices::All, 10);
    followed.then("service a clusterIP 10.0.0.1 port p 80");
    let change = followed.then("gone service a\nservice b clusterIP 10.0.0.1 port p 80");
    let owners: Vec<_> =
        change.frontends.values().map(|owner| owner.as_ref().map(ToString::to_string)).collect();
    assert_eq!(owners, [Some("default/b:p".to_owned())]);
    assert_eq!(followed.counted(), ["default/b:p"]);
}
