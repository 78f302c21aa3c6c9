//! Keeps one family's virtual servers, sets, addresses and rules in line with the plan.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ferrule_kernel::ipset::SetSpec;
use ferrule_kernel::iptables::RuleText;
use ferrule_kernel::ipvs::VirtualServerId;
use ferrule_model::IpFamily;
use ferrule_plan::{FamilyPlan, NodeTraffic, PlanDelta};
use ipnet::IpNet;

use super::drain::Draining;
use super::edit::{Comparison, Edit};
use super::findings::Findings;
use super::kernel::{Held, KeptServers, Kernel, Known, Missing, scheduler, unreadable};
use super::options::LiveOptions;
use super::passes::Order;
use super::patch::patch;
use super::rules::{RuleInput, rules};
use super::sets::{SETS, specs};
use super::slices::Unread;
use super::wanted::Wanted;
use super::watch::BoundAddresses;
use super::write::Written;
use crate::iptables::metrics::RESTORE_FAILURES;
use crate::metrics::Sample;
use crate::pair::merged;
use crate::static_rules::{AnyTables, StaticTables};
use crate::{BackendError, Cost, Dataplane, Note, Patch, Severity, SyncOutcome, SyncReport, Trigger};

/// One family in ipvs mode.
pub(super) struct IpvsDataplane {
    pub(super) kernel: Kernel,
    pub(super) tables: StaticTables<AnyTables>,
    pub(super) family: IpFamily,
    pub(super) specs: [SetSpec; SETS],
    options: LiveOptions,
    /// The options that the last sync went by.
    scheduler: Arc<str>,
    pub(super) excluded: Vec<IpNet>,
    pub(super) wanted: Wanted,
    /// What the kernel holds. Nothing before the first sync and after a failure.
    held: Option<Held>,
    /// The virtual servers that are ours beside those of `held`: all of them while it is not known. A listing may miss one.
    pub(super) ours: BTreeSet<VirtualServerId>,
    /// Those that are others': the last read, or a write since, found them.
    pub(super) foreign: BTreeSet<VirtualServerId>,
    /// Whether a sync of ours succeeded, so that no other mode's rules serve any more.
    has_taken_over: bool,
    /// Whether a sync of ours succeeded in either family, as this dataplane or as the one that it reads for.
    interface_is_ours: Arc<AtomicBool>,
    pub(super) draining: Draining,
    /// What the rules in the tables were made from.
    pub(super) rule_input: Option<RuleInput>,
    pub(super) bound: BoundAddresses,
    /// The virtual servers whose real servers are still to be read.
    pub(super) unread: Unread,
    /// What was rejected by the last sync.
    pub(super) rejected: BTreeSet<String>,
    /// What was noted before: others' virtual servers, external addresses of this node.
    noted: BTreeSet<String>,
    /// Whether packets of IPv6 were not forwarded at the last look.
    is_forwarding_off: bool,
}

/// How a sync came about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The plan or the settings changed.
    Change,
    /// The kernel was compared with what the last sync left.
    Verification,
    /// The kernel was read, and an earlier run had written here or not.
    Read { was_ours: bool },
}

impl IpvsDataplane {
    /// Reads and writes nothing yet.
    pub(super) fn new(kernel: Kernel, tables: AnyTables, family: IpFamily, options: &LiveOptions) -> Self {
        let mut dataplane = Self {
            kernel,
            tables: StaticTables::new(tables),
            family,
            specs: specs(family),
            options: options.clone(),
            scheduler: scheduler(""),
            excluded: Vec::new(),
            wanted: Wanted::default(),
            held: None,
            ours: BTreeSet::new(),
            foreign: BTreeSet::new(),
            has_taken_over: false,
            interface_is_ours: Arc::default(),
            draining: Draining::default(),
            rule_input: None,
            bound: BoundAddresses::default(),
            unread: Unread::default(),
            rejected: BTreeSet::new(),
            noted: BTreeSet::new(),
            is_forwarding_off: false,
        };
        dataplane.take_options();
        dataplane
    }

    /// The same knowledge of the interface as other dataplanes of this process have.
    pub(super) fn sharing(self, interface_is_ours: &Arc<AtomicBool>) -> Self {
        Self { interface_is_ours: Arc::clone(interface_is_ours), ..self }
    }

    /// Takes over what was configured meanwhile; returns whether virtual servers depend on it.
    fn take_options(&mut self) -> bool {
        let options = self.options.get();
        let scheduler = scheduler(&options.ipvs.scheduler);
        let of_family = |block: &&IpNet| IpFamily::of(block.addr()) == self.family;
        self.excluded = options.ipvs.exclude_cidrs.iter().filter(of_family).copied().collect();
        self.draining.set_limit(options.ipvs.drain_limit);
        let is_other = scheduler != self.scheduler;
        self.scheduler = scheduler;
        is_other
    }

