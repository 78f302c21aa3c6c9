//! The iptables rules of ipvs mode: a fixed number, whatever the number of Services, but for one rule a load balancer that
//! this node may not use.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use ferrule_kernel::iptables::{Block, Mark, RuleBuilder, RuleText};
use ferrule_model::{IpFamily, Protocol};
use ferrule_plan::{LocalPods, NodeTraffic};

use super::sets::{AddressSet, SETS};
use crate::static_rules::{Jump, Position, RuleOrder, StaticChain, StaticRules};

const PORTALS: &str = r#"-m comment --comment "kubernetes service portals" -j KUBE-SERVICES"#;
const POSTROUTING: &str = r#"-m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING"#;
const FORWARD: &str = r#"-m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD"#;
const HEALTH: &str = r#"-m comment --comment "kubernetes health check rules" -j KUBE-NODE-PORT"#;
const FIREWALL: &str = r#"-m comment --comment "kube-proxy firewall rules" -j KUBE-PROXY-FIREWALL"#;
const ACCESS: &str = r#"-m comment --comment "kubernetes ipvs access filter" -j KUBE-IPVS-FILTER"#;
const OUT_ACCESS: &str = r#"-m comment --comment "kubernetes ipvs access filter" -j KUBE-IPVS-OUT-FILTER"#;

/// Each is put at the top if it is missing, in this order.
pub(super) const JUMPS: [Jump; 9] = [
    Jump { table: "nat", from: "OUTPUT", at: Position::First, rule: PORTALS },
    Jump { table: "nat", from: "PREROUTING", at: Position::First, rule: PORTALS },
    Jump { table: "nat", from: "POSTROUTING", at: Position::First, rule: POSTROUTING },
    Jump { table: "filter", from: "FORWARD", at: Position::First, rule: FORWARD },
    Jump { table: "filter", from: "INPUT", at: Position::First, rule: HEALTH },
    Jump { table: "filter", from: "INPUT", at: Position::First, rule: FIREWALL },
    Jump { table: "filter", from: "FORWARD", at: Position::First, rule: FIREWALL },
    Jump { table: "filter", from: "INPUT", at: Position::First, rule: ACCESS },
    Jump { table: "filter", from: "OUTPUT", at: Position::First, rule: OUT_ACCESS },
];

/// A load balancer's address that this node may not use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ClosedToNode {
    pub address: IpAddr,
    pub protocol: Protocol,
    pub port: u16,
}

/// What the rules depend on, beside the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RuleInput {
    /// The sets that have entries, by [`AddressSet::index`]: rules about others are left out.
    pub filled: [bool; SETS],
    pub closed_to_node: Arc<BTreeSet<ClosedToNode>>,
}

impl RuleInput {
    /// What is needed as long as the state is on its way from one to the other.
    pub(super) fn or(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.filled.iter_mut().zip(other.filled).for_each(|(filled, other)| *filled |= other);
        if !other.closed_to_node.is_subset(&both.closed_to_node) {
            Arc::make_mut(&mut both.closed_to_node).extend(other.closed_to_node.iter());
        }
        both
    }
}

/// All chains and jumps of one family.
pub(super) fn rules(node: &NodeTraffic, input: &RuleInput) -> StaticRules {
    let rules = Rules { node, input };
    let chain = |table, name, rules| StaticChain { table, name, rules, order: RuleOrder::Fixed };
    let chains = vec![
        chain("nat", "KUBE-SERVICES", rules.services()),
        chain("nat", "KUBE-POSTROUTING", rules.postrouting()),
        chain("nat", "KUBE-NODE-PORT", rules.node_ports()),
        chain("nat", "KUBE-LOAD-BALANCER", rules.load_balancers()),
        chain("nat", "KUBE-MARK-MASQ", vec![rules.mark_masquerade()]),
        chain("filter", "KUBE-FORWARD", rules.forward()),
        chain("filter", "KUBE-NODE-PORT", vec![rules.health_checks()]),
        chain("filter", "KUBE-PROXY-FIREWALL", rules.firewall()),
        chain("filter", "KUBE-SOURCE-RANGES-FIREWALL", rules.source_ranges()),
        chain("filter", "KUBE-IPVS-FILTER", rules.access()),
        StaticChain { order: RuleOrder::Any, ..chain("filter", "KUBE-IPVS-OUT-FILTER", rules.out_access()) },
    ];
    StaticRules { chains, jumps: &JUMPS }
}

