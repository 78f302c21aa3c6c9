//! Listening sockets: accepting, and pausing when the process has no descriptors left.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags, acceptfrom_with, sockopt};

use super::connection::Connection;
use super::{TcpSide, spare_descriptor};
use crate::Note;
use crate::worker::Context;
use crate::worker::limits::Opened;
use crate::worker::poller::Token;
use crate::worker::shared::PortalState;
use crate::worker::timers::Alarm;

/// Clients accepted in one turn, so that a flood does not starve open connections.
const MAX_ACCEPTS_PER_TURN: usize = 32;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// One listening socket, as one of the workers that share it sees it.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) portal: Arc<PortalState>,
    /// `None` once it is closed.
    socket: Option<Arc<OwnedFd>>,
    /// Whether clients are left in its queue, for another process or for later.
    is_suspended: bool,
    serial: u64,
    /// How long the next pause will be.
    pause: Duration,
}

impl Listener {
    /// Its socket, if clients are to be accepted there.
    fn accepting(&self) -> Option<&Arc<OwnedFd>> {
        self.socket.as_ref().filter(|_| !self.is_suspended)
    }
}

impl TcpSide {
    /// Accepts clients of this socket from now on.
    pub(crate) fn serve(&mut self, portal: Arc<PortalState>, socket: Arc<OwnedFd>, context: &mut Context) {
        let entry = self.listeners.vacant_entry();
        let token = Token::Listener(entry.key());
        let address = portal.address;
        if let Err(error) = context.poller.add_listener(&*socket, token) {
            context.shared.note(Note::SocketFailed { portal: address, error: error.to_string() });
            return;
        }
        let serial = context.serial();
        entry.insert(Listener {
            portal,
            socket: Some(socket),
            is_suspended: false,
            serial,
            pause: FIRST_PAUSE,
        });
    }

    /// Accepts the clients that wait.
    pub(crate) fn accept(&mut self, index: usize, context: &mut Context) {
        for _ in 0..MAX_ACCEPTS_PER_TURN {
            let Some(listener) = self.listeners.get_mut(index) else { return };
            let Some(socket) = listener.accepting() else { return };
            if !context.shared.has_descriptors_for_stream() {
                return self.pause(index, &Errno::MFILE.into(), context);
            }
            if self.spare.is_none() {
                match spare_descriptor() {
                    Ok(spare) => self.spare = Some(spare),
                    Err(error) => return self.pause(index, &error, context),
                }
            }
            match acceptfrom_with(&**socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok((client, address)) => {
                    listener.pause = FIRST_PAUSE;
                    let portal = Arc::clone(&listener.portal);
                    self.accepted(portal, client, address, context);
                }
                Err(Errno::AGAIN) => return,
                Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
                    return self.pause(index, &error.into(), context);
                }
                Err(error @ (Errno::BADF | Errno::INVAL | Errno::NOTSOCK | Errno::OPNOTSUPP)) => {
                    let portal = listener.portal.address;
                    context.shared.note(Note::SocketFailed { portal, error: error.to_string() });
                    return self.close_listener(index, context);
                }
                // The client has gone already, or its network had an error, which says nothing about the next one.
                Err(_) => {}
            }
        }
    }

    pub(super) fn accepted(
        &mut self,
        portal: Arc<PortalState>,
        client: OwnedFd,
        address: Option<SocketAddrAny>,
        context: &mut Context,
    ) {
        portal.count(|counters| &counters.accepted, 1);
        let Some(address) = address.and_then(|address| std::net::SocketAddr::try_from(address).ok()) else {
            return reset(client);
        };
        if let Err(limit) = portal.open(Opened::Connection) {
            portal.refused(Opened::Connection, limit);
            return reset(client);
        }
        let serial = context.serial();
        let connection = Connection::new(portal, client, address.ip(), serial);
        let index = self.connections.insert(connection);
        self.dial(index, context);
    }

    /// Leaves clients in the kernel's queue for a while.
    fn pause(&mut self, index: usize, error: &io::Error, context: &mut Context) {
        let Some(listener) = self.listeners.get_mut(index) else { return };
        let Some(socket) = listener.accepting() else { return };
        context.poller.remove(&**socket);
        listener.portal.count(|counters| &counters.accept_pauses, 1);
        context.shared.descriptors_exhausted(listener.portal.address, error);
        let alarm = Alarm::Accept { listener: index, serial: listener.serial };
        context.timers.set(context.now + listener.pause, alarm);
        listener.pause = (listener.pause * 2).min(LONGEST_PAUSE);
    }

    /// A pause is over.
    pub(crate) fn resume_accepting(&mut self, index: usize, serial: u64, context: &mut Context) {
        let current = self.listeners.get(index).filter(|listener| listener.serial == serial);
        let Some(socket) = current.and_then(Listener::accepting) else { return };
        if let Err(error) = context.poller.add_listener(&**socket, Token::Listener(index)) {
            return self.pause(index, &error, context);
        }
        self.accept(index, context);
    }

    /// Closes the listening socket of a portal. Its connections go on.
    pub(crate) fn close_portal(&mut self, portal: u64, context: &mut Context) {
        let of_portal = |(_, listener): &(usize, &Listener)| listener.portal.id == portal;
        let found: Vec<usize> = self.listeners.iter().filter(of_portal).map(|(index, _)| index).collect();
        for index in found {
            self.close_listener(index, context);
        }
    }

    /// Leaves clients in the queues of all sockets.
    pub(crate) fn stop_accepting(&mut self, context: &mut Context) {
        for (_, listener) in &mut self.listeners {
            if let Some(socket) = listener.accepting() {
                context.poller.remove(&**socket);
                listener.is_suspended = true;
            }
        }
    }

    /// Accepts clients of a portal again.
    pub(crate) fn accept_again(&mut self, portal: u64, context: &mut Context) {
        let is_meant = |listener: &Listener| listener.portal.id == portal && listener.is_suspended;
        let found = self.listeners.iter().filter(|(_, listener)| is_meant(listener));
        let found: Vec<usize> = found.map(|(index, _)| index).collect();
        for index in found {
            // An alarm of before is about nothing any more.
            let serial = context.serial();
            if let Some(listener) = self.listeners.get_mut(index) {
                listener.is_suspended = false;
                listener.serial = serial;
            }
            self.resume_accepting(index, serial, context);
        }
    }

    fn close_listener(&mut self, index: usize, context: &mut Context) {
        if let Some(socket) = self.listeners.get_mut(index).and_then(|listener| listener.socket.take()) {
            context.poller.remove(&*socket);
            self.closed_listeners.push(index);
        }
    }
}

/// Closes a socket so that its peer sees a reset.
fn reset(socket: OwnedFd) {
    linger_zero(&socket);
    drop(socket);
}

/// Makes the next close of a socket a reset.
pub(super) fn linger_zero(socket: impl AsFd) {
    // A socket that cannot be reset is closed, which the peer notices as well.
    let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
}
