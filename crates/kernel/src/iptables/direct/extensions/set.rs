//! `-m set`: whether addresses and ports of a packet are in an ipset.

use std::borrow::Cow;

use super::{Extension, print_sign};
use crate::iptables::direct::expressions::{ExtensionName, matching};
use crate::iptables::direct::option::OptionCall;
use crate::iptables::direct::sets::SetNames;
use crate::iptables::direct::structure::{Structure, byte, is_word, is_zero_from, short};
use crate::iptables::direct::{Context, RuleError};
use crate::netlink::Writer;
use crate::nft::Family;

const SIZE: usize = 48;
const DIMENSIONS: usize = 2;
const FLAGS: usize = 3;
const MAX_NAME: usize = 31;
const MAX_DIMENSIONS: u8 = 6;
const NEGATED: u8 = 1;

/// A set, and what is looked up in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetMatch<'a> {
    /// Whether packets match that are not in it.
    pub is_negated: bool,
    /// The set's name. The kernel keeps a number instead.
    pub set: Cow<'a, str>,
    /// For each field of an entry, whose address or port it is.
    pub directions: SetDirections,
}

/// `dst,dst,src`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetDirections {
    /// How many fields, at most six.
    count: u8,
    /// A bit for each field that is of the source, from the second bit on.
    sources: u8,
}

impl SetDirections {
    /// Parses `dst,dst,src`.
    pub fn parse(text: &str) -> Option<Self> {
        text.split(',').try_fold(Self::default(), |found, direction| {
            let count = found.count + 1;
            let source = match direction {
                "src" => 1 << count,
                "dst" => 0,
                _ => return None,
            };
            (count <= MAX_DIMENSIONS).then_some(Self { count, sources: found.sources | source })
        })
    }

    fn print(self, out: &mut String) {
        let mut sign = ' ';
        for field in 1..=self.count {
            out.push(sign);
            out.push_str(if self.sources >> field & 1 == 1 { "src" } else { "dst" });
            sign = ',';
        }
    }
}

impl<'a> SetMatch<'a> {
    pub(super) fn decode(info: &[u8], sets: &'a SetNames) -> Option<Self> {
        let (count, flags) = (byte(info, DIMENSIONS)?, byte(info, FLAGS)?);
        // Behind it are counters and flags of elements, which no rule of ours asks for.
        if !(1..=MAX_DIMENSIONS).contains(&count) || !is_zero_from(info, FLAGS + 1) {
            return None;
        }
        let directions = SetDirections { count, sources: flags & !NEGATED };
        let set = sets.name(short(info, 0)?).filter(|set| is_word(set))?.into();
        Some(Self { is_negated: flags & NEGATED != 0, set, directions })
    }
}

impl<'a> Extension<'a> for SetMatch<'a> {
    fn required(&self) -> &'static [&'static [&'static str]] {
        &[&["--match-set"]]
    }

    fn take(&mut self, call: &mut OptionCall<'_, 'a>) -> Result<bool, RuleError> {
        if call.name != "--match-set" {
            return Ok(false);
        }
        self.is_negated = call.is_negated;
        let set = call.value()?;
        if !is_word(&set) || set.len() > MAX_NAME {
            return Err(call.bad(&set));
        }
        self.set = set;
        self.directions = call.parsed(SetDirections::parse)?;
        Ok(true)
    }

    fn print(&self, _: Family, out: &mut String) {
        out.push_str("-m set");
        print_sign(self.is_negated, out);
        out.push_str(" --match-set ");
        out.push_str(&self.set);
        self.directions.print(out);
    }

    fn put(&self, writer: &mut Writer, context: &Context<'_>) -> Result<(), RuleError> {
        let index = context.sets.index(&self.set);
        let index = index.ok_or_else(|| RuleError::MissingSet(self.set.clone().into_owned()))?;
        let negated = if self.is_negated { NEGATED } else { 0 };
        let info = Structure::<SIZE>::new()
            .with(0, &index.to_ne_bytes())
            .with(DIMENSIONS, &[self.directions.count, self.directions.sources | negated]);
        matching(writer, ExtensionName { name: "set", revision: 4 }, info.as_bytes());
        Ok(())
    }
}
