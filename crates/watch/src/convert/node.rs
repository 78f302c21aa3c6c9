//! Converts this Node.

use ferrule_model::{Change, Node, NodeAddressKind, ObjectKind, Zone, host_ips};

use super::Converted;
use super::fields::FieldReader;
use crate::api;

/// The taint the cluster autoscaler puts on a node it is about to remove.
const ABOUT_TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";

/// The Node this proxy runs on. Its name is not checked: the caller selected the object by it.
pub fn node(object: &api::Node) -> Converted {
    let mut reader = FieldReader::new(ObjectKind::Node, &object.metadata);
    let addresses = object.status.addresses.iter().enumerate();
    let addresses: Vec<_> = addresses
        .filter_map(|(index, address)| Some((kind(&address.kind)?, index, &address.address)))
        .filter_map(|(kind, index, text)| {
            Some((kind, reader.ip(|| format!("status.addresses[{index}].address"), text)?))
        })
        .collect();
    let pod_cidrs = object.spec.pod_cidrs.iter().enumerate();
    let node = Node {
        host_ips: host_ips(&addresses),
        pod_cidrs: pod_cidrs
            .filter_map(|(index, text)| reader.cidr(|| format!("spec.podCIDRs[{index}]"), text))
            .collect(),
        zone: object.metadata.labels.zone.as_deref().map(Zone::new),
        leaving: object.metadata.deletion_timestamp.is_some()
            || object.spec.taints.iter().any(|taint| taint.key == ABOUT_TO_BE_DELETED),
    };
    Converted { change: Some(Change::Node(Some(node))), diagnostics: reader.diagnostics }
}

fn kind(text: &str) -> Option<NodeAddressKind> {
    match text {
        "InternalIP" => Some(NodeAddressKind::Internal),
        "ExternalIP" => Some(NodeAddressKind::External),
        _ => None,
    }
}
