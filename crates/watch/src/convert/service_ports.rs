//! The ports of a Service, distilled.

use std::collections::HashSet;

use ferrule_model::{PortName, Problem, Protocol, ServicePort};

use super::fields::Reader;
use crate::api;

/// The usable ports, ordered by name and protocol. Of two that collide the first in the object counts.
pub(super) fn service_ports(reader: &mut Reader, objects: &[api::ServicePort]) -> Box<[ServicePort]> {
    let mut ports: Vec<ServicePort> = Vec::with_capacity(objects.len());
    let mut seen = Seen::default();
    for (at, object) in objects.iter().enumerate() {
        if let Some(port) = service_port(reader, at, object) {
            ports.extend(seen.first_of_its_kind(reader, at, port));
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

/// What earlier ports of the object have: no two may share a name, a number or a node port for one protocol.
#[derive(Default)]
struct Seen {
    names: HashSet<(PortName, Protocol)>,
    numbers: HashSet<(u16, Protocol)>,
    node_ports: HashSet<(u16, Protocol)>,
}

impl Seen {
    /// Drops a port that repeats a name or number, and a node port that repeats one; the API server allows neither.
    fn first_of_its_kind(
        &mut self,
        reader: &mut Reader,
        at: usize,
        mut port: ServicePort,
    ) -> Option<ServicePort> {
        let field = |name: &str| format!("spec.ports[{at}].{name}");
        let protocol = port.protocol;
        if self.names.contains(&(port.name.clone(), protocol)) {
            reader.report(field("name"), Problem::DuplicatePort(format!("port name {}", port.name)));
            return None;
        }
        if !self.numbers.insert((port.number, protocol)) {
            reader.report(field("port"), Problem::DuplicatePort(format!("port {}", port.number)));
            return None;
        }
        self.names.insert((port.name.clone(), protocol));
        if let Some(number) = port.node_port.filter(|number| !self.node_ports.insert((*number, protocol))) {
            reader.report(field("nodePort"), Problem::DuplicatePort(format!("node port {number}")));
            port.node_port = None;
        }
        Some(port)
    }
}
