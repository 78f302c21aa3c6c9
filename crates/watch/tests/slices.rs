//! EndpointSlices as the API server sends them, and the merged endpoints they add up to.

mod slice_dsl;

use ferrule_model::{Cluster, NodeName, Timestamp};
use ferrule_watch::{api, convert};
use serde_json::{Value, json};

use slice_dsl::{Slices, hosts, own_node, slice};

/// Puts slices one after the other and says what Service `ns1/svc1` has in the end.
fn check(id: &str, slices: &[api::EndpointSlice], expected: &str) {
    assert_eq!(Slices::with(slices).described("ns1/svc1"), expected, "{id}");
}

/// A slice `ns1/svc1-a` in JSON, with a label and a port `http` unless it says otherwise.
fn from_json(fields: &Value) -> api::EndpointSlice {
    let mut object = json!({
        "metadata": {"namespace": "ns1", "name": "svc1-a", "labels": {"kubernetes.io/service-name": "svc1"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "protocol": "TCP", "port": 80}],
        "endpoints": [{"addresses": ["10.0.0.1"]}]});
    for (name, field) in fields.as_object().expect("an object") {
        object[name] = field.clone();
    }
    serde_json::from_value(object).expect("a slice a decoder can read")
}

/// What was complained about, with what was kept nevertheless.
fn check_complaint(id: &str, fields: &Value, complaint: &str, kept: &str) {
    let mut slices = Slices::new();
    let (_, complaints) = slices.put_bad(&from_json(fields));
    assert_eq!(complaints, [format!("EndpointSlice ns1/svc1-a: {complaint}")], "{id}: diagnostics");
    assert_eq!(slices.described("ns1/svc1"), kept, "{id}: what is kept");
}

/// The API server refuses such endpoints; a folder of manifests, or another server, does not. One on loopback would open
/// what listens there to everybody.
#[test]
fn an_endpoint_with_an_address_that_each_host_has_for_itself_is_refused() {
    let rows = [
        ("IPv4", "127.0.0.1", "a loopback address"),
        ("IPv4", "127.255.255.254", "a loopback address"),
        ("IPv4", "0.0.0.0", "the unspecified address"),
        ("IPv4", "169.254.169.254", "a link-local address"),
        ("IPv4", "224.0.0.1", "a multicast address"),
        ("IPv4", "239.1.2.3", "a multicast address"),
        ("IPv4", "255.255.255.255", "the broadcast address"),
        ("IPv4", "::ffff:127.0.0.1", "a loopback address"),
        ("IPv4", "127.000.000.001", "a loopback address"),
        ("IPv6", "::1", "a loopback address"),
        ("IPv6", "::", "the unspecified address"),
        ("IPv6", "fe80::1", "a link-local address"),
        ("IPv6", "ff02::1", "a multicast address"),
    ];
    for (family, address, range) in rows {
        let fields = json!({"addressType": family, "endpoints": [{"addresses": [address]}]});
        let complaint =
            format!("endpoints[0].addresses[0]: \"{address}\" may not be used here, it is {range}; ignored");
        check_complaint(address, &fields, &complaint, "");
    }
}

/// Row: model E1
#[test]
fn every_port_of_a_slice_has_all_its_endpoints() {
    let slices =
        [slice("ns1/svc1-a", "port-0=80 port-1=443", "10.0.1.1@host2 10.0.1.2@host1 10.0.1.3@host2")];
    let expected = "port-0/tcp: 10.0.1.1:80 10.0.1.2:80,L 10.0.1.3:80; \
                    port-1/tcp: 10.0.1.1:443 10.0.1.2:443,L 10.0.1.3:443";
    check("E1", &slices, expected);
}

