//! A proxy mode whose kernel is a map in memory, for tests of the loop. Follows the recipe in `ARCHITECTURE.md`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferrule_backends::{
    Backend, BackendError, Cleanup, CleanupProgress, Dataplane, Deferred, Drift, ModeOptions, Opened, Patch,
    Probe, RuleEvent, RuleEventSink, SyncOutcome, SyncReport, Trigger,
};
use ferrule_model::{IpFamily, PerFamily};
use ferrule_plan::{FamilyPlan, Frontend, FrontendKey, PoolScope, ProxyMode, StaleFlows};

/// What each frontend leads to.
pub type Rules = BTreeMap<FrontendKey, Vec<SocketAddr>>;

/// The kernel, shared between the backend and a test.
#[derive(Clone, Default)]
pub struct MemoryKernel(Arc<Mutex<State>>);

/// What the kernel holds, what happened to it, and what is to go wrong.
#[derive(Default)]
pub struct State {
    /// The rules of each family.
    pub rules: BTreeMap<IpFamily, Rules>,
    /// Every call: `IPv4 changed`, `IPv6 verify`, `IPv4 deferred`, `IPv4 shutdown`.
    pub calls: Vec<String>,
    /// What the next syncs fail with, before anything is written.
    pub faults: Vec<BackendError>,
    /// Syncs defer something.
    pub defers: bool,
    /// What deferred work will find to differ, and repair.
    pub found_later: Option<String>,
    /// Where drift is reported, once the rules are watched.
    pub sink: Option<Arc<dyn RuleEventSink>>,
}

impl MemoryKernel {
    /// What it holds now.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another program empties a family's rules, which the backend notices if it watches.
    pub fn flush(&self, family: IpFamily, by: &str) {
        self.state().rules.remove(&family);
        let drift = Drift { family, what: "rules emptied".to_owned(), by: Some(by.to_owned()) };
        let sink = self.state().sink.clone();
        sink.map(|sink| sink.send(RuleEvent::Drift(drift)));
    }
}

/// The mode.
#[derive(Default)]
pub struct MemoryBackend {
    /// Its kernel.
    pub kernel: MemoryKernel,
}

impl Backend for MemoryBackend {
    fn mode(&self) -> ProxyMode {
        ProxyMode::Userspace
    }

    fn probe(&mut self) -> Probe {
        Probe { families: PerFamily { v4: Some(Ok(())), v6: Some(Ok(())) }, notes: Vec::new() }
    }

    fn open(&mut self, families: &[IpFamily], _: &ModeOptions) -> Result<Opened, BackendError> {
        let mut opened = Opened { dataplanes: PerFamily::default(), notes: Vec::new() };
        for family in families {
            let kernel = self.kernel.clone();
            opened.dataplanes.set(*family, Box::new(MemoryDataplane { family: *family, kernel }));
        }
        Ok(opened)
    }

    fn watch(&mut self, sink: Arc<dyn RuleEventSink>) -> Result<(), BackendError> {
        self.kernel.state().sink = Some(sink);
        Ok(())
    }

    fn cleanup(&self, _: Option<Duration>) -> Cleanup {
        Box::new(|| (Vec::new(), Ok(CleanupProgress::Done)))
    }
}

struct MemoryDataplane {
    family: IpFamily,
    kernel: MemoryKernel,
}

/// The compiler: a frontend leads to all endpoints of the pools that its rules use.
fn compiled(plan: &FamilyPlan) -> Rules {
    let reached = |frontend: &Frontend| {
        let scopes = [PoolScope::Cluster, PoolScope::Local].into_iter();
        let used = scopes.filter(|scope| frontend.shape.uses_pool(*scope));
        let pools = used.filter_map(|scope| plan.pool(&frontend.owner, scope));
        let endpoints = pools.flat_map(|pool| pool.endpoints.iter());
        endpoints.map(|endpoint| SocketAddr::new(endpoint.ip, endpoint.port)).collect()
    };
    plan.frontends().map(|(key, frontend)| (*key, reached(frontend))).collect()
}

impl Dataplane for MemoryDataplane {
    fn sync(&mut self, plan: &FamilyPlan, trigger: Trigger<'_>) -> Result<SyncReport, BackendError> {
        let (wanted, mut state) = (compiled(plan), self.kernel.state());
        let (name, is_doubtful) = match trigger {
            Trigger::Changed(_) => ("changed", false),
            Trigger::Verify { .. } => ("verify", true),
            Trigger::Repair { .. } => ("repair", true),
        };
        state.calls.push(format!("{} {name}", self.family));
        if let Some(fault) = state.faults.pop() {
            return Err(fault);
        }
        let deferred = state.defers.then_some(Deferred { objects: 1, after: Duration::from_millis(1) });
        let written = wanted.len();
        let outcome = match state.rules.insert(self.family, wanted.clone()) {
            Some(was) if was == wanted => return Ok(SyncReport::default()),
            Some(_) if !is_doubtful => SyncOutcome::Incremental,
            Some(_) => SyncOutcome::Rewritten,
            None => SyncOutcome::Created,
        };
        Ok(SyncReport { written, commits: 1, outcome, deferred, ..SyncReport::default() })
    }

    fn run_deferred(&mut self) -> Result<SyncReport, BackendError> {
        let mut state = self.kernel.state();
        state.calls.push(format!("{} deferred", self.family));
        let Some(found) = state.found_later.take() else { return Ok(SyncReport::default()) };
        let outcome = SyncOutcome::Rewritten;
        Ok(SyncReport { written: 1, outcome, found: Some(found), ..SyncReport::default() })
    }

    fn diff(&mut self, plan: &FamilyPlan) -> Result<Patch, BackendError> {
        let held = self.kernel.state().rules.get(&self.family).cloned().unwrap_or_default();
        let missing = compiled(plan).into_iter().filter(|(key, to)| held.get(key) != Some(to));
        Ok(Patch { lines: missing.map(|rule| format!("{rule:?}")).collect() })
    }

    fn verify_interval(&self) -> Option<Duration> {
        None
    }

    fn forget_flows(&mut self, _: StaleFlows) -> StaleFlows {
        StaleFlows::default()
    }

    fn shutdown(&mut self, _: Duration) {
        self.kernel.state().calls.push(format!("{} shutdown", self.family));
    }
}
