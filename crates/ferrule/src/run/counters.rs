//! Opens the counters of connections, if the settings ask for them.

use std::sync::Arc;

use ferrule_backends::Backend;
use ferrule_backends::counters::{self, Selection, SharedReading, TableCounters};
use ferrule_config::settings::{CountedServices, CounterSettings};
use ferrule_model::{Cluster, IpFamily, ServiceName, with_causes};
use tracing::{info, warn};

use super::start::StartError;
use crate::status::Status;

/// The counters of this run. Without any, those of an earlier one are removed.
pub(super) fn open(
    backend: &dyn Backend,
    families: &[IpFamily],
    settings: CounterSettings,
    status: &Status,
) -> Result<Option<Arc<SharedReading>>, StartError> {
    let services = match settings.services {
        CountedServices::Off => {
            remove_unused(backend, &[]);
            return Ok(None);
        }
        CountedServices::Labelled => counters::CountedServices::Labelled,
        CountedServices::All => counters::CountedServices::All,
    };
    // Another mode may have used them, or a family that is no longer served.
    remove_unused(backend, if backend.counts_in_tables() { families } else { &[] });
    let opened = match backend.counters(families, settings.limit) {
        Ok(opened) => opened,
        // Counting is no reason not to serve.
        Err(error) => {
            warn!(err = with_causes(&error), "Connections are not counted");
            return Ok(None);
        }
    };
    let selection = Selection::new(services, settings.limit);
    let reading = Arc::new(SharedReading::new(opened, selection, settings.limit));
    reading.keep_up().map_err(StartError::Threads)?;
    status.metrics.add_counters(Arc::clone(&reading))?;
    Ok(Some(reading))
}

/// Whether a Service of this cluster asks to be counted.
pub(super) fn asks(cluster: &Cluster) -> impl Fn(&ServiceName) -> bool {
    |name| {
        let service = cluster.service(name).and_then(|state| state.service());
        service.is_some_and(|service| service.is_counted)
    }
}

/// Removes tables of an earlier run, but for those of these families.
fn remove_unused(backend: &dyn Backend, used: &[IpFamily]) {
    if backend.is_shadow() {
        return;
    }
    match TableCounters::remove_others(used) {
        Ok(0) => {}
        Ok(tables) => info!(tables, "Removed the counters of an earlier run"),
        Err(error) => warn!(err = with_causes(&error), "Counters of an earlier run stay"),
    }
}
