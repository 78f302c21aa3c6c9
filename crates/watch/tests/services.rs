//! Services as the API server sends them, and what is left of them in the model.
//!
//! A case is an object in JSON and one line that says everything about it in one family. Most lines are short, since
//! what is absent is left out; a field that should not be there makes the line differ.

use std::fmt::Write;
use std::sync::Arc;

use ferrule_model::{
    Change, Cluster, IpFamily, Service, ServiceName, ServicePort, SourceRanges, Touched, TrafficPolicy,
};
use ferrule_watch::api;
use ferrule_watch::convert::{self, Converted};
use serde_json::{Value, json};

use IpFamily::{V4, V6};

const ABSENT: &str = "absent";
const NO_COMPLAINTS: &[&str] = &[];

/// Converts an object that is named `ns2/svc` unless it says otherwise.
fn converted(mut object: Value) -> Converted {
    if object["metadata"]["name"].is_null() {
        object["metadata"]["name"] = json!("svc");
    }
    if object["metadata"]["namespace"].is_null() {
        object["metadata"]["namespace"] = json!("ns2");
    }
    convert::service(&serde_json::from_value(object).expect("a Service a decoder can read"))
}

/// The Service an object becomes, if any.
fn distilled(object: Value) -> Option<Arc<Service>> {
    match converted(object).change {
        Some(Change::Service(_, service)) => service,
        other => unreachable!("not a change of a Service: {other:?}"),
    }
}

fn check(id: &str, family: IpFamily, object: Value, expected: &str) {
    let service = distilled(object);
    assert_eq!(described(service.as_deref(), family), expected, "{id} in {family}");
}

/// What was complained about, with what was kept nevertheless.
fn check_complaints(id: &str, object: Value, complaints: &[&str], kept: &str) {
    let Converted { change, diagnostics } = converted(object);
    let said: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(said, complaints, "{id}: diagnostics");
    let service = match change {
        Some(Change::Service(_, service)) => service,
        None => None,
        other => unreachable!("{id}: not a change of a Service: {other:?}"),
    };
    assert_eq!(described(service.as_deref(), V4), kept, "{id}: what is kept");
}

/// Everything a Service means in one family, in one line.
fn described(service: Option<&Service>, family: IpFamily) -> String {
    let Some((service, cluster_ip)) =
        service.and_then(|service| Some((service, service.cluster_ips.get(family)?)))
    else {
        return ABSENT.into();
    };
    let mut text = cluster_ip.to_string();
    let mut list = |name: &str, items: Vec<String>| {
        if !items.is_empty() {
            write!(text, ", {name} {}", items.join(" ")).expect("a string takes any text");
        }
    };
    list("external", service.external_ips(family).map(|ip| ip.to_string()).collect());
    list("vip", service.load_balancer_vips(family).map(|ip| ip.to_string()).collect());
    list("from", sources(&service.source_ranges, family));
    list("policies", policies(service));
    list("sticky", service.affinity_seconds.iter().map(ToString::to_string).collect());
    list("hc", service.health_check_port.iter().map(ToString::to_string).collect());
    service.ports.iter().for_each(|port| list("port", port_words(port)));
    text
}

fn sources(ranges: &SourceRanges, family: IpFamily) -> Vec<String> {
    match ranges.of_family(family) {
        None => Vec::new(),
        Some(blocks) if blocks.is_empty() => vec!["nobody".into()],
        Some(blocks) => blocks.iter().map(ToString::to_string).collect(),
    }
}

fn policies(service: &Service) -> Vec<String> {
    let local = |policy, name: &str| (policy == TrafficPolicy::Local).then(|| name.to_string());
    let policies =
        [local(service.internal_policy, "internal-local"), local(service.external_policy, "external-local")];
    policies.into_iter().flatten().collect()
}

fn port_words(port: &ServicePort) -> Vec<String> {
    let mut words = vec![format!("{}={}/{}", port.name, port.number, port.protocol)];
    words.extend(port.node_port.map(|number| format!("nodePort={number}")));
    words
}

fn udp(name: &str, number: i64) -> Value {
    json!({"name": name, "protocol": "UDP", "port": number})
}

