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
use std::sync::Arc;
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};
use slab::Slab;

use crate::worker::Context;
use crate::worker::poller::Readiness;
use crate::worker::shared::Shared;
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
    /// Whether there is a timer for half-open connections.
    half_open_is_timed: bool,
    ended: Vec<usize>,
    closed_listeners: Vec<usize>,
    /// A descriptor to be given up when there are no others, so that a client that was accepted can be connected.
    spare: Option<OwnedFd>,
}

impl TcpSide {
    pub(crate) fn new(relay: Arc<Shared>) -> io::Result<Self> {
        Ok(Self {
            listeners: Slab::new(),
            connections: Slab::new(),
            tools: Tools::new(relay),
            unfinished: Vec::new(),
            half_open_is_timed: false,
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

    /// Something happened at the endpoint's socket. An event about an earlier dial says nothing about this one.
    pub(crate) fn endpoint_ready(
        &mut self,
        (index, dial): (usize, u8),
        readiness: Readiness,
        context: &mut Context,
    ) {
        let connection = self.connections.get_mut(index).filter(|connection| connection.dials == dial);
        let Some(connection) = connection else { return };
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
        if connection.is_half_open() && !self.half_open_is_timed {
            self.time_half_open(context);
        }
        match next {
            Next::Wait => {}
            Next::Continue => self.continue_later(index),
            Next::DialAgain => self.dial(index, context),
            Next::End => self.end(index),
        }
    }

    /// Gives connections that used up their turn another one.
    pub(crate) fn resume_unfinished(&mut self, context: &mut Context) {
        for index in std::mem::take(&mut self.unfinished) {
            let Some(connection) = self.connections.get_mut(index) else { continue };
            connection.is_unfinished = false;
            if connection.stage == Stage::Relaying {
                self.advance(index, context);
            }
        }
    }

    /// At most one turn at a time, however many events there are about it.
    fn continue_later(&mut self, index: usize) {
        if let Some(connection) = self.connections.get_mut(index)
            && !std::mem::replace(&mut connection.is_unfinished, true)
        {
            self.unfinished.push(index);
        }
    }

    pub(crate) fn has_unfinished(&self) -> bool {
        !self.unfinished.is_empty()
    }

    fn time_half_open(&mut self, context: &mut Context) {
        self.half_open_is_timed = true;
        let interval = context.shared.options.half_open_timeout / 4;
        context.timers.set(context.now + interval, Alarm::HalfOpen);
    }

    /// Ends half-open connections that were idle for too long.
    pub(crate) fn end_idle_half_open(&mut self, context: &mut Context) {
        let timeout = context.shared.options.half_open_timeout;
        let is_half_open =
            |connection: &Connection| connection.stage == Stage::Relaying && connection.is_half_open();
        let half_open = self.connections.iter().filter(|(_, connection)| is_half_open(connection));
        let half_open: Vec<(usize, Instant)> =
            half_open.map(|(index, connection)| (index, connection.last_active + timeout)).collect();
        self.half_open_is_timed = false;
        for (index, deadline) in half_open {
            if deadline > context.now {
                if !self.half_open_is_timed {
                    self.time_half_open(context);
                }
            } else {
                if let Some(connection) = self.connections.get_mut(index) {
                    connection.reset_both();
                }
                self.end(index);
            }
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
