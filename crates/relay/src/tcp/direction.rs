//! Bytes from one socket to another.
//!
//! Small amounts are copied through a buffer of the worker; once a read fills it, bytes move through a pipe with `splice`, without
//! being copied. What the destination does not take yet is held: in memory, at most one buffer, or in the pipe. While something
//! is held, nothing is read, so that a slow reader slows its sender down. Where too much is held already, only as much is read as
//! the destination takes: the rest stays in the source's socket.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::pipe::{SpliceFlags, splice};

use super::pipes::{Pipe, Pipes};
use crate::worker::limits::Reservation;
use crate::worker::poller::Readiness;
use crate::worker::shared::{PortalState, Shared};

/// One read by copying.
const BUFFER: usize = 16 << 10;
/// One read by splicing. The pipe's size is the limit that counts.
const SPLICE: usize = 1 << 20;
/// Bytes in one turn, so that a fast connection does not starve others.
const TURN: u64 = 1 << 20;

/// What workers use to move bytes, for one connection at a time.
pub(super) struct Tools {
    buffer: Box<[u8]>,
    pipes: Pipes,
}

/// The two sockets of a direction, and where bytes that wait are counted.
#[derive(Clone, Copy)]
pub(super) struct Ends<'a> {
    pub(super) source: BorrowedFd<'a>,
    pub(super) destination: BorrowedFd<'a>,
    pub(super) portal: &'a Arc<PortalState>,
}

/// Which socket failed, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    Source(Errno),
    Destination(Errno),
}

/// One direction of a connection.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about two sockets, not a hidden state machine"
)]
pub(super) struct Direction {
    /// The source may have more to read.
    is_readable: bool,
    /// The destination may take more.
    is_writable: bool,
    /// The source's peer has ended: read until the end, however little a read returns.
    hangup: bool,
    /// The last read filled the buffer, so that splicing pays.
    is_bulk: bool,
    /// The source has no more.
    source_ended: bool,
    is_finished: bool,
    delivered: u64,
    held: Held,
    /// Counts what is held, once the destination has to be waited for.
    reserved: Option<Reservation>,
}

/// Bytes that were read and not written yet.
#[derive(Debug, Default)]
enum Held {
    #[default]
    Nothing,
    Bytes {
        bytes: Box<[u8]>,
        written: usize,
    },
    Piped {
        pipe: Pipe,
        length: usize,
    },
}

impl Tools {
    pub(super) fn new(relay: Arc<Shared>) -> Self {
        Self { buffer: vec![0; BUFFER].into_boxed_slice(), pipes: Pipes::new(relay) }
    }
}

impl Direction {
    pub(super) fn source_ready(&mut self, readiness: Readiness) {
        self.is_readable |= readiness.readable;
        self.hangup |= readiness.hangup;
    }

    pub(super) fn destination_ready(&mut self, readiness: Readiness) {
        self.is_writable |= readiness.writable;
    }

    pub(super) fn assume_ready(&mut self) {
        self.is_readable = true;
        self.is_writable = true;
    }

    pub(super) fn assume_writable(&mut self) {
        self.is_writable = true;
    }

    /// Another socket takes the destination's place. Nothing was written to the old one.
    pub(super) fn destination_replaced(&mut self) {
        self.is_writable = false;
    }

    /// Bytes that the destination has taken.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// The source has ended and everything was written.
    pub(super) fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Gives up what is held and reads no more.
    pub(super) fn abandon(&mut self) {
        self.held = Held::Nothing;
        self.reserved = None;
        self.is_finished = true;
    }

