//! What exists on every node: the sets, the base chains and the fixed chains behind them.
//!
//! Depends on the node's settings alone. What a Service adds is elements ([`super::frontend`]) and, for a new pool size, chains
//! ([`super::pool_chains`]).

use std::collections::BTreeSet;

use ferrule_kernel::nft::{
    Chain, ChainKind, Comparison, Element, Family, FibAddress, Field, Hook, HookPoint, Name, Rule, Set,
    SetData,
};
use ferrule_model::loopback_block;
use ferrule_plan::{LocalPods, NodePortScope, NodeTraffic};

use super::exprs::{
    ExprBuilder, drop_packet, goto, input_interface_is, input_interface_starts_with, is_dnat,
    is_local_address, is_marked_and_unmark, is_new, jump, mark, masquerade, pick_slot, reject,
    reset_priority, return_packet, rule,
};
use super::keys;
use super::names::{SetName, Table, chains, source_ranges};

/// How many clients are remembered at a time.
const MAX_AFFINITY_CLIENTS: u32 = 1 << 20;

/// All sets and maps of one family, in the order in which they are created.
pub(super) fn sets(family: Family) -> Vec<Set> {
    SetName::ALL.into_iter().map(|name| set(name, family)).collect()
}

/// The set of source ranges of one prefix length.
pub(super) fn source_ranges_set(prefix_length: u8, family: Family) -> Set {
    let address = address(family);
    plain(source_ranges(prefix_length), vec![address, Field::Protocol, Field::Port, address])
}

fn set(name: SetName, family: Family) -> Set {
    let address = address(family);
    let service = vec![address, Field::Protocol, Field::Port];
    let node_port = vec![Field::Protocol, Field::Port];
    let endpoint = || Some(SetData::Fields(vec![address, Field::Port]));
    let id = || Some(SetData::Fields(vec![Field::Priority]));
    let with_slot = |mut key: Vec<Field>| {
        key.push(Field::Slot);
        key
    };
    let (key, data) = match name {
        SetName::ClusterIps | SetName::NodePortIps => (vec![address], None),
        SetName::HairpinConnections => (vec![address, address, Field::Protocol, Field::Port], None),
        SetName::Dispatch => (vec![Field::Priority], Some(SetData::Verdict)),
        SetName::Endpoints | SetName::LocalEndpoints => (with_slot(service), endpoint()),
        SetName::NodePortEndpoints | SetName::NodePortLocalEndpoints => (with_slot(node_port), endpoint()),
        SetName::NoEndpointServices | SetName::Firewalled => (service, None),
        SetName::NoEndpointNodePorts => (node_port, None),
        SetName::Services | SetName::StickyPools | SetName::StickyLocalPools => (service, id()),
        SetName::NodePorts | SetName::StickyNodePortPools | SetName::StickyNodePortLocalPools => {
            (node_port, id())
        }
        SetName::StickySlots => (vec![Field::Priority, Field::Slot], id()),
        SetName::StickyEndpoints => (vec![Field::Protocol, Field::Priority], endpoint()),
        SetName::Affinity => (client(family), id()),
        // Sixteen bytes that nft can print: an IPv6 address.
        SetName::Stamp => (vec![Field::Ipv6Addr], None),
    };
    let dynamic = name == SetName::Affinity;
    let size = dynamic.then_some(MAX_AFFINITY_CLIENTS);
    Set { key, data, dynamic, size, ..plain(name.name(), Vec::new()) }
}

/// A client and the id of a pool: see [`ExprBuilder::load_remembered_endpoint`].
fn client(family: Family) -> Vec<Field> {
    match family {
        Family::Ip => vec![Field::Ipv4Addr, Field::Priority],
        Family::Ip6 => vec![Field::Slot, Field::Slot, Field::Priority],
    }
}

fn plain(name: Name, key: Vec<Field>) -> Set {
    Set { name, key, data: None, dynamic: false, counted: false, size: None, comment: None }
}

