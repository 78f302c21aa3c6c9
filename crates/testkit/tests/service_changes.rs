//! Changes of Services: what an event touches, and what is left of it when the plan is brought up to date.
//!
//! kube-proxy keeps a list of pending changes; here the model takes each event at once and says whose meaning changed,
//! and the plan says what came of it.

use ferrule_model::{Change, IpFamily, ServiceName};
use ferrule_plan::{FrontendKind, PlanDelta};
use ferrule_testkit::{Step, World};

/// What the plan looks like after a step.
struct Expected<'a> {
    /// Service ports that have a cluster IP.
    ports: usize,
    /// Services whose meaning changed.
    touched: &'a [&'a str],
    /// Health check ports by Service.
    health_checks: &'a [(&'a str, u16)],
}

fn check(id: &str, world: &World, step: &Step, expected: &Expected<'_>) {
    let plan = world.family(IpFamily::V4).expect("an IPv4 plan");
    let ports = plan.frontends().filter(|(_, frontend)| frontend.kind == FrontendKind::ClusterIp).count();
    assert_eq!(ports, expected.ports, "{id}: Service ports");
    let touched: Vec<&str> = step.touched.services.iter().map(ServiceName::as_str).collect();
    assert_eq!(touched, expected.touched, "{id}: touched Services");
    let checks = plan.health_checks();
    let checks: Vec<(&str, u16)> = checks.iter().map(|(name, check)| (name.as_str(), check.port)).collect();
    assert_eq!(checks, expected.health_checks, "{id}: health checks");
    assert_eq!(world.plan, world.fresh_plan(), "{id}: the plan made afresh");
}

/// A world with a node, and a step that says something.
fn world() -> World {
    World::of("node me addresses 192.0.2.1").expect("a world")
}

fn say(world: &mut World, text: &str) -> Step {
    world.then(text).expect("words the world knows")
}

fn delta(step: &Step) -> &PlanDelta {
    step.deltas.get(IpFamily::V4).expect("an IPv4 delta")
}

const NONE: Expected<'_> = Expected { ports: 0, touched: &[], health_checks: &[] };

/// Row: model U1, U2
#[test]
fn services_that_are_not_proxied_touch_nothing() {
    let mut world = world();
    let headless = "
        service ns2/headless          clusterIP None  port rpc 1234/udp
        service ns2/headless-no-ports clusterIP None";
    let step = say(&mut world, headless);
    check("U1", &world, &step, &NONE);
    assert!(delta(&step).is_empty(), "U1");
    let step =
        say(&mut world, "service ns2/external-name ExternalName clusterIP 172.16.55.4 port portz 1235/udp");
    check("U2", &world, &step, &NONE);
    assert!(delta(&step).is_empty(), "U2");
}

/// Row: model U3, U4
#[test]
fn many_services_change_in_one_step() {
    let mut world = world();
    let four = "
        service ns2/cluster-ip    clusterIP 172.16.55.4 port p1 1234/udp nodePort 4321 port p2 1235/udp
        service ns2/node-port     NodePort clusterIP 172.16.55.10 port port1 345/udp nodePort 678 port port2 344/udp nodePort 677
        service ns1/load-balancer LoadBalancer 10.1.2.4 clusterIP 172.16.55.11 port foobar 8675/udp nodePort 30061 port baz 8676/udp nodePort 30062
        service ns1/only-local-load-balancer LoadBalancer 10.1.2.3 clusterIP 172.16.55.12 port foobar2 8677/udp nodePort 30063 port baz 8678/udp nodePort 30064 externalTrafficPolicy Local healthCheckNodePort 345";
    let names = ["ns1/load-balancer", "ns1/only-local-load-balancer", "ns2/cluster-ip", "ns2/node-port"];
    let step = say(&mut world, four);
    let health_checks = &[("ns1/only-local-load-balancer", 345)];
    check("U3", &world, &step, &Expected { ports: 8, touched: &names, health_checks });

    let fewer = "
        service ns2/cluster-ip clusterIP 172.16.55.4 port p-renamed 1234/udp
        gone service ns2/node-port
        gone service ns1/load-balancer
        gone service ns1/only-local-load-balancer";
    let step = say(&mut world, fewer);
    check("U4", &world, &step, &Expected { ports: 1, touched: &names, health_checks: &[] });
}

/// Row: model U5-U8
#[test]
fn a_service_changes_its_type_and_back() {
    const CLUSTER_IP: &str = "service ns1/svc1 clusterIP 172.16.55.4 port p1 1234/udp port p2 1235/tcp";
    const LOAD_BALANCER: &str = "service ns1/svc1 LoadBalancer 1.2.3.4 clusterIP 172.16.55.4 \
        port p1 1234/udp port p2 1235/tcp externalTrafficPolicy Local healthCheckNodePort 345";
    let touched = &["ns1/svc1"][..];
    let health_checks = &[("ns1/svc1", 345)][..];
    let mut world = world();
    let step = say(&mut world, CLUSTER_IP);
    check("U5", &world, &step, &Expected { ports: 2, touched, health_checks: &[] });
    let step = say(&mut world, LOAD_BALANCER);
    check("U6", &world, &step, &Expected { ports: 2, touched, health_checks });
    let step = say(&mut world, LOAD_BALANCER);
    check("U7", &world, &step, &Expected { ports: 2, touched: &[], health_checks });
    assert!(delta(&step).is_empty(), "U7: a resync changes nothing");
    let step = say(&mut world, CLUSTER_IP);
    check("U8", &world, &step, &Expected { ports: 2, touched, health_checks: &[] });
}

