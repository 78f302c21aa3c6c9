//! Why a Service is served as it is: every reason once, and on random clusters, that answers agree with the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ferrule_model::{
    Change, Cluster, IpFamily, ServiceName, ServicePort, ServicePortName, ServiceState, merged, parse_ip,
};
use ferrule_plan::{
    EndpointReasons, Excluded, Explainer, FamilyPlan, Frontend, FrontendKey, Holder, Membership, NodePlan,
    NodeView, Packet, PoolScope, PortReasons, ServiceReasons, plan,
};
use ferrule_testkit::{World, random};
use proptest::prelude::*;

/// A world whose proxy is run with some settings.
fn world(settings: &str, cluster: &str) -> World {
    let mut world = World::default();
    world.run_proxy(settings).expect("settings the world knows");
    world.then(cluster).expect("words the world knows");
    world
}

fn explainer(world: &World) -> Explainer<'_> {
    Explainer { cluster: &world.cluster, view: &world.view, plan: &world.plan, diagnostics: &[] }
}

fn why(world: &World, name: &str) -> ServiceReasons {
    explainer(world).service(&ServiceName::of("default", name)).expect("the Service")
}

/// The first port of Service `svc` in IPv4.
fn port(world: &World) -> PortReasons {
    let [v4, _] = why(world, "svc").families;
    v4.ports.into_iter().next().expect("a port")
}

/// What is said of each endpoint, in order.
fn endpoints(world: &World) -> Vec<String> {
    port(world).endpoints.iter().map(ToString::to_string).collect()
}

/// What is said of each frontend of `svc` in IPv4, in order.
fn frontends(world: &World) -> Vec<String> {
    port(world).frontends.iter().map(ToString::to_string).collect()
}

const NODE: &str = "node me addresses 192.0.2.1 podCIDR 10.244.1.0/24 zone zA\n";

#[test]
fn ready_endpoints_are_used_and_terminating_ones_only_without_them() {
    let service = format!("{NODE}service svc clusterIP 10.96.0.1 port 80\n");
    let some_ready = world(
        "mode nftables",
        &format!(
            "{service}endpoint svc 10.0.0.1\nendpoint svc 10.0.0.2 notReady\nendpoint svc 10.0.0.3 terminating"
        ),
    );
    let local = "local pool: not used: the traffic policies leave no traffic for this pool";
    assert_eq!(
        endpoints(&some_ready),
        [
            format!("10.0.0.1:80: cluster pool: used: ready; {local}"),
            format!("10.0.0.2:80: cluster pool: not used: not ready; {local}"),
            format!(
                "10.0.0.3:80: cluster pool: not used: terminating, and other endpoints are ready; {local}"
            ),
        ]
    );
    let none_ready = world(
        "mode nftables",
        &format!("{service}endpoint svc 10.0.0.2 serving\nendpoint svc 10.0.0.3 terminating"),
    );
    let used = "cluster pool: used: terminating but still serving, and no endpoint is ready";
    assert_eq!(
        endpoints(&none_ready),
        [
            format!("10.0.0.2:80: cluster pool: not used: not ready; {local}"),
            format!("10.0.0.3:80: {used}; {local}"),
        ]
    );
}

#[test]
fn a_local_policy_leaves_endpoints_of_other_nodes_out() {
    let world = world(
        "mode nftables",
        &format!(
            "{NODE}service svc clusterIP 10.96.0.1 port 80 internalTrafficPolicy Local
             endpoint svc 10.0.0.1 node me\nendpoint svc 10.0.0.2 node other"
        ),
    );
    let cluster = "cluster pool: not used: the traffic policies leave no traffic for this pool";
    assert_eq!(
        endpoints(&world),
        [
            format!("10.0.0.1:80: {cluster}; local pool: used: ready"),
            format!("10.0.0.2:80: {cluster}; local pool: not used: on another node"),
        ]
    );
}

fn check_hints(node: &str, endpoints: &str, decision: &str, second: Excluded) {
    let settings = "mode nftables";
    let world =
        world(settings, &format!("node me {node}\nservice svc clusterIP 10.96.0.1 port 80\n{endpoints}"));
    let port = port(&world);
    assert_eq!(port.hints.expect("a cluster pool").to_string(), decision);
    let found = port.endpoints.iter().map(|endpoint| endpoint.cluster).nth(1);
    assert_eq!(found, Some(Membership::Out(second)), "{decision}");
}

