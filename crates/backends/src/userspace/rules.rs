//! The iptables rules of userspace mode: those of kube-proxy 1.25, and a chain that keeps strangers from its sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ferrule_kernel::iptables::{Block, Quoted, RuleBuilder, RuleText};
use ferrule_model::Protocol;

use super::steering::Steering;
use super::wanted::{Destination, Path, PodInterface, PortalId, Route};
use crate::iptables::interface_prefix;
use crate::static_rules::{Jump, Position, RuleOrder, StaticChain, StaticRules};

pub(super) const PORTALS_CONTAINER: &str = "KUBE-PORTALS-CONTAINER";
pub(super) const PORTALS_HOST: &str = "KUBE-PORTALS-HOST";
pub(super) const NODE_PORT_CONTAINER: &str = "KUBE-NODEPORT-CONTAINER";
pub(super) const NODE_PORT_HOST: &str = "KUBE-NODEPORT-HOST";
pub(super) const NON_LOCAL: &str = "KUBE-NODEPORT-NON-LOCAL";
/// Ours: only redirected clients reach our sockets, or source ranges would be worth nothing.
pub(super) const GUARD: &str = "FERRULE-PORTALS";

/// Every chain, by table.
pub(crate) const CHAINS: [(&str, &str); 6] = [
    ("nat", PORTALS_CONTAINER),
    ("nat", PORTALS_HOST),
    ("nat", NODE_PORT_CONTAINER),
    ("nat", NODE_PORT_HOST),
    ("filter", NON_LOCAL),
    ("filter", GUARD),
];

/// The guard is inserted last, so it comes before what accepts packets to NodePorts.
pub(super) const JUMPS: [Jump; 6] = [
    Jump {
        table: "nat",
        from: "PREROUTING",
        at: Position::First,
        rule: r#"-m comment --comment "handle ClusterIPs; NOTE: this must be before the NodePort rules" -j KUBE-PORTALS-CONTAINER"#,
    },
    Jump {
        table: "nat",
        from: "OUTPUT",
        at: Position::First,
        rule: r#"-m comment --comment "handle ClusterIPs; NOTE: this must be before the NodePort rules" -j KUBE-PORTALS-HOST"#,
    },
    Jump {
        table: "nat",
        from: "PREROUTING",
        at: Position::Last,
        rule: r#"-m addrtype --dst-type LOCAL -m comment --comment "handle service NodePorts; NOTE: this must be the last rule in the chain" -j KUBE-NODEPORT-CONTAINER"#,
    },
    Jump {
        table: "nat",
        from: "OUTPUT",
        at: Position::Last,
        rule: r#"-m addrtype --dst-type LOCAL -m comment --comment "handle service NodePorts; NOTE: this must be the last rule in the chain" -j KUBE-NODEPORT-HOST"#,
    },
    Jump {
        table: "filter",
        from: "INPUT",
        at: Position::First,
        rule: r#"-m comment --comment "Ensure that non-local NodePort traffic can flow" -j KUBE-NODEPORT-NON-LOCAL"#,
    },
    Jump {
        table: "filter",
        from: "INPUT",
        at: Position::First,
        rule: r#"-m conntrack --ctstate NEW -m comment --comment "only redirected clients reach sockets of the proxy" -j FERRULE-PORTALS"#,
    },
];

/// What rules are made for.
pub(super) struct RuleInput<'a> {
    pub routes: &'a [Route],
    /// The sockets that are open. Routes to others are left out.
    pub ports: &'a BTreeMap<PortalId, u16>,
    /// The address that sockets are bound to, unless they are bound to all.
    pub listen_ip: Option<IpAddr>,
    /// Where the host's own packets are sent: an address of the node.
    pub host_ip: IpAddr,
    pub steering: Steering,
}

/// All chains and jumps of one family.
pub(super) fn rules(input: &RuleInput<'_>) -> StaticRules {
    let routed = |is_node_port: bool, path: Path| -> Vec<RuleText> {
        let routes =
            input.routes.iter().filter(|route| route.is_node_port() == is_node_port && route.path == path);
        routes.flat_map(|route| input.rules_of(route)).collect()
    };
    let chain = |table, name, rules| StaticChain { table, name, rules, order: RuleOrder::Fixed };
    let chains = vec![
        chain("filter", NON_LOCAL, input.accepting()),
        chain("filter", GUARD, input.guarding()),
        chain("nat", PORTALS_CONTAINER, routed(false, Path::Container)),
        chain("nat", PORTALS_HOST, routed(false, Path::Host)),
        chain("nat", NODE_PORT_CONTAINER, routed(true, Path::Container)),
        chain("nat", NODE_PORT_HOST, routed(true, Path::Host)),
    ];
    StaticRules { chains, jumps: &JUMPS }
}

