//! Random clusters as API objects: a few Services of all kinds, and their endpoints.

use ferrule_testkit::Draw;
use serde_json::{Value, json};

/// Some Services with their slices. No two ask for the same address or port.
pub struct Cluster {
    draw: Draw,
    services: Vec<Value>,
    slices: Vec<Value>,
}

impl Cluster {
    pub fn random(seed: u64) -> Self {
        let mut cluster = Self { draw: Draw::of(seed), services: Vec::new(), slices: Vec::new() };
        for number in 0..=cluster.draw.below(5) {
            cluster.add(number + 1);
        }
        cluster
    }

    pub fn objects(&self) -> Vec<Value> {
        self.services.iter().chain(&self.slices).cloned().collect()
    }

    pub fn slices(&self) -> Vec<Value> {
        self.slices.clone()
    }

    pub fn text(&self) -> String {
        self.objects().iter().map(|object| format!("{object}\n")).collect::<Vec<_>>().concat()
    }

    /// Gives some slices other endpoints.
    pub fn change(&mut self) {
        let mut slices = std::mem::take(&mut self.slices);
        for slice in &mut slices {
            if self.draw.chance(6) {
                let family = if slice["addressType"] == "IPv6" { 6 } else { 4 };
                let number =
                    slice["metadata"]["labels"]["number"].as_str().and_then(|text| text.parse().ok());
                slice["endpoints"] = self.endpoints(family, number.unwrap_or(1));
            }
        }
        self.slices = slices;
    }

    fn add(&mut self, number: u64) {
        let name = format!("svc-{number}");
        let kind = *self.draw.one_of(&["ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer"]);
        let families = *self.draw.one_of(&["4", "4", "6", "46"]);
        let ports = self.ports(kind, number);
        let mut spec = json!({ "type": kind, "ports": ports });
        addresses(&mut spec, families, number);
        if self.draw.chance(3) {
            spec["sessionAffinity"] = json!("ClientIP");
            spec["sessionAffinityConfig"] = json!({ "clientIP": { "timeoutSeconds": 60 + number } });
        }
        spec["internalTrafficPolicy"] = json!(if self.draw.chance(3) { "Local" } else { "Cluster" });
        if kind != "ClusterIP" {
            spec["externalTrafficPolicy"] = json!(if self.draw.chance(5) { "Local" } else { "Cluster" });
        }
        if self.draw.chance(3) && families != "6" {
            spec["externalIPs"] = json!([format!("198.51.100.{number}"), format!("2001:db8:1::{number}")]);
        }
        let mut service = json!({ "kind": "Service", "metadata": { "name": name }, "spec": spec });
        if kind == "LoadBalancer" {
            self.load_balancer(&mut service, number);
        }
        for family in families.chars() {
            let slices = self.draw.below(3);
            for at in 0..slices {
                let slice = self.slice((&name, number, at), if family == '6' { 6 } else { 4 }, &service);
                self.slices.push(slice);
            }
        }
        self.services.push(service);
    }

    fn ports(&mut self, kind: &str, number: u64) -> Vec<Value> {
        let count = 1 + self.draw.below(3);
        let names = if count == 1 && self.draw.chance(5) { [""; 3] } else { ["http", "dns", "dns-tcp"] };
        let mut ports = Vec::new();
        for (at, name) in (0..count).zip(names) {
            let protocol = if at == 1 { "UDP" } else { "TCP" };
            let mut port =
                json!({ "name": name, "port": 80 + at, "protocol": protocol, "targetPort": 8080 + at });
            if kind != "ClusterIP" {
                port["nodePort"] = json!(30_000 + number * 10 + at);
            }
            ports.push(port);
        }
        ports
    }

    fn load_balancer(&mut self, service: &mut Value, number: u64) {
        if self.draw.chance(5) {
            let all = ["192.0.2.0/24", "203.0.113.0/24", "10.0.0.0/8", "fd00::/64", "2001:db8::/32"];
            let ranges: Vec<&str> = all.into_iter().filter(|_| self.draw.chance(5)).collect();
            if !ranges.is_empty() {
                service["spec"]["loadBalancerSourceRanges"] = json!(ranges);
            }
        }
        let mode = if self.draw.chance(2) { "Proxy" } else { "VIP" };
        let mut ingress = vec![json!({ "ip": format!("203.0.113.{number}"), "ipMode": mode })];
        if self.draw.chance(4) {
            ingress.push(json!({ "ip": format!("2001:db8:2::{number}"), "ipMode": "VIP" }));
        }
        service["status"] = json!({ "loadBalancer": { "ingress": ingress } });
    }

    fn slice(&mut self, (name, number, at): (&str, u64, u64), family: u8, service: &Value) -> Value {
        let ports: Vec<Value> = service["spec"]["ports"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|port| json!({ "name": port["name"], "protocol": port["protocol"], "port": port["targetPort"] }))
            .collect();
        let endpoints = self.endpoints(family, number * 3 + at);
        json!({
            "kind": "EndpointSlice",
            "metadata": {
                "name": format!("{name}-{family}-{at}"),
                "labels": { "kubernetes.io/service-name": name, "number": (number * 3 + at).to_string() },
            },
            "addressType": if family == 6 { "IPv6" } else { "IPv4" },
            "ports": ports,
            "endpoints": endpoints,
        })
    }

    fn endpoints(&mut self, family: u8, number: u64) -> Value {
        let count = self.draw.below(5);
        let is_hinted = self.draw.chance(3);
        let mut endpoints = Vec::new();
        for at in 1..=count {
            let address =
                if family == 6 { format!("fd44::{number}:{at}") } else { format!("10.244.{number}.{at}") };
            let state = *self.draw.one_of(&["ready", "ready", "ready", "unready", "serving", "ending"]);
            let mut endpoint = json!({
                "addresses": [address],
                "nodeName": *self.draw.one_of(&["peer-0", "peer-1", "peer-2", "peer-3"]),
                "conditions": {
                    "ready": state == "ready",
                    "serving": matches!(state, "ready" | "serving"),
                    "terminating": matches!(state, "serving" | "ending"),
                },
            });
            if is_hinted {
                let zone = *self.draw.one_of(&["zone-a", "zone-a", "zone-b"]);
                endpoint["hints"] = json!({ "forZones": [{ "name": zone }] });
            }
            endpoints.push(endpoint);
        }
        json!(endpoints)
    }
}

fn addresses(spec: &mut Value, families: &str, number: u64) {
    let (v4, v6) = (format!("10.96.80.{number}"), format!("fd00:96::8:{number}"));
    let (ips, names) = match families {
        "4" => (vec![v4], vec!["IPv4"]),
        "6" => (vec![v6], vec!["IPv6"]),
        _ => (vec![v4, v6], vec!["IPv4", "IPv6"]),
    };
    spec["ipFamilyPolicy"] = json!(if ips.len() > 1 { "RequireDualStack" } else { "SingleStack" });
    spec["clusterIP"] = json!(ips[0]);
    spec["clusterIPs"] = json!(ips);
    spec["ipFamilies"] = json!(names);
}
