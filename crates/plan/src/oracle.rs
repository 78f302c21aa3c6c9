//! What a plan means for one packet: the reference every backend and every test is measured by.
//!
//! Interprets the plan literally and slowly; knows no kernel.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ferrule_model::{IpFamily, Protocol, ServicePortName};
use ipnet::IpNet;

use crate::{
    FamilyPlan, Frontend, FrontendKey, LocalPods, LoopbackNodePorts, NodeTraffic, Pool, Quirk, TrafficSource,
    Verdict,
};

/// The first packet of a flow, as it reaches this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its source address.
    pub from: IpAddr,
    /// The interface it comes in on, unless the host itself sends it.
    pub interface: Option<String>,
    /// Its destination address.
    pub to: IpAddr,
    /// Its protocol and destination port; `None` for a protocol without ports.
    pub port: Option<(Protocol, u16)>,
}

/// A client that no node has: from the blocks that are for documentation alone.
pub fn outside_client(family: IpFamily) -> IpAddr {
    match family {
        IpFamily::V4 => IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1)),
        IpFamily::V6 => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 1)),
    }
}

/// What becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It goes to one of these, each as likely as the other.
    Forwarded {
        /// Where it can go, and how.
        to: BTreeSet<Delivery>,
        /// For how many seconds the same client keeps the same endpoint, if it does.
        sticky: Option<u32>,
    },
    /// It is discarded without an answer.
    Dropped,
    /// It is answered with an ICMP error or a TCP reset.
    Rejected,
    /// No rule of ours is about it.
    Untouched,
}

/// One way a packet can be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Delivery {
    /// The endpoint.
    pub endpoint: SocketAddr,
    /// Whether the endpoint sees an address of this node as the source.
    pub masqueraded: bool,
}

/// What becomes of a packet, and what decides it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// What becomes of it.
    pub outcome: Outcome,
    /// What decides that.
    pub decided_by: DecidedBy,
}

/// What decides over a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecidedBy {
    /// A frontend: the first of its rules that is about the packet's source.
    Rule {
        /// What the packet was sent to.
        key: FrontendKey,
        /// Who has that.
        owner: ServicePortName,
        /// The source that the rule is about.
        source: TrafficSource,
        /// What it says.
        verdict: Verdict,
    },
    /// A NodePort that is not served on the address the packet was sent to.
    NodePortNotServedHere {
        /// The NodePort.
        key: FrontendKey,
        /// Who has it.
        owner: ServicePortName,
    },
    /// A service address, but none of its ports.
    UnusedPort {
        /// A Service port that has the address.
        owner: ServicePortName,
    },
    /// An address in this service range that no Service has.
    UnallocatedAddress(IpNet),
    /// No Service is reached this way.
    NoFrontend,
}

impl DecidedBy {
    /// The frontend that a packet meets by this decision.
    pub fn frontend(&self, packet: &Packet) -> Option<FrontendKey> {
        match self {
            Self::Rule { key, .. } | Self::NodePortNotServedHere { key, .. } => Some(*key),
            Self::UnusedPort { .. } => Some(FrontendKey::UnmatchedPorts(packet.to)),
            Self::UnallocatedAddress(_) | Self::NoFrontend => None,
        }
    }
}

/// What becomes of a packet under a plan.
pub fn outcome(plan: &FamilyPlan, packet: &Packet) -> Outcome {
    trace(plan, packet).outcome
}

/// What becomes of a packet under a plan, and what decides that.
pub fn trace(plan: &FamilyPlan, packet: &Packet) -> Trace {
    let Some((key, frontend)) = frontend_of(plan, packet) else { return unclaimed(plan, packet) };
    let (decided_by, verdict) = decide(&plan.node, key, frontend, packet);
    let outcome = match verdict {
        Verdict::Forward { pool, masquerade } => {
            let pool = plan.pool(&frontend.owner, pool);
            // A rule never names a pool that is not there; if one did, there is no endpoint to go to.
            pool.map_or(Outcome::Rejected, |pool| forwarded(&plan.node, pool, masquerade, packet))
        }
        Verdict::Drop => Outcome::Dropped,
        Verdict::Reject => Outcome::Rejected,
        Verdict::Pass => Outcome::Untouched,
    };
    Trace { outcome, decided_by }
}

/// The frontend a packet meets, if any: service addresses before node ports, exact ports before the rest.
fn frontend_of<'a>(plan: &'a FamilyPlan, packet: &Packet) -> Option<(FrontendKey, &'a Frontend)> {
    let (protocol, port) = packet.port?;
    let mut keys = vec![FrontendKey::Address(packet.to, protocol, port)];
    if packet.to.is_loopback() {
        keys.push(FrontendKey::LoopbackNodePort(protocol, port));
    }
    if plan.node.has_address(packet.to) {
        keys.push(FrontendKey::NodePort(protocol, port));
    }
    keys.into_iter().find_map(|key| plan.frontend(&key).map(|frontend| (key, &**frontend)))
}

fn unclaimed(plan: &FamilyPlan, packet: &Packet) -> Trace {
    let guarded = plan.node.guarded_service_cidrs.iter().find(|block| block.contains(&packet.to));
    if let Some(frontend) = plan.frontend(&FrontendKey::UnmatchedPorts(packet.to)) {
        let decided_by = DecidedBy::UnusedPort { owner: frontend.owner.clone() };
        Trace { outcome: Outcome::Rejected, decided_by }
    } else if let Some(block) = guarded {
        Trace { outcome: Outcome::Dropped, decided_by: DecidedBy::UnallocatedAddress(*block) }
    } else {
        Trace { outcome: Outcome::Untouched, decided_by: DecidedBy::NoFrontend }
    }
}

