//! Making and ending associations.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use ferrule_kernel::datagrams::{self, Merging};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

use super::UdpSide;
use super::portal::{BatchSize, Flow, UdpPortal};
use crate::pool::{Attempt, PickError, Request};
use crate::relay::is_about_host;
use crate::worker::Context;
use crate::worker::limits::Opened;
use crate::worker::poller::Token;
use crate::worker::shared::PortalState;
use crate::worker::timers::Alarm;

/// Endpoints tried for one client.
const MAX_ATTEMPTS: usize = 4;

/// A client's datagrams go to one endpoint for as long as this lives.
#[derive(Debug)]
pub(super) struct Association {
    /// Index of the portal's socket.
    pub(super) portal: usize,
    pub(super) flow: Flow,
    pub(super) endpoint: SocketAddr,
    /// `None` once it has ended.
    pub(super) socket: Option<OwnedFd>,
    pub(super) last_active: Instant,
    pub(super) has_replied: bool,
    /// Whether several datagrams go to the endpoint, and to the client, as one message.
    pub(super) to_endpoint: Merging,
    pub(super) to_client: Merging,
    pub(super) batch_size: BatchSize,
    /// Neighbours in the portal's list.
    pub(super) older: Option<usize>,
    pub(super) newer: Option<usize>,
}

impl UdpSide {
    /// Makes an association for a client. `None` if it cannot be served.
    pub(super) fn associate(&mut self, portal: usize, flow: Flow, context: &mut Context) -> Option<usize> {
        let state = Arc::clone(&self.portals.get(portal)?.state);
        let (endpoint, socket) = self.connected_socket(portal, flow, context)?;
        self.take_place(portal, &state)?;
        let entry = self.associations.vacant_entry();
        let index = entry.key();
        if context.poller.add_readable(&socket, Token::Association(index)).is_err() {
            state.close(Opened::Association);
            return None;
        }
        entry.insert(Association {
            portal,
            flow,
            endpoint,
            socket: Some(socket),
            last_active: context.now,
            has_replied: false,
            to_endpoint: Merging::default(),
            to_client: Merging::default(),
            batch_size: BatchSize::default(),
            older: None,
            newer: None,
        });
        state.count(|counters| &counters.associated, 1);
        state.pool.note_served(endpoint);
        let portal_entry = self.portals.get_mut(portal)?;
        portal_entry.add(index, &mut self.associations);
        if !std::mem::replace(&mut portal_entry.expiry_is_set, true) {
            let at = context.now + context.shared.udp_idle_timeout();
            context.timers.set(at, Alarm::Expiry { portal, serial: portal_entry.serial });
        }
        Some(index)
    }

    /// Counts the association, after ending another one if there are too many.
    fn take_place(&mut self, portal: usize, state: &PortalState) -> Option<()> {
        if let Err(limit) = state.open(Opened::Association) {
            state.refused(Opened::Association, limit);
            let is_own_limit = state.pool.stats().open_associations >= state.pool.limits().max_associations;
            let own = || self.portals.get(portal).and_then(UdpPortal::oldest);
            let evicted = if is_own_limit { own() } else { self.oldest_of_largest() };
            self.end(evicted?);
            state.replace(Opened::Association);
        }
        Some(())
    }

    /// The one that gives way: of the socket that has most, so that a flood of one Service does not end the clients of another.
    fn oldest_of_largest(&self) -> Option<usize> {
        let largest = self.portals.iter().map(|(_, portal)| portal).max_by_key(|portal| portal.len());
        largest.and_then(UdpPortal::oldest)
    }

    /// A socket connected to an endpoint of the pool.
    fn connected_socket(
        &mut self,
        portal: usize,
        flow: Flow,
        context: &mut Context,
    ) -> Option<(SocketAddr, OwnedFd)> {
        let state = Arc::clone(&self.portals.get(portal)?.state);
        let mut tried: Vec<SocketAddr> = Vec::new();
        for _ in 0..MAX_ATTEMPTS {
            let attempt = if tried.is_empty() { Attempt::First } else { Attempt::Again };
            let request = Request { client: flow.client.ip(), attempt, tried: &tried };
            let endpoint = match state.pool.pick_at(context.now, request) {
                Ok(endpoint) => endpoint,
                Err(PickError::NoEndpoints) => return None,
                Err(PickError::NotAdmitted) => {
                    state.count(|counters| &counters.not_admitted, 1);
                    return None;
                }
            };
            let socket = self.datagram_socket(portal, endpoint, context)?;
            match connect(&socket, &endpoint) {
                Ok(()) => {
                    // A wish: replies then come one by one.
                    let _ = datagrams::receive_merged(&socket);
                    return Some((endpoint, socket));
                }
                Err(error) => not_connected(&state, endpoint, error)?,
            }
            tried.push(endpoint);
        }
        None
    }

    /// A new socket. If there is no descriptor left, the oldest association gives up its own.
    fn datagram_socket(&mut self, portal: usize, endpoint: SocketAddr, context: &Context) -> Option<OwnedFd> {
        let family = if endpoint.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let own = self.portals.get(portal)?.len();
        let open = |context: &Context| {
            // Others have theirs in any case.
            let is_free = context.shared.has_descriptor_for_association(own);
            if is_free { socket_with(family, SocketType::DGRAM, flags, None) } else { Err(Errno::MFILE) }
        };
        match open(context) {
            Ok(socket) => Some(socket),
            Err(error @ (Errno::MFILE | Errno::NFILE)) => {
                let state = &self.portals.get(portal)?.state;
                context.shared.descriptors_exhausted(state.address, &error.into());
                self.end(self.oldest_of_largest()?);
                open(context).ok()
            }
            Err(_) => None,
        }
    }

    /// Makes an association the newest of its portal.
    pub(super) fn touch(&mut self, portal: usize, association: usize) {
        if let Some(portal) = self.portals.get_mut(portal) {
            portal.touch(association, &mut self.associations);
        }
    }

    /// Closes an association's socket. The index stays taken until no event can be about it.
    pub(super) fn end(&mut self, index: usize) {
        let Some(association) = self.associations.get_mut(index) else { return };
        if association.socket.take().is_none() {
            return;
        }
        if let Some(portal) = self.portals.get_mut(association.portal) {
            portal.state.close(Opened::Association);
            portal.remove(index, &mut self.associations);
        }
        self.ended.push(index);
    }
}

/// Blames an endpoint that cannot be connected to. `None` if it would be the same with another one.
fn not_connected(state: &PortalState, endpoint: SocketAddr, error: Errno) -> Option<()> {
    state.count(|counters| &counters.dial_failures, 1);
    if is_about_host(&error.into()) {
        return None;
    }
    state.blame(endpoint, Instant::now());
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Counters;
    use crate::worker::shared::Shared;
    use crate::{Pool, PoolLimits, RelayOptions};

    /// A host without free ports cannot connect to any endpoint, and would soon have set all of them aside.
    #[test]
    fn an_endpoint_is_blamed_for_its_own_errors_alone() {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let (pool, relay) = (Pool::new(PoolLimits::default()), Shared::new(RelayOptions::default()));
        pool.set_endpoints(vec![address]);
        let relay = Arc::new(relay);
        let state = PortalState { id: 0, address, pool, counters: Counters::default(), relay };
        for (error, is_tried_again, set_aside) in [(Errno::AGAIN, None, 0), (Errno::HOSTUNREACH, Some(()), 1)]
        {
            for _ in 0..3 {
                assert_eq!(not_connected(&state, address, error), is_tried_again);
            }
            assert_eq!(state.pool.stats().set_aside, set_aside, "{error}");
        }
    }
}
