//! UDP sockets of one worker, and an association for each client.
//!
//! ```text
//!   client ──► portal's socket ──► association ──► endpoint        one connected socket for each association, so that
//!          ◄──                 ◄── its own socket ◄──              replies and ICMP errors are known to belong to it
//! ```
//!
//! An association ends when it is idle, when its endpoint vanishes or reports an error, or when a newer one needs its place.
//! [`portal`] has a socket's associations in the order of their last use. This file receives and sends.

mod association;
mod portal;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use ferrule_kernel::datagrams::{self, DatagramBatch, MAX_DATAGRAMS, Outgoing, Received, Sent};
use rustix::io::Errno;
use slab::Slab;

use crate::Note;
use crate::worker::Context;
use crate::worker::poller::Token;
use crate::worker::shared::PortalState;
use crate::worker::timers::Alarm;
use association::Association;
use portal::{Flow, UdpPortal};

/// Batches read from one socket in one turn.
const MAX_BATCHES_PER_TURN: usize = 4;

/// The UDP half of a worker.
#[derive(Default)]
pub(crate) struct UdpSide {
    portals: Slab<UdpPortal>,
    associations: Slab<Association>,
    /// Made when the first socket is served.
    batch: Option<Box<DatagramBatch>>,
    ended: Vec<usize>,
    closed_portals: Vec<usize>,
}

impl UdpSide {
    /// Receives datagrams of this socket from now on.
    pub(crate) fn serve(&mut self, state: Arc<PortalState>, socket: Arc<OwnedFd>, context: &mut Context) {
        let entry = self.portals.vacant_entry();
        if let Err(error) = context.poller.add_readable(&*socket, Token::Datagrams(entry.key())) {
            return context
                .shared
                .note(Note::SocketFailed { portal: state.address, error: error.to_string() });
        }
        entry.insert(UdpPortal::new(state, socket, context.serial()));
        self.batch.get_or_insert_default();
    }

    /// Clients have sent datagrams.
    pub(crate) fn clients_ready(&mut self, index: usize, context: &mut Context) {
        let Some(mut batch) = self.batch.take() else { return };
        for _ in 0..MAX_BATCHES_PER_TURN {
            let Some(portal) = self.portals.get_mut(index).filter(|portal| !portal.is_suspended) else {
                break;
            };
            let Some(socket) = &portal.socket else { break };
            let asked = portal.batch_size.get();
            match batch.receive(&**socket, asked) {
                Ok(received) => {
                    portal.batch_size.adapt(received);
                    self.forward(index, &batch, context);
                    if received < asked {
                        break;
                    }
                }
                // An ICMP error about a reply, or nothing left; the next call reports whether there is more.
                Err(_) => break,
            }
        }
        self.batch = Some(batch);
    }

