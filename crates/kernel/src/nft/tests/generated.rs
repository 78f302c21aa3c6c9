//! Random objects of every kind.

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use crate::nft::{
    Bytes, Chain, ChainKind, Comparison, CountedElement, DataBytes, Direction, Element, Expression,
    FibAddress, Field, Hook, HookPoint, MetaKey, Name, PayloadBase, Rule, Set, SetData, Transaction,
    TuplePart, UpdateOperation, Value, Verdict,
};

pub fn set() -> impl Strategy<Value = Set> {
    let data = prop_oneof![
        Just(None),
        Just(Some(SetData::Verdict)),
        // More does not fit a note beside the key.
        vec(field(), 1..=2).prop_map(|fields| Some(SetData::Fields(fields))),
    ];
    let flags = (any::<bool>(), any::<bool>());
    (name(), vec(field(), 1..=4), data, flags, of(1..u32::MAX), comment(20)).prop_map(
        |(name, key, data, (dynamic, counted), size, comment)| Set {
            name,
            key,
            data,
            dynamic,
            counted,
            size,
            comment,
        },
    )
}

/// A chain without rules.
pub fn chain_header() -> impl Strategy<Value = Chain> {
    (name(), of(hook()), comment(120)).prop_map(|(name, hook, comment)| Chain {
        name,
        hook,
        rules: vec![],
        comment,
    })
}

pub fn rule() -> impl Strategy<Value = Rule> {
    (vec(expression(), 0..6), comment(120)).prop_map(|(expressions, comment)| Rule { expressions, comment })
}

pub fn element() -> impl Strategy<Value = Element> {
    let value = prop_oneof![
        vec(any::<u8>(), 1..24).prop_map(|bytes| Value::Data(DataBytes::from_vec(bytes))),
        verdict().prop_map(Value::Verdict),
    ];
    (name(), vec(any::<u8>(), 1..40), of(value)).prop_map(|(set, key, value)| Element {
        set,
        key: key[..].into(),
        value,
    })
}

pub fn transaction() -> impl Strategy<Value = Transaction> {
    vec((0..11_u8, name(), set(), (chain_header(), vec(rule(), 0..3)), element()), 0..6).prop_map(|steps| {
        let mut transaction = Transaction::new();
        for (kind, name, set, (mut chain, rules), element) in steps {
            chain.rules = rules;
            match kind {
                0 => transaction.add_table(),
                1 => transaction.delete_table_if_exists(),
                2 => transaction.add_set(set),
                3 => transaction.delete_set(name),
                4 => transaction.flush_set(name),
                5 => transaction.add_chain(chain),
                6 => transaction.refill_chain(chain),
                7 => transaction.delete_chain(name),
                8 => transaction.add_element(element),
                9 => transaction.delete_elements([&element]),
                _ => transaction.add_counter(name.clone()).delete_counter(name),
            };
        }
        transaction
    })
}

fn expression() -> impl Strategy<Value = Expression> {
    let register = || 0..24_u32;
    let loads = prop_oneof![
        (select(&[PayloadBase::Network, PayloadBase::Transport][..]), any::<u32>(), any::<u32>(), register())
            .prop_map(|(base, offset, length, to)| Expression::Payload { base, offset, length, to }),
        (meta_key(), register()).prop_map(|(key, to)| Expression::Meta { key, to }),
        (meta_key(), register()).prop_map(|(key, from)| Expression::MetaSet { key, from }),
        (any::<u32>(), register()).prop_map(|(modulus, to)| Expression::RandomNumber { modulus, to }),
        (register(), any::<u32>(), any::<u32>(), any::<u32>(), register()).prop_map(
            |(from, length, modulus, seed, to)| Expression::Hash { from, length, modulus, seed, to }
        ),
        (vec(any::<u8>(), 1..24), register())
            .prop_map(|(value, to)| Expression::Load { value: DataBytes::from_vec(value), to }),
        register().prop_map(|to| Expression::ConnectionState { to }),
        register().prop_map(|to| Expression::ConnectionStatus { to }),
        (select(&[Direction::Original, Direction::Reply][..]), tuple_part(), register())
            .prop_map(|(direction, part, to)| Expression::ConnectionTuple { direction, part, to }),
        (select(&[FibAddress::Source, FibAddress::Destination][..]), register())
            .prop_map(|(of, to)| Expression::AddressType { of, to }),
    ];
    prop_oneof![3 => loads, 2 => deed()]
}

