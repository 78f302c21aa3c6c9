//! Making and ending associations.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

use super::UdpSide;
use super::portal::{BatchSize, Flow, UdpPortal};
use crate::pool::{Attempt, PickError, Request};
use crate::worker::Context;
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
            state.close_association();
            return None;
        }
        entry.insert(Association {
            portal,
            flow,
            endpoint,
            socket: Some(socket),
            last_active: context.now,
            has_replied: false,
            batch_size: BatchSize::default(),
            older: None,
            newer: None,
        });
        state.count(|counters| &counters.associated, 1);
        let portal_entry = self.portals.get_mut(portal)?;
        portal_entry.add(index, &mut self.associations);
        if !std::mem::replace(&mut portal_entry.expiry_is_set, true) {
            let at = context.now + context.shared.udp_idle_timeout();
            context.timers.set(at, Alarm::Expiry { portal, serial: portal_entry.serial });
        }
        Some(index)
    }

    /// Counts the association, after ending the oldest one if there are too many.
    fn take_place(&mut self, portal: usize, state: &PortalState) -> Option<()> {
        if let Err(limit) = state.open_association() {
            state.refused(limit);
            let oldest = self.portals.get(portal).and_then(UdpPortal::oldest)?;
            self.end(oldest);
            state.open_association().ok()?;
        }
        Some(())
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
            if connect(&socket, &endpoint).is_ok() {
                return Some((endpoint, socket));
            }
            state.count(|counters| &counters.dial_failures, 1);
            state.pool.report_failure_at(endpoint, context.now);
            tried.push(endpoint);
        }
        None
    }

    /// A new socket. If there is no descriptor left, the oldest association gives up its own.
    fn datagram_socket(&mut self, portal: usize, endpoint: SocketAddr, context: &Context) -> Option<OwnedFd> {
        let family = if endpoint.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        match socket_with(family, SocketType::DGRAM, flags, None) {
            Ok(socket) => Some(socket),
            Err(error @ (Errno::MFILE | Errno::NFILE)) => {
                let state = &self.portals.get(portal)?.state;
                context.shared.descriptors_exhausted(state.address, &error.into());
                let oldest = self.portals.get(portal).and_then(UdpPortal::oldest)?;
                self.end(oldest);
                socket_with(family, SocketType::DGRAM, flags, None).ok()
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
            portal.state.close_association();
            portal.remove(index, &mut self.associations);
        }
        self.ended.push(index);
    }
}