pub(super) fn address(family: Family) -> Field {
    match family {
        Family::Ip => Field::Ipv4Addr,
        Family::Ip6 => Field::Ipv6Addr,
    }
}

/// Elements that follow from the node's settings.
pub(super) fn elements(node: &NodeTraffic) -> Vec<Element> {
    match &node.node_port_addresses {
        NodePortScope::All => Vec::new(),
        NodePortScope::Only(addresses) => {
            let element =
                |ip: &std::net::IpAddr| keys::element(SetName::NodePortIps.name(), keys::address(*ip), None);
            addresses.iter().map(element).collect()
        }
    }
}

/// The fixed chains, targets of jumps first.
pub(super) fn fixed_chains(
    node: &NodeTraffic,
    exprs: ExprBuilder,
    prefix_lengths: &BTreeSet<u8>,
) -> Vec<Chain> {
    let context = NodeContext { node, exprs };
    vec![
        source_ranges_chain(exprs, prefix_lengths),
        chain(
            chains::FIREWALL_CHECK,
            vec![rule([
                exprs.is_in(Table::Address, &SetName::Firewalled.name()),
                goto(chains::SOURCE_RANGES),
            ])],
        ),
        chain(
            chains::SERVICE_ENDPOINTS_CHECK,
            vec![rule([exprs.is_in(Table::Address, &SetName::NoEndpointServices.name()), reject()])],
        ),
        chain(
            chains::NODEPORT_ENDPOINTS_CHECK,
            vec![rule([
                context.node_port_address(),
                exprs.is_in(Table::NodePort, &SetName::NoEndpointNodePorts.name()),
                reject(),
            ])],
        ),
        chain(chains::CLUSTER_IPS_CHECK, context.cluster_ips_check()),
        chain(chains::CLUSTER_RETRY, context.cluster_retry()),
        chain(chains::SERVICES, context.services()),
        chain(chains::MASQUERADING, context.masquerading()),
    ]
}

/// The chain with the clients that may use a firewalled address, longest prefixes first.
pub(super) fn source_ranges_chain(exprs: ExprBuilder, prefix_lengths: &BTreeSet<u8>) -> Chain {
    let admitted = prefix_lengths
        .iter()
        .rev()
        .map(|length| rule([exprs.key_and_source_are_in(*length, &source_ranges(*length)), return_packet()]));
    chain(chains::SOURCE_RANGES, admitted.chain([rule([drop_packet()])]).collect())
}

/// The base chains. Hooks and priorities are kube-proxy's: other programs order theirs around them.
pub(super) fn base_chains() -> Vec<Chain> {
    use HookPoint::{Forward, Input, Output, Postrouting, Prerouting};
    let check = |name, point, priority, to: &[&str]| {
        let jumps = to.iter().map(|chain| rule([is_new(), jump(chain)])).collect();
        base(name, Hook { kind: ChainKind::Filter, point, priority }, jumps)
    };
    let nat = |name, point, priority, to| {
        base(name, Hook { kind: ChainKind::Nat, point, priority }, vec![rule([jump(to)])])
    };
    let outgoing = [chains::SERVICE_ENDPOINTS_CHECK, chains::CLUSTER_IPS_CHECK];
    let incoming = [chains::NODEPORT_ENDPOINTS_CHECK, chains::SERVICE_ENDPOINTS_CHECK];
    vec![
        check("filter-prerouting-pre-dnat", Prerouting, -110, &[chains::FIREWALL_CHECK]),
        check("filter-output-pre-dnat", Output, -110, &[chains::FIREWALL_CHECK]),
        check("filter-input", Input, 0, &incoming),
        check("filter-forward", Forward, 0, &outgoing),
        check("filter-output", Output, 0, &outgoing),
        nat("nat-prerouting", Prerouting, -100, chains::SERVICES),
        nat("nat-output", Output, -100, chains::SERVICES),
        nat("nat-postrouting", Postrouting, 100, chains::MASQUERADING),
    ]
}

