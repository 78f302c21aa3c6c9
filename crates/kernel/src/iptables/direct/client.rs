//! [`NetlinkTables`]: the tables of iptables' `nft` variant, without its programs.

use std::collections::BTreeSet;

use rustix::io::Errno;

use super::batch::{Batch, ChainData, Ending, Known};
use super::commit::{Outcome, StampedChain, commit};
use super::lines::BadLine;
use super::outline::Outline;
use super::reading::{ReadError, Reader};
use super::tables::BuiltInTable;
use super::{Context, SetNames};
use crate::iptables::{IptablesError, RestoreText, RuleText, Saved};
use crate::netlink::{NetlinkError, Protocol, Rejection, Socket};
use crate::nft::Family;
use crate::port::XTables;
use crate::subprocess::Cancel;

const WRITING: &str = "writing iptables rules over netlink";
const TESTING: &str = "testing iptables rules over netlink";
const READING: &str = "reading iptables rules over netlink";
/// How often a text is sent again because another program committed meanwhile. What was encoded is kept if it still holds.
const ATTEMPTS: u32 = 64;

/// The tables of one family, as iptables' `nft` variant keeps them in nf_tables.
///
/// A text is one transaction over all its tables. A chain to be removed that a rule of another program still jumps to is emptied
/// and stays. There is no lock: if another program changes rules that a text depends on
/// (rules to be deleted, built-in chains that are missing), they are read again and the text is sent again.
#[derive(Debug)]
pub struct NetlinkTables {
    family: Family,
    socket: Socket,
}

/// What is done with a text.
#[derive(Clone, Copy)]
struct Plan<'s> {
    ending: Ending,
    operation: &'static str,
    stamp: Option<Stamp<'s>>,
}

/// A chain that is replaced by one with this user data, which is made for the generation of the commit.
#[derive(Clone, Copy)]
struct Stamp<'s> {
    on: StampedChain,
    digest: &'s dyn Fn(u32) -> Vec<u8>,
}

impl NetlinkTables {
    /// Opens a socket. No table need exist.
    pub fn open(family: Family) -> Result<Self, NetlinkError> {
        Ok(Self { family, socket: Socket::open(Protocol::Netfilter, &[])? })
    }

    /// The netlink portid that notifications of our own commits carry.
    pub fn portid(&self) -> u32 {
        self.socket.portid()
    }

    /// The ruleset generation, which every commit of any program increments.
    pub fn generation(&mut self) -> Result<u32, IptablesError> {
        self.reader().generation().map_err(|error| failed(READING, error))
    }

    /// The rules of a chain, or `None` if there is no such chain.
    pub fn list_chain(&mut self, table: &str, chain: &str) -> Result<Option<Vec<RuleText>>, IptablesError> {
        let is_there = self.has_chain(table, chain)?;
        let texts = is_there.then(|| self.reader().texts_of(table, chain)).transpose();
        texts.map_err(|error| failed(READING, error))
    }

    /// Like [`XTables::restore`], and in the same transaction replaces a chain by an empty one with a stamp.
    ///
    /// The stamp is made for the generation that the commit creates, which is returned.
    pub fn restore_stamped(
        &mut self,
        text: &RestoreText,
        on: StampedChain,
        digest: &dyn Fn(u32) -> Vec<u8>,
    ) -> Result<u32, IptablesError> {
        let plan = Plan { ending: Ending::Commit, operation: WRITING, stamp: Some(Stamp { on, digest }) };
        self.carry_out(text, plan)
    }

    /// The stamp of a chain; `None` if there is no such chain or it has none.
    pub fn stamp(&mut self, of: StampedChain) -> Result<Option<Vec<u8>>, IptablesError> {
        let chain = self.reader().chain(of.table, of.chain).map_err(|error| failed(READING, error))?;
        Ok(chain.and_then(|chain| chain.user_data))
    }

