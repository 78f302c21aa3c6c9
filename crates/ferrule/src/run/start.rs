//! From settings to a running loop: everything is put together here.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender as Sender};
use std::time::Duration;

use ferrule_backends::counters::SharedReading;
use ferrule_backends::{Backend, BackendError, ModeChoice};
use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::profiling::heap;
use ferrule_kernel::{interfaces, subprocess, threads};
use ferrule_model::{IpFamily, NodeName};
use ferrule_watch::file::OpenError;
use tracing::{error, info};

use super::address_watch::{self, WatchError};
use super::awaiting_node::AwaitingNode;
use super::flows::{Cleaned, FlowCleaner};
use super::inspect::Inspector;
use super::observer::Observer;
use super::proxy::Proxy;
use super::serving::{Context, Serving};
use super::source::{ActiveSource, EventQueue, Source};
use super::view::{Site, mode_options, node_view};
use super::{Ended, Event, Loop, State, counters, host_support, notes, signals};
use crate::config_reload::LiveConfig;
use crate::descriptors;
use crate::events::{self, Recorder};
use crate::health::Eligibility;
use crate::host::{self, RealFiles};
use crate::http::connections::PortKind;
use crate::http::runtime::{BindError, HttpRuntime, Port};
use crate::http::{HealthHandler, InspectHandler, InspectSocket, MetricsHandler, PageOptions, ServiceChecks};
use crate::logging::LogHandle;
use crate::metrics::{Metrics, process};
use crate::status::Status;
use ferrule_config::resolve::{FamilyError, NodeAddresses, NodeNameError, NodeStartError, resolve_node_name};
use ferrule_config::settings::{Healthz, Settings};
use ferrule_model::with_causes;

/// How long the thread that watches the configuration file waits at a time.
const CONFIGURATION_WAIT: Duration = Duration::from_hours(1);

/// How many events may be queued. A source that is faster than the loop waits, instead of filling the memory.
pub(super) const MAX_QUEUED_EVENTS: usize = 256;

