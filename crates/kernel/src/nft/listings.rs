//! Reads tables, sets, chains, elements and counters back.
//!
//! Replies are decoded in [`super::decode`].

use rustix::io::Errno;

use super::constants::{FIXED, chain, element, flowtable, generation, kind, message, object, rule, set};
use super::decode::{self, CounterReading, SeenElement, SeenTable};
use super::{
    Chain, CountedElement, Element, Family, KeyBytes, Name, NftClient, OtherKind, OtherObject, Rule, Set,
};
use crate::netlink::{Attribute, Attributes, Message, NetlinkError, Request, Writer};
use crate::port::NftReader;

/// An object of the table as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen<T> {
    /// The object's name.
    pub name: Name,
    /// The object; `None` if it is one that we would not have written.
    pub object: Option<T>,
}

/// The elements of a set as they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenElements {
    /// Those that we could have written.
    pub elements: Vec<Element>,
    /// The keys of all others.
    pub foreign: Vec<KeyBytes>,
}

impl NftReader for NftClient {
    fn family(&self) -> Family {
        self.table.family
    }

    fn portid(&self) -> u32 {
        self.socket.portid()
    }

    fn generation(&mut self) -> Result<u32, NetlinkError> {
        let body = self.fixed();
        let request = Request {
            operation: "asking for the generation of nf_tables",
            kind: kind(message::GET_GENERATION),
            body: &body,
        };
        self.socket.get(request, |message| message.attributes(FIXED).number(generation::ID))
    }

    fn table(&mut self) -> Result<Option<SeenTable>, NetlinkError> {
        let tables = self.tables()?;
        Ok(tables.into_iter().find(|table| table.name == self.table.name))
    }

    fn sets(&mut self) -> Result<Vec<Seen<Set>>, NetlinkError> {
        let table = self.table.name.clone();
        let body = self.request_body(|writer| writer.text(set::TABLE, table.as_str()));
        let request =
            Request { operation: "listing nftables sets", kind: kind(message::GET_SET), body: &body };
        let sets = self.socket.dump_whole(request, |message| {
            let attributes = of_table(message, &table)?;
            let name = Name::new(attributes.text(set::NAME)?);
            Some(Seen { name, object: decode::set(attributes) })
        });
        nothing_if_missing(sets)
    }

    fn chains(&mut self) -> Result<Vec<Seen<Chain>>, NetlinkError> {
        let mut chains = self.empty_chains()?;
        for (chain, rule) in self.rules()? {
            let Some(seen) = chains.iter_mut().find(|seen| seen.name == chain) else { continue };
            seen.object = match (seen.object.take(), rule) {
                (Some(mut chain), Some(rule)) => {
                    chain.rules.push(rule);
                    Some(chain)
                }
                _ => None,
            };
        }
        Ok(chains)
    }

