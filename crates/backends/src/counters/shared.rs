//! One reading for all who ask: at most one a second, however many do.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ferrule_kernel::threads;
use ferrule_model::ServicePortName;

use super::{ConnectionCounters, Count, PlanChange, Selected, Selection, Traffic};
use crate::{BackendError, Note, Severity};

/// How old a reading may be.
const MAX_AGE: Duration = Duration::from_secs(1);
/// How often counters are read if no one asks.
const KEEP_UP_INTERVAL: Duration = Duration::from_mins(5);
/// Endpoints listed for each Service port that may be counted, on average. Those without connections are left out first.
pub(super) const ENDPOINTS_PER_PORT: usize = 16;

/// What was counted, by Service port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CounterReading {
    /// Every Service port that is counted, in the order of their names.
    pub services: Vec<ServiceCount>,
    /// Service ports that are not, because of the limit.
    pub omitted: usize,
}

/// What was counted for a Service port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceCount {
    /// The Service port.
    pub service: ServicePortName,
    /// Its connections, also those to endpoints that are gone.
    pub connections: u64,
    /// Packets and bytes, if the mode has them for nothing.
    pub traffic: Option<Traffic>,
    /// Its endpoints, and those that left not long ago, in order.
    pub endpoints: Vec<EndpointCount>,
}

/// What was counted for an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointCount {
    /// The endpoint.
    pub endpoint: SocketAddr,
    /// Its connections.
    pub connections: u64,
    /// Packets and bytes, if the mode has them for nothing.
    pub traffic: Option<Traffic>,
}

/// Counters of a running proxy: the loop tells what is counted, anyone may ask.
pub struct SharedReading {
    counters: Box<dyn ConnectionCounters>,
    selection: Mutex<Selection>,
    max_endpoints: usize,
    /// Whether the first plan was passed on. Before that nothing is read: what an earlier run counted would be taken for what is
    /// no longer wanted.
    has_followed: AtomicBool,
    last: Mutex<Option<(Instant, Arc<CounterReading>)>>,
    /// Dropped with it, which ends the thread of [`Self::keep_up`].
    ended: Mutex<Option<Sender<()>>>,
}

impl SharedReading {
    /// Counts so many Service ports at most.
    pub fn new(counters: Box<dyn ConnectionCounters>, selection: Selection, limit: usize) -> Self {
        let max_endpoints = limit.saturating_mul(ENDPOINTS_PER_PORT);
        let (last, ended) = (Mutex::default(), Mutex::default());
        let (selection, has_followed) = (Mutex::new(selection), AtomicBool::new(false));
        Self { counters, selection, max_endpoints, has_followed, last, ended }
    }

    /// Reads periodically though no one asks, on a thread of its own: counters of what is gone do not pile up, and little is lost
    /// if another program removes them.
    pub fn keep_up(self: &Arc<Self>) -> io::Result<()> {
        let (sender, ended) = mpsc::channel::<()>();
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        let counters = Arc::downgrade(self);
        let work = move || {
            while matches!(ended.recv_timeout(KEEP_UP_INTERVAL), Err(RecvTimeoutError::Timeout)) {
                let Some(counters) = counters.upgrade() else { return };
                // What is wrong is reported to the one that asks next.
                drop(counters.get());
            }
        };
        threads::spawn("counters", work).map(drop)
    }

    /// Takes over a change of the plan. Called by the loop before it is written.
    pub fn follow(&self, change: &PlanChange<'_>) -> Vec<Note> {
        let (selected, omitted, has_begun) = {
            let mut selection = self.selection();
            let before = selection.omitted();
            let selected = selection.follow(change);
            (selected, (before, selection.omitted()), selection.has_begun())
        };
        if !has_begun {
            return Vec::new();
        }
        let mut notes = self.counters.follow(&selected);
        self.has_followed.store(true, Ordering::Release);
        notes.extend(about_omitted(omitted));
        notes
    }

