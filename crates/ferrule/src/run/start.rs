//! From settings to a running loop: what this machine can do, who this node is, then everything is put together.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender as Sender};
use std::time::Duration;

use ferrule_backends::Dataplane;
use ferrule_backends::iptables::LocalnetError;
use ferrule_backends::nftables::Reconciler;
use ferrule_kernel::interfaces;
use ferrule_kernel::iptables::IptablesError;
use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::nft::{Family, NftClient};
use ferrule_kernel::probe::Unusable;
use ferrule_kernel::profiling::heap;
use ferrule_kernel::subprocess;
use ferrule_model::{IpFamily, PerFamily};
use ferrule_watch::file::OpenError;
use tracing::{error, info};

use super::check_schedule::CheckSchedule;
use super::drift::{self, ListenError};
use super::flows::{Cleaned, FlowCleaner};
use super::iptables::{self, Checks, Served};
use super::leftovers;
use super::localnet::Localnet;
use super::machine::Usable;
use super::observer::Observer;
use super::proxy::Proxy;
use super::source::{self, Intake, Running, Source};
use super::view::{Site, node_view};
use super::{Ended, Event, Loop, machine, signals};
use crate::causes::with_causes;
use crate::config::live::LiveConfig;
use crate::descriptors;
use crate::events::{self, Occasion, Recorder};
use crate::health::Eligibility;
use crate::host::{self, RealFiles};
use crate::http::connections::PortKind;
use crate::http::hosting::{BindError, Hosting, Port};
use crate::http::{Facts, HealthPages, MetricsPages, ServiceChecks};
use crate::logging::LogHandle;
use crate::metrics::{Metrics, process};
use crate::resolve::{FamilyError, NodeFacts, NodeNameError, NodeStartError, resolve_node_name};
use crate::settings::{Healthz, ProxyMode, Settings};
use crate::status::Status;
use crate::threads;

/// How long the thread that watches the configuration file waits at a time.
const CONFIGURATION_PATIENCE: Duration = Duration::from_hours(1);

/// How many events may wait. A source that is faster than the loop waits too, instead of filling the memory.
const INBOX: usize = 256;

/// What keeps the rules of each family.
type Dataplanes = PerFamily<Box<dyn Dataplane>>;

