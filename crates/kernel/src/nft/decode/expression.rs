//! Decodes expressions from netlink attributes.

use crate::netlink::{Attribute, Attributes};
use crate::nft::constants::expression::{
    DATA, NAME, bitwise, compare, conntrack, fib, hash, immediate, lookup, masquerade, meta, nat, payload,
    random, reference, reject, update,
};
use crate::nft::constants::{data, object};
use crate::nft::encode::port_unreachable;
use crate::nft::{
    Bytes, Comparison, DataBytes, Direction, Expression, Family, FibAddress, MetaKey, Name, PayloadBase,
    TuplePart, UpdateOperation,
};

/// An expression, if it is one that we could have written.
pub fn expression(attributes: Attributes<'_>, family: Family) -> Option<Expression> {
    let body = attributes.nested(DATA).unwrap_or(Attributes::new(&[]));
    match attributes.text(NAME)? {
        "payload" => payload_load(body),
        "meta" => meta_expression(body),
        "cmp" => comparison(body),
        "bitwise" => mask_and_xor(body),
        "lookup" => set_lookup(body),
        "numgen" => random_number(body),
        "hash" => jenkins_hash(body),
        "immediate" => constant(body),
        "nat" => destination_nat(body, family),
        "masq" => masquerading(body),
        "reject" => rejection(body, family),
        "ct" => connection(body, family),
        "fib" => address_type(body),
        "dynset" => map_update(body).or_else(|| count_in(body)),
        "objref" => counter(body),
        _ => None,
    }
}

fn payload_load(body: Attributes<'_>) -> Option<Expression> {
    let base = match body.number(payload::BASE)? {
        payload::NETWORK => PayloadBase::Network,
        payload::TRANSPORT => PayloadBase::Transport,
        _ => return None,
    };
    let (offset, length) = (body.number(payload::OFFSET)?, body.number(payload::LENGTH)?);
    Some(Expression::Payload { base, offset, length, to: body.number(payload::TO)? })
}

fn meta_expression(body: Attributes<'_>) -> Option<Expression> {
    let key = match body.number(meta::KEY)? {
        meta::MARK => MetaKey::Mark,
        meta::L4_PROTOCOL => MetaKey::L4Protocol,
        meta::INPUT_INTERFACE_NAME => MetaKey::InputInterfaceName,
        meta::PRIORITY => MetaKey::Priority,
        _ => return None,
    };
    match (body.number(meta::TO), body.number(meta::FROM)) {
        (Some(to), None) => Some(Expression::Meta { key, to }),
        (None, Some(from)) => Some(Expression::MetaSet { key, from }),
        _ => None,
    }
}

fn comparison(body: Attributes<'_>) -> Option<Expression> {
    let comparison = match body.number(compare::OPERATION)? {
        compare::EQUAL => Comparison::Equal,
        compare::NOT_EQUAL => Comparison::NotEqual,
        _ => return None,
    };
    Some(Expression::Compare {
        comparison,
        from: body.number(compare::FROM)?,
        value: bytes(body, compare::DATA)?,
    })
}

fn mask_and_xor(body: Attributes<'_>) -> Option<Expression> {
    // Kernels before 5.6 know no other operation and name none.
    if body.number(bitwise::OPERATION).unwrap_or(bitwise::MASK_XOR) != bitwise::MASK_XOR {
        return None;
    }
    Some(Expression::Bitwise {
        from: body.number(bitwise::FROM)?,
        to: body.number(bitwise::TO)?,
        mask: bytes(body, bitwise::MASK)?,
        xor: bytes(body, bitwise::XOR)?,
    })
}

fn set_lookup(body: Attributes<'_>) -> Option<Expression> {
    if body.number(lookup::FLAGS).unwrap_or(0) != 0 {
        return None;
    }
    let set = Name::new(body.text(lookup::SET)?);
    Some(Expression::Lookup { set, from: body.number(lookup::FROM)?, to: body.number(lookup::TO) })
}

fn random_number(body: Attributes<'_>) -> Option<Expression> {
    if body.number(random::TYPE)? != random::RANDOM || body.number(random::OFFSET).unwrap_or(0) != 0 {
        return None;
    }
    Some(Expression::RandomNumber { modulus: body.number(random::MODULUS)?, to: body.number(random::TO)? })
}

fn jenkins_hash(body: Attributes<'_>) -> Option<Expression> {
    let jenkins = body.number(hash::TYPE).unwrap_or(hash::JENKINS) == hash::JENKINS;
    if !jenkins || body.number(hash::OFFSET).unwrap_or(0) != 0 {
        return None;
    }
    Some(Expression::Hash {
        from: body.number(hash::FROM)?,
        length: body.number(hash::LENGTH)?,
        modulus: body.number(hash::MODULUS)?,
        // Without a seed the kernel chose one.
        seed: body.number(hash::SEED)?,
        to: body.number(hash::TO)?,
    })
}

