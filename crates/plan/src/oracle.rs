//! What a plan means for one packet: the reference every backend and every test is measured by.
//!
//! Interprets the plan literally and slowly; knows no kernel.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use ferrule_model::{Protocol, ServicePortName};

use crate::{
    FamilyPlan, Frontend, FrontendKey, LocalPods, LoopbackNodePorts, NodePortScope, NodeTraffic, PoolScope,
    Quirk, TrafficSource, Verdict,
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
    /// It vanishes.
    Dropped,
    /// It is refused with an answer.
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

/// What becomes of a packet under a plan.
pub fn outcome(plan: &FamilyPlan, packet: &Packet) -> Outcome {
    let Some((key, frontend)) = frontend_of(plan, packet) else { return unclaimed(plan, packet) };
    match verdict_of(&plan.node, key, frontend, packet) {
        Verdict::Forward { pool, masquerade } => forwarded(plan, &frontend.owner, (pool, masquerade), packet),
        Verdict::Drop => Outcome::Dropped,
        Verdict::Reject => Outcome::Rejected,
        Verdict::LeaveAlone => Outcome::Untouched,
    }
}

/// The frontend a packet meets, if any: service addresses before node ports, exact ports before the rest.
fn frontend_of<'a>(plan: &'a FamilyPlan, packet: &Packet) -> Option<(FrontendKey, &'a Frontend)> {
    let (protocol, port) = packet.port?;
    let mut keys = vec![FrontendKey::Address(packet.to, protocol, port)];
    if packet.to.is_loopback() {
        keys.push(FrontendKey::LoopbackNodePort(protocol, port));
    }
    if is_of_this_host(&plan.node, packet.to) {
        keys.push(FrontendKey::NodePort(protocol, port));
    }
    keys.into_iter().find_map(|key| plan.frontend(&key).map(|frontend| (key, &**frontend)))
}

fn unclaimed(plan: &FamilyPlan, packet: &Packet) -> Outcome {
    if plan.frontend(&FrontendKey::OtherPorts(packet.to)).is_some() {
        Outcome::Rejected
    } else if plan.node.guarded_service_cidrs.iter().any(|block| block.contains(&packet.to)) {
        Outcome::Dropped
    } else {
        Outcome::Untouched
    }
}

fn verdict_of(node: &NodeTraffic, key: FrontendKey, frontend: &Frontend, packet: &Packet) -> Verdict {
    let first_match = || {
        frontend.rules.iter().find(|(source, _)| comes_from(node, source, packet)).map(|(_, verdict)| verdict)
    };
    let verdict = first_match().unwrap_or(frontend.rules.otherwise());
    match key {
        FrontendKey::NodePort(..) if !accepts_node_ports(node, packet.to) => {
            refusal_elsewhere(node, frontend.rules.otherwise())
        }
        FrontendKey::LoopbackNodePort(..) if !is_served_on_loopback(node, verdict, packet.to) => {
            refusal_elsewhere(node, frontend.rules.otherwise())
        }
        _ => verdict,
    }
}

/// On an address that does not accept NodePorts they are left alone, or just the refusals hold.
fn refusal_elsewhere(node: &NodeTraffic, otherwise: Verdict) -> Verdict {
    match otherwise {
        Verdict::Drop | Verdict::Reject if node.quirks.has(Quirk::NodePortRefusalsEverywhere) => otherwise,
        _ => Verdict::LeaveAlone,
    }
}

/// The kernel serves the loopback addresses that were asked for; a forwarding process listens on one only, and what is not
/// forwarded is refused on all.
fn is_served_on_loopback(node: &NodeTraffic, verdict: Verdict, to: IpAddr) -> bool {
    match node.loopback_node_ports {
        LoopbackNodePorts::NotServed => false,
        LoopbackNodePorts::InKernel => is_in(&node.loopback_addresses, to),
        LoopbackNodePorts::ForwardedOrRejected => {
            !matches!(verdict, Verdict::Forward { .. }) || to == node.family.loopback()
        }
    }
}

fn is_in(scope: &NodePortScope, ip: IpAddr) -> bool {
    match scope {
        NodePortScope::All => true,
        NodePortScope::Only(addresses) => addresses.contains(&ip),
    }
}

fn accepts_node_ports(node: &NodeTraffic, ip: IpAddr) -> bool {
    !ip.is_loopback() && is_in(&node.node_port_addresses, ip)
}

fn comes_from(node: &NodeTraffic, source: &TrafficSource, packet: &Packet) -> bool {
    match source {
        TrafficSource::Anyone => true,
        TrafficSource::ThisHost => is_of_this_host(node, packet.from),
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

fn is_of_this_host(node: &NodeTraffic, ip: IpAddr) -> bool {
    ip.is_loopback() || node.host_addresses.contains(&ip)
}

fn forwarded(
    plan: &FamilyPlan,
    owner: &ServicePortName,
    (scope, masquerade): (PoolScope, bool),
    packet: &Packet,
) -> Outcome {
    // A rule never names a pool that is not there; if one did, there is no endpoint to go to.
    let Some(pool) = plan.pool(owner, scope) else { return Outcome::Rejected };
    let any_hairpin = plan.node.quirks.has(Quirk::HairpinOfAnyEndpoint);
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
