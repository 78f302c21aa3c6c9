//! Reads tables, sets, chains, elements and counters back.
//!
//! Replies are decoded in [`super::decode`].

use rustix::io::Errno;

use super::constants::{FIXED, chain, element, flowtable, generation, kind, message, object, set};
use super::decode::{self, CounterReading, SeenElement, SeenTable};
use super::{
    Chain, CountedElement, Element, Family, KeyBytes, Name, NftClient, OtherKind, OtherObject, Rule, Set,
};
use crate::netlink::{Attributes, Message, NetlinkError, Request, Writer};
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
        self.list_sets(|attributes| {
            let name = Name::new(attributes.text(set::NAME)?);
            Some(Seen { name, object: decode::set(attributes) })
        })
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
        let operation = "listing the elements of an nftables set";
        let seen = self.list_elements(operation, set, |attributes| decode::seen_element(attributes, set))?;
        Ok(seen.map(merged))
    }

    fn other_objects(&mut self) -> Result<Vec<OtherObject>, NetlinkError> {
        let mut found = self.list("listing nftables objects", message::GET_OBJECT, |attributes| {
            let kind = OtherKind::Stateful(attributes.number(object::TYPE)?);
            Some(OtherObject { name: Name::new(attributes.text(object::NAME)?), kind })
        })?;
        found.extend(self.list("listing nftables flowtables", message::GET_FLOWTABLE, |attributes| {
            let name = Name::new(attributes.text(flowtable::NAME)?);
            Some(OtherObject { name, kind: OtherKind::Flowtable })
        })?);
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
        let operation = "reading the counters of an nftables set";
        self.list_elements(operation, set, |attributes| decode::counted_element(attributes, set))
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

    /// The objects of a kind in the table, as they are decoded; none if there is no table.
    fn list<T>(
        &mut self,
        operation: &'static str,
        get: u16,
        mut read: impl FnMut(Attributes<'_>) -> Option<T>,
    ) -> Result<Vec<T>, NetlinkError> {
        let table = self.table.name.clone();
        let body = self.request_body(|writer| writer.text(TABLE_ATTRIBUTE, table.as_str()));
        let request = Request { operation, kind: kind(get), body: &body };
        let listed = self.socket.dump_whole(request, |message| read(of_table(message, &table)?));
        nothing_if_missing(listed)
    }

    /// The sets and maps of the table.
    pub(super) fn list_sets<T>(
        &mut self,
        read: impl FnMut(Attributes<'_>) -> Option<T>,
    ) -> Result<Vec<T>, NetlinkError> {
        self.list("listing nftables sets", message::GET_SET, read)
    }

    /// The rules of the table, in the order of each chain.
    pub(super) fn list_rules<T>(
        &mut self,
        read: impl FnMut(Attributes<'_>) -> Option<T>,
    ) -> Result<Vec<T>, NetlinkError> {
        self.list("listing nftables rules", message::GET_RULE, read)
    }

    /// The chains of the table. The kernel lists those of all tables.
    pub(super) fn list_chains<T>(
        &mut self,
        mut read: impl FnMut(Attributes<'_>) -> Option<T>,
    ) -> Result<Vec<T>, NetlinkError> {
        let (table, body) = (self.table.name.clone(), self.fixed());
        let request =
            Request { operation: "listing nftables chains", kind: kind(message::GET_CHAIN), body: &body };
        self.socket.dump_whole(request, |message| read(of_table(message, &table)?))
    }

    /// The elements of a set, or `None` if there is no such set.
    pub(super) fn list_elements<T>(
        &mut self,
        operation: &'static str,
        set: &Name,
        mut read: impl FnMut(Attributes<'_>) -> Option<T>,
    ) -> Result<Option<Vec<T>>, NetlinkError> {
        let table = self.table.name.clone();
        let body = self.request_body(|writer| {
            writer.text(element::TABLE, table.as_str());
            writer.text(element::SET, set.as_str());
        });
        let request = Request { operation, kind: kind(message::GET_ELEMENTS), body: &body };
        let lists = self.socket.dump_whole(request, |message| {
            let items = message.attributes(FIXED).nested(element::LIST)?;
            Some(items.into_iter().filter_map(|item| read(item.nested())).collect::<Vec<_>>())
        });
        match lists {
            Ok(lists) => Ok(Some(lists.into_iter().flatten().collect())),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn empty_chains(&mut self) -> Result<Vec<Seen<Chain>>, NetlinkError> {
        self.list_chains(|attributes| {
            let name = Name::new(attributes.text(chain::NAME)?);
            Some(Seen { name, object: decode::chain(attributes) })
        })
    }

    fn rules(&mut self) -> Result<Vec<(Name, Option<Rule>)>, NetlinkError> {
        let family = self.table.family;
        self.list_rules(|attributes| {
            let seen = decode::seen_rule(attributes, family)?;
            Some((seen.chain, seen.rule))
        })
    }

    pub(super) fn fixed(&self) -> [u8; FIXED] {
        [self.table.family.number(), 0, 0, 0]
    }

    fn request_body(&self, attributes: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.raw(&self.fixed());
        attributes(&mut writer);
        writer.as_bytes().to_vec()
    }
}

/// The first attribute of every kind of object is its table.
const TABLE_ATTRIBUTE: u16 = 1;

/// The attributes of an object, if it is of this table.
fn of_table<'a>(message: &Message<'a>, table: &Name) -> Option<Attributes<'a>> {
    let attributes = message.attributes(FIXED);
    (attributes.text(TABLE_ATTRIBUTE)? == table.as_str()).then_some(attributes)
}

fn merged(elements: Vec<SeenElement>) -> SeenElements {
    let mut merged = SeenElements::default();
    for seen in elements {
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

fn nothing_if_missing<T>(listed: Result<Vec<T>, NetlinkError>) -> Result<Vec<T>, NetlinkError> {
    match listed {
        Err(error) if is_missing(&error) => Ok(Vec::new()),
        listed => listed,
    }
}
