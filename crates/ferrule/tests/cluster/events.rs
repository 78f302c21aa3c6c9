//! Events that `kubectl get events` shows.

use std::net::TcpListener;

use ferrule_testkit::api_server::{ApiServer, or_skip};
use serde_json::{Value, json};

use crate::site::{PATIENCE, PODS, Site, within};

/// Waits for an Event about an object.
fn event(site: &Site, namespace: &str, (reason, about): (&str, &str)) -> Value {
    let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    let found = within(PATIENCE, || {
        let list = site.server.get(&path).ok()?;
        let mut events = list["items"].as_array()?.clone();
        events.retain(|event| event["reason"] == reason && event["regarding"]["name"] == about);
        events.pop()
    });
    assert!(found.is_some(), "no Event {reason} about {about}");
    found.unwrap_or_default()
}

/// Row: server 3.15
#[test]
fn a_start_is_told_and_what_the_kernel_refused() {
    if !or_skip() {
        return;
    }
    let site = Site::new(ApiServer::shared(), "telling");
    let program = site.serve();
    let starting = event(&site, "default", ("Starting", "telling"));
    assert_eq!(starting["action"], "StartKubeProxy");
    assert_eq!(starting["type"], "Normal");
    assert_eq!(starting["reportingController"], "kube-proxy");
    assert_eq!(starting["regarding"]["kind"], "Node");
    assert_eq!(starting.get("note"), None);
    let instance = starting["reportingInstance"].as_str().expect("an instance");
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    assert_eq!(instance, format!("kube-proxy-{host}"), "the host's own name, not the override");
    // A namespace that is not the host's may not set the limit of all.
    let untuned = event(&site, "default", ("FerruleKernelSettings", "telling"));
    assert!(untuned["note"].as_str().expect("a note").contains("nf_conntrack_max"), "{untuned}");
    let lines = program.log().iter().filter(|line| line.contains("Kernel settings stay as they are")).count();
    assert_eq!(lines, 1);
}

/// Row: server 3.15
#[test]
fn a_mode_that_nobody_chose_is_told() {
    if !or_skip() {
        return;
    }
    let site = Site::new(ApiServer::shared(), "unchosen");
    // The last one counts.
    let program = site.start(&["--proxy-mode="]);
    let told = event(&site, "default", ("KubeProxyDefaultMode", "unchosen"));
    assert_eq!((told["type"].as_str(), told["action"].as_str()), (Some("Warning"), Some("StartKubeProxy")));
    assert!(program.wait_for("no proxy mode is set", 0, PATIENCE).is_some(), "{}", program.log().join("\n"));
}

#[test]
fn what_cannot_be_served_is_told_about_the_service() {
    if !or_skip() {
        return;
    }
    let site = Site::new(ApiServer::shared(), "complaints");
    let _program = site.serve();
    let external = json!({ "externalIPs": ["203.0.113.77"] });
    site.service("first", external.clone());
    site.service("second", external);
    let taken = event(&site, "complaints", ("FerruleAddressTaken", "second"));
    assert_eq!(taken["type"], "Warning");
    assert_eq!(taken["regarding"]["kind"], "Service");
    assert!(taken["note"].as_str().expect("a note").contains("complaints/first"), "{taken}");
}

/// Row: server 3.15
#[test]
fn a_check_port_that_somebody_has_is_told() {
    if !or_skip() {
        return;
    }
    let site = Site::new(ApiServer::shared(), "occupied");
    let local = json!({ "type": "LoadBalancer", "externalTrafficPolicy": "Local" });
    let web = site.service("web", local);
    let taken = site.net.node().run(|| TcpListener::bind(("0.0.0.0", web.check_port)));
    let taken = taken.expect("the node").expect("the port");
    site.slice("web", &PODS[..1]);
    let program = site.serve();
    let told = event(&site, "occupied", ("FailedToStartServiceHealthcheck", "web"));
    assert_eq!(told["action"], "Listen");
    let note = told["note"].as_str().expect("a note");
    assert!(note.contains("occupied/web") && note.contains(&web.check_port.to_string()), "{note}");
    drop(taken);
    // Tried again at the next sync, whatever it is for.
    site.change_slice("web", &PODS[1..]);
    site.page_until(web.check_port, "/", |page| page.status == 200);
    drop(program);
}
