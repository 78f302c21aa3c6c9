//! The running proxy: one loop over one closed set of events.
//!
//! Threads that wait for something (a source of objects, the kernel's news, signals, the configuration file) only send an
//! [`Event`]; everything that changes state happens here, one thing after another.

mod check_schedule;
mod drift;
mod family;
mod flows;
mod iptables;
mod leftovers;
mod localnet;
mod machine;
mod manifests;
mod observer;
mod pacing;
mod proxy;
mod repair_log;
mod rule_check;
mod signals;
mod source;
mod start;
mod told;
mod view;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use ferrule_backends::iptables::Correction;
use ferrule_kernel::{interfaces, sys};
use ferrule_model::{Change, Diagnostic, IpFamily, ObjectKind};
use rustix::time::{ClockId, clock_gettime};
use tracing::{info, warn};

use crate::causes::with_causes;
use crate::config::live::Action;
use crate::http::configz;
use crate::logging::LogHandle;
use crate::settings::{Settings, SyncSettings};
pub use check_schedule::CheckSchedule;
pub use drift::Drift;
pub use flows::{Cleaned, FlowCleaner, delete_stale};
pub use iptables::prepare as prepare_iptables;
pub use localnet::Localnet;
pub use observer::Observer;
pub use pacing::{Pace, Pacing, Pause, Retry};
pub use proxy::{Proxy, Synced};
pub use source::Source;
pub use start::{Start, StartError, run};
pub use view::{Site, node_view};

/// How long after a commit a packet may still be on its way through what that commit took out of use.
const LINGER: Duration = Duration::from_millis(20);
/// A pass over everything is due this often, as in kube-proxy.
const PERIODIC: Duration = Duration::from_hours(1);
/// After a first failure a sync is tried again this soon.
const FIRST_RETRY: Duration = Duration::from_millis(200);

/// Whether a lock that others hold is free is asked this often.
const LOCK_RETRY: Duration = Duration::from_millis(200);

/// Services, EndpointSlices, ServiceCIDRs, Nodes.
const ALL_KINDS: usize = 4;
/// Once Services and endpoints are there, the rest is waited for this long.
const WAIT_FOR_THE_REST: Duration = Duration::from_secs(5);
/// A list of more changes than this leaves memory behind that is worth giving back.
const MUCH: usize = 1000;
/// After this many events there is a look at what is due.
const MOST_AT_ONCE: usize = 1024;

/// What the loop can be told.
#[derive(Debug, PartialEq)]
pub enum Event {
    /// The cluster changed.
    News(News),
    /// Everything there was of a kind at the start has been told.
    InSync(ObjectKind),
    /// A kind cannot be told of for now.
    Trouble(ObjectKind),
    /// It can again.
    Recovered(ObjectKind),
    /// Somebody else changed our rules.
    Drift(Drift),
    /// Somebody may have changed our rules.
    RulesUncertain,
    /// Somebody else changed our rules, and this makes them what they should be.
    Correct(Drift, Box<Correction>),
    /// iptables may take rules now that it refused.
    QuarantineMayEnd(IpFamily),
    /// Some interface got or lost an address.
    AddressesChanged,
    /// The configuration file changed.
    Configuration(Action),
    /// It is time to end, by this signal.
    End(&'static str),
}

/// What a source of objects tells.
#[derive(Debug, Default, PartialEq)]
pub struct News {
    /// What changed.
    pub changes: Vec<Change>,
    /// What of it could not be used.
    pub diagnostics: Vec<Diagnostic>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By a signal.
    Signal(&'static str),
    /// The configuration changed in a way that needs a new process.
    Restart,
}

/// The loop.
pub struct Loop {
    proxy: Proxy,
    pacing: Pacing,
    gate: Gate,
    finish_at: Option<Instant>,
    /// Whether a large list was worked through since the last sync.
    took_in_much: bool,
    /// When others check the rules.
    schedule: Option<Arc<CheckSchedule>>,
    /// A setting of the host that follows ours, in iptables mode.
    localnet: Option<Localnet>,
    /// What is to be done once rules were written for the first time, whether that went well or not.
    after_first_try: Option<Box<dyn FnOnce() + Send>>,
    /// What is to be done once our rules are complete, for the first time.
    after_first_sync: Option<Box<dyn FnOnce() + Send>>,
    log: LogHandle,
}

/// What has been told of everything there was at the start. Before that, rules would be missing, and a restart would take away
/// what it then puts back.
#[derive(Debug, Default)]
struct Gate {
    passed: BTreeSet<ObjectKind>,
    /// Since when Services and their endpoints are there.
    essentials_since: Option<Instant>,
}

impl Gate {
    /// Notes a kind.
    fn pass(&mut self, kind: ObjectKind, now: Instant) {
        self.passed.insert(kind);
        let essentials = [ObjectKind::Service, ObjectKind::EndpointSlice];
        if essentials.iter().all(|kind| self.passed.contains(kind)) {
            self.essentials_since.get_or_insert(now);
        }
    }