    /// Returns the generation that was created.
    fn carry_out(&mut self, text: &RestoreText, plan: Plan<'_>) -> Result<u32, IptablesError> {
        let operation = plan.operation;
        let outline = Outline::new(text.as_str()).map_err(|bad| unwritable(operation, &bad))?;
        let (mut encoded, mut kept): (Option<(Known, Batch)>, BTreeSet<usize>) = (None, BTreeSet::new());
        for _ in 0..ATTEMPTS {
            let generation = self.reader().generation().map_err(|error| failed(operation, error))?;
            let sets = self.sets(&outline).map_err(|error| failed(operation, error))?;
            let known = self.known(&outline, &sets).map_err(|error| failed(operation, error))?;
            let Some(known) = known else { continue };
            let known = Known { kept: kept.clone(), ..known };
            let (_, mut batch) = match encoded.take().filter(|(before, _)| *before == known) {
                Some(encoded) => encoded,
                None => (known.clone(), self.encode(text, known.clone(), &sets, operation)?),
            };
            let (is_checked, created) =
                (outline.depends_on_tables() || plan.stamp.is_some(), next_generation(generation));
            let digest = plan.stamp.map(|stamp| (stamp.on, (stamp.digest)(created)));
            let stamp =
                digest.as_ref().map(|(StampedChain { table, chain }, data)| ChainData { table, chain, data });
            batch.finish(if is_checked { generation } else { 0 }, stamp, plan.ending);
            if batch.is_empty() {
                return Ok(created);
            }
            self.socket.reserve_sequences(batch.messages());
            match commit(&mut self.socket, &batch, operation).map_err(|error| failed(operation, error))? {
                Outcome::Committed => return Ok(created),
                Outcome::Outdated => encoded = Some((known, batch)),
                Outcome::Rejected { line: Some(line), rejection }
                    if rejection.is(Errno::BUSY) && is_removal(text, line) && kept.insert(line) => {}
                Outcome::Rejected { line, rejection } => {
                    return Err(rejected(operation, line.and_then(|line| nth_line(text, line)), rejection));
                }
            }
        }
        Err(failed(operation, NetlinkError::Interrupted { operation, attempts: ATTEMPTS }))
    }

    fn encode(
        &mut self,
        text: &RestoreText,
        known: Known,
        sets: &SetNames,
        operation: &'static str,
    ) -> Result<Batch, IptablesError> {
        let context = Context { family: self.family, sets };
        let first = self.socket.reserve_sequences(0);
        Batch::new(text.as_str(), known, context, first).map_err(|bad| unwritable(operation, &bad))
    }

    fn sets(&mut self, outline: &Outline<'_>) -> Result<SetNames, NetlinkError> {
        let is_needed = outline.names_sets || !outline.searched.is_empty();
        if is_needed { SetNames::read(&mut self.socket) } else { Ok(SetNames::default()) }
    }

    /// What a text depends on; `None` if it changed while it was read.
    fn known(&mut self, outline: &Outline<'_>, sets: &SetNames) -> Result<Option<Known>, NetlinkError> {
        let mut reader = self.reader();
        let mut known = Known::default();
        for (table, chain) in &outline.built_in {
            if reader.chain(table, chain.name)?.is_none() {
                known.missing.push((*table, *chain));
            }
        }
        for (table, chain) in &outline.searched {
            if !reader.handles_of((table, chain), sets, &mut known.handles)? {
                return Ok(None);
            }
        }
        Ok(Some(known))
    }

    fn has_chain(&mut self, table: &str, chain: &str) -> Result<bool, IptablesError> {
        let is_built_in = BuiltInTable::named(table).is_some_and(|table| table.chain(chain).is_some());
        let seen = self.reader().chain(table, chain).map_err(|error| failed(READING, error))?;
        // To iptables they are there even before the first rule.
        Ok(is_built_in || seen.is_some())
    }

    fn reader(&mut self) -> Reader<'_> {
        Reader { socket: &mut self.socket, family: self.family }
    }
}

impl XTables for NetlinkTables {
    fn family(&self) -> Family {
        self.family
    }

