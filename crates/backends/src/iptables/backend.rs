//! iptables mode as a [`Backend`].

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ferrule_kernel::iptables::{AccessPolicy, ChosenAccess, IptablesError, TableAccess, Variant, legacy};
use ferrule_kernel::nft::Subscription;
use ferrule_kernel::port::XTables;
use ferrule_kernel::{accounting, sysctl};
use ferrule_model::{IpFamily, PerFamily};
use ferrule_plan::{FamilyPlan, FrontendKey, LoopbackNodePorts, ProxyMode, Quirks};

use super::base::{Host, INVALID_COUNTER, LOOPBACK_COUNTER};
use super::check_schedule::CheckSchedule;
use super::known::KnownRules;
use super::leftovers::{LeftoverError, remove_from_other_variant, remove_leftovers};
use super::localnet::LOCALNET;
use super::localnet_switch::LocalnetSwitch;
use super::metrics::{LOCK_WAIT, METRICS, PARTIAL_RESTORE_FAILURES, PacketCounter, RESTORE_FAILURES};
use super::names::port_chains;
use super::reconciler::Reconciler;
use super::rejected_rule::RejectedRule;
use super::rule_check::RuleCheck;
use super::suspected::Suspected;
use super::verify::Verifier;
use super::watch::{OurChains, WatchedFamily};
use crate::family::{ip_family, table_family};
use crate::foreign_commits::{self, Own};
use crate::metrics::{MetricDeclaration, Sample, ScrapeSource};
use crate::rule_events::unwatched;
use crate::static_rules;
use crate::{
    Advice, Backend, BackendError, Cost, Dataplane, HeldFrontend, InUse, KernelReader, Leftover, ModeChoice,
    ModeOptions, Note, Opened, OwnCommits, Patch, Probe, Rejected, Rights, RuleEventSink, Severity,
    SyncReport, Trigger,
};
use ferrule_model::with_causes;

/// How often a sync is tried again while another program holds the lock that users of iptables share.
const LOCK_RETRY: Duration = Duration::from_millis(200);

/// iptables mode.
#[derive(Debug, Default)]
pub struct Iptables {
    /// The variant to use; without one, the probe chooses.
    variant: Option<Variant>,
    policy: AccessPolicy,
    /// What works, by family; `None` before the probe.
    access: Option<PerFamily<TableAccess>>,
    localnet: Option<SharedSwitch>,
    opened: Vec<OpenedFamily>,
    /// What rules depend on here; `None` before they are opened.
    host: Option<Host>,
    counters: Vec<&'static str>,
    schedule: Option<Arc<CheckSchedule>>,
    /// To the kernel's notifications of foreign commits.
    subscription: Subscription,
}

/// Changed by the backend, applied by the dataplane of IPv4.
type SharedSwitch = Arc<Mutex<LocalnetSwitch>>;

#[derive(Debug)]
struct OpenedFamily {
    family: IpFamily,
    access: TableAccess,
    /// Under which our commits are announced, if they are.
    portid: Option<u32>,
    known: Arc<KnownRules>,
    suspected: Arc<Suspected>,
    own_commits: OwnCommits,
}

/// One family's tables, whatever they are read and written by.
type AnyTables = Box<dyn XTables + Send>;

impl Backend for Iptables {
    fn mode(&self) -> ProxyMode {
        ProxyMode::Iptables
    }

    fn set_iptables_access(&mut self, policy: AccessPolicy) {
        self.policy = policy;
    }

    fn quirks(&self) -> Quirks {
        Quirks::IPTABLES
    }

    fn loopback_node_ports(&self, options: &ModeOptions) -> LoopbackNodePorts {
        if options.localhost_node_ports { LoopbackNodePorts::InKernel } else { LoopbackNodePorts::NotServed }
    }

