//! Connections as the relay counts them. A new process begins at zero.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ferrule_model::ServicePortName;
use ferrule_relay::Pool;

use crate::counters::{ConnectionCounters, Count, Selected, SelectionChange};
use crate::{BackendError, Note};

/// Endpoints of Service ports whose numbers are kept though they left; beyond, they are forgotten.
const MAX_KEPT: usize = 100_000;

/// What the sockets of Service ports served. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Pages>>);

#[derive(Default)]
struct Pages {
    is_on: bool,
    pools: Vec<(ServicePortName, Arc<Pool>)>,
    totals: BTreeMap<(ServicePortName, Option<SocketAddr>), u64>,
}

impl Ledger {
    /// Counts what this pool's endpoints serve, if anything is to be counted.
    pub(super) fn add(&self, owner: &ServicePortName, pool: &Arc<Pool>) {
        let mut pages = self.pages();
        if pages.is_on {
            pool.count_served();
        } else {
            // One that is closed and has no connections any more is known to no one else.
            pages.pools.retain(|(_, pool)| Arc::strong_count(pool) > 1);
        }
        pages.pools.push((owner.clone(), Arc::clone(pool)));
    }

    /// Begins to count.
    pub(super) fn switch_on(&self) {
        let mut pages = self.pages();
        pages.is_on = true;
        pages.pools.iter().for_each(|(_, pool)| pool.count_served());
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionCounters for Ledger {
    fn follow(&self, _: &SelectionChange) -> Vec<Note> {
        Vec::new()
    }

    fn read(&self, selected: &Selected) -> Result<Vec<Count>, BackendError> {
        let mut pages = self.pages();
        pages.collect();
        pages.forget_departed(selected);
        let count = |((owner, endpoint), connections): (&(ServicePortName, Option<SocketAddr>), &u64)| {
            Count { owner: owner.clone(), endpoint: *endpoint, connections: *connections, traffic: None }
        };
        Ok(pages.totals.iter().map(count).collect())
    }
}

impl Pages {
    fn collect(&mut self) {
        let Self { pools, totals, .. } = self;
        pools.retain(|(owner, pool)| {
            let is_in_use = Arc::strong_count(pool) > 1;
            for (endpoint, connections) in pool.take_served() {
                for endpoint in [Some(endpoint), None] {
                    *totals.entry((owner.clone(), endpoint)).or_default() += connections;
                }
            }
            is_in_use
        });
    }

    fn forget_departed(&mut self, selected: &Selected) {
        if self.totals.len() > MAX_KEPT {
            self.totals.retain(|(owner, endpoint), _| {
                selected.has(owner)
                    && endpoint.is_none_or(|endpoint| selected.endpoints(owner).contains(&endpoint))
            });
        }
    }
}
