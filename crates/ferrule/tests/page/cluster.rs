//! A folder of manifests that looks like a cluster: some dozens of Services in every state, one of them with hostile names.

use std::fmt::Write as _;

/// Names as nobody would choose them who means well.
pub const HOSTILE: &str = "<img src=x onerror=hacked()>";
pub const HOSTILE_PORT: &str = "\"><script>hacked()</script>";
pub const HOSTILE_IP: &str = "<svg onload=hacked()>";

const TEAMS: [(&str, &[&str]); 6] = [
    ("billing", &["invoices", "ledger", "payments", "payments-db", "rates", "webhooks"]),
    ("identity", &["accounts", "audit", "sessions", "sessions-cache", "tokens"]),
    ("kube-system", &["kube-dns", "metrics-server"]),
    ("logistics", &["carriers", "geo", "labels", "routes", "tracking", "warehouse"]),
    ("monitoring", &["alertmanager", "grafana", "loki", "prometheus"]),
    (
        "shop",
        &[
            "basket",
            "catalog",
            "checkout",
            "frontend",
            "images",
            "recommendations",
            "reviews",
            "search",
            "search-index",
            "stock",
        ],
    ),
];

/// The Services of all teams, each with endpoints on some nodes.
pub fn manifests() -> String {
    let mut text = String::new();
    let mut number = 0_usize;
    for (namespace, names) in TEAMS {
        for name in names {
            number += 1;
            let endpoints = if *name == "labels" || *name == "audit" { 0 } else { 1 + number * 7 % 5 };
            text.push_str(&service(namespace, name, number));
            text.push_str(&slice(namespace, name, (number, endpoints)));
        }
    }
    text
}

/// So many Services without endpoints, to turn pages.
pub fn many(count: usize) -> String {
    (0..count).map(|number| service("many", &format!("number-{number:04}"), 1000 + number)).collect()
}

fn service(namespace: &str, name: &str, number: usize) -> String {
    let ip = format!("10.96.{}.{}", 1 + number / 200, 1 + number % 200);
    let mut more = String::new();
    match name {
        "frontend" => more
            .push_str("  type: LoadBalancer\n  externalTrafficPolicy: Local\n  healthCheckNodePort: 32080\n"),
        "grafana" => more.push_str("  type: NodePort\n"),
        "sessions" => more.push_str("  sessionAffinity: ClientIP\n"),
        // The older one has it.
        "carriers" | "tracking" => more.push_str("  externalIPs: [198.51.100.77]\n"),
        "rates" => more.push_str("  externalIPs: [\"198.51.100.300\"]\n"),
        _ => {}
    }
    let node_port = match name {
        "frontend" => ", nodePort: 30443",
        "grafana" => ", nodePort: 30300",
        _ => "",
    };
    let status =
        if name == "frontend" { "status: {loadBalancer: {ingress: [{ip: 203.0.113.80}]}}\n" } else { "" };
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: {namespace}, creationTimestamp: \
         \"2026-01-{:02}T10:00:00Z\"}}\nspec:\n  clusterIP: {ip}\n{more}  ports:\n  - {{name: http, port: 80, targetPort: \
         8080{node_port}}}\n{status}",
        1 + number % 28
    )
}

fn slice(namespace: &str, name: &str, (number, endpoints): (usize, usize)) -> String {
    if endpoints == 0 {
        return String::new();
    }
    let mut text = format!(
        "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: {name}-1, namespace: {namespace}, labels: \
         {{kubernetes.io/service-name: {name}}}}}\naddressType: IPv4\nports: [{{name: http, port: 8080}}]\nendpoints:\n"
    );
    for at in 0..endpoints {
        let node = if at % 3 == 0 { "node-a" } else { "node-b" };
        let subnet = if at % 3 == 0 { 1 } else { 2 };
        let conditions = match (number + at) % 9 {
            4 => "{ready: false, serving: true, terminating: true}",
            7 => "{ready: false}",
            _ => "{ready: true}",
        };
        let _ = writeln!(
            text,
            "- {{addresses: [10.244.{subnet}.{}], nodeName: {node}, conditions: {conditions}}}",
            10 + (number * 6 + at) % 240
        );
    }
    text
}

/// A Service whose name would do harm as markup, and one with a usable name whose fields would.
pub fn hostile() -> String {
    let service = |name: &str, (ip, port): (&str, &str)| {
        format!(
            "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: {name:?}\n  namespace: evil\nspec:\n  clusterIP: {ip}\n  \
             externalIPs: [{HOSTILE_IP:?}]\n  ports:\n  - {{name: {port:?}, port: 80}}\n  - {{name: fine, port: 81}}\n"
        )
    };
    service(HOSTILE, ("10.96.0.66", "http")) + &service("fields", ("10.96.0.67", HOSTILE_PORT))
}
