//! Keys and values of elements as the kernel wants them: fields padded to four bytes.

use std::net::IpAddr;

use ferrule_kernel::nft::{DataBytes, Element, KeyBytes, Name, Value};
use ferrule_model::Protocol;
use ferrule_plan::PoolEndpoint;

use super::names::SetName;
use crate::Stamp;

/// The stamp, which `nft` shows as an IPv6 address.
pub(super) fn stamp_element(stamp: Stamp) -> Element {
    element(SetName::Stamp.name(), KeyBytes::from_slice(&stamp.to_bytes()), None)
}

/// `ip`
pub(crate) fn address(ip: IpAddr) -> KeyBytes {
    let mut key = KeyBytes::new();
    push_address(&mut key, ip);
    key
}

/// `ip . protocol . port`
pub(crate) fn service(ip: IpAddr, protocol: Protocol, port: u16) -> KeyBytes {
    let mut key = address(ip);
    push_port(&mut key, protocol, port);
    key
}

/// `protocol . port`
pub(crate) fn node_port(protocol: Protocol, port: u16) -> KeyBytes {
    let mut key = KeyBytes::new();
    push_port(&mut key, protocol, port);
    key
}

/// `ip . ip . protocol . port`
pub(crate) fn hairpin(endpoint: &PoolEndpoint, protocol: Protocol) -> KeyBytes {
    let mut key = address(endpoint.ip);
    push_address(&mut key, endpoint.ip);
    push_port(&mut key, protocol, endpoint.port);
    key
}

/// A key with an address behind it.
pub(crate) fn with_address(mut key: KeyBytes, ip: IpAddr) -> KeyBytes {
    push_address(&mut key, ip);
    key
}

/// A key with a number behind it.
pub(crate) fn with_number(mut key: KeyBytes, number: u32) -> KeyBytes {
    key.extend_from_slice(&number.to_ne_bytes());
    key
}

/// `number`
pub(crate) fn number(number: u32) -> KeyBytes {
    with_number(KeyBytes::new(), number)
}

/// `protocol . number`
pub(crate) fn protocol_and_number(protocol: Protocol, number: u32) -> KeyBytes {
    with_number(KeyBytes::from_slice(&[protocol.number(), 0, 0, 0]), number)
}

pub(crate) fn element(set: Name, key: KeyBytes, value: Option<Value>) -> Element {
    Element { set, key, value }
}

/// `ip . port`, what a pick leads to.
pub(crate) fn endpoint_data(endpoint: &PoolEndpoint) -> Value {
    let mut data = DataBytes::new();
    match endpoint.ip {
        IpAddr::V4(v4) => data.extend_from_slice(&v4.octets()),
        IpAddr::V6(v6) => data.extend_from_slice(&v6.octets()),
    }
    data.extend_from_slice(&endpoint.port.to_be_bytes());
    data.extend_from_slice(&[0, 0]);
    Value::Data(data)
}

/// A number as data, in host order.
pub(crate) fn number_data(number: u32) -> Value {
    Value::Data(DataBytes::from_slice(&number.to_ne_bytes()))
}

fn push_address(key: &mut KeyBytes, ip: IpAddr) {
    match ip {
        IpAddr::V4(v4) => key.extend_from_slice(&v4.octets()),
        IpAddr::V6(v6) => key.extend_from_slice(&v6.octets()),
    }
}

fn push_port(key: &mut KeyBytes, protocol: Protocol, port: u16) {
    let [high, low] = port.to_be_bytes();
    key.extend_from_slice(&[protocol.number(), 0, 0, 0, high, low, 0, 0]);
}
