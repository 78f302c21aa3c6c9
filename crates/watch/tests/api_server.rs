//! A source against a real API server, with kube-proxy's permissions.

mod api_dsl;

use std::fs::Permissions;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicU8, Ordering};

use ferrule_model::{Change, ObjectKind};
use ferrule_testkit::api_server::{ApiServer, Authority, Options, User, Validity, kubeconfig_text, or_skip};
use ferrule_testkit::netns::Namespace;
use ferrule_watch::server::{ApiAccess, ApiError, Encoding, SourceEvent};
use serde_json::{Value, json};

use api_dsl::*;

/// Row: server 3.13
#[test]
fn all_there_is_of_a_kind_comes_before_its_word_that_it_is_in_sync() {
    if !or_skip() {
        return;
    }
    let objects = Objects::new(ApiServer::shared(), "first");
    objects.put_service("web");
    objects.put_slice("web-1", 2);
    objects.server.create("/api/v1/nodes", &node("first-node")).unwrap();
    let mut watcher = Watcher::new(objects.server, "first-node");
    watcher.in_sync();
    let reported = |kind, name: &str| {
        let at = watcher.events.iter().position(|event| *event == SourceEvent::InSync(kind)).unwrap();
        assert_eq!(changes(&watcher.events[..at], name), [true], "{name}");
    };
    reported(ObjectKind::Service, "first/web");
    reported(ObjectKind::EndpointSlice, "first/web-1");
    reported(ObjectKind::Node, "this node");
    reported(ObjectKind::ServiceCidr, "kubernetes");
    let words = watcher.events.iter().filter(|event| matches!(event, SourceEvent::InSync(_)));
    assert_eq!(words.count(), KINDS.len());
    assert!(!watcher.events.iter().any(|event| matches!(event, SourceEvent::WatchFailed { .. })));
}

#[test]
fn json_and_protobuf_say_the_same_of_objects_with_every_field() {
    if !or_skip() {
        return;
    }
    let server = ApiServer::start(Options::default()).unwrap();
    full_node(&server, "full-node");
    for (path, object) in full_objects() {
        server.create(path, &object).unwrap();
    }
    let status = json!({ "status": { "loadBalancer": { "ingress": [
        { "ip": "203.0.113.1" }, { "ip": "203.0.113.2", "ipMode": "Proxy" }, { "hostname": "lb.example" },
    ] } } });
    server.patch("/api/v1/namespaces/default/services/full/status", &status).unwrap();
    let reported = |encoding| {
        let mut watcher = Watcher::encoded(&server, "full-node", encoding);
        watcher.in_sync();
        assert!(watcher.log.contains(&format!("encoding={encoding:?}")));
        assert!(watcher.log.contains(&format!("strategy=Consistent encoding={encoding:?}")));
        let mut reported: Vec<String> = watcher
            .events
            .iter()
            .filter_map(|event| match event {
                SourceEvent::Changes(batch) => Some(batch),
                _ => None,
            })
            .flat_map(|batch| {
                let changes = batch.changes.iter().map(|change| format!("{change:?}"));
                changes.chain(batch.diagnostics.iter().map(|diagnostic| format!("{diagnostic:?}")))
            })
            .collect();
        reported.sort();
        reported
    };
    let (json, protobuf) = (reported(Encoding::Json), reported(Encoding::Protobuf));
    assert!(json.iter().any(|change| change.contains("203.0.113.1") && change.contains("4321")), "{json:#?}");
    assert!(
        json.iter().any(|change| change.contains("zone-a") && change.contains("10.244.7.0")),
        "{json:#?}"
    );
    assert_eq!(json, protobuf);
}

