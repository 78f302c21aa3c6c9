//! Numbers for pools that clients stick to, and for their endpoints.
//!
//! The kernel remembers a client's endpoint by these numbers, so they must stay as they are while an endpoint is there,
//! also over a restart. An id is `0x7` (4 bits), the pool's number (16), the endpoint's serial (12).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ferrule_plan::{Pool, PoolId};

const MARK: u32 = 0x7000_0000;
const MOST_POOLS: u32 = 0xffff;
const MOST_SERIALS: u32 = 0xfff;

/// The numbers given so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StickyIds {
    pools: BTreeMap<PoolId, PoolIds>,
    taken: BTreeSet<u32>,
    /// Pools that are served without affinity: too large, or one too many.
    without: BTreeSet<PoolId>,
    /// Where the search for a free number goes on, so that a number rests before it is used again.
    next: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PoolIds {
    number: u32,
    serials: BTreeMap<(IpAddr, u16), u32>,
    next: u32,
}

/// A pool's numbers: its own id, and those of its endpoints in the pool's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolNumbers {
    /// The pool's id.
    pub pool: u32,
    /// Its endpoints' ids, in the order of the pool.
    pub endpoints: Vec<u32>,
}

impl StickyIds {
    /// The numbers of a pool, if it has them.
    pub fn of(&self, id: &PoolId, pool: &Pool) -> Option<PoolNumbers> {
        let ids = self.pools.get(id)?;
        let serials =
            pool.endpoints.iter().map(|endpoint| ids.serials.get(&(endpoint.ip, endpoint.port)).copied());
        let endpoints = serials.map(|serial| Some(id_of(ids.number, serial?))).collect::<Option<_>>()?;
        Some(PoolNumbers { pool: id_of(ids.number, 0), endpoints })
    }

    /// Gives numbers to a pool and its endpoints, keeping those they have. A pool that is too large, or one too many, gets
    /// none and is served without affinity; the caller is told.
    pub fn assign(&mut self, id: &PoolId, pool: &Pool) -> bool {
        let is_numbered = self.try_assign(id, pool);
        if is_numbered {
            self.without.remove(id);
        } else {
            self.without.insert(id.clone());
        }
        is_numbered
    }

    /// How many pools are served without affinity though they should have it.
    pub fn without_numbers(&self) -> usize {
        self.without.len()
    }

    fn try_assign(&mut self, id: &PoolId, pool: &Pool) -> bool {
        if pool.endpoints.len() > MOST_SERIALS as usize {
            self.release(id);
            return false;
        }
        if !self.pools.contains_key(id) {
            let Some(number) = free(self.next, MOST_POOLS, |number| self.taken.contains(&number)) else {
                return false;
            };
            self.adopt_pool(id, number);
        }
        let Some(ids) = self.pools.get_mut(id) else { return false };
        let here: BTreeSet<_> = pool.endpoints.iter().map(|endpoint| (endpoint.ip, endpoint.port)).collect();
        ids.serials.retain(|endpoint, _| here.contains(endpoint));
        for endpoint in here {
            ids.give_serial(endpoint);
        }
        true
    }

    /// Takes a pool's numbers back.
    pub fn release(&mut self, id: &PoolId) {
        self.without.remove(id);
        if let Some(ids) = self.pools.remove(id) {
            self.taken.remove(&ids.number);
        }
    }

    /// Takes over a pool number that a former run gave.
    pub fn adopt_pool(&mut self, id: &PoolId, number: u32) {
        if self.taken.insert(number) {
            self.pools.insert(id.clone(), PoolIds { number, ..PoolIds::default() });
            self.next = number + 1;
        }
    }

    /// Takes over an endpoint's serial that a former run gave.
    pub fn adopt_serial(&mut self, id: &PoolId, endpoint: (IpAddr, u16), serial: u32) {
        let Some(ids) = self.pools.get_mut(id) else { return };
        if !ids.serials.values().any(|taken| *taken == serial) {
            ids.serials.insert(endpoint, serial);
            ids.next = ids.next.max(serial + 1);
        }
    }
}

impl PoolIds {
    fn give_serial(&mut self, endpoint: (IpAddr, u16)) {
        if self.serials.contains_key(&endpoint) {
            return;
        }
        let taken: BTreeSet<u32> = self.serials.values().copied().collect();
        if let Some(serial) = free(self.next, MOST_SERIALS, |serial| taken.contains(&serial)) {
            self.serials.insert(endpoint, serial);
            self.next = serial + 1;
        }
    }
}

/// The first free number from `start` on, going round; numbers begin at 1.
fn free(start: u32, most: u32, is_taken: impl Fn(u32) -> bool) -> Option<u32> {
    (0..most).map(|step| (start.max(1) - 1 + step) % most + 1).find(|number| !is_taken(*number))
}

/// Puts a number and a serial together.
pub fn id_of(number: u32, serial: u32) -> u32 {
    MARK | (number & MOST_POOLS) << 12 | (serial & MOST_SERIALS)
}

/// Takes an id apart into number and serial, if it is one of ours.
pub fn parts_of(id: u32) -> Option<(u32, u32)> {
    (id & 0xf000_0000 == MARK).then_some((id >> 12 & MOST_POOLS, id & MOST_SERIALS))
}
