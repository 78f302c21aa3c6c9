//! The objects of a world on a real API server: their JSON, and the requests that create or update them.

use std::collections::{BTreeMap, BTreeSet};

use ferrule_watch::api;
use serde_json::{Value, json};

use super::{ApiServer, ApiServerError};
use crate::World;

/// Objects by path.
pub type Objects = BTreeMap<String, Value>;

/// The Services and slices that a world states.
pub fn objects_of(world: &World) -> Objects {
    let (services, slices) = world.stated();
    let services =
        services.into_iter().map(|service| (path(&service.metadata, "services"), service_json(service)));
    let slices = slices.iter().map(|slice| (path(&slice.metadata, "endpointslices"), slice_json(slice)));
    services.chain(slices).collect()
}

impl ApiServer {
    /// Brings the objects of a test to the wanted state with as few requests as possible. Deletes first, so that addresses
    /// are free, and then creates or replaces what differs.
    pub fn bring_about(&self, there: &mut Objects, wanted: Objects) -> Result<(), ApiServerError> {
        let gone: Vec<String> = there.keys().filter(|path| !wanted.contains_key(*path)).cloned().collect();
        for path in gone {
            self.delete(&path)?;
            there.remove(&path);
        }
        let (services, others): (Vec<_>, Vec<_>) =
            wanted.into_iter().partition(|(path, _)| path.starts_with("/api/v1/"));
        for (path, object) in services.into_iter().chain(others) {
            match there.get(&path) {
                Some(known) if *known == object => continue,
                Some(_) => self.change(&path, &object)?,
                None => self.make(&path, &object)?,
            }
            there.insert(path, object);
        }
        Ok(())
    }

    /// Creates a Node with its status, replacing one of that name.
    pub fn put_node(&self, node: &api::Node) -> Result<(), ApiServerError> {
        let path = format!("/api/v1/nodes/{}", node.metadata.name);
        if self.get(&path).is_ok() {
            self.delete(&path)?;
        }
        self.create("/api/v1/nodes", &node_json(node))?;
        let addresses = node.status.addresses.iter();
        let addresses: Vec<Value> =
            addresses.map(|one| json!({ "type": one.kind, "address": one.address })).collect();
        self.patch(&format!("{path}/status"), &json!({ "status": { "addresses": addresses } })).map(drop)
    }

    /// Creates the Kubernetes namespaces that objects are in.
    pub fn make_namespaces_of(&self, objects: &Objects) -> Result<(), ApiServerError> {
        let names: BTreeSet<&str> =
            objects.values().filter_map(|object| object["metadata"]["namespace"].as_str()).collect();
        for name in names {
            if self.get(&format!("/api/v1/namespaces/{name}")).is_err() {
                self.create("/api/v1/namespaces", &json!({ "metadata": { "name": name } }))?;
            }
        }
        Ok(())
    }

    fn make(&self, path: &str, object: &Value) -> Result<(), ApiServerError> {
        let collection = path.rsplit_once('/').map_or(path, |(collection, _)| collection);
        self.create(collection, object)?;
        self.patch_status(path, object)
    }

    /// Some fields of a Service are immutable; if one differs, the Service is deleted and created again.
    fn change(&self, path: &str, object: &Value) -> Result<(), ApiServerError> {
        match self.replace(path, object) {
            Err(ApiServerError::Refused(refused)) if refused.status == 422 => {
                self.delete(path)?;
                self.make(path, object)
            }
            other => other.and_then(|_| self.patch_status(path, object)),
        }
    }

    fn patch_status(&self, path: &str, object: &Value) -> Result<(), ApiServerError> {
        let Some(status) = object.get("status") else { return Ok(()) };
        self.patch(&format!("{path}/status"), &json!({ "status": status })).map(drop)
    }
}

/// The path of a namespace's `services` or `endpointslices`.
pub fn objects_path(namespace: &str, kind: &str) -> String {
    let group = if kind == "services" { "/api/v1" } else { "/apis/discovery.k8s.io/v1" };
    format!("{group}/namespaces/{namespace}/{kind}")
}

fn path(metadata: &api::ObjectMeta, kind: &str) -> String {
    format!("{}/{}", objects_path(&metadata.namespace, kind), metadata.name)
}