fn decide(
    node: &NodeTraffic,
    key: FrontendKey,
    frontend: &Frontend,
    packet: &Packet,
) -> (DecidedBy, Verdict) {
    let (rules, owner) = (frontend.rules(&key, node), frontend.owner.clone());
    let first_match = rules.iter().find(|(source, _)| comes_from(node, source, packet));
    let (source, verdict) = first_match.unwrap_or((&TrafficSource::Anyone, rules.otherwise()));
    let is_served = match key {
        FrontendKey::NodePort(..) => accepts_node_ports(node, packet.to),
        FrontendKey::LoopbackNodePort(..) => is_served_on_loopback(node, verdict, packet.to),
        FrontendKey::Address(..) | FrontendKey::UnmatchedPorts(_) => true,
    };
    if is_served {
        (DecidedBy::Rule { key, owner, source: source.clone(), verdict }, verdict)
    } else {
        (DecidedBy::NodePortNotServedHere { key, owner }, refusal_elsewhere(node, rules.otherwise()))
    }
}

/// On an address that does not accept NodePorts they are left alone, or just the refusals hold.
fn refusal_elsewhere(node: &NodeTraffic, otherwise: Verdict) -> Verdict {
    match otherwise {
        Verdict::Drop | Verdict::Reject if node.quirks.has(Quirk::NodePortRefusalsEverywhere) => otherwise,
        Verdict::Forward { .. } | Verdict::Drop | Verdict::Reject | Verdict::Pass => Verdict::Pass,
    }
}

/// The kernel serves the loopback addresses that were asked for; a forwarding process listens on one only, and what is not
/// forwarded is refused on all.
fn is_served_on_loopback(node: &NodeTraffic, verdict: Verdict, to: IpAddr) -> bool {
    match node.loopback_node_ports {
        LoopbackNodePorts::NotServed => false,
        LoopbackNodePorts::InKernel | LoopbackNodePorts::Relayed => node.loopback_addresses.contains(to),
        LoopbackNodePorts::ForwardedOrRejected => {
            !matches!(verdict, Verdict::Forward { .. }) || to == node.family.loopback()
        }
    }
}

fn accepts_node_ports(node: &NodeTraffic, ip: IpAddr) -> bool {
    !ip.is_loopback() && node.node_port_addresses.contains(ip)
}

fn comes_from(node: &NodeTraffic, source: &TrafficSource, packet: &Packet) -> bool {
    match source {
        TrafficSource::Anyone => true,
        TrafficSource::ThisHost => node.has_address(packet.from),
        TrafficSource::OutsideRanges(ranges) => !ranges.iter().any(|range| range.contains(&packet.from)),
        TrafficSource::LocalPods => node.local_pods.as_ref().is_some_and(|pods| is_local_pod(pods, packet)),
    }
}

fn is_local_pod(pods: &LocalPods, packet: &Packet) -> bool {
    let interface = packet.interface.as_deref();
    match pods {
        LocalPods::From(block) => block.contains(&packet.from),
        LocalPods::ByInterface(name) => interface == Some(name),
        LocalPods::ByInterfacePrefix(prefix) => interface.is_some_and(|name| name.starts_with(prefix)),
    }
}

fn forwarded(node: &NodeTraffic, pool: &Pool, masquerade: bool, packet: &Packet) -> Outcome {
    let any_hairpin = node.quirks.has(Quirk::HairpinOfAnyEndpoint);
    let deliveries = pool.endpoints.iter().map(|endpoint| {
        let hairpin = endpoint.ip == packet.from && (endpoint.is_local || any_hairpin);
        Delivery { endpoint: SocketAddr::new(endpoint.ip, endpoint.port), masqueraded: masquerade || hairpin }
    });
    Outcome::Forwarded { to: deliveries.collect(), sticky: pool.affinity_seconds }
}

impl fmt::Display for Outcome {
    /// As stories write it: `10.244.2.5:8080 masqueraded | 10.244.2.6:8080`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dropped => f.write_str("dropped"),
            Self::Rejected => f.write_str("rejected"),
            Self::Untouched => f.write_str("untouched"),
            Self::Forwarded { to, sticky } => {
                for (at, delivery) in to.iter().enumerate() {
                    write!(f, "{}{delivery}", if at == 0 { "" } else { " | " })?;
                }
                sticky.map_or(Ok(()), |seconds| write!(f, " sticky {seconds}s"))
            }
        }
    }
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.endpoint, if self.masqueraded { " masqueraded" } else { "" })
    }
}

impl fmt::Display for DecidedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { key, owner, source, verdict } => write!(f, "{key} of {owner}: {source} → {verdict}"),
            Self::NodePortNotServedHere { key, owner } => {
                write!(f, "{key} of {owner} is not served on this address")
            }
            Self::UnusedPort { owner } => {
                write!(f, "the address belongs to {owner}, which does not use the port")
            }
            Self::UnallocatedAddress(block) => {
                write!(f, "no Service has this address of service range {block}")
            }
            Self::NoFrontend => f.write_str("no Service is reached this way"),
        }
    }
}
