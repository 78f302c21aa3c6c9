//! What a backend notices by itself, on its way to the loop, the log and the metrics.

use std::sync::Arc;
use std::sync::mpsc::SyncSender as Sender;

use ferrule_backends::metrics::Sample;
use ferrule_backends::{LoopEnded, Note, RuleEvent, RuleEventSink};

use super::{Event, notes};
use crate::status::Status;

/// Passes on what a backend notices.
pub(super) struct LoopSink {
    pub events: Sender<Event>,
    pub status: Arc<Status>,
}

impl RuleEventSink for LoopSink {
    fn send(&self, event: RuleEvent) -> Result<(), LoopEnded> {
        let event = match event {
            RuleEvent::Drift(drift) => Event::Drift(drift),
            RuleEvent::Verify(family) => Event::VerifyRules(family),
        };
        self.events.send(event).map_err(|_| LoopEnded)
    }

    fn note(&self, note: Note) {
        notes::log(&note);
    }

    fn record(&self, sample: &Sample) {
        self.status.metrics.record(sample);
    }
}