struct Rules<'a> {
    node: &'a NodeTraffic,
    input: &'a RuleInput,
}

impl Rules<'_> {
    fn is_filled(&self, set: AddressSet) -> bool {
        self.input.filled.get(set.index()).copied().unwrap_or_default()
    }

    /// A match of a set, with its comment.
    fn about(&self, begin: RuleBuilder, set: AddressSet) -> RuleBuilder {
        self.in_set(begin.comment(set.comment()), set)
    }

    fn in_set(&self, begin: RuleBuilder, set: AddressSet) -> RuleBuilder {
        begin.with("-m set --match-set").with(set.name(self.node.family))
    }

    /// Rules about a set, unless it is empty.
    fn if_filled(&self, set: AddressSet, rules: &[&'static str]) -> Vec<RuleText> {
        let rules = rules.iter().filter(|_| self.is_filled(set));
        rules.map(|rule| self.about(RuleText::build(), set).with(*rule).done()).collect()
    }

    fn services(&self) -> Vec<RuleText> {
        const ACCEPTED: [&str; 2] = [
            "dst,dst -m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ACCEPT",
            "dst,dst -m addrtype --dst-type LOCAL -j ACCEPT",
        ];
        let loopback = match self.node.family {
            IpFamily::V4 => "-s 127.0.0.0/8 -j RETURN",
            IpFamily::V6 => "-s ::1/128 -j RETURN",
        };
        let mut rules = vec![RuleText::literal(loopback)];
        rules.extend(self.if_filled(AddressSet::LoadBalancer, &["dst,dst -j KUBE-LOAD-BALANCER"]));
        rules.extend(self.is_filled(AddressSet::ClusterIp).then(|| self.masquerade_cluster_ips()));
        rules.extend(self.if_filled(AddressSet::ExternalIp, &["dst,dst -j KUBE-MARK-MASQ"]));
        rules.extend(self.if_filled(AddressSet::ExternalIp, &ACCEPTED));
        rules.extend(self.if_filled(AddressSet::ExternalIpLocal, &ACCEPTED));
        rules.push(RuleText::literal("-m addrtype --dst-type LOCAL -j KUBE-NODE-PORT"));
        for set in [AddressSet::ClusterIp, AddressSet::LoadBalancer] {
            let rule = || self.in_set(RuleText::build(), set).with("dst,dst -j ACCEPT").done();
            rules.extend(self.is_filled(set).then(rule));
        }
        rules
    }

    fn masquerade_cluster_ips(&self) -> RuleText {
        let rule = self.about(RuleText::build(), AddressSet::ClusterIp);
        let rule = match &self.node.local_pods {
            _ if self.node.masquerade_all => rule.with("dst,dst"),
            Some(LocalPods::From(block)) => {
                let block = Block { address: block.network(), length: block.prefix_len() };
                rule.with("dst,dst ! -s").with(block)
            }
            Some(LocalPods::ByInterface(name)) => rule.with("dst,dst ! -i").with(quoted(name)),
            Some(LocalPods::ByInterfacePrefix(prefix)) => {
                rule.with("dst,dst ! -i").with(quoted(&format!("{prefix}+")))
            }
            // Where local pods cannot be recognized, only the node's own packets need it, whose source became a service address.
            None => rule.with("src,dst"),
        };
        rule.with("-j KUBE-MARK-MASQ").done()
    }

    fn load_balancers(&self) -> Vec<RuleText> {
        let mut rules = self.if_filled(AddressSet::LoadBalancerLocal, &["dst,dst -j RETURN"]);
        rules.push(RuleText::literal("-j KUBE-MARK-MASQ"));
        rules
    }

    fn node_ports(&self) -> Vec<RuleText> {
        let sets = [
            ("-p tcp", AddressSet::NodePortLocalTcp, "dst -j RETURN"),
            ("-p tcp", AddressSet::NodePortTcp, "dst -j KUBE-MARK-MASQ"),
            ("-p udp", AddressSet::NodePortLocalUdp, "dst -j RETURN"),
            ("-p udp", AddressSet::NodePortUdp, "dst -j KUBE-MARK-MASQ"),
            ("-p sctp", AddressSet::NodePortLocalSctp, "dst,dst -j RETURN"),
            ("-p sctp", AddressSet::NodePortSctp, "dst,dst -j KUBE-MARK-MASQ"),
        ];
        let rules = sets.into_iter().filter(|(_, set, _)| self.is_filled(*set));
        rules
            .map(|(protocol, set, rest)| self.about(RuleText::build().with(protocol), set).with(rest).done())
            .collect()
    }

    fn postrouting(&self) -> Vec<RuleText> {
        let (mark, marked) = self.marks();
        let mut rules = self.if_filled(AddressSet::LoopBack, &["dst,dst,src -j MASQUERADE"]);
        rules.push(RuleText::build().with("-m mark ! --mark").with(marked).with("-j RETURN").done());
        rules.push(RuleText::build().with("-j MARK --xor-mark").with(mark).done());
        rules.push(RuleText::literal(
            r#"-m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully"#,
        ));
        rules
    }

    fn mark_masquerade(&self) -> RuleText {
        RuleText::build().with("-j MARK --or-mark").with(self.marks().0).done()
    }

    /// The bit that marks what is to be masqueraded, alone and with its mask.
    fn marks(&self) -> (Mark, Mark) {
        let bits = self.node.masquerade_mark;
        (Mark { bits, is_masked: false }, Mark { bits, is_masked: true })
    }

    fn forward(&self) -> Vec<RuleText> {
        let marked =
            RuleText::build().with(r#"-m comment --comment "kubernetes forwarding rules" -m mark --mark"#);
        let known = r#"-m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"#;
        vec![marked.with(self.marks().1).with("-j ACCEPT").done(), RuleText::literal(known)]
    }

    fn health_checks(&self) -> RuleText {
        self.about(RuleText::build(), AddressSet::HealthCheckNodePort).with("dst -j ACCEPT").done()
    }

    fn firewall(&self) -> Vec<RuleText> {
        self.if_filled(AddressSet::LoadBalancerFw, &["dst,dst -j KUBE-SOURCE-RANGES-FIREWALL"])
    }

    fn source_ranges(&self) -> Vec<RuleText> {
        let mut rules = self.if_filled(AddressSet::SourceCidr, &["dst,dst,src -j RETURN"]);
        rules.extend(self.if_filled(AddressSet::SourceIp, &["dst,dst,src -j RETURN"]));
        rules.push(RuleText::literal("-j DROP"));
        rules
    }

    /// Keeps listeners of the host, which would answer on every address of the interface, from being reached through it.
    fn access(&self) -> Vec<RuleText> {
        let served = [
            AddressSet::LoadBalancer,
            AddressSet::ClusterIp,
            AddressSet::ExternalIp,
            AddressSet::ExternalIpLocal,
        ];
        let returned = served.map(|set| self.in_set(RuleText::build(), set).with("dst,dst -j RETURN").done());
        let mut rules = returned.to_vec();
        let health = self.in_set(RuleText::build(), AddressSet::HealthCheckNodePort);
        rules.push(health.with("dst -j RETURN").done());
        let others = self.in_set(RuleText::build().with("-m conntrack --ctstate NEW"), AddressSet::IpvsIps);
        rules.push(others.with("dst -j REJECT").done());
        rules
    }

    fn out_access(&self) -> Vec<RuleText> {
        let rule = |closed: &ClosedToNode| {
            let rule = RuleText::build().with("-s").with(closed.address);
            let rule = rule.with("-m ipvs --vaddr").with(closed.address);
            let rule = rule.with("--vproto").with(protocol_name(closed.protocol));
            rule.with("--vport").with(closed.port).with("-j DROP").done()
        };
        self.input.closed_to_node.iter().map(rule).collect()
    }
}

fn quoted(name: &str) -> ferrule_kernel::iptables::Quoted {
    ferrule_kernel::iptables::Quoted::new(name)
}

fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
        Protocol::Sctp => "sctp",
    }
}

/// The names of all chains, by table.
pub(super) fn chain_names() -> BTreeSet<(&'static str, &'static str)> {
    let nat = ["KUBE-SERVICES", "KUBE-POSTROUTING", "KUBE-NODE-PORT", "KUBE-LOAD-BALANCER", "KUBE-MARK-MASQ"];
    let filter = [
        "KUBE-FORWARD",
        "KUBE-NODE-PORT",
        "KUBE-PROXY-FIREWALL",
        "KUBE-SOURCE-RANGES-FIREWALL",
        "KUBE-IPVS-FILTER",
        "KUBE-IPVS-OUT-FILTER",
    ];
    nat.map(|chain| ("nat", chain)).into_iter().chain(filter.map(|chain| ("filter", chain))).collect()
}
