//! What does not depend on Services: the chains there always are, the jumps into them, and the rules of this node.

use ferrule_kernel::iptables::{Mark, RuleText};
use ferrule_model::IpFamily;
use ferrule_plan::{LoopbackNodePorts, NodePortScope, NodeTraffic};

use super::localnet::{self, LOCALNET, LocalnetBefore};
use super::names::{FIREWALL, MARK};
use crate::state_hash::ObjectHash;

/// Counts packets dropped as invalid.
pub const INVALID_COUNTER: &str = "ct_state_invalid_dropped_pkts";
/// Counts packets to NodePorts on loopback addresses.
pub const LOOPBACK_COUNTER: &str = "localhost_nps_accepted_pkts";

/// A table of iptables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Table {
    Filter,
    Nat,
    Mangle,
}

impl Table {
    /// In the order in which they are written: a refusal is there before what it refuses is no longer forwarded.
    pub(super) const ALL: [Self; 3] = [Self::Filter, Self::Nat, Self::Mangle];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Nat => "nat",
            Self::Mangle => "mangle",
        }
    }
}

/// A chain to which every Service port may add rules, in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dispatch {
    /// Services without usable endpoints refuse.
    Refusals,
    /// The same for addresses outside the cluster.
    ExternalRefusals,
    /// Load balancers' health checks are let in.
    HealthChecks,
    /// What source ranges did not let through is dropped.
    Firewall,
    /// Service addresses.
    Services,
    /// Node ports.
    NodePorts,
}

impl Dispatch {
    pub(super) const ALL: [Self; 6] = [
        Self::Refusals,
        Self::ExternalRefusals,
        Self::HealthChecks,
        Self::Firewall,
        Self::Services,
        Self::NodePorts,
    ];

    pub(super) fn chain(self) -> (Table, &'static str) {
        match self {
            Self::Refusals => (Table::Filter, "KUBE-SERVICES"),
            Self::ExternalRefusals => (Table::Filter, "KUBE-EXTERNAL-SERVICES"),
            Self::HealthChecks => (Table::Filter, "KUBE-NODEPORTS"),
            Self::Firewall => (Table::Filter, "KUBE-PROXY-FIREWALL"),
            Self::Services => (Table::Nat, "KUBE-SERVICES"),
            Self::NodePorts => (Table::Nat, "KUBE-NODEPORTS"),
        }
    }
}

/// A rule in a built-in chain.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Jump {
    pub table: Table,
    pub from: &'static str,
    pub rule: &'static str,
}

const fn jump(table: Table, from: &'static str, rule: &'static str) -> Jump {
    Jump { table, from, rule }
}

const EXTERNAL: &str = r#"-m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES"#;
const PORTALS: &str =
    r#"-m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES"#;
const RANGES: &str = r#"-m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL"#;
const HEALTH: &str = r#"-m comment --comment "kubernetes health check service ports" -j KUBE-NODEPORTS"#;
const FORWARD: &str = r#"-m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD"#;
const SERVICES: &str = r#"-m comment --comment "kubernetes service portals" -j KUBE-SERVICES"#;
const POSTROUTING: &str = r#"-m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING"#;

/// Each is put at the top if it is missing, in this order; one that is there is never moved.
const JUMPS: [Jump; 14] = [
    jump(Table::Filter, "INPUT", EXTERNAL),
    jump(Table::Filter, "FORWARD", EXTERNAL),
    jump(Table::Filter, "INPUT", HEALTH),
    jump(Table::Filter, "FORWARD", PORTALS),
    jump(Table::Filter, "OUTPUT", PORTALS),
    jump(Table::Filter, "FORWARD", FORWARD),
    jump(Table::Filter, "INPUT", RANGES),
    jump(Table::Filter, "OUTPUT", RANGES),
    jump(Table::Filter, "FORWARD", RANGES),
    jump(Table::Nat, "OUTPUT", SERVICES),
    jump(Table::Nat, "PREROUTING", SERVICES),
    jump(Table::Nat, "POSTROUTING", POSTROUTING),
    jump(Table::Filter, "INPUT", "-j KUBE-FIREWALL"),
    jump(Table::Filter, "OUTPUT", "-j KUBE-FIREWALL"),
];

/// The jumps there are, with the one to the guard of loopback addresses or without it.
pub(super) fn jumps(with_guard: bool) -> impl Iterator<Item = &'static Jump> {
    JUMPS.iter().chain(with_guard.then_some(&localnet::JUMP))
}

/// Properties of this host that rules depend on, read once at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Whether conntrack accepts TCP packets outside of the window (`nf_conntrack_tcp_be_liberal`).
    pub tcp_is_liberal: bool,
    /// Whether there is a counter for dropped invalid packets.
    pub counts_invalid: bool,
    /// Whether there is a counter for packets to NodePorts on loopback addresses.
    pub counts_loopback: bool,
    /// What `route_localnet` was before a service proxy needed it.
    pub localnet_before: LocalnetBefore,
}