    /// The addresses that are on the interface, shared with what watches it.
    pub(super) fn bound(&self) -> BoundAddresses {
        self.bound.clone()
    }

    /// The netlink portid that notifications of our own rules carry, where there are any.
    pub(super) fn portid(&self) -> Option<u32> {
        self.tables.portid()
    }

    fn change(
        &mut self,
        mut held: Held,
        plan: &FamilyPlan,
        delta: &PlanDelta,
    ) -> Result<SyncReport, BackendError> {
        let touched = if delta.node {
            self.wanted = Wanted::from_plan(plan, &self.scheduler);
            None
        } else {
            Some(self.wanted.apply(plan, delta))
        };
        let written = self.bring_in_line(&mut held, plan, touched.as_ref(), Order::RulesFirst);
        self.finish(held, written, Origin::Change)
    }

    /// Corrects what others changed by the plan of the last sync first, so that our own change is not taken for theirs.
    fn verify_and_change(
        &mut self,
        plan: &FamilyPlan,
        delta: &PlanDelta,
    ) -> Result<SyncReport, BackendError> {
        let verified = self.read_and_correct(plan, Some(Origin::Verification))?;
        let Some(held) = self.held.take() else { return Ok(verified) };
        let changed = self.change(held, plan, delta)?;
        let (deferred, quarantined) = (changed.deferred, changed.quarantined);
        Ok(SyncReport { deferred, quarantined, ..merged(verified, changed) })
    }

