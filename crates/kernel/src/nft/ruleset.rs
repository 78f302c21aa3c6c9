//! A table as any program may have written it, read whole, so that packets can be followed through it.
//!
//! [`super::decode`] knows what we write and nothing else, since it serves comparisons. Here an expression that is not known is
//! named, and an element keeps its value whatever else it carries.

pub(super) mod decode;

use std::collections::BTreeMap;

use super::constants::{chain, rule, set};
use super::{Bytes, Comparison, Expression, Hook, KeyBytes, Name, NftClient, Register, Value};
use crate::netlink::NetlinkError;
use crate::port::NftReader as _;

/// A table with all that is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ruleset {
    /// The chains by name.
    pub chains: BTreeMap<Name, SeenChain>,
    /// The sets and maps by name, also those that belong to one rule.
    pub sets: BTreeMap<Name, SeenSet>,
}

/// A chain as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenChain {
    /// Where packets enter it.
    pub entry: Entry,
    /// The instructions of each rule.
    pub rules: Vec<Vec<Instruction>>,
}

/// Where packets enter a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Entry {
    /// From other chains.
    #[default]
    Chains,
    /// At a hook.
    Hook {
        /// Which one.
        hook: Hook,
        /// Whether what no rule decides about is dropped.
        drops: bool,
    },
    /// At a hook of a kind that we do not know.
    Unknown,
}

/// What a rule does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// What we could have written.
    Known(Expression),
    /// Continues only if a set does not contain the register's value.
    NotIn {
        /// The set.
        set: Name,
        /// The register of the key.
        from: Register,
    },
    /// Continues only if the register's value is between two, or is not.
    Range {
        /// Between them or not.
        comparison: Comparison,
        /// The register.
        from: Register,
        /// The lowest value.
        low: Bytes,
        /// The highest value.
        high: Bytes,
    },
    /// Writes an element of a dynamic set.
    Remember {
        /// The set.
        set: Name,
    },
    /// Nothing that decides about a packet.
    NoEffect,
    /// Something else, by the kernel's name for it.
    Other(String),
}

/// A set or map as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenSet {
    /// The length of its keys.
    pub key_length: usize,
    /// Packets write its elements.
    pub is_dynamic: bool,
    /// How long an element stays, unless it says so itself.
    pub timeout_millis: Option<u64>,
    /// It has ranges of keys.
    pub is_interval: bool,
    /// It has ranges in several fields, which are not read.
    pub has_joined_ranges: bool,
    /// Its elements. In a set of ranges each range has its first key, and the first one behind it.
    pub elements: BTreeMap<KeyBytes, ElementValue>,
}

/// What an element says of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElementValue {
    /// It is in the set.
    Present,
    /// It is the first key behind a range.
    RangeEnd,
    /// In a map, what it leads to.
    To(Value),
    /// Something that cannot be followed, a limit say.
    Other,
}

impl SeenSet {
    /// What the set says of a key; `None` if it is not in it.
    pub fn find(&self, key: &[u8]) -> Option<&ElementValue> {
        if !self.is_interval {
            return self.elements.get(key);
        }
        let (_, found) = self.elements.range(..=KeyBytes::from_slice(key)).next_back()?;
        (*found != ElementValue::RangeEnd).then_some(found)
    }
}

impl NftClient {
    /// The whole table, or `None` if there is none. Several requests: another program may write between them.
    pub fn ruleset(&mut self) -> Result<Option<Ruleset>, NetlinkError> {
        if self.table()?.is_none_or(|table| table.dormant) {
            return Ok(None);
        }
        let family = self.table.family;
        let chains = self.list_chains(|attributes| {
            let name = Name::new(attributes.text(chain::NAME)?);
            Some((name, SeenChain { entry: decode::entry(attributes), rules: Vec::new() }))
        })?;
        let sets = self.list_sets(|attributes| {
            Some((Name::new(attributes.text(set::NAME)?), decode::set(attributes)))
        })?;
        let rules = self.list_rules(|attributes| {
            let chain = Name::new(attributes.text(rule::CHAIN)?);
            Some((chain, decode::instructions(attributes, family)))
        })?;
        let mut ruleset = Ruleset { chains: chains.into_iter().collect(), sets: sets.into_iter().collect() };
        for (name, instructions) in rules {
            ruleset.chains.entry(name).or_default().rules.push(instructions);
        }
        for (name, set) in &mut ruleset.sets {
            if !set.is_dynamic {
                self.read_elements(name, set)?;
            }
        }
        Ok(Some(ruleset))
    }

    fn read_elements(&mut self, name: &Name, set: &mut SeenSet) -> Result<(), NetlinkError> {
        let elements =
            self.list_elements("listing the elements of an nftables set", name, decode::element)?;
        // A set that went meanwhile has no elements.
        for found in elements.unwrap_or_default() {
            set.has_joined_ranges |= found.has_end;
            // Where one range ends, another may begin.
            let known = set.elements.entry(found.key).or_insert(ElementValue::RangeEnd);
            if *known == ElementValue::RangeEnd {
                *known = found.value;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
