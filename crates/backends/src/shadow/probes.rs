//! The packets by which two sets of rules are compared: for each frontend one of each kind of sender that rules tell apart.

use std::net::IpAddr;

use ferrule_model::Protocol;
use ferrule_plan::{
    FamilyPlan, Frontend, FrontendKey, LocalPods, NodeTraffic, Packet, PoolScope, outside_client,
};
use ipnet::IpNet;

/// An interface that no setting names: `!` cannot be in the name of one that has a prefix of letters.
const OUTSIDE_INTERFACE: &str = "!outside";
/// Ports of which one is not used.
const RARE_PORTS: [u16; 4] = [9, 19, 65_533, 65_521];
/// The first addresses of a service range are those of the cluster's own Services.
const FIRST_TRIED: usize = 30;
/// If so many addresses in a row are in use, none is tried.
const MAX_TRIED: usize = 10_000;
/// Further ranges of a load balancer tell nothing new.
const MAX_RANGES: usize = 3;

/// A packet, and who sends it in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    pub sender: &'static str,
    pub packet: Packet,
}

/// A sender.
struct Sender {
    name: &'static str,
    from: IpAddr,
    interface: Option<String>,
}

/// The packets for one frontend.
pub fn of_frontend(plan: &FamilyPlan, key: &FrontendKey, frontend: &Frontend) -> Vec<Probe> {
    let node = &plan.node;
    let senders: Vec<Sender> =
        everybody(node).into_iter().chain(by_ranges(frontend)).chain(itself(plan, frontend)).collect();
    destinations(plan, key)
        .into_iter()
        .flat_map(|(to, port)| senders.iter().map(move |sender| sender.probe(to, port)))
        // A host does not send to a NodePort by way of its cable, and the like.
        .filter(|probe| probe.packet.from.is_ipv4() == probe.packet.to.is_ipv4())
        .collect()
}

/// A packet from outside to an address and port, in use or not.
pub fn from_outside(node: &NodeTraffic, to: IpAddr, port: Option<(Protocol, u16)>) -> Probe {
    outside(node).probe(to, port)
}

/// Packets to an address of each service range that no Service has.
pub fn unallocated(plan: &FamilyPlan) -> Vec<Probe> {
    let node = &plan.node;
    let is_free = |ip: &IpAddr| plan.frontend(&FrontendKey::UnmatchedPorts(*ip)).is_none();
    let free = |block: &IpNet| block.hosts().skip(FIRST_TRIED).take(MAX_TRIED).find(is_free);
    let addresses = node.guarded_service_cidrs.iter().filter_map(free);
    let ports = [Some((Protocol::Tcp, RARE_PORTS[0])), None];
    let to = addresses.flat_map(|ip| ports.map(|port| (ip, port)));
    to.flat_map(|(ip, port)| everybody(node).into_iter().map(move |sender| sender.probe(ip, port))).collect()
}

impl Sender {
    fn probe(&self, to: IpAddr, port: Option<(Protocol, u16)>) -> Probe {
        let packet = Packet { from: self.from, interface: self.interface.clone(), to, port };
        Probe { sender: self.name, packet }
    }
}

/// Where packets for a frontend are sent.
fn destinations(plan: &FamilyPlan, key: &FrontendKey) -> Vec<(IpAddr, Option<(Protocol, u16)>)> {
    match *key {
        FrontendKey::Address(ip, protocol, port) => vec![(ip, Some((protocol, port)))],
        FrontendKey::UnmatchedPorts(ip) => {
            let is_free =
                |port: &u16| plan.frontend(&FrontendKey::Address(ip, Protocol::Tcp, *port)).is_none();
            let unused = RARE_PORTS.into_iter().find(is_free).map(|port| (ip, Some((Protocol::Tcp, port))));
            unused.into_iter().chain([(ip, None)]).collect()
        }
        FrontendKey::NodePort(protocol, port) => {
            node_addresses(&plan.node).into_iter().map(|ip| (ip, Some((protocol, port)))).collect()
        }
        // Served by sockets, or by rules that another mode has.
        FrontendKey::LoopbackNodePort(..) => Vec::new(),
    }
}

/// An address of the host that accepts NodePorts, and one that does not, if there are such.
fn node_addresses(node: &NodeTraffic) -> Vec<IpAddr> {
    let accepts = |ip: &IpAddr| node.node_port_addresses.contains(*ip);
    let own = || node.host_addresses.iter().copied().filter(|ip| !ip.is_loopback());
    own().find(accepts).into_iter().chain(own().find(|ip| !accepts(ip))).collect()
}

fn everybody(node: &NodeTraffic) -> Vec<Sender> {
    let host = node.host_addresses.iter().copied().find(|ip| !ip.is_loopback());
    let host = host.map(|from| Sender { name: "this host", from, interface: None });
    host.into_iter().chain(local_pod(node)).chain([outside(node)]).collect()
}

fn outside(node: &NodeTraffic) -> Sender {
    let from = outside_client(node.family);
    Sender { name: "a client outside", from, interface: Some(OUTSIDE_INTERFACE.to_owned()) }
}

fn local_pod(node: &NodeTraffic) -> Option<Sender> {
    let name = "a local pod";
    let by_interface = |interface: String| Sender { interface: Some(interface), name, ..outside(node) };
    match node.local_pods.as_ref()? {
        LocalPods::From(block) => {
            let from = inside(block);
            (!node.host_addresses.contains(&from)).then(|| Sender { name, from, ..outside(node) })
        }
        LocalPods::ByInterface(interface) => Some(by_interface(interface.clone())),
        LocalPods::ByInterfacePrefix(prefix) => Some(by_interface(format!("{prefix}0"))),
    }
}

/// Clients that source ranges admit.
fn by_ranges(frontend: &Frontend) -> Vec<Sender> {
    let ranges = frontend.source_ranges().map_or(&[][..], |ranges| ranges);
    let interface = || Some(OUTSIDE_INTERFACE.to_owned());
    let admitted = |range: &IpNet| Sender {
        name: "a client that source ranges admit",
        from: inside(range),
        interface: interface(),
    };
    ranges.iter().take(MAX_RANGES).map(admitted).collect()
}

/// An endpoint of this node that may reach itself.
fn itself(plan: &FamilyPlan, frontend: &Frontend) -> Option<Sender> {
    let pool = plan.pool(&frontend.owner, PoolScope::Cluster)?;
    let own = pool.endpoints.iter().find(|endpoint| endpoint.is_local)?;
    let is_pod = !plan.node.host_addresses.contains(&own.ip);
    let interface = match plan.node.local_pods.as_ref() {
        Some(LocalPods::ByInterface(interface)) => interface.clone(),
        Some(LocalPods::ByInterfacePrefix(prefix)) => format!("{prefix}0"),
        Some(LocalPods::From(_)) | None => OUTSIDE_INTERFACE.to_owned(),
    };
    Some(Sender { name: "an endpoint itself", from: own.ip, interface: is_pod.then_some(interface) })
}

/// An address of a block that a host could have.
fn inside(block: &IpNet) -> IpAddr {
    block.hosts().nth(1).or_else(|| block.hosts().next()).unwrap_or_else(|| block.network())
}
