//! Where a packet is sent to, as people write it: an address and port, or a Service.

use std::net::IpAddr;

use ferrule_model::{IpFamily, Protocol, Service, ServiceName, ServicePort, parse_ip};
use ferrule_plan::Explainer;

use super::QuestionError;

/// A destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An address; without a port, a packet of a protocol that has none.
    Address(IpAddr, Option<(Protocol, u16)>),
    /// A port of a Service, at its cluster IP.
    Service(ServiceTarget),
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceTarget {
    /// `namespace/name`
    pub name: ServiceName,
    /// The port's name or number; none if there is just one.
    pub port: Option<String>,
    /// Which protocol, if ports share a name or number.
    pub protocol: Option<Protocol>,
}

impl Target {
    /// Reads `ADDRESS[:PORT][/PROTOCOL]` or `NAMESPACE/NAME[:PORT][/PROTOCOL]`.
    pub fn parse(text: &str) -> Result<Self, QuestionError> {
        if let Some(target) = address(text)? {
            return Ok(target);
        }
        service(text).ok_or_else(|| {
            QuestionError(format!(
                "{text:?} is not a destination; write ADDRESS:PORT, [ADDRESS]:PORT or NAMESPACE/NAME:PORT, with /udp or \
                 /sctp after it unless it is TCP"
            ))
        })
    }

    /// The address, protocol and port, in a family that the source can have.
    pub(super) fn resolve(
        &self,
        explainer: &Explainer<'_>,
        family: Option<IpFamily>,
    ) -> Result<(IpAddr, Option<(Protocol, u16)>), QuestionError> {
        match self {
            Self::Address(ip, port) => Ok((*ip, *port)),
            Self::Service(target) => target.resolve(explainer, family),
        }
    }
}

impl ServiceTarget {
    fn resolve(
        &self,
        explainer: &Explainer<'_>,
        family: Option<IpFamily>,
    ) -> Result<(IpAddr, Option<(Protocol, u16)>), QuestionError> {
        let name = &self.name;
        let found = explainer.cluster.service(name).and_then(|state| state.service());
        let Some(service) = found else {
            return Err(QuestionError(format!("there is no Service {name} that has a cluster IP")));
        };
        let families = family.map_or(IpFamily::BOTH.to_vec(), |family| vec![family]);
        let ip = families.into_iter().find_map(|family| service.cluster_ips.get(family).copied());
        let Some(ip) = ip else {
            return Err(QuestionError(format!("Service {name} has no cluster IP of the source's family")));
        };
        let port = self.port_of(service)?;
        Ok((ip, Some((port.protocol, port.number))))
    }

    fn port_of<'a>(&self, service: &'a Service) -> Result<&'a ServicePort, QuestionError> {
        let is_meant = |port: &&ServicePort| {
            let by_name = |text: &str| text == port.name.as_str() || text == port.number.to_string();
            self.port.as_deref().is_none_or(by_name)
                && self.protocol.is_none_or(|protocol| protocol == port.protocol)
        };
        let mut meant: Vec<&ServicePort> = service.ports.iter().filter(is_meant).collect();
        // Without a protocol TCP is meant, as for an address.
        if meant.len() > 1 && self.port.is_some() {
            meant.retain(|port| port.protocol == Protocol::Tcp);
        }
        if let [port] = meant[..] {
            return Ok(port);
        }
        let ports = service.ports.iter().map(|port| format!("{}/{}", port.number, port.protocol));
        let ports = ports.collect::<Vec<_>>().join(", ");
        Err(QuestionError(format!("which port of Service {}? It has {ports}", self.name)))
    }
}

/// An address with or without a port; `None` if it does not begin like one.
fn address(text: &str) -> Result<Option<Target>, QuestionError> {
    let (socket, protocol) = split_protocol(text);
    if let Some(ip) = parse_ip(socket.trim_start_matches('[').trim_end_matches(']')) {
        return match protocol {
            None => Ok(Some(Target::Address(ip, None))),
            Some(_) => Err(QuestionError(format!("{text:?} has a protocol but no port"))),
        };
    }
    let Some((ip, port)) = socket.rsplit_once(':') else { return Ok(None) };
    let ip = ip.strip_prefix('[').and_then(|ip| ip.strip_suffix(']')).unwrap_or(ip);
    let Some(ip) = parse_ip(ip) else { return Ok(None) };
    let port = port.parse().map_err(|_| QuestionError(format!("{port:?} is not a port")))?;
    Ok(Some(Target::Address(ip, Some((protocol.unwrap_or(Protocol::Tcp), port)))))
}

fn service(text: &str) -> Option<Target> {
    let (namespace, rest) = text.split_once('/')?;
    let (rest, protocol) = split_protocol(rest);
    let (name, port) = match rest.split_once(':') {
        Some((name, port)) => (name, Some(port.to_owned()).filter(|port| !port.is_empty())),
        None => (rest, None),
    };
    let is_name = |text: &str| !text.is_empty() && !text.contains(['/', ':', '[']);
    if !is_name(namespace) || !is_name(name) || port.as_deref().is_some_and(|port| !is_name(port)) {
        return None;
    }
    Some(Target::Service(ServiceTarget { name: ServiceName::of(namespace, name), port, protocol }))
}

/// What stands before `/tcp`, `/udp` or `/sctp`, and the protocol.
fn split_protocol(text: &str) -> (&str, Option<Protocol>) {
    let parted = text.rsplit_once('/');
    let found = parted.and_then(|(rest, word)| Some((rest, Protocol::parse(&word.to_ascii_uppercase())?)));
    found.map_or((text, None), |(rest, protocol)| (rest, Some(protocol)))
}