impl Route {
    fn is_node_port(&self) -> bool {
        match self.at {
            Destination::NodePort(..) => true,
            Destination::Address(..) | Destination::ExternalIp(..) => false,
        }
    }
}

impl RuleInput<'_> {
    fn rules_of(&self, route: &Route) -> Vec<RuleText> {
        let Some(port) = self.ports.get(&route.to).copied() else { return Vec::new() };
        let (number, address, extras): (u16, Option<IpAddr>, &[&'static str]) = match (route.at, route.path) {
            (Destination::Address(ip, number), _) => (number, Some(ip), &[""]),
            (Destination::ExternalIp(ip, number), Path::Container) => {
                (number, Some(ip), &["-m physdev ! --physdev-is-in", "-m addrtype --dst-type LOCAL"])
            }
            (Destination::ExternalIp(ip, number), Path::Host) => {
                (number, Some(ip), &["-m addrtype --dst-type LOCAL"])
            }
            (Destination::NodePort(ip, number), _) => (number, ip, &[""]),
        };
        let common = from(matching(&route.owner.to_string(), route.owner.protocol, number), route);
        let common = match address {
            Some(ip) => common.with("-d").with(host_block(ip)),
            None => common,
        };
        let rule = |extra: &&'static str| self.target(common.clone().with(*extra), route.path, port).done();
        extras.iter().map(rule).collect()
    }

    /// A redirected packet keeps its answers' source right; in the host's own path it would go to a loopback address.
    fn target(&self, rule: RuleBuilder, path: Path, port: u16) -> RuleBuilder {
        let dnat = |ip| rule.clone().with("-j DNAT --to-destination").with(SocketAddr::new(ip, port));
        match (self.listen_ip, path, self.steering) {
            (Some(ip), ..) => dnat(ip),
            (None, Path::Host, _) | (None, Path::Container, Steering::ToHostAddress) => dnat(self.host_ip),
            (None, Path::Container, Steering::Redirect) => rule.with("-j REDIRECT --to-ports").with(port),
        }
    }

    /// Packets to NodePorts arrive with the port of the socket, and a firewall that knows NodePorts would not know it.
    fn accepting(&self) -> Vec<RuleText> {
        let routes = self.routes.iter().filter(|route| route.is_node_port());
        let sockets: BTreeMap<_, _> = routes.map(|route| (&route.to, &route.owner)).collect();
        let accept = |(portal, owner): (&PortalId, &ferrule_model::ServicePortName)| {
            let port = self.ports.get(portal).copied()?;
            let rule = matching(&owner.to_string(), portal.protocol(), port);
            // Whichever of the two chains comes first.
            let guard = guard(portal.protocol(), port);
            Some([guard, rule.with("-m state --state NEW -j ACCEPT").done()])
        };
        sockets.into_iter().filter_map(accept).flatten().collect()
    }

    fn guarding(&self) -> Vec<RuleText> {
        let ports: BTreeSet<(Protocol, u16)> =
            self.ports.iter().map(|(portal, port)| (portal.protocol(), *port)).collect();
        ports.into_iter().map(|(protocol, port)| guard(protocol, port)).collect()
    }
}

/// Refuses what was not redirected.
fn guard(protocol: Protocol, port: u16) -> RuleText {
    on_port(RuleText::build(), protocol, port).with("-m conntrack ! --ctstate DNAT -j REJECT").done()
}

fn matching(comment: &str, protocol: Protocol, port: u16) -> RuleBuilder {
    on_port(RuleText::build().comment(comment), protocol, port)
}

fn on_port(rule: RuleBuilder, protocol: Protocol, port: u16) -> RuleBuilder {
    let name = match protocol {
        Protocol::Tcp => "-p tcp -m tcp --dport",
        Protocol::Udp => "-p udp -m udp --dport",
        Protocol::Sctp => "-p sctp -m sctp --dport",
    };
    rule.with(name).with(port)
}

fn from(rule: RuleBuilder, route: &Route) -> RuleBuilder {
    let rule = match route.from.block {
        Some(block) => rule.with("-s").with(Block { address: block.network(), length: block.prefix_len() }),
        None => rule,
    };
    match &route.from.pods {
        Some(PodInterface::Named(name)) => rule.with("-i").with(Quoted::new(name)),
        Some(PodInterface::Prefix(prefix)) => rule.with("-i").with(interface_prefix(prefix)),
        None => rule,
    }
}

fn host_block(ip: IpAddr) -> Block {
    let length = if ip.is_ipv4() { 32 } else { 128 };
    Block { address: ip, length }
}