/// Row: model E2, E9
#[test]
fn slices_of_one_service_add_up() {
    let first = slice("ns1/svc1-a", "p=80", &hosts("10.0.1", 1..=3, ""));
    let second = slice("ns1/svc1-b", "p=80", &hosts("10.0.2", 1..=3, ""));
    let expected = "p/tcp: 10.0.1.1:80 10.0.1.2:80 10.0.1.3:80 10.0.2.1:80 10.0.2.2:80 10.0.2.3:80";
    check("E2", &[second, first], expected);
    let other_number = |name, port| slice(name, port, &hosts("10.0.1", 1..=2, ""));
    let expected = "p/tcp: 10.0.1.1:80 10.0.1.1:8080 10.0.1.2:80 10.0.1.2:8080";
    check("E9", &[other_number("ns1/svc1-a", "p=80"), other_number("ns1/svc1-b", "p=8080")], expected);
}

/// Row: model E3-E6
#[test]
fn a_slice_put_again_replaces_itself_and_endpoints_are_in_the_order_of_their_texts() {
    let of = |endpoints: &str| slice("ns1/svc1-a", "p=80", endpoints);
    let (three, four) = (hosts("10.0.1", 1..=3, ""), hosts("10.0.1", 1..=4, ""));
    check("E3", &[of(&three), of(&four)], "p/tcp: 10.0.1.1:80 10.0.1.2:80 10.0.1.3:80 10.0.1.4:80");

    let ten = hosts("10.0.1", 1..=10, "");
    let unready = ten.replace("10.0.1.6", "10.0.1.6,!R,!S");
    let expected = "p/tcp: 10.0.1.10:80 10.0.1.1:80 10.0.1.2:80 10.0.1.3:80 10.0.1.4:80 10.0.1.5:80 \
                    10.0.1.6:80,!R,!S 10.0.1.7:80 10.0.1.8:80 10.0.1.9:80";
    check("E4", &[of(&ten), of(&unready)], expected);

    let terminating = unready.replace("1.5 ", "1.5,!R,T ").replace("1.10", "1.10,!R,T");
    let expected = expected.replace("1.5:80", "1.5:80,!R,T").replace("1.10:80", "1.10:80,!R,T");
    check("E5", &[of(&ten), of(&terminating)], &expected);

    let all_unready = hosts("10.0.1", 1..=10, ",!R,!S");
    let expected = "p/tcp: 10.0.1.10:80,!R,!S 10.0.1.1:80,!R,!S 10.0.1.2:80,!R,!S 10.0.1.3:80,!R,!S \
                    10.0.1.4:80,!R,!S 10.0.1.5:80,!R,!S 10.0.1.6:80,!R,!S 10.0.1.7:80,!R,!S \
                    10.0.1.8:80,!R,!S 10.0.1.9:80,!R,!S";
    check("E6", &[of(&ten), of(&all_unready)], expected);
}

/// Row: model E7
#[test]
fn a_service_sees_its_own_slices_only() {
    let slices = Slices::with(&[
        slice("ns1/svc1-a", "p=80", "10.0.1.1"),
        slice("ns1/svc2-a", "p=80", "10.0.2.1"),
        slice("ns2/svc1-a", "p=80", "10.0.3.1"),
    ]);
    assert_eq!(slices.described("ns1/svc1"), "p/tcp: 10.0.1.1:80", "E7");
    assert_eq!(slices.described("ns1/svc2"), "p/tcp: 10.0.2.1:80", "E7");
    assert_eq!(slices.described("ns2/svc1"), "p/tcp: 10.0.3.1:80", "E7");
}

/// Row: model E8, E11, E12
#[test]
fn a_port_needs_a_name_and_a_number_and_the_empty_name_is_one() {
    let ports = |port: Value| json!({"ports": [port]});
    let no_number = "ports[0].port: missing, the port is ignored";
    check_complaint("E8", &ports(json!({"name": "p", "protocol": "TCP"})), no_number, "");
    check("E11", &[slice("ns1/svc1-a", "=80", "10.0.0.1")], "/tcp: 10.0.0.1:80");
    let no_name = "ports[0].name: missing, the port is ignored";
    check_complaint("E12", &ports(json!({"protocol": "TCP", "port": 80})), no_name, "");
}