/// Why a run did not begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// This node has no name.
    #[error("finding out this node's name")]
    NodeName(#[from] NodeNameError),
    /// This node cannot be served.
    #[error("choosing IP families")]
    Families(#[from] FamilyError),
    /// Settings that cannot work here.
    #[error("{0}")]
    Unfit(String),
    /// The mode cannot work here.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The kernel does not answer.
    #[error("asking the kernel")]
    Kernel(#[from] NetlinkError),
    /// The folder of manifests cannot be watched.
    #[error("reading manifests")]
    Manifests(#[from] OpenError),
    /// The API server cannot be reached.
    #[error(transparent)]
    Server(#[from] ferrule_watch::server::StartError),
    /// The Node never came.
    #[error("waiting for this node's object")]
    Node(#[from] NodeStartError),
    /// Addresses cannot be watched.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// A port is taken.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A slip in the declaration of metrics.
    #[error("declaring metrics")]
    Metrics(#[from] prometheus::Error),
    /// A thread, a signal handler.
    #[error("starting threads")]
    Threads(#[source] io::Error),
}

/// What a run is made of.
pub struct Start {
    /// What the user wants.
    pub settings: Settings,
    /// The proxy mode.
    pub backend: Box<dyn Backend>,
    /// Where the objects come from.
    pub source: Source,
    /// The file that is watched, if there is one.
    pub configuration: Option<LiveConfig>,
    /// The configuration in effect, as `/configz` shows it.
    pub configz: String,
    /// All flags with their values.
    pub flags: Vec<(String, String)>,
    /// Who chose the mode.
    pub mode_choice: ModeChoice,
    /// The log.
    pub log: LogHandle,
}

/// Runs a proxy until a signal, or a configuration that needs a new process.
pub fn run(start: Start) -> Result<Ended, StartError> {
    let Start { settings, backend, source, configuration, configz, flags, mode_choice, log } = start;
    if settings.profiling {
        // Now or never: a heap profile does not know what was allocated before.
        heap::enable();
    }
    let (events_tx, events_rx) = mpsc::sync_channel(MAX_QUEUED_EVENTS);
    signals::listen(events_tx.clone(), log.clone(), backend.shutdown_grace()).map_err(StartError::Threads)?;
    let name = resolve_node_name(&settings.node_name, &host_name())?;
    let (recorder, queue) = events::channel(name.clone());
    let metrics = Metrics::new(&settings.gates, backend.metrics())?;
    let status = Arc::new(Status::new(metrics, recorder, configz, settings.sync.period));
    let active = source.open(&settings, &name, &events_tx, &status)?;
    let events = EventQueue { events_rx, source: active };
    if !backend.is_shadow() {
        events.source.send_events(queue, &host_name()).map_err(StartError::Threads)?;
    }
    // A Node that is not in the folder now is not waited for; one that comes later is adopted.
    let is_waited_for = match events.source {
        ActiveSource::Manifests => {
            // There is no cluster to take this node out of; a Node that is leaving still says so.
            status.health().set_eligibility(Eligibility::Yes);
            false
        }
        ActiveSource::Server(_) => true,
    };
    let starting =
        Starting { settings, name, backend, configuration, flags, mode_choice, events_tx, status, log };
    let awaiting = AwaitingNode::new(starting, is_waited_for);
    let ended = Loop { state: State::AwaitingNode(Box::new(awaiting)) }.run(&events.events_rx);
    // Programs that other threads wait for: nothing that we started goes on without us.
    subprocess::kill_all();
    ended
}

/// Sets what the mode needs of the host, without anything of the cluster, before a run that may set nothing.
pub fn prepare_host(backend: &mut dyn Backend, settings: &Settings) -> Result<(), StartError> {
    // Which of them is the node's does not matter: loopback is what is asked for, and none of these is.
    let addresses = interfaces::addresses()?.into_iter().map(|found| found.address);
    let host_ips: Vec<IpAddr> = addresses.filter(|ip| !ip.is_loopback()).collect();
    notes::log_all(&backend.prepare_host(&mode_options(settings, &host_ips))?);
    Ok(())
}

/// What is needed to begin serving, once the node is known.
pub(super) struct Starting {
    pub settings: Settings,
    pub name: NodeName,
    backend: Box<dyn Backend>,
    configuration: Option<LiveConfig>,
    flags: Vec<(String, String)>,
    mode_choice: ModeChoice,
    events_tx: Sender<Event>,
    status: Arc<Status>,
    log: LogHandle,
}

impl Starting {
    /// Finds out what works here, opens the dataplanes and the ports; the first sync is the loop's.
    pub(super) fn serve(mut self, node: &NodeAddresses) -> Result<Serving, StartError> {
        let settings = &self.settings;
        let families = host_support::probe(&mut *self.backend, settings, node)?;
        host_support::check(settings, node, families)?;
        let served = families.served();
        info!(mode = settings.mode.name(), node = %self.name, families = listed(&served), "Using proxier");
        if self.backend.is_shadow() {
            info!("Shadow mode: another proxy serves, nothing of this host is changed");
        } else {
            self.tune_host();
        }
        let options = mode_options(settings, &node.host_ips);
        notes::log_all(&self.backend.prepare_host(&options)?);
        // A mode that relays shares them out when it is opened.
        let shares = descriptors::raise_limit();
        let opened = self.backend.open(&served, &options)?;
        notes::report_all(&opened.notes, &self.status.events);
        for source in self.backend.scrape_sources() {
            self.status.metrics.add_source(source)?;
        }
        let counters = counters::open(&*self.backend, &served, settings.counters, &self.status)?;
        let http = HttpRuntime::start(shares).map_err(StartError::Threads)?;
        self.serve_pages(&http, counters.clone())?;
        let inspect_socket = self.serve_questions(&http, counters.clone());
        // Subscribed before the addresses are listed, so that no change is missed.
        address_watch::start(self.events_tx.clone())?;
        let interface_addresses: BTreeSet<IpAddr> =
            interfaces::node_addresses()?.into_iter().map(|found| found.address).collect();
        let site = Site { name: self.name.clone(), families: served.clone(), interface_addresses };
        let view = node_view(settings, &options, &*self.backend, &site);
        let checks =
            (!self.backend.is_shadow()).then(|| ServiceChecks::start(Arc::clone(&self.status), &http));
        let observer = Observer::new(Arc::clone(&self.status), checks, served);
        let mut proxy = Proxy::new(view, opened.dataplanes, self.flow_cleaner()?, observer);
        proxy.count_with(counters);
        self.status.events.record(events::starting(self.status.events.node()));
        if let Some(live) = self.configuration.take() {
            watch_configuration(live, self.events_tx.clone()).map_err(StartError::Threads)?;
        }
        let Self { settings, backend, events_tx, status, log, .. } = self;
        let drain_limit = settings.ipvs.drain_limit;
        let (events, sync) = (events_tx, settings.sync);
        let context = Context { events, status, log, sync, drain_limit, options, inspect_socket };
        Ok(Serving::new(proxy, backend, context))
    }

    /// Sets limits of the host, and warns about the mode.
    fn tune_host(&self) {
        let recorder: &Recorder = &self.status.events;
        if let Some(problem) = host::tune(&self.settings, &mut RealFiles) {
            recorder.record(events::host_setup_failed(recorder.node(), problem));
        }
        if let Some(advice) = self.backend.advice(self.mode_choice) {
            error!(problem = advice.text, "Configuration warning");
            recorder.record(events::mode_advice(recorder.node(), advice));
        }
    }

    /// Health and metrics, on their ports.
    fn serve_pages(
        &self,
        http: &HttpRuntime,
        counters: Option<Arc<SharedReading>>,
    ) -> Result<(), StartError> {
        let Self { settings, status, .. } = self;
        let recorded = |failure: BindError| {
            let problem = with_causes(&failure);
            let node = status.events.node();
            status.events.record(events::failed_to_start_server(node, failure.server(), problem));
            failure
        };
        if let Healthz::At(address) = settings.healthz {
            let handler = Arc::new(HealthHandler::new(Arc::clone(status)));
            let port = Port { name: "healthz", kind: PortKind::Health, address };
            http.serve(port, handler, settings.on_bind_failure).map_err(recorded)?;
        }
        let options = PageOptions {
            mode: settings.mode,
            flags: settings.gates.is_on("ComponentFlagz").then(|| self.flags.clone()),
            statusz: settings.gates.is_on("ComponentStatusz"),
            profiling: settings.profiling,
            started: process::started(),
            inspector: Some(Inspector::new(self.events_tx.clone())),
            status_page: settings.status_page,
            counters,
        };
        let connections = Arc::clone(&http.connections);
        let handler = MetricsHandler::new(Arc::clone(status), options, self.log.clone(), connections);
        let port = Port { name: "metrics", kind: PortKind::Metrics, address: settings.metrics };
        Ok(http.serve(port, Arc::new(handler), settings.on_bind_failure).map_err(recorded)?)
    }

    /// Answers to commands, on a unix socket.
    fn serve_questions(
        &self,
        http: &HttpRuntime,
        counters: Option<Arc<SharedReading>>,
    ) -> Option<InspectSocket> {
        let path = self.settings.inspect_socket.clone()?;
        let inspector = Inspector::new(self.events_tx.clone());
        let history = Arc::clone(&self.status.history);
        let handler = InspectHandler::on_socket(inspector, history).with_counters(counters);
        Some(InspectSocket::serve(path, handler, http))
    }

    fn flow_cleaner(&self) -> Result<FlowCleaner, StartError> {
        let status = Arc::clone(&self.status);
        let report = move |done: Cleaned| status.metrics.flows_cleaned(done.family, done.took, done.deleted);
        FlowCleaner::start(report).map_err(StartError::Threads)
    }
}

fn watch_configuration(mut live: LiveConfig, events: Sender<Event>) -> io::Result<()> {
    let work = move || {
        loop {
            if let Some(reload) = live.next(CONFIGURATION_WAIT)
                && events.send(Event::Reload(reload)).is_err()
            {
                return;
            }
        }
    };
    threads::spawn("configuration", work).map(drop)
}

pub(super) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn listed(families: &[IpFamily]) -> String {
    families.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
