//! NodePorts on 127.0.0.1 and ::1, for modes whose rules cannot serve them: this process listens there and relays.
//!
//! Beside the rules of the mode ([`Pair`]). Only clients with a loopback address are served, so nothing is
//! opened to the network, and `route_localnet` stays off.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferrule_model::{IpFamily, Protocol, ServicePortName, loopback_block, with_causes};
use ferrule_plan::{FamilyPlan, FrontendKey, LoopbackNodePorts, PoolScope, Shape};
use ferrule_relay::{Admission, Relay, RelayOptions};

use crate::metrics::{FAMILY, MetricDeclaration, MetricKind, Sample, count};
use crate::userspace::{
    PortalKey, PortalSpec, Portals, RESERVED_DESCRIPTORS, RelayLog, SocketError, open_socket,
};
use crate::{
    BackendError, Dataplane, ModeOptions, Note, Pair, Patch, Severity, SyncOutcome, SyncReport, Trigger,
};

/// How long a UDP client that sends nothing is remembered: as long as the kernel remembers one.
const UDP_IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// How soon a port that another process has is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// NodePorts that are served on a loopback address.
pub(crate) static LISTENERS: MetricDeclaration = MetricDeclaration {
    name: "kubeproxy_nftables_localhost_nodeport_listeners",
    help: "NodePorts that are served on localhost",
    kind: MetricKind::Gauge,
    labels: &[FAMILY],
};

/// Tries to listen on a port that another process has.
pub(crate) static FAILURES: MetricDeclaration = MetricDeclaration {
    name: "kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total",
    help: "NodePorts that could not be served on localhost because the port was in use, each time it was tried",
    kind: MetricKind::Counter,
    labels: &[FAMILY],
};

/// The threads that relay, started when the first port is served. Shared by clones.
#[derive(Clone, Default)]
pub(crate) struct LoopbackRelay {
    relay: Arc<Mutex<Option<Arc<Relay>>>>,
    pub log: RelayLog,
}

impl LoopbackRelay {
    fn started(&self) -> Result<Arc<Relay>, BackendError> {
        let mut relay = self.relay.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(relay) = &*relay {
            return Ok(Arc::clone(relay));
        }
        let log = self.log.clone();
        let options = RelayOptions {
            udp_idle_timeout: UDP_IDLE_TIMEOUT,
            reserved_descriptors: RESERVED_DESCRIPTORS,
            notes: Some(Arc::new(move |note| log.note(&note))),
            ..RelayOptions::default()
        };
        let failed = |error| BackendError::new("preparing NodePorts on localhost").caused_by(error);
        let started = Arc::new(Relay::start(options).map_err(failed)?);
        *relay = Some(Arc::clone(&started));
        Ok(started)
    }
}

/// What becomes of NodePorts on loopback addresses in modes whose rules cannot serve them.
pub(crate) fn node_ports(options: &ModeOptions) -> LoopbackNodePorts {
    if options.relayed_localhost_node_ports {
        LoopbackNodePorts::ForwardedOrRejected
    } else {
        LoopbackNodePorts::NotServed
    }
}

/// The rules of a mode, with what serves NodePorts on localhost beside them if that is asked for.
pub(crate) fn beside(
    rules: impl Dataplane + 'static,
    relay: &LoopbackRelay,
    family: IpFamily,
    options: &ModeOptions,
) -> Box<dyn Dataplane> {
    if options.relayed_localhost_node_ports {
        Box::new(Pair::new(rules, LoopbackDataplane::new(family, relay.clone())))
    } else {
        Box::new(rules)
    }
}

/// A NodePort of one family.
type Port = (Protocol, u16);

impl PortalKey for Port {}

/// One family's NodePorts on its loopback address.
pub(crate) struct LoopbackDataplane {
    family: IpFamily,
    relay: LoopbackRelay,
    /// Nothing before the first port is served.
    portals: Option<Portals<Port>>,
    /// Ports that another process had at the last sync.
    unavailable: BTreeSet<Port>,
    /// Whether everything was served after the last sync.
    is_in_sync: bool,
}

/// A port to serve.
struct Wanted {
    owner: ServicePortName,
    spec: PortalSpec,
}

impl LoopbackDataplane {
    pub(crate) fn new(family: IpFamily, relay: LoopbackRelay) -> Self {
        Self { family, relay, portals: None, unavailable: BTreeSet::new(), is_in_sync: false }
    }

    /// What the node wants on loopback, apart from what is refused: without a listener, the host refuses by itself.
    fn wanted(plan: &FamilyPlan) -> BTreeMap<Port, Wanted> {
        let mut wanted = BTreeMap::new();
        for (key, frontend) in plan.frontends() {
            let FrontendKey::LoopbackNodePort(protocol, port) = *key else { continue };
            let scope: PoolScope = match frontend.shape {
                Shape::OnePool { pool, .. } => pool,
                // The host goes to all endpoints.
                Shape::ShortCircuit { .. } => PoolScope::Cluster,
                Shape::Refuse(_) => continue,
            };
            let spec = PortalSpec::of_pool(plan.pool(&frontend.owner, scope).map(|pool| &**pool));
            wanted.insert((protocol, port), Wanted { owner: frontend.owner.clone(), spec });
        }
        wanted
    }