/// Row: model S1
#[test]
fn a_deleted_service_is_gone() {
    let metadata =
        api::ObjectMeta { namespace: "ns2".into(), name: "svc".into(), ..api::ObjectMeta::default() };
    let gone = convert::service_deleted(&metadata);
    assert_eq!(gone.change, Some(Change::Service(ServiceName::of("ns2", "svc"), None)), "S1");
    assert_eq!(gone.diagnostics, [], "S1");
}

/// Row: model S2-S5, S12
#[test]
fn headless_and_external_name_services_are_absent() {
    let port = |name, protocol, number| json!([{"name": name, "protocol": protocol, "port": number}]);
    for (id, spec) in [
        ("S2", json!({"clusterIP": "None", "ports": port("rpc", "UDP", 1234)})),
        ("S3", json!({"clusterIP": "None", "ports": port("sip", "SCTP", 7777)})),
        ("S4", json!({"clusterIP": "None"})),
        ("S5", json!({"clusterIP": "", "ports": port("p", "TCP", 80)})),
        (
            "S12",
            json!({"type": "ExternalName", "clusterIP": "172.16.55.4", "externalName": "foo2.bar.com",
                   "ports": port("portz", "UDP", 1235)}),
        ),
    ] {
        check_complaints(id, json!({"spec": spec}), NO_COMPLAINTS, ABSENT);
        check(id, V6, json!({"spec": spec}), ABSENT);
    }
}

/// Row: model S6
#[test]
fn a_node_port_counts_whatever_the_type() {
    let spec = json!({"type": "ClusterIP", "clusterIP": "172.16.55.4", "ports": [
        {"name": "p1", "protocol": "UDP", "port": 1234, "nodePort": 4321}, udp("p2", 1235)]});
    check("S6", V4, json!({"spec": spec}), "172.16.55.4, port p1=1234/udp nodePort=4321, port p2=1235/udp");
}

/// Row: model S7
#[test]
fn ports_of_different_protocols_are_different_ports() {
    let spec = json!({"type": "NodePort", "clusterIP": "172.16.55.10", "ports": [
        {"name": "port1", "protocol": "UDP", "port": 345, "nodePort": 678},
        {"name": "port2", "protocol": "TCP", "port": 344, "nodePort": 677}]});
    let expected = "172.16.55.10, port port1=345/udp nodePort=678, port port2=344/tcp nodePort=677";
    check("S7", V4, json!({"spec": spec}), expected);
}

/// Row: model S8-S10
#[test]
fn a_load_balancer_address_counts_in_vip_mode_which_is_the_default() {
    let with = |ingress: Value| {
        let ports = [udp("port3", 8675), udp("port4", 8676)];
        json!({"spec": {"type": "LoadBalancer", "clusterIP": "172.16.55.11", "loadBalancerIP": "5.6.7.8",
                        "ports": ports},
               "status": {"loadBalancer": {"ingress": [ingress]}}})
    };
    let with_vip = "172.16.55.11, vip 10.1.2.4, port port3=8675/udp, port port4=8676/udp";
    let without = "172.16.55.11, port port3=8675/udp, port port4=8676/udp";
    check("S8", V4, with(json!({"ip": "10.1.2.4"})), with_vip);
    check("S9", V4, with(json!({"ip": "10.1.2.4", "ipMode": "VIP"})), with_vip);
    check("S10", V4, with(json!({"ip": "10.1.2.4", "ipMode": "Proxy"})), without);
}

/// Row: model S11, S32, S33
#[test]
fn a_health_check_port_needs_a_load_balancer_with_policy_local() {
    let with = |kind: &str, port: i64| {
        json!({"spec": {"type": kind, "clusterIP": "172.16.55.12", "externalTrafficPolicy": "Local",
                        "healthCheckNodePort": port, "ports": [udp("portx", 8677), udp("porty", 8678)]},
               "status": {"loadBalancer": {"ingress": [{"ip": "10.1.2.3"}]}}})
    };
    let service = |hc: &str| {
        format!(
            "172.16.55.12, vip 10.1.2.3, policies external-local{hc}, port portx=8677/udp, port porty=8678/udp"
        )
    };
    check_complaints("S11", with("LoadBalancer", 345), NO_COMPLAINTS, &service(", hc 345"));
    let missing = "Service ns2/svc: spec.healthCheckNodePort: missing, load balancers cannot ask for this node's endpoints";
    check_complaints("S32", with("LoadBalancer", 0), &[missing], &service(""));
    check_complaints("S33", with("NodePort", 345), NO_COMPLAINTS, &service(""));
}