#[test]
fn every_creation_change_and_deletion_is_reported_once() {
    if !or_skip() {
        return;
    }
    let objects = Objects::new(ApiServer::shared(), "life");
    let server = objects.server;
    let mut watcher = Watcher::new(server, "life-node");
    watcher.in_sync();
    objects.put_service("web");
    objects.change_service("web");
    objects.delete_service("web");
    watcher.until_reported("life/web", 3);
    objects.put_slice("web-1", 1);
    let slice = format!("{}/web-1", objects.slices());
    server.patch(&slice, &json!({ "ports": [{ "port": 8081 }] })).unwrap();
    server.delete(&slice).unwrap();
    watcher.until_reported("life/web-1", 3);
    let cidr = json!({ "metadata": { "name": "life" }, "spec": { "cidrs": ["10.200.0.0/24"] } });
    server.create("/apis/networking.k8s.io/v1/servicecidrs", &cidr).unwrap();
    server.delete("/apis/networking.k8s.io/v1/servicecidrs/life").unwrap();
    watcher.until_reported("life", 2);
    server.create("/api/v1/nodes", &node("life-node")).unwrap();
    let zone = json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": "a" } } });
    server.patch("/api/v1/nodes/life-node", &zone).unwrap();
    server.delete("/api/v1/nodes/life-node").unwrap();
    watcher.until_reported("this node", 3);
    for name in ["life/web", "life/web-1", "this node"] {
        assert_eq!(changes(&watcher.events, name), [true, true, false], "{name}");
    }
    assert_eq!(changes(&watcher.events, "life"), [true, false]);
}

/// Row: server 3.13
#[test]
fn what_is_none_of_ours_is_not_even_sent() {
    if !or_skip() {
        return;
    }
    let objects = Objects::new(ApiServer::shared(), "foreign");
    let server = objects.server;
    let mut watcher = Watcher::new(server, "foreign-node");
    watcher.in_sync();
    let proxy = json!({ "service.kubernetes.io/service-proxy-name": "other" });
    let mut headless = service("headless");
    headless["spec"]["clusterIP"] = json!("None");
    let mut other = service("other");
    other["metadata"]["labels"] = proxy.clone();
    let mut slice = slice("headless", 1);
    slice["metadata"]["labels"]["service.kubernetes.io/headless"] = json!("");
    server.create(&objects.services(), &headless).unwrap();
    server.create(&objects.services(), &other).unwrap();
    server.create(&objects.slices(), &slice).unwrap();
    server.create("/api/v1/nodes", &node("another-node")).unwrap();
    objects.put_service("ours");
    objects.put_slice("ours-1", 1);
    // A Service that another proxy takes over is removed.
    let labels = json!({ "metadata": { "labels": proxy } });
    server.patch(&format!("{}/ours", objects.services()), &labels).unwrap();
    watcher.until_reported("foreign/ours", 2);
    watcher.until_reported("foreign/ours-1", 1);
    let history = history(&watcher.events, "foreign");
    let expected = [("foreign/ours".to_string(), vec![true, false]), ("foreign/ours-1".into(), vec![true])];
    assert_eq!(history, expected.into());
    assert!(changes(&watcher.events, "this node").is_empty());
}

#[test]
fn a_restarted_api_server_costs_nothing_that_happened_and_repeats_nothing() {
    if !or_skip() {
        return;
    }
    let server = ApiServer::start(Options::default()).unwrap();
    let objects = Objects::new(&server, "restart");
    objects.put_service("kept");
    objects.put_service("deleted");
    let mut watcher = Watcher::new(&server, "restart-node");
    watcher.in_sync();
    server.stop_api_server();
    for kind in KINDS {
        let message = watcher.until_failed(kind);
        assert!(message.contains("https://172.31.0.1:6443"), "{message}");
    }
    server.start_api_server().unwrap();
    objects.delete_service("deleted");
    objects.put_service("created");
    watcher.until_reported("restart/deleted", 2);
    watcher.until_reported("restart/created", 1);
    watcher.until("all to recover", |events| {
        KINDS.iter().all(|kind| events.contains(&SourceEvent::WatchRecovered { kind: *kind }))
    });
    let expected = [("created", vec![true]), ("deleted", vec![true, false]), ("kept", vec![true])];
    let expected = expected.map(|(name, reports)| (format!("restart/{name}"), reports));
    assert_eq!(history(&watcher.events, "restart"), expected.into());
    let log = watcher.log.visible();
    assert_eq!(log.len(), 2, "{log:#?}");
    assert!(log[0].contains("WARN") && log[1].contains("Watching the API server again"), "{log:#?}");
}

