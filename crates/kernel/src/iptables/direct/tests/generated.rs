//! Random rules, each in the one form that parsing and decoding give it.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::option;
use proptest::prelude::*;

use super::super::parse::network;
use super::super::{
    Accounting, AddressRange, AddressTypes, Comment, ConnectionState, DestinationNat, Ipvs, MarkMatch,
    MarkTarget, MaskedMark, Masquerade, Match, Negatable, PhysicalDevice, PortProtocol, PortRange, Ports,
    Recent, RecentAction, Redirect, Reject, SetDirections, SetMatch, Side, Spelling, Statistic, Target,
    XtRule,
};
use crate::iptables::Block;
use crate::nft::Family;

/// The ipsets there are.
pub(super) const SETS: [&str; 2] = ["KUBE-CLUSTER-IP", "KUBE-LOOP-BACK"];

pub(super) fn any_family() -> impl Strategy<Value = Family> {
    prop_oneof![Just(Family::Ip), Just(Family::Ip6)]
}

/// A rule, with its family.
pub(super) fn any_rule(family: Family) -> impl Strategy<Value = (Family, XtRule<'static>)> {
    let addresses = (option::of(signed(block(family))), option::of(signed(block(family))));
    let interfaces = (option::of(signed(interface())), option::of(signed(interface())));
    let matches = prop::collection::vec(any_match(family), 0..4);
    (addresses, interfaces, protocol_and_ports(), matches, any_target(family)).prop_map(
        move |((source, destination), (input, output), (protocol, ports), mut matches, target)| {
            if let Some(ports) = ports {
                matches.insert(matches.len() / 2, Match::Ports(ports));
            }
            let matches = matches.into();
            let is_condition = |block: &Negatable<Block>| block.value.length > 0 || block.is_negated;
            let (source, destination) = (source.filter(is_condition), destination.filter(is_condition));
            (family, XtRule { source, destination, input, output, protocol, matches, target })
        },
    )
}

fn signed<T: std::fmt::Debug>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Negatable<T>> {
    (any::<bool>(), value).prop_map(|(is_negated, value)| Negatable { is_negated, value })
}

fn address(family: Family) -> BoxedStrategy<IpAddr> {
    match family {
        Family::Ip => any::<Ipv4Addr>().prop_map(IpAddr::V4).boxed(),
        Family::Ip6 => any::<Ipv6Addr>().prop_map(IpAddr::V6).boxed(),
    }
}

fn block(family: Family) -> impl Strategy<Value = Block> {
    (address(family), 0..=family.address_bits())
        .prop_map(|(address, length)| Block { address: network(address, length), length })
}

fn interface() -> impl Strategy<Value = Cow<'static, str>> {
    "[a-z][a-z0-9.-]{0,13}[+]?".prop_map(Cow::Owned)
}

fn name() -> impl Strategy<Value = Cow<'static, str>> {
    "KUBE-[A-Z0-9_-]{1,20}".prop_map(Cow::Owned)
}

fn port_range() -> impl Strategy<Value = PortRange> {
    prop_oneof![
        any::<u16>().prop_map(|port| PortRange { first: port, last: port }),
        (any::<u16>(), any::<u16>())
            .prop_map(|(one, other)| PortRange { first: one.min(other), last: one.max(other) }),
    ]
}

/// A protocol, and ports of it if it has some.
fn protocol_and_ports() -> impl Strategy<Value = (Option<Negatable<u8>>, Option<Ports>)> {
    let with_ports = (0..3_usize, option::of(signed(port_range())), option::of(signed(port_range())))
        .prop_map(|(protocol, source, destination)| {
            let (number, protocol) =
                [(6, PortProtocol::Tcp), (17, PortProtocol::Udp), (132, PortProtocol::Sctp)][protocol];
            let kept = |ports: &Negatable<PortRange>| {
                let PortRange { first, last } = ports.value;
                // Spelled otherwise.
                protocol == PortProtocol::Sctp
                    || first > 0
                    || (last == 0)
                    || (!ports.is_negated && last < u16::MAX)
            };
            let (source, destination) = (source.filter(kept), destination.filter(kept));
            (Some(Negatable::plain(number)), Some(Ports { protocol, source, destination }))
        });
    prop_oneof![option::of(signed(1..=255_u8)).prop_map(|protocol| (protocol, None)), with_ports]
}