    /// Moves bytes until one of the sockets has to be waited for, or the turn is used up, which `true` says.
    pub(super) fn advance(&mut self, ends: Ends<'_>, tools: &mut Tools) -> Result<bool, Broken> {
        let limit = self.delivered + TURN;
        while !self.is_finished {
            if !self.flush(ends.destination, tools)? {
                self.reserve(ends.portal);
                return Ok(false);
            }
            if self.source_ended {
                self.is_finished = true;
            } else if !self.is_readable {
                return Ok(false);
            } else if self.delivered >= limit {
                return Ok(true);
            } else if !self.read(ends, tools)? {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Counts what is held. Bytes that are passed on at once are never counted.
    fn reserve(&mut self, portal: &Arc<PortalState>) {
        if self.reserved.is_none() {
            let bytes = match &self.held {
                Held::Nothing => return,
                Held::Bytes { bytes, .. } => bytes.len(),
                Held::Piped { length, .. } => *length,
            };
            self.reserved = Some(portal.hold(bytes));
        }
    }

    /// Writes what is held. `false` if the destination has to be waited for.
    fn flush(&mut self, destination: BorrowedFd<'_>, tools: &mut Tools) -> Result<bool, Broken> {
        loop {
            let result = match &self.held {
                Held::Nothing => return Ok(true),
                _ if !self.is_writable => return Ok(false),
                Held::Bytes { bytes, written } => {
                    send(destination, bytes.get(*written..).unwrap_or_default(), SendFlags::NOSIGNAL)
                }
                Held::Piped { pipe, length } => splice(
                    &pipe.output,
                    None,
                    destination,
                    None,
                    *length,
                    SpliceFlags::NONBLOCK | SpliceFlags::MOVE,
                ),
            };
            match result {
                Ok(count) => self.wrote(count, tools),
                Err(Errno::AGAIN) => self.is_writable = false,
                Err(Errno::INTR) => {}
                Err(error) => return Err(Broken::Destination(error)),
            }
        }
    }

    fn wrote(&mut self, count: usize, tools: &mut Tools) {
        self.delivered += count as u64;
        match &mut self.held {
            Held::Nothing => {}
            Held::Bytes { bytes, written } => {
                *written += count;
                if *written >= bytes.len() {
                    self.held = Held::Nothing;
                    self.reserved = None;
                }
            }
            Held::Piped { length, .. } => {
                *length = length.saturating_sub(count);
                if *length == 0
                    && let Held::Piped { pipe, .. } = std::mem::take(&mut self.held)
                {
                    tools.pipes.put_back(pipe);
                    self.reserved = None;
                }
            }
        }
    }

    /// Reads once; nothing is held. `false` if the destination has to be waited for.
    fn read(&mut self, ends: Ends<'_>, tools: &mut Tools) -> Result<bool, Broken> {
        if !ends.portal.may_hold() {
            return self.pass_on(ends, tools);
        }
        let pipe = if self.is_bulk { tools.pipes.take() } else { None };
        match pipe {
            Some(pipe) => self.splice_in(ends.source, pipe, tools)?,
            None => self.copy(ends, tools)?,
        }
        Ok(true)
    }

    /// Passes on what the destination takes at once, and only then reads it, so that nothing is ever held. `false` if the
    /// destination has to be waited for.
    fn pass_on(&mut self, ends: Ends<'_>, tools: &mut Tools) -> Result<bool, Broken> {
        ends.portal.read_unbuffered();
        if !self.is_writable {
            return Ok(false);
        }
        let Some(length) = self.receive(ends.source, tools, RecvFlags::PEEK)? else { return Ok(true) };
        let bytes = tools.buffer.get(..length).unwrap_or_default();
        let sent = match send(ends.destination, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => sent,
            Err(Errno::AGAIN) => 0,
            Err(Errno::INTR) => return Ok(true),
            Err(error) => return Err(Broken::Destination(error)),
        };
        self.delivered += sent as u64;
        self.is_writable = sent == length;
        // What is left was seen, and is still there.
        self.is_readable |= sent < length;
        let mut taken = 0;
        while taken < sent {
            let rest = tools.buffer.get_mut(taken..sent).unwrap_or_default();
            match recv(ends.source, rest, RecvFlags::empty()) {
                Ok((_, count @ 1..)) => taken += count,
                Err(Errno::INTR) => {}
                // These bytes were seen: only a reset takes them away.
                Ok((_, 0)) | Err(_) => return Err(Broken::Source(Errno::CONNRESET)),
            }
        }
        Ok(self.is_writable)
    }

    fn splice_in(&mut self, source: BorrowedFd<'_>, pipe: Pipe, tools: &mut Tools) -> Result<(), Broken> {
        let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
        match splice(source, None, &pipe.input, None, SPLICE, flags) {
            Ok(0) => self.source_ended = true,
            Ok(length) => {
                self.is_bulk = length >= BUFFER;
                self.held = Held::Piped { pipe, length };
                return Ok(());
            }
            Err(Errno::AGAIN) => self.is_readable = false,
            Err(Errno::INTR) => {}
            Err(error) => return Err(Broken::Source(error)),
        }
        tools.pipes.put_back(pipe);
        Ok(())
    }

    /// Reads into the buffer. `None` if there is nothing now.
    fn receive(
        &mut self,
        source: BorrowedFd<'_>,
        tools: &mut Tools,
        flags: RecvFlags,
    ) -> Result<Option<usize>, Broken> {
        match recv(source, &mut tools.buffer[..], flags) {
            Ok((_, 0)) => self.source_ended = true,
            Ok((_, length)) => {
                self.is_bulk = length == BUFFER;
                // There was no more, unless the peer has ended meanwhile; then there may be an end to be read.
                self.is_readable = self.is_bulk || self.hangup;
                return Ok(Some(length));
            }
            Err(Errno::AGAIN) => self.is_readable = false,
            Err(Errno::INTR) => {}
            Err(error) => return Err(Broken::Source(error)),
        }
        Ok(None)
    }

    fn copy(&mut self, ends: Ends<'_>, tools: &mut Tools) -> Result<(), Broken> {
        let Some(length) = self.receive(ends.source, tools, RecvFlags::empty())? else { return Ok(()) };
        let bytes = tools.buffer.get(..length).unwrap_or_default();
        let written = if self.is_writable { self.write_through(ends.destination, bytes)? } else { 0 };
        if written < length {
            self.held = Held::Bytes { bytes: bytes[written..].into(), written: 0 };
        }
        Ok(())
    }

    /// Writes straight from the buffer. After an error the bytes are held, since another destination may get them.
    fn write_through(&mut self, destination: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Broken> {
        match send(destination, bytes, SendFlags::NOSIGNAL) {
            Ok(count) => {
                self.delivered += count as u64;
                self.is_writable = count == bytes.len();
                Ok(count)
            }
            Err(Errno::AGAIN) => {
                self.is_writable = false;
                Ok(0)
            }
            Err(Errno::INTR) => Ok(0),
            Err(error) => {
                self.held = Held::Bytes { bytes: bytes.into(), written: 0 };
                Err(Broken::Destination(error))
            }
        }
    }
}
