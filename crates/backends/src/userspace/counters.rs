//! Connections as the relay counts them. A new process begins at zero.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ferrule_model::ServicePortName;
use ferrule_relay::Pool;

use crate::counters::{ConnectionCounters, Count, Selected, SelectionChange, Totals};
use crate::{BackendError, Note};

/// What the sockets of Service ports served. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Pages>>);

#[derive(Default)]
struct Pages {
    is_on: bool,
    pools: Vec<(ServicePortName, Arc<Pool>)>,
    totals: Totals<u64>,
}

impl Ledger {
    /// Counts what this pool's endpoints serve, if anything is to be counted. Otherwise nothing is kept: there may be tens of
    /// thousands of pools.
    pub(super) fn add(&self, owner: &ServicePortName, pool: &Arc<Pool>) {
        let mut pages = self.pages();
        if pages.is_on {
            pool.count_served();
            pages.pools.push((owner.clone(), Arc::clone(pool)));
        }
    }

    /// Begins to count what is opened from now on. To be called before the first socket is served.
    pub(super) fn switch_on(&self) {
        self.pages().is_on = true;
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
        pages.totals.forget_departed(selected, Instant::now());
        let count = |(owner, endpoint, connections): (&ServicePortName, _, &u64)| Count {
            owner: owner.clone(),
            endpoint,
            connections: *connections,
            traffic: None,
        };
        Ok(pages.totals.iter().map(count).collect())
    }
}

impl Pages {
    fn collect(&mut self) {
        let Self { pools, totals, .. } = self;
        pools.retain(|(owner, pool)| {
            // One that is closed and has no connections any more is known to no one else.
            let is_in_use = Arc::strong_count(pool) > 1;
            for (endpoint, connections) in pool.take_served() {
                for endpoint in [Some(endpoint), None] {
                    totals.add(owner, endpoint, |total| *total = total.saturating_add(connections));
                }
            }
            is_in_use
        });
    }
}

#[cfg(test)]
mod tests {
    use ferrule_model::{PortName, Protocol, ServiceName};
    use ferrule_relay::PoolLimits;

    use super::*;

    #[test]
    fn pools_are_kept_only_while_connections_are_counted() {
        let service = ServiceName::of("shop", "web");
        let owner = ServicePortName { service, port: PortName::new("http"), protocol: Protocol::Tcp };
        let (ledger, pool) = (Ledger::default(), Pool::new(PoolLimits::default()));
        ledger.add(&owner, &pool);
        assert_eq!(Arc::strong_count(&pool), 1);
        ledger.switch_on();
        ledger.add(&owner, &pool);
        assert_eq!(Arc::strong_count(&pool), 2);
    }
}
