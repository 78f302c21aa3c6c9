//! Real servers are read in slices: the kernel lists them with one request for each virtual server, and a change that comes
//! meanwhile is not to wait for thousands of them.
//!
//! A verification reads everything else and the first slice; what is left is read by [`crate::Dataplane::run_deferred`].

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ferrule_kernel::ipvs::VirtualServerId;
use ferrule_kernel::netlink::NetlinkError;

use super::dataplane::IpvsDataplane;
use super::edit::{Comparison, Edit};
use super::kernel::{Held, held_server, unreadable};
use super::wanted::Touched;
use super::write::Written;
use crate::{BackendError, Deferred};

/// How many virtual servers' real servers are read in one go.
pub(super) const SLICE: usize = 256;
/// Between two slices, for whatever else waits for the processor.
const PAUSE: Duration = Duration::from_millis(10);
/// Slices take one part in this many of the time.
const DUTY_CYCLE: u32 = 10;
/// After a slice in which something was repaired: another program may go on breaking things.
const PAUSE_AFTER_REPAIR: Duration = Duration::from_millis(500);

/// The virtual servers whose real servers are still to be read.
#[derive(Debug, Default)]
pub(super) struct Unread {
    ids: BTreeSet<VirtualServerId>,
    /// When the next slice is due, whatever is synced meanwhile. None: now.
    due: Option<Instant>,
    /// Where the last slice ended, so that verifications that follow each other closely come round.
    last: Option<VirtualServerId>,
}

impl Unread {
    /// Begins again with these; the first slice is read by the caller.
    pub(super) fn begin(&mut self, ids: BTreeSet<VirtualServerId>) {
        self.ids = ids;
        self.next_slice();
        self.due = Instant::now().checked_add(PAUSE);
    }

    /// Takes the next slice, from where the last one ended.
    fn next_slice(&mut self) -> Vec<VirtualServerId> {
        let after = self.ids.iter().filter(|id| self.last.is_none_or(|last| **id > last));
        let before = self.ids.iter().filter(|id| self.last.is_some_and(|last| **id <= last));
        let slice: Vec<VirtualServerId> = after.chain(before).take(SLICE).copied().collect();
        for id in &slice {
            self.ids.remove(id);
        }
        self.last = slice.last().copied();
        slice
    }

    pub(super) fn contains(&self, id: &VirtualServerId) -> bool {
        self.ids.contains(id)
    }

    pub(super) fn clear(&mut self) {
        self.ids.clear();
        self.due = None;
    }

    /// The next slice is due now.
    #[cfg(test)]
    pub(super) fn skip_pause(&mut self) {
        self.due = None;
    }

    fn is_due(&self, now: Instant) -> bool {
        !self.ids.is_empty() && self.due.is_none_or(|due| now >= due)
    }

    /// A slice was read and corrected in this time.
    fn rest(&mut self, took: Duration, has_repaired: bool) {
        let least = if has_repaired { PAUSE_AFTER_REPAIR } else { PAUSE };
        self.due = Instant::now().checked_add(least.max(took * (DUTY_CYCLE - 1)));
    }
}

impl IpvsDataplane {
    /// What is left for later: real servers to be read, or to be checked until they have drained.
    pub(super) fn deferred(&self, now: Instant) -> Option<Deferred> {
        let draining = self.draining.deferred(now);
        if self.unread.ids.is_empty() {
            return draining;
        }
        let until_slice = self.unread.due.map_or(Duration::ZERO, |due| due.saturating_duration_since(now));
        let Some(draining) = draining else { return Some(Deferred { objects: 0, after: until_slice }) };
        Some(Deferred { after: draining.after.min(until_slice), ..draining })
    }

    /// Reads the next slice and corrects it, if it is time.
    pub(super) fn verify_next_slice(
        &mut self,
        held: &mut Held,
        written: &mut Written,
    ) -> Result<(), BackendError> {
        let began = Instant::now();
        if !self.unread.is_due(began) {
            return Ok(());
        }
        let slice: Vec<VirtualServerId> =
            self.unread.next_slice().into_iter().filter(|id| held.services.contains_key(id)).collect();
        let services = self.read_slice(held, slice).map_err(unreadable)?;
        self.forget_drained(held);
        let found_before = written.found.len();
        self.correct(held, services, written)?;
        self.unread.rest(began.elapsed(), written.found.len() > found_before);
        Ok(())
    }

    /// Reads the real servers of these; returns them and those that turn out to be gone.
    fn read_slice(
        &mut self,
        held: &mut Held,
        slice: Vec<VirtualServerId>,
    ) -> Result<BTreeSet<VirtualServerId>, NetlinkError> {
        let read = self.kernel.servers.all_real_servers(&slice)?;
        let mut lost_all = false;
        for (id, servers) in slice.iter().zip(read) {
            if let Some(service) = held.services.get_mut(id) {
                lost_all |= servers.is_empty() && !service.servers.is_empty();
                service.servers = servers.into_iter().map(held_server).collect();
            }
        }
        let mut services: BTreeSet<VirtualServerId> = slice.into_iter().collect();
        if lost_all {
            // The kernel lists no real servers of a virtual server that is not there, and that is no error.
            let seen = self.kernel.servers.list()?.servers;
            let there: BTreeSet<VirtualServerId> = seen.iter().map(|seen| seen.server.id).collect();
            let gone: Vec<_> = held.services.keys().filter(|id| !there.contains(id)).copied().collect();
            for id in &gone {
                held.services.remove(id);
            }
            services.extend(gone);
        }
        Ok(services)
    }

    fn correct(
        &mut self,
        held: &mut Held,
        services: BTreeSet<VirtualServerId>,
        written: &mut Written,
    ) -> Result<(), BackendError> {
        let touched = Touched { services, ..Touched::default() };
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
