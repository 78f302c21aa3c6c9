//! A UDP socket that clients send to, and its associations in the order of their last use.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use ferrule_kernel::datagrams::{LocalAddress, MAX_DATAGRAMS};
use slab::Slab;

use super::association::Association;
use crate::worker::shared::PortalState;

/// A UDP socket that clients send to.
#[derive(Debug)]
pub(super) struct UdpPortal {
    pub(super) state: Arc<PortalState>,
    /// `None` once it is closed.
    pub(super) socket: Option<Arc<OwnedFd>>,
    /// Whether datagrams are left in its queue, for another process or for later.
    pub(super) is_suspended: bool,
    pub(super) serial: u64,
    pub(super) batch_size: BatchSize,
    /// Whether there is a timer for the oldest association.
    pub(super) expiry_is_set: bool,
    flows: HashMap<Flow, usize>,
    /// Ends of the list that runs through the associations.
    oldest: Option<usize>,
    newest: Option<usize>,
}

/// Datagrams between a client and one of our addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Flow {
    pub(super) client: SocketAddr,
    /// The address that the client sends to, if the socket has several.
    pub(super) local: Option<LocalAddress>,
}

/// How many datagrams to ask for: as many as there usually are, since each place in a batch has a cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchSize(usize);

impl Default for BatchSize {
    fn default() -> Self {
        Self(1)
    }
}

impl BatchSize {
    pub(super) fn get(self) -> usize {
        self.0
    }

    pub(super) fn adapt(&mut self, received: usize) {
        self.0 = if received >= self.0 { self.0 * 2 } else { received.next_power_of_two() };
        self.0 = self.0.clamp(1, MAX_DATAGRAMS);
    }
}

impl UdpPortal {
    pub(super) fn new(state: Arc<PortalState>, socket: Arc<OwnedFd>, serial: u64) -> Self {
        Self {
            state,
            socket: Some(socket),
            is_suspended: false,
            serial,
            batch_size: BatchSize::default(),
            expiry_is_set: false,
            flows: HashMap::new(),
            oldest: None,
            newest: None,
        }
    }

    pub(super) fn association_of(&self, flow: &Flow) -> Option<usize> {
        self.flows.get(flow).copied()
    }

    /// How many associations it has.
    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    /// The association whose last datagram is the longest ago.
    pub(super) fn oldest(&self) -> Option<usize> {
        self.oldest
    }

    /// Adds an association as the newest.
    pub(super) fn add(&mut self, index: usize, associations: &mut Slab<Association>) {
        if let Some(association) = associations.get(index) {
            self.flows.insert(association.flow, index);
            self.link_newest(index, associations);
        }
    }

    /// Makes an association the newest.
    pub(super) fn touch(&mut self, index: usize, associations: &mut Slab<Association>) {
        if self.newest != Some(index) {
            self.unlink(index, associations);
            self.link_newest(index, associations);
        }
    }

    pub(super) fn remove(&mut self, index: usize, associations: &mut Slab<Association>) {
        if let Some(association) = associations.get(index) {
            self.flows.remove(&association.flow);
            self.unlink(index, associations);
        }
        // Memory of a flood is given back.
        if self.flows.is_empty() {
            self.flows.shrink_to_fit();
        }
    }

    fn link_newest(&mut self, index: usize, associations: &mut Slab<Association>) {
        if let Some(before) = self.newest.and_then(|newest| associations.get_mut(newest)) {
            before.newer = Some(index);
        }
        if let Some(association) = associations.get_mut(index) {
            association.older = self.newest;
            association.newer = None;
        }
        self.newest = Some(index);
        self.oldest = self.oldest.or(Some(index));
    }

    fn unlink(&mut self, index: usize, associations: &mut Slab<Association>) {
        let Some(association) = associations.get(index) else { return };
        let (older, newer) = (association.older, association.newer);
        match older.and_then(|older| associations.get_mut(older)) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
        match newer.and_then(|newer| associations.get_mut(newer)) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
    }
}
