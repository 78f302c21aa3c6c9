//! When enough is known of a cluster to act on it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ferrule_model::ObjectKind;

/// Services, EndpointSlices or Endpoints, ServiceCIDRs, Nodes.
const ALL_KINDS: usize = 4;
/// One of them is listed, by what the API server has.
const ENDPOINT_KINDS: [ObjectKind; 2] = [ObjectKind::EndpointSlice, ObjectKind::Endpoints];
/// Once Services and endpoints are listed, the other kinds get this long.
const MAX_WAIT_FOR_OTHER_KINDS: Duration = Duration::from_secs(5);

/// Which kinds finished their initial list. Syncing earlier would delete rules of Services that are not listed yet.
#[derive(Debug, Default)]
pub(super) struct Gate {
    listed: BTreeSet<ObjectKind>,
    /// Since when Services and their endpoints are listed.
    essentials_since: Option<Instant>,
}

impl Gate {
    /// The initial list of a kind is complete.
    pub fn pass(&mut self, kind: ObjectKind, now: Instant) {
        self.listed.insert(kind);
        if self.listed.contains(&ObjectKind::Service)
            && ENDPOINT_KINDS.iter().any(|kind| self.listed.contains(kind))
        {
            self.essentials_since.get_or_insert(now);
        }
    }

    /// Whether it does not open without this kind.
    pub fn waits_for(kind: ObjectKind) -> bool {
        kind == ObjectKind::Service || ENDPOINT_KINDS.contains(&kind)
    }

    /// When syncs may begin. A kind that cannot be listed (an API server may refuse us ServiceCIDRs) must not keep the rest from
    /// being served.
    pub fn opens_at(&self) -> Option<Instant> {
        let since = self.essentials_since?;
        Some(if self.listed.len() == ALL_KINDS { since } else { since + MAX_WAIT_FOR_OTHER_KINDS })
    }
}
