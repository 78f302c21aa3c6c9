//! Converts EndpointSlices.

use std::net::IpAddr;
use std::sync::Arc;

use ferrule_model::{
    Change, Conditions, Endpoint, EndpointSlice, Hints, IpFamily, NodeName, ObjectKind, PortName, Problem,
    ServiceName, SliceName, SlicePort, Timestamp, Zone, canonical_endpoints,
};

use super::Converted;
use super::fields::{FieldReader, LinkLocal, Namespaced};
use crate::api;

/// A slice that was added or modified. If it cannot be used, the change removes it, so that its previous state does not
/// stay in effect.
pub fn endpoint_slice(object: &api::EndpointSlice, own_node: &NodeName) -> Converted {
    let mut reader = FieldReader::new(ObjectKind::EndpointSlice, &object.metadata);
    if !reader.has_usable_name(&object.metadata, Namespaced::Yes) {
        return Converted { change: None, diagnostics: reader.diagnostics };
    }
    let name = SliceName::of(&object.metadata.namespace, &object.metadata.name);
    let slice =
        if object.metadata.labels.headless.is_some() { None } else { convert(&mut reader, object, own_node) };
    let trigger = slice.is_some().then(|| trigger_time(&mut reader, &object.metadata)).flatten();
    Converted { change: Some(Change::Slice(name, slice, trigger)), diagnostics: reader.diagnostics }
}

/// A slice that was deleted.
pub fn endpoint_slice_deleted(metadata: &api::ObjectMeta) -> Converted {
    let usable =
        FieldReader::new(ObjectKind::EndpointSlice, metadata).has_usable_name(metadata, Namespaced::Yes);
    let name = SliceName::of(&metadata.namespace, &metadata.name);
    Converted { change: usable.then_some(Change::Slice(name, None, None)), diagnostics: Vec::new() }
}

fn convert(
    reader: &mut FieldReader,
    object: &api::EndpointSlice,
    own_node: &NodeName,
) -> Option<EndpointSlice> {
    let family = family(reader, &object.address_type)?;
    let service = service_name(reader, &object.metadata)?;
    let ports = ports(reader, "", &object.ports);
    let endpoints = endpoints(reader, object, family, own_node);
    Some(EndpointSlice { service, family, ports, endpoints: canonical_endpoints(endpoints) })
}

fn family(reader: &mut FieldReader, address_type: &str) -> Option<IpFamily> {
    match address_type {
        "IPv4" => Some(IpFamily::V4),
        "IPv6" => Some(IpFamily::V6),
        _ => {
            reader.report("addressType", Problem::UnknownAddressType(address_type.to_string()));
            None
        }
    }
}

fn service_name(reader: &mut FieldReader, metadata: &api::ObjectMeta) -> Option<ServiceName> {
    const FIELD: &str = "metadata.labels[kubernetes.io/service-name]";
    match metadata.labels.service_name.as_deref() {
        None | Some("") => {
            reader.report(FIELD, Problem::Missing("the slice is ignored"));
            None
        }
        Some(name) => reader.is_usable_name(FIELD, name).then(|| ServiceName::of(&metadata.namespace, name)),
    }
}

pub(super) fn trigger_time(reader: &mut FieldReader, metadata: &api::ObjectMeta) -> Option<Timestamp> {
    let text = metadata.annotations.last_change_trigger_time.as_deref();
    reader.time("metadata.annotations[endpoints.kubernetes.io/last-change-trigger-time]", text)
}

/// The prefix is what comes before `ports` in the path of the field.
pub(super) fn ports(
    reader: &mut FieldReader,
    prefix: &str,
    objects: &[api::EndpointPort],
) -> Box<[SlicePort]> {
    let indexed = objects.iter().enumerate();
    let mut ports: Vec<SlicePort> = indexed
        .filter_map(|(index, object)| port(reader, &format!("{prefix}ports[{index}]"), object))
        .collect();
    ports.sort();
    ports.dedup();
    ports.into_boxed_slice()
}

fn port(reader: &mut FieldReader, at: &str, object: &api::EndpointPort) -> Option<SlicePort> {
    let field = |name: &str| format!("{at}.{name}");
    let Some(name) = object.name.as_deref() else {
        reader.report(field("name"), Problem::Missing("the port is ignored"));
        return None;
    };
    let name_is_usable = name.is_empty() || reader.is_usable_name(&field("name"), name);
    let protocol = reader.protocol(|| field("protocol"), object.protocol.as_deref().unwrap_or_default());
    let number = match object.port {
        None => {
            reader.report(field("port"), Problem::Missing("the port is ignored"));
            None
        }
        Some(number) => reader.port(|| field("port"), number),
    };
    let (protocol, number) = protocol.zip(number).filter(|_| name_is_usable)?;
    Some(SlicePort { name: PortName::new(name), protocol, number })
}

fn endpoints(
    reader: &mut FieldReader,
    object: &api::EndpointSlice,
    family: IpFamily,
    own_node: &NodeName,
) -> Vec<Endpoint> {
    let mut shared: Vec<Arc<Hints>> = Vec::new();
    let mut endpoints = Vec::with_capacity(object.endpoints.len());
    for (index, endpoint) in object.endpoints.iter().enumerate() {
        let Some(ip) = address(reader, index, endpoint, family) else { continue };
        let node = endpoint.node_name.as_deref().unwrap_or_default();
        endpoints.push(Endpoint {
            ip,
            conditions: conditions(&endpoint.conditions),
            is_local: !node.is_empty() && node == own_node.as_str(),
            hints: hints(&endpoint.hints, &mut shared),
        });
    }
    endpoints
}

/// Kubernetes ignores all but the first address of an endpoint.
fn address(
    reader: &mut FieldReader,
    index: usize,
    endpoint: &api::Endpoint,
    family: IpFamily,
) -> Option<IpAddr> {
    let field = || format!("endpoints[{index}].addresses");
    let Some(text) = endpoint.addresses.first() else {
        reader.report(field(), Problem::Missing("the endpoint is ignored"));
        return None;
    };
    let ip = reader.service_ip(|| format!("{}[0]", field()), text, LinkLocal::Rejected)?;
    if IpFamily::of(ip) != family {
        reader.report(format!("{}[0]", field()), Problem::OtherFamily(text.clone()));
        return None;
    }
    Some(ip)
}

fn conditions(object: &api::EndpointConditions) -> Conditions {
    let defaults = Conditions::READY;
    Conditions {
        ready: object.ready.unwrap_or(defaults.ready),
        serving: object.serving.unwrap_or(defaults.serving),
        terminating: object.terminating.unwrap_or(defaults.terminating),
    }
}

/// The endpoints of a slice mostly share a few hints, so equal ones are stored once.
fn hints(object: &api::EndpointHints, shared: &mut Vec<Arc<Hints>>) -> Option<Arc<Hints>> {
    if object.for_zones.is_empty() && object.for_nodes.is_empty() {
        return None;
    }
    let hints = Hints {
        zones: sorted(object.for_zones.iter().map(|zone| Zone::new(&zone.name))),
        nodes: sorted(object.for_nodes.iter().map(|node| NodeName::new(&node.name))),
    };
    if let Some(known) = shared.iter().find(|known| ***known == hints) {
        return Some(Arc::clone(known));
    }
    let hints = Arc::new(hints);
    shared.push(Arc::clone(&hints));
    Some(hints)
}

fn sorted<T: Ord>(items: impl Iterator<Item = T>) -> Box<[T]> {
    let mut items: Vec<T> = items.collect();
    items.sort_unstable();
    items.dedup();
    items.into_boxed_slice()
}
