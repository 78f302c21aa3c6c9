//! Hosts on one machine: a node, its pods, and the hosts beyond its uplink, each in a network namespace. Servers answer
//! with the address they saw, probes report the outcome of a packet.
//!
//! The node has no rules of its own: a test or demo loads them (with [`NetWorld::node`]) and sends packets. The machine's
//! own network is never touched, and nothing is left behind, however the test ends. [`NetSpec`] lists the hosts,
//! [`NetWorld::ask`] compares packets with the oracle. Call [`or_skip`] first: not every machine allows namespaces.

mod namespace;
mod pages;
mod privilege;
mod probe;
mod questions;
mod servers;
mod sockets;
mod spec;
mod wiring;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ferrule_model::Protocol;
use ferrule_plan::Packet;

use crate::causes;

pub use namespace::Namespace;
pub use privilege::{available, or_skip};
pub use probe::{Probe, Seen};
pub use questions::{Answers, Disagreement, Question};
pub use spec::{Host, NetSpec, Place};
pub use wiring::UPLINK;

use probe::{Flight, landed};
use servers::{Server, Servers};
use wiring::Wired;

/// More open sockets could exceed the limit of open files.
const MAX_IN_FLIGHT: usize = 256;

/// A running world. It ends when it is dropped.
#[derive(Debug)]
pub struct NetWorld {
    spec: NetSpec,
    // Dropped before the namespaces.
    _servers: Servers,
    wired: Wired,
    refusal: Seen,
}

/// Errors of building and using a world.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum NetError {
    #[error("making the network namespace of {name}; is this run as root or in a user namespace?")]
    Namespace { name: String, source: io::Error },
    #[error("entering the network namespace of {name}")]
    Enter { name: String, source: io::Error },
    #[error("setting {setting} in the namespace of {name}")]
    Setting { setting: String, name: String, source: io::Error },
    #[error("running \"{program}\" in the namespace of {name}: {problem}")]
    Program { program: String, name: String, problem: String },
    #[error("giving pod {pod} the interface {interface}, which is in use")]
    InterfaceTaken { interface: String, pod: IpAddr },
    #[error("waiting for the links and addresses of {name}; the last check showed:\n{shown}")]
    NotReady { name: String, shown: String },
    #[error("serving {address}/{protocol}")]
    Serve { protocol: Protocol, address: SocketAddr, source: io::Error },
    #[error("starting the servers")]
    Servers { source: io::Error },
}

impl NetError {
    /// The message with its causes, in one line.
    pub fn with_sources(&self) -> String {
        causes::with_sources(self)
    }
}

impl NetWorld {
    /// Builds a world, and waits until all its servers answer.
    pub fn build(spec: NetSpec) -> Result<Self, NetError> {
        let wired = wiring::wire(&spec)?;
        let on_node: Vec<_> = spec.node_servers.iter().copied().collect();
        let mut servers = Server::open_all(&wired.node, &on_node)?;
        let mut beyond = Vec::new();
        for (address, host) in &spec.hosts {
            let wanted =
                host.serves.iter().map(|(protocol, port)| (*protocol, SocketAddr::new(*address, *port)));
            match wired.pods.get(address) {
                Some(pod) => servers.extend(Server::open_all(pod, &wanted.collect::<Vec<_>>())?),
                None => beyond.extend(wanted),
            }
        }
        servers.extend(Server::open_all(&wired.beyond, &beyond)?);
        Ok(Self { spec, _servers: Servers::start(servers)?, wired, refusal: Seen::Refused })
    }

    /// The same with a node whose proxy is a process: it accepts connections before it refuses them.
    #[must_use]
    pub fn relaying(self) -> Self {
        Self { refusal: Seen::AcceptedThenReset, ..self }
    }

    /// What a client sees that is refused.
    fn refusal(&self) -> &Seen {
        &self.refusal
    }

    /// The hosts of this world.
    pub fn spec(&self) -> &NetSpec {
        &self.spec
    }

    /// The node's namespace, to run a proxy, `nft` or a socket in.
    pub fn node(&self) -> &Namespace {
        &self.wired.node
    }

