//! nftables mode as a [`Backend`].

use std::sync::Arc;
use std::time::Duration;

use ferrule_kernel::iptables::legacy;
use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::nft::{Family, NftClient, Subscription, TABLE};
use ferrule_kernel::port::NftReader as _;
use ferrule_kernel::port::NftTables;
use ferrule_kernel::probe::{Findings, ProbeError, probe, probe_reading};
use ferrule_model::{IpFamily, PerFamily};
use ferrule_plan::{FamilyPlan, FrontendKey, LoopbackNodePorts, ProxyMode, Quirks};

use super::metrics::{CLEANUP_FAILURES, METRICS, POOLS_WITHOUT_AFFINITY, SYNC_FAILURES};
use super::shadow::ShadowTable;
use super::watch::OurTable;
use super::{Reconciler, SyncError};
use crate::family::table_family;
use crate::foreign_commits::{self, Own};
use crate::loopback::{self, LoopbackRelay};
use crate::metrics::{MetricDeclaration, Sample, count};
use crate::{
    Backend, BackendError, Dataplane, HeldFrontend, InUse, KernelReader, Leftover, ModeOptions, Note, Opened,
    Patch, Probe, Rights, RuleEventSink, Severity, SyncReport, Trigger,
};
use ferrule_model::with_causes;

/// Foreign changes are announced by the kernel; this is for those it could not announce.
const VERIFY_INTERVAL: Duration = Duration::from_hours(1);

/// nftables mode.
#[derive(Default)]
pub struct Nftables {
    /// The netlink port ids of our own commits.
    portids: Vec<u32>,
    /// Serves NodePorts on localhost, if asked to.
    loopback: LoopbackRelay,
}

impl Backend for Nftables {
    fn mode(&self) -> ProxyMode {
        ProxyMode::Nftables
    }

    fn quirks(&self) -> Quirks {
        Quirks::NFTABLES
    }

    fn loopback_node_ports(&self, options: &ModeOptions) -> LoopbackNodePorts {
        loopback::node_ports(options)
    }

    fn metrics(&self) -> &'static [&'static MetricDeclaration] {
        &METRICS
    }

    /// The tables of the legacy variant, which leftovers are removed from, can only be changed through raw sockets.
    fn rights(&self) -> Rights {
        Rights { raw_sockets: legacy::has_tables(), load_modules: false, descriptors: 0 }
    }

    fn probe(&mut self) -> Probe {
        reported(probe(TABLE))
    }

    fn shadow_probe(&mut self) -> Probe {
        reported(probe_reading(TABLE))
    }

    fn open(&mut self, families: &[IpFamily], options: &ModeOptions) -> Result<Opened, BackendError> {
        // Each must know which commits were ours, whichever family they were for.
        let mut v4 = Reconciler::new(NftClient::open(Family::Ip).map_err(unopened)?);
        let mut v6 =
            Reconciler::new(NftClient::open(Family::Ip6).map_err(unopened)?).share_generations_with(&v4);
        let mut notes = Vec::new();
        if v4.load_stamp().and_then(|()| v6.load_stamp()).is_err() {
            let message = "The stamp of an earlier run cannot be read, everything will be verified";
            notes.push(Note::new(Severity::Verbose, message));
        }
        let mut dataplanes: PerFamily<Box<dyn Dataplane>> = PerFamily::default();
        for (family, reconciler) in [(IpFamily::V4, v4), (IpFamily::V6, v6)] {
            if families.contains(&family) {
                self.portids.push(reconciler.portid());
                let table = TableDataplane::new(family, reconciler);
                dataplanes.set(family, loopback::beside(table, &self.loopback, family, options));
            }
        }
        Ok(Opened { dataplanes, notes })
    }

    fn reader(&self, _: &ModeOptions) -> Option<KernelReader> {
        Some(KernelReader::new(|family| {
            let client = NftClient::open(table_family(family)).map_err(unopened)?;
            Ok(Box::new(TableDataplane::new(family, Reconciler::new(client))))
        }))
    }

    /// kube-proxy's table has another form.
    fn shadow_reader(&self, _: &ModeOptions) -> Option<KernelReader> {
        Some(KernelReader::new(|family| Ok(Box::new(ShadowTable::open(table_family(family))?))))
    }

    fn watch(&mut self, sink: Arc<dyn RuleEventSink>) -> Result<(), BackendError> {
        self.loopback.log.pass_to(&sink);
        let own = Own { portids: self.portids.clone(), subscription: Subscription::default() };
        foreign_commits::watch(own, OurTable, sink)
    }

    fn remove_leftovers(&self, in_use: Option<&InUse>) -> Result<Vec<Leftover>, BackendError> {
        match in_use.map(|in_use| in_use.mode) {
            Some(ProxyMode::Nftables) => return Ok(Vec::new()),
            Some(ProxyMode::Iptables | ProxyMode::Ipvs | ProxyMode::Userspace) | None => {}
        }
        let [v4, v6] = IpFamily::BOTH.map(remove_table);
        let objects = usize::from(v4?) + usize::from(v6?);
        Ok(vec![Leftover { mode: ProxyMode::Nftables, what: "tables", objects }])
    }
}