    fn portals(&mut self) -> Result<&mut Portals<Port>, BackendError> {
        let portals = if let Some(portals) = self.portals.take() {
            portals
        } else {
            // Where `route_localnet` is on, packets of others arrive at loopback addresses, too.
            let local = Admission::Ranges(vec![loopback_block(self.family)]);
            Portals::new(self.relay.started()?).admitting(local)
        };
        Ok(self.portals.insert(portals))
    }

    fn serve(&mut self, port: Port, spec: &PortalSpec) -> Result<bool, SocketError> {
        let address = SocketAddr::new(self.family.loopback(), port.1);
        let Some(portals) = &mut self.portals else { return Ok(false) };
        if portals.is_open(&port) {
            return Ok(portals.update(&port, spec));
        }
        portals.serve(port, open_socket(port.0, address)?, spec)?;
        Ok(true)
    }

    /// One Event when it begins, however often it is tried.
    fn unavailable(&self, port: Port, owner: &ServicePortName, error: &SocketError) -> Option<Note> {
        let message =
            "A NodePort is not served on localhost, another process has the port; it will be tried again";
        let note = Note::new(Severity::Warning, message).in_family(self.family);
        let detail = format!("{owner}: {}", with_causes(error));
        let is_new = !self.unavailable.contains(&port);
        is_new.then(|| note.with_detail(detail).as_event("LocalhostNodePortUnavailable"))
    }
}

/// Whether a change may be about ports on loopback. One of their pools is one of them.
fn concerns_loopback(trigger: Trigger<'_>) -> bool {
    let changed = trigger.changed();
    changed.node || changed.frontends.keys().any(|key| matches!(key, FrontendKey::LoopbackNodePort(..)))
}

impl Dataplane for LoopbackDataplane {
    fn sync(&mut self, plan: &FamilyPlan, trigger: Trigger<'_>) -> Result<SyncReport, BackendError> {
        if self.is_in_sync && !concerns_loopback(trigger) {
            return Ok(SyncReport::default());
        }
        let wanted = Self::wanted(plan);
        self.is_in_sync = wanted.is_empty() && self.portals.is_none();
        if self.is_in_sync {
            return Ok(SyncReport::default());
        }
        let family = self.family;
        self.portals().map_err(|error| error.in_family(family))?;
        let mut report = SyncReport::default();
        let mut unavailable = BTreeSet::new();
        for (port, Wanted { owner, spec }) in &wanted {
            match self.serve(*port, spec) {
                Ok(changed) => report.written += usize::from(changed),
                Err(error) => {
                    report.notes.extend(self.unavailable(*port, owner, &error));
                    report.samples.push(Sample::increment(&FAILURES, self.family));
                    unavailable.insert(*port);
                }
            }
        }
        self.is_in_sync = unavailable.is_empty();
        self.unavailable = unavailable;
        let portals = self.portals()?;
        report.removed = portals.close_others(|port| wanted.contains_key(port)).len();
        portals.purge_expired();
        let listening = portals.keys().count();
        report.samples.push(Sample::for_family(&LISTENERS, self.family, count(listening)));
        if report.written + report.removed > 0 {
            report.outcome = SyncOutcome::Incremental;
        }
        Ok(report)
    }

    fn diff(&mut self, plan: &FamilyPlan) -> Result<Patch, BackendError> {
        let wanted = Self::wanted(plan);
        let portals = self.portals.as_ref();
        let now = |port: &Port| portals.and_then(|portals| portals.spec(port));
        let address = |(protocol, port): Port| {
            format!("{} ({protocol})", SocketAddr::new(self.family.loopback(), port))
        };
        let changed = wanted.iter().filter(|(port, wanted)| now(port) != Some(&wanted.spec));
        let mut lines: Vec<String> = changed
            .map(|(port, wanted)| format!("listen on {} for {}", address(*port), wanted.owner))
            .collect();
        let open = portals.into_iter().flat_map(Portals::keys);
        let superfluous = open.filter(|port| !wanted.contains_key(port));
        lines.extend(superfluous.map(|port| format!("close {}", address(*port))));
        Ok(Patch { lines })
    }

    /// Ports that another process has may be free by then.
    fn verify_interval(&self) -> Option<Duration> {
        (!self.unavailable.is_empty()).then_some(RETRY_INTERVAL)
    }

    fn shutdown(&mut self, grace: Duration) {
        if let Some(portals) = &self.portals {
            portals.drain(grace);
        }
    }
}
