//! userspace mode as a [`Backend`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferrule_kernel::iptables::{AccessPolicy, TableAccess, legacy};
use ferrule_model::{IpFamily, PerFamily};
use ferrule_plan::{LoopbackNodePorts, ProxyMode, Quirks};
use ferrule_relay::{Relay, RelayOptions};

use super::counters::Ledger;
use super::dataplane::{Parts, UserspaceDataplane};
use super::handover::{self, Handover};
use super::metrics::{METRICS, scrape_sources};
use super::portals::Portals;
use super::rules::{CHAINS, JUMPS};
use super::sockets::Sockets;
use super::steering;
use crate::counters::ConnectionCounters;
use crate::family::table_family;
use crate::metrics::{MetricDeclaration, ScrapeSource};
use crate::static_rules::{self, OpenedTables};
use crate::{
    Advice, Backend, BackendError, InUse, Leftover, ModeChoice, ModeOptions, Note, Opened, Probe, Rights,
    RuleEventSink, Severity, UserspaceOptions, iptables,
};

/// How long open connections may go on after the process was asked to end: a little less than a kubelet waits.
const DRAIN_TIME: Duration = Duration::from_secs(25);
/// What kube-proxy asked for: some thirty thousand connections.
const DESCRIPTORS: u64 = 64_000;
/// Left to the API server, health checks and rules, so that clients cannot bring them down. Listening sockets come on top.
pub(crate) const RESERVED_DESCRIPTORS: u64 = 4096;

/// userspace mode.
#[derive(Default)]
pub struct Userspace {
    policy: AccessPolicy,
    access: Option<PerFamily<TableAccess>>,
    relay: Option<Arc<Relay>>,
    opened: Vec<OpenedTables>,
    log: RelayLog,
    handover: Handover,
    ledger: Ledger,
}

impl Backend for Userspace {
    fn mode(&self) -> ProxyMode {
        ProxyMode::Userspace
    }

    fn set_iptables_access(&mut self, policy: AccessPolicy) {
        self.policy = policy;
    }

    fn quirks(&self) -> Quirks {
        Quirks::USERSPACE
    }

    fn loopback_node_ports(&self, _: &ModeOptions) -> LoopbackNodePorts {
        LoopbackNodePorts::Relayed
    }

