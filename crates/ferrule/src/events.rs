//! Kubernetes Events (`events.k8s.io/v1`): what an operator is told with `kubectl get events`, beside the log.
//!
//! A [`Recorder`] takes what happens from anywhere and never waits: it drops what a full [`Queue`] cannot hold. A thread
//! sends, with `book` deciding what is new and what only happened again. Without an API server the queue is dropped, and
//! what is recorded goes nowhere. What Events say is in `occasions`.

mod book;
mod occasions;
mod sending;
mod shape;

use std::io;
use std::sync::mpsc::{self, Receiver, SyncSender};

use ferrule_model::NodeName;

pub use book::{Book, Deed};
pub use occasions::*;
pub use sending::{EventSink, Sending, Unsent};
pub use shape::{Occurrence, Regarding, Reporter, Severity};

use crate::health::Moment;
use crate::threads;

/// Upstream's queue; who is faster than the API server loses the rest.
const QUEUE: usize = 1000;

/// Takes what happens. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Recorder {
    node: NodeName,
    queue: SyncSender<Occurrence>,
}

/// What was recorded and not sent yet.
#[derive(Debug)]
pub struct Queue {
    occurrences: Receiver<Occurrence>,
}

/// A recorder for the proxy of a node, and what it fills.
pub fn channel(node: NodeName) -> (Recorder, Queue) {
    let (queue, occurrences) = mpsc::sync_channel(QUEUE);
    (Recorder { node, queue }, Queue { occurrences })
}

impl Recorder {
    /// One that records nothing.
    pub fn nowhere() -> Self {
        channel(NodeName::new("")).0
    }

    /// The node that most Events are about.
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// Something happens now.
    pub fn record(&self, occasion: Occasion) {
        // A full queue loses it, as upstream's does; a closed one means that there is nobody to send to.
        let _ = self.queue.try_send(occasion.at(Moment::now()));
    }
}

impl Queue {
    /// Sends, from a thread that ends with the program.
    pub fn send_by(self, sink: impl EventSink + 'static, reporter: Reporter) -> io::Result<()> {
        let log = tracing::dispatcher::get_default(Clone::clone);
        let work = move || Sending::new(sink, reporter).run(&self.occurrences);
        threads::spawn("events", move || tracing::dispatcher::with_default(&log, work)).map(drop)
    }
}

#[cfg(test)]
mod tests;