/// A missing protocol crashes kube-proxy and is the API's default here (Q1).
#[test]
fn a_port_without_a_protocol_is_tcp() {
    check("Q1", &[from_json(&json!({"ports": [{"name": "p", "port": 80}]}))], "p/tcp: 10.0.0.1:80");
}

/// Which of several duplicates that are not terminating stays is left open by kube-proxy; here it is the one in the
/// slice that comes last by name, in whatever order they arrive (Q13).
///
/// Row: model E10, E18
#[test]
fn a_duplicate_that_is_not_terminating_stays() {
    let three = slice("ns1/svc1-a", "p=80", "10.0.0.1,!R,T 10.0.0.1 10.0.0.1,!R,!S,T");
    check("E10", &[three], "p/tcp: 10.0.0.1:80");

    let duplicates = |a: &str, b: &str| [slice("ns1/svc1-a", "p=80", a), slice("ns1/svc1-b", "p=80", b)];
    for (id, slices, expected) in [
        ("E18", duplicates("10.0.0.1,!R,T", "10.0.0.1@host1"), "p/tcp: 10.0.0.1:80,L"),
        ("E18", duplicates("10.0.0.1@host1", "10.0.0.1,!R,T"), "p/tcp: 10.0.0.1:80,L"),
        ("Q13", duplicates("10.0.0.1@host1", "10.0.0.1,!R,!S"), "p/tcp: 10.0.0.1:80,!R,!S"),
    ] {
        check(id, &slices, expected);
        let [a, b] = slices;
        check(id, &[b, a], expected);
    }
}

/// Row: model E13-E17
#[test]
fn an_endpoint_is_what_its_first_address_node_and_conditions_say() {
    let one = |endpoint: Value| json!({"endpoints": [endpoint]});
    let complaint = "endpoints[0].addresses: missing, the endpoint is ignored";
    check_complaint("E13", &one(json!({"addresses": []})), complaint, "");
    for (id, endpoint, expected) in [
        ("E14", json!({"addresses": ["10.0.0.1"]}), "10.0.0.1:80"),
        ("E14", json!({"addresses": ["10.0.0.1"], "conditions": {"ready": null}}), "10.0.0.1:80"),
        ("E15", json!({"addresses": ["10.0.0.1"], "conditions": {"ready": false}}), "10.0.0.1:80,!R"),
        ("E16", json!({"addresses": ["10.0.0.1"], "hostname": "host1"}), "10.0.0.1:80"),
        ("E17", json!({"addresses": ["10.0.0.1", "10.0.0.2"]}), "10.0.0.1:80"),
        ("its node", json!({"addresses": ["10.0.0.1"], "nodeName": "host1"}), "10.0.0.1:80,L"),
        ("case counts", json!({"addresses": ["10.0.0.1"], "nodeName": "HOST1"}), "10.0.0.1:80"),
    ] {
        check(id, &[from_json(&one(endpoint))], &format!("http/tcp: {expected}"));
    }
}

#[test]
fn without_an_own_name_nothing_is_local() {
    let object = from_json(&json!({"endpoints": [{"addresses": ["10.0.0.1"], "nodeName": ""}]}));
    let mut cluster = Cluster::default();
    cluster.apply(convert::endpoint_slice(&object, &NodeName::new("")).change.expect("a change"));
    let state = cluster.service(&ferrule_model::ServiceName::new("ns1/svc1")).expect("its slices");
    assert!(state.slices(ferrule_model::IpFamily::V4).all(|slice| !slice.endpoints[0].is_local));
}

