//! Lists of Services in every state, and questions that mean no good.

use std::sync::Arc;

use ferrule_model::{Diagnostic, Problem};
use ferrule_plan::ProxyMode;
use ferrule_testkit::World;

use super::*;
use crate::questions::query::{self, Parameters};
use crate::questions::service;

const CLUSTER: &str = "node me addresses 192.0.2.1 podCIDR 10.244.1.0/24
    service good ClusterIP clusterIP 10.96.0.1 port 80
    endpoint good 10.244.1.5
    endpoint good 10.244.2.6 notReady
    service bare ClusterIP clusterIP 10.96.0.2 port 80
    service six ClusterIP clusterIP fd00::6 port 80
    service older LoadBalancer clusterIP 10.96.0.3 externalIP 198.51.100.7 port 80
    endpoint older 10.244.1.7
    service young LoadBalancer clusterIP 10.96.0.4 externalIP 198.51.100.7 port 80
    endpoint young 10.244.1.8";

fn snapshot(facts: &str) -> Snapshot {
    let mut world = World::default();
    world.run_proxy("mode nftables").expect("settings the world knows");
    world.then(facts).expect("words the world knows");
    let mut plan = world.plan;
    plan.families.v6 = None;
    Snapshot {
        mode: ProxyMode::Nftables,
        cluster: Arc::new(world.cluster),
        plan: Arc::new(plan),
        view: Arc::new(world.view),
        families: ferrule_model::PerFamily::default(),
        unreachable: BTreeMap::new(),
        has_pending_changes: false,
        diagnostics: Vec::new(),
        is_shadow: false,
        reader: None,
    }
}

fn asked(snapshot: &Snapshot, query: &str) -> Result<ServicesAnswer, String> {
    let question = query::services_question(&Parameters::parse(query)).map_err(|error| error.to_string())?;
    Ok(answer(snapshot, &question))
}

fn names(snapshot: &Snapshot, query: &str) -> Vec<String> {
    let answer = asked(snapshot, query).expect("an answer");
    answer.services.into_iter().map(|row| row.service).collect()
}

#[test]
fn every_service_is_in_the_state_that_matters_most() {
    let mut snapshot = snapshot(CLUSTER);
    snapshot.diagnostics.push(Diagnostic {
        kind: ObjectKind::Service,
        object: "default/older".to_owned(),
        field: "spec.externalIPs[1]".to_owned(),
        problem: Problem::NotAnAddress("x".to_owned()),
    });
    let answer = asked(&snapshot, "").expect("an answer");
    let states: Vec<_> = answer.services.iter().map(|row| (&*row.service, row.state)).collect();
    assert_eq!(
        states,
        [
            ("default/bare", ServiceState::NoEndpoints),
            ("default/good", ServiceState::Serving),
            ("default/older", ServiceState::Refused),
            ("default/six", ServiceState::NotServed),
            ("default/young", ServiceState::Conflicting),
        ]
    );
    assert_eq!(answer.services[1].endpoints, 2);
    assert_eq!((answer.total, answer.counts["noEndpoints"], answer.counts["pending"]), (5, 1, 0));
    // What the plan does not know yet.
    snapshot.plan = Arc::new(ferrule_plan::plan(&ferrule_model::Cluster::default(), &snapshot.view).0);
    assert_eq!(asked(&snapshot, "search=good").expect("an answer").services[0].state, ServiceState::Pending);
}

#[test]
fn a_search_finds_names_and_addresses_in_order() {
    let snapshot = snapshot(CLUSTER);
    assert_eq!(names(&snapshot, "search=O"), ["default/good", "default/older", "default/young"]);
    assert_eq!(names(&snapshot, "search=198.51.100"), ["default/older", "default/young"]);
    assert_eq!(names(&snapshot, "search=fd00%3A%3A"), ["default/six"]);
    assert_eq!(names(&snapshot, "namespace=default&state=noEndpoints"), ["default/bare"]);
    assert_eq!(names(&snapshot, "namespace=other"), [""; 0]);
    let answer = asked(&snapshot, "search=o&state=conflicting").expect("an answer");
    assert_eq!((answer.total, answer.counts["serving"]), (1, 2), "counts are those of the search alone");
}

#[test]
fn pages_cover_everything_once_whatever_their_size() {
    let service = |n: usize| format!("service s{n:03} ClusterIP clusterIP 10.97.0.{n} port 80");
    let facts = (0..137).map(service).collect::<Vec<_>>().join("\n");
    let snapshot = snapshot(&facts);
    let all = names(&snapshot, "limit=500");
    assert!(all.len() == 137 && all.is_sorted());
    for limit in [1, 7, 50, 136, 137, 138] {
        let pages = (0..=137 / limit)
            .flat_map(|page| names(&snapshot, &format!("limit={limit}&offset={}", page * limit)));
        assert_eq!(pages.collect::<Vec<_>>(), all, "pages of {limit}");
    }
    let answer = asked(&snapshot, "limit=99999999&offset=18446744073709551615").expect("an answer");
    assert_eq!((answer.limit, answer.total, answer.services.len()), (500, 137, 0));
}

#[test]
fn hostile_questions_have_an_answer_that_names_the_mistake() {
    let snapshot = snapshot(CLUSTER);
    for (query, why) in [
        ("limit=-1", "limit=\"-1\" is not a number"),
        ("offset=18446744073709551616", "is not a number"),
        ("state=%00", "there is no state \"\\0\""),
        ("form=x", "there is no parameter \"form\""),
        ("search=%ff%fe", ""),
        (&*format!("search={}", "%C3%A9".repeat(201)), "at most 400 bytes"),
    ] {
        match asked(&snapshot, query) {
            Ok(answer) => assert!(why.is_empty() && answer.total == 0, "{query}"),
            Err(error) => assert!(!why.is_empty() && error.contains(why), "{query}: {error}"),
        }
    }
    for query in ["", "service=", "service=a", "service=/a", "service=a/", "service=a/b&x=y"] {
        assert!(query::service_question(&Parameters::parse(query)).is_err(), "{query}");
    }
    let error = service::answer(&snapshot, &ServiceName::new("<a>/\"\n")).expect_err("no such Service");
    assert_eq!(error.to_string(), "there is no Service \"<a>/\\\"\\n\" that has a cluster IP");
}

#[test]
fn one_service_is_shown_with_rules_endpoints_and_reasons() {
    let snapshot = snapshot(CLUSTER);
    let answer =
        |name: &str| service::answer(&snapshot, &ServiceName::of("default", name)).expect("a Service");
    let good = answer("good");
    let port = &good.families[0].ports[0];
    let endpoints: Vec<_> = port.endpoints.iter().map(|one| (&*one.endpoint, one.used, &*one.why)).collect();
    assert_eq!(
        endpoints,
        [("10.244.1.5:80", true, "used: ready"), ("10.244.2.6:80", false, "not used: not ready")]
    );
    assert_eq!(
        (port.frontends[0].frontend.as_str(), port.frontends[0].rules.is_empty()),
        ("10.96.0.1:80/tcp", false)
    );
    assert_eq!(good.families[1].not_served.as_deref(), Some("this node does not serve this family"));
    let young = answer("young");
    let lost = young.families[0].ports[0].frontends.iter().find(|one| !one.held).expect("a lost frontend");
    assert!(
        lost.rules.is_empty() && lost.holder.as_ref().is_some_and(|text| text.contains("default/older")),
        "{lost:?}"
    );
    assert_eq!(
        (young.state, young.spec.external_ips),
        (ServiceState::Conflicting, vec!["198.51.100.7".to_owned()])
    );
}
