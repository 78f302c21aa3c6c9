//! What was read of virtual servers, and what those had counted that went.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;

use ferrule_kernel::ipvs::{Stats, VirtualServerId};
use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::port::VirtualServers;
use ferrule_model::ServicePortName;

use super::{Counted, Departed};
use crate::counters::{Count, Selected, Totals, Traffic};

/// A virtual server, or one of its real servers.
type Place = (VirtualServerId, Option<SocketAddr>);
/// What is known of servers, with the Service port they count for.
type Readings = BTreeMap<Place, (ServicePortName, Stats)>;

/// What was read.
pub(super) struct State {
    kernel: Box<dyn VirtualServers + Send>,
    /// What was read last.
    seen: Readings,
    /// What servers had counted that went.
    kept: Totals<Stats>,
}

impl State {
    pub(super) fn new(kernel: Box<dyn VirtualServers + Send>) -> Self {
        Self { kernel, seen: Readings::new(), kept: Totals::default() }
    }

    /// What the kernel says now.
    pub(super) fn list(&mut self, counted: &Counted) -> Result<Readings, NetlinkError> {
        let listed = self.kernel.list()?;
        let ours = listed.servers.into_iter().filter_map(|seen| {
            let owner = counted.owner(&seen.server.id)?.clone();
            Some((seen.server.id, owner, seen.stats))
        });
        let ours: Vec<_> = ours.collect();
        let ids: Vec<VirtualServerId> = ours.iter().map(|(id, _, _)| *id).collect();
        let servers = self.kernel.all_real_servers(&ids)?;
        let mut now = Readings::new();
        for ((id, owner, stats), servers) in ours.into_iter().zip(servers) {
            for server in servers {
                now.insert((id, Some(server.server.address)), (owner.clone(), server.stats));
            }
            now.insert((id, None), (owner, stats));
        }
        Ok(now)
    }

    /// Takes over a listing. Of virtual servers that went while it was made, what the loop read counts: the listing may be of
    /// before or of after.
    pub(super) fn take_over(&mut self, mut now: Readings, departed: Vec<Departed>) {
        for place in self.absorb(departed) {
            if let Some(read) = self.seen.get(&place) {
                now.insert(place, read.clone());
            }
        }
        for (place, (owner, stats)) in &self.seen {
            if !now.get(place).is_some_and(|now| goes_on((owner, stats), now)) {
                keep(&mut self.kept, owner, place.1, *stats);
            }
        }
        self.seen = now;
    }

    /// Takes over what the loop read of virtual servers that went; returns where. A virtual server counted what its real servers
    /// did since the last reading.
    pub(super) fn absorb(&mut self, departed: Vec<Departed>) -> Vec<Place> {
        let mut places = Vec::new();
        for Departed { id, owner, servers } in departed {
            let mut whole = match self.seen.get(&(id, None)) {
                Some((of, stats)) if *of == owner => *stats,
                _ => Stats::default(),
            };
            for (server, stats) in servers {
                let place = (id, Some(server));
                let before = self
                    .seen
                    .get(&place)
                    .filter(|before| goes_on((&before.0, &before.1), &(owner.clone(), stats)));
                whole = sum(whole, before.map_or(stats, |(_, before)| difference(stats, *before)));
                self.note(place, &owner, stats);
                places.push(place);
            }
            self.note((id, None), &owner, whole);
            places.push((id, None));
        }
        places
    }

    fn note(&mut self, place: Place, owner: &ServicePortName, stats: Stats) {
        let now = (owner.clone(), stats);
        if let Some((owner, stats)) = self.seen.get(&place)
            && !goes_on((owner, stats), &now)
        {
            keep(&mut self.kept, owner, place.1, *stats);
        }
        self.seen.insert(place, now);
    }

    pub(super) fn counts(&mut self, selected: &Selected) -> Vec<Count> {
        self.kept.forget_departed(selected, Instant::now());
        let seen = self.seen.iter().map(|((_, endpoint), (owner, stats))| (owner, *endpoint, stats));
        self.kept
            .iter()
            .chain(seen)
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

/// Not one that is gone, began again, or counts for another Service now.
fn goes_on((owner, stats): (&ServicePortName, &Stats), now: &(ServicePortName, Stats)) -> bool {
    now.0 == *owner && now.1.connections >= stats.connections
}

fn keep(kept: &mut Totals<Stats>, owner: &ServicePortName, endpoint: Option<SocketAddr>, stats: Stats) {
    kept.add(owner, endpoint, |total| *total = sum(*total, stats));
}

fn sum(one: Stats, other: Stats) -> Stats {
    combined(one, other, u64::saturating_add)
}

fn difference(one: Stats, other: Stats) -> Stats {
    combined(one, other, u64::saturating_sub)
}

fn combined(one: Stats, other: Stats, combine: impl Fn(u64, u64) -> u64) -> Stats {
    Stats {
        connections: combine(one.connections, other.connections),
        in_packets: combine(one.in_packets, other.in_packets),
        out_packets: combine(one.out_packets, other.out_packets),
        in_bytes: combine(one.in_bytes, other.in_bytes),
        out_bytes: combine(one.out_bytes, other.out_bytes),
    }
}
