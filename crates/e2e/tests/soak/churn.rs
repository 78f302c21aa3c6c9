//! What the cluster does to itself: rollouts, new Services, Services that go, a node that changes its zone.

use std::collections::BTreeSet;
use std::time::Duration;

use ferrule_testkit::Draw;
use ferrule_testkit::api_server::objects_path;
use serde_json::{Value, json};

use crate::Run;
use crate::site::{API, LOCAL, NODE_NAME, NODE_PORT, REMOTE, Site, VIP, WEB};

const EVERY: Duration = Duration::from_millis(20);
/// Services that come and go.
const OTHERS: u64 = 200;
const USED: [&str; 2] = ["web", "api"];

pub struct Churn {
    draw: Draw,
    there: BTreeSet<u64>,
    changes: usize,
}

impl Churn {
    pub fn new() -> Self {
        Self { draw: Draw::of(1), there: BTreeSet::new(), changes: 0 }
    }

    /// The Services that clients use, and half of the others.
    pub fn fill(&mut self, site: &Site) {
        let web = json!({
            "metadata": { "name": "web" },
            "spec": {
                "type": "LoadBalancer", "clusterIP": WEB,
                "ports": [{ "name": "http", "port": 80, "nodePort": NODE_PORT }],
            },
        });
        let api = json!({
            "metadata": { "name": "api" },
            "spec": { "clusterIP": API, "ports": [{ "name": "http", "port": 80 }] },
        });
        for service in [web, api] {
            site.server.create(&objects_path("default", "services"), &service).expect("a Service");
        }
        let status = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": VIP, "ipMode": "VIP" }] } } });
        let web = format!("{}/web/status", objects_path("default", "services"));
        site.server.patch(&web, &status).expect("an address");
        for name in USED {
            let slice = slice(name, &self.endpoints());
            site.server.create(&objects_path("default", "endpointslices"), &slice).expect("a slice");
        }
        for number in 0..OTHERS / 2 {
            self.come(site, number);
        }
    }

    /// Changes something again and again; how often the API server took it.
    pub fn go_on(mut self, site: &Site, run: &Run) -> usize {
        self.changes = 0;
        while run.goes_on() {
            self.change(site);
            run.pause(EVERY);
        }
        self.changes
    }

    /// While the API server is away nothing comes of it, as for anybody.
    fn change(&mut self, site: &Site) {
        match self.draw.below(10) {
            0..5 => {
                let name = *self.draw.one_of(&USED);
                self.move_endpoints(site, name);
            }
            5 | 6 => {
                let number = self.draw.below(OTHERS);
                if self.there.contains(&number) { self.go(site, number) } else { self.come(site, number) }
            }
            7 | 8 => {
                let number = self.draw.below(OTHERS);
                if self.there.contains(&number) {
                    self.move_endpoints(site, &format!("other-{number}"));
                }
            }
            _ => {
                let zone = *self.draw.one_of(&["zone-a", "zone-b"]);
                let change = json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": zone } } });
                let done = site.server.patch(&format!("/api/v1/nodes/{NODE_NAME}"), &change);
                self.changes += usize::from(done.is_ok());
            }
        }
    }

    fn move_endpoints(&mut self, site: &Site, name: &str) {
        let change = json!({ "endpoints": self.endpoints() });
        let path = format!("{}/{name}-a", objects_path("default", "endpointslices"));
        self.changes += usize::from(site.server.patch(&path, &change).is_ok());
    }

    fn come(&mut self, site: &Site, number: u64) {
        let name = format!("other-{number}");
        let service = json!({
            "metadata": { "name": name },
            "spec": { "clusterIP": format!("10.96.71.{}", number + 1), "ports": [{ "name": "http", "port": 80 }] },
        });
        if site.server.create(&objects_path("default", "services"), &service).is_ok() {
            let slice = slice(&name, &self.endpoints());
            self.changes +=
                usize::from(site.server.create(&objects_path("default", "endpointslices"), &slice).is_ok());
            self.there.insert(number);
        }
    }

    fn go(&mut self, site: &Site, number: u64) {
        let path = |kind: &str, end: &str| format!("{}/other-{number}{end}", objects_path("default", kind));
        if site.server.delete(&path("services", "")).is_ok() {
            let _ = site.server.delete(&path("endpointslices", "-a"));
            self.changes += 1;
            self.there.remove(&number);
        }
    }

    /// Some pods, at least one of them ready, some about to go.
    fn endpoints(&mut self) -> Value {
        let all = [LOCAL, REMOTE].concat();
        let sure = *self.draw.one_of(&all);
        let others = self.draw.some_of(&all, 5);
        let mut endpoints = vec![endpoint(sure, "ready", None)];
        let is_hinted = self.draw.chance(3);
        for other in others.into_iter().filter(|other| *other != sure) {
            let state = *self.draw.one_of(&["ready", "ready", "ready", "terminating", "notReady"]);
            let zone = is_hinted.then(|| *self.draw.one_of(&["zone-a", "zone-b"]));
            endpoints.push(endpoint(other, state, zone));
        }
        json!(endpoints)
    }
}

fn endpoint(address: &str, state: &str, zone: Option<&str>) -> Value {
    let node = if LOCAL.contains(&address) { NODE_NAME } else { "elsewhere" };
    let mut endpoint = json!({
        "addresses": [address], "nodeName": node,
        "conditions": {
            "ready": state == "ready", "serving": state != "notReady", "terminating": state == "terminating",
        },
    });
    if let Some(zone) = zone {
        endpoint["hints"] = json!({ "forZones": [{ "name": zone }] });
    }
    endpoint
}

fn slice(service: &str, endpoints: &Value) -> Value {
    json!({
        "metadata": {
            "name": format!("{service}-a"), "labels": { "kubernetes.io/service-name": service },
        },
        "addressType": "IPv4", "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
        "endpoints": endpoints,
    })
}
