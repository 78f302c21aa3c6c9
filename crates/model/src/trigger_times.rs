//! When the changes we are about to program were made, for the network programming latency.
//!
//! A queue, not state: the caller of [`Cluster::apply`](crate::Cluster::apply) keeps it beside the cluster. The binary observes
//! the latency after a successful sync.

use std::collections::BTreeMap;

use crate::{IpFamily, ServiceName, Timestamp};

/// What a change means for the trigger times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TriggerUpdate {
    /// A slice left this Service; its times in this family are void. Comes before `due`.
    pub void: Option<(ServiceName, IpFamily)>,
    /// Endpoints of this Service changed in this family, because of something that happened at this time.
    pub due: Option<(ServiceName, IpFamily, Timestamp)>,
}

/// The times of changes that have not been programmed yet, by Service, with the family that is to program them.
#[derive(Clone, Debug, Default)]
pub struct TriggerTimes {
    started: Timestamp,
    times: BTreeMap<ServiceName, Vec<(IpFamily, Timestamp)>>,
}

impl TriggerTimes {
    /// Nothing gathered yet; changes made up to `started` will not count, since we were not there to program them.
    pub fn since(started: Timestamp) -> Self {
        Self { started, times: BTreeMap::new() }
    }

    /// Takes over what a change means.
    pub fn update(&mut self, update: TriggerUpdate) {
        if let Some((service, family)) = update.void {
            self.discard(&service, family);
        }
        if let Some((service, family, time)) = update.due.filter(|(.., time)| *time > self.started) {
            self.times.entry(service).or_default().push((family, time));
        }
    }

    /// Hands over the times gathered since the last call.
    pub fn take(&mut self) -> BTreeMap<ServiceName, Vec<(IpFamily, Timestamp)>> {
        std::mem::take(&mut self.times)
    }

    fn discard(&mut self, service: &ServiceName, family: IpFamily) {
        if let Some(times) = self.times.get_mut(service) {
            times.retain(|(other, _)| *other != family);
            if times.is_empty() {
                self.times.remove(service);
            }
        }
    }
}