    fn metrics(&self) -> &'static [&'static MetricDeclaration] {
        &METRICS
    }

    fn advice(&self, _: ModeChoice) -> Option<Advice> {
        let text = "The userspace proxier was removed in Kubernetes 1.26. Ferrule keeps it; connections end when the proxy \
                    ends, and endpoints see the node's address. nftables mode has neither drawback.";
        Some(Advice { reason: "UserspaceMode", text })
    }

    fn rights(&self) -> Rights {
        Rights { raw_sockets: legacy::may_be_in_use(), load_modules: false, descriptors: DESCRIPTORS }
    }

    fn probe(&mut self) -> Probe {
        let choose = |family| TableAccess::choose(table_family(family), self.policy);
        let (probe, usable) = iptables::probe_access("preparing userspace mode", choose);
        self.access = Some(usable);
        probe
    }

    fn open(&mut self, families: &[IpFamily], options: &ModeOptions) -> Result<Opened, BackendError> {
        check_bind_address(&options.userspace)?;
        let relay = Arc::new(start_relay(&options.userspace, &self.log)?);
        let mut opened = Opened { dataplanes: PerFamily::default(), notes: Vec::new() };
        let usable = self.access.unwrap_or_default();
        for (family, access) in usable.iter().filter(|(family, _)| families.contains(family)) {
            let note = Note::new(Severity::Verbose, "Using iptables").in_family(family);
            opened.notes.push(note.with_detail(access.name()));
            let tables = access.open().map_err(|error| iptables::unopened(family, error))?;
            let listen_ip = options.userspace.bind_address.filter(|ip| IpFamily::of(*ip) == family);
            let sockets = Sockets::new(listen_ip.unwrap_or(any(family)), options.userspace.ports);
            let dataplane = UserspaceDataplane::new(Parts {
                family,
                tables,
                portals: Portals::new(Arc::clone(&relay)).noted_in(self.ledger.clone()),
                sockets,
                handover: self.handover.clone(),
                listen_ip,
                sync_period: options.sync_period,
            });
            self.opened.push(OpenedTables { family, access: *access, portid: dataplane.portid() });
            opened.dataplanes.set(family, Box::new(dataplane));
        }
        self.relay = Some(relay);
        Ok(opened)
    }

    fn scrape_sources(&self) -> Vec<Box<dyn ScrapeSource>> {
        self.relay.as_ref().map(scrape_sources).unwrap_or_default()
    }

    fn counters(&self, _: &[IpFamily], _: usize) -> Result<Box<dyn ConnectionCounters>, BackendError> {
        self.ledger.switch_on();
        Ok(Box::new(self.ledger.clone()))
    }

    fn counts_in_tables(&self) -> bool {
        false
    }

    fn watch(&mut self, sink: Arc<dyn RuleEventSink>) -> Result<(), BackendError> {
        self.log.pass_to(&sink);
        // Every family had its first sync.
        self.handover.close_all_rest();
        if let Some(relay) = &self.relay {
            self.handover.offer(Arc::clone(relay), Arc::clone(&sink))?;
        }
        let all = self.opened.iter().map(|opened| opened.family).collect();
        steering::watch(all, Arc::clone(&sink))?;
        static_rules::watch(&self.opened, CHAINS, &JUMPS, sink)
    }

    fn shutdown_grace(&self) -> Duration {
        DRAIN_TIME
    }

    fn reconfigure(&mut self, options: &ModeOptions) -> Vec<Note> {
        if let Some(relay) = &self.relay {
            relay.set_udp_idle_timeout(options.userspace.udp_idle_timeout);
        }
        Vec::new()
    }

    fn in_use(&self) -> InUse {
        static_rules::in_use(self.mode(), &self.opened)
    }

    fn remove_leftovers(&self, in_use: Option<&InUse>) -> Result<Vec<Leftover>, BackendError> {
        if in_use.is_some_and(|in_use| in_use.mode == self.mode()) {
            return Ok(Vec::new());
        }
        let removed = iptables::remove_userspace_leftovers();
        // Whether a rule still leads to them or not: no process would accept what comes there.
        let sockets = handover::discard_stored();
        let leftover = |what, objects| Leftover { mode: ProxyMode::Userspace, what, objects };
        Ok(vec![leftover("chains", removed?.chains), leftover("sockets that systemd kept", sockets)])
    }
}

/// Packets are redirected to it, which loopback addresses do not accept.
fn check_bind_address(options: &UserspaceOptions) -> Result<(), BackendError> {
    match options.bind_address {
        Some(ip) if ip == Ipv4Addr::LOCALHOST || ip == Ipv6Addr::LOCALHOST => {
            Err(BackendError::new(format!(
                "cannot proxy on localhost: bindAddress is {ip}, userspace mode needs an address of the node, or 0.0.0.0"
            )))
        }
        Some(_) | None => Ok(()),
    }
}

fn start_relay(options: &UserspaceOptions, log: &RelayLog) -> Result<Relay, BackendError> {
    let log = log.clone();
    let options = RelayOptions {
        udp_idle_timeout: options.udp_idle_timeout,
        reserved_descriptors: RESERVED_DESCRIPTORS,
        notes: Some(Arc::new(move |note| log.note(&note))),
        ..RelayOptions::default()
    };
    Relay::start(options).map_err(|error| BackendError::new("preparing userspace mode").caused_by(error))
}

fn any(family: IpFamily) -> IpAddr {
    match family {
        IpFamily::V4 => Ipv4Addr::UNSPECIFIED.into(),
        IpFamily::V6 => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// Passes notes of the relay on to the log, once there is one. Shared by clones.
#[derive(Clone, Default)]
pub(crate) struct RelayLog(Arc<Mutex<Option<Arc<dyn RuleEventSink>>>>);

impl RelayLog {
    pub(crate) fn pass_to(&self, sink: &Arc<dyn RuleEventSink>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(sink));
    }

    pub(crate) fn note(&self, note: &ferrule_relay::Note) {
        let sink = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(sink) = sink {
            sink.note(Note::new(Severity::Error, "Relaying connections").with_detail(note.to_string()));
        }
    }
}
