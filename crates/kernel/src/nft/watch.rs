//! Who changed which rules, as the kernel tells everyone who listens.
//!
//! Tells, and does nothing about it. A change of several objects arrives as one event each and ends with
//! [`What::Generation`], which names the process behind it.

use std::os::fd::{AsFd, BorrowedFd};

use super::numbers::{
    FIXED, GROUP, SUBSYSTEM, chain, element, flowtable, generation, message, object, rule, set, table,
};
use super::{Family, Name};
use crate::netlink::{Incoming, Message, NetlinkError, Protocol, Socket};

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The family, if it is one of ours.
    pub family: Option<Family>,
    /// The table; generations have none.
    pub table: Option<Name>,
    /// The netlink address of the program that did it: [`NftClient::port`](super::NftClient::port) for our own.
    pub port: u32,
    /// Whether it was made or removed.
    pub removed: bool,
    /// What was changed.
    pub what: What,
}

/// What a change is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The table itself.
    Table,
    /// A set or map.
    Set(Name),
    /// Elements of a set or map.
    Elements(Name),
    /// A chain.
    Chain(Name),
    /// A rule of a chain.
    Rule(Name),
    /// Something else in the table.
    Other,
    /// All events since the last of this kind are one commit.
    Generation {
        /// What the generation is now.
        id: u32,
        /// The thread that committed; its number is the process's in programs of one thread.
        process: Option<u32>,
        /// Its name.
        process_name: Option<String>,
    },
}

/// What came since last time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// These changes, maybe none.
    Events(Vec<Event>),
    /// More than we could take: anything may have changed.
    Missed,
}

/// Listens to changes of all tables.
#[derive(Debug)]
pub struct NftWatch {
    socket: Socket,
}

impl NftWatch {
    /// Listens from now on.
    pub fn open() -> Result<Self, NetlinkError> {
        Ok(Self { socket: Socket::open(Protocol::Netfilter, &[GROUP])? })
    }

    /// What came since last time, without waiting. To wait, poll the descriptor ([`AsFd`]) for reading.
    pub fn read(&mut self) -> Result<News, NetlinkError> {
        let mut events = Vec::new();
        loop {
            match self.socket.receive_now(|message| events.extend(event(message)))? {
                Incoming::Messages => {}
                Incoming::Nothing => return Ok(News::Events(events)),
                Incoming::Overrun => return Ok(News::Missed),
            }
        }
    }
}

impl AsFd for NftWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The change a message tells of.
pub fn event(message: &Message<'_>) -> Option<Event> {
    let [high, kind] = message.kind.to_be_bytes();
    if u16::from(high) != SUBSYSTEM {
        return None;
    }
    let attributes = message.attributes(FIXED);
    let named = |attribute| attributes.text(attribute).map(Name::new);
    let (removed, what) = match u16::from(kind) {
        message::NEW_TABLE => (false, What::Table),
        message::DELETE_TABLE => (true, What::Table),
        message::NEW_SET => (false, What::Set(named(set::NAME)?)),
        message::DELETE_SET => (true, What::Set(named(set::NAME)?)),
        message::NEW_ELEMENTS => (false, What::Elements(named(element::SET)?)),
        message::DELETE_ELEMENTS => (true, What::Elements(named(element::SET)?)),
        message::NEW_CHAIN => (false, What::Chain(named(chain::NAME)?)),
        message::DELETE_CHAIN => (true, What::Chain(named(chain::NAME)?)),
        message::NEW_RULE => (false, What::Rule(named(rule::CHAIN)?)),
        message::DELETE_RULE => (true, What::Rule(named(rule::CHAIN)?)),
        message::NEW_OBJECT | message::NEW_FLOWTABLE => (false, What::Other),
        message::DELETE_OBJECT | message::DELETE_FLOWTABLE => (true, What::Other),
        message::NEW_GENERATION => (false, committed(message)?),
        _ => return None,
    };
    // The first attribute of every object is its table, or the table's own name.
    let table = if matches!(what, What::Generation { .. }) { None } else { named(table::NAME) };
    Some(Event { family: family(message), table, port: message.port, removed, what })
}

fn committed(message: &Message<'_>) -> Option<What> {
    let attributes = message.attributes(FIXED);
    Some(What::Generation {
        id: attributes.number(generation::ID)?,
        process: attributes.number(generation::PROCESS),
        process_name: attributes.text(generation::PROCESS_NAME).map(str::to_owned),
    })
}

fn family(message: &Message<'_>) -> Option<Family> {
    let number = *message.body.first()?;
    [Family::Ip, Family::Ip6].into_iter().find(|family| family.number() == number)
}

const _: () = assert!(
    object::TABLE == table::NAME && flowtable::TABLE == table::NAME,
    "every object says its table first"
);
