//! The running proxy: one loop over one closed set of events.
//!
//! Threads that wait for something (a source of objects, the kernel, signals, the configuration file) only send an
//! [`Event`]; everything that changes state happens here, one event after another. Nothing here knows which proxy mode
//! runs: that is the business of a [`Backend`](ferrule_backends::Backend).

mod address_watch;
mod awaiting_node;
mod counters;
mod damage;
mod family;
mod flows;
mod gate;
mod host_support;
mod inspect;
mod leftovers;
mod manifests;
mod notes;
mod observer;
pub mod offline;
mod pacing;
mod proxy;
mod repair_log;
mod reported;
mod rule_events;
mod serving;
mod signals;
mod source;
mod start;
mod sync_log;
mod view;

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use ferrule_backends::Drift;
use ferrule_config::Reload;
use ferrule_model::{IpFamily, ObjectKind};
use ferrule_watch::ChangeBatch;
use tracing::info;

use awaiting_node::AwaitingNode;
pub use inspect::{Diffs, FamilyStatus, InspectError, Inspector, LastSync, Snapshot};
pub use leftovers::log_removed;
use serving::Serving;
pub use source::Source;
pub use start::{Start, StartError, prepare_host, run};

/// After this many events, work that is due comes first.
const MAX_EVENTS_PER_TURN: usize = 1024;

/// Everything the loop reacts to.
#[derive(Debug)]
pub enum Event {
    /// The cluster changed.
    Changes(ChangeBatch),
    /// The first list of a kind is complete.
    InSync(ObjectKind),
    /// A kind can no longer be watched.
    Trouble(ObjectKind),
    /// A kind can be watched again.
    Recovered(ObjectKind),
    /// Another program changed our rules.
    Drift(Drift),
    /// The rules of one family, or of all, may not be what the last sync left.
    VerifyRules(Option<IpFamily>),
    /// An interface gained or lost an address.
    AddressesChanged,
    /// The configuration file changed, and this must be done about it.
    Reload(Reload),
    /// A snapshot of what the proxy knows is asked for.
    Inspect(SyncSender<Snapshot>),
    /// What a sync would write is asked for.
    Diff(SyncSender<Diffs>),
    /// A signal asks the program to end.
    End(&'static str),
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
struct Loop {
    state: State,
}

/// What the loop is doing.
enum State {
    /// Nothing is served before this node's object is known.
    AwaitingNode(Box<AwaitingNode>),
    Serving(Box<Serving>),
    /// Serving could not be started.
    Failed,
}

impl Loop {
    /// Runs until a signal, or a configuration that needs a new process.
    fn run(&mut self, events: &Receiver<Event>) -> Result<Ended, StartError> {
        loop {
            let first = match events.recv_timeout(self.timeout()) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(Ended::Restart),
            };
            for event in first.into_iter().chain(events.try_iter().take(MAX_EVENTS_PER_TURN)) {
                if let Some(ended) = self.handle(event) {
                    self.shut_down();
                    return Ok(ended);
                }
            }
            self.advance()?;
        }
    }

    fn timeout(&self) -> Duration {
        match &self.state {
            State::AwaitingNode(_) => awaiting_node::POLL_INTERVAL,
            State::Serving(serving) => serving.timeout(Instant::now()),
            State::Failed => Duration::ZERO,
        }
    }

    fn handle(&mut self, event: Event) -> Option<Ended> {
        match event {
            Event::End(signal) => return Some(Ended::Signal(signal)),
            Event::Reload(Reload::Restart { .. }) if self.is_standing_by() => {
                // Its supervisor would start it again, and it would take the place of the process that serves now.
                info!(
                    "The changed configuration needs another process, and another process serves already: staying as it is"
                );
            }
            Event::Reload(Reload::Restart { .. }) => return Some(Ended::Restart),
            event => match &mut self.state {
                State::AwaitingNode(awaiting) => awaiting.handle(event),
                State::Serving(serving) => serving.handle(event),
                State::Failed => {}
            },
        }
        None
    }

    /// Begins to serve once the node is known, and does what is due.
    fn advance(&mut self) -> Result<(), StartError> {
        if let State::AwaitingNode(awaiting) = &mut self.state {
            let Some(node) = awaiting.node()? else { return Ok(()) };
            let State::AwaitingNode(awaiting) = std::mem::replace(&mut self.state, State::Failed) else {
                return Ok(());
            };
            self.state = State::Serving(Box::new(awaiting.serve(&node)?));
        }
        if let State::Serving(serving) = &mut self.state {
            serving.act(Instant::now());
        }
        Ok(())
    }

    fn is_standing_by(&self) -> bool {
        match &self.state {
            State::Serving(serving) => serving.is_standing_by(),
            State::AwaitingNode(_) | State::Failed => false,
        }
    }

    fn shut_down(&mut self) {
        if let State::Serving(serving) = &mut self.state {
            serving.shut_down();
        }
    }
}

/// Logs that the run is over, and why.
pub fn log_end(ended: Ended) {
    match ended {
        Ended::Signal(name) => info!(signal = name, "Exiting; rules left in place"),
        Ended::Restart => info!("Exiting for restart; rules left in place"),
    }
}

#[cfg(test)]
mod tests;