/// An object of an API server that knows no `ipFamilies`, with addresses of both families wherever it may.
fn mixed(cluster_ip: &str, external_ips: &[&str], ranges: &[&str]) -> Value {
    json!({"spec": {"clusterIP": cluster_ip, "externalIPs": external_ips, "loadBalancerSourceRanges": ranges,
                    "ports": [{"name": "p", "protocol": "TCP", "port": 80}]},
           "status": {"loadBalancer": {"ingress": [{"ip": "8.8.8.8"}, {"ip": "2001:db8:85a3::7335"}]}}})
}

/// Row: model S13-S18
#[test]
fn each_family_sees_its_own_addresses() {
    let (v4, v6) = ("10.0.0.1", "2001:db8::68");
    check("S13", V4, mixed(v6, &[], &[]), ABSENT);
    check("S14", V6, mixed(v4, &[], &[]), ABSENT);
    let s15 = "10.0.0.1, external 8.8.8.8, vip 8.8.8.8, from 0.0.0.0/1, port p=80/tcp";
    check("S15", V4, mixed(v4, &["8.8.8.8"], &["0.0.0.0/1"]), s15);
    let s16 =
        "2001:db8::68, external 2001:db8::1, vip 2001:db8:85a3::7335, from 2001:db8::/32, port p=80/tcp";
    check("S16", V6, mixed(v6, &["2001:db8::1"], &["2001:db8::/32"]), s16);
    let both = (&["8.8.8.8", "2001:db8::1"], &["0.0.0.0/1", "2001:db8::/32"]);
    check("S17", V4, mixed(v4, both.0, both.1), s15);
    check("S18", V6, mixed(v6, both.0, both.1), s16);
}

/// Row: model S19, S26, S28
#[test]
fn source_ranges_are_trimmed_and_lifted_by_a_block_of_everything() {
    let with = |ranges: &[&str]| {
        json!({"spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1", "loadBalancerSourceRanges": ranges},
               "status": {"loadBalancer": {"ingress": [{"ip": "8.8.8.8"}]}}})
    };
    check_complaints(
        "S19",
        with(&[" 10.1.2.0/28"]),
        NO_COMPLAINTS,
        "10.0.0.1, vip 8.8.8.8, from 10.1.2.0/28",
    );
    check_complaints("S26", with(&["10.0.0.0/8", "0.0.0.0/0"]), NO_COMPLAINTS, "10.0.0.1, vip 8.8.8.8");
    let bogus = "Service ns2/svc: spec.loadBalancerSourceRanges[0]: \"bogus\" is not a CIDR, ignored";
    check_complaints(
        "S28",
        with(&["bogus", "10.0.0.0/8"]),
        &[bogus],
        "10.0.0.1, vip 8.8.8.8, from 10.0.0.0/8",
    );
    check_complaints("blank", with(&["", "  "]), NO_COMPLAINTS, "10.0.0.1, vip 8.8.8.8");
}

/// kube-proxy's reading of ranges of the other family is kept, since clusters rely on it (Q2); a diagnostic says so.
///
/// Row: model S27
#[test]
fn ranges_of_the_other_family_alone_leave_this_one_open() {
    let object = json!({"spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1",
                                 "loadBalancerSourceRanges": ["fd00::/8"]},
                        "status": {"loadBalancer": {"ingress": [{"ip": "8.8.8.8"}]}}});
    let open = "Service ns2/svc: spec.loadBalancerSourceRanges: no range is IPv4, \
                so IPv4 load-balancer addresses are open to everyone";
    check_complaints("S27", object, &[open], "10.0.0.1, vip 8.8.8.8");
}

