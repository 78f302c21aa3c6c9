//! The loop once the node is known: notes what is wanted, and syncs when it is time.

use std::sync::Arc;
use std::sync::mpsc::SyncSender as Sender;
use std::time::{Duration, Instant};

use ferrule_backends::{Backend, Cost, ModeOptions};
use ferrule_config::settings::{Settings, SyncSettings};
use ferrule_config::{Reload, configz};
use ferrule_kernel::{interfaces, sys};
use rustix::time::{ClockId, clock_gettime};
use tracing::warn;

use super::gate::Gate;
use super::inspect::Snapshot;
use super::pacing::{Pace, Pacing, Pause, Retry};
use super::proxy::Proxy;
use super::rule_events::LoopSink;
use super::view::{mode_options, node_view};
use super::{Event, leftovers, notes};
use crate::http::InspectSocket;
use crate::logging::LogHandle;
use crate::status::Status;
use ferrule_model::with_causes;

/// Everything is synced at least this often, as in kube-proxy.
const RESYNC_INTERVAL: Duration = Duration::from_hours(1);
/// A sync that failed is tried again this soon, the first time.
const FIRST_RETRY: Duration = Duration::from_millis(200);

/// A verification counts as costing at least this much. Where the kernel loses notifications all the time, each loss asks for one:
/// some follow each other at once, further ones come ten a second.
const VERIFICATION_COST: Duration = Duration::from_millis(10);
/// A batch of more changes than this leaves memory behind that is worth giving back.
const LARGE_BATCH: usize = 1000;
/// The same for a sync that takes longer than this.
const LARGE_SYNC: Duration = Duration::from_millis(300);

/// Serves.
pub(super) struct Serving {
    proxy: Proxy,
    backend: Box<dyn Backend>,
    pacing: Pacing,
    gate: Gate,
    startup: Startup,
    /// Whether a large list was processed since the last sync.
    trim_heap_after_sync: bool,
    context: Context,
}

/// What a serving loop is connected to.
pub(super) struct Context {
    /// The queue the loop reads.
    pub events: Sender<Event>,
    pub status: Arc<Status>,
    pub log: LogHandle,
    pub sync: SyncSettings,
    /// How long connections through what another mode left may go on.
    pub drain_limit: Option<Duration>,
    /// What the backend was opened with, or reconfigured to.
    pub options: ModeOptions,
    /// Answers questions for as long as this loop runs.
    #[expect(dead_code, reason = "it answers until it is dropped")]
    pub inspect_socket: Option<InspectSocket>,
}

/// How far a start has come. What watches the rules begins after the first try, whatever became of it; what other modes left
/// goes after the first success, so that no connection meets a node without rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Startup {
    BeforeFirstTry,
    BeforeFirstSuccess,
    Done,
}

impl Serving {
    pub(super) fn new(proxy: Proxy, backend: Box<dyn Backend>, context: Context) -> Self {
        Self {
            proxy,
            backend,
            pacing: Pacing::new(pace(&context.sync), Instant::now()),
            gate: Gate::default(),
            startup: Startup::BeforeFirstTry,
            trim_heap_after_sync: false,
            context,
        }
    }

    /// How long nothing is due.
    pub(super) fn timeout(&self, now: Instant) -> Duration {
        let sync = self.gate.opens_at().map(|at| at.max(self.pacing.due_at()));
        let verify = self.gate.opens_at().and(self.proxy.verify_at());
        let next = sync.into_iter().chain(verify).chain(self.proxy.deferred_at()).min();
        next.map_or(RESYNC_INTERVAL, |next| next.saturating_duration_since(now))
    }

    pub(super) fn handle(&mut self, event: Event) {
        let is_wanted = match event {
            Event::Changes(batch) => {
                self.trim_heap_after_sync |= batch.changes.len() > LARGE_BATCH;
                self.proxy.apply_batch(batch)
            }
            Event::InSync(kind) => {
                // Its list came in chunks.
                self.trim_heap_after_sync = true;
                self.gate.pass(kind, Instant::now());
                true
            }
            Event::Drift(drift) => {
                self.proxy.note_drift(drift);
                self.pacing.want_repair();
                true
            }
            Event::VerifyRules(family) => {
                self.proxy.want_verification(family);
                true
            }
            Event::AddressesChanged => self.update_addresses(),
            Event::Reload(Reload::Apply { settings, effective, .. }) => {
                self.proxy.configured(configz::page(&effective.to_written()), settings.sync.period);
                self.reconfigure(&settings)
            }
            Event::Trouble(kind) => {
                self.proxy.set_reachable(kind, false);
                false
            }
            Event::Recovered(kind) => {
                self.proxy.set_reachable(kind, true);
                false
            }
            Event::Inspect(reply) => {
                // The one who asked may have given up.
                let reader = self.backend.reader(&self.context.options);
                let is_shadow = self.backend.is_shadow();
                let snapshot = self.proxy.snapshot(self.backend.mode());
                let _ = reply.try_send(Snapshot { is_shadow, reader, ..snapshot });
                false
            }
            Event::Diff(reply) => {
                let _ = reply.try_send(self.proxy.diff());
                false
            }
            Event::Reload(Reload::Restart { .. }) | Event::End(_) => false,
        };
        if is_wanted {
            self.pacing.want();
            if self.gate.opens_at().is_some() {
                self.proxy.queued();
            }
        }
    }

