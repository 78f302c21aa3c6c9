//! A table as any program may have written it, read whole, so that packets can be followed through it.
//!
//! [`super::decode`] knows what we write and nothing else, since it serves comparisons. Here an expression that is not known is
//! named, and an element keeps its value whatever else it carries.

pub(super) mod decode;

use std::collections::BTreeMap;

use super::constants::{FIXED, chain, element, kind, message, rule, set};
use super::listings::of_table;
use super::{Bytes, Comparison, Expression, Hook, KeyBytes, Name, NftClient, Register, Value};
use crate::netlink::{Attributes, NetlinkError, Request};
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
        let mut ruleset = Ruleset { chains: self.all_chains()?, sets: self.all_sets()? };
        for (name, instructions) in self.all_rules()? {
            ruleset.chains.entry(name).or_default().rules.push(instructions);
        }
        for (name, set) in &mut ruleset.sets {
            if !set.is_dynamic {
                self.read_elements(name, set)?;
            }
        }
        Ok(Some(ruleset))
    }

    fn all_chains(&mut self) -> Result<BTreeMap<Name, SeenChain>, NetlinkError> {
        let (table, body) = (self.table.name.clone(), self.fixed());
        let request =
            Request { operation: "listing nftables chains", kind: kind(message::GET_CHAIN), body: &body };
        let chains = self.socket.dump_whole(request, |message| {
            let attributes = of_table(message, &table)?;
            let name = Name::new(attributes.text(chain::NAME)?);
            Some((name, SeenChain { entry: decode::entry(attributes), rules: Vec::new() }))
        })?;
        Ok(chains.into_iter().collect())
    }

    fn all_rules(&mut self) -> Result<Vec<(Name, Vec<Instruction>)>, NetlinkError> {
        let (table, family) = (self.table.name.clone(), self.table.family);
        let body = self.request_body(|writer| writer.text(rule::TABLE, table.as_str()));
        let request =
            Request { operation: "listing nftables rules", kind: kind(message::GET_RULE), body: &body };
        self.socket.dump_whole(request, |message| {
            let attributes = of_table(message, &table)?;
            let chain = Name::new(attributes.text(rule::CHAIN)?);
            Some((chain, decode::instructions(attributes, family)))
        })
    }

    fn all_sets(&mut self) -> Result<BTreeMap<Name, SeenSet>, NetlinkError> {
        let table = self.table.name.clone();
        let body = self.request_body(|writer| writer.text(set::TABLE, table.as_str()));
        let request =
            Request { operation: "listing nftables sets", kind: kind(message::GET_SET), body: &body };
        let sets = self.socket.dump_whole(request, |message| {
            let attributes = of_table(message, &table)?;
            Some((Name::new(attributes.text(set::NAME)?), decode::set(attributes)))
        })?;
        Ok(sets.into_iter().collect())
    }

    fn read_elements(&mut self, name: &Name, set: &mut SeenSet) -> Result<(), NetlinkError> {
        let table = self.table.name.clone();
        let body = self.request_body(|writer| {
            writer.text(element::TABLE, table.as_str());
            writer.text(element::SET, name.as_str());
        });
        let operation = "listing the elements of an nftables set";
        let request = Request { operation, kind: kind(message::GET_ELEMENTS), body: &body };
        let lists = self.socket.dump_whole(request, |message| {
            let items: Attributes<'_> = message.attributes(FIXED).nested(element::LIST)?;
            Some(items.into_iter().filter_map(|item| decode::element(item.nested())).collect::<Vec<_>>())
        });
        // A set that went meanwhile has no elements.
        for found in super::listings::nothing_if_missing(lists)?.into_iter().flatten() {
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
