//! Endpoints, the API before EndpointSlices: what they become in the model, and what an API server sends of them.

#[allow(unused_imports, reason = "each test file uses its part")]
mod api_dsl;
mod slice_dsl;

use std::sync::Arc;

use ferrule_model::{Change, Cluster, IpFamily, ObjectKind, Service, ServiceName};
use ferrule_testkit::api_server::{ApiServer, Options, Slices as Served, or_skip};
use ferrule_watch::server::{Encoding, EndpointsApi, SourceEvent};
use ferrule_watch::{api, convert};
use serde_json::{Value, json};

use api_dsl::{Objects, Watcher, batches, changes, service};
use slice_dsl::{Slices, own_node};

fn endpoints(subsets: &Value) -> api::Endpoints {
    let object = json!({ "metadata": { "namespace": "ns1", "name": "svc1" }, "subsets": subsets });
    serde_json::from_value(object).expect("Endpoints a decoder can read")
}

fn put(cluster: &mut Cluster, object: &api::Endpoints) -> Vec<String> {
    let converted = convert::endpoints(object, &own_node());
    cluster.apply(converted.change.expect("a usable name"));
    converted.diagnostics.iter().map(ToString::to_string).collect()
}

fn cluster() -> Slices {
    Slices::new()
}

/// Row: userspace R27
#[test]
fn every_address_of_a_subset_has_every_port_of_it_and_subsets_add_up() {
    let mut slices = cluster();
    let object = endpoints(&json!([
        { "addresses": [{ "ip": "10.0.0.1" }, { "ip": "10.0.0.2", "nodeName": "host1" }],
          "ports": [{ "name": "p", "port": 1 }, { "name": "q", "port": 2, "protocol": "UDP" }] },
        { "addresses": [{ "ip": "10.0.0.3" }], "ports": [{ "name": "p", "port": 3 }, { "name": "q", "port": 4, "protocol": "UDP" }] },
    ]));
    assert_eq!(put(&mut slices.cluster, &object), [""; 0]);
    assert_eq!(
        slices.described("ns1/svc1"),
        "p/tcp: 10.0.0.1:1 10.0.0.2:1,L 10.0.0.3:3; q/udp: 10.0.0.1:2 10.0.0.2:2,L 10.0.0.3:4"
    );
}

#[test]
fn addresses_that_are_not_ready_get_no_traffic_and_a_port_without_a_name_is_the_only_one() {
    let mut slices = cluster();
    let object = endpoints(&json!([
        { "addresses": [{ "ip": "10.0.0.1" }], "notReadyAddresses": [{ "ip": "10.0.0.2" }], "ports": [{ "port": 80 }] },
    ]));
    put(&mut slices.cluster, &object);
    assert_eq!(slices.described("ns1/svc1"), "/tcp: 10.0.0.1:80 10.0.0.2:80,!R,!S");
}

#[test]
fn fewer_subsets_take_the_others_endpoints_away_and_a_deletion_takes_all() {
    let mut slices = cluster();
    let subset = |ip: &str, port: u16| json!({ "addresses": [{ "ip": ip }], "ports": [{ "port": port }] });
    put(
        &mut slices.cluster,
        &endpoints(&json!([subset("10.0.0.1", 1), subset("10.0.0.2", 2), subset("10.0.0.3", 3)])),
    );
    assert_eq!(slices.described("ns1/svc1"), "/tcp: 10.0.0.1:1 10.0.0.2:2 10.0.0.3:3");
    put(&mut slices.cluster, &endpoints(&json!([subset("10.0.0.3", 3)])));
    assert_eq!(slices.described("ns1/svc1"), "/tcp: 10.0.0.3:3");
    let applied = slices.cluster.apply(Change::Endpoints(ServiceName::new("ns1/svc1"), Vec::new(), None));
    assert!(applied.touched.services.contains("ns1/svc1"));
    assert_eq!(slices.described("ns1/svc1"), "");
}

#[test]
fn the_same_endpoints_again_touch_nothing() {
    let mut slices = cluster();
    let object = endpoints(&json!([{ "addresses": [{ "ip": "10.0.0.1" }], "ports": [{ "port": 1 }] }]));
    put(&mut slices.cluster, &object);
    let again = convert::endpoints(&object, &own_node()).change.expect("a change");
    assert!(slices.cluster.apply(again).touched.is_empty());
}

#[test]
fn addresses_of_both_families_are_kept_apart() {
    let mut cluster = Cluster::default();
    let name = ServiceName::new("ns1/svc1");
    cluster.apply(Change::Service(name.clone(), Some(Arc::new(Service::default()))));
    let addresses = json!([{ "ip": "10.0.0.1" }, { "ip": "fd00::1" }]);
    put(&mut cluster, &endpoints(&json!([{ "addresses": addresses, "ports": [{ "port": 1 }] }])));
    let ips = |family| {
        let slices = cluster.service(&name).expect("the Service").slices(family);
        slices.flat_map(|slice| &slice.endpoints).map(|endpoint| endpoint.ip.to_string()).collect::<Vec<_>>()
    };
    assert_eq!((ips(IpFamily::V4), ips(IpFamily::V6)), (vec!["10.0.0.1".into()], vec!["fd00::1".into()]));
}

