//! Reading single fields, with a diagnostic for each that cannot be used.

use std::net::IpAddr;

use ferrule_model::{
    AddressRange, Diagnostic, ObjectKind, Problem, Protocol, Timestamp, parse_cidr, parse_ip,
};
use ipnet::IpNet;

use crate::api::ObjectMeta;

/// The longest name any API server accepts for an object.
const LONGEST_NAME: usize = 253;

/// The object being read and what was wrong with it so far.
pub(super) struct Reader {
    kind: ObjectKind,
    object: String,
    pub diagnostics: Vec<Diagnostic>,
}

impl Reader {
    /// Starts on an object; its name counts with the namespace if it has one.
    pub fn new(kind: ObjectKind, metadata: &ObjectMeta) -> Self {
        let object = if metadata.namespace.is_empty() {
            metadata.name.clone()
        } else {
            format!("{}/{}", metadata.namespace, metadata.name)
        };
        Self { kind, object, diagnostics: Vec::new() }
    }

    /// Notes that a field cannot be used.
    pub fn report(&mut self, field: impl Into<String>, problem: Problem) {
        self.diagnostics.push(Diagnostic {
            kind: self.kind,
            object: self.object.clone(),
            field: field.into(),
            problem,
        });
    }

    /// Whether the object's own name, and namespace if it must have one, can be used.
    pub fn has_usable_name(&mut self, metadata: &ObjectMeta, namespaced: Namespaced) -> bool {
        let namespace_is_usable =
            namespaced == Namespaced::No || self.is_usable_name("metadata.namespace", &metadata.namespace);
        namespace_is_usable && self.is_usable_name("metadata.name", &metadata.name)
    }

    /// Whether a name can be used; an empty one cannot.
    pub fn is_usable_name(&mut self, field: &str, name: &str) -> bool {
        let usable = !name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(is_name_byte);
        if !usable {
            self.report(field, Problem::UnusableName(name.to_string()));
        }
        usable
    }

    /// An address, or a report.
    pub fn ip(&mut self, field: impl FnOnce() -> String, text: &str) -> Option<IpAddr> {
        let ip = parse_ip(text);
        if ip.is_none() {
            self.report(field(), Problem::NotAnAddress(text.to_string()));
        }
        ip
    }

    /// An address that packets may be sent to in the name of a Service, or a report.
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

    /// A CIDR, or a report.
    pub fn cidr(&mut self, field: impl FnOnce() -> String, text: &str) -> Option<IpNet> {
        let net = parse_cidr(text);
        if net.is_none() {
            self.report(field(), Problem::NotACidr(text.to_string()));
        }
        net
    }

    /// A port number, or a report.
    pub fn port(&mut self, field: impl FnOnce() -> String, number: i64) -> Option<u16> {
        let port = u16::try_from(number).ok().filter(|port| *port != 0);
        if port.is_none() {
            self.report(field(), Problem::NotAPort(number));
        }
        port
    }

    /// A protocol, or a report; an absent one is TCP, the API's default.
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

    /// A time, or a report; an absent one is nothing.
    pub fn time(&mut self, field: &str, text: Option<&str>) -> Option<Timestamp> {
        let text = text?;
        let time = text.parse::<jiff::Timestamp>().ok();
        if time.is_none() {
            self.report(field, Problem::NotATime(text.to_string()));
        }
        time.map(|time| Timestamp::from_micros(time.as_microsecond()))
    }
}

/// Whether an address may be link-local, as the API server's validation has it for each field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkLocal {
    Allowed,
    Refused,
}

/// Whether a kind of object lives in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Namespaced {
    Yes,
    No,
}

/// The characters Kubernetes allows in names. Names end up in kernel comments and file-like text: nothing else does.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}
