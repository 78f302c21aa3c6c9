//! Which descriptors of the process clients may use: all but a reserve, and neither TCP nor UDP all of these.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Resource, getrlimit};

use super::limits::GUARANTEED_ASSOCIATIONS;
use super::shared::Shared;

/// No limit: the kernel says when there are no descriptors.
const UNLIMITED: u64 = u64::MAX;

/// Descriptors that connections, pipes and associations may use together.
#[derive(Debug)]
pub(crate) struct Descriptors(AtomicU64);

impl Descriptors {
    /// All of the process but so many, of which half are for clients in any case.
    pub(super) fn reserving(reserved: u64) -> Self {
        let descriptors = Self(AtomicU64::new(UNLIMITED));
        descriptors.reserve(reserved);
        descriptors
    }

    pub(crate) fn reserve(&self, reserved: u64) {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(UNLIMITED);
        let usable = if reserved == 0 { UNLIMITED } else { limit - reserved.min(limit / 2) };
        self.0.store(usable, Ordering::Relaxed);
    }

    fn usable(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Shared {
    /// Whether two more descriptors for a connection or a pipe leave others theirs. Some are left to datagrams: however many
    /// connections there are, names can be looked up.
    pub(crate) fn has_descriptors_for_stream(&self) -> bool {
        let usable = self.descriptors.usable();
        let (streams, associations) = (self.used_by_streams(), self.used_by_associations());
        usable == UNLIMITED || (streams + 2 <= usable - usable / 16 && streams + associations + 2 <= usable)
    }

    /// Whether one more descriptor for an association leaves others theirs. Half of them are left to connections: senders of
    /// datagrams can be forged.
    ///
    /// A socket that has few may have some of that half: a flood of one Service must not keep the others from being served.
    pub(crate) fn has_descriptor_for_association(&self, own: usize) -> bool {
        let usable = self.descriptors.usable();
        let (streams, associations) = (self.used_by_streams(), self.used_by_associations());
        usable == UNLIMITED
            || ((associations < usable / 2 || own < GUARANTEED_ASSOCIATIONS)
                && streams + associations < usable)
    }

    fn used_by_streams(&self) -> u64 {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        2 * (of(&self.counters.open_connections) + of(&self.counters.open_pipes))
    }

    fn used_by_associations(&self) -> u64 {
        self.counters.open_associations.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RelayOptions;

    fn shared(reserved_descriptors: u64) -> Shared {
        Shared::new(RelayOptions { reserved_descriptors, ..RelayOptions::default() })
    }

    fn limit() -> u64 {
        getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
    }

    fn with(shared: &Shared, connections: u64, associations: u64) -> (bool, bool) {
        shared.counters.open_connections.store(connections, Ordering::Relaxed);
        shared.counters.open_associations.store(associations, Ordering::Relaxed);
        (shared.has_descriptors_for_stream(), shared.has_descriptor_for_association(GUARANTEED_ASSOCIATIONS))
    }

    #[test]
    fn clients_leave_others_their_descriptors_and_each_other_some() {
        let usable = limit() - 100;
        let some = shared(100);
        let most = (usable - usable / 16) / 2;
        assert_eq!(with(&some, most - 1, 0), (true, true));
        assert_eq!(with(&some, most, 0), (false, true));
        assert_eq!(with(&some, most, usable - 2 * most), (false, false));
        assert_eq!(with(&some, 0, usable / 2 - 1), (true, true));
        assert_eq!(with(&some, 0, usable / 2), (true, false));
    }

    #[test]
    fn pipes_count_as_connections_do() {
        let some = shared(100);
        some.counters.open_pipes.store(limit() / 2, Ordering::Relaxed);
        assert_eq!(with(&some, 0, 0), (false, false));
    }

    #[test]
    fn half_of_them_are_for_clients_whatever_the_reserve() {
        let all = shared(u64::MAX);
        assert_eq!(with(&all, limit() / 8, 0), (true, true));
        assert_eq!(with(&all, limit() / 4 + 1, 0), (false, false));
        all.descriptors.reserve(1);
        assert_eq!(with(&all, limit() / 4 + 1, 0), (true, true));
        assert_eq!(with(&shared(0), limit(), limit()), (true, true), "the kernel says when there are none");
    }
}