    fn metrics(&self) -> &'static [&'static MetricDeclaration] {
        &METRICS
    }

    fn advice(&self, choice: ModeChoice) -> Option<Advice> {
        let text = "no proxy mode is set, iptables is used; the default becomes nftables in Kubernetes 1.40, \
                    set the mode to be sure of it";
        match choice {
            ModeChoice::Explicit => None,
            ModeChoice::Default => Some(Advice { reason: "KubeProxyDefaultMode", text }),
        }
    }

    /// The programs of the legacy variant use raw sockets, and load the module of their tables if it is missing.
    fn rights(&self) -> Rights {
        Rights { raw_sockets: legacy::may_be_in_use(), load_modules: legacy::needs_module(), descriptors: 0 }
    }

    fn probe(&mut self) -> Probe {
        let (probe, usable) = probe_access("preparing iptables mode", |family| self.choose(family));
        self.access = Some(usable);
        probe
    }

    /// `route_localnet`, if IPv4 is served or might be.
    fn prepare_host(&mut self, options: &ModeOptions) -> Result<Vec<Note>, BackendError> {
        let chosen = if let Some(access) = &self.access {
            access.get(IpFamily::V4).copied()
        } else {
            let failed = |error| BackendError::new("preparing iptables mode").caused_by(error);
            Some(self.choose(IpFamily::V4).map_err(failed)?.access)
        };
        let Some(access) = chosen else { return Ok(Vec::new()) };
        let (switch, notes) = LocalnetSwitch::start(access, options).map_err(|error| {
            let doing =
                "preparing NodePorts on localhost; --iptables-localhost-nodeports=false does without them";
            BackendError::new(doing).caused_by(error)
        })?;
        self.localnet = Some(Arc::new(Mutex::new(switch)));
        Ok(notes)
    }

    fn open(&mut self, families: &[IpFamily], options: &ModeOptions) -> Result<Opened, BackendError> {
        self.schedule = Some(Arc::new(CheckSchedule::new(options.sync_period)));
        let host = self.host();
        self.host = Some(host);
        self.counters = host.counters();
        let mut opened = Opened { dataplanes: PerFamily::default(), notes: Vec::new() };
        let usable = self.access.unwrap_or_default();
        let own_commits = OwnCommits::default();
        let subscription = &self.subscription;
        for (family, access) in usable.iter().filter(|(family, _)| families.contains(family)) {
            let note = Note::new(Severity::Verbose, "Using iptables").in_family(family);
            opened.notes.push(note.with_detail(access.name()));
            let tables = access.open().map_err(|error| unopened(family, error))?;
            let portid = tables.portid();
            let mut reconciler =
                Reconciler::new(tables, host).counting(has_counter).sharing_generations(&own_commits);
            reconciler = reconciler.pausing(subscription);
            reconciler.load_stamp().map_err(|error| unopened(family, error))?;
            self.opened.push(OpenedFamily {
                family,
                access: *access,
                portid,
                known: reconciler.known(),
                suspected: reconciler.suspected(),
                own_commits: own_commits.clone(),
            });
            let localnet = self.localnet.clone().filter(|_| family == IpFamily::V4);
            let cost = if access.is_netlink() { Cost::Cpu } else { Cost::WallClock };
            opened.dataplanes.set(family, Box::new(Tables { reconciler, localnet, cost }));
        }
        Ok(opened)
    }

    fn reader(&self, _: &ModeOptions) -> Option<KernelReader> {
        let access = self.access?;
        // Before rules are opened no counter is made for a question: those that are there count.
        let host = self.host.unwrap_or_else(|| {
            self.host_with(|name| accounting::packets(name).is_ok_and(|counter| counter.is_some()))
        });
        Some(KernelReader::new(move |family| {
            let tables = static_rules::open(access, family)?;
            let cost = Cost::WallClock;
            Ok(Box::new(Tables { reconciler: Reconciler::new(tables, host), localnet: None, cost }))
        }))
    }

    /// kube-proxy does not have the chain that keeps the network from NodePorts on loopback addresses.
    fn shadow_reader(&self, options: &ModeOptions) -> Option<KernelReader> {
        self.reader(options).map(|reader| reader.without_lines_of(LOCALNET))
    }

    fn scrape_sources(&self) -> Vec<Box<dyn ScrapeSource>> {
        let counters = PacketCounter::named(&self.counters);
        counters.into_iter().map(|counter| Box::new(counter) as Box<dyn ScrapeSource>).collect()
    }

    fn watch(&mut self, sink: Arc<dyn RuleEventSink>) -> Result<(), BackendError> {
        let Some(schedule) = &self.schedule else { return Ok(()) };
        self.watch_notifications(Arc::clone(&sink))?;
        for opened in &self.opened {
            if opened.portid.is_some() {
                opened.known.want_check();
            }
            let tables = opened.access.open().map_err(|error| unopened(opened.family, error))?;
            let verifier = Verifier::new(tables, Arc::clone(&opened.known));
            let check = RuleCheck {
                family: opened.family,
                verifier: verifier.sharing_generations(&opened.own_commits),
                schedule: Arc::clone(schedule),
                sink: Arc::clone(&sink),
            };
            check.start().map_err(unwatched)?;
        }
        Ok(())
    }

    fn reconfigure(&mut self, options: &ModeOptions) -> Vec<Note> {
        if let Some(schedule) = &self.schedule {
            schedule.set_period(options.sync_period);
        }
        let switch = self.localnet.as_ref().map(|switch| locked(switch).reconfigure(options));
        switch.unwrap_or_default()
    }

    fn in_use(&self) -> InUse {
        let mut iptables = PerFamily::default();
        for opened in &self.opened {
            iptables.set(opened.family, opened.access);
        }
        InUse { mode: self.mode(), iptables }
    }

    fn remove_leftovers(&self, in_use: Option<&InUse>) -> Result<Vec<Leftover>, BackendError> {
        let leftover = |what, objects| Leftover { mode: ProxyMode::Iptables, what, objects };
        let has_rules_here = |in_use: &&InUse| match in_use.mode {
            // userspace mode has chains of its own.
            ProxyMode::Nftables | ProxyMode::Userspace => false,
            ProxyMode::Iptables | ProxyMode::Ipvs => true,
        };
        let Some(in_use) = in_use.filter(has_rules_here) else {
            let removed = remove_leftovers()?;
            let switched_off = usize::from(removed.localnet_is_off);
            return Ok(vec![leftover("chains", removed.chains), leftover("route_localnet=1", switched_off)]);
        };
        // An earlier run of a mode with rules in iptables may have used the other variant.
        let (mut chains, mut result) = (0, Ok(()));
        let mut own = Vec::new();
        if in_use.mode == ProxyMode::Ipvs {
            let removed = super::leftovers::remove_iptables_leftovers()?;
            let switched_off = usize::from(removed.localnet_is_off);
            own = vec![leftover("chains", removed.chains), leftover("route_localnet=1", switched_off)];
        }
        for (_, access) in in_use.iptables.iter() {
            match remove_from_other_variant(*access) {
                Ok(removed) => chains += removed,
                Err(error) => result = result.and(Err(error)),
            }
        }
        result?;
        own.push(leftover("chains of the other iptables variant", chains));
        Ok(own)
    }
}