/// What was found, for the program.
fn reported(findings: Findings) -> Probe {
    let Findings { kernel, ipv4, ipv6, conntrack } = findings;
    let mut notes = vec![Note::new(Severity::Verbose, "Kernel").with_detail(kernel)];
    if let Err(error) = conntrack {
        let message = "Stale flows cannot be found and stay until they expire";
        notes.push(Note::new(Severity::Warning, message).with_detail(with_causes(&error)));
    }
    let usable = |result: Result<(), ProbeError>| Some(result.map_err(unusable));
    Probe { families: PerFamily { v4: usable(ipv4), v6: usable(ipv6) }, notes }
}

/// One family's table as a [`Dataplane`].
pub struct TableDataplane<K> {
    family: IpFamily,
    reconciler: Reconciler<K>,
    /// After the last sync.
    pools_without_affinity: usize,
}

impl<K: NftTables> TableDataplane<K> {
    /// Kept by this reconciler.
    pub fn new(family: IpFamily, reconciler: Reconciler<K>) -> Self {
        Self { family, reconciler, pools_without_affinity: 0 }
    }

    /// Reports the number of pools without affinity, and notes it whenever it changed.
    fn note_affinity(&mut self, report: &mut SyncReport) {
        let now = self.reconciler.pools_without_affinity();
        report.samples.push(Sample::for_family(&POOLS_WITHOUT_AFFINITY, self.family, count(now)));
        let before = std::mem::replace(&mut self.pools_without_affinity, now);
        if now > 0 && now != before {
            let message = "Served without session affinity: this mode has room for 65,535 such Service ports of at most \
                           4,095 endpoints";
            let note = Note::new(Severity::Warning, message).in_family(self.family);
            report.notes.push(note.with_detail(format!("{now} pools")));
        }
    }

    fn failed(&self, error: SyncError) -> BackendError {
        failed(error).in_family(self.family)
    }
}

impl<K: NftTables + Send> Dataplane for TableDataplane<K> {
    fn sync(&mut self, plan: &FamilyPlan, trigger: Trigger<'_>) -> Result<SyncReport, BackendError> {
        let synced = self.reconciler.sync(plan, trigger);
        let counted = || vec![Sample::increment(&SYNC_FAILURES, self.family)];
        let mut report = synced.map_err(|error| self.failed(error).counted(counted()))?;
        self.note_affinity(&mut report);
        Ok(report)
    }

    fn run_deferred(&mut self) -> Result<SyncReport, BackendError> {
        let done = self.reconciler.run_deferred();
        let counted = || vec![Sample::increment(&CLEANUP_FAILURES, self.family)];
        done.map_err(|error| self.failed(error).counted(counted()))
    }

    fn diff(&mut self, plan: &FamilyPlan) -> Result<Patch, BackendError> {
        self.reconciler.diff(plan).map_err(|error| self.failed(error))
    }

    /// Compiles the frontend alone, so that only sets are read that it is in.
    fn held(&mut self, plan: &FamilyPlan, key: Option<&FrontendKey>) -> Result<HeldFrontend, BackendError> {
        self.reconciler.held(plan, key).map_err(|error| self.failed(error))
    }

    fn verify_interval(&self) -> Option<Duration> {
        Some(VERIFY_INTERVAL)
    }
}

fn failed(error: SyncError) -> BackendError {
    let backend_error = BackendError::new(error.to_string());
    match error {
        SyncError::Read(cause) => backend_error.caused_by(cause),
        SyncError::Commit(cause) => backend_error.caused_by(cause),
        SyncError::Verify { .. } => backend_error,
    }
}

fn unusable(error: ProbeError) -> BackendError {
    BackendError::new("preparing nftables mode").caused_by(error)
}

fn unopened(error: NetlinkError) -> BackendError {
    BackendError::new("opening the nftables tables").caused_by(error)
}

/// Removes a family's table; returns whether there was one.
fn remove_table(family: IpFamily) -> Result<bool, BackendError> {
    let table = table_family(family);
    let doing = format!(
        "removing the nftables rules of {table}; run it as root or with the capability CAP_NET_ADMIN"
    );
    let stays = |doing: String| BackendError::new(doing).in_family(family);
    let mut client = NftClient::open(table).map_err(|error| stays(doing.clone()).caused_by(error))?;
    match client.table().map_err(|error| stays(doing.clone()).caused_by(error))? {
        None => return Ok(false),
        Some(seen) => {
            if let Some(owner) = seen.owner {
                return Err(stays(format!(
                    "table {table} kube-proxy is owned by another rule_set (netlink port id {owner}); stop that rule_set, the \
                     table goes with it"
                )));
            }
        }
    }
    let removed = Reconciler::new(client).remove_everything();
    removed.map(|()| true).map_err(|error| stays(doing).caused_by(error))
}