#[test]
fn unusable_fields_are_named_and_the_rest_is_used() {
    let mut slices = cluster();
    let mut object = endpoints(&json!([
        { "addresses": [{ "ip": "10.0.0.1" }, { "ip": "127.0.0.1" }, { "ip": "" }],
          "notReadyAddresses": [{ "ip": "nonsense" }],
          "ports": [{ "name": "a", "port": 0 }, { "name": "b", "port": 80, "protocol": "ICMP" }, { "name": "c", "port": 80 }] },
        { "addresses": null, "ports": null },
    ]));
    object.metadata.annotations.over_capacity = Some("truncated".into());
    let complaints = put(&mut slices.cluster, &object);
    assert_eq!(
        complaints,
        [
            "Endpoints ns1/svc1: metadata.annotations[endpoints.kubernetes.io/over-capacity]: the object holds only the \
             first 1000 endpoints, the others get no traffic; EndpointSlices have no such limit",
            "Endpoints ns1/svc1: subsets[0].addresses[1].ip: \"127.0.0.1\" may not be used here, it is a loopback address; ignored",
            "Endpoints ns1/svc1: subsets[0].addresses[2].ip: \"\" is not an IP address, ignored",
            "Endpoints ns1/svc1: subsets[0].notReadyAddresses[0].ip: \"nonsense\" is not an IP address, ignored",
            "Endpoints ns1/svc1: subsets[0].ports[0].port: 0 is not a port (1 to 65535), ignored",
            "Endpoints ns1/svc1: subsets[0].ports[1].protocol: unknown protocol \"ICMP\", the port is ignored",
        ]
    );
    assert_eq!(slices.described("ns1/svc1"), "c/tcp: 10.0.0.1:80");
}

#[test]
fn an_older_controllers_warning_and_others_endpoints_are_no_concern() {
    let mut slices = cluster();
    let subsets = json!([{ "addresses": [{ "ip": "10.0.0.1" }], "ports": [{ "port": 1 }] }]);
    let mut object = endpoints(&subsets);
    object.metadata.annotations.over_capacity = Some("warning".into());
    assert_eq!(put(&mut slices.cluster, &object), [""; 0]);
    for label in ["service.kubernetes.io/headless", "service.kubernetes.io/service-proxy-name"] {
        let mut json = json!({ "metadata": { "namespace": "ns1", "name": "svc1" }, "subsets": subsets });
        json["metadata"]["labels"][label] = "x".into();
        let object: api::Endpoints = serde_json::from_value(json).expect("Endpoints");
        put(&mut slices.cluster, &object);
        assert_eq!(slices.described("ns1/svc1"), "", "{label}");
    }
}

/// The changes of one Service's Endpoints that a source reports, as text.
fn reported(watcher: &Watcher) -> Vec<String> {
    let changes = batches(&watcher.events).flat_map(|batch| &batch.changes);
    let endpoints = changes
        .filter(|change| matches!(change, Change::Endpoints(name, ..) if name.as_str() == "legacy/web"));
    endpoints.map(|change| format!("{change:?}")).collect()
}

fn web() -> Value {
    json!({
        "metadata": { "name": "web", "annotations": { "endpoints.kubernetes.io/last-change-trigger-time": "2026-01-02T03:04:05Z" } },
        "subsets": [
            { "addresses": [{ "ip": "10.244.1.5", "nodeName": "some-node" }, { "ip": "10.244.2.5" }],
              "notReadyAddresses": [{ "ip": "10.244.3.5" }],
              "ports": [{ "name": "http", "port": 8080 }, { "name": "dns", "port": 5353, "protocol": "UDP" }] },
        ],
    })
}

#[test]
fn a_server_without_slices_is_asked_for_endpoints() {
    if !or_skip() {
        return;
    }
    let server = ApiServer::start(Options { slices: Served::NotServed, ..Options::default() }).unwrap();
    let objects = Objects::new(&server, "legacy");
    server.create(&objects.services(), &service("web")).unwrap();
    server.create(&objects.endpoints(), &web()).unwrap();
    let mut told = Vec::new();
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        let mut watcher = Watcher::of_api(&server, EndpointsApi::SlicesIfServed, encoding);
        watcher.until("Endpoints in sync", |events| {
            events.contains(&SourceEvent::InSync(ObjectKind::Endpoints))
        });
        assert!(!watcher.events.iter().any(|event| matches!(event, SourceEvent::WatchFailed { .. })));
        assert_eq!(changes(&watcher.events, "Endpoints legacy/web"), [true]);
        told.push(reported(&watcher));
        assert!(watcher.log.contains("does not serve EndpointSlices"));
    }
    assert_eq!(told[0], told[1]);
    assert!(told[0][0].contains("10.244.3.5") && told[0][0].contains("5353"), "{told:?}");
    // And its changes.
    let mut watcher = Watcher::of_api(&server, EndpointsApi::SlicesIfServed, Encoding::Protobuf);
    watcher.until("Endpoints in sync", |events| events.contains(&SourceEvent::InSync(ObjectKind::Endpoints)));
    watcher.clear();
    server.delete(&format!("{}/web", objects.endpoints())).unwrap();
    watcher.until_reported("Endpoints legacy/web", 1);
    assert_eq!(changes(&watcher.events, "Endpoints legacy/web"), [false]);
}

/// Row: userspace R12
#[test]
fn endpoints_are_watched_on_request_where_there_are_slices_too() {
    if !or_skip() {
        return;
    }
    let objects = Objects::new(ApiServer::shared(), "legacy");
    objects.server.create(&objects.endpoints(), &web()).unwrap();
    objects.put_slice("web-1", 1);
    let mut watcher = Watcher::of_api(objects.server, EndpointsApi::Endpoints, Encoding::Protobuf);
    watcher.until("Endpoints in sync", |events| events.contains(&SourceEvent::InSync(ObjectKind::Endpoints)));
    assert_eq!(changes(&watcher.events, "Endpoints legacy/web"), [true]);
    assert!(changes(&watcher.events, "legacy/web-1").is_empty());
    assert!(!watcher.events.contains(&SourceEvent::InSync(ObjectKind::EndpointSlice)));
}