    /// When syncs may begin. What cannot be had (an API server may refuse us ServiceCIDRs) must not keep the rest from being served.
    fn opens_at(&self) -> Option<Instant> {
        let since = self.essentials_since?;
        Some(if self.passed.len() == ALL_KINDS { since } else { since + WAIT_FOR_THE_REST })
    }
}

impl Loop {
    /// A loop that has not begun.
    pub fn new(proxy: Proxy, sync: &SyncSettings, log: LogHandle) -> Self {
        let pacing = Pacing::new(pace(sync), Instant::now());
        Self {
            proxy,
            pacing,
            gate: Gate::default(),
            finish_at: None,
            took_in_much: false,
            schedule: None,
            localnet: None,
            after_first_try: None,
            after_first_sync: None,
            log,
        }
    }

    /// Has something done after the first sync, whatever became of it.
    #[must_use]
    pub fn after_first_try(mut self, work: impl FnOnce() + Send + 'static) -> Self {
        self.after_first_try = Some(Box::new(work));
        self
    }

    /// Has something done once all rules are in the kernel for the first time.
    #[must_use]
    pub fn after_first_sync(mut self, work: impl FnOnce() + Send + 'static) -> Self {
        self.after_first_sync = Some(Box::new(work));
        self
    }

    /// Shares the period with the threads that check the rules.
    #[must_use]
    pub fn checking_by(mut self, schedule: Arc<CheckSchedule>) -> Self {
        self.schedule = Some(schedule);
        self
    }

    /// Has `route_localnet` follow the settings.
    #[must_use]
    pub fn with_localnet(mut self, localnet: Option<Localnet>) -> Self {
        self.localnet = localnet;
        self
    }

    /// Runs until it is told to end, after taking in what was told before.
    pub fn run(&mut self, told: Vec<Event>, events: &Receiver<Event>) -> Ended {
        for event in told {
            if let Some(ended) = self.take(event) {
                return ended;
            }
        }
        self.act(Instant::now());
        loop {
            let first = match events.recv_timeout(self.patience()) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ended::Restart,
            };
            for event in first.into_iter().chain(events.try_iter().take(MOST_AT_ONCE)) {
                if let Some(ended) = self.take(event) {
                    return ended;
                }
            }
            self.act(Instant::now());
        }
    }

    fn patience(&self) -> Duration {
        let due = self.gate.opens_at().map(|at| at.max(self.pacing.due_at()));
        let next = due.into_iter().chain(self.finish_at).min();
        next.map_or(PERIODIC, |next| next.saturating_duration_since(Instant::now()))
    }

