//! epoll, with tokens for what an event is about.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{Timespec, epoll};

/// Events that one call returns.
const MAX_EVENTS: usize = 256;

/// One epoll instance.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
}

/// What an event is about: an index into the worker's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// The caller sent a command.
    Wake,
    Listener(usize),
    /// The client's side of a connection.
    Client(usize),
    /// The endpoint's side of a connection, and which of its dials. A later one has the same index.
    Endpoint(usize, u8),
    /// A UDP socket that clients send to.
    Datagrams(usize),
    /// A UDP socket towards an endpoint.
    Association(usize),
}

/// What happened to a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the kernel reports a set of facts")]
pub(crate) struct Readiness {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The peer ended its half, or all of it: a read that returns little is not the last one.
    pub(crate) hangup: bool,
    /// There is an error to be fetched, or both halves have ended.
    pub(crate) failed: bool,
}

/// Room for events, reused for each call.
pub(crate) struct Events(Vec<epoll::Event>);

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Reports every change of a connection's socket, once each.
    pub(crate) fn add_stream(&self, socket: impl AsFd, token: Token) -> io::Result<()> {
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        Ok(epoll::add(&self.epoll, socket, token.into(), flags)?)
    }

    /// Reports that a listening socket has clients, to one of the workers that ask.
    pub(crate) fn add_listener(&self, socket: impl AsFd, token: Token) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
        Ok(epoll::add(&self.epoll, socket, token.into(), flags)?)
    }

    /// Reports a readable socket for as long as it is readable.
    pub(crate) fn add_readable(&self, socket: impl AsFd, token: Token) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, token.into(), epoll::EventFlags::IN)?)
    }

    /// A descriptor that others have too must be removed before it is closed.
    pub(crate) fn remove(&self, socket: impl AsFd) {
        // It may never have been added; there is nothing else that can fail.
        let _ = epoll::delete(&self.epoll, socket);
    }

    /// Waits for events, at most this long.
    pub(crate) fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        events.0.clear();
        let room = rustix::buffer::spare_capacity(&mut events.0);
        match epoll::wait(&self.epoll, room, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Events {
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(MAX_EVENTS))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, at: usize) -> Option<(Token, Readiness)> {
        let event = self.0.get(at)?;
        let flags = event.flags;
        let failed = flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP);
        let hangup = failed || flags.contains(epoll::EventFlags::RDHUP);
        let readable = hangup || flags.contains(epoll::EventFlags::IN);
        let writable = failed || flags.contains(epoll::EventFlags::OUT);
        Some((Token::try_from(event.data).ok()?, Readiness { readable, writable, hangup, failed }))
    }
}

const KIND_SHIFT: u32 = 56;
const DIAL_SHIFT: u32 = 48;

impl From<Token> for epoll::EventData {
    fn from(token: Token) -> Self {
        let (kind, index) = match token {
            Token::Wake => (0, 0),
            Token::Listener(index) => (1, index),
            Token::Client(index) => (2, index),
            Token::Endpoint(index, dial) => (3, index | usize::from(dial) << DIAL_SHIFT),
            Token::Datagrams(index) => (4, index),
            Token::Association(index) => (5, index),
        };
        Self::new_u64((kind << KIND_SHIFT) | index as u64)
    }
}

impl TryFrom<epoll::EventData> for Token {
    type Error = ();

    fn try_from(data: epoll::EventData) -> Result<Self, ()> {
        let number = data.u64();
        let index = usize::try_from(number & ((1 << KIND_SHIFT) - 1)).map_err(|_| ())?;
        match number >> KIND_SHIFT {
            0 => Ok(Self::Wake),
            1 => Ok(Self::Listener(index)),
            2 => Ok(Self::Client(index)),
            3 => {
                let dial = u8::try_from(index >> DIAL_SHIFT).map_err(|_| ())?;
                Ok(Self::Endpoint(index & ((1 << DIAL_SHIFT) - 1), dial))
            }
            4 => Ok(Self::Datagrams(index)),
            5 => Ok(Self::Association(index)),
            _ => Err(()),
        }
    }
}
