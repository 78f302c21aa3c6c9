//! Passes events to the sink, and logs outages: each once, however many watches it stops and however often it is retried.

use std::cell::RefCell;
use std::collections::BTreeMap;

use ferrule_model::ObjectKind;
use tracing::{debug, info, warn};

use super::error::FailureClass;
use super::{ApiError, SourceEvent};
use crate::{ChangeBatch, MassRemoval};

/// After this many failures of one class in a row, it is an outage of its own and no longer part of the one before.
const PERSISTENT_AFTER: u32 = 3;

/// Shared by all watches of a source, on its one thread.
pub(super) struct Reporter {
    state: RefCell<State>,
}

struct State {
    sink: Box<dyn FnMut(SourceEvent) + Send>,
    /// The kinds that are not being watched.
    failing: BTreeMap<ObjectKind, FailureStreak>,
    /// Outages that were logged and are not over.
    logged: Vec<FailureClass>,
}

#[derive(Clone, Copy)]
struct FailureStreak {
    class: FailureClass,
    length: u32,
}

impl Reporter {
    pub(super) fn new(sink: impl FnMut(SourceEvent) + Send + 'static) -> Self {
        let state = State { sink: Box::new(sink), failing: BTreeMap::new(), logged: Vec::new() };
        Self { state: RefCell::new(state) }
    }

    pub(super) fn changes(&self, batch: ChangeBatch) {
        if !batch.is_empty() {
            self.emit(SourceEvent::Changes(batch));
        }
    }

    pub(super) fn mass_removal(&self, removal: MassRemoval, version: &str) {
        let MassRemoval { kind, removed, known } = removal;
        warn!(
            %kind, removed, known, version,
            "A new list lacks more than half of the known objects, removing them; is this the right API server, and is \
             its store complete?"
        );
        self.emit(SourceEvent::MassRemoval(removal));
    }

    pub(super) fn in_sync(&self, kind: ObjectKind) {
        self.emit(SourceEvent::InSync(kind));
    }

    pub(super) fn watch_failed(&self, kind: ObjectKind, error: &ApiError) {
        debug!(err = %error, kind = %kind, "Failed to watch");
        let class = error.class();
        let mut state = self.state.borrow_mut();
        let before = state.failing.get(&kind).copied();
        let length =
            before.filter(|before| before.class == class).map_or(1, |before| before.length.saturating_add(1));
        state.failing.insert(kind, FailureStreak { class, length });
        // A server that is starting rejects for a moment what it will allow. That is part of the same outage.
        let is_new = before.is_none() || length == PERSISTENT_AFTER;
        if is_new && !state.logged.contains(&class) {
            state.logged.push(class);
            warn!(err = %error, "Failed to watch, retrying; the last known state stays in effect");
        }
        drop(state);
        if length == 1 {
            self.emit(SourceEvent::WatchFailed { kind, message: error.to_string() });
        }
    }

    pub(super) fn watch_succeeded(&self, kind: ObjectKind) {
        let mut state = self.state.borrow_mut();
        if state.failing.remove(&kind).is_none() {
            return;
        }
        if state.failing.is_empty() && !state.logged.is_empty() {
            state.logged.clear();
            info!("Watching the API server again");
        }
        drop(state);
        self.emit(SourceEvent::WatchRecovered { kind });
    }

    fn emit(&self, event: SourceEvent) {
        (self.state.borrow_mut().sink)(event);
    }
}
