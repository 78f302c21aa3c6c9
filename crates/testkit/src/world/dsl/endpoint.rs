//! `endpoint web 10.244.2.5 node b ready` and the slices such lines add up to.

use std::collections::BTreeMap;

use ferrule_watch::api;

use super::service::StatedService;
use super::tokens::{Tokens, namespace_and_name, namespaced};

/// An endpoint as stated.
#[derive(Clone, Debug)]
pub(in crate::world) struct StatedEndpoint {
    pub service: String,
    pub address: String,
    slice: String,
    /// The ports of its slice, if they are not those of the Service.
    ports: Vec<api::EndpointPort>,
    endpoint: api::Endpoint,
}

impl StatedEndpoint {
    pub(in crate::world) fn read(tokens: &mut Tokens<'_>) -> Result<Self, String> {
        let service = namespaced(tokens.value("a service name")?);
        let address = tokens.value("an address")?.to_string();
        let mut endpoint = api::Endpoint { addresses: vec![address.clone()], ..Default::default() };
        let mut slice = String::new();
        let mut ports = Vec::new();
        while let Some(key) = tokens.next() {
            match key {
                "node" => endpoint.node_name = Some(tokens.value("a node")?.into()),
                "slice" => slice = tokens.value("a slice")?.into(),
                "port" => ports.push(read_port(tokens)?),
                "forZone" => endpoint.hints.for_zones = named(tokens.list("zones")?),
                "forNode" => endpoint.hints.for_nodes = named(tokens.list("nodes")?),
                _ => endpoint.conditions = conditions(key)?,
            }
        }
        Ok(Self { service, address, slice, ports, endpoint })
    }

    /// Address and slice identify an endpoint of a Service.
    pub(in crate::world) fn is_same_as(&self, other: &Self) -> bool {
        self.service == other.service && self.address == other.address && self.slice == other.slice
    }

    pub(in crate::world) fn slice_name(&self) -> String {
        let family = if self.address.contains(':') { "v6" } else { "v4" };
        let (_, service) = namespace_and_name(&self.service);
        if self.slice.is_empty() {
            format!("{service}-{family}")
        } else {
            format!("{service}-{}-{family}", self.slice)
        }
    }

    pub(in crate::world) fn slice_metadata(&self) -> api::ObjectMeta {
        let (namespace, service) = namespace_and_name(&self.service);
        let labels = api::Labels { service_name: Some(service), ..Default::default() };
        api::ObjectMeta { namespace, name: self.slice_name(), labels, ..Default::default() }
    }
}

/// The slices of a Service: its endpoints by slice and family, with the Service's target ports unless they state others.
pub(in crate::world) fn slices_of(
    service: &str,
    stated: Option<&StatedService>,
    endpoints: &[StatedEndpoint],
) -> Vec<api::EndpointSlice> {
    let mut slices: BTreeMap<String, api::EndpointSlice> = BTreeMap::new();
    for endpoint in endpoints.iter().filter(|endpoint| endpoint.service == service) {
        let slice = slices.entry(endpoint.slice_name()).or_insert_with(|| api::EndpointSlice {
            metadata: endpoint.slice_metadata(),
            address_type: if endpoint.address.contains(':') { "IPv6" } else { "IPv4" }.into(),
            ports: stated.map_or_else(Vec::new, target_ports),
            endpoints: Vec::new(),
        });
        if !endpoint.ports.is_empty() {
            slice.ports.clone_from(&endpoint.ports);
        }
        slice.endpoints.push(endpoint.endpoint.clone());
    }
    slices.into_values().collect()
}

fn target_ports(service: &StatedService) -> Vec<api::EndpointPort> {
    let ports = service.object.spec.ports.iter().zip(&service.target_ports);
    ports
        .map(|(port, target)| api::EndpointPort {
            name: Some(port.name.clone()),
            protocol: Some(port.protocol.clone()),
            port: Some(*target),
        })
        .collect()
}

/// `port http 8080/udp`, or `port 8080` for the unnamed one.
fn read_port(tokens: &mut Tokens<'_>) -> Result<api::EndpointPort, String> {
    let first = tokens.value("a port")?;
    let is_number = first.starts_with(|c: char| c.is_ascii_digit());
    let (name, number) = if is_number { ("", first) } else { (first, tokens.value("a port number")?) };
    let (number, protocol) = number.split_once('/').unwrap_or((number, "tcp"));
    Ok(api::EndpointPort {
        name: Some(name.into()),
        protocol: Some(protocol.to_ascii_uppercase()),
        port: Some(number.parse().map_err(|_| format!("\"{number}\" is not a port number"))?),
    })
}

fn named(names: Vec<String>) -> Vec<api::Named> {
    names.into_iter().map(|name| api::Named { name }).collect()
}

fn conditions(word: &str) -> Result<api::EndpointConditions, String> {
    let conditions = |ready, serving, terminating| api::EndpointConditions {
        ready: Some(ready),
        serving: Some(serving),
        terminating: Some(terminating),
    };
    match word {
        "ready" => Ok(conditions(true, true, false)),
        "notReady" => Ok(conditions(false, false, false)),
        "serving" => Ok(conditions(false, true, false)),
        "terminating" => Ok(conditions(false, true, true)),
        "terminated" => Ok(conditions(false, false, true)),
        "readyTerminating" => Ok(conditions(true, true, true)),
        _ => Err(format!("unknown word \"{word}\" about an endpoint")),
    }
}
