//! Converts the ports of a Service.

use std::collections::HashSet;

use ferrule_model::{PortName, Problem, Protocol, ServicePort};

use super::fields::FieldReader;
use crate::api;

/// The valid ports, ordered by name and protocol. Of two that collide, the first in the object is used.
pub(super) fn service_ports(reader: &mut FieldReader, objects: &[api::ServicePort]) -> Box<[ServicePort]> {
    let mut ports: Vec<ServicePort> = Vec::with_capacity(objects.len());
    let mut used = UsedByPorts::default();
    for (index, object) in objects.iter().enumerate() {
        if let Some(port) = service_port(reader, index, object) {
            ports.extend(used.claim(reader, index, port));
        }
    }
    ports.sort();
    ports.into_boxed_slice()
}

fn service_port(reader: &mut FieldReader, index: usize, object: &api::ServicePort) -> Option<ServicePort> {
    let field = |name: &str| format!("spec.ports[{index}].{name}");
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

/// Names and numbers of earlier ports: no two ports may share one with the same protocol.
#[derive(Default)]
struct UsedByPorts {
    names: HashSet<(PortName, Protocol)>,
    numbers: HashSet<(u16, Protocol)>,
    node_ports: HashSet<(u16, Protocol)>,
}

impl UsedByPorts {
    /// Rejects a port with a name or number in use, and drops a node port in use; the API server allows neither.
    fn claim(
        &mut self,
        reader: &mut FieldReader,
        index: usize,
        mut port: ServicePort,
    ) -> Option<ServicePort> {
        let field = |name: &str| format!("spec.ports[{index}].{name}");
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
