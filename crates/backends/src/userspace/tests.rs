//! What a plan becomes: sockets, claims, and rules as kube-proxy 1.25 wrote them.

use std::collections::BTreeMap;

use ferrule_model::{IpFamily, Protocol};
use ferrule_plan::PoolScope;
use ferrule_testkit::World;

use super::rules::{JUMPS, RuleInput, rules};
use super::steering::Steering;
use super::wanted::{PortalId, Wanted};
use crate::static_rules::{Position, StaticRules};

mod serving;

const NODE: &str = "node a addresses 10.0.0.5,fd00::5 podCIDR 10.244.1.0/24";
const SERVICE: &str = "service ns/s clusterIP 1.2.3.4 port p 80→8080\nendpoint ns/s 10.244.1.1 node a";

fn world(facts: &str) -> World {
    let mut world = World::default();
    world.run_proxy("mode userspace\nloopbackNodePorts relayed").expect("settings");
    world.say(NODE).expect("a node");
    world.say(facts).expect("facts");
    world.settle();
    world
}

fn wanted(world: &World, family: IpFamily) -> Wanted {
    Wanted::from_plan(world.family(family).expect("a family"))
}

/// Sockets have ports from 40000 on, in their order.
fn ports(wanted: &Wanted) -> BTreeMap<PortalId, u16> {
    wanted.portals.keys().cloned().zip(40000..).collect()
}

fn compiled(wanted: &Wanted, listen_ip: Option<&str>, steering: Steering) -> StaticRules {
    rules(&RuleInput {
        routes: &wanted.routes,
        ports: &ports(wanted),
        listen_ip: listen_ip.map(|ip| ip.parse().expect("an address")),
        host_ip: "10.0.0.5".parse().expect("an address"),
        steering,
    })
}

fn chain(rules: &StaticRules, name: &str) -> Vec<String> {
    let chain = rules.chains.iter().find(|chain| chain.name == name).expect("a chain");
    chain.rules.iter().map(ToString::to_string).collect()
}

/// Row: userspace R15
#[test]
fn a_cluster_ip_is_redirected_to_its_socket_and_the_host_to_an_address_of_the_node() {
    let rules = compiled(&wanted(&world(SERVICE), IpFamily::V4), None, Steering::Redirect);
    let common = r#"-m comment --comment "ns/s:p" -p tcp -m tcp --dport 80 -d 1.2.3.4/32"#;
    assert_eq!(chain(&rules, "KUBE-PORTALS-CONTAINER"), [format!("{common} -j REDIRECT --to-ports 40000")]);
    let host = format!("{common} -j DNAT --to-destination 10.0.0.5:40000");
    assert_eq!(chain(&rules, "KUBE-PORTALS-HOST"), [host]);
    assert_eq!(chain(&rules, "KUBE-NODEPORT-CONTAINER"), [""; 0]);
}

/// Row: userspace R16
#[test]
fn with_a_bind_address_both_paths_lead_there() {
    let rules = compiled(&wanted(&world(SERVICE), IpFamily::V4), Some("10.0.0.9"), Steering::Redirect);
    for name in ["KUBE-PORTALS-CONTAINER", "KUBE-PORTALS-HOST"] {
        let [rule] = &chain(&rules, name)[..] else { panic!("one rule in {name}") };
        assert!(rule.ends_with("-j DNAT --to-destination 10.0.0.9:40000"), "{rule}");
    }
}

/// The kernel drops a redirected packet of an interface that has no address.
#[test]
fn where_an_interface_has_no_address_packets_are_led_to_one_of_the_node() {
    let rules = compiled(&wanted(&world(SERVICE), IpFamily::V4), None, Steering::ToHostAddress);
    let [rule] = &chain(&rules, "KUBE-PORTALS-CONTAINER")[..] else { panic!("one rule") };
    assert!(rule.ends_with("-j DNAT --to-destination 10.0.0.5:40000"), "{rule}");
}

/// Row: userspace R17
#[test]
fn a_node_port_has_three_rules_and_a_claim() {
    let world = world(
        "service ns/s NodePort clusterIP 1.2.3.4 port p 80→8080 nodePort 30080\nendpoint ns/s 10.244.1.1 node a",
    );
    let wanted = wanted(&world, IpFamily::V4);
    let rules = compiled(&wanted, None, Steering::Redirect);
    let common = r#"-m comment --comment "ns/s:p" -p tcp -m tcp --dport"#;
    let container = format!("{common} 30080 -j REDIRECT --to-ports 40000");
    assert_eq!(chain(&rules, "KUBE-NODEPORT-CONTAINER"), [container]);
    let host = format!("{common} 30080 -j DNAT --to-destination 10.0.0.5:40000");
    assert_eq!(chain(&rules, "KUBE-NODEPORT-HOST"), [host]);
    let accept = format!("{common} 40000 -m state --state NEW -j ACCEPT");
    let guard = "-p tcp -m tcp --dport 40000 -m conntrack ! --ctstate DNAT -j REJECT".to_owned();
    assert_eq!(chain(&rules, "KUBE-NODEPORT-NON-LOCAL"), [guard, accept]);
    let claims: Vec<_> = wanted.claims.keys().map(|claim| (claim.address, claim.port)).collect();
    assert_eq!(claims, [(None, 30080)]);
}

