//! What could not be used, of which object and field, for the user to read.
//!
//! Reading objects and planning never fail: they use what they can and return a [`Diagnostic`] for the rest.
//! The pure crates only return them; logging, counting and sending Events is the binary's work.

use std::fmt;
use std::net::IpAddr;

use crate::{AddressRange, IpFamily, ServiceName};

/// One thing that could not be used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// The kind of object it is about.
    pub kind: ObjectKind,
    /// Its name, with the namespace where there is one.
    pub object: String,
    /// The path of the field, as in `spec.ports[1].nodePort`.
    pub field: String,
    /// What is wrong and what follows from it.
    pub problem: Problem,
}

/// The kinds of objects a proxy reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// `v1/Service`
    Service,
    /// `discovery.k8s.io/v1/EndpointSlice`
    EndpointSlice,
    /// `v1/Endpoints`, read where there are no EndpointSlices
    Endpoints,
    /// `v1/Node`
    Node,
    /// `networking.k8s.io/v1/ServiceCIDR`
    ServiceCidr,
}

/// What is wrong. Reports with the same variant about the same field count as repeated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// A text that should be an IP address; the entry is ignored.
    NotAnAddress(String),
    /// A text that should be a CIDR; the entry is ignored.
    NotACidr(String),
    /// An address that no packet may be sent to in the name of a Service; the entry is ignored.
    SpecialAddress(String, AddressRange),
    /// An address of the other family than the object declares; the entry is ignored.
    OtherFamily(String),
    /// A number outside 1 to 65535; the port, or the node port alone, is ignored.
    NotAPort(i64),
    /// A protocol other than TCP, UDP and SCTP; the port is ignored.
    UnknownProtocol(String),
    /// An address type other than IPv4 and IPv6; the object is ignored.
    UnknownAddressType(String),
    /// A name that no API server accepts (too long, control characters); the object or port is ignored.
    UnusableName(String),
    /// A word the field does not have; its default is used.
    UnknownValue(String, &'static str),
    /// A field that must be there; says what is ignored without it.
    Missing(&'static str),
    /// A second port with the same name, number or node port; the first one counts.
    DuplicatePort(String),
    /// No source range is of this family, so its load-balancer addresses are open to everyone.
    RangesLeaveItOpen(IpFamily),
    /// Source ranges were asked for and none can be read, so the load-balancer addresses are closed to everyone.
    RangesCloseIt,
    /// Endpoints that hold only the first thousand addresses; the others are not used.
    OverCapacity,
    /// A session affinity timeout outside 1 to 86400 seconds; the default is used.
    NotATimeout(i64),
    /// A text that should be an RFC 3339 time; ignored.
    NotATime(String),
    /// An external IP outside the blocks that the operator allows; not served.
    ExternalIpRefused(IpAddr),
    /// Another Service, whose claim comes first, has this address or node port.
    Claimed {
        /// The address or node port, as the plan shows it.
        frontend: String,
        /// Who has it.
        by: ServiceName,
    },
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}: {}", self.kind, Quoted(&self.object), self.field, self.problem)
    }
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::Endpoints => "Endpoints",
            Self::Node => "Node",
            Self::ServiceCidr => "ServiceCIDR",
        })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnAddress(text) => write!(f, "\"{}\" is not an IP address, ignored", Quoted(text)),
            Self::NotACidr(text) => write!(f, "\"{}\" is not a CIDR, ignored", Quoted(text)),
            Self::SpecialAddress(text, range) => {
                write!(f, "\"{}\" may not be used here, it is {range}; ignored", Quoted(text))
            }
            Self::OtherFamily(text) => {
                write!(f, "\"{}\" is of another IP family than the object says, ignored", Quoted(text))
            }
            Self::NotAPort(number) => {
                write!(f, "{number} is not a port (1 to 65535), ignored")
            }
            Self::UnknownProtocol(text) => {
                write!(f, "unknown protocol \"{}\", the port is ignored", Quoted(text))
            }
            Self::UnknownAddressType(text) => {
                write!(f, "address type \"{}\" is not proxied, the object is ignored", Quoted(text))
            }
            Self::UnusableName(text) => write!(f, "\"{}\" is not a usable name, ignored", Quoted(text)),
            Self::UnknownValue(text, used) => {
                write!(f, "unknown value \"{}\", {used}", Quoted(text))
            }
            Self::Missing(consequence) => write!(f, "missing, {consequence}"),
            Self::DuplicatePort(what) => {
                write!(f, "duplicates {}, the first one counts", Quoted(what))
            }
            Self::RangesLeaveItOpen(family) => {
                write!(f, "no range is {family}, so {family} load-balancer addresses are open to everyone")
            }
            Self::RangesCloseIt => {
                f.write_str("no range can be read, so the load-balancer addresses are closed to everyone")
            }
            Self::OverCapacity => f.write_str(
                "the object holds only the first 1000 endpoints, the others get no traffic; EndpointSlices have no such limit",
            ),
            Self::NotATimeout(seconds) => {
                write!(f, "{seconds} is not a timeout (1 to 86400 seconds), 10800 is used")
            }
            Self::NotATime(text) => write!(f, "\"{}\" is not an RFC 3339 time, ignored", Quoted(text)),
            Self::ExternalIpRefused(ip) => {
                write!(f, "{ip} is in none of the blocks that --allowed-external-ip-cidrs lists; not served")
            }
            Self::Claimed { frontend, by } => {
                write!(
                    f,
                    "{frontend} belongs to Service {by}, whose claim comes first; not served for this one"
                )
            }
        }
    }
}

/// Foreign text made safe to print: control characters escaped, cut where it gets long.
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX_CHARACTERS: usize = 80;
        for (at, character) in self.0.chars().enumerate() {
            if at == MAX_CHARACTERS {
                return write!(f, "… ({} characters)", self.0.chars().count());
            }
            match character {
                '"' | '\\' => write!(f, "\\{character}")?,
                _ if character.is_control() => write!(f, "{}", character.escape_default())?,
                _ => write!(f, "{character}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_cut_and_escaped() {
        let long = "x".repeat(1000);
        let text = Diagnostic {
            kind: ObjectKind::Service,
            object: format!("default/{long}"),
            field: "metadata.name".into(),
            problem: Problem::UnusableName("a\nb\"c\u{1b}[31m".into()),
        }
        .to_string();
        assert!(text.starts_with("Service default/xxx"), "{text}");
        assert!(text.contains("… (1008 characters): metadata.name: "), "{text}");
        assert!(text.contains(r#""a\nb\"c\u{1b}[31m" is not a usable name"#), "{text}");
    }
}
