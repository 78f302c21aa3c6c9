//! TCP connections of one worker: accepted, dialled, relayed, ended.
//!
//! ```text
//!   accept ──► Dialing ──► Relaying ──► Ended             Dialing again if the endpoint fails before the first byte,
//!                 ▲ └────────┘                            up to four times; then the client is reset
//! ```
//!
//! Accepting never waits for a dial. [`dial`] has the schedule, [`direction`] moves bytes, [`connection`] decides what an end or an
//! error on one side means for the other. This file has the tables and calls the kernel.

mod accepting;
mod connection;
mod dial;
mod dialing;
mod direction;
mod pipes;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};
use slab::Slab;

use crate::worker::Context;
use crate::worker::poller::Readiness;
use crate::worker::timers::Alarm;
use accepting::Listener;
use connection::{Connection, Next, Stage};
use direction::Tools;

/// The TCP half of a worker.
pub(crate) struct TcpSide {
    listeners: Slab<Listener>,
    connections: Slab<Connection>,
    tools: Tools,
    /// Connections that have more to do than one turn permits.
    unfinished: Vec<usize>,
    ended: Vec<usize>,
    closed_listeners: Vec<usize>,
    /// A descriptor to be given up when there are no others, so that a client that was accepted can be connected.
    spare: Option<OwnedFd>,
}

impl TcpSide {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            listeners: Slab::new(),
            connections: Slab::new(),
            tools: Tools::new(),
            unfinished: Vec::new(),
            ended: Vec::new(),
            closed_listeners: Vec::new(),
            spare: Some(spare_descriptor()?),
        })
    }

    /// Something happened at the client's socket.
    pub(crate) fn client_ready(&mut self, index: usize, readiness: Readiness, context: &mut Context) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.inbound.source_ready(readiness);
        connection.outbound.destination_ready(readiness);
        if connection.stage == Stage::Relaying {
            self.advance(index, context);
        }
    }

    /// Something happened at the endpoint's socket.
    pub(crate) fn endpoint_ready(&mut self, index: usize, readiness: Readiness, context: &mut Context) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        match connection.stage {
            Stage::Dialing if readiness.failed => self.dial_failed(index, context),
            Stage::Dialing if readiness.writable => {
                connection.outbound.source_ready(Readiness { writable: false, ..readiness });
                self.connected(index, context);
            }
            Stage::Relaying => {
                connection.outbound.source_ready(readiness);
                connection.inbound.destination_ready(readiness);
                self.advance(index, context);
            }
            Stage::Dialing | Stage::Waiting | Stage::Ended => {}
        }
    }

    /// Moves what can be moved, and acts on what that showed.
    fn advance(&mut self, index: usize, context: &mut Context) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let next = connection.advance(&mut self.tools, context.now);
        if connection.has_become_half_open() {
            let at = context.now + context.shared.options.half_open_timeout;
            context.timers.set(at, Alarm::HalfOpen { connection: index, serial: connection.serial });
        }
        match next {
            Next::Wait => {}
            Next::Continue => self.unfinished.push(index),
            Next::DialAgain => self.dial(index, context),
            Next::End => self.end(index),
        }
    }

    /// Gives connections that used up their turn another one.
    pub(crate) fn resume_unfinished(&mut self, context: &mut Context) {
        for index in std::mem::take(&mut self.unfinished) {
            if self.connections.get(index).is_some_and(|connection| connection.stage == Stage::Relaying) {
                self.advance(index, context);
            }
        }
    }

    pub(crate) fn has_unfinished(&self) -> bool {
        !self.unfinished.is_empty()
    }

    /// Ends a half-open connection that was idle for too long.
    pub(crate) fn check_half_open(&mut self, index: usize, serial: u64, context: &mut Context) {
        let timeout = context.shared.options.half_open_timeout;
        let Some(connection) = self.current(index, serial) else { return };
        let deadline: Instant = connection.last_active + timeout;
        if deadline <= context.now {
            connection.reset_both();
            self.end(index);
        } else {
            context.timers.set(deadline, Alarm::HalfOpen { connection: index, serial });
        }
    }

    /// The connection with this index, unless it has ended and the index may belong to another one.
    fn current(&mut self, index: usize, serial: u64) -> Option<&mut Connection> {
        self.connections
            .get_mut(index)
            .filter(|connection| connection.serial == serial && connection.stage != Stage::Ended)
    }

    /// Closes both sockets. The index stays taken until no event can be about it.
    fn end(&mut self, index: usize) {
        if let Some(connection) = self.connections.get_mut(index)
            && connection.stage != Stage::Ended
        {
            connection.close();
            self.ended.push(index);
        }
    }

    pub(crate) fn free_ended(&mut self) {
        for index in self.ended.drain(..) {
            self.connections.try_remove(index);
        }
        for index in self.closed_listeners.drain(..) {
            self.listeners.try_remove(index);
        }
        if self.connections.is_empty() {
            self.connections.shrink_to_fit();
        }
    }
}

/// The cheapest descriptor there is.
fn spare_descriptor() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC)?)
}
