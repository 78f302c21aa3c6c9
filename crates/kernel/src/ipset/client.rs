//! The client of `ip_set`.

use std::collections::BTreeMap;

use rustix::io::Errno;

use super::wire::{self, Command, FIXED};
use super::{SeenSet, SetChange, SetEntry, SetSpec, SetType};
use crate::netlink::{Attribute, Message, NetlinkError, Protocol, Rejection, Request, Socket, Writer, flags};
use crate::nft::Family;
use crate::port::AddressSets;

/// The newest version of the protocol that is spoken here.
const NEWEST_PROTOCOL: u8 = 7;

/// A socket to `ip_set`.
#[derive(Debug)]
pub struct IpSets {
    socket: Socket,
    protocol: u8,
    /// The revision to use, once the kernel was asked.
    revisions: BTreeMap<(SetType, Family), u8>,
}

impl IpSets {
    /// Opens the socket and agrees with the kernel on a version of the protocol. A kernel without `ip_set` rejects that.
    pub fn open() -> Result<Self, NetlinkError> {
        let socket = Socket::open(Protocol::Netfilter, &[])?;
        let mut sets = Self { socket, protocol: NEWEST_PROTOCOL, revisions: BTreeMap::new() };
        let mut body = Writer::new();
        wire::begin(&mut body, NEWEST_PROTOCOL);
        let newest = sets.ask("asking for the protocol of ip_set", Command::Protocol, &body, |message| {
            message.attributes(FIXED).get(wire::PROTOCOL).and_then(Attribute::byte)
        })?;
        sets.protocol = NEWEST_PROTOCOL.min(newest);
        Ok(sets)
    }

    /// The revision of a type in which sets are made: the newest that both sides know.
    fn revision(&mut self, set: &SetSpec) -> Result<u8, NetlinkError> {
        let key = (set.set_type, set.family);
        if let Some(revision) = self.revisions.get(&key) {
            return Ok(*revision);
        }
        let body = wire::type_question(self.protocol, set);
        let operation = "asking for the revisions of a type of set";
        let (oldest, newest) = self.ask(operation, Command::Type, &body, |message| {
            let revision = |kind| message.attributes(FIXED).get(kind).and_then(Attribute::byte);
            Some((revision(wire::OLDEST).unwrap_or_default(), revision(wire::REVISION)?))
        })?;
        let revision = set.set_type.known_revision().min(newest).max(oldest);
        self.revisions.insert(key, revision);
        Ok(revision)
    }

    fn ask<T>(
        &mut self,
        operation: &'static str,
        command: Command,
        body: &Writer,
        decode: impl Fn(&Message<'_>) -> Option<T>,
    ) -> Result<T, NetlinkError> {
        self.socket.get(Request { operation, kind: command.kind(), body: body.as_bytes() }, decode)
    }
}

impl AddressSets for IpSets {
    fn sets(&mut self) -> Result<Vec<SeenSet>, NetlinkError> {
        let body = wire::list_headers(self.protocol);
        let kind = Command::List.kind();
        let request = Request { operation: "listing address sets", kind, body: body.as_bytes() };
        self.socket.dump_whole(request, |message| wire::seen_set(message.attributes(FIXED)))
    }

    fn entries(&mut self, set: &SetSpec) -> Result<Vec<SetEntry>, NetlinkError> {
        let body = wire::body_about(self.protocol, &set.name);
        let operation = "listing the entries of an address set";
        let request = Request { operation, kind: Command::List.kind(), body: body.as_bytes() };
        let parts = self
            .socket
            .dump_whole(request, |message| Some(wire::entries(message.attributes(FIXED), set.set_type)));
        match parts {
            Err(error) if is_missing(&error) => Ok(Vec::new()),
            parts => Ok(parts?.concat()),
        }
    }

    fn create(&mut self, set: &SetSpec) -> Result<(), NetlinkError> {
        let revision = self.revision(set)?;
        let body = wire::create(self.protocol, set, revision);
        let operation = "making an address set";
        let request = Request { operation, kind: Command::Create.kind(), body: body.as_bytes() };
        self.socket.request_with(request, flags::CREATE)
    }

    fn destroy(&mut self, name: &str) -> Result<(), NetlinkError> {
        let body = wire::body_about(self.protocol, name);
        let operation = "destroying an address set";
        let request = Request { operation, kind: Command::Destroy.kind(), body: body.as_bytes() };
        match self.socket.request(request) {
            Err(error) if is_missing(&error) => Ok(()),
            destroyed => destroyed,
        }
    }

    fn apply(&mut self, changes: &[SetChange<'_>]) -> Result<Vec<Result<(), Rejection>>, NetlinkError> {
        let protocol = self.protocol;
        self.socket.request_each("changing address sets", changes, |writer, change, sequence| {
            wire::write_change(writer, change, protocol, sequence);
        })
    }
}

fn is_missing(error: &NetlinkError) -> bool {
    error.rejection().is_some_and(|rejection| rejection.is(Errno::NOENT))
}
