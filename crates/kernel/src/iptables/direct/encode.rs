//! Writes a rule as the expressions that iptables 1.8.9 makes of it, so that its programs take it for their own.
//!
//! The order is theirs: interfaces, protocol, addresses, matches, a counter, the target.

use std::borrow::Cow;

use super::super::Block;
use super::expressions::{Payload, compare, counter, load_meta, load_payload, mask, operation, verdict};
use super::print::address_bytes;
use super::{Context, Match, Negatable, RuleError, Target, XtRule};
use crate::netlink::Writer;
use crate::nft::Family;
use crate::nft::constants::expression::{meta, payload};
use crate::nft::constants::{data, rule as numbers};

/// Where addresses are in the header.
pub(super) fn address_offsets(family: Family) -> (u32, u32) {
    match family {
        Family::Ip => (12, 16),
        Family::Ip6 => (8, 24),
    }
}

/// Attributes of what x_tables' extensions are to assume about the rule.
mod compat {
    pub(super) const PROTOCOL: u16 = 1;
    pub(super) const FLAGS: u16 = 2;
    pub(super) const NEGATED: u32 = 2;
}

impl XtRule<'_> {
    /// Writes the attributes of the rule, without the names of its table and chain.
    pub fn encode(&self, writer: &mut Writer, context: &Context<'_>) -> Result<(), RuleError> {
        let mut result = Ok(());
        writer.nest(numbers::EXPRESSIONS, |writer| result = self.put_expressions(writer, context));
        let (protocol, flags) = match self.protocol {
            Some(protocol) if protocol.is_negated => (protocol.value, compat::NEGATED),
            Some(protocol) => (protocol.value, 0),
            None => (0, 0),
        };
        writer.nest(numbers::COMPAT, |writer| {
            writer.numbers(&[(compat::PROTOCOL, protocol.into()), (compat::FLAGS, flags)]);
        });
        result
    }

    fn put_expressions(&self, writer: &mut Writer, context: &Context<'_>) -> Result<(), RuleError> {
        put_interface(writer, self.input.as_ref(), meta::INPUT_INTERFACE_NAME);
        put_interface(writer, self.output.as_ref(), meta::OUTPUT_INTERFACE_NAME);
        if let Some(protocol) = self.protocol {
            load_meta(writer, meta::L4_PROTOCOL);
            compare(writer, operation(protocol.is_negated), &[protocol.value]);
        }
        let (source, destination) = address_offsets(context.family);
        put_block(writer, self.source, source);
        put_block(writer, self.destination, destination);
        for part in &self.matches {
            put_match(writer, part, context)?;
        }
        counter(writer);
        put_target(writer, &self.target, context)
    }
}

fn put_interface(writer: &mut Writer, name: Option<&Negatable<Cow<'_, str>>>, key: u32) {
    let Some(Negatable { is_negated, value }) = name else { return };
    load_meta(writer, key);
    if let Some(beginning) = value.strip_suffix('+') {
        return compare(writer, operation(*is_negated), beginning.as_bytes());
    }
    let mut name = [0; 16];
    let length = value.len().min(15);
    name[..length].copy_from_slice(&value.as_bytes()[..length]);
    compare(writer, operation(*is_negated), &name[..=length]);
}

/// A prefix of whole bytes is compared by loading only those.
fn put_block(writer: &mut Writer, block: Option<Negatable<Block>>, offset: u32) {
    let Some(Negatable { is_negated, value: Block { address, length } }) = block else { return };
    let bytes = address_bytes(address);
    let size: usize = if address.is_ipv4() { 4 } else { 16 };
    let is_whole = length % 8 == 0 && length > 0;
    let loaded = if is_whole { usize::from(length / 8).min(size) } else { size };
    let part = Payload { base: payload::NETWORK, offset, length: u32::try_from(loaded).unwrap_or(0) };
    load_payload(writer, part);
    if !is_whole {
        mask(writer, &prefix_mask(length)[..size]);
    }
    compare(writer, operation(is_negated), &bytes[..loaded]);
}

/// The bits of a prefix.
pub(super) fn prefix_mask(length: u8) -> [u8; 16] {
    u128::MAX.checked_shl(128_u32.saturating_sub(length.into())).unwrap_or(0).to_be_bytes()
}

fn put_match(writer: &mut Writer, part: &Match<'_>, context: &Context<'_>) -> Result<(), RuleError> {
    part.extension().map_or(Err(RuleError::NotUnderstood), |extension| extension.put(writer, context))
}

fn put_target(writer: &mut Writer, target: &Target<'_>, context: &Context<'_>) -> Result<(), RuleError> {
    if let Some(extension) = target.extension() {
        return extension.put(writer, context);
    }
    match target {
        Target::Accept => verdict(writer, data::ACCEPT, None),
        Target::Drop => verdict(writer, data::DROP, None),
        Target::Return => verdict(writer, data::RETURN, None),
        Target::Jump(chain) => verdict(writer, data::JUMP, Some(chain)),
        Target::Goto(chain) => verdict(writer, data::GOTO, Some(chain)),
        Target::Unknown(_) => return Err(RuleError::NotUnderstood),
        // Without a target there is no expression, and all others have options.
        _ => {}
    }
    Ok(())
}
