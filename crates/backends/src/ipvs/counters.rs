//! Connections as the virtual servers count them, with packets and bytes.
//!
//! The kernel keeps its numbers for as long as a server exists, also over a restart of ours. Those of a server that went are kept
//! here, as they were read last. Before virtual servers of a Service go, their real servers are read once more by the loop: these
//! alone, through a handle of its own. It never waits for a listing of all.

mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferrule_kernel::ipvs::{Stats, VirtualServerId};
use ferrule_kernel::port::VirtualServers;
use ferrule_model::{IpFamily, PerFamily, Protocol, ServicePortName};
use ferrule_plan::FrontendKey;

use crate::counters::{ConnectionCounters, Count, Selected, SelectionChange};
use crate::{BackendError, Note};
use state::State;

/// Virtual servers that went since the last reading; of more, what was read before counts.
const MAX_DEPARTED: usize = 20_000;

/// Reads the statistics of virtual servers.
pub(super) struct IpvsCounters {
    /// Locked after [`Self::state`], and never while all is listed.
    following: Mutex<Following>,
    state: Mutex<State>,
}

/// What the loop notes.
struct Following {
    kernel: Box<dyn VirtualServers + Send>,
    counted: Arc<Counted>,
    /// In the order in which they went.
    departed: Vec<Departed>,
}

/// What counts now.
#[derive(Clone, Default)]
struct Counted {
    frontends: BTreeMap<(IpFamily, FrontendKey), ServicePortName>,
    /// The host's addresses.
    addresses: PerFamily<BTreeSet<IpAddr>>,
}

/// A virtual server that goes, or counts for another Service port from now on.
struct Departed {
    id: VirtualServerId,
    owner: ServicePortName,
    servers: Vec<(SocketAddr, Stats)>,
}

impl IpvsCounters {
    /// Two handles: the loop's, and the one for those who read.
    pub(super) fn new(
        following: Box<dyn VirtualServers + Send>,
        reading: Box<dyn VirtualServers + Send>,
    ) -> Self {
        let following = Following { kernel: following, counted: Arc::default(), departed: Vec::new() };
        Self { following: Mutex::new(following), state: Mutex::new(State::new(reading)) }
    }

    fn following(&self) -> MutexGuard<'_, Following> {
        locked(&self.following)
    }
}

impl ConnectionCounters for IpvsCounters {
    fn follow(&self, change: &SelectionChange) -> Vec<Note> {
        if !change.frontends.is_empty() || change.addresses.iter().next().is_some() {
            self.following().follow(change);
        }
        Vec::new()
    }

    fn read(&self, selected: &Selected) -> Result<Vec<Count>, BackendError> {
        let mut state = locked(&self.state);
        let (counted, departed) = self.following().begin_reading();
        state.absorb(departed);
        let failed = |error| BackendError::new("reading the statistics of virtual servers").caused_by(error);
        let now = state.list(&counted).map_err(failed)?;
        let departed = self.following().begin_reading().1;
        state.take_over(now, departed);
        Ok(state.counts(selected))
    }
}

impl Following {
    fn follow(&mut self, change: &SelectionChange) {
        self.read_what_goes(change);
        let counted = Arc::make_mut(&mut self.counted);
        for (place, owner) in &change.frontends {
            match owner {
                Some(owner) => drop(counted.frontends.insert(*place, owner.clone())),
                None => drop(counted.frontends.remove(place)),
            }
        }
        for (family, addresses) in change.addresses.iter() {
            counted.addresses.set(family, addresses.clone());
        }
    }

    fn read_what_goes(&mut self, change: &SelectionChange) {
        let mut going = Vec::new();
        for (place, owner) in &change.frontends {
            let was = self.counted.frontends.get(place).filter(|was| Some(*was) != owner.as_ref());
            if let Some(was) = was {
                going.extend(self.counted.servers_of(place).into_iter().map(|id| (id, was.clone())));
            }
        }
        going.truncate(MAX_DEPARTED.saturating_sub(self.departed.len()));
        for (id, owner) in going {
            // What cannot be read now counts as it was read last.
            let Ok(servers) = self.kernel.real_servers(&id) else { return };
            let servers: Vec<_> = servers.into_iter().map(|seen| (seen.server.address, seen.stats)).collect();
            if !servers.is_empty() {
                self.departed.push(Departed { id, owner, servers });
            }
        }
    }

    /// What counts now, and what went since this was asked last.
    fn begin_reading(&mut self) -> (Arc<Counted>, Vec<Departed>) {
        (Arc::clone(&self.counted), std::mem::take(&mut self.departed))
    }
}

impl Counted {
    /// The Service port that a virtual server counts for. One for a node port is at an address of the host; at any other it is
    /// another program's.
    fn owner(&self, id: &VirtualServerId) -> Option<&ServicePortName> {
        let protocol = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
        let protocol = protocol.into_iter().find(|protocol| protocol.number() == id.protocol)?;
        let family = IpFamily::of(id.address);
        let of = |key| self.frontends.get(&(family, key));
        of(FrontendKey::Address(id.address, protocol, id.port)).or_else(|| {
            let is_host = self.addresses.get(family).is_some_and(|host| host.contains(&id.address));
            of(FrontendKey::NodePort(protocol, id.port)).filter(|_| is_host)
        })
    }

    /// The virtual servers that count for a frontend.
    fn servers_of(&self, (family, key): &(IpFamily, FrontendKey)) -> Vec<VirtualServerId> {
        let id = |address, protocol: Protocol, port| VirtualServerId {
            address,
            protocol: protocol.number(),
            port,
        };
        match *key {
            FrontendKey::Address(ip, protocol, port) => vec![id(ip, protocol, port)],
            FrontendKey::NodePort(protocol, port) => {
                let addresses = self.addresses.get(*family).into_iter().flatten();
                addresses.map(|ip| id(*ip, protocol, port)).collect()
            }
            FrontendKey::UnmatchedPorts(_) | FrontendKey::LoopbackNodePort(..) => Vec::new(),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