/// Why a run did not begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The part that serves in this mode does not exist yet.
    #[error("proxy mode {} is not built yet in this version of Ferrule, use --proxy-mode=nftables", .0.name())]
    ModeNotBuilt(ProxyMode),
    /// This node has no name.
    #[error("finding out this node's name")]
    NodeName(#[from] NodeNameError),
    /// This node cannot be served.
    #[error("choosing IP families")]
    Families(#[from] FamilyError),
    /// Settings that cannot work here.
    #[error("{0}")]
    Unfit(String),
    /// The kernel lacks something, or does not let us.
    #[error("preparing nftables mode")]
    Unusable(#[from] Unusable),
    /// The iptables programs lack something, or do not work.
    #[error("preparing iptables mode")]
    Iptables(#[source] IptablesError),
    /// NodePorts cannot be served on loopback addresses.
    #[error("preparing NodePorts on localhost; --iptables-localhost-nodeports=false does without them")]
    Loopback(#[source] LocalnetError),
    /// The kernel does not answer.
    #[error("asking the kernel")]
    Kernel(#[from] NetlinkError),
    /// The folder of manifests cannot be watched.
    #[error("reading manifests")]
    Manifests(#[from] OpenError),
    /// The API server cannot be reached so.
    #[error(transparent)]
    Server(#[from] ferrule_watch::server::StartError),
    /// The Node never came.
    #[error("waiting for this node's object")]
    Node(#[from] NodeStartError),
    /// Nobody listens to the kernel.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A port cannot be had.
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
    /// Where the objects come from.
    pub source: Source,
    /// The file that is watched, if there is one.
    pub configuration: Option<LiveConfig>,
    /// The configuration in effect, as `/configz` shows it.
    pub configz: String,
    /// All flags with their values.
    pub flags: Vec<(String, String)>,
    /// Whether nobody chose the mode.
    pub mode_was_unset: bool,
    /// The log.
    pub log: LogHandle,
}

/// Runs a proxy until it is told to end.
pub fn run(start: Start) -> Result<Ended, StartError> {
    let Start { settings, source, configuration, configz, flags, mode_was_unset, log } = start;
    let settings = &settings;
    if !matches!(settings.mode, ProxyMode::Nftables | ProxyMode::Iptables) {
        return Err(StartError::ModeNotBuilt(settings.mode));
    }
    if settings.profiling {
        // Now or never: what is allocated before is not known to a heap profile.
        heap::begin();
    }
    let (inlet, inbox) = mpsc::sync_channel(INBOX);
    signals::listen(inlet.clone(), log.clone()).map_err(StartError::Threads)?;
    let name = resolve_node_name(&settings.node_name, &host_name())?;
    let (recorder, queue) = events::channel(name.clone());
    let status = status(settings, configz, recorder)?;
    let intake = Intake { inbox, source: source.open(settings, &name, (&inlet, &status))? };
    intake.source.send_events(queue, &host_name()).map_err(StartError::Threads)?;
    let Some((node, told)) = source::await_node(&intake, settings, &name)? else {
        return Ok(Ended::Signal("before it began"));
    };
    let usable = machine::usable(settings, &node)?;
    let families = usable.families();
    machine::check(settings, &node, families)?;
    info!(mode = settings.mode.name(), node = %name, families = listed(&families.served()), "Using proxier");
    prepare(settings, mode_was_unset, &status.events);
    let programs = usable.programs();
    let schedule = Arc::new(CheckSchedule::new(settings.sync.period));
    let checks = Checks { events: &inlet, schedule: &schedule, status: &status };
    let (dataplanes, localnet) = match usable {
        Usable::Nftables(_) => (dataplanes(&families.served())?, None),
        Usable::Iptables(_, served) => iptables_dataplanes((settings, &node), served, &checks)?,
    };
    if matches!(intake.source, Running::Manifests) {
        // Nobody takes a node out of a cluster there is not; a Node that is leaving still says so.
        status.health().set_eligibility(Eligibility::Yes);
    }
    let own = dataplanes.iter().filter_map(|(_, dataplane)| dataplane.own_address()).collect();
    let hosting = Hosting::start(descriptors::raise_limit()).map_err(StartError::Threads)?;
    serve_pages(settings, &status, &hosting, (flags, log.clone()))?;
    let site = Site { name, families: families.served(), interface_addresses: BTreeSet::new() };
    let proxy = proxy(settings, site, dataplanes, (&inlet, &status, &hosting))?;
    status.events.record(events::starting(status.events.node()));
    if let Some(live) = configuration {
        watch_configuration(live, inlet.clone()).map_err(StartError::Threads)?;
    }
    let leftover_status = Arc::clone(&status);
    let (mode, period) = (settings.mode, settings.sync.period);
    // New rules are complete before old ones go, so that no connection meets a node without rules.
    let clean_up = move || leftovers::remove(mode, programs, (period, leftover_status));
    let mut running = Loop::new(proxy, &settings.sync, log)
        .checking_by(schedule)
        .with_localnet(localnet)
        .after_first_try(move || drift::listen_to_rules(own, inlet))
        .after_first_sync(clean_up);
    let ended = running.run(told, &intake.inbox);
    // Programs that other threads wait for: nothing that we started goes on without us.
    subprocess::end_all();
    Ok(ended)
}

/// Sets what is to be set on the host, and tells what somebody should know before anything is served.
fn prepare(settings: &Settings, mode_was_unset: bool, recorder: &Recorder) {
    let node = recorder.node();
    if let Some(problem) = host::tune(settings, &mut RealFiles) {
        recorder.record(events::untuned(node, problem));
    }
    if mode_was_unset && settings.mode == ProxyMode::Iptables {
        tell(recorder, events::mode_by_default(node));
    }
    if settings.mode == ProxyMode::Ipvs {
        tell(recorder, events::ipvs_is_deprecated(node));
    }
}

/// In the log and in an Event.
fn tell(recorder: &Recorder, occasion: Occasion) {
    error!(problem = occasion.told(), "Somebody should look at the configuration");
    recorder.record(occasion);
}

fn status(settings: &Settings, configz: String, events: Recorder) -> Result<Arc<Status>, StartError> {
    let metrics = Metrics::new(&settings.gates)?;
    Ok(Arc::new(Status::new(metrics, (configz, settings.sync.period), events)))
}

/// Health and metrics, on their ports.
fn serve_pages(
    settings: &Settings,
    status: &Arc<Status>,
    hosting: &Hosting,
    (flags, log): (Vec<(String, String)>, LogHandle),
) -> Result<(), StartError> {
    let told = |failure: BindError| {
        let problem = with_causes(&failure);
        status.events.record(events::failed_to_start_server(status.events.node(), failure.server(), problem));
        failure
    };
    if let Healthz::At(address) = settings.healthz {
        let pages = Arc::new(HealthPages::new(Arc::clone(status)));
        let port = Port { name: "healthz", kind: PortKind::Health, address };
        hosting.serve(port, pages, settings.on_bind_failure).map_err(told)?;
    }
    let facts = Facts {
        mode: settings.mode,
        flags: settings.gates.is_on("ComponentFlagz").then_some(flags),
        statusz: settings.gates.is_on("ComponentStatusz"),
        profiling: settings.profiling,
        started: process::started(),
    };
    let pages = MetricsPages::new(Arc::clone(status), facts, log, Arc::clone(&hosting.connections));
    let port = Port { name: "metrics", kind: PortKind::Metrics, address: settings.metrics };
    Ok(hosting.serve(port, Arc::new(pages), settings.on_bind_failure).map_err(told)?)
}

fn proxy(
    settings: &Settings,
    mut site: Site,
    dataplanes: Dataplanes,
    (events, status, hosting): (&Sender<Event>, &Arc<Status>, &Hosting),
) -> Result<Proxy, StartError> {
    // Before the addresses are listed, so that no change is missed.
    drift::listen_to_addresses(events.clone())?;
    site.interface_addresses = interfaces::addresses()?.into_iter().map(|found| found.address).collect();
    let told = Arc::clone(status);
    let report = move |done: Cleaned| told.metrics.flows_cleaned(done.family, done.took, done.deleted);
    let flows = FlowCleaner::start(report).map_err(StartError::Threads)?;
    let checks = ServiceChecks::start(Arc::clone(status), hosting);
    let observer = Observer::new(Arc::clone(status), checks, site.families.clone());
    Ok(Proxy::new(node_view(settings, &site), dataplanes, flows, observer))
}

fn iptables_dataplanes(
    (settings, node): (&Settings, &NodeFacts),
    served: Served,
    checks: &Checks<'_>,
) -> Result<(Dataplanes, Option<Localnet>), StartError> {
    let begin = |programs| Localnet::begin(programs, settings, &node.host_ips);
    let localnet = served.get(IpFamily::V4).copied().map(begin).transpose().map_err(StartError::Loopback)?;
    let host = iptables::host(localnet.as_ref());
    checks.status.metrics.count_packets(&host.counters())?;
    let dataplanes = iptables::dataplanes(served, host, checks).map_err(StartError::Threads)?;
    Ok((dataplanes, localnet))
}

fn dataplanes(families: &[IpFamily]) -> Result<Dataplanes, NetlinkError> {
    let mut dataplanes = Dataplanes::default();
    // Both know which commits were ours, whichever family they were for.
    let mut v4 = Reconciler::new(NftClient::open(Family::Ip)?);
    let mut v6 = Reconciler::new(NftClient::open(Family::Ip6)?).beside(&v4);
    if v4.recall().and_then(|()| v6.recall()).is_err() {
        info!(v = 2, "What a former run left is not known, everything will be read");
    }
    if families.contains(&IpFamily::V4) {
        dataplanes.set(IpFamily::V4, Box::new(v4));
    }
    if families.contains(&IpFamily::V6) {
        dataplanes.set(IpFamily::V6, Box::new(v6));
    }
    Ok(dataplanes)
}

fn watch_configuration(mut live: LiveConfig, events: Sender<Event>) -> io::Result<()> {
    let work = move || {
        loop {
            if let Some(action) = live.next(CONFIGURATION_PATIENCE)
                && events.send(Event::Configuration(action)).is_err()
            {
                return;
            }
        }
    };
    threads::spawn("configuration", work).map(drop)
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn listed(families: &[IpFamily]) -> String {
    families.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
