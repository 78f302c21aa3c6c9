//! What is created, changed and deleted in the cluster becomes what packets see.

use ferrule_testkit::api_server::{ApiServer, Options, Slices, or_skip};
use ferrule_testkit::netns::Seen;
use serde_json::json;

use crate::site::{ASKING_POD, CLIENT, COVERED, NODE, PODS, Site};

#[test]
fn an_empty_node_serves_what_comes_and_goes() {
    if !or_skip() {
        return;
    }
    let site = Site::new(ApiServer::shared(), "serving");
    let program = site.serve();
    let web = site.service("web", json!({}));
    site.ask_until(ASKING_POD, (&web.cluster_ip, 80), "a refusal", |seen| *seen == Seen::Refused);
    site.slice("web", &PODS[..1]);
    site.answered(ASKING_POD, &web.cluster_ip, 80, &PODS[..1]);
    site.answered(CLIENT, NODE, web.node_port, &PODS[..1]);

    site.change_slice("web", &PODS[1..2]);
    site.answered(ASKING_POD, &web.cluster_ip, 80, &PODS[1..2]);
    let port = json!({ "spec": { "ports": [{ "name": "http", "port": 81, "targetPort": 8080 }] } });
    site.server.patch(&format!("{}/web", site.services()), &port).expect("the Service is changed");
    site.answered(ASKING_POD, &web.cluster_ip, 81, &PODS[1..2]);

    site.delete(&format!("{}/web-1", site.slices()));
    site.ask_until(ASKING_POD, (&web.cluster_ip, 81), "a refusal", |seen| *seen == Seen::Refused);
    site.delete(&format!("{}/web", site.services()));
    site.ask_until(ASKING_POD, (&web.cluster_ip, 81), "nothing", |seen| *seen == Seen::Silent);
    assert!(program.terminate().expect("it ends").success());
}

/// Where the API server has no EndpointSlices, and where they are not wanted: the same packets, in every mode.
#[test]
fn endpoints_are_served_as_slices_are() {
    if !or_skip() {
        return;
    }
    let legacy = ApiServer::start(Options { slices: Slices::NotServed, ..Options::default() });
    let legacy = legacy.map_err(|error| error.with_sources()).expect("an API server");
    let without_slices = "--feature-gates=EndpointSliceProxying=false";
    let rows = [
        (&legacy, "legacy-nftables", &["--proxy-mode=nftables"][..]),
        (&legacy, "legacy-iptables", &["--proxy-mode=iptables"]),
        (&legacy, "legacy-userspace", &["--proxy-mode=userspace"]),
        (ApiServer::shared(), "asked-for", &["--proxy-mode=nftables", without_slices]),
    ];
    for (server, name, arguments) in rows {
        let site = Site::new(server, name);
        let program = site.start(arguments);
        site.until_ready(&program);
        let web = site.service("web", json!({}));
        let path = format!("/api/v1/namespaces/{name}/endpoints");
        let subset = |ready: &[&str], other: &[&str]| {
            let addresses = |ips: &[&str]| ips.iter().map(|ip| json!({ "ip": ip })).collect::<Vec<_>>();
            json!([{ "addresses": addresses(ready), "notReadyAddresses": addresses(other), "ports": [{ "name": "http", "port": 8080 }] }])
        };
        site.put(&path, &json!({ "metadata": { "name": "web" }, "subsets": subset(&PODS[..1], &PODS[1..]) }));
        site.answered(ASKING_POD, &web.cluster_ip, 80, &PODS[..1]);
        site.answered(CLIENT, NODE, web.node_port, &PODS[..1]);
        let other = json!({ "subsets": subset(&PODS[1..2], &PODS[..1]) });
        site.server.patch(&format!("{path}/web"), &other).expect("the Endpoints are changed");
        site.answered(ASKING_POD, &web.cluster_ip, 80, &PODS[1..2]);
        site.delete(&format!("{path}/web"));
        let is_refused = |seen: &Seen| matches!(seen, Seen::Refused | Seen::AcceptedThenReset);
        site.ask_until(ASKING_POD, (&web.cluster_ip, 80), "a refusal", is_refused);
        assert!(program.terminate().expect("it ends").success());
    }
}

#[test]
fn addresses_of_a_service_cidr_that_nobody_has_are_dropped() {
    if !or_skip() {
        return;
    }
    let site = Site::new(ApiServer::shared(), "blocks");
    let _program = site.serve();
    let is_answered = |seen: &Seen| matches!(seen, Seen::Answered { .. });
    site.ask_until(ASKING_POD, (COVERED, 80), "an answer", is_answered);
    let block = json!({ "metadata": { "name": "blocks" }, "spec": { "cidrs": ["10.200.7.0/24"] } });
    site.put("/apis/networking.k8s.io/v1/servicecidrs", &block);
    site.ask_until(ASKING_POD, (COVERED, 80), "nothing", |seen| *seen == Seen::Silent);
    site.delete("/apis/networking.k8s.io/v1/servicecidrs/blocks");
    site.ask_until(ASKING_POD, (COVERED, 80), "an answer", is_answered);
}

#[test]
fn node_ports_follow_the_addresses_of_the_node() {
    if !or_skip() {
        return;
    }
    let site = Site::new(ApiServer::shared(), "moving");
    let _program = site.serve();
    let web = site.service("web", json!({}));
    site.slice("web", &PODS);
    site.answered(CLIENT, NODE, web.node_port, &PODS);
    let second = "192.0.2.99";
    let added = site.net.node().feed("ip", &["address", "add", "192.0.2.99/32", "dev", "lo"], "");
    added.map_err(|error| error.with_sources()).expect("a second address");
    site.ask_until(ASKING_POD, (second, web.node_port), "no answer", |seen| *seen == Seen::Refused);
    let status = json!({ "status": { "addresses": [{ "type": "InternalIP", "address": second }] } });
    site.server.patch("/api/v1/nodes/moving/status", &status).expect("the Node is changed");
    site.answered(ASKING_POD, second, web.node_port, &PODS);
}

#[test]
fn a_restart_keeps_what_is_served() {
    if !or_skip() {
        return;
    }
    let site = Site::new(ApiServer::shared(), "again");
    let web = site.service("web", json!({}));
    site.slice("web", &PODS);
    let metric = |site: &Site, name: &str| -> f64 {
        let page = site.page_until(10249, "/metrics", |page| page.body.contains(name));
        let values = page.body.lines().filter(|line| line.starts_with(name));
        values.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
    };
    let program = site.serve();
    site.answered(ASKING_POD, &web.cluster_ip, 80, &PODS);
    assert!(metric(&site, "ferrule_initial_sync_objects_written") > 0.0);
    program.terminate().expect("it ends");
    // Other tests' objects come and go meanwhile, so only what our own part looks like can be compared.
    let elements = |site: &Site| {
        let listed = site.net.node().feed("nft", &["list", "map", "ip", "kube-proxy", "endpoints"], "");
        let text = String::from_utf8(listed.expect("nft").stdout).expect("text");
        let own = text.split([',', '}']).filter(|element| element.contains(&web.cluster_ip));
        own.map(|element| element.trim().to_owned()).collect::<Vec<_>>()
    };
    let before = elements(&site);
    assert!(!before.is_empty());
    let _program = site.serve();
    assert_eq!(elements(&site), before);
    site.answered(ASKING_POD, &web.cluster_ip, 80, &PODS);
}