/// Row: model E19, E21
#[test]
fn an_equal_slice_changes_nothing_and_a_different_one_does() {
    for (id, first, second, changed) in [
        ("E19", ("p=80 q=443", ""), ("p=80 q=443", ""), false),
        ("E19", ("p=80", "10.0.1.1 10.0.1.2"), ("p=80", "10.0.1.1 10.0.1.2"), false),
        ("E21", ("p=80", "10.0.1.1"), ("p=80 q=443", "10.0.1.1"), true),
        ("E21", ("p=80 q=443", "10.0.1.1"), ("p=80", "10.0.1.1"), true),
        ("E21", ("p=80", "10.0.1.1"), ("p=80", "10.0.1.1 10.0.1.2"), true),
    ] {
        let mut slices = Slices::with(&[slice("ns1/svc1-a", first.0, first.1)]);
        let touched = slices.put(&slice("ns1/svc1-a", second.0, second.1));
        assert_eq!(!touched.is_empty(), changed, "{id}: {first:?} then {second:?}");
    }
}

/// kube-proxy compares whole objects and syncs for nothing; the order within a slice means nothing, so here it is no
/// change (Q10).
///
/// Row: model E20
#[test]
fn the_order_within_a_slice_means_nothing() {
    let mut slices = Slices::with(&[slice("ns1/svc1-a", "p=80 q=443", "10.0.1.1 10.0.1.2")]);
    let nothing: [String; 0] = [];
    assert_eq!(slices.put(&slice("ns1/svc1-a", "q=443 p=80", "10.0.1.1 10.0.1.2")), nothing, "E20: ports");
    assert_eq!(
        slices.put(&slice("ns1/svc1-a", "p=80 q=443", "10.0.1.2 10.0.1.1")),
        nothing,
        "E20: endpoints"
    );
}

/// Row: model E22, E23
#[test]
fn nothing_is_kept_of_deleted_slices() {
    let of = |name: &str| slice(name, "p=80", "10.0.0.1");
    for names in [
        &["ns1/svc1-a"][..],
        &["ns1/svc1-a", "ns1/svc1-b"],
        &["ns1/svc1-a", "ns1/svc2-a"],
        &["ns1/svc1-a", "ns2/svc1-a"],
    ] {
        let mut slices = Slices::since(Timestamp::default());
        for name in names {
            slices.put(&of(name));
        }
        assert_ne!(slices.cluster, Cluster::default(), "E22: {names:?} were put");
        for name in names {
            slices.delete(&of(name));
        }
        assert_eq!(slices.cluster, Cluster::default(), "E22: {names:?} were deleted");
    }
    let mut slices = Slices::with(&[of("ns1/svc1-a"), slice("ns1/svc1-b", "p=80", "10.0.0.2")]);
    slices.delete(&of("ns1/svc1-a"));
    assert_eq!(slices.described("ns1/svc1"), "p/tcp: 10.0.0.2:80", "E23");
}

/// kube-proxy leaves the old Service with the endpoints of a slice that changed its Service, until it is restarted; here
/// the slice leaves the one and joins the other (Q3).
#[test]
fn a_slice_that_changes_its_service_leaves_the_old_one() {
    let mut slices = Slices::with(&[slice("ns1/svc1-a", "p=80", "10.0.0.1")]);
    let mut moved = slice("ns1/svc1-a", "p=80", "10.0.0.1");
    moved.metadata.labels.service_name = Some("svc2".into());
    assert_eq!(slices.put(&moved), ["ns1/svc1"], "Q3: there is no Service svc2 yet");
    assert_eq!(slices.described("ns1/svc1"), "", "Q3");
    assert_eq!(slices.described("ns1/svc2"), "p/tcp: 10.0.0.1:80", "Q3");
}

/// Row: model E24, E25
#[test]
fn a_slice_that_cannot_be_used_is_ignored() {
    let fqdn = "addressType: address type \"FQDN\" is not proxied, the object is ignored";
    check_complaint("E24", &json!({"addressType": "FQDN"}), fqdn, "");
    let no_label = "metadata.labels[kubernetes.io/service-name]: missing, the slice is ignored";
    for labels in [json!({}), json!(null), json!({"kubernetes.io/service-name": ""})] {
        let metadata = json!({"namespace": "ns1", "name": "svc1-a", "labels": labels});
        check_complaint("E25", &json!({"metadata": metadata}), no_label, "");
    }
}