impl Iptables {
    /// Uses this variant of iptables instead of choosing one.
    pub fn with_variant(variant: Variant) -> Self {
        Self { variant: Some(variant), ..Self::default() }
    }

    fn choose(&self, family: IpFamily) -> Result<ChosenAccess, IptablesError> {
        let family = table_family(family);
        match self.variant {
            Some(variant) => Ok(TableAccess::of_variant(family, variant, self.policy)),
            None => TableAccess::choose(family, self.policy),
        }
    }

    /// Watches the families whose changes the kernel announces.
    fn watch_notifications(&self, sink: Arc<dyn RuleEventSink>) -> Result<(), BackendError> {
        let mut families: Vec<WatchedFamily<AnyTables>> = Vec::new();
        for opened in self.opened.iter().filter(|opened| opened.portid.is_some()) {
            families.push(WatchedFamily {
                family: opened.family,
                suspected: Arc::clone(&opened.suspected),
                known: Arc::clone(&opened.known),
                reader: opened.access.open().map_err(|error| unopened(opened.family, error))?,
            });
        }
        if families.is_empty() {
            return Ok(());
        }
        let portids = self.opened.iter().filter_map(|opened| opened.portid).collect();
        let own = Own { portids, subscription: self.subscription.clone() };
        foreign_commits::watch(own, OurChains { families }, sink)
    }

    /// What of this host the rules depend on.
    fn host(&self) -> Host {
        self.host_with(has_counter)
    }

    fn host_with(&self, has_counter: impl Fn(&str) -> bool) -> Host {
        let liberal = sysctl::read("net/netfilter/nf_conntrack_tcp_be_liberal");
        Host {
            tcp_is_liberal: liberal.is_ok_and(|value| value != "0"),
            counts_invalid: has_counter(INVALID_COUNTER),
            counts_loopback: has_counter(LOOPBACK_COUNTER),
            localnet_before: self.localnet.as_ref().map(|switch| locked(switch).before).unwrap_or_default(),
        }
    }
}

pub(crate) fn unopened(family: IpFamily, error: IptablesError) -> BackendError {
    BackendError::new("opening the iptables rules").caused_by(error).in_family(family)
}

/// Finds out how rules can be read and written, for a mode that has some.
pub(crate) fn probe_access(
    doing: &'static str,
    choose: impl Fn(IpFamily) -> Result<ChosenAccess, IptablesError>,
) -> (Probe, PerFamily<TableAccess>) {
    let (mut families, mut usable, mut notes) = (PerFamily::default(), PerFamily::default(), Vec::new());
    for family in IpFamily::BOTH {
        let probed = choose(family).and_then(|chosen| {
            notes.extend(chosen.fallback.as_ref().map(|error| fallback_note(family, error)));
            chosen.access.probe().map(|()| chosen.access)
        });
        let result = probed.map(|access| usable.set(family, access));
        let failed = |error| BackendError::new(doing).caused_by(error).in_family(family);
        families.set(family, result.map_err(failed));
    }
    (Probe { families, notes }, usable)
}

