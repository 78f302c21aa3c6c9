//! `v1/Endpoints`

use prost::Message;

use super::ProtobufError;
use super::metadata::metadata;
use crate::api;

/// `v1/Endpoints`
#[derive(Clone, PartialEq, Message)]
pub struct Endpoints {
    #[prost(message, repeated, tag = "2")]
    subsets: Vec<EndpointSubset>,
}

#[derive(Clone, PartialEq, Message)]
struct EndpointSubset {
    #[prost(message, repeated, tag = "1")]
    addresses: Vec<EndpointAddress>,
    #[prost(message, repeated, tag = "2")]
    not_ready_addresses: Vec<EndpointAddress>,
    #[prost(message, repeated, tag = "3")]
    ports: Vec<EndpointPort>,
}

#[derive(Clone, PartialEq, Message)]
struct EndpointAddress {
    #[prost(string, tag = "1")]
    ip: String,
    #[prost(string, optional, tag = "4")]
    node_name: Option<String>,
}

/// Other field numbers than those of an EndpointSlice's.
#[derive(Clone, PartialEq, Message)]
struct EndpointPort {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(int32, tag = "2")]
    port: i32,
    #[prost(string, tag = "3")]
    protocol: String,
}

impl Endpoints {
    /// Decodes an object without its envelope.
    pub fn decode_object(object: &[u8]) -> Result<api::Endpoints, ProtobufError> {
        let Self { subsets } = Self::decode(object)?;
        let subsets = subsets.into_iter().map(api::EndpointSubset::from).collect();
        Ok(api::Endpoints { metadata: metadata(object)?, subsets })
    }
}

impl From<EndpointSubset> for api::EndpointSubset {
    fn from(subset: EndpointSubset) -> Self {
        let address = |EndpointAddress { ip, node_name }| api::EndpointAddress { ip, node_name };
        let port = |EndpointPort { name, port, protocol }| api::EndpointPort {
            name: Some(name),
            protocol: Some(protocol),
            port: Some(port.into()),
        };
        Self {
            addresses: subset.addresses.into_iter().map(address).collect(),
            not_ready_addresses: subset.not_ready_addresses.into_iter().map(address).collect(),
            ports: subset.ports.into_iter().map(port).collect(),
        }
    }
}
