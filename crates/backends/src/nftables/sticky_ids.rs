//! Ids for pools with session affinity, and for their endpoints.
//!
//! The kernel remembers a client's endpoint by its id, so an id must stay the same as long as the endpoint is in the pool, also
//! over a restart. An id is `0x7` (4 bits), the pool's number (16), the endpoint's serial (12).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ferrule_plan::{Pool, PoolEndpoint, PoolId};

const PREFIX: u32 = 0x7000_0000;
const MAX_POOLS: u32 = 0xffff;
const MAX_SERIALS: u32 = 0xfff;

/// The ids in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StickyIds {
    pools: BTreeMap<PoolId, AssignedPool>,
    taken: BTreeSet<u32>,
    /// Pools that are served without affinity: too large, or one too many.
    without: BTreeSet<PoolId>,
    /// Where the search for a free number continues, so that a number is not reused at once.
    next: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct AssignedPool {
    number: u32,
    serials: BTreeMap<EndpointAddress, u32>,
    next: u32,
}

/// An endpoint as session affinity knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EndpointAddress {
    /// Its address.
    pub ip: IpAddr,
    /// Its port.
    pub port: u16,
}

impl From<&PoolEndpoint> for EndpointAddress {
    fn from(endpoint: &PoolEndpoint) -> Self {
        Self { ip: endpoint.ip, port: endpoint.port }
    }
}

/// The ids of a pool and of its endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StickyPoolIds {
    /// The id of the pool itself.
    pub pool: u32,
    /// The ids of its endpoints, in the order of the pool.
    pub endpoints: Vec<u32>,
}

impl StickyIds {
    /// The ids of a pool, if it has them.
    pub fn get(&self, id: &PoolId, pool: &Pool) -> Option<StickyPoolIds> {
        let ids = self.pools.get(id)?;
        let serials = pool.endpoints.iter().map(|endpoint| ids.serials.get(&endpoint.into()).copied());
        let endpoints = serials.map(|serial| Some(id_of(ids.number, serial?))).collect::<Option<_>>()?;
        Some(StickyPoolIds { pool: id_of(ids.number, 0), endpoints })
    }

    /// Assigns ids to a pool and its endpoints that have none. A pool that is too large, or one too many, gets none and is
    /// served without affinity; returns whether it got them.
    pub fn assign(&mut self, id: &PoolId, pool: &Pool) -> bool {
        let is_assigned = self.try_assign(id, pool);
        if is_assigned {
            self.without.remove(id);
        } else {
            self.without.insert(id.clone());
        }
        is_assigned
    }

    /// How many pools are served without affinity though they should have it.
    pub fn pools_without_ids(&self) -> usize {
        self.without.len()
    }

    fn try_assign(&mut self, id: &PoolId, pool: &Pool) -> bool {
        if pool.endpoints.len() > MAX_SERIALS as usize {
            self.release(id);
            return false;
        }
        if !self.pools.contains_key(id) {
            let Some(number) = free(self.next, MAX_POOLS, |number| self.taken.contains(&number)) else {
                return false;
            };
            self.adopt_pool(id, number);
        }
        let Some(ids) = self.pools.get_mut(id) else { return false };
        let here: BTreeSet<EndpointAddress> = pool.endpoints.iter().map(EndpointAddress::from).collect();
        ids.serials.retain(|endpoint, _| here.contains(endpoint));
        for endpoint in here {
            ids.assign_serial(endpoint);
        }
        true
    }

    /// Releases the ids of a pool.
    pub fn release(&mut self, id: &PoolId) {
        self.without.remove(id);
        if let Some(ids) = self.pools.remove(id) {
            self.taken.remove(&ids.number);
        }
    }

    /// Takes over a pool number that an earlier run assigned.
    pub fn adopt_pool(&mut self, id: &PoolId, number: u32) {
        if self.taken.insert(number) {
            self.pools.insert(id.clone(), AssignedPool { number, ..AssignedPool::default() });
            self.next = number + 1;
        }
    }

    /// Takes over an endpoint's serial that an earlier run assigned.
    pub fn adopt_serial(&mut self, id: &PoolId, endpoint: EndpointAddress, serial: u32) {
        let Some(ids) = self.pools.get_mut(id) else { return };
        if !ids.serials.values().any(|taken| *taken == serial) {
            ids.serials.insert(endpoint, serial);
            ids.next = ids.next.max(serial + 1);
        }
    }
}

impl AssignedPool {
    fn assign_serial(&mut self, endpoint: EndpointAddress) {
        if self.serials.contains_key(&endpoint) {
            return;
        }
        let taken: BTreeSet<u32> = self.serials.values().copied().collect();
        if let Some(serial) = free(self.next, MAX_SERIALS, |serial| taken.contains(&serial)) {
            self.serials.insert(endpoint, serial);
            self.next = serial + 1;
        }
    }
}

/// The first free number from `start` on, wrapping around; numbers begin at 1.
fn free(start: u32, most: u32, is_taken: impl Fn(u32) -> bool) -> Option<u32> {
    (0..most).map(|step| (start.max(1) - 1 + step) % most + 1).find(|number| !is_taken(*number))
}

/// The id of an endpoint, or with serial 0 of the pool.
pub fn id_of(number: u32, serial: u32) -> u32 {
    PREFIX | (number & MAX_POOLS) << 12 | (serial & MAX_SERIALS)
}

/// The pool number and the serial of an id, if it is one of ours.
pub fn parts_of(id: u32) -> Option<(u32, u32)> {
    (id & 0xf000_0000 == PREFIX).then_some((id >> 12 & MAX_POOLS, id & MAX_SERIALS))
}