#[test]
fn where_the_past_is_forgotten_a_new_list_comes_in_one_piece() {
    if !or_skip() {
        return;
    }
    let server = ApiServer::start(Options::default()).unwrap();
    let objects = Objects::new(&server, "expired");
    for name in ["kept", "changed", "deleted"] {
        objects.put_service(name);
    }
    let cable = Cable::new(&server);
    let access = access(&server, "expired", &json!({ "token": User::KubeProxy.token() }));
    let mut watcher = Watcher::with(server.namespace(), through(access, &cable.url()), "expired-node");
    watcher.in_sync();
    cable.cut();
    watcher.until_failed(ObjectKind::Service);
    watcher.clear();
    objects.delete_service("deleted");
    objects.change_service("changed");
    objects.put_service("created");
    for nth in 0..MORE_THAN_A_CHUNK {
        objects.put_service(&format!("s{nth}"));
    }
    server.compact().unwrap();
    // Its cache would still have the old versions.
    server.stop_api_server();
    server.start_api_server().unwrap();
    cable.mend();
    watcher.until_reported("expired/created", 1);
    let mut reported = batches(&watcher.events)
        .map(|batch| batch.changes.iter().map(named).filter(|(name, _)| name.starts_with("expired/")))
        .map(|batch| batch.collect::<Vec<_>>())
        .find(|batch| !batch.is_empty())
        .unwrap();
    reported.sort();
    assert!(watcher.log.contains("expired, relisting"));
    let mut expected: Vec<_> = (0..MORE_THAN_A_CHUNK).map(|nth| (format!("s{nth}"), true)).collect();
    expected.extend([("changed".into(), true), ("created".into(), true), ("deleted".into(), false)]);
    expected.sort();
    assert_eq!(
        reported,
        expected.into_iter().map(|(name, there)| (format!("expired/{name}"), there)).collect::<Vec<_>>()
    );
}

#[test]
fn a_watch_that_is_cut_in_the_middle_of_an_event_misses_and_doubles_nothing() {
    if !or_skip() {
        return;
    }
    let objects = Objects::new(ApiServer::shared(), "cut");
    let cable = Cable::new(objects.server);
    let access = access(objects.server, "cut", &json!({ "token": User::KubeProxy.token() }));
    let mut watcher = Watcher::with(objects.server.namespace(), through(access, &cable.url()), "cut-node");
    watcher.in_sync();
    assert_eq!(cable.connections(), 1);
    cable.cut_after(60_000);
    objects.put_slice("large", 1000);
    watcher.until_reported("cut/large", 1);
    assert!(cable.connections() > 1);
    objects.put_slice("later", 1);
    watcher.until_reported("cut/later", 1);
    assert_eq!(changes(&watcher.events, "cut/large"), [true]);
    let endpoints =
        batches(&watcher.events).flat_map(|batch| &batch.changes).find_map(|change| match change {
            Change::Slice(name, Some(slice), _) if name.as_str() == "cut/large" => {
                Some(slice.endpoints.len())
            }
            _ => None,
        });
    assert_eq!(endpoints, Some(1000));
}

#[test]
fn a_rotated_token_is_used_from_the_next_request() {
    if !or_skip() {
        return;
    }
    let server = ApiServer::shared();
    let cable = Cable::new(server);
    let token = file(server, "rotating", "proxy-token\n");
    let access = access(server, "rotation", &json!({ "tokenFile": "rotating" }));
    let mut watcher = Watcher::with(server.namespace(), through(access, &cable.url()), "rotation-node");
    watcher.in_sync();
    std::fs::write(&token, "outdated\n").unwrap();
    cable.cut();
    cable.mend();
    // The first failure may be the cut itself.
    let is_refusal = |event: &SourceEvent| matches!(event, SourceEvent::WatchFailed { kind: ObjectKind::Service, message } if message.contains("401"));
    watcher.until("a refusal", |events| events.iter().any(is_refusal));
    let message = watcher.until_failed(ObjectKind::Service);
    assert!(message.contains("still valid"), "{message}");
    std::fs::write(&token, "proxy-token\n").unwrap();
    watcher.until("recovery", |events| {
        events.contains(&SourceEvent::WatchRecovered { kind: ObjectKind::Service })
    });
}

