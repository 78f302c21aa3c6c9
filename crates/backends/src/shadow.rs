//! Shadow mode: beside a proxy that serves, whichever it is, says what it does differently, and touches nothing.
//!
//! The mode is wrapped: what it would open, watch, prepare or remove stays as it is. What is left is its reader, which compares
//! plans with the kernel. Where kube-proxy's rules have the form of ours that is [`Backend::reader`]; where they do not, packets
//! are followed through them ([`Backend::shadow_reader`]).
//!
//! The proxy beside us takes its time with a change, and so a difference counts once it has lasted.

pub(crate) mod probes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrule_model::{IpFamily, PerFamily};
use ferrule_plan::{FamilyPlan, LoopbackNodePorts, ProxyMode, Quirks, StaleFlows};

use crate::metrics::{FAMILY, MetricDeclaration, MetricKind, Sample, count};
use crate::{
    Backend, BackendError, Cleanup, CleanupProgress, Dataplane, KernelReader, ModeOptions, Note, Opened,
    Patch, Probe, Rights, RuleEventSink, Severity, SyncReport, Trigger,
};

/// Comparisons in the time that a difference must last.
const COMPARISONS: u32 = 3;
/// Rules are not read more often than this.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);
/// So many new differences are logged one by one.
const MAX_NOTES: usize = 10;

static METRICS: [&MetricDeclaration; 2] = [&DIFFERENCES, &COMPARED];

/// Differences that have lasted.
pub static DIFFERENCES: MetricDeclaration = MetricDeclaration {
    name: "ferrule_shadow_differences",
    help: "Differences between the rules in the kernel and the plan that have lasted",
    kind: MetricKind::Gauge,
    labels: &[FAMILY],
};

/// How often rules were compared.
pub static COMPARED: MetricDeclaration = MetricDeclaration {
    name: "ferrule_shadow_comparisons_total",
    help: "Comparisons of the rules in the kernel with the plan",
    kind: MetricKind::Counter,
    labels: &[FAMILY],
};

/// A mode that only looks.
pub struct Shadow {
    mode: Box<dyn Backend>,
    /// How long a difference must last.
    settle_time: Duration,
}

impl Shadow {
    /// Looks at what this mode would serve.
    pub fn of(mode: Box<dyn Backend>, settle_time: Duration) -> Self {
        Self { mode, settle_time }
    }
}

impl Backend for Shadow {
    fn mode(&self) -> ProxyMode {
        self.mode.mode()
    }

    fn is_shadow(&self) -> bool {
        true
    }

    fn quirks(&self) -> Quirks {
        self.mode.quirks()
    }

    fn loopback_node_ports(&self, options: &ModeOptions) -> LoopbackNodePorts {
        self.mode.loopback_node_ports(options)
    }

    fn metrics(&self) -> &'static [&'static MetricDeclaration] {
        &METRICS
    }

    fn rights(&self) -> Rights {
        Rights { load_modules: false, descriptors: 0, ..self.mode.rights() }
    }

    fn probe(&mut self) -> Probe {
        self.mode.probe()
    }

    fn open(&mut self, families: &[IpFamily], options: &ModeOptions) -> Result<Opened, BackendError> {
        let reader = self.reader(options).ok_or_else(|| {
            BackendError::new(
                "opening shadow mode: in userspace mode only the process that serves knows its rules",
            )
        })?;
        let mut dataplanes: PerFamily<Box<dyn Dataplane>> = PerFamily::default();
        for family in families {
            dataplanes.set(*family, Box::new(Looking::new(*family, reader.clone(), self.settle_time)));
        }
        Ok(Opened { dataplanes, notes: Vec::new() })
    }

    fn reader(&self, options: &ModeOptions) -> Option<KernelReader> {
        self.mode.shadow_reader(options)
    }

    /// Rules are compared at intervals, whichever program changes them.
    fn watch(&mut self, _: Arc<dyn RuleEventSink>) -> Result<(), BackendError> {
        Ok(())
    }

    fn shutdown_grace(&self) -> Duration {
        Duration::ZERO
    }

    /// Nothing is a leftover: another proxy uses it.
    fn cleanup(&self, _: Option<Duration>) -> Cleanup {
        Box::new(|| (Vec::new(), Ok(CleanupProgress::Done)))
    }
}

/// One family of a mode that only looks.
struct Looking {
    family: IpFamily,
    reader: KernelReader,
    settle_time: Duration,
    /// What differed in the last comparison, and since when.
    seen: BTreeMap<String, Instant>,
    /// What of it has lasted and was noted.
    noted: BTreeSet<String>,
}

impl Looking {
    fn new(family: IpFamily, reader: KernelReader, settle_time: Duration) -> Self {
        Self { family, reader, settle_time, seen: BTreeMap::new(), noted: BTreeSet::new() }
    }

    /// Remembers what differs now; returns what has lasted.
    fn take(&mut self, lines: Vec<String>, now: Instant) -> BTreeSet<String> {
        let mut before = std::mem::take(&mut self.seen);
        let since = |line: String| {
            let since = before.remove(&line).unwrap_or(now);
            (line, since)
        };
        self.seen = lines.into_iter().map(since).collect();
        let has_lasted = |since: &Instant| now.saturating_duration_since(*since) >= self.settle_time;
        self.seen.iter().filter(|(_, since)| has_lasted(since)).map(|(line, _)| line.clone()).collect()
    }

    /// What changed since the last comparison, for the log.
    fn notes(&mut self, lasting: BTreeSet<String>) -> Vec<Note> {
        let new: Vec<String> = lasting.difference(&self.noted).cloned().collect();
        let had_some = !self.noted.is_empty();
        self.noted = lasting;
        let mut notes = Vec::new();
        for line in new.iter().take(MAX_NOTES) {
            let note = Note::new(Severity::Warning, "This node does something else than planned");
            notes.push(note.in_family(self.family).with_detail(line.as_str()));
        }
        if new.len() > MAX_NOTES {
            let note = Note::new(Severity::Warning, "There are more differences: `ferrule diff` lists them");
            notes.push(note.in_family(self.family).with_detail((new.len() - MAX_NOTES).to_string()));
        }
        if had_some && self.noted.is_empty() {
            notes.push(Note::new(Severity::Info, "This node does what is planned").in_family(self.family));
        }
        notes
    }
}

impl Dataplane for Looking {
    /// Compares when it is asked to verify. A change alone is no reason: the other proxy has not seen it yet.
    fn sync(&mut self, plan: &FamilyPlan, trigger: Trigger<'_>) -> Result<SyncReport, BackendError> {
        if matches!(trigger, Trigger::Changed(_)) {
            return Ok(SyncReport { differing: self.noted.len(), ..SyncReport::default() });
        }
        let lines = self.reader.diff(plan)?.lines;
        let lasting = self.take(lines, Instant::now());
        let samples = vec![
            Sample::for_family(&DIFFERENCES, self.family, count(lasting.len())),
            Sample::increment(&COMPARED, self.family),
        ];
        let differing = lasting.len();
        Ok(SyncReport { differing, notes: self.notes(lasting), samples, ..SyncReport::default() })
    }

    fn diff(&mut self, plan: &FamilyPlan) -> Result<Patch, BackendError> {
        self.reader.diff(plan)
    }

    fn verify_interval(&self) -> Option<Duration> {
        Some((self.settle_time / COMPARISONS).max(SHORTEST_INTERVAL))
    }

    /// The other proxy deletes them.
    fn forget_flows(&mut self, _: StaleFlows) -> StaleFlows {
        StaleFlows::default()
    }
}

#[cfg(test)]
mod tests;
