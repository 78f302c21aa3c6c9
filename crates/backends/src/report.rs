//! What every mode reports about a sync.

use std::time::Duration;

use ferrule_model::IpFamily;

use crate::metrics::Sample;

/// What a sync did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyncReport {
    /// Objects written.
    pub written: usize,
    /// Objects removed by name or key.
    pub removed: usize,
    /// Transactions, or runs of a program.
    pub commits: usize,
    /// How it came about.
    pub outcome: SyncOutcome,
    /// Work to be done later by [`crate::Dataplane::run_deferred`].
    pub deferred: Option<Deferred>,
    /// Service ports that are not served, because their rules were rejected.
    pub quarantined: usize,
    /// What was rejected, while the rest was written.
    pub rejected: Vec<Rejected>,
    /// Values for the mode's metrics.
    pub samples: Vec<Sample>,
    /// Lines for the log.
    pub notes: Vec<Note>,
    /// What was found to differ where the kernel was read, if the backend says so.
    pub found: Option<String>,
    /// In shadow mode: how many differences to the rules of another proxy have lasted.
    pub differing: usize,
}

/// Work for later: what it removes may still be needed by packets on their way, or a change is not to wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deferred {
    /// How many objects it removes.
    pub objects: usize,
    /// How long after the sync it may be done.
    pub after: Duration,
}

/// How a sync came about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncOutcome {
    /// The kernel held the plan already.
    #[default]
    UpToDate,
    /// The difference was written.
    Incremental,
    /// Everything was written again, in place.
    Rewritten,
    /// Everything was created, or replaced another program's.
    Created,
}

impl SyncOutcome {
    /// Whether the kernel held something else, though the plan had not changed.
    pub fn is_repair(self) -> bool {
        match self {
            Self::UpToDate | Self::Incremental => false,
            Self::Rewritten | Self::Created => true,
        }
    }

    /// For the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::UpToDate => "up-to-date",
            Self::Incremental => "incremental",
            Self::Rewritten => "rewritten",
            Self::Created => "created",
        }
    }
}

/// Rules that were rejected and left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Whose rules.
    pub what: String,
    /// Why.
    pub reason: String,
    /// Whether they were rejected before.
    pub is_repeated: bool,
}

/// A line for the log. Backends do not log themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// How much it matters.
    pub severity: Severity,
    /// What happened.
    pub message: &'static str,
    /// In which family, if in one.
    pub family: Option<IpFamily>,
    /// What exactly, or why.
    pub detail: Option<String>,
    /// The reason of the Event that it is as well, if it is one.
    pub event: Option<&'static str>,
}

/// How much a note matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// An operator must act.
    Error,
    /// Something is worse than asked for.
    Warning,
    /// A state changed.
    Info,
    /// Details (`-v=2`).
    Verbose,
}

impl Note {
    /// A note about the whole node.
    pub fn new(severity: Severity, message: &'static str) -> Self {
        Self { severity, message, family: None, detail: None, event: None }
    }

    /// Adds the family.
    #[must_use]
    pub fn in_family(self, family: IpFamily) -> Self {
        Self { family: Some(family), ..self }
    }

    /// Adds what exactly, or why.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }
}

impl Note {
    /// Makes it an Event about the node as well, with this reason.
    #[must_use]
    pub fn as_event(self, reason: &'static str) -> Self {
        Self { event: Some(reason), ..self }
    }
}

impl SyncReport {
    /// Counts one commit.
    pub(crate) fn add(&mut self, written: usize, removed: usize) {
        self.written += written;
        self.removed += removed;
        self.commits += 1;
    }

    /// How many objects are left for later.
    pub fn deferred_objects(&self) -> usize {
        self.deferred.map_or(0, |deferred| deferred.objects)
    }
}