#[test]
fn a_forbidden_watch_names_the_missing_role() {
    if !or_skip() {
        return;
    }
    let server = ApiServer::shared();
    let access = access(server, "stranger", &json!({ "token": User::Stranger.token() }));
    let mut watcher = Watcher::with(server.namespace(), access, "stranger-node");
    let message = watcher.until_failed(ObjectKind::EndpointSlice);
    assert!(
        message.starts_with("listing EndpointSlices at https://172.31.0.1:6443/apis/discovery"),
        "{message}"
    );
    assert!(message.contains("403 Forbidden") && message.contains("system:node-proxier"), "{message}");
}

#[test]
fn an_expired_client_certificate_is_named_in_the_error() {
    if !or_skip() {
        return;
    }
    let server = ApiServer::shared();
    let with = |name: &str, validity| {
        let (certificate, key) = server.authority().unwrap().client("system:kube-proxy", validity).unwrap();
        file(server, &format!("{name}.crt"), &certificate);
        file(server, &format!("{name}.key"), &key);
        let user =
            json!({ "client-certificate": format!("{name}.crt"), "client-key": format!("{name}.key") });
        Watcher::with(server.namespace(), access(server, name, &user), "certificate-node")
    };
    with("current", Validity::Current).in_sync();
    let message = with("outdated", Validity::Expired).until_failed(ObjectKind::Service);
    assert!(message.contains("client certificate"), "{message}");
}

#[test]
fn a_plugin_is_asked_for_the_token() {
    if !or_skip() {
        return;
    }
    let server = ApiServer::shared();
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": { "token": User::KubeProxy.token() },
    });
    let path = file(server, "plugin", &format!("#!/bin/sh\necho '{credential}'\n"));
    std::fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
    let plugin = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", "interactiveMode": "Never",
    });
    let access = access(server, "with-plugin", &json!({ "exec": plugin }));
    Watcher::with(server.namespace(), access, "plugin-node").in_sync();
}

#[test]
fn the_kubeconfigs_proxy_is_the_way_to_the_api_server() {
    if !or_skip() {
        return;
    }
    let server = ApiServer::shared();
    let cable = Cable::tunnel(server);
    let path = server.kubeconfig(User::KubeProxy).unwrap();
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    config["clusters"][0]["cluster"]["proxy-url"] = json!(cable.url().replace("https", "http"));
    let path = file(server, "with-proxy", &config.to_string());
    let access = ApiAccess::Kubeconfig { path, master: None };
    Watcher::with(server.namespace(), access, "proxied-node").in_sync();
    assert_eq!(cable.connections(), 1);
}

#[test]
fn an_api_server_of_another_authority_is_not_trusted() {
    if !or_skip() {
        return;
    }
    let server = ApiServer::shared();
    let ca = file(server, "other.crt", &Authority::new().unwrap().pem());
    let user = json!({ "token": User::KubeProxy.token() });
    let text = kubeconfig_text(&server.url(), &ca, &user);
    let path = file(server, "distrust", &text);
    let access = ApiAccess::Kubeconfig { path, master: None };
    let mut watcher = Watcher::with(server.namespace(), access, "distrust-node");
    let message = watcher.until_failed(ObjectKind::Service);
    assert!(message.contains("certificate-authority"), "{message}");
    // Once the file has the right one, the source recovers on its own.
    std::fs::write(&ca, std::fs::read(server.ca_file()).unwrap()).unwrap();
    watcher.in_sync();
}

