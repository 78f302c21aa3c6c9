//! The table that counts, `ferrule-counters`: one for each family, beside the mode's own rules.
//!
//! ```text
//!   input / postrouting   ct status dnat ─► connections    K @services                      update @endpoints { K . endpoint }
//!   (nat, -199)                                            node address, P @nodeports       the same
//! ```
//!
//! K is the destination that the client used: address, protocol and port; P is protocol and port. The endpoint is where replies
//! come from. Chains of type nat see the first packet of a connection, and of these two hooks only one, once; they come before all
//! that could translate its source. So each connection that was redirected to an endpoint counts once, whatever redirected it and
//! on which of its ways, and packets of established connections pay nothing.
//!
//! `services` and `nodeports` hold what is counted. Packets make the elements of `endpoints`, so that a change of endpoints writes
//! nothing. `carried` is never looked up: it holds what was counted by elements that are gone, so that a restart knows it.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ferrule_kernel::nft::{
    Chain, ChainKind, Comparison, CountedElement, Direction, Element, Expression, Family, Field, Hook,
    HookPoint, KeyBytes, MetaKey, Name, Register, Rule, Set, Transaction, TuplePart, Verdict,
};
use ferrule_model::Protocol;
use ferrule_plan::FrontendKey;

use crate::nftables::{exprs, keys};

/// The table's name.
pub const TABLE: &str = "ferrule-counters";

/// Before everything that translates source addresses. The kernel wants nat chains behind conntrack, which is at -200.
const PRIORITY: i32 = -199;
const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

/// The sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CounterSet {
    NodeAddresses,
    Services,
    NodePorts,
    Endpoints,
    Carried,
}

impl CounterSet {
    const ALL: [Self; 5] =
        [Self::NodeAddresses, Self::Services, Self::NodePorts, Self::Endpoints, Self::Carried];

    pub(super) fn name(self) -> Name {
        Name::new(match self {
            Self::NodeAddresses => "node-addresses",
            Self::Services => "services",
            Self::NodePorts => "nodeports",
            Self::Endpoints => "endpoints",
            Self::Carried => "carried",
        })
    }

    fn set(self, family: Family, max_endpoints: u32) -> Set {
        let address = address_field(family);
        let service = [address, Field::Protocol, Field::Port];
        let key = match self {
            Self::NodeAddresses => vec![address],
            Self::Services => service.to_vec(),
            Self::NodePorts => vec![Field::Protocol, Field::Port],
            Self::Endpoints => service.into_iter().chain([address, Field::Port]).collect(),
            // Sixteen bytes that nft can print.
            Self::Carried => vec![Field::Ipv6Addr],
        };
        let dynamic = self == Self::Endpoints;
        Set {
            name: self.name(),
            key,
            data: None,
            dynamic,
            counted: self != Self::NodeAddresses,
            size: dynamic.then_some(max_endpoints),
            comment: None,
        }
    }
}

/// All sets, in the order of their names.
pub(super) fn sets(family: Family, max_endpoints: u32) -> Vec<Set> {
    CounterSet::ALL.into_iter().map(|set| set.set(family, max_endpoints)).collect()
}

/// All chains, targets of jumps first.
pub(super) fn chains(family: Family) -> Vec<Chain> {
    let count = Name::new("connections");
    let rules = PROTOCOLS.into_iter().flat_map(|protocol| {
        let by_address = [is_address_in(family, CounterSet::Services)];
        let by_port = [is_node_address(), is_port_in(CounterSet::NodePorts)];
        [rule(family, protocol, &by_address), rule(family, protocol, &by_port)]
    });
    let counting = Chain { name: count.clone(), hook: None, rules: rules.collect(), comment: None };
    let base = |name: &str, point| Chain {
        name: Name::new(name),
        hook: Some(Hook { kind: ChainKind::Nat, point, priority: PRIORITY }),
        rules: vec![exprs::rule([exprs::is_dnat(), exprs::goto(count.as_str())])],
        comment: None,
    };
    vec![counting, base("input", HookPoint::Input), base("postrouting", HookPoint::Postrouting)]
}

/// Writes the empty table, replacing any other of its name.
pub(super) fn create(family: Family, max_endpoints: u32) -> Transaction {
    let mut transaction = Transaction::new();
    transaction.delete_table_if_exists().add_table();
    for set in sets(family, max_endpoints) {
        transaction.add_set(set);
    }
    for chain in chains(family) {
        transaction.add_chain(chain);
    }
    transaction
}

/// The element of a node's address.
pub(super) fn node_address(ip: IpAddr) -> Element {
    keys::element(CounterSet::NodeAddresses.name(), keys::address(ip), None)
}

/// Whether these elements have the same keys, in any order.
pub(super) fn same_keys(one: &[Element], other: &[Element]) -> bool {
    let keys = |elements: &[Element]| -> BTreeSet<KeyBytes> {
        elements.iter().map(|element| element.key.clone()).collect()
    };
    keys(one) == keys(other)
}