/// Each event is taken at once, so both touch the Service; that they cancel out shows in the delta, which is empty.
///
/// Row: model U9, U10
#[test]
fn changes_that_cancel_out_before_the_plan_is_made_leave_nothing_to_do() {
    let mut world = world();
    let step = say(&mut world, "service svc clusterIP 10.96.0.1 port 53/udp\n gone service svc");
    check("U9", &world, &step, &Expected { ports: 0, touched: &["default/svc"], health_checks: &[] });
    assert!(delta(&step).is_empty(), "U9: {:?}", delta(&step));

    say(&mut world, "service svc clusterIP 10.96.0.1 port 53/udp");
    let there_and_back = "
        service svc clusterIP 10.96.0.1 port 54/udp externalIP 198.51.100.1
        service svc clusterIP 10.96.0.1 port 53/udp";
    let step = say(&mut world, there_and_back);
    check("U10", &world, &step, &Expected { ports: 1, touched: &["default/svc"], health_checks: &[] });
    assert!(delta(&step).is_empty(), "U10: {:?}", delta(&step));
}

/// Row: model U11
#[test]
fn fields_nobody_reads_change_nothing() {
    let object = |metadata: &str, selector: &str, target: &str| {
        format!(
            "kind: Service\nmetadata: {{name: svc, namespace: default, {metadata}}}\n\
             spec:\n  clusterIP: 10.96.0.1\n  selector: {{{selector}}}\n  ports: [{{port: 80, targetPort: {target}}}]\n"
        )
    };
    let mut world = world();
    let mut put = |yaml: String| {
        world.objects(&yaml).expect("an object");
        world.settle()
    };
    let step = put(object("resourceVersion: '1'", "app: a", "80"));
    assert_eq!(step.touched.services.len(), 1, "U11: put");
    for changed in [
        object("resourceVersion: '2', labels: {team: x}, annotations: {note: y}", "app: a", "80"),
        object("resourceVersion: '3'", "app: b", "80"),
        object("resourceVersion: '4'", "app: a", "http"),
    ] {
        let step = put(changed.clone());
        assert!(step.touched.is_empty(), "U11: {changed}");
        assert!(delta(&step).is_empty(), "U11: {changed}");
    }
}

/// kube-proxy answers for all pending changes together; here an event answers for itself, and the step for all.
///
/// Row: model U12
#[test]
fn a_change_that_means_nothing_does_not_hide_one_that_does() {
    let mut world = world();
    say(&mut world, "service b clusterIP 10.96.0.2 port 80");
    world.say("service a clusterIP 10.96.0.1 port 80").expect("words the world knows");
    let b = ServiceName::of("default", "b");
    let same = world.cluster.service(&b).and_then(|state| state.service()).cloned();
    assert!(world.apply(Change::Service(b, same)).is_empty(), "U12: B alone");
    let step = world.settle();
    check("U12", &world, &step, &Expected { ports: 2, touched: &["default/a"], health_checks: &[] });
}

/// kube-proxy counts the first as a change and logs an error for each port; there is nothing to do, so here it is none.
///
/// Row: model U13, U14
#[test]
fn a_service_nobody_knows_cannot_go() {
    let mut world = world();
    say(&mut world, "service known clusterIP 10.96.0.1 port 80");
    let touched = world.apply(Change::Service(ServiceName::of("default", "unknown"), None));
    assert!(touched.is_empty(), "U13: {touched:?}");
    let step = world.settle();
    check("U13", &world, &step, &Expected { ports: 1, touched: &[], health_checks: &[] });
    assert!(delta(&step).is_empty(), "U13");

    let step = world.settle();
    check("U14", &world, &step, &Expected { ports: 1, touched: &[], health_checks: &[] });
    assert!(delta(&step).is_empty(), "U14: nothing was said at all");
}

/// Row: model U15
#[test]
fn a_renamed_port_takes_the_place_of_the_old_one() {
    let mut world = world();
    say(&mut world, "service svc clusterIP 10.96.0.1 port p1 80");
    let step = say(&mut world, "service svc clusterIP 10.96.0.1 port p2 80");
    check("U15", &world, &step, &Expected { ports: 1, touched: &["default/svc"], health_checks: &[] });
    let plan = world.family(IpFamily::V4).expect("an IPv4 plan");
    let owners: Vec<String> = plan.frontends().map(|(_, frontend)| frontend.owner.to_string()).collect();
    assert_eq!(owners, ["default/svc:p2"], "U15");
}