#[test]
fn a_slice_that_becomes_unusable_is_gone() {
    let usable = slice("ns1/svc1-a", "http=80", "10.0.0.1");
    for fields in
        [json!({"addressType": "FQDN"}), json!({"metadata": {"namespace": "ns1", "name": "svc1-a"}})]
    {
        let mut slices = Slices::with(std::slice::from_ref(&usable));
        let (touched, complaints) = slices.put_bad(&from_json(&fields));
        assert_eq!(touched, ["ns1/svc1"], "{complaints:?}");
        assert_eq!(slices.described("ns1/svc1"), "", "{complaints:?}");
    }
}

#[test]
fn a_slice_of_a_headless_service_is_passed_over() {
    let mut headless = slice("ns1/svc1-a", "p=80", "10.0.0.1");
    headless.metadata.labels.headless = Some(String::new());
    check("headless", &[headless], "");
}

#[test]
fn a_bad_port_costs_itself_and_one_complaint() {
    let good = json!({"name": "http", "protocol": "TCP", "port": 80});
    for (bad, complaint) in [
        (json!({"name": "q", "port": 0}), "port: 0 is not a port (1 to 65535), ignored"),
        (json!({"name": "q", "port": 65536}), "port: 65536 is not a port (1 to 65535), ignored"),
        (json!({"name": "q", "port": -1}), "port: -1 is not a port (1 to 65535), ignored"),
        (
            json!({"name": "q", "protocol": "ICMP", "port": 81}),
            "protocol: unknown protocol \"ICMP\", the port is ignored",
        ),
        (json!({"name": "a\tb", "port": 81}), "name: \"a\\tb\" is not a usable name, ignored"),
    ] {
        let fields = json!({"ports": [good, bad]});
        check_complaint("port", &fields, &format!("ports[1].{complaint}"), "http/tcp: 10.0.0.1:80");
    }
}

#[test]
fn a_bad_endpoint_costs_itself_and_one_complaint() {
    for (bad, complaint) in [
        ("10.0.0.x", "\"10.0.0.x\" is not an IP address, ignored"),
        ("", "\"\" is not an IP address, ignored"),
        ("fd00::1", "\"fd00::1\" is of another IP family than the object says, ignored"),
    ] {
        let endpoints = json!([{"addresses": [bad]}, {"addresses": ["10.0.0.1"]}]);
        let complaint = format!("endpoints[0].addresses[0]: {complaint}");
        check_complaint("endpoint", &json!({"endpoints": endpoints}), &complaint, "http/tcp: 10.0.0.1:80");
    }
}

#[test]
fn a_bad_service_name_costs_the_slice() {
    let long = "x".repeat(1000);
    let labels = json!({"kubernetes.io/service-name": long});
    let metadata = json!({"namespace": "ns1", "name": "svc1-a", "labels": labels});
    let complaint = format!(
        "metadata.labels[kubernetes.io/service-name]: \"{}… (1000 characters)\" is not a usable name, ignored",
        "x".repeat(80)
    );
    check_complaint("label", &json!({"metadata": metadata}), &complaint, "");
}

#[test]
fn a_bad_name_costs_the_slice() {
    for name in ["", "a\nb", "a/b"] {
        let mut object = slice("ns1/svc1-a", "p=80", "10.0.0.1");
        object.metadata.name = name.into();
        let converted = convert::endpoint_slice(&object, &own_node());
        assert_eq!(converted.change, None, "{name:?}");
        assert_eq!(converted.diagnostics.len(), 1, "{name:?}");
        assert_eq!(converted.diagnostics[0].field, "metadata.name", "{name:?}");
    }
}