    /// Sends a batch to the endpoints of its clients. What one client sent goes in one call.
    fn forward(&mut self, index: usize, batch: &DatagramBatch, context: &mut Context) {
        let mut runs: Vec<(usize, Vec<Outgoing<'_>>)> = Vec::new();
        for datagram in batch.datagrams() {
            let Some(association) = self.association_for(index, &datagram, context) else { continue };
            let piece =
                Outgoing { payload: datagram.payload, segment: datagram.segment, peer: None, local: None };
            // Clients of one batch are few, and the last one is the most likely.
            match runs.iter_mut().rev().find(|(of, _)| *of == association) {
                Some((_, run)) => run.push(piece),
                None => runs.push((association, vec![piece])),
            }
        }
        for (association, run) in &runs {
            self.send_to_endpoint(*association, run, context);
        }
    }

    /// The client's association, made now if there is none. `None` if the datagram is dropped.
    fn association_for(
        &mut self,
        index: usize,
        datagram: &Received<'_>,
        context: &mut Context,
    ) -> Option<usize> {
        let flow = Flow { client: datagram.peer?, local: datagram.local };
        let portal = self.portals.get(index)?;
        if let Some(known) = portal.association_of(&flow) {
            return Some(known);
        }
        let state = Arc::clone(&portal.state);
        let created = self.associate(index, flow, context);
        if created.is_none() {
            count_dropped(&state, 1);
        }
        created
    }

    /// Sends a run of datagrams on an association's socket.
    fn send_to_endpoint(&mut self, index: usize, run: &[Outgoing<'_>], context: &mut Context) {
        let Some((association, portal)) = self.with_portal(index) else { return };
        let Some(socket) = &association.socket else { return };
        let sent = match run {
            [only] if only.count() == 1 => {
                rustix::net::send(socket, only.payload, rustix::net::SendFlags::NOSIGNAL)
                    .map(|bytes| Sent { datagrams: 1, bytes })
                    .map_err(std::io::Error::from)
            }
            several => datagrams::send(socket, several, &mut association.to_endpoint),
        };
        let total: usize = run.iter().map(Outgoing::count).sum();
        association.last_active = context.now;
        let portal_index = association.portal;
        let state = Arc::clone(&portal.state);
        match sent {
            Ok(sent) => {
                state.count(|counters| &counters.bytes_in, sent.bytes as u64);
                count_dropped(&state, total.saturating_sub(sent.datagrams));
            }
            Err(error) => {
                count_dropped(&state, total);
                if is_about_endpoint(&error) {
                    return self.endpoint_failed(index, context);
                }
            }
        }
        self.touch(portal_index, index);
    }

    /// An endpoint has replied, or an ICMP error has come in.
    pub(crate) fn endpoint_ready(&mut self, index: usize, context: &mut Context) {
        let Some(mut batch) = self.batch.take() else { return };
        for _ in 0..MAX_BATCHES_PER_TURN {
            let Some(association) = self.associations.get_mut(index) else { break };
            let Some(socket) = &association.socket else { break };
            let asked = association.batch_size.get();
            match batch.receive(socket, asked) {
                Ok(received) => {
                    association.batch_size.adapt(received);
                    self.reply(index, &batch, context);
                    if received < asked {
                        break;
                    }
                }
                Err(error) if is_about_endpoint(&error) => {
                    self.endpoint_failed(index, context);
                    break;
                }
                // Nothing left; or a datagram was too long for the path, which is its sender's doing.
                Err(_) => break,
            }
        }
        self.batch = Some(batch);
    }

    /// Sends a batch of replies to the client, from the address it sent to.
    fn reply(&mut self, index: usize, batch: &DatagramBatch, context: &mut Context) {
        let Some((association, portal)) = self.with_portal(index) else { return };
        let Some(socket) = &portal.socket else { return };
        let Flow { client, local } = association.flow;
        association.last_active = context.now;
        let mut replies = [Outgoing { payload: &[], segment: 0, peer: Some(client), local }; MAX_DATAGRAMS];
        let mut count = 0;
        for (place, datagram) in replies.iter_mut().zip(batch.datagrams()) {
            place.payload = datagram.payload;
            place.segment = datagram.segment;
            count += 1;
        }
        let replies = &replies[..count];
        let total: usize = replies.iter().map(Outgoing::count).sum();
        let sent = datagrams::send(&**socket, replies, &mut association.to_client).unwrap_or_default();
        portal.state.count(|counters| &counters.bytes_out, sent.bytes as u64);
        count_dropped(&portal.state, total.saturating_sub(sent.datagrams));
        if !std::mem::replace(&mut association.has_replied, true) {
            portal.state.pool.report_success(association.endpoint);
        }
        let portal = association.portal;
        self.touch(portal, index);
    }

    /// The endpoint does not take datagrams; the client's next one goes to another.
    fn endpoint_failed(&mut self, index: usize, context: &Context) {
        if let Some((association, portal)) = self.with_portal(index) {
            portal.state.count(|counters| &counters.dial_failures, 1);
            portal.state.blame(association.endpoint, context.now);
            self.end(index);
        }
    }

    /// Ends associations that were idle for too long.
    pub(crate) fn expire(&mut self, index: usize, serial: u64, context: &mut Context) {
        let timeout = context.shared.udp_idle_timeout();
        let Some(portal) = self.portals.get_mut(index).filter(|portal| portal.serial == serial) else {
            return;
        };
        portal.expiry_is_set = false;
        while let Some(oldest) = self.portals.get(index).and_then(UdpPortal::oldest) {
            let Some(association) = self.associations.get(oldest) else { break };
            let deadline = association.last_active + timeout;
            if deadline > context.now {
                if let Some(portal) = self.portals.get_mut(index) {
                    portal.expiry_is_set = true;
                }
                return context.timers.set(deadline, Alarm::Expiry { portal: index, serial });
            }
            self.end(oldest);
        }
    }

    /// The timeout has changed, so other associations may have expired.
    pub(crate) fn expire_all(&mut self, context: &mut Context) {
        let all: Vec<(usize, u64)> =
            self.portals.iter().map(|(index, portal)| (index, portal.serial)).collect();
        for (index, serial) in all {
            self.expire(index, serial, context);
        }
    }

    /// Ends associations to these endpoints.
    pub(crate) fn end_associations(&mut self, portal: u64, endpoints: &[SocketAddr]) {
        let is_meant = |association: &Association| {
            endpoints.contains(&association.endpoint)
                && self.portals.get(association.portal).is_some_and(|known| known.state.id == portal)
        };
        let found = self.associations.iter().filter(|(_, association)| is_meant(association));
        let found: Vec<usize> = found.map(|(index, _)| index).collect();
        for index in found {
            self.end(index);
        }
    }

    /// Closes a portal's socket and ends its associations.
    pub(crate) fn close_portal(&mut self, id: u64, context: &mut Context) {
        let of_portal = |(_, portal): &(usize, &UdpPortal)| portal.state.id == id;
        let Some(index) = self.portals.iter().find(of_portal).map(|(index, _)| index) else { return };
        while let Some(oldest) = self.portals.get(index).and_then(UdpPortal::oldest) {
            self.end(oldest);
        }
        if let Some(socket) = self.portals.get_mut(index).and_then(|portal| portal.socket.take()) {
            context.poller.remove(&*socket);
            self.closed_portals.push(index);
        }
    }

    /// Receives nothing from clients any more. Replies to them still go out.
    pub(crate) fn stop_accepting(&mut self, context: &mut Context) {
        for (_, portal) in &mut self.portals {
            if let Some(socket) = &portal.socket {
                context.poller.remove(&**socket);
                portal.is_suspended = true;
            }
        }
    }

    /// Receives from clients of a portal again.
    pub(crate) fn accept_again(&mut self, id: u64, context: &mut Context) {
        let is_meant = |portal: &UdpPortal| portal.state.id == id && portal.is_suspended;
        let Some((index, portal)) = self.portals.iter_mut().find(|(_, portal)| is_meant(portal)) else {
            return;
        };
        let Some(socket) = &portal.socket else { return };
        match context.poller.add_readable(&**socket, Token::Datagrams(index)) {
            Ok(()) => portal.is_suspended = false,
            Err(error) => {
                let portal = portal.state.address;
                context.shared.note(Note::SocketFailed { portal, error: error.to_string() });
            }
        }
    }

    pub(crate) fn free_ended(&mut self) {
        for index in self.ended.drain(..) {
            self.associations.try_remove(index);
        }
        for index in self.closed_portals.drain(..) {
            self.portals.try_remove(index);
        }
    }

    fn with_portal(&mut self, association: usize) -> Option<(&mut Association, &mut UdpPortal)> {
        let association = self.associations.get_mut(association)?;
        let portal = self.portals.get_mut(association.portal)?;
        Some((association, portal))
    }
}

fn count_dropped(state: &PortalState, datagrams: usize) {
    if datagrams > 0 {
        state.count(|counters| &counters.dropped_datagrams, datagrams as u64);
    }
}

/// Errors that an ICMP message about an earlier datagram leaves, as opposed to a full queue or a datagram that is too long.
fn is_about_endpoint(error: &std::io::Error) -> bool {
    let kinds = [Errno::CONNREFUSED, Errno::HOSTUNREACH, Errno::NETUNREACH, Errno::HOSTDOWN, Errno::NETDOWN];
    kinds.iter().any(|kind| error.raw_os_error() == Some(kind.raw_os_error()))
}
