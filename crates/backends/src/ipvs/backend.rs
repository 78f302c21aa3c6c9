//! ipvs mode as a [`Backend`].

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ferrule_kernel::iptables::{AccessPolicy, TableAccess, legacy};
use ferrule_kernel::ipvs::Ipvs as IpvsClient;
use ferrule_model::{IpFamily, PerFamily, with_causes};
use ferrule_plan::{LoopbackNodePorts, ProxyMode, Quirks};

use super::counters::IpvsCounters;
use super::dataplane::IpvsDataplane;
use super::host;
use super::kernel::{Kernel, NO_IPVS};
use super::leftovers::{remove_interface, remove_servers, remove_sets};
use super::options::LiveOptions;
use super::rules::{JUMPS, chain_names};
use super::watch::{WatchedAddresses, watch_interface};
use crate::counters::ConnectionCounters;
use crate::iptables::metrics::RESTORE_FAILURES;
use crate::loopback::{self, FAILURES, LISTENERS, LoopbackRelay};
use crate::metrics::MetricDeclaration;
use crate::static_rules::{self, OpenedTables};
use crate::{
    Advice, Backend, BackendError, EntryPoints, InUse, KernelReader, Leftover, ModeChoice, ModeOptions, Note,
    OpenConnections, Opened, Probe, Rights, RuleEventSink, Severity, iptables, table_family,
};

/// ipvs mode.
#[derive(Default)]
pub struct Ipvs {
    policy: AccessPolicy,
    /// How rules can be written, by family; `None` before the probe.
    access: Option<PerFamily<TableAccess>>,
    opened: Vec<OpenedTables>,
    /// Watched from the first sync on.
    addresses: Vec<WatchedAddresses>,
    options: Option<LiveOptions>,
    /// Whether kube-ipvs0 is known to be ours.
    interface_is_ours: Arc<AtomicBool>,
    /// Serves NodePorts on localhost, if asked to.
    loopback: LoopbackRelay,
}

static METRICS: [&MetricDeclaration; 3] = [&RESTORE_FAILURES, &LISTENERS, &FAILURES];

impl Backend for Ipvs {
    fn mode(&self) -> ProxyMode {
        ProxyMode::Ipvs
    }

    fn set_iptables_access(&mut self, policy: AccessPolicy) {
        self.policy = policy;
    }

    fn quirks(&self) -> Quirks {
        Quirks::IPVS
    }

    fn loopback_node_ports(&self, options: &ModeOptions) -> LoopbackNodePorts {
        loopback::node_ports(options)
    }