    /// Reads the kernel and makes it hold what is wanted. Where the last sync is not known, what is there says how it came about.
    fn read_and_correct(
        &mut self,
        plan: &FamilyPlan,
        origin: Option<Origin>,
    ) -> Result<SyncReport, BackendError> {
        let (mut held, missing) = self.read(&plan.node, origin)?;
        let origin = origin.unwrap_or(Origin::Read { was_ours: !missing.link });
        let mut found = Findings::default();
        found.missing(&missing, &self.specs);
        let prepared = self.order().map_err(rules_failed).and_then(|order| {
            let made = self.make(missing, &mut held)?;
            Ok((order, made))
        });
        let (order, made) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                self.ours.extend(held.services.into_keys());
                return Err(error.in_family(self.family));
            }
        };
        self.forget_rules(&held);
        let written = self.bring_in_line(&mut held, plan, None, order);
        let written = written.map(|written| written.with_made(made, found));
        self.finish(held, written, origin)
    }

    /// The rules are compared with what is there, and not with what we wrote.
    fn forget_rules(&mut self, held: &Held) {
        let there = RuleInput { filled: held.filled(), closed_to_node: Arc::default() };
        let known = self.rule_input.take().unwrap_or_default();
        self.rule_input = Some(known.or(&there));
        self.tables.doubt();
    }

    /// A verification reads the real servers of the first slice, and keeps those of the others as they were.
    fn read(&mut self, node: &NodeTraffic, origin: Option<Origin>) -> Result<(Held, Missing), BackendError> {
        self.unread.clear();
        let mut kept = KeptServers::new();
        if let Some(held) = self.held.take() {
            self.ours.extend(held.services.keys().copied());
            if origin == Some(Origin::Verification) {
                self.unread.begin(self.ours.clone());
            }
            let servers = held.services.into_iter().map(|(id, service)| (id, service.servers));
            kept = servers.filter(|(id, _)| self.unread.contains(id)).collect();
        }
        let known = Known {
            family: self.family,
            specs: &self.specs,
            ours: self.ours.clone(),
            foreign: self.foreign.clone(),
            host_addresses: &node.host_addresses,
            is_known_ours: self.interface_is_ours.load(Ordering::Relaxed),
            wanted: &self.wanted,
            is_lenient: false,
        };
        let read = Held::read_but(&mut self.kernel, &known, kept);
        let (mut held, missing) = read.map_err(|error| error.in_family(self.family))?;
        held.adopt_equal(&self.wanted);
        self.bound.set(&held.addresses);
        self.foreign = held.foreign.keys().copied().collect();
        self.forget_drained(&held);
        Ok((held, missing))
    }

    /// Real servers that are gone, or wanted again, do not drain.
    pub(super) fn forget_drained(&mut self, held: &Held) {
        let wanted = &self.wanted;
        self.draining.retain(|service, server| {
            let is_there = held.services.get(service).is_some_and(|held| held.servers.contains_key(server));
            let is_wanted = wanted.service(service).is_some_and(|wanted| wanted.has_server(server));
            is_there && !is_wanted
        });
    }

    fn make(&mut self, missing: Missing, held: &mut Held) -> Result<usize, BackendError> {
        let made = missing.make(&mut self.kernel, &self.specs, held);
        made.map_err(|error| error.in_family(self.family))
    }

    /// Chains of iptables mode still serve: they go, by being replaced, once the virtual servers can take over.
    fn order(&mut self) -> Result<Order, ferrule_kernel::iptables::IptablesError> {
        if self.has_taken_over {
            return Ok(Order::RulesFirst);
        }
        let services = self.tables.chain("nat", "KUBE-SERVICES")?.unwrap_or_default();
        let of_iptables = ["KUBE-SVC-", "KUBE-EXT-", "KUBE-FW-"];
        let is_old = |rule: &&str| of_iptables.iter().any(|chain| rule.contains(chain));
        let has_old = services.iter().map(RuleText::as_str).find(is_old).is_some();
        Ok(if has_old { Order::NatLast } else { Order::RulesFirst })
    }

    fn finish(
        &mut self,
        held: Held,
        written: Result<Written, BackendError>,
        origin: Origin,
    ) -> Result<SyncReport, BackendError> {
        let written = match written {
            Ok(written) => written,
            Err(error) => {
                self.ours.extend(held.services.into_keys());
                return Err(error.in_family(self.family));
            }
        };
        let outcome = match origin {
            _ if written.is_nothing() => SyncOutcome::UpToDate,
            Origin::Change => SyncOutcome::Incremental,
            // Real servers that have drained go at any time.
            Origin::Verification if written.found.is_empty() => SyncOutcome::Incremental,
            Origin::Verification | Origin::Read { was_ours: true } => SyncOutcome::Rewritten,
            Origin::Read { was_ours: false } => SyncOutcome::Created,
        };
        let mut notes = self.node_address_notes();
        if origin != Origin::Change {
            notes.extend(self.foreign_notes(&held));
            notes.extend(self.forwarding_note());
        }
        self.ours.clear();
        self.held = Some(held);
        self.has_taken_over = true;
        self.interface_is_ours.store(true, Ordering::Relaxed);
        let rejected = self.report_rejected(written.rejected, origin == Origin::Change);
        let found = written.found.into_text().filter(|_| origin != Origin::Change);
        Ok(SyncReport {
            written: written.made,
            removed: written.removed,
            commits: written.commits,
            outcome,
            deferred: self.deferred(Instant::now()),
            quarantined: self.rejected.len(),
            rejected,
            samples: Vec::new(),
            notes,
            found,
            ..SyncReport::default()
        })
    }

    /// Names what is others' once.
    fn foreign_notes(&mut self, held: &Held) -> Vec<Note> {
        let servers = held.foreign.keys().filter(|id| self.wanted.service(id).is_none());
        let mut others: Vec<String> = servers.map(ToString::to_string).collect();
        others.extend(held.fwmarks.iter().map(|seen| format!("fwmark {}", seen.mark)));
        others.retain(|other| self.noted.insert(other.clone()));
        let message = "Virtual servers of other programs are left alone";
        let note =
            || Note::new(Severity::Info, message).in_family(self.family).with_detail(others.join(", "));
        (!others.is_empty()).then(note).into_iter().collect()
    }

    /// Whether packets are forwarded is said again if that changes and comes back.
    fn forwarding_note(&mut self) -> Option<Note> {
        let is_off = self.family == IpFamily::V6 && !(self.kernel.forwards_ipv6)();
        let was_off = std::mem::replace(&mut self.is_forwarding_off, is_off);
        (is_off && !was_off).then(super::host::forwarding_note)
    }

    /// Addresses of Services that this node has itself.
    fn node_address_notes(&mut self) -> Vec<Note> {
        let mut notes = Vec::new();
        for (address, owner) in self.wanted.on_node() {
            if self.noted.insert(format!("node {address} {owner}")) {
                let message =
                    "An address of a Service is this node's own: it is served, and not bound to kube-ipvs0";
                let note = Note::new(Severity::Warning, message).in_family(self.family);
                notes
                    .push(note.with_detail(format!("{address} of {owner}")).as_event("ServiceAddressOnNode"));
            }
        }
        notes
    }

    pub(super) fn restore_failed(&self, error: ferrule_kernel::iptables::IptablesError) -> BackendError {
        let sample = Sample::increment(&RESTORE_FAILURES, self.family);
        rules_failed(error).counted(vec![sample])
    }
}

