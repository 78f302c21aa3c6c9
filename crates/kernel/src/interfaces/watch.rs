//! Notifications of interfaces and addresses.
//!
//! Messages about addresses name an interface by its index. So that an interface can be known by its name, also if it is made
//! later or made again, messages about interfaces are read from the same socket.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use super::{DELETE_LINK, NEW_ADDRESS, any_address, link, link_index};
use crate::netlink::{Incoming, Message, NetlinkError, Protocol, Socket};

const LINKS: u32 = 1;
const IPV4_ADDRESSES: u32 = 5;
const IPV6_ADDRESSES: u32 = 9;

/// Receives notifications of address changes.
#[derive(Debug)]
pub struct AddressWatch {
    socket: Socket,
    ignored: Option<NamedLink>,
}

impl AddressWatch {
    /// Receives every change from now on.
    pub fn open() -> Result<Self, NetlinkError> {
        let socket = Socket::open(Protocol::Route, &[IPV4_ADDRESSES, IPV6_ADDRESSES])?;
        Ok(Self { socket, ignored: None })
    }

    /// Receives every change from now on but those of one interface, which need not exist.
    pub fn open_ignoring(name: &str) -> Result<Self, NetlinkError> {
        let socket = Socket::open(Protocol::Route, &[LINKS, IPV4_ADDRESSES, IPV6_ADDRESSES])?;
        Ok(Self { socket, ignored: Some(NamedLink::find(name)?) })
    }

    /// Whether any address changed since the last call, without waiting. To wait, poll the descriptor for reading.
    pub fn changed(&mut self) -> Result<bool, NetlinkError> {
        let mut changed = false;
        loop {
            let ignored = &mut self.ignored;
            let read = self.socket.receive_now(|message| changed |= is_change(message, ignored))?;
            match read {
                Incoming::Messages => {}
                Incoming::Overrun => {
                    changed = true;
                    if let Some(ignored) = &mut self.ignored {
                        ignored.find_again()?;
                    }
                }
                Incoming::Nothing => return Ok(changed),
            }
        }
    }
}

impl AsFd for AddressWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Receives notifications of interfaces that come, go or change, and of their addresses.
#[derive(Debug)]
pub struct LinkWatch {
    socket: Socket,
}

impl LinkWatch {
    /// Receives every change from now on.
    pub fn open() -> Result<Self, NetlinkError> {
        Ok(Self { socket: Socket::open(Protocol::Route, &[LINKS, IPV4_ADDRESSES, IPV6_ADDRESSES])? })
    }

    /// Whether anything changed since the last call, without waiting. To wait, poll the descriptor for reading.
    pub fn changed(&mut self) -> Result<bool, NetlinkError> {
        let mut changed = false;
        loop {
            match self.socket.receive_now(|_| changed = true)? {
                Incoming::Messages => {}
                Incoming::Overrun => changed = true,
                Incoming::Nothing => return Ok(changed),
            }
        }
    }
}

impl AsFd for LinkWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// What became of one interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceEvents {
    /// It was deleted or renamed. It may be there again.
    pub link_gone: bool,
    /// Addresses that it lost, in order.
    pub removed: Vec<IpAddr>,
    /// Addresses that it gained or that were changed, in order.
    pub added: Vec<IpAddr>,
    /// Notifications were lost: anything may have happened.
    pub lost: bool,
}

/// Receives notifications of one interface and its addresses.
#[derive(Debug)]
pub struct InterfaceWatch {
    socket: Socket,
    link: NamedLink,
}

impl InterfaceWatch {
    /// Receives every change from now on. The interface need not exist.
    pub fn open(name: &str) -> Result<Self, NetlinkError> {
        let socket = Socket::open(Protocol::Route, &[LINKS, IPV4_ADDRESSES, IPV6_ADDRESSES])?;
        Ok(Self { socket, link: NamedLink::find(name)? })
    }

    /// What happened since the last call, without waiting. To wait, poll the descriptor for reading.
    pub fn receive(&mut self) -> Result<InterfaceEvents, NetlinkError> {
        let mut events = InterfaceEvents::default();
        loop {
            let link = &mut self.link;
            match self.socket.receive_now(|message| events.note(message, link))? {
                Incoming::Messages => {}
                Incoming::Overrun => {
                    events.lost = true;
                    self.link.find_again()?;
                }
                Incoming::Nothing => return Ok(events),
            }
        }
    }
}

impl AsFd for InterfaceWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl InterfaceEvents {
    fn note(&mut self, message: &Message<'_>, link: &mut NamedLink) {
        self.link_gone |= link.follow(message);
        let Some(found) = any_address(message).filter(|found| link.is(found.interface)) else { return };
        let list = if message.kind == NEW_ADDRESS { &mut self.added } else { &mut self.removed };
        list.push(found.address);
    }
}

/// An interface that is known by its name.
#[derive(Debug)]
struct NamedLink {
    name: String,
    index: Option<u32>,
    /// The index it had before: messages about its addresses may follow the one about its end.
    last: Option<u32>,
}

impl NamedLink {
    fn find(name: &str) -> Result<Self, NetlinkError> {
        let mut link = Self { name: name.to_owned(), index: None, last: None };
        link.find_again()?;
        Ok(link)
    }

    fn find_again(&mut self) -> Result<(), NetlinkError> {
        let found = super::names()?.into_iter().find(|(_, name)| *name == self.name);
        self.set(found.map(|(index, _)| index));
        Ok(())
    }

    fn set(&mut self, index: Option<u32>) {
        if self.index != index {
            self.last = self.index.or(self.last);
            self.index = index;
        }
    }

    fn is(&self, index: u32) -> bool {
        self.index == Some(index) || self.last == Some(index)
    }

    /// Keeps up with a message, and says whether the interface has gone.
    fn follow(&mut self, message: &Message<'_>) -> bool {
        let is_gone = match link(message) {
            Some((index, name)) if name == self.name => {
                self.set(Some(index));
                false
            }
            Some((index, _)) => self.index == Some(index),
            None => message.kind == DELETE_LINK && self.index.is_some() && link_index(message) == self.index,
        };
        if is_gone {
            self.set(None);
        }
        is_gone
    }
}

/// Whether a message says that an address changed, on an interface that is not ignored.
fn is_change(message: &Message<'_>, ignored: &mut Option<NamedLink>) -> bool {
    let Some(ignored) = ignored else { return true };
    ignored.follow(message);
    any_address(message).is_some_and(|found| !ignored.is(found.interface))
}
