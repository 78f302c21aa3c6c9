//! What exists whatever the Services: the sets, the base chains and the fixed chains behind them.
//!
//! Depends on the node's settings alone. What a Service adds is elements ([`super::frontend`]) and, for a pool size that
//! is new, chains ([`super::pool_chains`]).

use std::collections::BTreeSet;

use ferrule_kernel::nft::{
    Chain, ChainKind, Comparison, Element, Family, FibAddress, Field, Hook, HookPoint, Name, Rule, Set,
    SetData,
};
use ferrule_model::loopback_block;
use ferrule_plan::{LocalPods, NodePortScope, NodeTraffic};

use super::keys;
use super::names::{SetName, Table, chains, source_ranges};
use super::words::{
    Words, comes_in_on, comes_in_on_prefix, draw, drop_packet, forget_priority, goto, is_marked_and_unmark,
    is_new, is_of_this_host, is_redirected, jump, mark, masquerade, reject, return_packet, rule,
};

/// The most clients that are remembered at a time.
const MOST_CLIENTS: u32 = 1 << 20;

/// All sets and maps of one family, in the order in which they are made.
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
        SetName::Ways => (vec![Field::Priority], Some(SetData::Verdict)),
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
    let size = dynamic.then_some(MOST_CLIENTS);
    Set { key, data, dynamic, size, ..plain(name.name(), Vec::new()) }
}

/// A client and the pool it sticks to: see [`Words::recall`].
fn client(family: Family) -> Vec<Field> {
    match family {
        Family::Ip => vec![Field::Ipv4Addr, Field::Priority],
        Family::Ip6 => vec![Field::Slot, Field::Slot, Field::Priority],
    }
}

fn plain(name: Name, key: Vec<Field>) -> Set {
    Set { name, key, data: None, dynamic: false, size: None, comment: None }
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

/// The fixed chains, those that are jumped to before those that jump.
pub(super) fn fixed_chains(node: &NodeTraffic, words: Words, prefix_lengths: &BTreeSet<u8>) -> Vec<Chain> {
    let site = Site { node, words };
    vec![
        source_ranges_chain(words, prefix_lengths),
        chain(
            chains::FIREWALL_CHECK,
            vec![rule([
                words.is_in(Table::Address, &SetName::Firewalled.name()),
                goto(chains::SOURCE_RANGES),
            ])],
        ),
        chain(
            chains::SERVICE_ENDPOINTS_CHECK,
            vec![rule([words.is_in(Table::Address, &SetName::NoEndpointServices.name()), reject()])],
        ),
        chain(
            chains::NODEPORT_ENDPOINTS_CHECK,
            vec![rule([
                site.node_port_address(),
                words.is_in(Table::NodePort, &SetName::NoEndpointNodePorts.name()),
                reject(),
            ])],
        ),
        chain(chains::CLUSTER_IPS_CHECK, site.cluster_ips_check()),
        chain(chains::CLUSTER_RETRY, site.cluster_retry()),
        chain(chains::SERVICES, site.services()),
        chain(chains::MASQUERADING, site.masquerading()),
    ]
}

/// The chain that says who may use a firewalled address, longest prefixes first.
pub(super) fn source_ranges_chain(words: Words, prefix_lengths: &BTreeSet<u8>) -> Chain {
    let admitted = prefix_lengths
        .iter()
        .rev()
        .map(|length| rule([words.key_and_source_are_in(*length, &source_ranges(*length)), return_packet()]));
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

/// The node's settings with the words of its family.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site<'a> {
    pub node: &'a NodeTraffic,
    pub words: Words,
}

impl Site<'_> {
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
            LocalPods::From(block) => self.words.source_in(block, comparison),
            LocalPods::ByInterface(name) => comes_in_on(name, comparison),
            LocalPods::ByInterfacePrefix(prefix) => comes_in_on_prefix(prefix, comparison),
        }
    }

    /// Whether the destination accepts NodePorts. Nothing on loopback ever does.
    fn node_port_address(self) -> Vec<ferrule_kernel::nft::Expression> {
        match self.node.node_port_addresses {
            NodePortScope::Only(_) => self.words.destination_is_in(&SetName::NodePortIps.name()),
            NodePortScope::All => {
                let mut words = is_of_this_host(FibAddress::Destination);
                let loopback = loopback_block(self.node.family);
                words.extend(self.words.destination_in(&loopback, Comparison::NotEqual));
                words
            }
        }
    }

    fn cluster_ips_check(self) -> Vec<Rule> {
        let unused = rule([self.words.destination_is_in(&SetName::ClusterIps.name()), reject()]);
        let unallocated = self
            .node
            .guarded_service_cidrs
            .iter()
            .map(|block| rule([self.words.destination_in(block, Comparison::Equal), drop_packet()]));
        std::iter::once(unused).chain(unallocated).collect()
    }

    /// A look-up may miss an element while it is being replaced, so cluster IPs and node ports are tried twice.
    fn services(self) -> Vec<Rule> {
        let ways = SetName::Ways.name();
        let node_ports = || {
            let follow = self.words.follow(Table::NodePort, &SetName::NodePorts.name(), &ways);
            rule([self.node_port_address(), follow])
        };
        vec![
            rule([self.words.follow(Table::Address, &SetName::Services.name(), &ways)]),
            node_ports(),
            rule([self.words.destination_is_in(&SetName::ClusterIps.name()), goto(chains::CLUSTER_RETRY)]),
            node_ports(),
        ]
    }

    fn cluster_retry(self) -> Vec<Rule> {
        let words = self.words;
        let sticky = rule([
            words.take_number(Table::Address, &SetName::StickyPools.name()),
            draw(1, &SetName::StickySlots.name()),
            words.redirect_by_id(&SetName::StickyEndpoints.name()),
        ]);
        let plain = rule([words.pick(Table::Address, 1, &SetName::Endpoints.name())]);
        self.mark_unless_from_pods().into_iter().chain([plain, sticky]).collect()
    }

    fn masquerading(self) -> Vec<Rule> {
        vec![
            rule([forget_priority()]),
            rule([is_marked_and_unmark(self.node.masquerade_mark), masquerade()]),
            rule([is_redirected(), self.words.is_hairpin(&SetName::HairpinConnections.name()), masquerade()]),
        ]
    }
}

pub(super) fn chain(name: &str, rules: Vec<Rule>) -> Chain {
    Chain { name: Name::new(name), hook: None, rules, comment: None }
}

fn base(name: &str, hook: Hook, rules: Vec<Rule>) -> Chain {
    Chain { hook: Some(hook), ..chain(name, rules) }
}