#[test]
fn hints_that_are_followed_leave_others_out() {
    check_hints(
        "zone zA",
        "endpoint svc 10.0.0.1 forZone zA\nendpoint svc 10.0.0.2 forZone zB",
        "zone hints are followed",
        Excluded::HintedForOtherZones,
    );
    check_hints(
        "zone zA",
        "endpoint svc 10.0.0.1 forNode me forZone zA\nendpoint svc 10.0.0.2 forNode other forZone zA",
        "node hints are followed",
        Excluded::HintedForOtherNodes,
    );
}

#[test]
fn hints_that_are_ignored_say_why() {
    let third = "\nendpoint svc 10.0.0.2 notReady";
    let check = |node: &str, endpoints: &str, decision: &str| {
        check_hints(node, &format!("{endpoints}{third}"), decision, Excluded::NotReady);
    };
    check("zone zA", "endpoint svc 10.0.0.1", "hints are ignored: 10.0.0.1:80 is ready and has none");
    check("zone zA", "endpoint svc 10.0.0.1 notReady", "hints are ignored: no endpoint is ready");
    check(
        "addresses 192.0.2.1",
        "endpoint svc 10.0.0.1 forZone zA",
        "node hints are ignored: 10.0.0.1:80 is ready and has none; zone hints are ignored: this node has no zone",
    );
    check(
        "zone zB",
        "endpoint svc 10.0.0.1 forZone zA forNode other",
        "hints are ignored: no ready endpoint is hinted for here",
    );
}

#[test]
fn endpoints_that_cannot_count_are_listed_with_the_reason() {
    let cluster = format!(
        "{NODE}service svc clusterIP 10.96.0.1 port http 80→8080
         endpoint svc 10.0.0.1 slice a
         endpoint svc 10.0.0.1 slice b terminating
         endpoint svc 10.0.0.2 slice c port other 9090
         endpoint svc fd44::1"
    );
    let world = world("mode nftables", &cluster);
    let port = port(&world);
    let found: Vec<(IpAddr, Membership)> =
        port.endpoints.iter().map(|endpoint| (endpoint.ip, endpoint.cluster)).collect();
    let ip = |text: &str| parse_ip(text).expect("an address");
    assert_eq!(found[0].0, ip("10.0.0.1"));
    assert!(found[0].1.is_in());
    assert_eq!(
        found[1..],
        [
            (ip("10.0.0.1"), Membership::Out(Excluded::Duplicate)),
            (ip("10.0.0.2"), Membership::Out(Excluded::NoSuchPort)),
        ]
    );
    let [_, v6] = why(&world, "svc").families;
    assert_eq!(
        v6.to_string(),
        "  IPv6: not served: the Service has no cluster IP of this family\n    port default/svc:http/tcp\n      \
         endpoint [fd44::1]:8080: not used: the Service is not served in this IP family\n"
    );
}

#[test]
fn a_pool_that_no_frontend_uses_is_said_to_be_unused() {
    let cluster = format!(
        "{NODE}service svc clusterIP 10.96.0.1 port 80 externalIP 203.0.113.7 internalTrafficPolicy Local
         endpoint svc 10.0.0.1 node other"
    );
    let world = world("mode nftables\nexternalIPs off", &cluster);
    assert_eq!(
        endpoints(&world),
        ["10.0.0.1:80: cluster pool: not used: no frontend forwards to this pool; local pool: not used: on \
          another node"]
    );
    let unclaimed: Vec<String> = port(&world).unclaimed.iter().map(ToString::to_string).collect();
    assert_eq!(unclaimed, ["203.0.113.7: the operator does not allow this external IP"]);
}

const ALONE: &str = "no other Service claims it";

#[test]
fn a_frontend_names_the_field_that_shaped_it() {
    let service =
        "service svc NodePort clusterIP 10.96.0.1 port 80 nodePort 30080 externalTrafficPolicy Local";
    let here = world("mode plain", &format!("{NODE}{service}\nendpoint svc 10.0.0.1 node me"));
    let cluster_ip = format!(
        "10.96.0.1:80/tcp: cluster pool, masquerade as cluster IPs: internalTrafficPolicy is Cluster; {ALONE}"
    );
    let short_circuit = "nodePort 30080/tcp: cluster pool for local pods and this host,";
    let local = "externalTrafficPolicy is Local, and this node has";
    assert_eq!(
        frontends(&here),
        [cluster_ip.clone(), format!("{short_circuit} local pool for others: {local} endpoints; {ALONE}")]
    );
    let elsewhere = world("mode plain", &format!("{NODE}{service}\nendpoint svc 10.0.0.1 node other"));
    assert_eq!(
        frontends(&elsewhere),
        [cluster_ip, format!("{short_circuit} drop for others: {local} no endpoint; {ALONE}")]
    );
    let empty = world("mode plain", &format!("{NODE}{service}"));
    let none = "reject: no endpoint is ready, and none is serving while it terminates";
    assert_eq!(
        frontends(&empty),
        [format!("10.96.0.1:80/tcp: {none}; {ALONE}"), format!("nodePort 30080/tcp: {none}; {ALONE}")]
    );
}