/// The node's settings, and the expressions of its family.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeContext<'a> {
    pub node: &'a NodeTraffic,
    pub exprs: ExprBuilder,
}

impl NodeContext<'_> {
    /// Marks cluster IP traffic for masquerading as the node is configured; nothing if it never is.
    pub(super) fn mark_unless_from_pods(self) -> Option<Rule> {
        let mark = mark(self.node.masquerade_mark);
        if self.node.masquerade_all {
            return Some(rule([mark]));
        }
        self.node.local_pods.as_ref().map(|pods| rule([self.local_pods(pods, Comparison::NotEqual), mark]))
    }

    /// Whether a packet comes from a pod of this node, or not.
    pub(super) fn local_pods(
        self,
        pods: &LocalPods,
        comparison: Comparison,
    ) -> Vec<ferrule_kernel::nft::Expression> {
        match pods {
            LocalPods::From(block) => self.exprs.source_in(block, comparison),
            LocalPods::ByInterface(name) => input_interface_is(name, comparison),
            LocalPods::ByInterfacePrefix(prefix) => input_interface_starts_with(prefix, comparison),
        }
    }

    /// Whether the destination accepts NodePorts. Nothing on loopback ever does.
    fn node_port_address(self) -> Vec<ferrule_kernel::nft::Expression> {
        match self.node.node_port_addresses {
            NodePortScope::Only(_) => self.exprs.destination_is_in(&SetName::NodePortIps.name()),
            NodePortScope::All => {
                let mut exprs = is_local_address(FibAddress::Destination);
                let loopback = loopback_block(self.node.family);
                exprs.extend(self.exprs.destination_in(&loopback, Comparison::NotEqual));
                exprs
            }
        }
    }

    fn cluster_ips_check(self) -> Vec<Rule> {
        let unused = rule([self.exprs.destination_is_in(&SetName::ClusterIps.name()), reject()]);
        let unallocated = self
            .node
            .guarded_service_cidrs
            .iter()
            .map(|block| rule([self.exprs.destination_in(block, Comparison::Equal), drop_packet()]));
        std::iter::once(unused).chain(unallocated).collect()
    }

    /// A lookup may miss an element while it is being replaced, so cluster IPs and node ports are tried twice.
    fn services(self) -> Vec<Rule> {
        let verdicts = SetName::Dispatch.name();
        let node_ports = || {
            let dispatch = self.exprs.dispatch(Table::NodePort, &SetName::NodePorts.name(), &verdicts);
            rule([self.node_port_address(), dispatch])
        };
        vec![
            rule([self.exprs.dispatch(Table::Address, &SetName::Services.name(), &verdicts)]),
            node_ports(),
            rule([self.exprs.destination_is_in(&SetName::ClusterIps.name()), goto(chains::CLUSTER_RETRY)]),
            node_ports(),
        ]
    }

    fn cluster_retry(self) -> Vec<Rule> {
        let exprs = self.exprs;
        let sticky = rule([
            exprs.load_id(Table::Address, &SetName::StickyPools.name()),
            pick_slot(1, &SetName::StickySlots.name()),
            exprs.dnat_by_id(&SetName::StickyEndpoints.name()),
        ]);
        let plain = rule([exprs.pick(Table::Address, 1, &SetName::Endpoints.name())]);
        self.mark_unless_from_pods().into_iter().chain([plain, sticky]).collect()
    }

    fn masquerading(self) -> Vec<Rule> {
        vec![
            rule([reset_priority()]),
            rule([is_marked_and_unmark(self.node.masquerade_mark), masquerade()]),
            rule([is_dnat(), self.exprs.is_hairpin(&SetName::HairpinConnections.name()), masquerade()]),
        ]
    }
}

pub(super) fn chain(name: &str, rules: Vec<Rule>) -> Chain {
    Chain { name: Name::new(name), hook: None, rules, comment: None }
}

fn base(name: &str, hook: Hook, rules: Vec<Rule>) -> Chain {
    Chain { hook: Some(hook), ..chain(name, rules) }
}