/// Row: userspace R9
#[test]
fn an_external_ip_is_for_packets_from_outside_and_for_addresses_of_the_node() {
    let facts = SERVICE.replace("clusterIP", "externalIP 4.3.2.1 clusterIP");
    let rules = compiled(&wanted(&world(&facts), IpFamily::V4), None, Steering::Redirect);
    let about = |name: &str| {
        let rules = chain(&rules, name).into_iter().filter(|rule| rule.contains("-d 4.3.2.1/32"));
        rules.map(|rule| rule.split_once("4.3.2.1/32 ").expect("an address").1.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        about("KUBE-PORTALS-CONTAINER"),
        [
            "-m physdev ! --physdev-is-in -j REDIRECT --to-ports 40000",
            "-m addrtype --dst-type LOCAL -j REDIRECT --to-ports 40000",
        ]
    );
    let host = "-m addrtype --dst-type LOCAL -j DNAT --to-destination 10.0.0.5:40000";
    assert_eq!(about("KUBE-PORTALS-HOST"), [host]);
}

/// Row: userspace R19
#[test]
fn of_two_services_with_one_node_port_the_first_keeps_it() {
    let world = world(
        "service ns/a NodePort clusterIP 1.2.3.4 port p 80→8080 nodePort 30080\nendpoint ns/a 10.244.1.1 node a\n\
         service ns/b NodePort clusterIP 1.2.3.5 port p 80→8080 nodePort 30080\nendpoint ns/b 10.244.1.2 node a",
    );
    let wanted = wanted(&world, IpFamily::V4);
    let owners: Vec<String> = wanted.claims.values().map(ToString::to_string).collect();
    assert_eq!(owners, ["ns/a:p"]);
    let rules = compiled(&wanted, None, Steering::Redirect);
    let [rule] = &chain(&rules, "KUBE-NODEPORT-CONTAINER")[..] else { panic!("one rule") };
    assert!(rule.contains("ns/a:p"), "{rule}");
    assert_eq!(chain(&rules, "KUBE-PORTALS-CONTAINER").len(), 2);
}

/// Row: userspace R22
#[test]
fn portals_come_first_and_node_ports_last() {
    for jump in JUMPS.iter().filter(|jump| jump.table == "nat") {
        let expected = if jump.rule.contains("PORTALS") { Position::First } else { Position::Last };
        assert_eq!(jump.at, expected, "{jump:?}");
    }
}

/// Row: userspace R48
#[test]
fn sctp_is_left_out_and_reported_and_the_other_ports_are_served() {
    let world = world(
        "service ns/s clusterIP 1.2.3.4 port p 80→8080\nservice ns/x clusterIP 1.2.3.5 port q 80/sctp\nendpoint ns/x 10.244.1.9 node a",
    );
    let wanted = wanted(&world, IpFamily::V4);
    let unserved: Vec<String> = wanted.unserved.iter().map(ToString::to_string).collect();
    assert_eq!(unserved, ["ns/x:q"]);
    let served: Vec<_> = wanted.portals.keys().map(PortalId::protocol).collect();
    assert_eq!(served, [Protocol::Tcp]);
}

/// Nobody reaches a socket but through a rule, or source ranges would be worth nothing.
#[test]
fn every_socket_is_guarded() {
    let wanted = wanted(&world(SERVICE), IpFamily::V4);
    let guard = "-p tcp -m tcp --dport 40000 -m conntrack ! --ctstate DNAT -j REJECT";
    assert_eq!(chain(&compiled(&wanted, None, Steering::Redirect), "FERRULE-PORTALS"), [guard]);
}

#[test]
fn a_service_port_without_endpoints_keeps_its_socket_and_its_rules() {
    let with = wanted(&world(SERVICE), IpFamily::V4);
    let without = wanted(&world(SERVICE.lines().next().expect("a Service")), IpFamily::V4);
    assert_eq!(with.routes, without.routes);
    assert_eq!(with.portals.keys().collect::<Vec<_>>(), without.portals.keys().collect::<Vec<_>>());
    assert!(without.portals.values().all(|spec| spec.endpoints.is_empty()));
}

#[test]
fn policy_local_tells_pods_and_the_host_from_outsiders() {
    let mut world = World::default();
    world.run_proxy("mode userspace\ndetectLocal ClusterCIDR 10.244.0.0/16").expect("settings");
    world.say(NODE).expect("a node");
    let facts = "service ns/s NodePort clusterIP 1.2.3.4 port p 80→8080 nodePort 30080 externalTrafficPolicy Local\n\
        endpoint ns/s 10.244.1.1 node a\nendpoint ns/s 10.244.2.1 node b";
    world.say(facts).expect("facts");
    world.settle();
    let wanted = wanted(&world, IpFamily::V4);
    let scopes: Vec<_> = wanted.portals.iter().map(|(portal, spec)| (portal, spec.endpoints.len())).collect();
    let [(PortalId::Service(_, PoolScope::Cluster), 2), (PortalId::Service(_, PoolScope::Local), 1)] =
        scopes[..]
    else {
        panic!("{scopes:?}")
    };
    let rules = compiled(&wanted, None, Steering::Redirect);
    let node_ports = chain(&rules, "KUBE-NODEPORT-CONTAINER");
    assert!(node_ports[0].contains("-s 10.244.0.0/16") && node_ports[0].ends_with("40000"), "{node_ports:?}");
    assert!(!node_ports[1].contains("-s ") && node_ports[1].ends_with("40001"), "{node_ports:?}");
    assert!(chain(&rules, "KUBE-NODEPORT-HOST")[0].ends_with(":40000"));
}

#[test]
fn source_ranges_admit_their_clients_and_close_the_others() {
    let facts = "service ns/s LoadBalancer 5.6.7.8 clusterIP 1.2.3.4 port p 80→8080 sourceRanges 203.0.113.0/24,198.51.100.0/24\n\
        endpoint ns/s 10.244.1.1 node a";
    let wanted = wanted(&world(facts), IpFamily::V4);
    let refusing = ports(&wanted)[&PortalId::Refusing(Protocol::Tcp)];
    let rules = compiled(&wanted, None, Steering::Redirect);
    let about: Vec<String> =
        chain(&rules, "KUBE-PORTALS-CONTAINER").into_iter().filter(|rule| rule.contains("5.6.7.8")).collect();
    assert!(about[0].contains("-s 203.0.113.0/24"), "{about:?}");
    assert!(about[1].contains("-s 198.51.100.0/24"), "{about:?}");
    assert!(
        about[2].ends_with(&format!("REDIRECT --to-ports {refusing}")) && !about[2].contains("-s "),
        "{about:?}"
    );
    assert_eq!(about.len(), 3);
}

/// Row: userspace R11
#[test]
fn changes_that_cancel_out_before_a_sync_open_nothing() {
    let brief = "service ns/brief NodePort clusterIP 1.2.3.9 port p 80→8080 nodePort 30099";
    let (other, back) = ("service ns/s clusterIP 1.2.3.8 port p 80→8080", SERVICE);
    let rows: [(&[&str], &[&str]); 5] = [
        // Added, then deleted; updated twice; deleted, then added again; updated, then deleted; added, then updated.
        (&[brief, "gone service ns/brief"], &[]),
        (&[other, back], &[]),
        (&["gone service ns/s", back], &[]),
        (&[other, "gone service ns/s"], &["gone service ns/s"]),
        (
            &["service ns/n clusterIP 1.2.3.7 port p 79", "service ns/n clusterIP 1.2.3.7 port p 80"],
            &["service ns/n clusterIP 1.2.3.7 port p 80"],
        ),
    ];
    for (changes, same_as) in rows {
        let mut worlds = [world(SERVICE), world(SERVICE)];
        for (world, changes) in worlds.iter_mut().zip([changes, same_as]) {
            for change in changes {
                world.say(change).expect("a change");
            }
            world.settle();
        }
        let [one, other] = worlds.map(|world| wanted(&world, IpFamily::V4));
        assert_eq!(one, other, "{changes:?}");
    }
}

/// It would be relayed to this process for ever.
#[test]
fn an_endpoint_that_leads_back_to_the_proxy_is_not_used() {
    let world = world(
        "service ns/s NodePort clusterIP 1.2.3.4 port p 80→8080 nodePort 30080\nendpoint ns/s 10.244.1.1 node a\n\
         service ns/loop clusterIP 1.2.3.5 port p 80\nendpoint ns/loop 1.2.3.4 node a\nendpoint ns/loop 10.244.1.2 node a\n\
         service ns/node clusterIP 1.2.3.6 port p 80→30080\nendpoint ns/node 10.0.0.5 node a",
    );
    let wanted = wanted(&world, IpFamily::V4);
    let endpoints = |name: &str| {
        let portal = wanted.portals.iter().find(|(portal, _)| match portal {
            PortalId::Service(owner, _) => owner.service.as_str() == name,
            PortalId::Refusing(_) => false,
        });
        portal.expect("a socket").1.endpoints.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(endpoints("ns/loop"), ["10.244.1.2:80"]);
    assert_eq!(endpoints("ns/node"), [""; 0]);
    assert_eq!(endpoints("ns/s"), ["10.244.1.1:8080"]);
}