    fn metrics(&self) -> &'static [&'static MetricDeclaration] {
        &METRICS
    }

    fn advice(&self, _: ModeChoice) -> Option<Advice> {
        let text = "kube-proxy's ipvs mode is deprecated, disabled by default in Kubernetes 1.40 and removed in 1.43. \
                    Ferrule's goes on after that: nothing needs to be done. Going back to kube-proxy 1.43 or later needs its \
                    nftables mode first.";
        Some(Advice { reason: "IPVSDeprecation", text })
    }

    /// The kernel loads the modules of schedulers and sets itself; programs are needed for the legacy variant alone.
    fn rights(&self) -> Rights {
        Rights { raw_sockets: legacy::may_be_in_use(), load_modules: true, descriptors: 0 }
    }

    fn probe(&mut self) -> Probe {
        if let Err(error) = kernel_has_ipvs() {
            let text = with_causes(&error);
            return Probe::nothing_works(|| BackendError::new(text.clone()));
        }
        let choose = |family| TableAccess::choose(table_family(family), self.policy);
        let (probe, usable) = iptables::probe_access("preparing ipvs mode", choose);
        self.access = Some(usable);
        probe
    }

    fn prepare_host(&mut self, options: &ModeOptions) -> Result<Vec<Note>, BackendError> {
        host::prepare(&options.ipvs)
    }

    fn open(&mut self, families: &[IpFamily], options: &ModeOptions) -> Result<Opened, BackendError> {
        let mut opened = Opened { dataplanes: PerFamily::default(), notes: Vec::new() };
        let live = LiveOptions::new(options);
        let usable = self.access.unwrap_or_default();
        for (family, access) in usable.iter().filter(|(family, _)| families.contains(family)) {
            let note = Note::new(Severity::Verbose, "Using iptables").in_family(family);
            opened.notes.push(note.with_detail(access.name()));
            let tables = access.open().map_err(|error| iptables::unopened(family, error))?;
            let dataplane = IpvsDataplane::new(Kernel::open()?, tables, family, &live);
            let dataplane = dataplane.sharing(&self.interface_is_ours);
            let (portid, bound) = (dataplane.portid(), dataplane.bound());
            self.opened.push(OpenedTables { family, access: *access, portid });
            self.addresses.push(WatchedAddresses { family, bound });
            opened.dataplanes.set(family, loopback::beside(dataplane, &self.loopback, family, &live.get()));
        }
        self.options = Some(live);
        Ok(opened)
    }

    fn counters(&self, _: &[IpFamily], _: usize) -> Result<Box<dyn ConnectionCounters>, BackendError> {
        Ok(Box::new(IpvsCounters::new(Kernel::open()?.servers, Kernel::open()?.servers)))
    }

    fn counts_in_tables(&self) -> bool {
        false
    }

    /// NodePorts on localhost are this process's own sockets and not asked about.
    fn reader(&self, options: &ModeOptions) -> Option<KernelReader> {
        let access = self.access?;
        let live = self.options.clone().unwrap_or_else(|| LiveOptions::new(options));
        let interface_is_ours = Arc::clone(&self.interface_is_ours);
        Some(KernelReader::new(move |family| {
            let tables = static_rules::open(access, family)?;
            let dataplane = IpvsDataplane::new(Kernel::open()?, tables, family, &live);
            Ok(Box::new(dataplane.sharing(&interface_is_ours)))
        }))
    }

    fn reconfigure(&mut self, options: &ModeOptions) -> Vec<Note> {
        let Some(live) = &self.options else { return Vec::new() };
        if live.get() == *options {
            return Vec::new();
        }
        match host::prepare(&options.ipvs) {
            Ok(notes) => {
                live.set(options);
                notes
            }
            Err(error) => {
                let note =
                    Note::new(Severity::Error, "The new ipvs settings cannot be used, the old ones stay");
                vec![note.with_detail(with_causes(&error))]
            }
        }
    }

    fn watch(&mut self, sink: Arc<dyn RuleEventSink>) -> Result<(), BackendError> {
        self.loopback.log.pass_to(&sink);
        watch_interface(std::mem::take(&mut self.addresses), Arc::clone(&sink))?;
        static_rules::watch(&self.opened, chain_names(), &JUMPS, sink)
    }

    fn in_use(&self) -> InUse {
        static_rules::in_use(self.mode(), &self.opened)
    }

    /// The virtual servers, each with its address, and the interface.
    fn remove_entry_points(
        &self,
        in_use: Option<&InUse>,
        connections: OpenConnections,
    ) -> Result<EntryPoints, BackendError> {
        if in_use.is_some_and(|in_use| in_use.mode == self.mode()) {
            return Ok(EntryPoints::default());
        }
        let departed = remove_servers(connections)?;
        let leftover = |what, objects| Leftover { mode: ProxyMode::Ipvs, what, objects };
        let mut removed = vec![leftover("virtual servers", departed.servers)];
        if departed.open.is_none() {
            removed.push(leftover("interface kube-ipvs0", remove_interface()?));
        }
        Ok(EntryPoints { removed, open: departed.open })
    }

    fn remove_leftovers(&self, in_use: Option<&InUse>) -> Result<Vec<Leftover>, BackendError> {
        let chains = match in_use.map(|in_use| in_use.mode) {
            Some(ProxyMode::Ipvs) => return Ok(Vec::new()),
            Some(ProxyMode::Iptables) => iptables::remove_ipvs_leftovers().map(|removed| removed.chains),
            // Its chains went with those of iptables mode: many are used by both.
            Some(ProxyMode::Nftables | ProxyMode::Userspace) | None => Ok(0),
        };
        let objects = remove_sets()?;
        let leftover = |what, objects| Leftover { mode: ProxyMode::Ipvs, what, objects };
        Ok(vec![leftover("chains", chains?), leftover("address sets", objects)])
    }

    /// Rules that mark new connections for masquerading by what Services were, and a jump to a chain whose rules are another mode's
    /// now: they would meet packets of open connections. In their place comes a rule for this host's own packets.
    fn remove_obstacles(&self, in_use: &InUse) -> Result<Vec<Leftover>, BackendError> {
        let removed = match in_use.mode {
            ProxyMode::Ipvs | ProxyMode::Userspace => return Ok(Vec::new()),
            ProxyMode::Nftables => iptables::remove_nat_leftovers()?,
            ProxyMode::Iptables => iptables::remove_ipvs_nat_leftovers()?,
        };
        Ok(vec![Leftover { mode: ProxyMode::Ipvs, what: "chains", objects: removed.chains }])
    }
}

fn kernel_has_ipvs() -> Result<(), BackendError> {
    match IpvsClient::open() {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(BackendError::new(NO_IPVS)),
        Err(error) => Err(BackendError::new("preparing ipvs mode").caused_by(error)),
    }
}