/// kube-proxy opens the load balancer in this case. Nobody who writes a range asks for that, so here it is closed (Q2).
#[test]
fn ranges_of_which_none_can_be_read_close_the_load_balancer() {
    let object = json!({"spec": {"clusterIP": "10.0.0.1", "loadBalancerSourceRanges": ["10.0.0.0/33"]}});
    let complaints = [
        "Service ns2/svc: spec.loadBalancerSourceRanges[0]: \"10.0.0.0/33\" is not a CIDR, ignored",
        "Service ns2/svc: spec.loadBalancerSourceRanges: no range can be read, \
         so the load-balancer addresses are closed to everyone",
    ];
    check_complaints("Q2", object.clone(), &complaints, "10.0.0.1, from nobody");
    assert_eq!(distilled(object).expect("a Service").source_ranges, SourceRanges::Nobody);
}

/// Row: model S20-S23, S25
#[test]
fn cluster_ips_go_with_their_families_in_any_order() {
    let with = |families: &[&str], ips: &[&str]| json!({"spec": {"clusterIP": ips[0], "clusterIPs": ips, "ipFamilies": families}});
    let (v4, v6) = ("10.0.0.10", "2000::1");
    for (id, families, ips, expected_v4, expected_v6) in [
        ("S20", &["IPv4"][..], &[v4][..], v4, ABSENT),
        ("S21", &["IPv6"], &[v6], ABSENT, v6),
        ("S22", &["IPv4", "IPv6"], &[v4, v6], v4, v6),
        ("S23", &["IPv6", "IPv4"], &[v6, v4], v4, v6),
        ("S25", &["IPv4", "IPv6"], &[v4], v4, ABSENT),
    ] {
        check(id, V4, with(families, ips), expected_v4);
        check(id, V6, with(families, ips), expected_v6);
    }
}

/// As the API server's validation has it, which a folder of manifests never meets: an external IP may not be link-local
/// either, other addresses may.
#[test]
fn an_address_that_each_host_has_for_itself_is_no_address_of_a_service() {
    let special =
        ["127.0.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255", "::1", "::", "ff02::1", "::ffff:127.0.0.1"];
    for address in special {
        let refused = |field: &str, object: Value, kept: &str| {
            let Converted { diagnostics, .. } = converted(object.clone());
            let said: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
            let expected = format!("Service ns2/svc: {field}: \"{address}\" may not be used here");
            assert!(matches!(&said[..], [one] if one.starts_with(&expected)), "{field}: {said:?}");
            assert_eq!(described(distilled(object).as_deref(), V4), kept, "{field} {address}");
        };
        refused("spec.clusterIP", json!({"spec": {"clusterIP": address}}), ABSENT);
        let external = json!({"spec": {"clusterIP": "10.0.0.1", "externalIPs": [address]}});
        refused("spec.externalIPs[0]", external, "10.0.0.1");
        let ingress = json!({"spec": {"clusterIP": "10.0.0.1"},
                             "status": {"loadBalancer": {"ingress": [{"ip": address}]}}});
        refused("status.loadBalancer.ingress[0].ip", ingress, "10.0.0.1");
    }
    let link_local = json!({"spec": {"clusterIP": "169.254.1.1", "externalIPs": ["169.254.1.2"]},
                            "status": {"loadBalancer": {"ingress": [{"ip": "169.254.1.3"}]}}});
    let complaint = "Service ns2/svc: spec.externalIPs[0]: \"169.254.1.2\" may not be used here, it is a link-local \
                     address; ignored";
    check_complaints("link-local", link_local, &[complaint], "169.254.1.1, vip 169.254.1.3");
}

/// Row: model S24, S29
#[test]
fn external_ips_keep_their_order_and_blank_ones_are_passed_over() {
    let with = |ips: &[&str]| {
        json!({"spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"],
                        "ipFamilies": ["IPv4", "IPv6"], "externalIPs": ips}})
    };
    let s24 = ["192.168.200.2", "192.1.34.23", "fd00:20::1", "2001:db9::3"];
    check("S24", V4, with(&s24), "10.0.0.1, external 192.168.200.2 192.1.34.23");
    check("S24", V6, with(&s24), "fd00::1, external fd00:20::1 2001:db9::3");
    let third = "Service ns2/svc: spec.externalIPs[2]: \"1.2.3.x\" is not an IP address, ignored";
    let kept = "10.0.0.1, external 1.2.3.4";
    check_complaints("S29", with(&["", " ", "1.2.3.x", "1.2.3.4"]), &[third], kept);
    let untrimmed = "Service ns2/svc: spec.externalIPs[0]: \" 1.2.3.4\" is not an IP address, ignored";
    check_complaints("not trimmed", with(&[" 1.2.3.4", "1.2.3.4"]), &[untrimmed], kept);
}

