//! Converts Endpoints, the API that EndpointSlices replaced.

use ferrule_model::{
    Change, Conditions, Endpoint, EndpointSlice, IpFamily, NodeName, ObjectKind, Problem, ServiceName,
    canonical_endpoints,
};

use super::Converted;
use super::endpoint_slice::{ports, trigger_time};
use super::fields::{FieldReader, LinkLocal, Namespaced};
use crate::api;

/// The annotation's value if addresses were left out.
const TRUNCATED: &str = "truncated";
const NOT_READY: Conditions = Conditions { ready: false, serving: false, terminating: false };

/// Endpoints that were added or modified. They belong to the Service of the same name.
pub fn endpoints(object: &api::Endpoints, own_node: &NodeName) -> Converted {
    let metadata = &object.metadata;
    let mut reader = FieldReader::new(ObjectKind::Endpoints, metadata);
    if !reader.has_usable_name(metadata, Namespaced::Yes) {
        return Converted { change: None, diagnostics: reader.diagnostics };
    }
    let service = ServiceName::of(&metadata.namespace, &metadata.name);
    let labels = &metadata.labels;
    if labels.headless.is_some() || labels.service_proxy_name.is_some() {
        return Converted {
            change: Some(Change::Endpoints(service, Vec::new(), None)),
            diagnostics: Vec::new(),
        };
    }
    if is_truncated(metadata) {
        let field = "metadata.annotations[endpoints.kubernetes.io/over-capacity]";
        reader.report(field, Problem::OverCapacity);
    }
    let mut subsets = Subsets { reader: &mut reader, service: &service, own_node };
    let mut slices = Vec::new();
    for (index, subset) in object.subsets.iter().enumerate() {
        slices.extend(subsets.convert(index, subset));
    }
    let trigger = if slices.is_empty() { None } else { trigger_time(&mut reader, metadata) };
    Converted { change: Some(Change::Endpoints(service, slices, trigger)), diagnostics: reader.diagnostics }
}

/// Endpoints that were deleted.
pub fn endpoints_deleted(metadata: &api::ObjectMeta) -> Converted {
    let usable = FieldReader::new(ObjectKind::Endpoints, metadata).has_usable_name(metadata, Namespaced::Yes);
    let service = ServiceName::of(&metadata.namespace, &metadata.name);
    let change = usable.then(|| Change::Endpoints(service, Vec::new(), None));
    Converted { change, diagnostics: Vec::new() }
}

/// Whether the object holds only some of the Service's endpoints.
pub(crate) fn is_truncated(metadata: &api::ObjectMeta) -> bool {
    metadata.annotations.over_capacity.as_deref() == Some(TRUNCATED)
}

struct Subsets<'a> {
    reader: &'a mut FieldReader,
    service: &'a ServiceName,
    own_node: &'a NodeName,
}

impl Subsets<'_> {
    /// One slice for each family the subset has addresses of.
    fn convert(&mut self, index: usize, subset: &api::EndpointSubset) -> Vec<EndpointSlice> {
        let prefix = format!("subsets[{index}].");
        let mut endpoints = Vec::with_capacity(subset.addresses.len() + subset.not_ready_addresses.len());
        // An address that is in both lists is not ready: of duplicates the last one stays.
        self.read(&prefix, "addresses", &subset.addresses, &mut endpoints);
        let ready = endpoints.len();
        self.read(&prefix, "notReadyAddresses", &subset.not_ready_addresses, &mut endpoints);
        endpoints[ready..].iter_mut().for_each(|endpoint| endpoint.conditions = NOT_READY);

        // The port of a Service with one port may have no name.
        let named = |port: &api::EndpointPort| api::EndpointPort {
            name: Some(port.name.clone().unwrap_or_default()),
            ..port.clone()
        };
        let named: Vec<_> = subset.ports.iter().map(named).collect();
        let ports = ports(self.reader, &prefix, &named);
        let (v4, v6): (Vec<_>, Vec<_>) =
            endpoints.into_iter().partition(|endpoint| IpFamily::of(endpoint.ip) == IpFamily::V4);
        let slices = [(IpFamily::V4, v4), (IpFamily::V6, v6)].into_iter();
        let slices = slices.filter(|(_, endpoints)| !endpoints.is_empty());
        let slice = |(family, endpoints)| EndpointSlice {
            service: self.service.clone(),
            family,
            ports: ports.clone(),
            endpoints: canonical_endpoints(endpoints),
        };
        slices.map(slice).collect()
    }

    fn read(
        &mut self,
        prefix: &str,
        list: &str,
        addresses: &[api::EndpointAddress],
        endpoints: &mut Vec<Endpoint>,
    ) {
        for (index, address) in addresses.iter().enumerate() {
            let field = || format!("{prefix}{list}[{index}].ip");
            let Some(ip) = self.reader.service_ip(field, &address.ip, LinkLocal::Rejected) else { continue };
            let node = address.node_name.as_deref().unwrap_or_default();
            let is_local = !node.is_empty() && node == self.own_node.as_str();
            endpoints.push(Endpoint { ip, conditions: Conditions::READY, is_local, hints: None });
        }
    }
}
