//! The API server's defaults for new objects, as far as a proxy uses them.
//!
//! Allocates nothing: addresses and ports that the API server would choose stay empty.

use crate::api;

const DEFAULT_NAMESPACE: &str = "default";

/// Sets the namespace, and cluster IPs in both the singular and the plural field.
pub(super) fn service(object: &mut api::Service) {
    default_namespace(&mut object.metadata);
    let spec = &mut object.spec;
    if spec.cluster_ip.is_empty() {
        spec.cluster_ip = spec.cluster_ips.first().cloned().unwrap_or_default();
    } else if spec.cluster_ips.is_empty() {
        spec.cluster_ips = vec![spec.cluster_ip.clone()];
    }
    // An address that cannot be parsed is left to the converter, which reports it.
    if spec.ip_families.is_empty() && spec.cluster_ips.len() > 1 {
        let family = |text: &String| if text.contains(':') { "IPv6" } else { "IPv4" };
        spec.ip_families = spec.cluster_ips.iter().map(|text| family(text).to_string()).collect();
    }
}

/// Sets the namespace, and an empty name for ports without one.
pub(super) fn endpoint_slice(object: &mut api::EndpointSlice) {
    default_namespace(&mut object.metadata);
    for port in &mut object.ports {
        port.name.get_or_insert_default();
    }
}

/// Sets the namespace. Ports without a name are the converter's business.
pub(super) fn endpoints(object: &mut api::Endpoints) {
    default_namespace(&mut object.metadata);
}

fn default_namespace(metadata: &mut api::ObjectMeta) {
    if metadata.namespace.is_empty() {
        metadata.namespace = DEFAULT_NAMESPACE.into();
    }
}
