//! What the program answers over HTTP while it serves a real cluster.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ferrule_testkit::api_server::{ApiServer, or_skip};
use serde_json::{Value, json};

use crate::site::{NODE, PATIENCE, PODS, Page, Site, ip, within};

fn local() -> Value {
    json!({ "type": "LoadBalancer", "externalTrafficPolicy": "Local" })
}

fn weight(page: &Page) -> Option<&str> {
    page.header("x-load-balancing-endpoint-weight")
}

/// Row: server 8.9 #2-#5
/// Row: model H8, H10
#[test]
fn load_balancers_are_told_how_many_endpoints_are_here() {
    if !or_skip() {
        return;
    }
    let site = Site::new(ApiServer::shared(), "checks");
    let program = site.start(&["--nodeport-addresses=0.0.0.0/0"]);
    site.until_ready(&program);
    let made = ["kept", "removed", "filled"].map(|name| site.service(name, local()));
    site.slice("kept", &PODS);
    site.slice("removed", &PODS[..1]);
    let [kept, removed, filled] = &made;
    for made in &made {
        site.page_until(made.check_port, "/", |_| true);
    }
    let page = site.page_until(kept.check_port, "/whatever", |page| page.status == 200);
    let expected = "{\n\t\"service\": {\n\t\t\"namespace\": \"checks\",\n\t\t\"name\": \"kept\"\n\t},\n\t\"localEndpoints\": 3,\n\t\"serviceProxyHealthy\": true\n}";
    assert_eq!(page.body, expected);
    assert_eq!(weight(&page), Some("3"));
    assert_eq!(page.header("content-type"), Some("application/json"));
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    let page = site.page_until(filled.check_port, "/", |_| true);
    assert_eq!((page.status, weight(&page)), (503, Some("0")));
    let loopback = |address: IpAddr| site.get_at(SocketAddr::new(address, kept.check_port), "/");
    assert!(loopback(Ipv4Addr::LOCALHOST.into()).is_some(), "on every address");
    assert_eq!(loopback(Ipv6Addr::LOCALHOST.into()), None, "of the Service's families");

    site.delete(&format!("{}/removed", site.services()));
    // Under the same name, with another port.
    let moved = site.service("removed", local());
    site.slice("filled", &PODS[..2]);
    let added = site.service("added", local());
    site.page_until(filled.check_port, "/", |page| weight(page) == Some("2"));
    let page = site.page_until(added.check_port, "/", |_| true);
    assert_eq!((page.status, weight(&page)), (503, Some("0")));
    assert_eq!(site.page_until(kept.check_port, "/", |_| true).status, 200, "it keeps its count");
    site.page_until(moved.check_port, "/", |page| weight(page) == Some("1"));
    let gone = || site.get(removed.check_port, "/").is_none().then_some(());
    assert!(within(PATIENCE, gone).is_some(), "nobody listens any more");

    site.change_slice("kept", &[]);
    let page = site.page_until(kept.check_port, "/", |page| page.status == 503);
    assert_eq!(weight(&page), Some("0"));
}

/// Row: server 8.9 #7
/// Row: model H13
#[test]
fn checks_are_answered_where_node_ports_are() {
    if !or_skip() {
        return;
    }
    let site = Site::new(ApiServer::shared(), "loopback");
    let program = site.start(&["--nodeport-addresses=127.0.0.0/8"]);
    site.until_ready(&program);
    let web = site.service("web", local());
    let loopback = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), web.check_port);
    let page = within(PATIENCE, || site.get_at(loopback, "/")).expect("an answer");
    assert_eq!(page.status, 503);
    assert_eq!(site.get_at(SocketAddr::new(ip(NODE), web.check_port), "/"), None);
}

/// Row: server 8.8 #10-#13
#[test]
fn a_node_that_leaves_is_told_to_load_balancers_but_not_to_the_kubelet() {
    if !or_skip() {
        return;
    }
    let site = Site::new(ApiServer::shared(), "leaving");
    let _program = site.serve();
    let codes = || ["/healthz", "/livez"].map(|path| site.page_until(10256, path, |_| true).status);
    assert_eq!(codes(), [200, 200]);
    let taints = |key: &str| json!({ "spec": { "taints": [{ "key": key, "effect": "NoSchedule" }] } });
    let patch =
        |change: &Value| site.server.patch("/api/v1/nodes/leaving", change).expect("the Node changes");
    patch(&taints("another"));
    patch(&taints("ToBeDeletedByClusterAutoscaler"));
    let page = site.page_until(10256, "/healthz", |page| page.status == 503);
    assert!(page.body.contains(r#""nodeEligible":false,"healthy":true"#), "{}", page.body);
    let page = site.page_until(10256, "/livez", |_| true);
    assert_eq!(page.status, 200);
    assert!(!page.body.contains("nodeEligible"), "{}", page.body);
    patch(&json!({ "spec": { "taints": null } }));
    site.page_until(10256, "/healthz", |page| page.status == 200);
    patch(&json!({ "metadata": { "finalizers": ["test.example/stay"] } }));
    site.delete("/api/v1/nodes/leaving");
    site.page_until(10256, "/healthz", |page| page.status == 503);
    assert_eq!(codes(), [503, 200]);
    patch(&json!({ "metadata": { "finalizers": null } }));
}

/// Row: server 4.2
#[test]
fn the_metrics_port_has_kube_proxys_pages() {
    if !or_skip() {
        return;
    }
    let site = Site::new(ApiServer::shared(), "pages");
    let _program = site.serve();
    let get = |path: &str| site.page_until(10249, path, |_| true);
    assert_eq!(get("/proxyMode").body, "nftables");
    assert_eq!(get("/healthz").body, "ok");
    assert_eq!(get("/nowhere").status, 404);
    let configz: Value = serde_json::from_str(&get("/configz").body).expect("JSON");
    assert_eq!(configz["kubeproxy.config.k8s.io"]["mode"], "nftables");
    assert_eq!(configz["kubeproxy.config.k8s.io"]["hostnameOverride"], "pages");
    let slis = get("/metrics/slis").body;
    assert!(slis.contains("kubernetes_healthcheck{name=\"ping\",type=\"healthz\"} 1"), "{slis}");
    let metrics = get("/metrics").body;
    let asked = "rest_client_requests_total{code=\"200\",host=\"";
    for name in ["kubeproxy_sync_proxy_rules_duration_seconds_count", "process_start_time_seconds", asked] {
        assert!(metrics.contains(name), "no {name} in\n{metrics}");
    }
}