    /// What was counted so far; a reading that another asked for less than a second ago will do. Nothing before the first plan.
    pub fn get(&self) -> Result<Arc<CounterReading>, BackendError> {
        if !self.has_followed.load(Ordering::Acquire) {
            return Ok(Arc::default());
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, reading)) = &*last
            && at.elapsed() < MAX_AGE
        {
            return Ok(Arc::clone(reading));
        }
        let reading = Arc::new(self.read()?);
        *last = Some((Instant::now(), Arc::clone(&reading)));
        Ok(reading)
    }

    fn read(&self) -> Result<CounterReading, BackendError> {
        let (selected, omitted) = {
            let selection = self.selection();
            (selection.selected(), selection.omitted())
        };
        let counts = self.counters.read(&selected)?;
        Ok(CounterReading { services: added_up(&selected, &counts, self.max_endpoints), omitted })
    }

    fn selection(&self) -> MutexGuard<'_, Selection> {
        self.selection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn about_omitted((before, now): (usize, usize)) -> Option<Note> {
    (before == 0 && now > 0).then(|| {
        let message = "More Service ports ask to be counted than --service-counters-limit allows, the rest is not counted";
        let note = Note::new(Severity::Warning, message).with_detail(format!("{now} Service ports"));
        note.as_event("FerruleCountersLimit")
    })
}

/// Connections and traffic of one series.
#[derive(Clone, Copy, Default)]
struct Sum {
    connections: u64,
    traffic: Option<Traffic>,
}

impl Sum {
    fn add(&mut self, count: &Count) {
        self.connections = self.connections.saturating_add(count.connections);
        if let Some(Traffic { packets, bytes }) = count.traffic {
            let sum = self.traffic.get_or_insert_default();
            sum.packets = sum.packets.saturating_add(packets);
            sum.bytes = sum.bytes.saturating_add(bytes);
        }
    }
}

/// By Service port: its own, and those of its endpoints.
type Sums = BTreeMap<ServicePortName, (Sum, BTreeMap<SocketAddr, Sum>)>;

fn added_up(selected: &Selected, counts: &[Count], max_endpoints: usize) -> Vec<ServiceCount> {
    let mut services: Sums = selected.ports().map(|owner| (owner.clone(), Default::default())).collect();
    for count in counts {
        let Some((sum, endpoints)) = services.get_mut(&count.owner) else { continue };
        match count.endpoint {
            Some(endpoint) => endpoints.entry(endpoint).or_default().add(count),
            None => sum.add(count),
        }
    }
    forget_departed(selected, &mut services, max_endpoints);
    let listed: usize = services.values().map(|(_, endpoints)| endpoints.len()).sum();
    let mut room = max_endpoints.saturating_sub(listed);
    for (owner, (_, endpoints)) in &mut services {
        for endpoint in selected.endpoints(owner) {
            if room > 0 && !endpoints.contains_key(&endpoint) {
                endpoints.insert(endpoint, Sum::default());
                room -= 1;
            }
        }
    }
    services.into_iter().map(|(service, sums)| service_count(service, sums)).collect()
}

/// Endpoints that left are listed as long as there is room.
fn forget_departed(selected: &Selected, services: &mut Sums, max_endpoints: usize) {
    let listed: usize = services.values().map(|(_, endpoints)| endpoints.len()).sum();
    if listed > max_endpoints {
        for (owner, (_, endpoints)) in services {
            let in_use = selected.endpoints(owner);
            endpoints.retain(|endpoint, _| in_use.contains(endpoint));
        }
    }
}

fn service_count(
    service: ServicePortName,
    (sum, endpoints): (Sum, BTreeMap<SocketAddr, Sum>),
) -> ServiceCount {
    let endpoint =
        |(endpoint, Sum { connections, traffic })| EndpointCount { endpoint, connections, traffic };
    ServiceCount {
        service,
        connections: sum.connections,
        traffic: sum.traffic,
        endpoints: endpoints.into_iter().map(endpoint).collect(),
    }
}

#[cfg(test)]
mod tests;