#[test]
fn a_frontend_names_the_quirk_that_shaped_it() {
    let service =
        "service svc NodePort clusterIP 10.96.0.1 port 80 nodePort 30080 externalTrafficPolicy Local";
    let here = world("mode ipvs", &format!("{NODE}{service}\nendpoint svc 10.0.0.1 node me"));
    let last = |world: &World| frontends(world).pop().expect("a frontend");
    assert_eq!(
        last(&here),
        format!(
            "nodePort 30080/tcp: local pool, masquerade never: externalTrafficPolicy is Local, and in this mode it \
             holds for pods and this host too; {ALONE}"
        )
    );
    let elsewhere = world("mode ipvs", &format!("{NODE}{service}\nendpoint svc 10.0.0.1 node other"));
    assert_eq!(
        last(&elsewhere),
        format!(
            "nodePort 30080/tcp: cluster pool, masquerade never: externalTrafficPolicy is Local, this node has no \
             endpoint, and this mode then uses all endpoints; {ALONE}"
        )
    );
    let unused = format!(
        "10.96.0.1 other ports: reject: in this mode, ports that no Service uses are refused; {ALONE}"
    );
    assert!(frontends(&elsewhere).contains(&unused), "{:?}", frontends(&elsewhere));
    let internal = "service svc clusterIP 10.96.0.1 port 80 internalTrafficPolicy Local";
    let nothing = world("mode ipvs", &format!("{NODE}{internal}\nendpoint svc 10.0.0.1 node other"));
    assert_eq!(
        frontends(&nothing)[0],
        format!(
            "10.96.0.1:80/tcp: reject: internalTrafficPolicy is Local, this node has no endpoint, and no other \
             traffic uses all endpoints; {ALONE}"
        )
    );
}

#[test]
fn loopback_node_ports_say_why_they_are_forwarded_refused_or_absent() {
    let service = "service svc NodePort clusterIP 10.96.0.1 port 80 nodePort 30080";
    let listed = "mode nftables\nloopbackNodePorts forwardedOrRejected\nnodePortAddresses primary,localhost";
    let served = world(listed, &format!("{NODE}{service}\nendpoint svc 10.0.0.1"));
    let last = |world: &World| frontends(world).pop().expect("a frontend");
    assert!(
        last(&served).contains("a process forwards NodePorts on loopback addresses"),
        "{}",
        last(&served)
    );
    let empty = world(listed, &format!("{NODE}{service}"));
    let unclaimed: Vec<String> = port(&empty).unclaimed.iter().map(ToString::to_string).collect();
    assert_eq!(unclaimed, ["loopback nodePort 30080/tcp: the policy leaves no endpoint to forward to"]);
    let not_listed = "mode nftables\nloopbackNodePorts forwardedOrRejected\nnodePortAddresses primary";
    let refused = world(not_listed, &format!("{NODE}{service}\nendpoint svc 10.0.0.1"));
    assert!(last(&refused).contains("NodePorts on loopback addresses are refused"), "{}", last(&refused));
}

#[test]
fn source_ranges_that_nobody_looks_at_are_mentioned() {
    let service =
        "service svc LoadBalancer 203.0.113.7 clusterIP 10.96.0.1 port 80 sourceRanges 192.0.2.0/24";
    for (mode, is_ignored) in [("iptables", true), ("nftables", false)] {
        let world = world(&format!("mode {mode}"), &format!("{NODE}{service}"));
        assert_eq!(port(&world).source_ranges_ignored, is_ignored, "{mode}");
    }
}

#[test]
fn an_address_that_a_service_asks_for_twice_is_claimed_once() {
    let service = "service svc LoadBalancer 203.0.113.7 clusterIP 10.96.0.1 port 80 externalIP 203.0.113.7";
    let world = world("mode plain", &format!("{NODE}{service}\nendpoint svc 10.0.0.1"));
    let unclaimed: Vec<String> = port(&world).unclaimed.iter().map(ToString::to_string).collect();
    assert_eq!(unclaimed, ["203.0.113.7:80/tcp: another field or port of this Service has it"]);
}

