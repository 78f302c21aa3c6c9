//! The ports of a Service, distilled.

use ferrule_model::{PortName, Problem, ServicePort};

use super::fields::Reader;
use crate::api;

/// The usable ports, ordered by name and protocol. Of two that collide the first in the object counts.
pub(super) fn service_ports(reader: &mut Reader, objects: &[api::ServicePort]) -> Box<[ServicePort]> {
    let mut ports: Vec<ServicePort> = Vec::with_capacity(objects.len());
    for (at, object) in objects.iter().enumerate() {
        if let Some(port) = service_port(reader, at, object) {
            ports.extend(without_duplicates(reader, at, port, &ports));
        }
    }
    ports.sort();
    ports.into_boxed_slice()
}

fn service_port(reader: &mut Reader, at: usize, object: &api::ServicePort) -> Option<ServicePort> {
    let field = |name: &str| format!("spec.ports[{at}].{name}");
    let name_is_usable = object.name.is_empty() || reader.is_usable_name(&field("name"), &object.name);
    let protocol = reader.protocol(|| field("protocol"), &object.protocol);
    let number = reader.port(|| field("port"), object.port);
    let node_port = match object.node_port {
        0 => None,
        number => reader.port(|| field("nodePort"), number),
    };
    let (protocol, number) = protocol.zip(number).filter(|_| name_is_usable)?;
    Some(ServicePort { name: PortName::new(&object.name), protocol, number, node_port })
}

/// Drops a port that repeats a name or number, and a node port that repeats one; the API server allows neither.
fn without_duplicates(
    reader: &mut Reader,
    at: usize,
    port: ServicePort,
    earlier: &[ServicePort],
) -> Option<ServicePort> {
    let mut same_protocol = earlier.iter().filter(|other| other.protocol == port.protocol);
    let field = |name: &str| format!("spec.ports[{at}].{name}");
    if same_protocol.clone().any(|other| other.name == port.name) {
        reader.report(field("name"), Problem::DuplicatePort(format!("port name {}", port.name)));
        return None;
    }
    if same_protocol.clone().any(|other| other.number == port.number) {
        reader.report(field("port"), Problem::DuplicatePort(format!("port {}", port.number)));
        return None;
    }
    match port.node_port {
        Some(number) if same_protocol.any(|other| other.node_port == Some(number)) => {
            reader.report(field("nodePort"), Problem::DuplicatePort(format!("node port {number}")));
            Some(ServicePort { node_port: None, ..port })
        }
        _ => Some(port),
    }
}
