//! Connecting accepted clients to endpoints.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

use super::TcpSide;
use super::connection::Stage;
use crate::pool::{PickError, Request};
use crate::relay::{is_about_host, set_stream_options};
use crate::worker::Context;
use crate::worker::poller::Token;
use crate::worker::timers::Alarm;

/// How long an accepted client waits for the next chance of a descriptor.
const DESCRIPTOR_PAUSE: Duration = Duration::from_millis(50);

/// What became of the beginning of a dial.
enum Begun {
    /// The kernel will report.
    Pending,
    Connected,
    Failed,
    /// This host lacks a port towards the endpoint, or memory. The endpoint is not to blame.
    NotPossible,
    NoDescriptor(io::Error),
}

impl TcpSide {
    /// Tries endpoints until a dial is under way, or ends the connection.
    pub(super) fn dial(&mut self, index: usize, context: &mut Context) {
        loop {
            let Some((endpoint, timeout)) = self.next_endpoint(index, context) else {
                return self.give_up(index);
            };
            match self.begin_dial(index, endpoint, context) {
                Begun::Pending => {
                    let Some(connection) = self.connections.get_mut(index) else { return };
                    connection.stage = Stage::Dialing;
                    connection.dial_deadline = Some(context.now + timeout);
                    let alarm = Alarm::Dial { connection: index, serial: connection.serial };
                    return context.timers.set(context.now + timeout, alarm);
                }
                Begun::Connected => return self.connected(index, context),
                Begun::Failed => self.count_dial_failure(index, endpoint, context),
                Begun::NotPossible => {
                    if let Some(connection) = self.connections.get(index) {
                        connection.portal.count(|counters| &counters.dial_failures, 1);
                    }
                }
                Begun::NoDescriptor(error) => return self.await_descriptor(index, &error, context),
            }
        }
    }

    /// The next endpoint to try and how long that may take. `None` if the client cannot be served.
    fn next_endpoint(&mut self, index: usize, context: &Context) -> Option<(SocketAddr, Duration)> {
        let connection = self.connections.get_mut(index)?;
        let dial = connection.dial.as_deref_mut()?;
        let timeout = dial.next_timeout()?;
        let request = Request { client: connection.client_ip, attempt: dial.attempt(), tried: dial.tried() };
        match connection.portal.pool.pick_at(context.now, request) {
            Ok(endpoint) => Some((endpoint, timeout)),
            Err(PickError::NoEndpoints) => None,
            Err(PickError::NotAdmitted) => {
                connection.portal.count(|counters| &counters.not_admitted, 1);
                connection.is_admitted = false;
                None
            }
        }
    }

    fn begin_dial(&mut self, index: usize, endpoint: SocketAddr, context: &mut Context) -> Begun {
        let socket = match self.stream_socket(endpoint) {
            Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
                return Begun::NoDescriptor(error.into());
            }
            result => result,
        };
        let Some(connection) = self.connections.get_mut(index) else { return Begun::NotPossible };
        if let Some(dial) = connection.dial.as_deref_mut() {
            dial.begun(endpoint);
        }
        // A kernel without the endpoint's family, for example. It was an attempt, so there is an end to them.
        let Ok(socket) = socket else { return Begun::NotPossible };
        connection.endpoint_address = Some(endpoint);
        connection.dials = connection.dials.wrapping_add(1);
        let begun = match set_stream_options(&socket).and_then(|()| Ok(connect(&socket, &endpoint)?)) {
            Ok(()) => Begun::Connected,
            Err(error) if error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error()) => Begun::Pending,
            Err(error) if is_about_host(&error) => return Begun::NotPossible,
            Err(_) => return Begun::Failed,
        };
        if context.poller.add_stream(&socket, Token::Endpoint(index, connection.dials)).is_err() {
            return Begun::NotPossible;
        }
        connection.endpoint = Some(socket);
        begun
    }

    /// Gives up the spare descriptor if there is no other.
    fn stream_socket(&mut self, endpoint: SocketAddr) -> Result<OwnedFd, Errno> {
        let family = if endpoint.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        match socket_with(family, SocketType::STREAM, flags, None) {
            Err(Errno::MFILE | Errno::NFILE) if self.spare.take().is_some() => {
                socket_with(family, SocketType::STREAM, flags, None)
            }
            result => result,
        }
    }

    /// The endpoint has accepted.
    pub(super) fn connected(&mut self, index: usize, context: &mut Context) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.stage = Stage::Relaying;
        connection.dial_deadline = None;
        connection.last_active = context.now;
        if !connection.client_is_watched
            && let Some(client) = &connection.client
        {
            if context.poller.add_stream(client, Token::Client(index)).is_err() {
                connection.reset_both();
                return self.end(index);
            }
            connection.client_is_watched = true;
        }
        connection.established();
        self.advance(index, context);
    }

    /// The dial under way has failed.
    pub(super) fn dial_failed(&mut self, index: usize, context: &mut Context) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.endpoint = None;
        if let Some(endpoint) = connection.endpoint_address.take() {
            self.count_dial_failure(index, endpoint, context);
        }
        self.dial(index, context);
    }

    pub(crate) fn dial_timed_out(&mut self, index: usize, serial: u64, context: &mut Context) {
        let now = context.now;
        let is_due = |connection: &mut super::Connection| {
            connection.stage == Stage::Dialing
                && connection.dial_deadline.is_some_and(|deadline| deadline <= now)
        };
        if self.current(index, serial).is_some_and(is_due) {
            self.dial_failed(index, context);
        }
    }

    fn count_dial_failure(&mut self, index: usize, endpoint: SocketAddr, context: &Context) {
        if let Some(connection) = self.connections.get(index) {
            connection.portal.count(|counters| &counters.dial_failures, 1);
            connection.portal.blame(endpoint, context.now);
        }
    }

    /// Waits for a descriptor, which does not count as an attempt.
    fn await_descriptor(&mut self, index: usize, error: &io::Error, context: &mut Context) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.stage = Stage::Waiting;
        context.shared.descriptors_exhausted(connection.portal.address, error);
        let alarm = Alarm::Descriptor { connection: index, serial: connection.serial };
        context.timers.set(context.now + DESCRIPTOR_PAUSE, alarm);
    }

    pub(crate) fn dial_again(&mut self, index: usize, serial: u64, context: &mut Context) {
        if self.current(index, serial).is_some_and(|connection| connection.stage == Stage::Waiting) {
            self.dial(index, context);
        }
    }

    /// No endpoint can be reached, or none is to be: the client is reset.
    fn give_up(&mut self, index: usize) {
        if let Some(connection) = self.connections.get_mut(index) {
            if connection.is_admitted {
                connection.portal.count(|counters| &counters.unserved, 1);
            }
            connection.reset_both();
        }
        self.end(index);
    }
}
