//! What the API server fills in when an object is created, as far as a proxy reads it.
//!
//! It never allocates: an object that needs an address or port of the server's choice goes without.

use crate::api;

const NAMESPACE: &str = "default";

/// A namespace, and cluster IPs in both of their forms.
pub(super) fn service(object: &mut api::Service) {
    in_a_namespace(&mut object.metadata);
    let spec = &mut object.spec;
    if spec.cluster_ip.is_empty() {
        spec.cluster_ip = spec.cluster_ips.first().cloned().unwrap_or_default();
    } else if spec.cluster_ips.is_empty() {
        spec.cluster_ips = vec![spec.cluster_ip.clone()];
    }
    // A family that cannot be told from its address is left to the converter, which says so.
    if spec.ip_families.is_empty() && spec.cluster_ips.len() > 1 {
        let family = |text: &String| if text.contains(':') { "IPv6" } else { "IPv4" };
        spec.ip_families = spec.cluster_ips.iter().map(|text| family(text).to_string()).collect();
    }
}

/// A namespace, and the empty name of the one port that needs none.
pub(super) fn endpoint_slice(object: &mut api::EndpointSlice) {
    in_a_namespace(&mut object.metadata);
    for port in &mut object.ports {
        port.name.get_or_insert_default();
    }
}

fn in_a_namespace(metadata: &mut api::ObjectMeta) {
    if metadata.namespace.is_empty() {
        metadata.namespace = NAMESPACE.into();
    }
}