fn rules_failed(error: ferrule_kernel::iptables::IptablesError) -> BackendError {
    let is_about = |text: &str| error.rejected_line().is_some_and(|line| line.contains(text));
    let doing = match () {
        () if is_about("-m set ") => {
            "syncing the iptables rules of ipvs mode; is the module there (modprobe xt_set)?"
        }
        () if is_about("-m ipvs ") => {
            "syncing the iptables rules of ipvs mode; is the module there (modprobe xt_ipvs)?"
        }
        () => "syncing the iptables rules of ipvs mode",
    };
    BackendError::new(doing).caused_by(error)
}

impl Dataplane for IpvsDataplane {
    fn sync(&mut self, plan: &FamilyPlan, trigger: Trigger<'_>) -> Result<SyncReport, BackendError> {
        let is_reconfigured = self.take_options();
        let delta = trigger.changed();
        match (self.held.take(), trigger) {
            (Some(held), Trigger::Changed(delta)) if !is_reconfigured => self.change(held, plan, delta),
            (Some(held), Trigger::Verify { .. } | Trigger::Repair { .. })
                if !is_reconfigured && !delta.node =>
            {
                self.held = Some(held);
                self.verify_and_change(plan, delta)
            }
            (held, Trigger::Changed(_) | Trigger::Verify { .. } | Trigger::Repair { .. }) => {
                let origin = held.is_some().then_some(Origin::Change);
                self.held = held;
                self.wanted = Wanted::from_plan(plan, &self.scheduler);
                self.read_and_correct(plan, origin)
            }
        }
    }

    /// Counts the connections of real servers that drain, and reads what a verification left.
    fn run_deferred(&mut self) -> Result<SyncReport, BackendError> {
        // After a failure the next sync sees to it.
        let Some(mut held) = self.held.take() else { return Ok(SyncReport::default()) };
        let mut written = Written::default();
        let done = self
            .count_connections(&mut held, Instant::now(), &mut written)
            .and_then(|()| self.verify_next_slice(&mut held, &mut written));
        if let Err(error) = done {
            self.ours.extend(held.services.into_keys());
            return Err(error.in_family(self.family));
        }
        self.held = Some(held);
        let outcome = match written {
            _ if written.is_nothing() => SyncOutcome::UpToDate,
            _ if written.found.is_empty() => SyncOutcome::Incremental,
            _ => SyncOutcome::Rewritten,
        };
        Ok(SyncReport {
            written: written.made,
            removed: written.removed,
            commits: written.commits,
            outcome,
            deferred: self.deferred(Instant::now()),
            rejected: self.report_rejected(written.rejected, true),
            quarantined: self.rejected.len(),
            found: written.found.into_text(),
            ..SyncReport::default()
        })
    }

    fn diff(&mut self, plan: &FamilyPlan) -> Result<Patch, BackendError> {
        let wanted = Wanted::from_plan(plan, &self.scheduler);
        let mut ours = self.ours.clone();
        ours.extend(self.held.iter().flat_map(|held| held.services.keys().copied()));
        let known = Known {
            family: self.family,
            specs: &self.specs,
            ours,
            foreign: self.foreign.clone(),
            host_addresses: &plan.node.host_addresses,
            is_known_ours: self.interface_is_ours.load(Ordering::Relaxed),
            wanted: &wanted,
            is_lenient: false,
        };
        let (mut held, missing) =
            Held::read(&mut self.kernel, &known).map_err(|error| error.in_family(self.family))?;
        held.adopt_equal(&wanted);
        let taken = wanted.with_siblings(held.foreign.keys().copied().collect());
        let comparison = Comparison {
            wanted: &wanted,
            held: &held,
            draining: &self.draining,
            excluded: &self.excluded,
            withheld: &taken,
        };
        let mut edit = Edit::of_everything(&comparison);
        let fates = self.draining.fates(&mut self.kernel, &edit.retire, Instant::now());
        edit.settle(&held, &fates.map_err(|error| unreadable(error).in_family(self.family))?);
        let correction =
            self.tables.compare(&rules(&plan.node, &wanted.rule_input())).map_err(rules_failed)?;
        Ok(patch(&missing, &self.specs, &edit, &correction))
    }

    /// A new one counts at once: the next sync might be far away.
    fn verify_interval(&self) -> Option<Duration> {
        Some(self.options.get().sync_period)
    }

    fn cost(&self) -> Cost {
        if self.tables.portid().is_some() { Cost::Cpu } else { Cost::WallClock }
    }
}
