//! What a proxy would know of a folder of manifests or of a cluster, without one that runs.
//!
//! Settings come from the flags of the command that asks. The kernel is read only if that is wanted: the question may be about
//! another node.

use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use ferrule_backends::Backend;
use ferrule_config::resolve::{NodeAddresses, resolve_node_name};
use ferrule_config::settings::Settings;
use ferrule_kernel::interfaces;
use ferrule_model::{Cluster, IpFamily, NodeName, PerFamily, with_causes};
use ferrule_plan::NodePlan;
use ferrule_watch::server::{ServerSource, SourceEvent};

use super::gate::Gate;
use super::inspect::Snapshot;
use super::source::{EventQueue, Source, server_configuration};
use super::start::{MAX_QUEUED_EVENTS, host_name};
use super::view::{Site, mode_options, node_view};
use crate::questions::{QuestionError, diff};

/// Services and endpoints must be listed by then.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// What failed is tried again for this long.
const RETRY_TIMEOUT: Duration = Duration::from_secs(3);

/// Whether the question is about this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelUse {
    /// The addresses are those of the Node object, and the kernel is not read.
    None,
    /// The addresses are those of this host, and its kernel can be compared.
    ThisHost,
}

/// Plans what a folder or an API server says. Writes nothing anywhere.
pub fn snapshot(
    settings: &Settings,
    mut backend: Box<dyn Backend>,
    source: &Source,
    kernel: KernelUse,
) -> Result<Snapshot, QuestionError> {
    let failed = |error: &dyn std::error::Error| QuestionError(with_causes(error));
    let name = resolve_node_name(&settings.node_name, &host_name()).map_err(|error| failed(&error))?;
    let cluster = match source {
        Source::Manifests(folder) => diff::cluster_of_folder(folder, &name, &Cluster::default())?,
        Source::Server { program } => listed(settings, &name, program)?,
    };
    let node = cluster.node().map(NodeAddresses::from_node).unwrap_or_default();
    let families = match kernel {
        KernelUse::None => IpFamily::BOTH.to_vec(),
        KernelUse::ThisHost => usable(&mut *backend)?,
    };
    let interface_addresses = match kernel {
        KernelUse::None => node.host_ips.iter().copied().collect(),
        KernelUse::ThisHost => {
            let found = interfaces::node_addresses().map_err(|error| failed(&error))?;
            found.into_iter().map(|found| found.address).collect()
        }
    };
    let options = mode_options(settings, &node.host_ips);
    let view = node_view(settings, &options, &*backend, &Site { name, families, interface_addresses });
    let (plan, diagnostics) = ferrule_plan::plan(&cluster, &view);
    Ok(Snapshot {
        mode: settings.mode,
        cluster: Arc::new(cluster),
        plan: Arc::<NodePlan>::new(plan),
        view: Arc::new(view),
        families: PerFamily::default(),
        unreachable: BTreeMap::new(),
        has_pending_changes: false,
        diagnostics,
        is_shadow: backend.is_shadow(),
        reader: backend.reader(&options).filter(|_| kernel == KernelUse::ThisHost),
    })
}

/// What an API server lists. A kind that it does not list in time is left out, unless nothing can be said without it.
fn listed(settings: &Settings, name: &NodeName, program: &str) -> Result<Cluster, QuestionError> {
    let (events_tx, events) = mpsc::sync_channel(MAX_QUEUED_EVENTS);
    let sink = move |event| {
        // A closed queue means that enough is known.
        let _ = events_tx.send(event);
    };
    let source = ServerSource::start(&server_configuration(settings, program), name, sink);
    // It may wait for room in the queue when it is dropped, so the queue goes first.
    let queue =
        EventQueue { source: source.map_err(|error| QuestionError(with_causes(&error)))?, events_rx: events };
    let (mut cluster, mut gate) = (Cluster::default(), Gate::default());
    let mut give_up_at = Instant::now() + LIST_TIMEOUT;
    let mut problem = "no answer".to_owned();
    loop {
        let until = gate.opens_at().unwrap_or(give_up_at);
        match queue.events_rx.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(SourceEvent::Changes(batch)) => {
                for change in batch.changes {
                    cluster.apply(change);
                }
            }
            Ok(SourceEvent::InSync(kind)) => gate.pass(kind, Instant::now()),
            Ok(SourceEvent::WatchFailed { kind, message }) if Gate::waits_for(kind) => {
                problem = message;
                give_up_at = give_up_at.min(Instant::now() + RETRY_TIMEOUT);
            }
            Ok(SourceEvent::WatchRecovered { kind }) if Gate::waits_for(kind) => {
                give_up_at = Instant::now() + LIST_TIMEOUT;
            }
            Ok(
                SourceEvent::WatchFailed { .. }
                | SourceEvent::WatchRecovered { .. }
                | SourceEvent::MassRemoval(_),
            ) => {}
            Err(_) if gate.opens_at().is_some() => return Ok(cluster),
            Err(_) => return Err(QuestionError(format!("asking the API server: {problem}"))),
        }
    }
}

/// The families that the mode can serve here.
fn usable(backend: &mut dyn Backend) -> Result<Vec<IpFamily>, QuestionError> {
    let probe = backend.probe();
    let works = |family: &IpFamily| matches!(probe.families.get(*family), Some(Ok(())));
    let usable: Vec<IpFamily> = IpFamily::BOTH.into_iter().filter(works).collect();
    if usable.is_empty() {
        let why = IpFamily::BOTH.into_iter().find_map(|family| probe.families.get(family)?.as_ref().err());
        let why = why.map_or_else(|| "no family works".to_owned(), |error| with_causes(error));
        return Err(QuestionError(format!("the kernel cannot be read: {why}")));
    }
    Ok(usable)
}
