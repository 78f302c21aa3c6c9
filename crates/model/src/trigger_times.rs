//! When the changes we are about to program were made, for the network programming latency.
//!
//! Only gathers; the latency is observed by the binary after a successful sync.

use std::collections::BTreeMap;

use crate::{IpFamily, ServiceName, Timestamp};

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

    /// Notes the time of a change to a Service's endpoints.
    pub fn record(&mut self, service: &ServiceName, family: IpFamily, time: Option<Timestamp>) {
        if let Some(time) = time.filter(|time| *time > self.started) {
            self.times.entry(service.clone()).or_default().push((family, time));
        }
    }

    /// Drops a Service's times of a family: one of its slices went away, and with it the change they belong to.
    pub fn discard(&mut self, service: &ServiceName, family: IpFamily) {
        if let Some(times) = self.times.get_mut(service) {
            times.retain(|(other, _)| *other != family);
            if times.is_empty() {
                self.times.remove(service);
            }
        }
    }

    /// Hands over what was gathered.
    pub fn take(&mut self) -> BTreeMap<ServiceName, Vec<(IpFamily, Timestamp)>> {
        std::mem::take(&mut self.times)
    }
}
