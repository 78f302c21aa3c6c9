//! What is told to the sink and to the log: an outage once, however many watches it stops and however often it is met.

use std::cell::RefCell;
use std::collections::BTreeMap;

use ferrule_model::ObjectKind;
use tracing::{debug, info, warn};

use super::error::Class;
use super::{ApiError, Batch, SourceEvent};
use crate::MassRemoval;

/// So many failures in a row are no passing state.
const PERSISTENT: u32 = 3;

/// Where events go.
pub(super) struct Reporter {
    state: RefCell<State>,
}

struct State {
    sink: Box<dyn FnMut(SourceEvent) + Send>,
    /// The kinds that are not watched now, why, and how often in a row.
    troubled: BTreeMap<ObjectKind, (Class, u32)>,
    /// The outages that the log has, and has not seen the end of.
    logged: Vec<Class>,
}

impl Reporter {
    pub(super) fn new(sink: impl FnMut(SourceEvent) + Send + 'static) -> Self {
        let state = State { sink: Box::new(sink), troubled: BTreeMap::new(), logged: Vec::new() };
        Self { state: RefCell::new(state) }
    }

    pub(super) fn changes(&self, batch: Batch) {
        if !batch.is_empty() {
            self.tell(SourceEvent::Changes(batch));
        }
    }

    /// Most of what is known goes with the list of this version.
    pub(super) fn mass_removal(&self, mass: MassRemoval, version: &str) {
        let MassRemoval { kind, removed, known } = mass;
        warn!(
            %kind, removed, known, version,
            "A new list lacks more than half of what was known, removing that now; is this the right API server, and is its \
             store whole?"
        );
        self.tell(SourceEvent::MassRemoval(mass));
    }

    pub(super) fn in_sync(&self, kind: ObjectKind) {
        self.tell(SourceEvent::InSync(kind));
    }

    /// A try failed.
    pub(super) fn trouble(&self, kind: ObjectKind, error: &ApiError) {
        debug!(err = %error, kind = %kind, "Failed to watch");
        let class = error.class();
        let mut state = self.state.borrow_mut();
        let before = state.troubled.get(&kind).copied();
        let times = before.filter(|before| before.0 == class).map_or(1, |before| before.1.saturating_add(1));
        state.troubled.insert(kind, (class, times));
        // A server that comes back refuses for a moment what it will allow: the log takes that for the same outage.
        let is_new = before.is_none() || times == PERSISTENT;
        if is_new && !state.logged.contains(&class) {
            state.logged.push(class);
            warn!(err = %error, "Failed to watch, trying again; what is known stays in effect");
        }
        drop(state);
        if times == 1 {
            self.tell(SourceEvent::Trouble { kind, message: error.to_string() });
        }
    }

    /// A try succeeded.
    pub(super) fn success(&self, kind: ObjectKind) {
        let mut state = self.state.borrow_mut();
        if state.troubled.remove(&kind).is_none() {
            return;
        }
        if state.troubled.is_empty() && !state.logged.is_empty() {
            state.logged.clear();
            info!("Watching the API server again");
        }
        drop(state);
        self.tell(SourceEvent::Recovered { kind });
    }

    fn tell(&self, event: SourceEvent) {
        (self.state.borrow_mut().sink)(event);
    }
}
