//! Changes of endpoints: what an event touches, whether UDP flows may be stale, and the local endpoints load balancers
//! are told about.

use std::collections::BTreeSet;

use ferrule_model::{IpFamily, PortEndpoint, ServiceName, ServicePortName, merged};
use ferrule_testkit::{Step, World};

/// Four Services with every port the tables speak of, so that none of their slices goes unnoticed.
fn services() -> String {
    let service = |number: u8| {
        format!(
            "service ns1/ep{number} LoadBalancer 198.51.100.{number} clusterIP 172.30.1.{number} \
             externalTrafficPolicy Local healthCheckNodePort 3000{number} \
             port \"\" 1000/udp port p11 11/udp port p11-2 112/udp port p12 12/udp port p13 13/udp port p14 14/udp \
             port p22 22/udp port p23 23/udp port p31 31/udp port p44 44/udp port p45 45/udp port tcp 80/tcp\n"
        )
    };
    let services: String = (1..=4).map(service).collect();
    format!("node me addresses 192.0.2.1\n{services}")
}

/// The state before, the events, and what follows: the merged endpoints, who is touched, whose flows may be stale, and
/// the ready endpoints on this node.
struct Case<'a> {
    id: &'a str,
    before: &'a str,
    events: &'a str,
    after: &'a [&'a str],
    touched: &'a [&'a str],
    stale_flows: bool,
    local: &'a [&'a str],
}

const NOTHING: Case<'_> =
    Case { id: "", before: "", events: "", after: &[], touched: &[], stale_flows: false, local: &[] };

impl Case<'_> {
    fn check(&self) {
        let mut world = World::of(&services()).expect("the Services");
        world.then(self.before).expect(self.id);
        world.say(self.events).expect(self.id);
        let step = world.settle();
        self.check_step(&world, &step);
    }

    fn check_step(&self, world: &World, step: &Step) {
        let id = self.id;
        assert_eq!(endpoints(world), self.after, "{id}: the endpoints");
        let touched: Vec<&str> = step.touched.services.iter().map(ServiceName::as_str).collect();
        assert_eq!(touched, self.touched, "{id}: touched Services");
        assert_eq!(
            !stale_flows(step).is_empty(),
            self.stale_flows,
            "{id}: stale flows: {:?}",
            stale_flows(step)
        );
        assert_eq!(local_endpoints(world), self.local, "{id}: local endpoints");
        assert_eq!(world.plan, world.fresh_plan(), "{id}: the plan made afresh");
        if self.touched.is_empty() {
            assert!(
                step.deltas.get(IpFamily::V4).is_some_and(ferrule_plan::PlanDelta::is_empty),
                "{id}: delta"
            );
        }
    }
}