    fn update_addresses(&mut self) -> bool {
        match interfaces::node_addresses() {
            Ok(addresses) => self.proxy.set_addresses(addresses.into_iter().map(|found| found.address)),
            Err(error) => {
                let err = with_causes(&error);
                warn!(err, "Cannot list the addresses of this host, the known ones stay in use");
                false
            }
        }
    }

    fn reconfigure(&mut self, settings: &Settings) -> bool {
        self.context.log.configure(&settings.logging);
        self.pacing.set(pace(&settings.sync));
        let host_ips = self.proxy.cluster().node().map_or(&[][..], |node| &node.host_ips);
        let options = mode_options(settings, host_ips);
        notes::log_all(&self.backend.reconfigure(&options));
        let site = self.proxy.site();
        let view = node_view(settings, &options, &*self.backend, &site);
        self.context.options = options;
        self.proxy.set_view(view)
    }

    /// Does what is due.
    pub(super) fn act(&mut self, now: Instant) {
        if !self.proxy.run_deferred(now) {
            self.pacing.want();
        }
        if self.startup != Startup::BeforeFirstTry && self.proxy.want_due_verifications(now) {
            self.pacing.want();
        }
        if self.gate.opens_at().is_some_and(|at| at.max(self.pacing.due_at()) <= now) {
            self.sync(now);
        }
    }

    fn sync(&mut self, began: Instant) {
        self.pacing.begin();
        let cpu_before = cpu_time();
        let synced = self.proxy.sync();
        let now = Instant::now();
        let cost = match self.proxy.cost() {
            Cost::Cpu => cpu_time().saturating_sub(cpu_before),
            Cost::WallClock => now - began,
        };
        let cost = if synced.is_verification { cost.max(VERIFICATION_COST) } else { cost };
        self.pacing.end(cost, now, synced.is_complete);
        if let Some(delay) = synced.retry_in {
            self.pacing.retry_by(now + delay);
        }
        if synced.needs_another {
            self.pacing.want();
        }
        // Reading or writing very many rules leaves memory behind, too.
        let is_large = now - began > LARGE_SYNC;
        if std::mem::take(&mut self.trim_heap_after_sync) || is_large {
            sys::trim_heap();
        }
        self.go_on_starting(synced.is_complete);
    }

    fn go_on_starting(&mut self, is_complete: bool) {
        if self.startup == Startup::BeforeFirstTry {
            self.startup = Startup::BeforeFirstSuccess;
            let Context { events, status, .. } = &self.context;
            let sink = LoopSink { events: events.clone(), status: Arc::clone(status) };
            if let Err(error) = self.backend.watch(Arc::new(sink)) {
                let err = with_causes(&error);
                warn!(
                    err,
                    "Foreign changes of our rules are not noticed at once, only by hourly verification"
                );
                self.proxy.verify_every(RESYNC_INTERVAL);
            }
        }
        if is_complete && self.startup == Startup::BeforeFirstSuccess {
            self.startup = Startup::Done;
            let Context { status, sync, drain_limit, .. } = &self.context;
            leftovers::remove(self.backend.cleanup(*drain_limit), sync.period, Arc::clone(status));
        }
    }

    /// Whether another process serves in this one's place.
    pub(super) fn is_standing_by(&self) -> bool {
        self.proxy.is_standing_by()
    }

    pub(super) fn shut_down(&mut self) {
        self.proxy.shut_down(self.backend.shutdown_grace());
    }
}

/// The CPU time of this thread so far.
fn cpu_time() -> Duration {
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
    Pace { pause, retry, at_least_every: RESYNC_INTERVAL.max(sync.min_period) }
}
