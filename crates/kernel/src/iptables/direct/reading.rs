//! Reads chains and rules back. Every chain is read as a whole; other programs may commit between two of them.

use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;

use rustix::io::Errno;

use super::batch::Handles;
use super::tables::BuiltInTable;
use super::{Context, SetNames, XtRule};
use crate::iptables::{ChainName, RuleText, Saved, SavedChain, SavedRule, SavedTable};
use crate::netlink::{
    Attribute, Attributes, DumpEnd, Message, NetlinkError, Protocol, Request, Socket, Writer,
};
use crate::nft::Family;
use crate::nft::constants::{FIXED, chain, data, generation, kind, message, rule, table};
use crate::subprocess::Cancel;

/// How often something is read again because it changed meanwhile.
const ATTEMPTS: u32 = 64;
/// Up to this many rules of a table are read in one listing.
const FEW_RULES: usize = 1024;
/// How many listings of one kind are made if each is interrupted.
const MAX_LISTINGS: usize = 4;
const READING: &str = "reading iptables rules";

/// What stopped a read.
#[derive(Debug)]
pub(super) enum ReadError {
    Cancelled,
    Failed(NetlinkError),
}

impl From<NetlinkError> for ReadError {
    fn from(error: NetlinkError) -> Self {
        Self::Failed(error)
    }
}

/// Reads the tables of one family.
pub(super) struct Reader<'s> {
    pub socket: &'s mut Socket,
    pub family: Family,
}

/// A chain as it was read.
pub(super) struct SeenChain {
    /// What was left with it.
    pub user_data: Option<Vec<u8>>,
}