/// Row: model S30
#[test]
fn load_balancers_with_a_host_name_only_are_passed_over() {
    let object = json!({"spec": {"clusterIP": "10.0.0.1"},
        "status": {"loadBalancer": {"ingress": [{"hostname": "lb.example"}, {"ip": "010.1.2.4"}]}}});
    check_complaints("S30", object, NO_COMPLAINTS, "10.0.0.1, vip 10.1.2.4");
}

/// What the policies of a Service with one port come to in IPv4: external policy, accessible, uses cluster, uses local.
fn check_uses(id: &str, spec: &Value, expected: [bool; 4]) {
    let service = distilled(json!({"spec": spec})).expect("a Service");
    let port = &service.ports[0];
    let found = [
        service.external_policy == TrafficPolicy::Local,
        service.is_externally_accessible(port, V4),
        service.uses_cluster_endpoints(port, V4),
        service.uses_local_endpoints(port, V4),
    ];
    assert_eq!(found, expected, "{id}: external Local, accessible, uses cluster, uses local");
}

/// Row: model S31, S35
#[test]
fn a_policy_matters_only_where_its_traffic_can_come_from() {
    let ports = json!([{"port": 80, "protocol": "TCP"}]);
    let s31 = json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "ports": ports,
                     "externalTrafficPolicy": "Local", "externalIPs": ["fd00::5"]});
    check_uses("S31", &s31, [true, false, true, false]);
    let s35 = json!({"clusterIP": "10.0.0.1", "ports": ports, "internalTrafficPolicy": "Local"});
    check_uses("S35", &s35, [false, false, false, true]);
    let node_port = json!([{"port": 80, "protocol": "TCP", "nodePort": 30080}]);
    let both = json!({"type": "NodePort", "clusterIP": "10.0.0.1", "ports": node_port,
                      "internalTrafficPolicy": "Local", "externalTrafficPolicy": "Local"});
    check_uses("both policies, reachable", &both, [true, true, true, true]);
    let not_external = json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "ports": ports,
                              "externalTrafficPolicy": "Local"});
    check_uses("nothing external", &not_external, [false, false, true, false]);
}

/// A missing timeout crashes kube-proxy and is the API's default here (Q1).
///
/// Row: model S34
#[test]
fn affinity_has_a_timeout_only_if_clients_stay() {
    let with = |affinity: &str, config: Value| json!({"spec": {"clusterIP": "10.0.0.1", "sessionAffinity": affinity, "sessionAffinityConfig": config}});
    let config = |seconds: i64| json!({"clientIP": {"timeoutSeconds": seconds}});
    check_complaints("S34", with("ClientIP", config(10800)), NO_COMPLAINTS, "10.0.0.1, sticky 10800");
    check_complaints("S34", with("None", config(10800)), NO_COMPLAINTS, "10.0.0.1");
    check_complaints("S34", with("ClientIP", config(1)), NO_COMPLAINTS, "10.0.0.1, sticky 1");
    check_complaints("Q1", with("ClientIP", Value::Null), NO_COMPLAINTS, "10.0.0.1, sticky 10800");
    for seconds in [0, -1, 86401, i64::MAX] {
        let complaint = format!(
            "Service ns2/svc: spec.sessionAffinityConfig.clientIP.timeoutSeconds: \
             {seconds} is not a timeout (1 to 86400 seconds), 10800 is used"
        );
        check_complaints("bad", with("ClientIP", config(seconds)), &[&complaint], "10.0.0.1, sticky 10800");
    }
}