fn service_json(service: &api::Service) -> Value {
    let api::Service { metadata, spec, status } = service;
    let is_balanced = spec.kind == "LoadBalancer";
    let mut wanted =
        json!({ "type": spec.kind, "ports": spec.ports.iter().map(port_json).collect::<Vec<_>>() });
    let mut set = |name: &str, value: Value, is_stated: bool| {
        if is_stated {
            wanted[name] = value;
        }
    };
    set("clusterIP", json!(spec.cluster_ip), !spec.cluster_ip.is_empty());
    set("clusterIPs", json!(spec.cluster_ips), !spec.cluster_ips.is_empty());
    set("ipFamilies", json!(spec.ip_families), !spec.cluster_ips.is_empty());
    let policy = if spec.ip_families.len() > 1 { "RequireDualStack" } else { "SingleStack" };
    set("ipFamilyPolicy", json!(policy), !spec.cluster_ips.is_empty());
    set("externalIPs", json!(spec.external_ips), !spec.external_ips.is_empty());
    let ranges = &spec.load_balancer_source_ranges;
    set("loadBalancerSourceRanges", json!(ranges), !ranges.is_empty());
    set(
        "externalTrafficPolicy",
        json!(spec.external_traffic_policy),
        !spec.external_traffic_policy.is_empty(),
    );
    set(
        "internalTrafficPolicy",
        json!(spec.internal_traffic_policy),
        !spec.internal_traffic_policy.is_empty(),
    );
    set("healthCheckNodePort", json!(spec.health_check_node_port), spec.health_check_node_port != 0);
    // Else the API server would make some up.
    let has_all_ports = spec.ports.iter().all(|port| port.node_port != 0);
    set("allocateLoadBalancerNodePorts", json!(false), is_balanced && !has_all_ports);
    set("sessionAffinity", json!(spec.session_affinity), !spec.session_affinity.is_empty());
    let seconds = spec.session_affinity_config.client_ip.timeout_seconds;
    set("sessionAffinityConfig", json!({ "clientIP": { "timeoutSeconds": seconds } }), seconds.is_some());
    let mut object = json!({
        "kind": "Service", "apiVersion": "v1",
        "metadata": { "name": metadata.name, "namespace": metadata.namespace },
        "spec": wanted,
    });
    if let Some(name) = &metadata.labels.service_proxy_name {
        object["metadata"]["labels"] = json!({ "service.kubernetes.io/service-proxy-name": name });
    }
    if is_balanced {
        let ingress: Vec<Value> = status.load_balancer.ingress.iter().map(ingress_json).collect();
        object["status"] = json!({ "loadBalancer": { "ingress": ingress } });
    }
    object
}

fn port_json(port: &api::ServicePort) -> Value {
    let mut json = json!({ "name": port.name, "port": port.port, "protocol": port.protocol });
    if port.node_port != 0 {
        json["nodePort"] = json!(port.node_port);
    }
    json
}

fn ingress_json(ingress: &api::LoadBalancerIngress) -> Value {
    json!({ "ip": ingress.ip, "ipMode": ingress.ip_mode.as_deref().unwrap_or("VIP") })
}

fn slice_json(slice: &api::EndpointSlice) -> Value {
    let api::EndpointSlice { metadata, address_type, ports, endpoints } = slice;
    let ports: Vec<Value> = ports
        .iter()
        .map(|port| json!({ "name": port.name, "protocol": port.protocol, "port": port.port }))
        .collect();
    json!({
        "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1",
        "metadata": {
            "name": metadata.name, "namespace": metadata.namespace,
            "labels": { "kubernetes.io/service-name": metadata.labels.service_name },
        },
        "addressType": address_type,
        "ports": ports,
        "endpoints": endpoints.iter().map(endpoint_json).collect::<Vec<_>>(),
    })
}

fn endpoint_json(endpoint: &api::Endpoint) -> Value {
    let api::Endpoint { addresses, conditions, node_name, hints } = endpoint;
    let names = |all: &[api::Named]| all.iter().map(|one| json!({ "name": one.name })).collect::<Vec<_>>();
    json!({
        "addresses": addresses,
        "nodeName": node_name,
        "conditions": {
            "ready": conditions.ready, "serving": conditions.serving, "terminating": conditions.terminating,
        },
        "hints": { "forZones": names(&hints.for_zones), "forNodes": names(&hints.for_nodes) },
    })
}

fn node_json(node: &api::Node) -> Value {
    let api::Node { metadata, spec, .. } = node;
    let taints: Vec<Value> =
        spec.taints.iter().map(|taint| json!({ "key": taint.key, "effect": "NoSchedule" })).collect();
    let labels = match &metadata.labels.zone {
        Some(zone) => json!({ "topology.kubernetes.io/zone": zone }),
        None => json!({}),
    };
    json!({
        "metadata": { "name": metadata.name, "labels": labels },
        "spec": { "podCIDR": spec.pod_cidrs.first(), "podCIDRs": spec.pod_cidrs, "taints": taints },
    })
}