fn fallback_note(family: IpFamily, error: &IptablesError) -> Note {
    let message = "Cannot write iptables rules over netlink, using the programs";
    Note::new(Severity::Warning, message).in_family(family).with_detail(with_causes(error))
}

fn has_counter(name: &str) -> bool {
    accounting::ensure(name).is_ok()
}

fn locked(switch: &SharedSwitch) -> std::sync::MutexGuard<'_, LocalnetSwitch> {
    // No change of it can fail half-way.
    switch.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One family's tables as a [`Dataplane`].
struct Tables<K> {
    reconciler: Reconciler<K>,
    localnet: Option<SharedSwitch>,
    cost: Cost,
}

impl<K: XTables> Tables<K> {
    fn family(&mut self) -> IpFamily {
        ip_family(self.reconciler.kernel().family())
    }

    fn lock_wait(&mut self) -> Option<Sample> {
        let family = self.family();
        let wait = self.reconciler.kernel().lock_wait()?;
        Some(Sample::for_family(&LOCK_WAIT, family, wait.as_secs_f64()))
    }

    fn failed(&mut self, error: IptablesError, is_partial: bool) -> BackendError {
        let family = self.family();
        let mut samples = vec![Sample::increment(&RESTORE_FAILURES, family)];
        samples.extend(is_partial.then(|| Sample::increment(&PARTIAL_RESTORE_FAILURES, family)));
        let is_locked = error.is_locked();
        let mut failed = BackendError::new("syncing the iptables rules").caused_by(error);
        failed.findings.measured.extend(self.lock_wait());
        failed.findings.rejected = self.rejected();
        samples.extend(failed.findings.rejected.iter().map(|_| Sample::increment(&RESTORE_FAILURES, family)));
        let failed = failed.in_family(family).counted(samples);
        if is_locked { failed.until_free(LOCK_RETRY) } else { failed }
    }

    /// What was rejected since the last sync.
    fn rejected(&mut self) -> Vec<Rejected> {
        let rejected = |RejectedRule { what, error, is_repeated }| {
            let (what, reason) = (what.to_string(), with_causes(&error));
            Rejected { what, reason, is_repeated }
        };
        self.reconciler.take_rejected().into_iter().map(rejected).collect()
    }

    /// Adds to a report what only this mode has.
    fn complete(&mut self, mut report: SyncReport) -> SyncReport {
        let family = self.family();
        report.samples.extend(self.lock_wait());
        report.rejected = self.rejected();
        report.samples.extend(report.rejected.iter().map(|_| Sample::increment(&RESTORE_FAILURES, family)));
        report.notes.extend(self.localnet.as_ref().and_then(|switch| locked(switch).apply()));
        report
    }
}

impl<K: XTables + Send> Dataplane for Tables<K> {
    fn sync(&mut self, plan: &FamilyPlan, trigger: Trigger<'_>) -> Result<SyncReport, BackendError> {
        let is_partial = matches!(trigger, Trigger::Changed(_)) && self.reconciler.is_known();
        match self.reconciler.sync(plan, trigger) {
            Ok(report) => Ok(self.complete(report)),
            Err(error) => Err(self.failed(error, is_partial)),
        }
    }

    fn diff(&mut self, plan: &FamilyPlan) -> Result<Patch, BackendError> {
        let family = self.family();
        let failed =
            |error| BackendError::new("reading the iptables rules").caused_by(error).in_family(family);
        self.reconciler.diff(plan).map_err(failed)
    }

    fn held(&mut self, plan: &FamilyPlan, key: Option<&FrontendKey>) -> Result<HeldFrontend, BackendError> {
        let owner = key.and_then(|key| plan.frontend(key)).map(|frontend| &frontend.owner);
        let chains = owner.map(|owner| port_chains(owner, plan)).unwrap_or_default();
        Ok(HeldFrontend::from_patch(&self.diff(plan)?, plan, key, &chains))
    }

    /// Rules are verified in the background: see [`RuleCheck`].
    fn verify_interval(&self) -> Option<Duration> {
        None
    }

    fn cost(&self) -> Cost {
        self.cost
    }
}

impl From<LeftoverError> for BackendError {
    fn from(error: LeftoverError) -> Self {
        let family = ip_family(error.family);
        let doing = error.to_string();
        let counted = vec![Sample::increment(&RESTORE_FAILURES, family)];
        BackendError::new(doing).in_family(family).counted(counted).caused_by(error.into_cause())
    }
}