    /// The namespace of the host with an address; the node's for its own and for unspecified addresses.
    pub fn namespace_of(&self, address: IpAddr) -> Option<&Namespace> {
        if self.spec.is_of_node(address) || address.is_unspecified() {
            return Some(&self.wired.node);
        }
        let host = self.spec.hosts.get(&address)?;
        match host.place {
            Place::Pod(_) => self.wired.pods.get(&address),
            Place::Beyond => Some(&self.wired.beyond),
        }
    }

    /// The node's interface on which packets from an address arrive; `None` for the node's own.
    pub fn interface_of(&self, address: IpAddr) -> Option<&str> {
        let beyond = self.spec.hosts.contains_key(&address).then_some(UPLINK);
        self.wired.interfaces.get(&address).map(String::as_str).or(beyond)
    }

    /// Sends one packet.
    pub fn probe(&self, packet: &Packet, timeout: Duration) -> Result<Seen, NetError> {
        let seen = self.probe_all(&[Probe { packet: packet.clone(), timeout }])?;
        Ok(seen.into_iter().next().unwrap_or(Seen::Silent))
    }

    /// Sends the same packet many times at once, each from a new port, and counts the outcomes.
    pub fn probe_many(
        &self,
        packet: &Packet,
        times: usize,
        timeout: Duration,
    ) -> Result<BTreeMap<Seen, usize>, NetError> {
        let probes = vec![Probe { packet: packet.clone(), timeout }; times];
        let mut counts = BTreeMap::new();
        for seen in self.probe_all(&probes)? {
            *counts.entry(seen).or_default() += 1;
        }
        Ok(counts)
    }

    /// Sends packets at once; returns the outcome of each.
    pub fn probe_all(&self, probes: &[Probe]) -> Result<Vec<Seen>, NetError> {
        let mut seen = Vec::with_capacity(probes.len());
        for probes in probes.chunks(MAX_IN_FLIGHT) {
            seen.extend(landed(self.launched(probes)?));
        }
        Ok(seen)
    }

    /// The outcome of a packet that no rule matches: the host with the address answers or refuses; an unused address is
    /// silent.
    pub fn without_rules(&self, packet: &Packet) -> Seen {
        let known = self.spec.is_of_node(packet.to) || self.spec.hosts.contains_key(&packet.to);
        let to = SocketAddr::new(packet.to, packet.port.map_or(0, |(_, port)| port));
        match packet.port {
            _ if !known => Seen::Silent,
            Some((protocol, _)) if !self.spec.serves(protocol, to) => Seen::Refused,
            _ => Seen::Answered { by: to, source_seen: packet.from },
        }
    }

    /// Sends the packets of each namespace from a thread in it.
    fn launched(&self, probes: &[Probe]) -> Result<Vec<Flight>, NetError> {
        let mut by_namespace: BTreeMap<&str, (&Namespace, Vec<usize>)> = BTreeMap::new();
        let mut flights: Vec<Option<Flight>> = Vec::new();
        for (at, Probe { packet, .. }) in probes.iter().enumerate() {
            let from = self.sender(packet);
            if let Ok(from) = from {
                by_namespace.entry(from.name()).or_insert((from, Vec::new())).1.push(at);
            }
            flights.push(from.err().map(|why| Flight::Landed(Seen::Unsupported(why))));
        }
        for (namespace, places) in by_namespace.into_values() {
            let started = namespace
                .run(|| places.iter().map(|at| (*at, Flight::start(&probes[*at]))).collect::<Vec<_>>())?;
            for (at, flight) in started {
                flights[at] = Some(flight);
            }
        }
        Ok(flights.into_iter().flatten().collect())
    }

    fn sender(&self, packet: &Packet) -> Result<&Namespace, String> {
        if packet.from.is_ipv4() != packet.to.is_ipv4() {
            return Err("its addresses are of two families".into());
        }
        let namespace = self.namespace_of(packet.from).ok_or("no host has its source address")?;
        match (packet.interface.as_deref(), self.interface_of(packet.from)) {
            (Some(wanted), actual) if actual != Some(wanted) => {
                Err(format!("it comes in on {}, not on {wanted}", actual.unwrap_or("no interface")))
            }
            _ => Ok(namespace),
        }
    }
}