impl Host {
    /// The counters there are, as rules call them.
    pub fn counters(self) -> Vec<&'static str> {
        let all = [(self.counts_invalid, INVALID_COUNTER), (self.counts_loopback, LOOPBACK_COUNTER)];
        all.into_iter().filter_map(|(is_there, name)| is_there.then_some(name)).collect()
    }
}

/// The rules that depend on the node alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Base {
    /// Chains with nothing but these rules.
    pub chains: Vec<(Table, &'static str, Vec<RuleText>)>,
    /// What comes last in [`Dispatch::Services`].
    pub tail: Vec<RuleText>,
}

impl Base {
    pub(super) fn hash(&self) -> ObjectHash {
        let mut hash = ObjectHash::new();
        for (table, chain, rules) in &self.chains {
            hash.texts([table.name(), chain]);
            hash.texts(rules.iter().map(RuleText::as_str));
        }
        hash.texts(self.tail.iter().map(RuleText::as_str));
        hash
    }

    /// Whether packets from the network to loopback addresses are dropped, since they could arrive.
    pub(super) fn guards_loopback(&self) -> bool {
        self.chains.iter().any(|(_, chain, _)| *chain == LOCALNET)
    }

    pub(super) fn new(node: &NodeTraffic, host: Host) -> Self {
        let (bits, masked) = marks(node);
        let postrouting = vec![
            RuleText::build().with("-m mark ! --mark").with(masked).with("-j RETURN").done(),
            RuleText::build().with("-j MARK --xor-mark").with(bits).done(),
            RuleText::literal(
                r#"-m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully"#,
            ),
        ];
        let set_mark = RuleText::build().with("-j MARK --or-mark").with(bits).done();
        let mut chains = vec![
            (Table::Filter, "KUBE-FORWARD", forward(masked, host)),
            (Table::Nat, "KUBE-POSTROUTING", postrouting),
            (Table::Nat, MARK, vec![set_mark]),
        ];
        if serves_loopback(node) {
            chains.push((Table::Filter, FIREWALL, vec![martians()]));
            chains.push((Table::Mangle, LOCALNET, vec![host.localnet_before.rule()]));
        }
        Self { chains, tail: tail(node) }
    }
}

/// Whether NodePorts are served on loopback addresses.
pub(super) fn serves_loopback(node: &NodeTraffic) -> bool {
    let any = match &node.loopback_addresses {
        NodePortScope::All => true,
        NodePortScope::Only(addresses) => !addresses.is_empty(),
    };
    any && node.family == IpFamily::V4 && node.loopback_node_ports == LoopbackNodePorts::InKernel
}

/// The bit that marks what is to be masqueraded, alone and with its mask.
fn marks(node: &NodeTraffic) -> (Mark, Mark) {
    let bits = node.masquerade_mark;
    (Mark { bits, is_masked: false }, Mark { bits, is_masked: true })
}

fn forward(marked: Mark, host: Host) -> Vec<RuleText> {
    let mut rules = Vec::with_capacity(3);
    if !host.tcp_is_liberal {
        let counter =
            if host.counts_invalid { "-m nfacct --nfacct-name ct_state_invalid_dropped_pkts" } else { "" };
        let rule = RuleText::build().with("-m conntrack --ctstate INVALID").with(counter).with("-j DROP");
        rules.push(rule.done());
    }
    let accept =
        RuleText::build().with(r#"-m comment --comment "kubernetes forwarding rules" -m mark --mark"#);
    rules.push(accept.with(marked).with("-j ACCEPT").done());
    rules.push(RuleText::literal(
        r#"-m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"#,
    ));
    rules
}

/// With `route_localnet`, others on the network could send to services that listen on loopback alone.
fn martians() -> RuleText {
    RuleText::literal(
        r#"-m comment --comment "block incoming localnet connections" -d 127.0.0.0/8 ! -s 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP"#,
    )
}

/// The jumps to the node ports, for the addresses that accept them.
fn tail(node: &NodeTraffic) -> Vec<RuleText> {
    let begin = || {
        RuleText::build().with(
            r#"-m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain""#,
        )
    };
    let end = "-j KUBE-NODEPORTS";
    match &node.node_port_addresses {
        NodePortScope::All => {
            let except = match node.family {
                IpFamily::V4 if serves_loopback(node) => "",
                IpFamily::V4 => "! -d 127.0.0.0/8",
                IpFamily::V6 => "! -d ::1/128",
            };
            vec![begin().with("-m addrtype --dst-type LOCAL").with(except).with(end).done()]
        }
        NodePortScope::Only(addresses) => {
            let loopback = match &node.loopback_addresses {
                NodePortScope::Only(addresses) if serves_loopback(node) => Some(addresses),
                NodePortScope::Only(_) | NodePortScope::All => None,
            };
            let all = addresses.iter().chain(loopback.into_iter().flatten());
            all.map(|address| begin().with("-d").with(*address).with(end).done()).collect()
        }
    }
}