    fn save(&mut self) -> Result<Saved, IptablesError> {
        self.save_tables(&[], &Cancel::default())
    }

    fn save_tables(&mut self, tables: &[&'static str], cancel: &Cancel) -> Result<Saved, IptablesError> {
        // A listing that is cancelled makes its socket unusable.
        let mut socket = Socket::open(Protocol::Netfilter, &[]).map_err(|error| failed(READING, error))?;
        let saved = Reader { socket: &mut socket, family: self.family }.save(tables, cancel);
        saved.map_err(unread)
    }

    fn restore(&mut self, text: &RestoreText) -> Result<(), IptablesError> {
        let plan = Plan { ending: Ending::Commit, operation: WRITING, stamp: None };
        self.carry_out(text, plan).map(drop)
    }

    fn test(&mut self, text: &RestoreText) -> Result<(), IptablesError> {
        let plan = Plan { ending: Ending::Abort, operation: TESTING, stamp: None };
        self.carry_out(text, plan).map(drop)
    }

    fn chain_rules(&mut self, table: &str, chain: &str) -> Result<Option<Vec<RuleText>>, IptablesError> {
        self.list_chain(table, chain)
    }

    fn chain_names(&mut self, table: &str) -> Result<Option<BTreeSet<String>>, IptablesError> {
        self.reader().chain_names(table).map(Some).map_err(unread)
    }

    fn generation(&mut self) -> Result<Option<u32>, IptablesError> {
        Self::generation(self).map(Some)
    }

    fn portid(&self) -> Option<u32> {
        Some(Self::portid(self))
    }

    fn restore_stamped(
        &mut self,
        text: &RestoreText,
        chain: StampedChain,
        stamp: &dyn Fn(u32) -> Vec<u8>,
    ) -> Result<Option<u32>, IptablesError> {
        Self::restore_stamped(self, text, chain, stamp).map(Some)
    }

    fn stamp(&mut self, of: StampedChain) -> Result<Option<Vec<u8>>, IptablesError> {
        Self::stamp(self, of)
    }
}

/// Every commit that changes anything adds one; zero is never used.
fn next_generation(generation: u32) -> u32 {
    generation.wrapping_add(1).max(1)
}

/// Whether a line removes a chain that the text empties before.
fn is_removal(text: &RestoreText, number: usize) -> bool {
    let removal = nth_line(text, number);
    let Some(chain) = removal.as_deref().and_then(|line| line.strip_prefix("-X ")) else { return false };
    let declares = |line: &str| line.strip_prefix(':').and_then(|rest| rest.split(' ').next()) == Some(chain);
    text.as_str().lines().take(number).any(declares)
}

fn nth_line(text: &RestoreText, number: usize) -> Option<String> {
    text.as_str().lines().nth(number.checked_sub(1)?).map(str::to_owned)
}

fn unwritable(operation: &'static str, bad: &BadLine<'_>) -> IptablesError {
    let BadLine { number, text, error } = bad;
    IptablesError::Unwritable { operation, number: *number, at: (*text).to_owned(), source: error.clone() }
}

fn rejected(operation: &'static str, at: Option<String>, rejection: Rejection) -> IptablesError {
    if rejection.is(Errno::PERM) {
        return not_permitted(operation, rejection.to_string());
    }
    IptablesError::Rejected { operation, at, rejection }
}

fn unread(error: ReadError) -> IptablesError {
    match error {
        ReadError::Cancelled => IptablesError::Cancelled { operation: READING },
        ReadError::Failed(error) => failed(READING, error),
    }
}

fn failed(operation: &'static str, source: NetlinkError) -> IptablesError {
    match source.rejection() {
        Some(rejection) if rejection.is(Errno::PERM) => not_permitted(operation, rejection.to_string()),
        _ => IptablesError::Netlink { operation, source },
    }
}

fn not_permitted(operation: &'static str, message: String) -> IptablesError {
    IptablesError::NotPermitted { program: "netlink".to_owned(), operation, message }
}
