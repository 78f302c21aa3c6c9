//! Parses single fields, with a diagnostic for each invalid one.

use std::net::IpAddr;

use ferrule_model::{
    AddressRange, Diagnostic, ObjectKind, Problem, Protocol, Timestamp, parse_cidr, parse_ip,
};
use ipnet::IpNet;

use crate::api::ObjectMeta;

/// The API server's limit for names of objects.
const MAX_NAME_LENGTH: usize = 253;

/// The object that is being converted, and its diagnostics so far.
pub(super) struct FieldReader {
    kind: ObjectKind,
    object: String,
    pub diagnostics: Vec<Diagnostic>,
}

impl FieldReader {
    pub fn new(kind: ObjectKind, metadata: &ObjectMeta) -> Self {
        let object = if metadata.namespace.is_empty() {
            metadata.name.clone()
        } else {
            format!("{}/{}", metadata.namespace, metadata.name)
        };
        Self { kind, object, diagnostics: Vec::new() }
    }

    /// Records that a field is invalid.
    pub fn report(&mut self, field: impl Into<String>, problem: Problem) {
        self.diagnostics.push(Diagnostic {
            kind: self.kind,
            object: self.object.clone(),
            field: field.into(),
            problem,
        });
    }

    /// Whether the object's name, and its namespace if it must have one, are valid. Reports if not.
    pub fn has_usable_name(&mut self, metadata: &ObjectMeta, namespaced: Namespaced) -> bool {
        let namespace_is_usable =
            namespaced == Namespaced::No || self.is_usable_name("metadata.namespace", &metadata.namespace);
        namespace_is_usable && self.is_usable_name("metadata.name", &metadata.name)
    }

    /// Whether a name is valid; an empty one is not. Reports if not.
    pub fn is_usable_name(&mut self, field: &str, name: &str) -> bool {
        let usable = !name.is_empty() && name.len() <= MAX_NAME_LENGTH && name.bytes().all(is_name_byte);
        if !usable {
            self.report(field, Problem::UnusableName(name.to_string()));
        }
        usable
    }

    /// An address; reports an invalid one.
    pub fn ip(&mut self, field: impl FnOnce() -> String, text: &str) -> Option<IpAddr> {
        let ip = parse_ip(text);
        if ip.is_none() {
            self.report(field(), Problem::NotAnAddress(text.to_string()));
        }
        ip
    }

    /// An address that may be a Service's or an endpoint's; reports an invalid or special one.
    pub fn service_ip(
        &mut self,
        field: impl Fn() -> String,
        text: &str,
        link_local: LinkLocal,
    ) -> Option<IpAddr> {
        let ip = self.ip(&field, text)?;
        let is_allowed =
            |range: &AddressRange| *range == AddressRange::LinkLocal && link_local == LinkLocal::Allowed;
        match AddressRange::of(ip).filter(|range| !is_allowed(range)) {
            None => Some(ip),
            Some(range) => {
                self.report(field(), Problem::SpecialAddress(text.to_string(), range));
                None
            }
        }
    }

    /// A CIDR; reports an invalid one.
    pub fn cidr(&mut self, field: impl FnOnce() -> String, text: &str) -> Option<IpNet> {
        let net = parse_cidr(text);
        if net.is_none() {
            self.report(field(), Problem::NotACidr(text.to_string()));
        }
        net
    }

    /// A port number; reports an invalid one.
    pub fn port(&mut self, field: impl FnOnce() -> String, number: i64) -> Option<u16> {
        let port = u16::try_from(number).ok().filter(|port| *port != 0);
        if port.is_none() {
            self.report(field(), Problem::NotAPort(number));
        }
        port
    }

    /// A protocol, by default TCP; reports an unknown one.
    pub fn protocol(&mut self, field: impl FnOnce() -> String, text: &str) -> Option<Protocol> {
        if text.is_empty() {
            return Some(Protocol::Tcp);
        }
        let protocol = Protocol::parse(text);
        if protocol.is_none() {
            self.report(field(), Problem::UnknownProtocol(text.to_string()));
        }
        protocol
    }

    /// A time; reports an invalid one. An absent one is `None`.
    pub fn time(&mut self, field: &str, text: Option<&str>) -> Option<Timestamp> {
        let text = text?;
        let time = text.parse::<jiff::Timestamp>().ok();
        if time.is_none() {
            self.report(field, Problem::NotATime(text.to_string()));
        }
        time.map(|time| Timestamp::from_micros(time.as_microsecond()))
    }
}

/// Whether a field may hold a link-local address, as the API server validates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkLocal {
    Allowed,
    Rejected,
}

/// Whether objects of a kind have a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Namespaced {
    Yes,
    No,
}

/// The characters Kubernetes allows in names. Names are written into kernel comments and rule files, so no others may
/// pass.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}
