//! What load balancers' health checks are told: the ready endpoints on this node.
//!
//! How they are told, and whether the proxy itself is healthy, is the server's matter.

use ferrule_model::IpFamily;
use ferrule_testkit::World;

/// Services with a health check each, and the endpoints of the case.
fn check(id: &str, endpoints: &str, expected: &[(&str, usize)]) {
    let service = |number: u8, ports: &str| {
        format!(
            "service ns1/ep{number} LoadBalancer 198.51.100.{number} clusterIP 172.30.1.{number} {ports} \
             externalTrafficPolicy Local healthCheckNodePort 3000{number}\n"
        )
    };
    let services = [
        service(1, "port p11 11 port p12 12"),
        service(2, "port p22 22 port p23 23"),
        service(4, "port p44 44 port p45 45"),
        "service ns1/unasked clusterIP 172.30.1.9 port 80\n".to_string(),
    ];
    let world = World::of(&format!("node me addresses 192.0.2.1\n{}\n{endpoints}", services.concat()));
    let world = world.expect(id);
    let told = world.family(IpFamily::V4).expect("an IPv4 plan").health_checks();
    let ports: Vec<(&str, u16)> = told.iter().map(|(name, check)| (name.name(), check.port)).collect();
    assert_eq!(ports, [("ep1", 30001), ("ep2", 30002), ("ep4", 30004)], "{id}: who is asked where");
    let counts: Vec<(&str, usize)> = told
        .iter()
        .map(|(name, check)| (name.name(), check.local_endpoints))
        .filter(|(_, count)| *count != 0)
        .collect();
    assert_eq!(counts, expected, "{id}: local endpoints");
}

/// The slices of two Services, with the condition of one endpoint, then of all others, to be filled in.
fn two_services(one: &str, others: &str) -> String {
    format!(
        "endpoint ns1/ep2 2.2.2.2 node me slice 1 port p22 22 {others}
         endpoint ns1/ep2 2.2.2.22 node me slice 1 port p22 22 {others}
         endpoint ns1/ep2 2.2.2.3 node me slice 2 port p23 23 {one}
         endpoint ns1/ep4 4.4.4.4 node me slice 1 port p44 44 {others}
         endpoint ns1/ep4 4.4.4.5 node other slice 1 port p44 44 {others}
         endpoint ns1/ep4 4.4.4.6 node me slice 2 port p45 45 {others}"
    )
}

/// Row: model H1
#[test]
fn endpoints_of_other_nodes_do_not_count() {
    check("H1", "endpoint ns1/ep1 1.1.1.1 node other port p11 11", &[]);
}

/// Row: model H2, H3
#[test]
fn an_address_counts_once_however_many_ports_it_has() {
    check("H2", "endpoint ns1/ep1 1.1.1.1 node me port 11", &[("ep1", 1)]);
    let h3 = "endpoint ns1/ep1 1.1.1.1 node other port p11 11 port p12 12
              endpoint ns1/ep1 1.1.1.2 node me port p11 11 port p12 12";
    check("H3", h3, &[("ep1", 1)]);
}

/// Row: model H4-H6
#[test]
fn only_ready_endpoints_count() {
    check("H4", &two_services("ready", "ready"), &[("ep2", 3), ("ep4", 2)]);
    check("H5", &two_services("terminating", "ready"), &[("ep2", 2), ("ep4", 2)]);
    check("H6", &two_services("terminating", "terminating"), &[]);
}

#[test]
fn services_without_a_health_check_are_not_asked() {
    check("unasked", "endpoint ns1/unasked 9.9.9.9 node me port 80", &[]);
}