fn constant(body: Attributes<'_>) -> Option<Expression> {
    let value = body.nested(immediate::DATA)?;
    match (body.number(immediate::TO)?, value.nested(data::VERDICT)) {
        (immediate::VERDICT_REGISTER, Some(verdict)) => super::verdict(verdict).map(Expression::Verdict),
        (to, None) => {
            Some(Expression::Load { value: DataBytes::from_slice(value.get(data::VALUE)?.value), to })
        }
        (_, Some(_)) => None,
    }
}

fn destination_nat(body: Attributes<'_>, family: Family) -> Option<Expression> {
    let (address, port) = (body.number(nat::ADDRESS)?, body.number(nat::PORT)?);
    let ours = body.number(nat::TYPE)? == nat::DESTINATION
        && body.number(nat::FAMILY)? == u32::from(family.number())
        && body.number(nat::ADDRESS_END).unwrap_or(address) == address
        && body.number(nat::PORT_END).unwrap_or(port) == port
        && body.number(nat::FLAGS).unwrap_or(0) & !nat::GIVEN == 0;
    ours.then_some(Expression::DestinationNat { address, port })
}

fn masquerading(body: Attributes<'_>) -> Option<Expression> {
    let ours =
        body.number(masquerade::FLAGS)? == masquerade::FULLY_RANDOM && body.get(masquerade::PORT).is_none();
    ours.then_some(Expression::Masquerade)
}

fn rejection(body: Attributes<'_>, family: Family) -> Option<Expression> {
    let code = body.get(reject::CODE).and_then(Attribute::byte)?;
    let ours = body.number(reject::TYPE)? == reject::ICMP_UNREACHABLE && code == port_unreachable(family);
    ours.then_some(Expression::Reject)
}

fn connection(body: Attributes<'_>, family: Family) -> Option<Expression> {
    if let Some(direction) = body.get(conntrack::DIRECTION) {
        return connection_tuple(body, direction.byte()?, family);
    }
    let to = body.number(conntrack::TO)?;
    match body.number(conntrack::KEY)? {
        conntrack::STATE => Some(Expression::ConnectionState { to }),
        conntrack::STATUS => Some(Expression::ConnectionStatus { to }),
        _ => None,
    }
}

fn connection_tuple(body: Attributes<'_>, direction: u8, family: Family) -> Option<Expression> {
    const PARTS: [TuplePart; 4] = [
        TuplePart::SourceAddress,
        TuplePart::DestinationAddress,
        TuplePart::SourcePort,
        TuplePart::DestinationPort,
    ];
    let direction = match direction {
        conntrack::ORIGINAL => Direction::Original,
        conntrack::REPLY => Direction::Reply,
        _ => return None,
    };
    let key = body.number(conntrack::KEY)?;
    let part = PARTS.into_iter().find(|part| part.number(family) == key)?;
    Some(Expression::ConnectionTuple { direction, part, to: body.number(conntrack::TO)? })
}

fn address_type(body: Attributes<'_>) -> Option<Expression> {
    let of = match body.number(fib::FLAGS)? {
        fib::SOURCE => FibAddress::Source,
        fib::DESTINATION => FibAddress::Destination,
        _ => return None,
    };
    let to = body.number(fib::TO)?;
    (body.number(fib::RESULT)? == fib::ADDRESS_TYPE).then_some(Expression::AddressType { of, to })
}

fn map_update(body: Attributes<'_>) -> Option<Expression> {
    let plain = body.number(update::FLAGS).unwrap_or(0) == 0
        && body.get(update::EXPRESSION).is_none()
        && body.get(update::EXPRESSIONS).is_none();
    let operation = match body.number(update::OPERATION)? {
        update::REFRESH => UpdateOperation::Refresh,
        update::DELETE => UpdateOperation::Delete,
        _ => return None,
    };
    let (key, data) = (body.number(update::KEY)?, body.number(update::DATA)?);
    // Zero and a missing attribute both mean no timeout.
    let timeout_millis = body.get(update::TIMEOUT).and_then(Attribute::long).filter(|timeout| *timeout != 0);
    let set = Name::new(body.text(update::SET)?);
    plain.then_some(Expression::Update { set, operation, key, data, timeout_millis })
}

fn count_in(body: Attributes<'_>) -> Option<Expression> {
    let beside = [update::DATA, update::EXPRESSION, update::EXPRESSIONS];
    let plain = beside.iter().all(|kind| body.get(*kind).is_none())
        && body.number(update::FLAGS).unwrap_or(0) & !update::COUNTS == 0
        && body.get(update::TIMEOUT).and_then(Attribute::long).unwrap_or(0) == 0
        && body.number(update::OPERATION)? == update::REFRESH;
    let set = Name::new(body.text(update::SET)?);
    let key = body.number(update::KEY)?;
    plain.then_some(Expression::CountIn { set, key })
}

fn counter(body: Attributes<'_>) -> Option<Expression> {
    let name = Name::new(body.text(reference::NAME)?);
    (body.number(reference::TYPE)? == object::COUNTER).then_some(Expression::Counter(name))
}

fn bytes(body: Attributes<'_>, kind: u16) -> Option<Bytes> {
    Some(Bytes::from_slice(body.nested(kind)?.get(data::VALUE)?.value))
}