#[test]
fn a_closed_port_is_reported_and_retried() {
    if !or_skip() {
        return;
    }
    let server = ApiServer::shared();
    let access = access(server, "closed", &json!({}));
    let mut watcher =
        Watcher::with(server.namespace(), through(access, "https://127.0.0.1:9"), "closed-node");
    let message = watcher.until_failed(ObjectKind::Node);
    assert!(message.starts_with("watching this Node at https://127.0.0.1:9/api/v1/nodes: "), "{message}");
    assert!(message.contains("refused") && message.contains("is the API server running"), "{message}");
}

#[test]
fn an_api_server_without_streaming_lists_is_listed() {
    if !or_skip() {
        return;
    }
    let flags = vec!["--feature-gates=WatchList=false".to_string()];
    let server = ApiServer::start(Options { flags, ..Options::default() }).unwrap();
    hide_version(&server);
    let objects = Objects::new(&server, "plain");
    objects.put_service("kept");
    objects.put_service("deleted");
    let cable = Cable::new(&server);
    let access = access(&server, "plain", &json!({ "token": User::KubeProxy.token() }));
    let mut watcher = Watcher::with(server.namespace(), through(access, &cable.url()), "plain-node");
    watcher.in_sync();
    assert!(watcher.log.contains("kind=Service strategy=Cached encoding=Protobuf"));
    assert_eq!(cable.connections(), 1);
    objects.put_service("created");
    watcher.until_reported("plain/created", 1);
    cable.cut();
    watcher.until_failed(ObjectKind::Service);
    objects.delete_service("deleted");
    server.compact().unwrap();
    server.stop_api_server();
    server.start_api_server().unwrap();
    cable.mend();
    watcher.until_reported("plain/deleted", 2);
    let expected = [("created", vec![true]), ("deleted", vec![true, false]), ("kept", vec![true])];
    let expected = expected.map(|(name, reports)| (format!("plain/{name}"), reports));
    assert_eq!(history(&watcher.events, "plain"), expected.into());
}

#[test]
fn an_api_server_that_does_not_tell_its_version_is_asked_to_stream() {
    if !or_skip() {
        return;
    }
    let server = ApiServer::start(Options::default()).unwrap();
    hide_version(&server);
    let objects = Objects::new(&server, "unnamed");
    for nth in 0..MORE_THAN_A_CHUNK {
        objects.put_service(&format!("s{nth}"));
    }
    let access = access(&server, "unnamed", &json!({ "token": User::KubeProxy.token() }));
    let mut watcher = Watcher::with(server.namespace(), access, "unnamed-node");
    watcher.in_sync();
    assert!(!watcher.log.contains("Listing"), "nothing is listed");
    is_reported_in_chunks(&mut watcher, &objects);
}

#[test]
fn a_long_first_list_is_reported_while_it_arrives() {
    if !or_skip() {
        return;
    }
    let objects = Objects::new(ApiServer::shared(), "long");
    for nth in 0..MORE_THAN_A_CHUNK {
        objects.put_service(&format!("s{nth}"));
    }
    let mut watcher = Watcher::new(objects.server, "long-node");
    watcher.in_sync();
    assert!(watcher.log.contains("strategy=Consistent"));
    is_reported_in_chunks(&mut watcher, &objects);
}

#[test]
fn a_first_list_that_breaks_off_leaves_nothing_behind_that_is_gone_by_the_next() {
    if !or_skip() {
        return;
    }
    let server = ApiServer::start(Options::default()).unwrap();
    let objects = Objects::new(&server, "broken");
    let services = 3 * MORE_THAN_A_CHUNK;
    for nth in 0..services {
        objects.put_service(&format!("s{nth}"));
    }
    let cable = Cable::new(&server);
    // A Service takes between 0.5 and 1.5 KB: more than a chunk and less than the whole list arrives.
    cable.stall_after(400_000);
    let access = access(&server, "broken", &json!({ "token": User::KubeProxy.token() }));
    let mut watcher = Watcher::with(server.namespace(), through(access, &cable.url()), "broken-node");
    watcher.until("a chunk", |events| !history(events, "broken").is_empty());
    cable.cut();
    watcher.until_failed(ObjectKind::Service);
    let reported = history(&watcher.events, "broken");
    let gone = reported.keys().next().expect("a chunk was reported").clone();
    assert!(reported.len() < services && !watcher.events.contains(&SourceEvent::InSync(ObjectKind::Service)));
    objects.delete_service(gone.trim_start_matches("broken/"));
    cable.mend();
    watcher.in_sync();
    assert_eq!(watcher.log.count("Listing kind=Service strategy"), 1, "the next one is streamed");
    let reported = history(&watcher.events, "broken");
    assert_eq!(reported.len(), services);
    for (name, reported) in reported {
        let expected = if name == gone { vec![true, false] } else { vec![true] };
        assert_eq!(reported, expected, "{name}");
    }
}

