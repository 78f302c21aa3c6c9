//! `-m mark` and `-j MARK`: the mark of a packet.

use std::fmt::Write as _;

use super::{Extension, print_sign};
use crate::iptables::direct::expressions::{ExtensionName, compare, load_meta, mask, operation, target};
use crate::iptables::direct::option::{OptionCall, any_base};
use crate::iptables::direct::structure::{Structure, byte, number};
use crate::iptables::direct::{Context, RuleError};
use crate::netlink::Writer;
use crate::nft::Family;
use crate::nft::constants::expression::meta;

/// Bits of a mark, and those that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaskedMark {
    /// The bits.
    pub mark: u32,
    /// Which bits count.
    pub mask: u32,
}

/// `-m mark`: what a packet's mark is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkMatch {
    /// Whether all other marks match.
    pub is_negated: bool,
    /// The bits.
    pub bits: MaskedMark,
}

/// `-j MARK`: the bits of the mask are cleared, then those of the mark inverted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkTarget {
    /// The bits.
    pub bits: MaskedMark,
}

impl MarkMatch {
    /// Older versions of iptables write a structure instead of expressions.
    pub(super) fn decode(info: &[u8]) -> Option<Self> {
        let bits = MaskedMark { mark: number(info, 0)?, mask: number(info, 4)? };
        Some(Self { is_negated: byte(info, 8)? != 0, bits })
    }
}

impl<'a> Extension<'a> for MarkMatch {
    fn required(&self) -> &'static [&'static [&'static str]] {
        &[&["--mark"]]
    }

    fn take(&mut self, call: &mut OptionCall<'_, 'a>) -> Result<bool, RuleError> {
        if call.name != "--mark" {
            return Ok(false);
        }
        self.is_negated = call.is_negated;
        self.bits = call.parsed(masked)?;
        Ok(true)
    }

    fn print(&self, _: Family, out: &mut String) {
        out.push_str("-m mark");
        print_sign(self.is_negated, out);
        let MaskedMark { mark, mask } = self.bits;
        // Writing to memory does not fail.
        let _ = write!(out, " --mark {mark:#x}");
        if mask != u32::MAX {
            let _ = write!(out, "/{mask:#x}");
        }
    }

    /// Versions of iptables from 1.8.8 on write expressions.
    fn put(&self, writer: &mut Writer, _: &Context<'_>) -> Result<(), RuleError> {
        load_meta(writer, meta::MARK);
        if self.bits.mask != u32::MAX {
            mask(writer, &self.bits.mask.to_ne_bytes());
        }
        compare(writer, operation(self.is_negated), &self.bits.mark.to_ne_bytes());
        Ok(())
    }
}

impl MarkTarget {
    pub(super) fn decode(info: &[u8]) -> Option<Self> {
        Some(Self { bits: MaskedMark { mark: number(info, 0)?, mask: number(info, 4)? } })
    }
}

const TARGET_OPTIONS: [&str; 5] = ["--set-xmark", "--set-mark", "--or-mark", "--and-mark", "--xor-mark"];

impl<'a> Extension<'a> for MarkTarget {
    fn required(&self) -> &'static [&'static [&'static str]] {
        &[&TARGET_OPTIONS]
    }

    fn take(&mut self, call: &mut OptionCall<'_, 'a>) -> Result<bool, RuleError> {
        if !TARGET_OPTIONS.contains(&call.name) {
            return Ok(false);
        }
        call.plain()?;
        call.excludes(&TARGET_OPTIONS)?;
        let name = call.name;
        self.bits = call.parsed(|text| {
            let bits = || any_base(text);
            Some(match name {
                "--set-xmark" => masked(text)?,
                "--set-mark" => {
                    let MaskedMark { mark, mask } = masked(text)?;
                    MaskedMark { mark, mask: mask | mark }
                }
                "--or-mark" => MaskedMark { mark: bits()?, mask: bits()? },
                "--and-mark" => MaskedMark { mark: 0, mask: !bits()? },
                _ => MaskedMark { mark: bits()?, mask: 0 },
            })
        })?;
        Ok(true)
    }

    fn print(&self, _: Family, out: &mut String) {
        let MaskedMark { mark, mask } = self.bits;
        // Writing to memory does not fail.
        let _ = write!(out, "-j MARK --set-xmark {mark:#x}/{mask:#x}");
    }

    fn put(&self, writer: &mut Writer, _: &Context<'_>) -> Result<(), RuleError> {
        let info = Structure::<8>::new()
            .with(0, &self.bits.mark.to_ne_bytes())
            .with(4, &self.bits.mask.to_ne_bytes());
        target(writer, ExtensionName { name: "MARK", revision: 2 }, info.as_bytes());
        Ok(())
    }
}

/// A mark and its mask, which is all bits if none is given.
fn masked(text: &str) -> Option<MaskedMark> {
    match text.split_once('/') {
        Some((bits, mask)) => Some(MaskedMark { mark: any_base(bits)?, mask: any_base(mask)? }),
        None => any_base(text).map(|bits| MaskedMark { mark: bits, mask: u32::MAX }),
    }
}