/// Where the counter of a frontend is; `None` for one that no connection can meet.
pub(super) fn place_of(key: &FrontendKey) -> Option<(CounterSet, KeyBytes)> {
    match *key {
        FrontendKey::Address(ip, protocol, port) => {
            Some((CounterSet::Services, keys::service(ip, protocol, port)))
        }
        FrontendKey::NodePort(protocol, port) | FrontendKey::LoopbackNodePort(protocol, port) => {
            Some((CounterSet::NodePorts, keys::node_port(protocol, port)))
        }
        FrontendKey::UnmatchedPorts(_) => None,
    }
}

/// A counter's element.
pub(super) fn counted(set: CounterSet, key: KeyBytes, comment: String, connections: u64) -> CountedElement {
    CountedElement { set: set.name(), key, comment: Some(comment), packets: connections, bytes: 0 }
}

/// What an element of `endpoints` is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EndpointKey {
    /// The element of `services` that let it be made, unless it was one of `nodeports`.
    pub service: KeyBytes,
    /// The element of `nodeports`.
    pub node_port: KeyBytes,
    pub endpoint: SocketAddr,
}

impl EndpointKey {
    pub(super) fn parse(key: &[u8], family: Family) -> Option<Self> {
        let width = match family {
            Family::Ip => 4,
            Family::Ip6 => 16,
        };
        let (service, endpoint) = key.split_at_checked(width + 8)?;
        let (ip, port) = endpoint.split_at_checked(width)?;
        let ip = match family {
            Family::Ip => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(ip).ok()?)),
            Family::Ip6 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(ip).ok()?)),
        };
        let port = u16::from_be_bytes(*port.first_chunk::<2>()?);
        Some(Self {
            service: KeyBytes::from_slice(service),
            node_port: KeyBytes::from_slice(&service[width..]),
            endpoint: SocketAddr::new(ip, port),
        })
    }
}

fn rule(family: Family, protocol: Protocol, matches: &[Vec<Expression>]) -> Rule {
    let mut expressions = is_protocol(protocol);
    expressions.extend(matches.iter().flatten().cloned());
    expressions.extend(count_endpoint(family));
    expressions.push(Expression::Verdict(Verdict::Return));
    Rule { expressions, comment: None }
}

/// `meta l4proto PROTOCOL`, without which nft does not know what a port is.
fn is_protocol(protocol: Protocol) -> Vec<Expression> {
    let value = [protocol.number()].as_slice().into();
    vec![
        Expression::Meta { key: MetaKey::L4Protocol, to: 1 },
        Expression::Compare { comparison: Comparison::Equal, from: 1, value },
    ]
}

/// `ct original ip daddr . meta l4proto . ct original proto-dst @SET`
fn is_address_in(family: Family, set: CounterSet) -> Vec<Expression> {
    let mut expressions = load_destination(family);
    expressions.push(Expression::Lookup { set: set.name(), from: 1, to: None });
    expressions
}

/// `ct original ip daddr @node-addresses`
fn is_node_address() -> Vec<Expression> {
    vec![
        tuple(Direction::Original, TuplePart::DestinationAddress, 1),
        Expression::Lookup { set: CounterSet::NodeAddresses.name(), from: 1, to: None },
    ]
}

/// `meta l4proto . ct original proto-dst @SET`
fn is_port_in(set: CounterSet) -> Vec<Expression> {
    vec![
        Expression::Meta { key: MetaKey::L4Protocol, to: 1 },
        tuple(Direction::Original, TuplePart::DestinationPort, 9),
        Expression::Lookup { set: set.name(), from: 1, to: None },
    ]
}

/// `update @endpoints { ct original ip daddr . meta l4proto . ct original proto-dst . ct reply ip saddr . ct reply proto-src }`
fn count_endpoint(family: Family) -> Vec<Expression> {
    let (address, port) = match family {
        Family::Ip => (11, 2),
        Family::Ip6 => (14, 18),
    };
    let mut expressions = load_destination(family);
    expressions.push(tuple(Direction::Reply, TuplePart::SourceAddress, address));
    expressions.push(tuple(Direction::Reply, TuplePart::SourcePort, port));
    expressions.push(Expression::CountIn { set: CounterSet::Endpoints.name(), key: 1 });
    expressions
}

fn load_destination(family: Family) -> Vec<Expression> {
    let (protocol, port) = match family {
        Family::Ip => (9, 10),
        Family::Ip6 => (2, 13),
    };
    vec![
        tuple(Direction::Original, TuplePart::DestinationAddress, 1),
        Expression::Meta { key: MetaKey::L4Protocol, to: protocol },
        tuple(Direction::Original, TuplePart::DestinationPort, port),
    ]
}

fn tuple(direction: Direction, part: TuplePart, to: Register) -> Expression {
    Expression::ConnectionTuple { direction, part, to }
}

fn address_field(family: Family) -> Field {
    match family {
        Family::Ip => Field::Ipv4Addr,
        Family::Ip6 => Field::Ipv6Addr,
    }
}
