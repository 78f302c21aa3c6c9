//! Writes single nf_tables expressions, with the registers and attributes that iptables uses.

use super::structure::field;
use crate::netlink::{Attributes, Writer};
use crate::nft::constants::{data, element, expression as numbers};

/// The register that every comparison goes through.
const REGISTER: u32 = 1;

/// Attributes of `match` and `target`, which have the same numbers.
pub(super) mod extension {
    pub(crate) const NAME: u16 = 1;
    pub(crate) const REVISION: u16 = 2;
    pub(crate) const INFO: u16 = 3;
}

/// Attributes of `range`.
pub(super) mod range {
    pub(crate) const FROM: u16 = 1;
    pub(crate) const OPERATION: u16 = 2;
    pub(crate) const FIRST: u16 = 3;
    pub(crate) const LAST: u16 = 4;
}

/// Whether a comparison is for equality.
pub(super) fn operation(is_negated: bool) -> u32 {
    if is_negated { numbers::compare::NOT_EQUAL } else { numbers::compare::EQUAL }
}

/// Loads a property of the packet.
pub(super) fn load_meta(writer: &mut Writer, key: u32) {
    use numbers::meta;
    expression(writer, "meta", |writer| writer.numbers(&[(meta::KEY, key), (meta::TO, REGISTER)]));
}

/// A part of a packet's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Payload {
    pub base: u32,
    pub offset: u32,
    pub length: u32,
}

pub(super) fn load_payload(writer: &mut Writer, part: Payload) {
    use numbers::payload;
    expression(writer, "payload", |writer| {
        writer.numbers(&[
            (payload::TO, REGISTER),
            (payload::BASE, part.base),
            (payload::OFFSET, part.offset),
            (payload::LENGTH, part.length),
        ]);
    });
}

/// Keeps only the bits of a mask.
pub(super) fn mask(writer: &mut Writer, mask: &[u8]) {
    use numbers::bitwise;
    const ZEROS: [u8; 16] = [0; 16];
    let length = u32::try_from(mask.len()).unwrap_or(u32::MAX);
    expression(writer, "bitwise", |writer| {
        writer.numbers(&[(bitwise::FROM, REGISTER), (bitwise::TO, REGISTER), (bitwise::LENGTH, length)]);
        writer.nest(bitwise::MASK, |writer| writer.bytes(data::VALUE, mask));
        let zeros = ZEROS.get(..mask.len()).unwrap_or(&ZEROS);
        writer.nest(bitwise::XOR, |writer| writer.bytes(data::VALUE, zeros));
    });
}

pub(super) fn compare(writer: &mut Writer, operation: u32, value: &[u8]) {
    use numbers::compare;
    expression(writer, "cmp", |writer| {
        writer.numbers(&[(compare::FROM, REGISTER), (compare::OPERATION, operation)]);
        writer.nest(compare::DATA, |writer| writer.bytes(data::VALUE, value));
    });
}

pub(super) fn compare_range(writer: &mut Writer, is_negated: bool, first: &[u8], last: &[u8]) {
    expression(writer, "range", |writer| {
        writer.numbers(&[(range::FROM, REGISTER), (range::OPERATION, operation(is_negated))]);
        writer.nest(range::FIRST, |writer| writer.bytes(data::VALUE, first));
        writer.nest(range::LAST, |writer| writer.bytes(data::VALUE, last));
    });
}

/// Counts packets and bytes, from zero.
pub(super) fn counter(writer: &mut Writer) {
    const BYTES: u16 = 1;
    const PACKETS: u16 = 2;
    expression(writer, "counter", |writer| {
        writer.long(BYTES, 0);
        writer.long(PACKETS, 0);
    });
}

pub(super) fn verdict(writer: &mut Writer, code: u32, chain: Option<&str>) {
    use numbers::immediate;
    expression(writer, "immediate", |writer| {
        writer.number(immediate::TO, immediate::VERDICT_REGISTER);
        writer.nest(immediate::DATA, |writer| {
            writer.nest(data::VERDICT, |writer| {
                writer.number(data::VERDICT_CODE, code);
                if let Some(chain) = chain {
                    writer.text(data::VERDICT_CHAIN, chain);
                }
            });
        });
    });
}

/// The name and revision of a match or target of x_tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExtensionName {
    pub name: &'static str,
    pub revision: u32,
}

pub(super) fn matching(writer: &mut Writer, extension: ExtensionName, info: &[u8]) {
    expression(writer, "match", |writer| put_extension(writer, extension, info));
}

pub(super) fn target(writer: &mut Writer, extension: ExtensionName, info: &[u8]) {
    expression(writer, "target", |writer| put_extension(writer, extension, info));
}

fn put_extension(writer: &mut Writer, extension: ExtensionName, info: &[u8]) {
    writer.text(extension::NAME, extension.name);
    writer.number(extension::REVISION, extension.revision);
    writer.bytes(extension::INFO, info);
}

fn expression(writer: &mut Writer, name: &str, body: impl FnOnce(&mut Writer)) {
    writer.nest(element::ITEM, |writer| {
        writer.text(numbers::NAME, name);
        writer.nest(numbers::DATA, body);
    });
}

/// The value in a nested attribute.
pub(super) fn value(attributes: Attributes<'_>, kind: u16) -> Option<&[u8]> {
    attributes.nested(kind)?.get(data::VALUE).map(|value| value.value)
}

/// A value of exactly so many bytes.
pub(super) fn exact<const N: usize>(value: &[u8]) -> Option<[u8; N]> {
    if value.len() == N { field(value, 0) } else { None }
}