/// Removes the permission to read the version from all users.
fn hide_version(server: &ApiServer) {
    for role in ["system:public-info-viewer", "system:discovery"] {
        let binding = format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{role}");
        server.delete(&binding).expect("it had one");
    }
}

/// More objects than one chunk of a list.
const MORE_THAN_A_CHUNK: usize = 300;

/// A long list is reported once, in several batches and before it is in sync; then the watch continues.
fn is_reported_in_chunks(watcher: &mut Watcher, objects: &Objects<'_>) {
    let complete = SourceEvent::InSync(ObjectKind::Service);
    let end = watcher.events.iter().position(|event| *event == complete).expect("it is complete");
    let reported: Vec<usize> = batches(&watcher.events[..end])
        .map(|batch| batch.changes.iter().filter(|change| matches!(change, Change::Service(..))).count())
        .filter(|services| *services > 0)
        .collect();
    assert!(reported.len() > 1, "{reported:?}");
    for nth in 0..MORE_THAN_A_CHUNK {
        let name = format!("{}/s{nth}", objects.namespace);
        assert_eq!(changes(&watcher.events[..end], &name), [true], "{name}");
    }
    objects.delete_service("s7");
    watcher.until_reported(&format!("{}/s7", objects.namespace), 2);
}

#[test]
fn everything_goes_through_one_connection() {
    if !or_skip() {
        return;
    }
    let server = ApiServer::shared();
    let home = Namespace::new("one connection").unwrap();
    server.join(&home, unused_address()).unwrap();
    let access = access(server, "one", &json!({ "token": User::KubeProxy.token() }));
    let mut watcher = Watcher::with(&home, access, "one-node");
    watcher.in_sync();
    let client = watcher.source.client();
    client.create(EVENTS, &event("one")).unwrap();
    // The file of the process would show the namespace of its first thread.
    let sockets = home.run(|| std::fs::read_to_string("/proc/thread-self/net/tcp")).unwrap().unwrap();
    let established = sockets.lines().filter(|line| line.split_whitespace().nth(3) == Some("01"));
    assert_eq!(established.count(), 1, "{sockets}");
    drop(watcher);
    let error = client.create(EVENTS, &event("late")).unwrap_err();
    assert!(error.is_transport(), "{error}");
}

const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

#[test]
fn objects_can_be_created_and_changed_and_a_rejection_differs_from_a_failure() {
    if !or_skip() {
        return;
    }
    let server = ApiServer::shared();
    let watcher = Watcher::new(server, "events-node");
    let client = watcher.source.client();
    client.create(EVENTS, &event("started")).unwrap();
    let series = json!({ "series": { "count": 2, "lastObservedTime": "2026-11-16T00:00:00.000000Z" } });
    client.patch(&format!("{EVENTS}/started"), &series).unwrap();
    assert_eq!(server.get(&format!("{EVENTS}/started")).unwrap()["series"]["count"], 2);
    match client.create("/api/v1/namespaces/default/pods", &json!({})).unwrap_err() {
        ApiError::Rejected { status: 403, .. } => {}
        other => panic!("{other}"),
    }
}

