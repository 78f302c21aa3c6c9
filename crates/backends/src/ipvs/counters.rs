//! Connections as the virtual servers count them, with packets and bytes.
//!
//! The kernel keeps its numbers for as long as a server exists, also over a restart of ours. Those of a server that went are kept
//! here, as they were read last; before a virtual server of a Service goes, it is read once more.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ferrule_kernel::ipvs::{Stats, VirtualServerId};
use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::port::VirtualServers;
use ferrule_model::{IpFamily, Protocol, ServicePortName};
use ferrule_plan::FrontendKey;

use crate::counters::{ConnectionCounters, Count, Selected, SelectionChange, Traffic};
use crate::{BackendError, Note};

/// Departed endpoints whose numbers are kept, beyond which they are forgotten.
const MAX_KEPT: usize = 100_000;

/// Reads the statistics of virtual servers.
pub(super) struct IpvsCounters {
    state: Mutex<State>,
}

struct State {
    kernel: Box<dyn VirtualServers + Send>,
    /// What was read last.
    seen: BTreeMap<Place, (ServicePortName, Stats)>,
    /// What servers had counted that went.
    kept: BTreeMap<(ServicePortName, Option<SocketAddr>), Stats>,
    /// What counts now.
    frontends: BTreeMap<(IpFamily, FrontendKey), ServicePortName>,
}

/// A virtual server, or one of its real servers.
type Place = (VirtualServerId, Option<SocketAddr>);

impl IpvsCounters {
    pub(super) fn new(kernel: Box<dyn VirtualServers + Send>) -> Self {
        let (seen, kept, frontends) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { state: Mutex::new(State { kernel, seen, kept, frontends }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionCounters for IpvsCounters {
    fn follow(&self, change: &SelectionChange) -> Vec<Note> {
        let mut state = self.state();
        let changes = change.frontends.iter().filter(|(place, owner)| {
            state.frontends.get(place).is_some_and(|was| Some(was) != owner.as_ref())
        });
        if changes.count() > 0 {
            // What cannot be read now counts as it was read last.
            drop(state.read());
        }
        for (place, owner) in &change.frontends {
            match owner {
                Some(owner) => drop(state.frontends.insert(*place, owner.clone())),
                None => drop(state.frontends.remove(place)),
            }
        }
        Vec::new()
    }

    fn read(&self, _: &Selected) -> Result<Vec<Count>, BackendError> {
        let mut state = self.state();
        let failed = |error| BackendError::new("reading the statistics of virtual servers").caused_by(error);
        state.read().map_err(failed)?;
        Ok(state.counts())
    }
}

impl State {
    fn read(&mut self) -> Result<(), NetlinkError> {
        let listed = self.kernel.list()?;
        let ours = listed.servers.into_iter().filter_map(|seen| {
            let owner = self.owner(&seen.server.id)?.clone();
            Some((seen.server.id, owner, seen.stats))
        });
        let ours: Vec<_> = ours.collect();
        let ids: Vec<VirtualServerId> = ours.iter().map(|(id, _, _)| *id).collect();
        let servers = self.kernel.all_real_servers(&ids)?;
        let mut now = BTreeMap::new();
        for ((id, owner, stats), servers) in ours.into_iter().zip(servers) {
            for server in servers {
                now.insert((id, Some(server.server.address)), (owner.clone(), server.stats));
            }
            now.insert((id, None), (owner, stats));
        }
        self.keep_what_went(&now);
        self.seen = now;
        Ok(())
    }

    /// A server that is gone, began again, or counts for another Service now.
    fn keep_what_went(&mut self, now: &BTreeMap<Place, (ServicePortName, Stats)>) {
        for (place, (owner, stats)) in &self.seen {
            let goes_on = now.get(place).is_some_and(|(owner_now, stats_now)| {
                owner_now == owner && stats_now.connections >= stats.connections
            });
            if !goes_on && self.kept.len() < MAX_KEPT {
                let kept = self.kept.entry((owner.clone(), place.1)).or_default();
                *kept = sum(*kept, *stats);
            }
        }
    }

    fn owner(&self, id: &VirtualServerId) -> Option<&ServicePortName> {
        let protocol = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
        let protocol = protocol.into_iter().find(|protocol| protocol.number() == id.protocol)?;
        let family = IpFamily::of(id.address);
        let keys =
            [FrontendKey::Address(id.address, protocol, id.port), FrontendKey::NodePort(protocol, id.port)];
        keys.into_iter().find_map(|key| self.frontends.get(&(family, key)))
    }

    fn counts(&self) -> Vec<Count> {
        let kept = self.kept.iter().map(|((owner, endpoint), stats)| (owner, *endpoint, stats));
        let seen = self.seen.iter().map(|((_, endpoint), (owner, stats))| (owner, *endpoint, stats));
        kept.chain(seen)
            .map(|(owner, endpoint, stats)| Count {
                owner: owner.clone(),
                endpoint,
                connections: stats.connections,
                traffic: Some(Traffic {
                    packets: stats.in_packets.saturating_add(stats.out_packets),
                    bytes: stats.in_bytes.saturating_add(stats.out_bytes),
                }),
            })
            .collect()
    }
}

fn sum(one: Stats, other: Stats) -> Stats {
    Stats {
        connections: one.connections.saturating_add(other.connections),
        in_packets: one.in_packets.saturating_add(other.in_packets),
        out_packets: one.out_packets.saturating_add(other.out_packets),
        in_bytes: one.in_bytes.saturating_add(other.in_bytes),
        out_bytes: one.out_bytes.saturating_add(other.out_bytes),
    }
}

#[cfg(test)]
mod tests;