fn tuple_part() -> impl Strategy<Value = TuplePart> {
    use TuplePart::{DestinationAddress, DestinationPort, SourceAddress, SourcePort};
    select(&[SourceAddress, DestinationAddress, SourcePort, DestinationPort][..])
}

/// An element with a counter.
pub fn counted_element() -> impl Strategy<Value = CountedElement> {
    (name(), vec(any::<u8>(), 1..40), comment(120), any::<u64>(), any::<u64>()).prop_map(
        |(set, key, comment, packets, bytes)| CountedElement {
            set,
            key: key[..].into(),
            comment,
            packets,
            bytes,
        },
    )
}

fn deed() -> impl Strategy<Value = Expression> {
    let register = || 0..24_u32;
    prop_oneof![
        (select(&[Comparison::Equal, Comparison::NotEqual][..]), register(), vec(any::<u8>(), 1..20))
            .prop_map(|(comparison, from, value)| Expression::Compare {
                comparison,
                from,
                value: Bytes::from_vec(value)
            }),
        (register(), register(), vec(any::<u8>(), 1..20)).prop_map(|(from, to, mask)| {
            Expression::Bitwise { from, to, mask: mask[..].into(), xor: mask[..].into() }
        }),
        (name(), register(), of(register())).prop_map(|(set, from, to)| Expression::Lookup { set, from, to }),
        verdict().prop_map(Expression::Verdict),
        (register(), register()).prop_map(|(address, port)| Expression::DestinationNat { address, port }),
        Just(Expression::Masquerade),
        Just(Expression::Reject),
        (name(), any::<bool>(), register(), register(), of(1..u64::MAX)).prop_map(
            |(set, refresh, key, data, timeout_millis)| {
                let operation = if refresh { UpdateOperation::Refresh } else { UpdateOperation::Delete };
                Expression::Update { set, operation, key, data, timeout_millis }
            }
        ),
        name().prop_map(Expression::Counter),
        (name(), register()).prop_map(|(set, key)| Expression::CountIn { set, key }),
    ]
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        name().prop_map(Verdict::Goto),
        name().prop_map(Verdict::Jump),
        Just(Verdict::Return),
        Just(Verdict::Drop),
        Just(Verdict::Accept),
    ]
}

fn hook() -> impl Strategy<Value = Hook> {
    use HookPoint::{Forward, Input, Output, Postrouting, Prerouting};
    let point = select(&[Prerouting, Input, Forward, Output, Postrouting][..]);
    let kind = select(&[ChainKind::Filter, ChainKind::Nat][..]);
    (kind, point, any::<i32>()).prop_map(|(kind, point, priority)| Hook { kind, point, priority })
}

fn field() -> impl Strategy<Value = Field> {
    use Field::{Ipv4Addr, Ipv6Addr, Port, Priority, Protocol, Slot};
    select(&[Ipv4Addr, Ipv6Addr, Protocol, Port, Slot, Priority][..])
}

fn meta_key() -> impl Strategy<Value = MetaKey> {
    select(&[MetaKey::Mark, MetaKey::L4Protocol, MetaKey::InputInterfaceName, MetaKey::Priority][..])
}

fn name() -> impl Strategy<Value = Name> {
    vec(select(&b"abcxyz-019"[..]), 1..30).prop_map(|letters| Name::new(&String::from_utf8_lossy(&letters)))
}

fn comment(most: usize) -> impl Strategy<Value = Option<String>> {
    of(vec(select(&b"abc XYZ.,-"[..]), 0..most)
        .prop_map(|letters| String::from_utf8_lossy(&letters).into_owned()))
}