/// What is said about the holder of 203.0.113.7, which `svc` claims and loses.
fn lost(other: &str, created: &str) -> String {
    let cluster = format!(
        "{NODE}{other}
         service svc clusterIP 10.96.0.1 port 80 externalIP 203.0.113.7 {created}"
    );
    let world = world("mode plain", &cluster);
    port(&world).frontends.iter().map(|found| found.holder.to_string()).nth(1).expect("the external IP")
}

#[test]
fn a_lost_address_names_the_winner_and_the_rule() {
    let older = "created 2020-01-01T00:00:00Z";
    let younger = "created 2021-01-01T00:00:00Z";
    let external = "service alpha clusterIP 10.96.0.2 port 80 externalIP 203.0.113.7";
    let has_it = "not served: Service default/alpha has it, because";
    let cluster_ip = format!("service alpha clusterIP 203.0.113.7 port 80 {younger}");
    assert_eq!(
        lost(&cluster_ip, older),
        format!("{has_it} a cluster IP goes before an address that a user specified")
    );
    assert_eq!(lost(&format!("{external} {older}"), younger), format!("{has_it} it is older"));
    assert_eq!(lost(&format!("{external} {older}"), ""), format!("{has_it} the age of this one is unknown"));
    assert_eq!(
        lost(&format!("{external} {older}"), older),
        format!("{has_it} both are of the same age and its name sorts first")
    );
    assert_eq!(
        lost(&format!("{external} {younger}"), older),
        "also claimed by default/alpha, which come after this Service"
    );
}

#[test]
fn what_could_not_be_read_is_part_of_the_answer() {
    let mut world = World::default();
    let step = world
        .then(
            "node me\nservice svc clusterIP 10.96.0.1 port 80\nendpoint svc 127.0.0.1\nendpoint svc 10.0.0.1",
        )
        .expect("words the world knows");
    let explainer = Explainer { diagnostics: &step.diagnostics, ..explainer(&world) };
    let reasons = explainer.service(&ServiceName::of("default", "svc")).expect("the Service");
    assert_eq!(reasons.unusable.len(), 1);
    assert!(reasons.to_string().contains("127.0.0.1"), "{reasons}");
    assert_eq!(explainer.service(&ServiceName::of("default", "other")), None);
}

#[test]
fn a_packet_names_the_rule_and_the_reason_of_its_frontend() {
    let cluster = format!(
        "{NODE}serviceCIDR 10.96.0.0/16
         service svc NodePort clusterIP 10.96.0.1 port 80 nodePort 30080\nendpoint svc 10.0.0.1"
    );
    let world = world("mode nftables\nnodePortAddresses 198.51.100.0/24", &cluster);
    let said = |to: &str, port: u16| {
        let to = parse_ip(to).expect("an address");
        let from = parse_ip("198.51.100.9").expect("an address");
        let port = Some((ferrule_model::Protocol::Tcp, port));
        let packet = Packet { from, interface: Some("eth0".into()), to, port };
        explainer(&world).packet(&packet).expect("a family that is served").to_string()
    };
    assert_eq!(
        said("10.96.0.1", 80),
        format!(
            "10.0.0.1:80 masqueraded: 10.96.0.1:80/tcp of default/svc: anyone → cluster pool, masquerade\n  \
             10.96.0.1:80/tcp: cluster pool, masquerade as cluster IPs: internalTrafficPolicy is Cluster; {ALONE}"
        )
    );
    let refused = "in this mode, ports that no Service uses are refused";
    assert_eq!(
        said("10.96.0.1", 81),
        format!(
            "rejected: the address belongs to default/svc, which does not use the port\n  10.96.0.1 other ports: \
             reject: {refused}; {ALONE}"
        )
    );
    assert_eq!(said("10.96.0.9", 80), "dropped: no Service has this address of service range 10.96.0.0/16");
    assert_eq!(said("8.8.8.8", 80), "untouched: no Service is reached this way");
    let elsewhere = said("127.0.0.1", 30080);
    assert!(
        elsewhere.starts_with("untouched: nodePort 30080/tcp of default/svc is not served on this address"),
        "{elsewhere}"
    );
}

fn cluster_after(changes: Vec<Change>) -> Cluster {
    let mut cluster = Cluster::default();
    for change in changes {
        cluster.apply(change);
    }
    cluster
}