impl Reader<'_> {
    /// The generation, which every commit of any program increments.
    pub(super) fn generation(&mut self) -> Result<u32, NetlinkError> {
        let body = [self.family.number(), 0, 0, 0];
        let operation = "asking for the generation of nf_tables";
        let request = Request { operation, kind: kind(message::GET_GENERATION), body: &body };
        self.socket.get(request, |message| message.attributes(FIXED).number(generation::ID))
    }

    /// A chain, if it exists.
    pub(super) fn chain(&mut self, table: &str, name: &str) -> Result<Option<SeenChain>, NetlinkError> {
        let body = self.body(|writer| {
            writer.text(chain::TABLE, table);
            writer.text(chain::NAME, name);
        });
        let request =
            Request { operation: "asking for a chain", kind: kind(message::GET_CHAIN), body: &body };
        let user_data = |message: &Message<'_>| {
            Some(message.attributes(FIXED).get(chain::USER_DATA).map(|data| data.value.to_vec()))
        };
        match self.socket.get(request, user_data) {
            Ok(user_data) => Ok(Some(SeenChain { user_data })),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Passes the attributes of every rule of a chain to the callback; `false` if the rules changed meanwhile.
    pub(super) fn rules_of(
        &mut self,
        table: &str,
        chain: &str,
        mut each: impl FnMut(Attributes<'_>),
    ) -> Result<bool, NetlinkError> {
        let body = self.body(|writer| {
            writer.text(rule::TABLE, table);
            writer.text(rule::CHAIN, chain);
        });
        let request = Request { operation: "reading a chain", kind: kind(message::GET_RULE), body: &body };
        let ended = self.socket.dump_each(request, |message| {
            let attributes = message.attributes(FIXED);
            // Old kernels do not filter by chain.
            if attributes.text(rule::TABLE) == Some(table) && attributes.text(rule::CHAIN) == Some(chain) {
                each(attributes);
            }
            ControlFlow::Continue(())
        });
        match ended {
            Ok(end) => Ok(end == DumpEnd::Whole),
            Err(error) if is_missing(&error) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The text of every rule of a chain.
    pub(super) fn texts_of(&mut self, table: &str, chain: &str) -> Result<Vec<RuleText>, NetlinkError> {
        let sets = SetNames::read(self.socket)?;
        let (family, mut text) = (self.family, String::new());
        for _ in 0..ATTEMPTS {
            let mut rules = Vec::new();
            let is_whole = self.rules_of(table, chain, |attributes| {
                text.clear();
                XtRule::decode(attributes, &Context { family, sets: &sets }).print(family, &mut text);
                rules.push(RuleText::from_saved(&text));
            })?;
            if is_whole {
                return Ok(rules);
            }
        }
        Err(NetlinkError::Interrupted { operation: "reading a chain", attempts: ATTEMPTS })
    }

    /// Adds the rules of a chain, so that they can be deleted; `false` if they changed meanwhile.
    pub(super) fn handles_of(
        &mut self,
        (table, chain): (&str, &str),
        sets: &SetNames,
        handles: &mut Handles,
    ) -> Result<bool, NetlinkError> {
        let family = self.family;
        let of_chain = handles.entry((table.to_owned(), chain.to_owned())).or_default();
        self.rules_of(table, chain, |attributes| {
            let Some(handle) = attributes.get(rule::HANDLE).and_then(Attribute::long) else { return };
            let mut text = String::new();
            XtRule::decode(attributes, &Context { family, sets }).print(family, &mut text);
            of_chain.entry(text).or_default().push_back(handle);
        })
    }

    /// All rules of these tables, or of all tables of iptables if none is named. Callers that need the state of one moment
    /// compare generations.
    pub(super) fn save(&mut self, tables: &[&str], cancel: &Cancel) -> Result<Saved, ReadError> {
        let sets = SetNames::read(self.socket)?;
        let mut tables = self.tables(tables, cancel)?;
        self.add_chains(&mut tables, cancel)?;
        for table in &mut tables {
            if !self.add_few_rules(table, &sets, cancel)? {
                self.add_rules(table, &sets, cancel)?;
            }
        }
        Ok(Saved { tables, unreadable: Vec::new() })
    }

    fn tables(&mut self, wanted: &[&str], cancel: &Cancel) -> Result<Vec<SavedTable>, ReadError> {
        let mut tables: Vec<SavedTable> = Vec::new();
        self.list_all(message::GET_TABLE, cancel, |attributes| {
            let name = attributes.text(table::NAME).unwrap_or_default();
            let is_wanted = wanted.is_empty() || wanted.contains(&name);
            let is_new = tables.iter().all(|table| table.name != name);
            if is_wanted && is_new && BuiltInTable::named(name).is_some() {
                let is_dormant =
                    attributes.number(table::FLAGS).is_some_and(|flags| flags & table::DORMANT != 0);
                tables.push(SavedTable { name: name.to_owned(), is_dormant, ..SavedTable::default() });
            }
        })?;
        Ok(tables)
    }

    /// The chains of all tables. iptables prints built-in chains that do not exist as empty ones.
    fn add_chains(&mut self, tables: &mut [SavedTable], cancel: &Cancel) -> Result<(), ReadError> {
        let mut seen = HashSet::new();
        self.list_all(message::GET_CHAIN, cancel, |attributes| {
            let of = attributes.text(chain::TABLE).unwrap_or_default();
            let Some(index) = tables.iter().position(|known| known.name == of) else { return };
            let Some(name) = attributes.text(chain::NAME).and_then(ChainName::from_saved) else { return };
            if seen.insert((index, name.clone())) {
                let policy = attributes.get(chain::HOOK).map(|_| policy(attributes).to_owned());
                tables[index].chains.push(SavedChain { name, policy });
            }
        })?;
        for table in tables {
            let built_in = BuiltInTable::named(&table.name).map_or(&[][..], |table| table.chains);
            for chain in built_in {
                if !table.has_chain(chain.name) {
                    let policy = Some("ACCEPT".to_owned());
                    table.chains.push(SavedChain { name: ChainName::fixed(chain.name), policy });
                }
            }
        }
        Ok(())
    }

    /// The names of all chains of a table.
    pub(super) fn chain_names(&mut self, of: &str) -> Result<BTreeSet<String>, ReadError> {
        let mut names = BTreeSet::new();
        self.list_all(message::GET_CHAIN, &Cancel::default(), |attributes| {
            if attributes.text(chain::TABLE) == Some(of) {
                names.extend(attributes.text(chain::NAME).map(str::to_owned));
            }
        })?;
        Ok(names)
    }

    /// The rules of a table, if there are few: another program may have emptied ten thousands of chains. `false` if there are
    /// more, or they changed meanwhile.
    fn add_few_rules(
        &mut self,
        table: &mut SavedTable,
        sets: &SetNames,
        cancel: &Cancel,
    ) -> Result<bool, ReadError> {
        let (family, mut text) = (self.family, String::new());
        let SavedTable { name: of, rules, .. } = table;
        let body = self.body(|writer| writer.text(rule::TABLE, of));
        let request = Request { operation: READING, kind: kind(message::GET_RULE), body: &body };
        let end = self.socket.dump_each(request, |message| {
            let attributes = message.attributes(FIXED);
            let chain = attributes.text(rule::CHAIN).and_then(ChainName::from_saved);
            if let Some(chain) = chain.filter(|_| attributes.text(rule::TABLE) == Some(of)) {
                text.clear();
                XtRule::decode(attributes, &Context { family, sets }).print(family, &mut text);
                rules.push(SavedRule { chain, text: RuleText::from_saved(&text) });
            }
            if rules.len() > FEW_RULES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if end == DumpEnd::Whole {
            return Ok(true);
        }
        rules.clear();
        if end == DumpEnd::Broken {
            *self.socket = Socket::open(Protocol::Netfilter, &[])?;
        }
        if cancel.is_cancelled() { Err(ReadError::Cancelled) } else { Ok(false) }
    }

    /// The rules of a table, chain by chain: in a longer listing the kernel walks for every part over all rules before it.
    fn add_rules(
        &mut self,
        table: &mut SavedTable,
        sets: &SetNames,
        cancel: &Cancel,
    ) -> Result<(), ReadError> {
        let (family, mut text) = (self.family, String::new());
        let SavedTable { name: of, chains, rules, is_dormant: _ } = table;
        for SavedChain { name, .. } in &*chains {
            if cancel.is_cancelled() {
                return Err(ReadError::Cancelled);
            }
            let (before, mut attempts) = (rules.len(), 0);
            while !self.rules_of(of, name, |attributes| {
                text.clear();
                XtRule::decode(attributes, &Context { family, sets }).print(family, &mut text);
                rules.push(SavedRule { chain: name.clone(), text: RuleText::from_saved(&text) });
            })? {
                rules.truncate(before);
                attempts += 1;
                if attempts == ATTEMPTS {
                    return Err(NetlinkError::Interrupted { operation: READING, attempts }.into());
                }
            }
        }
        Ok(())
    }

    /// All objects of a kind. A listing may lack some if another program commits, which the kernel says, or is about to, which it
    /// does not: objects that are not in effect yet, or no longer, move the others to another place in the list. So it is
    /// repeated until two are whole and equally long, and what any of them has counts. On a busy node that may never be.
    fn list_all(
        &mut self,
        get: u16,
        cancel: &Cancel,
        mut each: impl FnMut(Attributes<'_>),
    ) -> Result<(), ReadError> {
        let body = self.body(|_| {});
        let mut last = None;
        for _ in 0..MAX_LISTINGS {
            let mut length = 0_usize;
            let end = self.list(get, &body, cancel, |attributes| {
                length += 1;
                each(attributes);
            })?;
            let whole = (end == DumpEnd::Whole).then_some(length);
            if whole.is_some() && last == whole {
                break;
            }
            last = whole;
        }
        Ok(())
    }

    /// One listing, which ends early when it is cancelled.
    fn list(
        &mut self,
        get: u16,
        body: &[u8],
        cancel: &Cancel,
        mut each: impl FnMut(Attributes<'_>),
    ) -> Result<DumpEnd, ReadError> {
        /// Asking takes a lock.
        const MESSAGES_PER_CHECK: usize = 64;
        let mut messages = 0_usize;
        let request = Request { operation: READING, kind: kind(get), body };
        let end = self.socket.dump_each(request, |message| {
            if messages.is_multiple_of(MESSAGES_PER_CHECK) && cancel.is_cancelled() {
                return ControlFlow::Break(());
            }
            messages += 1;
            each(message.attributes(FIXED));
            ControlFlow::Continue(())
        })?;
        if end == DumpEnd::Broken { Err(ReadError::Cancelled) } else { Ok(end) }
    }

    fn body(&self, attributes: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.raw(&[self.family.number(), 0, 0, 0]);
        attributes(&mut writer);
        writer.as_bytes().to_vec()
    }
}

fn policy(attributes: Attributes<'_>) -> &'static str {
    if attributes.number(chain::POLICY) == Some(data::DROP) { "DROP" } else { "ACCEPT" }
}

fn is_missing(error: &NetlinkError) -> bool {
    error.rejection().is_some_and(|rejection| rejection.is(Errno::NOENT))
}