fn check(cases: &[Case<'_>]) {
    cases.iter().for_each(Case::check);
}

/// The merged endpoints of all Services, a line for each port that has some.
fn endpoints(world: &World) -> Vec<String> {
    let mut lines = Vec::new();
    for (service, state) in world.cluster.services() {
        let ports: BTreeSet<_> = state
            .slices(IpFamily::V4)
            .flat_map(|slice| &slice.ports)
            .map(|port| (port.name.clone(), port.protocol))
            .collect();
        for (port, protocol) in ports {
            let endpoints = merged(state.slices(IpFamily::V4), &port, protocol);
            let words: Vec<String> = endpoints.iter().map(endpoint_words).collect();
            if !words.is_empty() {
                let name = ServicePortName { service: service.clone(), port, protocol };
                lines.push(format!("{name} {}", words.join(" ")));
            }
        }
    }
    lines
}

fn endpoint_words(endpoint: &PortEndpoint<'_>) -> String {
    let leaving =
        !endpoint.conditions.ready && endpoint.conditions.serving && endpoint.conditions.terminating;
    let local = if endpoint.is_local { ",L" } else { "" };
    format!("{}:{}{local}{}", endpoint.ip, endpoint.port, if leaving { ",ST" } else { "" })
}

fn stale_flows(step: &Step) -> &[ServicePortName] {
    step.deltas.get(IpFamily::V4).map_or(&[], |delta| &delta.stale_flows)
}

/// Services with ready endpoints on this node, and how many: `ep1=2`.
fn local_endpoints(world: &World) -> Vec<String> {
    let checks = world.family(IpFamily::V4).expect("an IPv4 plan").health_checks();
    let some = checks.into_iter().filter(|(_, check)| check.local_endpoints > 0);
    some.map(|(name, check)| format!("{}={}", name.name(), check.local_endpoints)).collect()
}

/// Row: model C1-C6
#[test]
fn a_resync_touches_nothing() {
    let unnamed = "endpoint ns1/ep1 1.1.1.1 port 11/udp";
    let local = "endpoint ns1/ep1 1.1.1.1 node me port p11 11/udp";
    let two = "endpoint ns1/ep1 1.1.1.1 slice 1 port p11 11/udp
               endpoint ns1/ep1 1.1.1.2 slice 2 port p12 12/udp";
    let one_ip_two_ports = "endpoint ns1/ep1 1.1.1.1 node me slice 1 port p11 11/udp port p12 12/udp
                            endpoint ns1/ep1 1.1.1.3 slice 2 port p13 13/udp";
    let many = "endpoint ns1/ep1 1.1.1.1 node me slice 1 port p11 11/udp port p12 12/udp
                endpoint ns1/ep1 1.1.1.2 slice 1 port p11 11/udp port p12 12/udp
                endpoint ns1/ep1 1.1.1.3 slice 2 port p13 13/udp port p14 14/udp
                endpoint ns1/ep1 1.1.1.4 node me slice 2 port p13 13/udp port p14 14/udp
                endpoint ns1/ep2 2.2.2.1 port p22 22/udp
                endpoint ns1/ep2 2.2.2.2 node me port p22 22/udp";
    let same = |id, text, after, local| Case { id, before: text, events: text, after, local, ..NOTHING };
    check(&[
        same("C1", "", &[], &[]),
        same("C2", unnamed, &["ns1/ep1 1.1.1.1:11"], &[]),
        same("C3", local, &["ns1/ep1:p11 1.1.1.1:11,L"], &["ep1=1"]),
        same("C4", two, &["ns1/ep1:p11 1.1.1.1:11", "ns1/ep1:p12 1.1.1.2:12"], &[]),
        same(
            "C5",
            one_ip_two_ports,
            &["ns1/ep1:p11 1.1.1.1:11,L", "ns1/ep1:p12 1.1.1.1:12,L", "ns1/ep1:p13 1.1.1.3:13"],
            &["ep1=1"],
        ),
        same(
            "C6",
            many,
            &[
                "ns1/ep1:p11 1.1.1.1:11,L 1.1.1.2:11",
                "ns1/ep1:p12 1.1.1.1:12,L 1.1.1.2:12",
                "ns1/ep1:p13 1.1.1.3:13 1.1.1.4:13,L",
                "ns1/ep1:p14 1.1.1.3:14 1.1.1.4:14,L",
                "ns1/ep2:p22 2.2.2.1:22 2.2.2.2:22,L",
            ],
            &["ep1=2", "ep2=1"],
        ),
    ]);
}

const EP1: &[&str] = &["ns1/ep1"];

/// Row: model C7-C14
#[test]
fn a_change_of_udp_endpoints_may_leave_stale_flows() {
    let local = "endpoint ns1/ep1 1.1.1.1 node me port 11/udp";
    let one = "endpoint ns1/ep1 1.1.1.1 port p11 11/udp";
    let two = "endpoint ns1/ep1 1.1.1.1 port p11 11/udp port p12 12/udp
               endpoint ns1/ep1 1.1.1.2 node me port p11 11/udp port p12 12/udp";
    let first = "endpoint ns1/ep1 1.1.1.1 slice 1 port p11 11/udp";
    let second = "endpoint ns1/ep1 1.1.1.2 node me slice 2 port p12 12/udp";
    let changed = |id, after, local| Case { id, after, local, touched: EP1, stale_flows: true, ..NOTHING };
    check(&[
        Case { events: local, ..changed("C7", &["ns1/ep1 1.1.1.1:11,L"], &["ep1=1"]) },
        Case { before: local, events: "gone endpoint ns1/ep1 1.1.1.1", ..changed("C8", &[], &[]) },
        Case {
            before: one,
            events: two,
            ..changed(
                "C9",
                &["ns1/ep1:p11 1.1.1.1:11 1.1.1.2:11,L", "ns1/ep1:p12 1.1.1.1:12 1.1.1.2:12,L"],
                &["ep1=1"],
            )
        },
        Case {
            before: two,
            events: "gone endpoint ns1/ep1 1.1.1.2\n endpoint ns1/ep1 1.1.1.1 port p11 11/udp",
            ..changed("C10", &["ns1/ep1:p11 1.1.1.1:11"], &[])
        },
        Case {
            before: first,
            events: second,
            ..changed("C11", &["ns1/ep1:p11 1.1.1.1:11", "ns1/ep1:p12 1.1.1.2:12,L"], &["ep1=1"])
        },
        Case {
            before: &[first, second].join("\n"),
            events: "gone endpoint ns1/ep1 1.1.1.2 slice 2",
            ..changed("C12", &["ns1/ep1:p11 1.1.1.1:11"], &[])
        },
        Case {
            before: one,
            events: "endpoint ns1/ep1 1.1.1.1 port p11-2 11/udp",
            ..changed("C13", &["ns1/ep1:p11-2 1.1.1.1:11"], &[])
        },
        Case {
            before: one,
            events: "endpoint ns1/ep1 1.1.1.1 port p11 22/udp",
            ..changed("C14", &["ns1/ep1:p11 1.1.1.1:22"], &[])
        },
    ]);
}

/// Row: model C15
#[test]
fn many_services_change_in_one_step() {
    let before = "endpoint ns1/ep1 1.1.1.1 slice 1 port p11 11/udp
                  endpoint ns1/ep2 2.2.2.2 node me slice 1 port p22 22/udp
                  endpoint ns1/ep2 2.2.2.3 node me slice 2 port p23 23/udp
                  endpoint ns1/ep4 4.4.4.4 node me slice 1 port p44 44/udp
                  endpoint ns1/ep4 4.4.4.5 node me slice 1 port p44 44/udp
                  endpoint ns1/ep4 4.4.4.6 node me slice 2 port p45 45/udp";
    let events = "endpoint ns1/ep1 1.1.1.11 slice 1 port p11 11/udp
                  endpoint ns1/ep1 1.1.1.2 slice 2 port p12 12/udp
                  gone endpoint ns1/ep2 2.2.2.2 slice 1
                  gone endpoint ns1/ep2 2.2.2.3 slice 2
                  endpoint ns1/ep3 3.3.3.3 port p31 31/udp
                  gone endpoint ns1/ep4 4.4.4.5 slice 1
                  gone endpoint ns1/ep4 4.4.4.6 slice 2";
    check(&[Case {
        id: "C15",
        before,
        events,
        after: &[
            "ns1/ep1:p11 1.1.1.11:11 1.1.1.1:11",
            "ns1/ep1:p12 1.1.1.2:12",
            "ns1/ep3:p31 3.3.3.3:31",
            "ns1/ep4:p44 4.4.4.4:44,L",
        ],
        touched: &["ns1/ep1", "ns1/ep2", "ns1/ep3", "ns1/ep4"],
        stale_flows: true,
        local: &["ep4=1"],
    }]);
}

/// A slice of `ns1/ep1` with the name its only slice has in words, but without endpoints.
const EMPTY_SLICE: &str = "
kind: EndpointSlice
metadata: {name: ep1-v4, namespace: ns1, labels: {kubernetes.io/service-name: ep1}}
addressType: IPv4
ports: []
endpoints: []
";

/// Row: model C16, C18
#[test]
fn a_slice_may_be_empty() {
    let mut world = World::of(&services()).expect("the Services");
    world.objects(EMPTY_SLICE).expect("an object");
    world.settle();
    let step = world.then("endpoint ns1/ep1 1.1.1.1 port 11/udp").expect("words the world knows");
    let changed = Case { touched: EP1, stale_flows: true, ..NOTHING };
    Case { id: "C16", after: &["ns1/ep1 1.1.1.1:11"], ..changed }.check_step(&world, &step);

    let mut world = World::of(&services()).expect("the Services");
    world.then("endpoint ns1/ep1 1.1.1.1 port 11/udp terminating").expect("words the world knows");
    world.objects(EMPTY_SLICE).expect("an object");
    let step = world.settle();
    let changed = Case { touched: EP1, stale_flows: true, ..NOTHING };
    Case { id: "C18", ..changed }.check_step(&world, &step);
}

/// kube-proxy looks for stale flows after every change of a UDP Service. An endpoint on its way out still serves, so its
/// flows live on, and here nobody looks.
///
/// Row: model C17
#[test]
fn an_endpoint_on_its_way_out_is_kept() {
    check(&[Case {
        id: "C17",
        before: "endpoint ns1/ep1 1.1.1.1 node me port 11/udp ready",
        events: "endpoint ns1/ep1 1.1.1.1 node me port 11/udp terminating",
        after: &["ns1/ep1 1.1.1.1:11,L,ST"],
        touched: EP1,
        stale_flows: false,
        local: &[],
    }]);
}

/// Row: model C19
#[test]
fn tcp_leaves_no_stale_flows() {
    check(&[Case {
        id: "C19",
        before: "endpoint ns1/ep1 1.1.1.1 port tcp 80/tcp",
        events: "endpoint ns1/ep1 1.1.1.1 port tcp 8080/tcp",
        after: &["ns1/ep1:tcp 1.1.1.1:8080"],
        touched: EP1,
        ..NOTHING
    }]);
}

/// kube-proxy syncs a Service whose endpoints came and went between two syncs. The touched names say as much, but the
/// plan is what it was, so the delta is empty and nothing is written.
///
/// Row: model C20, C21
#[test]
fn changes_that_cancel_out_before_the_plan_is_made_leave_nothing_to_do() {
    let came = "endpoint ns1/ep1 1.1.1.1 port p11 11/udp";
    let went = "gone endpoint ns1/ep1 1.1.1.1";
    let other = "endpoint ns1/ep1 1.1.1.1 port p11 22/udp";
    let c20 = Case { id: "C20", events: &[came, went].join("\n"), touched: EP1, ..NOTHING };
    let c21 = Case {
        id: "C21",
        before: came,
        events: &[other, came].join("\n"),
        after: &["ns1/ep1:p11 1.1.1.1:11"],
        touched: EP1,
        ..NOTHING
    };
    for case in [c20, c21] {
        case.check();
        let mut world = World::of(&services()).expect("the Services");
        world.then(case.before).expect("words the world knows");
        let step = world.then(case.events).expect("words the world knows");
        let delta = step.deltas.get(IpFamily::V4).expect("an IPv4 delta");
        assert!(delta.is_empty(), "{}: {delta:?}", case.id);
    }
}
