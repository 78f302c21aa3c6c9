//! What a backend notices by itself: rules that another program changed, and how verifying them went.

use std::ops::ControlFlow;

use ferrule_model::IpFamily;

use crate::metrics::Sample;
use crate::{BackendError, Note};

/// Rules in the kernel that another program changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// Whose rules.
    pub family: IpFamily,
    /// What was changed, as far as it is known.
    pub what: String,
    /// By which program, if the kernel says so.
    pub by: Option<String>,
}

/// Something a backend noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleEvent {
    /// Another program changed rules: [`Trigger::Repair`](crate::Trigger::Repair) is wanted.
    Drift(Drift),
    /// Rules may have changed: [`Trigger::Verify`](crate::Trigger::Verify) is wanted, in one family or in all.
    Verify(Option<IpFamily>),
}

/// Where a backend sends what it notices. Used by several threads.
pub trait RuleEventSink: Send + Sync {
    /// Passes an event on to the loop.
    fn send(&self, event: RuleEvent) -> Result<(), LoopEnded>;

    /// Has something logged.
    fn note(&self, note: Note);

    /// Has a metric recorded.
    fn record(&self, sample: &Sample);
}

/// The loop has ended: threads that send events end too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopEnded;

/// Passes events on, until the loop has ended.
pub(crate) fn pass_on(events: Vec<RuleEvent>, sink: &dyn RuleEventSink) -> ControlFlow<()> {
    if events.into_iter().all(|event| sink.send(event).is_ok()) {
        ControlFlow::Continue(())
    } else {
        ControlFlow::Break(())
    }
}

/// A thread that watches rules could not be started, and what that means.
pub(crate) fn unwatched(error: std::io::Error) -> BackendError {
    BackendError::new("starting a thread that watches the rules").caused_by(error)
}