    fn elements(&mut self, set: &Name) -> Result<Option<SeenElements>, NetlinkError> {
        let table = self.table.name.clone();
        let body = self.request_body(|writer| {
            writer.text(element::TABLE, table.as_str());
            writer.text(element::SET, set.as_str());
        });
        let operation = "listing the elements of an nftables set";
        let request = Request { operation, kind: kind(message::GET_ELEMENTS), body: &body };
        let lists = self.socket.dump_whole(request, |message| {
            let items = message.attributes(FIXED).nested(element::LIST)?;
            Some(
                items
                    .into_iter()
                    .filter_map(|item| decode::seen_element(item.nested(), set))
                    .collect::<Vec<_>>(),
            )
        });
        match lists {
            Ok(lists) => Ok(Some(merged(lists))),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn other_objects(&mut self) -> Result<Vec<OtherObject>, NetlinkError> {
        let mut found = self.listed_names("listing nftables objects", message::GET_OBJECT, |attributes| {
            let kind = OtherKind::Stateful(attributes.number(object::TYPE)?);
            Some(OtherObject { name: Name::new(attributes.text(object::NAME)?), kind })
        })?;
        found.extend(self.listed_names(
            "listing nftables flowtables",
            message::GET_FLOWTABLE,
            |attributes| {
                let name = Name::new(attributes.text(flowtable::NAME)?);
                Some(OtherObject { name, kind: OtherKind::Flowtable })
            },
        )?);
        Ok(found)
    }
}

impl NftClient {
    /// All tables of the family.
    pub fn tables(&mut self) -> Result<Vec<SeenTable>, NetlinkError> {
        let body = self.fixed();
        let request =
            Request { operation: "listing nftables tables", kind: kind(message::GET_TABLE), body: &body };
        self.socket.dump_whole(request, |message| decode::seen_table(message.attributes(FIXED)))
    }

    /// Whether the table has a set of this name.
    pub fn has_set(&mut self, name: &Name) -> Result<bool, NetlinkError> {
        let table = self.table.name.clone();
        let body = self.request_body(|writer| {
            writer.text(set::TABLE, table.as_str());
            writer.text(set::NAME, name.as_str());
        });
        let request =
            Request { operation: "asking for an nftables set", kind: kind(message::GET_SET), body: &body };
        match self.socket.get(request, |_| Some(())) {
            Ok(()) => Ok(true),
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The elements with their counters of a set, or `None` if there is no such set.
    pub fn counted_elements(&mut self, set: &Name) -> Result<Option<Vec<CountedElement>>, NetlinkError> {
        let table = self.table.name.clone();
        let body = self.request_body(|writer| {
            writer.text(element::TABLE, table.as_str());
            writer.text(element::SET, set.as_str());
        });
        let operation = "reading the counters of an nftables set";
        let request = Request { operation, kind: kind(message::GET_ELEMENTS), body: &body };
        let lists = self.socket.dump_whole(request, |message| {
            let items = message.attributes(FIXED).nested(element::LIST)?;
            let counted = |item: Attribute<'_>| decode::counted_element(item.nested(), set);
            Some(items.into_iter().filter_map(counted).collect::<Vec<_>>())
        });
        match lists {
            Ok(lists) => Ok(Some(lists.into_iter().flatten().collect())),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The named counters of the table.
    pub fn counters(&mut self) -> Result<Vec<CounterReading>, NetlinkError> {
        let table = self.table.name.clone();
        let body = self.request_body(|writer| {
            writer.text(object::TABLE, table.as_str());
            writer.number(object::TYPE, object::COUNTER);
        });
        let request =
            Request { operation: "reading nftables counters", kind: kind(message::GET_OBJECT), body: &body };
        let counters = self.socket.dump_whole(request, |message| decode::counter(of_table(message, &table)?));
        nothing_if_missing(counters)
    }

    fn listed_names(
        &mut self,
        operation: &'static str,
        get: u16,
        read: impl Fn(Attributes<'_>) -> Option<OtherObject>,
    ) -> Result<Vec<OtherObject>, NetlinkError> {
        let table = self.table.name.clone();
        let body = self.request_body(|writer| writer.text(TABLE_ATTRIBUTE, table.as_str()));
        let request = Request { operation, kind: kind(get), body: &body };
        let listed = self.socket.dump_whole(request, |message| read(of_table(message, &table)?));
        nothing_if_missing(listed)
    }

    fn empty_chains(&mut self) -> Result<Vec<Seen<Chain>>, NetlinkError> {
        let (table, body) = (self.table.name.clone(), self.fixed());
        let request =
            Request { operation: "listing nftables chains", kind: kind(message::GET_CHAIN), body: &body };
        self.socket.dump_whole(request, |message| {
            let attributes = of_table(message, &table)?;
            let name = Name::new(attributes.text(chain::NAME)?);
            Some(Seen { name, object: decode::chain(attributes) })
        })
    }

    fn rules(&mut self) -> Result<Vec<(Name, Option<Rule>)>, NetlinkError> {
        let (table, family) = (self.table.name.clone(), self.table.family);
        let body = self.request_body(|writer| writer.text(rule::TABLE, table.as_str()));
        let request =
            Request { operation: "listing nftables rules", kind: kind(message::GET_RULE), body: &body };
        let rules = self.socket.dump_whole(request, |message| {
            let seen = decode::seen_rule(of_table(message, &table)?, family)?;
            Some((seen.chain, seen.rule))
        });
        nothing_if_missing(rules)
    }

    pub(super) fn fixed(&self) -> [u8; FIXED] {
        [self.table.family.number(), 0, 0, 0]
    }

    pub(super) fn request_body(&self, attributes: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.raw(&self.fixed());
        attributes(&mut writer);
        writer.as_bytes().to_vec()
    }
}

/// The first attribute of every kind of object is its table.
const TABLE_ATTRIBUTE: u16 = 1;

/// The attributes of an object, if it is of this table.
pub(super) fn of_table<'a>(message: &Message<'a>, table: &Name) -> Option<Attributes<'a>> {
    let attributes = message.attributes(FIXED);
    (attributes.text(TABLE_ATTRIBUTE)? == table.as_str()).then_some(attributes)
}

fn merged(lists: Vec<Vec<SeenElement>>) -> SeenElements {
    let mut merged = SeenElements::default();
    for seen in lists.into_iter().flatten() {
        match seen {
            SeenElement::Known(element) => merged.elements.push(element),
            SeenElement::Foreign(key) => merged.foreign.push(key),
            SeenElement::Expired => {}
        }
    }
    merged
}

fn is_missing(error: &NetlinkError) -> bool {
    error.rejection().is_some_and(|rejection| rejection.is(Errno::NOENT))
}

pub(super) fn nothing_if_missing<T>(listed: Result<Vec<T>, NetlinkError>) -> Result<Vec<T>, NetlinkError> {
    match listed {
        Err(error) if is_missing(&error) => Ok(Vec::new()),
        listed => listed,
    }
}