/// The endpoints that are said to be in a pool are those of the planned one; the rest are all others there are.
fn check_endpoints(
    plan: &FamilyPlan,
    reasons: &PortReasons,
    state: &ServiceState,
    port: &ServicePort,
) -> Result<(), TestCaseError> {
    let address = |endpoint: &EndpointReasons| Some(SocketAddr::new(endpoint.ip, endpoint.port?));
    for scope in [PoolScope::Cluster, PoolScope::Local] {
        let planned = plan.pool(&reasons.owner, scope);
        let planned: Vec<SocketAddr> = planned.map_or_else(Vec::new, |pool| {
            pool.endpoints.iter().map(|endpoint| SocketAddr::new(endpoint.ip, endpoint.port)).collect()
        });
        let members = reasons.endpoints.iter().filter(|endpoint| endpoint.membership(scope).is_in());
        let members: Vec<SocketAddr> = members.filter_map(address).collect();
        prop_assert_eq!(members, planned, "{:?} {}", reasons.owner, scope);
    }
    let family = plan.node.family;
    let is_extra = |endpoint: &&EndpointReasons| {
        [Excluded::Duplicate, Excluded::NoSuchPort].map(Membership::Out).contains(&endpoint.cluster)
    };
    let counting = reasons.endpoints.iter().filter(|endpoint| !is_extra(endpoint));
    let counting: Vec<SocketAddr> = counting.filter_map(address).collect();
    let merged = merged(state.slices(family), &port.name, port.protocol);
    let merged: Vec<SocketAddr> = merged.iter().map(|one| SocketAddr::new(one.ip, one.port)).collect();
    prop_assert_eq!(counting, merged, "{:?}: endpoints that count", reasons.owner);
    let entries = |slice: &ferrule_model::EndpointSlice| {
        slice.endpoints.len() * slice.ports_for(&port.name, port.protocol).len().max(1)
    };
    let all: usize = state.slices(family).map(entries).sum();
    prop_assert_eq!(reasons.endpoints.len(), all, "{:?}: every entry once", reasons.owner);
    Ok(())
}

/// Frontends of a family, each with the owner it has by what is said to those who claim it.
type Owners = BTreeMap<FrontendKey, (ServicePortName, Frontend)>;

fn check_service(
    reasons: &ServiceReasons,
    plan: &NodePlan,
    state: &ServiceState,
    owners: &mut BTreeMap<IpFamily, Owners>,
) -> Result<(), TestCaseError> {
    let service = state.service().expect("a Service that exists");
    for family in &reasons.families {
        let Some(plan) = plan.families.get(family.family).filter(|_| family.not_served.is_none()) else {
            let all = family.ports.iter().flat_map(|port| &port.endpoints);
            let mut memberships = all.flat_map(|endpoint| [endpoint.cluster, endpoint.local]);
            prop_assert!(!memberships.any(Membership::is_in), "a family that is not served");
            continue;
        };
        prop_assert_eq!(family.ports.len(), service.ports.len());
        for (reasons, port) in family.ports.iter().zip(&service.ports) {
            check_endpoints(plan, reasons, state, port)?;
            for found in &reasons.frontends {
                let holder = plan.frontend(&found.key).expect("a key somebody claims");
                match &found.holder {
                    Holder::OnlyClaimant | Holder::Won { .. } => {
                        prop_assert_eq!(holder, &found.frontend, "{}", found.key);
                        let owner = (reasons.owner.clone(), (*found.frontend).clone());
                        let before = owners.entry(family.family).or_default().insert(found.key, owner);
                        prop_assert!(before.is_none(), "{} has two owners", found.key);
                    }
                    Holder::Lost { to, .. } => {
                        prop_assert_eq!(&holder.owner.service, to, "{}", found.key);
                        prop_assert_ne!(to, &reasons.owner.service);
                    }
                }
            }
        }
    }
    Ok(())
}

fn check(cluster: &Cluster, view: &NodeView) -> Result<(), TestCaseError> {
    let (plan, _) = plan(cluster, view);
    let explainer = Explainer { cluster, view, plan: &plan, diagnostics: &[] };
    let mut owners = BTreeMap::new();
    for (name, state) in cluster.services() {
        let reasons = explainer.service(name).expect("a Service that exists");
        check_service(&reasons, &plan, state, &mut owners)?;
    }
    for (family, plan) in plan.families.iter() {
        let with_owner = owners.remove(&family).unwrap_or_default();
        let planned: BTreeSet<FrontendKey> = plan.frontends().map(|(key, _)| *key).collect();
        prop_assert_eq!(with_owner.into_keys().collect::<BTreeSet<_>>(), planned, "owners of all frontends");
        for (key, frontend) in plan.frontends() {
            let found = explainer.frontend(family, key).map(|found| found.frontend);
            prop_assert_eq!(found.as_ref(), Some(frontend), "{}", key);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, ..ProptestConfig::default() })]

    #[test]
    fn answers_agree_with_the_plan(changes in random::changes(), view in random::view()) {
        check(&cluster_after(changes), &view)?;
    }
}
