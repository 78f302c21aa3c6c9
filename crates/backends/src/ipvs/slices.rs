//! Real servers are read in slices: the kernel lists them with one request for each virtual server, and a change that comes
//! meanwhile is not to wait for thousands of them.
//!
//! A verification reads everything else and the first slice; what is left is read by [`crate::Dataplane::run_deferred`].

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ferrule_kernel::ipvs::VirtualServerId;

use super::dataplane::IpvsDataplane;
use super::edit::{Comparison, Edit};
use super::kernel::{Held, held_server};
use super::wanted::Touched;
use super::write::Written;
use crate::{BackendError, Deferred};

/// How many virtual servers' real servers are read in one go.
pub(super) const SLICE: usize = 256;
/// Between two slices, for whatever else waits for the processor.
const PAUSE: Duration = Duration::from_millis(10);

/// The virtual servers whose real servers are still to be read.
#[derive(Debug, Default)]
pub(super) struct Unread {
    ids: BTreeSet<VirtualServerId>,
    /// Where the last slice ended, so that verifications that follow each other closely come round.
    last: Option<VirtualServerId>,
}

impl Unread {
    /// Begins again with these, and returns the first slice.
    pub(super) fn begin(&mut self, ids: BTreeSet<VirtualServerId>) -> Vec<VirtualServerId> {
        self.ids = ids;
        self.next_slice()
    }

    /// Takes the next slice, from where the last one ended.
    fn next_slice(&mut self) -> Vec<VirtualServerId> {
        let after = self.ids.iter().filter(|id| self.last.is_none_or(|last| **id > last));
        let before = self.ids.iter().filter(|id| self.last.is_some_and(|last| **id <= last));
        let slice: Vec<VirtualServerId> = after.chain(before).take(SLICE).copied().collect();
        slice.iter().for_each(|id| {
            self.ids.remove(id);
        });
        self.last = slice.last().copied();
        slice
    }

    pub(super) fn contains(&self, id: &VirtualServerId) -> bool {
        self.ids.contains(id)
    }

    pub(super) fn clear(&mut self) {
        self.ids.clear();
    }
}

impl IpvsDataplane {
    /// What is left for later: real servers to be read, or to be checked until they have drained.
    pub(super) fn deferred(&self, now: Instant) -> Option<Deferred> {
        let draining = self.draining.deferred(now);
        if self.unread.ids.is_empty() {
            return draining;
        }
        let objects = draining.map_or(0, |draining| draining.objects);
        Some(Deferred { objects, after: PAUSE })
    }

    /// Reads the next slice and corrects it.
    pub(super) fn verify_next_slice(
        &mut self,
        held: &mut Held,
        written: &mut Written,
    ) -> Result<(), BackendError> {
        let slice: Vec<VirtualServerId> =
            self.unread.next_slice().into_iter().filter(|id| held.services.contains_key(id)).collect();
        if slice.is_empty() {
            return Ok(());
        }
        let read = self.kernel.servers.all_real_servers(&slice);
        let read =
            read.map_err(|error| BackendError::new("reading the state of ipvs mode").caused_by(error))?;
        for (id, servers) in slice.iter().zip(read) {
            if let Some(service) = held.services.get_mut(id) {
                service.servers = servers.into_iter().map(held_server).collect();
            }
        }
        self.forget_drained(held);
        let touched = Touched { services: slice.into_iter().collect(), ..Touched::default() };
        let withheld = self.withheld(held);
        let comparison = Comparison {
            wanted: &self.wanted,
            held,
            draining: &self.draining,
            excluded: &self.excluded,
            withheld: &withheld,
        };
        written.found.edit(&Edit::of_touched(&comparison, &touched), &self.specs);
        self.write(held, Some(&touched), withheld, written)
    }
}