/// Row: model S37
#[test]
fn a_service_given_to_another_proxy_is_gone_for_us() {
    let name = ServiceName::of("ns2", "svc");
    let touched = Touched { services: [name.clone()].into(), ..Touched::default() };
    let object = |labels: Value| json!({"metadata": {"labels": labels}, "spec": {"clusterIP": "10.0.0.1"}});
    let mut cluster = Cluster::default();
    let mut put = |labels: Value| cluster.apply(converted(object(labels)).change.expect("a change")).touched;
    assert_eq!(put(Value::Null), touched, "S37: it is ours");
    assert_eq!(put(json!({"service.kubernetes.io/service-proxy-name": ""})), touched, "S37: it is not");
    assert_eq!(
        put(json!({"service.kubernetes.io/service-proxy-name": "x"})),
        Touched::default(),
        "S37: still not"
    );
    assert!(cluster.service(&name).is_none(), "S37: nothing of it is left");
}

/// One port of the list is bad; the complaint is about it, and the good one named `p` is kept.
fn check_bad_port(bad: &Value, field: &str, problem: &str) {
    let good = json!({"name": "p", "protocol": "TCP", "port": 80, "nodePort": 30080});
    let object = json!({"spec": {"clusterIP": "10.0.0.1", "ports": [good, bad]}});
    let complaint = format!("Service ns2/svc: spec.ports[1].{field}: {problem}");
    check_complaints(&complaint, object, &[&complaint], "10.0.0.1, port p=80/tcp nodePort=30080");
}

#[test]
fn a_bad_port_costs_itself_and_one_complaint() {
    for number in [0, 65536, -1, i64::MIN] {
        let problem = format!("{number} is not a port (1 to 65535), ignored");
        check_bad_port(&json!({"name": "q", "protocol": "TCP", "port": number}), "port", &problem);
    }
    let unknown = "unknown protocol \"ICMP\", the port is ignored";
    check_bad_port(&json!({"name": "q", "protocol": "ICMP", "port": 81}), "protocol", unknown);
    let same_case = "unknown protocol \"tcp\", the port is ignored";
    check_bad_port(&json!({"name": "q", "protocol": "tcp", "port": 81}), "protocol", same_case);
    let control = "\"a\\nb\" is not a usable name, ignored";
    check_bad_port(&json!({"name": "a\nb", "protocol": "TCP", "port": 81}), "name", control);
    let long = format!("\"{}… (1000 characters)\" is not a usable name, ignored", "x".repeat(80));
    check_bad_port(&json!({"name": "x".repeat(1000), "protocol": "TCP", "port": 81}), "name", &long);
}

#[test]
fn a_repeated_port_costs_itself_and_one_complaint() {
    let name = "duplicates port name p, the first one counts";
    check_bad_port(&json!({"name": "p", "protocol": "TCP", "port": 81}), "name", name);
    let number = "duplicates port 80, the first one counts";
    check_bad_port(&json!({"name": "q", "protocol": "TCP", "port": 80}), "port", number);
}

#[test]
fn a_bad_node_port_costs_itself_and_the_port_is_kept() {
    let with = |node_port: i64| {
        json!({"spec": {"clusterIP": "10.0.0.1", "ports": [
            {"name": "p", "port": 80, "nodePort": 30080}, {"name": "q", "port": 81, "nodePort": node_port}]}})
    };
    let kept = "10.0.0.1, port p=80/tcp nodePort=30080, port q=81/tcp";
    for number in [-1, 65536] {
        let complaint =
            format!("Service ns2/svc: spec.ports[1].nodePort: {number} is not a port (1 to 65535), ignored");
        check_complaints("bad node port", with(number), &[&complaint], kept);
    }
    let twice = "Service ns2/svc: spec.ports[1].nodePort: duplicates node port 30080, the first one counts";
    check_complaints("node port twice", with(30080), &[twice], kept);
}

#[test]
fn one_number_may_serve_several_protocols() {
    let port = |name: &str, protocol: &str| json!({"name": name, "protocol": protocol, "port": 53, "nodePort": 30053});
    let object =
        json!({"spec": {"clusterIP": "10.0.0.1", "ports": [port("dns", "TCP"), port("dns", "UDP")]}});
    let kept = "10.0.0.1, port dns=53/tcp nodePort=30053, port dns=53/udp nodePort=30053";
    check_complaints("dns", object, NO_COMPLAINTS, kept);
}

