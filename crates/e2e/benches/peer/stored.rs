//! Objects as the API server's store holds them: complete, with all that the API server would have filled in.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use crate::cluster::{PORT, cluster_ip, slice as slice_of};

/// Any time will do.
const CREATED: &str = "2026-01-01T00:00:00Z";

/// A Service, with its key.
pub fn service(nth: usize) -> (String, Value) {
    let (name, ip) = (format!("service-{nth}"), cluster_ip(nth).ip());
    let value = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": metadata(&name, 1, nth),
        "spec": {
            "type": "ClusterIP", "clusterIP": ip, "clusterIPs": [ip], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
            "ports": [{ "name": "http", "port": 80, "targetPort": PORT, "protocol": "TCP" }],
        },
        "status": { "loadBalancer": {} },
    });
    (format!("/registry/services/specs/default/{name}"), value)
}

/// The address of a Service as the API server keeps account of it; one without is repaired, which would keep it busy.
pub fn ip_address(nth: usize) -> (String, Value) {
    let ip = cluster_ip(nth).ip().to_string();
    let mut metadata = metadata(&ip, 2, nth);
    metadata["namespace"].take();
    metadata["labels"] = json!({
        "ipaddress.kubernetes.io/ip-family": "IPv4",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    });
    let parent = json!({ "resource": "services", "namespace": "default", "name": format!("service-{nth}") });
    let value = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": metadata, "spec": { "parentRef": parent },
    });
    (format!("/registry/ipaddresses/{ip}"), value)
}

/// The endpoints of a Service, with their key.
pub fn slice(nth: usize, endpoints: &[Ipv4Addr]) -> (String, Value) {
    let mut value = slice_of(nth, endpoints);
    let name = format!("service-{nth}-a");
    let labels = value["metadata"]["labels"].take();
    value["apiVersion"] = "discovery.k8s.io/v1".into();
    value["kind"] = "EndpointSlice".into();
    value["metadata"] = metadata(&name, 3, nth);
    value["metadata"]["labels"] = labels;
    (format!("/registry/endpointslices/default/{name}"), value)
}

fn metadata(name: &str, kind: usize, nth: usize) -> Value {
    json!({
        "name": name, "namespace": "default", "creationTimestamp": CREATED,
        "uid": format!("{kind:08x}-0000-4000-8000-{nth:012x}"),
        "managedFields": [{
            "manager": "bench", "operation": "Update", "apiVersion": "v1", "time": CREATED,
            "fieldsType": "FieldsV1", "fieldsV1": managed_fields(),
        }],
    })
}

/// Who set which field, which every object brings along and no proxy reads.
fn managed_fields() -> Value {
    let port = json!({ ".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {} });
    let ports = json!({ ".": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}": port });
    json!({
        "f:metadata": { "f:labels": { ".": {}, "f:kubernetes.io/service-name": {} } },
        "f:spec": { "f:internalTrafficPolicy": {}, "f:ports": ports, "f:sessionAffinity": {}, "f:type": {} },
    })
}
