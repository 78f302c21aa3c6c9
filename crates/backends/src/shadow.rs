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
/// Ends what a line is about, where it says what becomes of a packet.
pub(crate) const PLANNED: &str = ": planned ";
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
        self.mode.shadow_probe()
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
    /// What differed in the last comparison, and since when. The same packet that meets something else by now has not agreed
    /// in between.
    seen: BTreeMap<String, (Instant, String)>,
    /// What of it has lasted and was noted.
    noted: BTreeSet<String>,
    /// Whether the last comparison succeeded.
    has_compared: bool,
}

impl Looking {
    fn new(family: IpFamily, reader: KernelReader, settle_time: Duration) -> Self {
        let (seen, noted) = (BTreeMap::new(), BTreeSet::new());
        Self { family, reader, settle_time, seen, noted, has_compared: false }
    }

    /// Remembers what differs now; returns what has lasted.
    fn take(&mut self, lines: Vec<String>, now: Instant) -> BTreeMap<String, String> {
        let mut before = std::mem::take(&mut self.seen);
        for line in lines {
            let about = subject(&line).to_owned();
            let since = before.remove(&about).map_or(now, |(since, _)| since);
            self.seen.insert(about, (since, line));
        }
        let has_lasted = |since: Instant| now.saturating_duration_since(since) >= self.settle_time;
        let lasting = self.seen.iter().filter(|(_, (since, _))| has_lasted(*since));
        lasting.map(|(about, (_, line))| (about.clone(), line.clone())).collect()
    }

    /// What changed since the last comparison, for the log.
    fn notes(&mut self, lasting: BTreeMap<String, String>) -> Vec<Note> {
        let had_some = !self.noted.is_empty();
        let known = std::mem::replace(&mut self.noted, lasting.keys().cloned().collect());
        let new = lasting.into_iter().filter(|(about, _)| !known.contains(about));
        let new: Vec<String> = new.map(|(_, line)| line).collect();
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

/// What a line is about: the destination and the sender of a packet. Other lines are about themselves.
fn subject(line: &str) -> &str {
    line.split_once(PLANNED).map_or(line, |(subject, _)| subject)
}

impl Dataplane for Looking {
    /// Compares when it is asked to verify, and after a comparison that failed. A change alone is no reason: the other proxy has
    /// not seen it yet.
    fn sync(&mut self, plan: &FamilyPlan, trigger: Trigger<'_>) -> Result<SyncReport, BackendError> {
        if matches!(trigger, Trigger::Changed(_)) && self.has_compared {
            return Ok(SyncReport { differing: self.noted.len(), ..SyncReport::default() });
        }
        self.has_compared = false;
        let lines = self.reader.diff(plan)?.lines;
        self.has_compared = true;
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