#[test]
fn a_bad_address_costs_itself_and_one_complaint() {
    let load_balancer = json!({"spec": {"clusterIP": "10.0.0.1"},
        "status": {"loadBalancer": {"ingress": [{"ip": "8.8.8"}, {"ip": "8.8.8.8"}]}}});
    let complaint =
        "Service ns2/svc: status.loadBalancer.ingress[0].ip: \"8.8.8\" is not an IP address, ignored";
    check_complaints("load balancer", load_balancer, &[complaint], "10.0.0.1, vip 8.8.8.8");

    let cluster_ip = json!({"spec": {"clusterIP": "10.0.0.1.", "ports": [{"port": 80}]}});
    let complaint = "Service ns2/svc: spec.clusterIP: \"10.0.0.1.\" is not an IP address, ignored";
    check_complaints("cluster IP", cluster_ip, &[complaint], ABSENT);

    let second = |ip: &str| {
        json!({"spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", ip],
                        "ipFamilies": ["IPv4", "IPv6"]}})
    };
    let complaint = "Service ns2/svc: spec.clusterIPs[1]: \"fd00::x\" is not an IP address, ignored";
    check_complaints("second cluster IP", second("fd00::x"), &[complaint], "10.0.0.1");
    let complaint = "Service ns2/svc: spec.clusterIPs[1]: \"10.0.0.2\" is of another IP family than the object says, ignored";
    check_complaints("cluster IP of the wrong family", second("10.0.0.2"), &[complaint], "10.0.0.1");
}

#[test]
fn a_bad_health_check_port_costs_the_health_check() {
    let object = json!({"spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1",
                                 "externalTrafficPolicy": "Local", "healthCheckNodePort": 70000}});
    let complaint = "Service ns2/svc: spec.healthCheckNodePort: 70000 is not a port (1 to 65535), ignored";
    check_complaints("health check", object, &[complaint], "10.0.0.1, policies external-local");
}

#[test]
fn a_bad_creation_time_costs_the_age() {
    let object = json!({"metadata": {"creationTimestamp": "yesterday"}, "spec": {"clusterIP": "10.0.0.1"}});
    let complaint =
        "Service ns2/svc: metadata.creationTimestamp: \"yesterday\" is not an RFC 3339 time, ignored";
    check_complaints("creation time", object, &[complaint], "10.0.0.1");
}

#[test]
fn a_bad_name_costs_the_object() {
    let long = "x".repeat(1000);
    let cut = "x".repeat(80);
    for (namespace, name, complaint) in [
        (
            "ns2",
            long.as_str(),
            format!(
                "Service ns2/{}… (1004 characters): metadata.name: \"{cut}… (1000 characters)\" \
                 is not a usable name, ignored",
                "x".repeat(76)
            ),
        ),
        (
            "ns2",
            "a\u{1b}[31m",
            "Service ns2/a\\u{1b}[31m: metadata.name: \"a\\u{1b}[31m\" is not a usable name, ignored".into(),
        ),
        ("a/b", "svc", "Service a/b/svc: metadata.namespace: \"a/b\" is not a usable name, ignored".into()),
    ] {
        let metadata = json!({"namespace": namespace, "name": name});
        let object = json!({"metadata": metadata, "spec": {"clusterIP": "10.0.0.1"}});
        assert_eq!(converted(object.clone()).change, None, "{complaint}");
        check_complaints("bad name", object, &[&complaint], ABSENT);
    }
}

#[test]
fn null_means_absent() {
    let object = json!({
        "metadata": {"labels": null, "annotations": null, "creationTimestamp": null},
        "spec": {"clusterIP": "10.0.0.1", "clusterIPs": null, "ipFamilies": null, "ports": null,
                 "externalIPs": null, "loadBalancerSourceRanges": null, "sessionAffinity": null,
                 "sessionAffinityConfig": null, "internalTrafficPolicy": null, "type": null},
        "status": null});
    check_complaints("null", object, NO_COMPLAINTS, "10.0.0.1");
}