fn full_node(server: &ApiServer, name: &str) {
    let node = json!({
        "metadata": { "name": name, "labels": { "topology.kubernetes.io/zone": "zone-a", "a": "b" } },
        "spec": {
            "podCIDR": "10.244.7.0/24", "podCIDRs": ["10.244.7.0/24", "fd00:7::/64"],
            "taints": [{ "key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule" }],
        },
    });
    server.create("/api/v1/nodes", &node).expect("a Node");
    let addresses = json!([
        { "type": "InternalIP", "address": "192.0.2.7" }, { "type": "ExternalIP", "address": "198.51.100.7" },
        { "type": "InternalIP", "address": "2001:db8::7" }, { "type": "Hostname", "address": name },
    ]);
    server
        .patch(&format!("/api/v1/nodes/{name}/status"), &json!({ "status": { "addresses": addresses } }))
        .expect("its addresses");
}

/// A Service and two slices with every field set, and a Service with the minimum.
fn full_objects() -> [(&'static str, Value); 4] {
    let services = "/api/v1/namespaces/default/services";
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let service = json!({
        "metadata": { "name": "full", "labels": { "app": "full" }, "annotations": { "note": "none" } },
        "spec": {
            "type": "LoadBalancer", "ipFamilyPolicy": "RequireDualStack",
            "ports": [
                { "name": "http", "port": 80, "targetPort": 8080, "nodePort": 30111, "appProtocol": "http" },
                { "name": "dns", "port": 53, "protocol": "UDP", "targetPort": "dns", "nodePort": 30112 },
            ],
            "externalIPs": ["198.51.100.3"], "loadBalancerSourceRanges": ["203.0.113.0/24", "2001:db8::/32"],
            "sessionAffinity": "ClientIP", "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 4321 } },
            "externalTrafficPolicy": "Local", "internalTrafficPolicy": "Local", "healthCheckNodePort": 30113,
            "selector": { "app": "full" }, "trafficDistribution": "PreferClose",
        },
    });
    let plain = json!({ "metadata": { "name": "plain" }, "spec": { "ports": [{ "port": 1 }] } });
    let slice = json!({
        "metadata": {
            "name": "full-a",
            "labels": { "kubernetes.io/service-name": "full" },
            "annotations": { "endpoints.kubernetes.io/last-change-trigger-time": "2026-01-02T03:04:05.678Z" },
        },
        "addressType": "IPv4",
        "ports": [{ "name": "http", "port": 8080 }, { "name": "dns", "port": 5353, "protocol": "UDP" }],
        "endpoints": [
            {
                "addresses": ["10.244.7.5"], "nodeName": "full-node", "zone": "zone-a", "hostname": "one",
                "conditions": { "ready": true, "serving": true, "terminating": false },
                "hints": { "forZones": [{ "name": "zone-a" }, { "name": "zone-b" }], "forNodes": [{ "name": "full-node" }] },
            },
            { "addresses": ["10.244.8.5"], "conditions": { "ready": false, "serving": true, "terminating": true } },
            { "addresses": ["10.244.9.5"] },
        ],
    });
    let slice_v6 = json!({
        "metadata": { "name": "full-b", "labels": { "kubernetes.io/service-name": "full" } },
        "addressType": "IPv6", "ports": [{ "name": "", "port": 9090 }],
        "endpoints": [{ "addresses": ["fd00:7::5"], "conditions": {}, "nodeName": "full-node" }],
    });
    [(services, service), (services, plain), (slices, slice), (slices, slice_v6)]
}

fn event(name: &str) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "default" }, "eventTime": "2026-11-16T00:00:00.000000Z",
        "reportingController": "kube-proxy", "reportingInstance": "kube-proxy-test", "action": "StartKubeProxy",
        "reason": "Starting", "type": "Normal", "regarding": { "kind": "Node", "name": "n", "apiVersion": "v1" },
    })
}

fn unused_address() -> Ipv4Addr {
    static LAST: AtomicU8 = AtomicU8::new(1);
    Ipv4Addr::new(172, 31, 1, LAST.fetch_add(1, Ordering::Relaxed))
}