    fn take(&mut self, event: Event) -> Option<Ended> {
        let is_wanted = match event {
            Event::News(news) => {
                self.took_in_much |= news.changes.len() > MUCH;
                self.proxy.take(news)
            }
            Event::InSync(kind) => {
                // Its list came in portions.
                self.took_in_much = true;
                self.gate.pass(kind, Instant::now());
                true
            }
            Event::Drift(drift) => {
                self.proxy.take_drift(drift);
                self.pacing.want_repair();
                true
            }
            Event::RulesUncertain => {
                self.proxy.look_again();
                true
            }
            Event::Correct(drift, correction) => {
                self.proxy.take_correction(drift, correction);
                self.pacing.want_repair();
                true
            }
            Event::QuarantineMayEnd(family) => {
                self.proxy.look_at(family);
                true
            }
            Event::AddressesChanged => self.take_addresses(),
            Event::Configuration(Action::Apply { settings, effective }) => {
                self.proxy.configured(configz::page(&effective.to_written()), settings.sync.period);
                self.apply(&settings)
            }
            Event::Configuration(Action::Keep) | Event::Trouble(_) | Event::Recovered(_) => false,
            Event::Configuration(Action::Restart) => return Some(Ended::Restart),
            Event::End(signal) => return Some(Ended::Signal(signal)),
        };
        if is_wanted {
            self.pacing.want();
            if self.gate.opens_at().is_some() {
                self.proxy.queued();
            }
        }
        None
    }

    fn take_addresses(&mut self) -> bool {
        match interfaces::addresses() {
            Ok(addresses) => self.proxy.set_addresses(addresses.into_iter().map(|found| found.address)),
            Err(error) => {
                warn!(
                    err = with_causes(&error),
                    "Listing the addresses of this host, the known ones stay in use"
                );
                false
            }
        }
    }

    fn apply(&mut self, settings: &Settings) -> bool {
        self.log.configure(&settings.logging);
        self.pacing.set(pace(&settings.sync));
        if let Some(schedule) = &self.schedule {
            schedule.set_period(settings.sync.period);
        }
        if let Some(localnet) = &mut self.localnet {
            let host_ips = self.proxy.cluster().node().map_or(&[][..], |node| &node.host_ips);
            localnet.follow(settings, host_ips);
        }
        let site = self.proxy.site();
        self.proxy.set_view(node_view(settings, &site))
    }

    fn act(&mut self, now: Instant) {
        if self.finish_at.is_some_and(|at| at <= now) {
            self.finish_at = None;
            if !self.proxy.finish() {
                self.pacing.want();
            }
        }
        if self.gate.opens_at().is_some_and(|at| at.max(self.pacing.due_at()) <= now) {
            self.sync(now);
        }
    }

    fn sync(&mut self, began: Instant) {
        // Nobody asked: it is time for a look at everything.
        if !self.pacing.begin() {
            self.proxy.look_again();
        }
        let busy = processor_time();
        let synced = self.proxy.sync();
        let now = Instant::now();
        // Where programs do the work, waiting for them and for their lock is what it costs others. Where this thread does all
        // of it, being kept waiting by others is no reason to wait longer.
        let cost =
            if self.proxy.runs_programs() { now - began } else { processor_time().saturating_sub(busy) };
        self.pacing.end(cost, now, synced.is_well());
        if self.proxy.is_waiting_for_lock() {
            self.pacing.retry_by(now + LOCK_RETRY);
        }
        if std::mem::take(&mut self.took_in_much) {
            sys::give_back_freed_memory();
        }
        if let Some(localnet) = self.localnet.as_mut().filter(|_| synced.is_well()) {
            localnet.settle();
        }
        if let Some(work) = self.after_first_try.take() {
            work();
        }
        if synced.is_well()
            && let Some(work) = self.after_first_sync.take()
        {
            work();
        }
        if self.proxy.is_lingering() {
            self.finish_at = Some(now + LINGER);
        }
    }
}

/// How much of a processor this thread has used so far.
fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap_or_default()
}

/// The pace the settings ask for.
fn pace(sync: &SyncSettings) -> Pace {
    let pause = if sync.min_period_is_set {
        Pause::Fixed(sync.min_period)
    } else {
        Pause::ByCost { at_most: sync.min_period }
    };
    let retry = Retry { first: FIRST_RETRY.min(sync.period), longest: sync.period };
    Pace { pause, retry, at_least_every: PERIODIC.max(sync.min_period) }
}

/// Says that it ends, and why.
pub fn log_end(ended: Ended) {
    match ended {
        Ended::Signal(name) => info!(signal = name, "Ending; the rules stay in the kernel"),
        Ended::Restart => info!("Ending to be started anew; the rules stay in the kernel"),
    }
}