fn any_match(family: Family) -> BoxedStrategy<Match<'static>> {
    let states = (any::<bool>(), any::<bool>(), 1..512_u16).prop_map(|(is_negated, by_state, states)| {
        let spelling = if by_state { Spelling::State } else { Spelling::Conntrack };
        let states = if by_state { states & 0x10f | 8 } else { states & 0x1cf | 8 };
        Match::ConnectionState(ConnectionState { spelling, is_negated, states })
    });
    let types = (option::of(signed(1..4096_u16)), option::of(signed(1..4096_u16)))
        .prop_filter("one of them", |(source, destination)| source.is_some() || destination.is_some())
        .prop_map(|(source, destination)| Match::AddressTypes(AddressTypes { source, destination }));
    prop_oneof![
        "\\PC{0,60}".prop_map(|text| Match::Comment(Comment { text: Cow::Owned(text) })),
        (any::<bool>(), 0..=0x8000_0000_u32)
            .prop_map(|(is_negated, probability)| Match::Statistic(Statistic { is_negated, probability })),
        recent(family).prop_map(Match::Recent),
        states,
        types,
        physical_device().prop_map(Match::PhysicalDevice),
        name().prop_map(|counter| Match::Accounting(Accounting { counter })),
        (any::<bool>(), 0..SETS.len(), "(src|dst)(,(src|dst)){0,5}").prop_map(
            |(is_negated, set, directions)| {
                let directions = SetDirections::parse(&directions).expect("at most six");
                Match::Set(SetMatch { is_negated, set: SETS[set].into(), directions })
            }
        ),
        (any::<bool>(), mark()).prop_map(|(is_negated, bits)| Match::Mark(MarkMatch { is_negated, bits })),
        ipvs(family).prop_map(Match::Ipvs),
    ]
    .boxed()
}

fn mark() -> impl Strategy<Value = MaskedMark> {
    (any::<u32>(), prop_oneof![any::<u32>(), Just(u32::MAX)])
        .prop_map(|(mark, mask)| MaskedMark { mark, mask })
}

fn recent(family: Family) -> impl Strategy<Value = Recent<'static>> {
    let action = prop_oneof![
        Just(RecentAction::Check),
        Just(RecentAction::Set),
        Just(RecentAction::Update),
        Just(RecentAction::Remove)
    ];
    let side = prop_oneof![Just(Side::Source), Just(Side::Destination)];
    let mask = match family {
        Family::Ip => {
            prop_oneof![Just([0xff; 16]), Just([255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])].boxed()
        }
        Family::Ip6 => any::<[u8; 16]>().boxed(),
    };
    ((name(), action, any::<bool>()), any::<u32>(), any::<u32>(), any::<bool>(), (side, mask)).prop_map(
        |((name, action, is_negated), seconds, hits, reap, (side, mask))| Recent {
            name,
            is_negated,
            action,
            seconds,
            hits,
            reap,
            side,
            mask,
        },
    )
}

fn physical_device() -> impl Strategy<Value = PhysicalDevice<'static>> {
    let flags = (option::of(any::<bool>()), option::of(any::<bool>()));
    (flags, option::of(signed(interface())), option::of(signed(interface())))
        .prop_map(|((is_in, is_out), input, output)| PhysicalDevice { is_in, is_out, input, output })
        .prop_filter("something", |device| *device != PhysicalDevice::default())
}

fn ipvs(family: Family) -> impl Strategy<Value = Ipvs> {
    (option::of(signed(any::<u8>())), option::of(signed(address(family))), option::of(signed(any::<u16>())))
        .prop_map(|(protocol, address, port)| Ipvs { protocol, address, port })
        .prop_filter("something", |ipvs| *ipvs != Ipvs::default())
}

fn any_target(family: Family) -> BoxedStrategy<Target<'static>> {
    let ports = || option::of(port_range().prop_filter("not zero", |ports| ports.first > 0));
    let rejects = match family {
        Family::Ip => {
            prop_oneof![Just("icmp-port-unreachable"), Just("tcp-reset"), Just("icmp-admin-prohibited")]
                .boxed()
        }
        Family::Ip6 => prop_oneof![Just("icmp6-port-unreachable"), Just("icmp6-no-route")].boxed(),
    };
    let destination = (option::of((address(family), address(family))), ports(), any::<bool>(), any::<bool>())
        .prop_filter("something", |(addresses, ports, ..)| addresses.is_some() || ports.is_some())
        .prop_filter("IPv6 has no text for ports alone", move |(addresses, ..)| {
            addresses.is_some() || family == Family::Ip
        })
        .prop_map(|(addresses, ports, random, persistent)| {
            let addresses = addresses.map(|(first, last)| AddressRange { first, last });
            Target::DestinationNat(DestinationNat { addresses, ports, random, persistent })
        });
    prop_oneof![
        Just(Target::None),
        Just(Target::Accept),
        Just(Target::Drop),
        Just(Target::Return),
        name().prop_map(Target::Jump),
        name().prop_map(Target::Goto),
        mark().prop_map(|bits| Target::Mark(MarkTarget { bits })),
        destination,
        (ports(), any::<bool>()).prop_map(|(ports, random)| Target::Redirect(Redirect { ports, random })),
        (ports(), any::<bool>(), any::<bool>()).prop_map(|(ports, random, fully_random)| Target::Masquerade(
            Masquerade { ports, random, fully_random }
        )),
        rejects
            .prop_map(move |name| Target::Reject(Reject::named(name, family).expect("a name of the family"))),
    ]
    .boxed()
}
