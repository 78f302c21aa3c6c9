//! Kubernetes Events (`events.k8s.io/v1`), which operators see with `kubectl get events`, beside the log.
//!
//! A [`Recorder`] can be used from any thread and never blocks: a full [`Queue`] drops records. A thread sends them, with
//! `aggregator` turning repeated ones into series. Without an API server the queue is dropped, and records go nowhere. The texts
//! of Events are in `templates`.

mod aggregator;
mod record;
mod sender;
mod templates;

use std::io;
use std::sync::mpsc::{self, Receiver, SyncSender};

use ferrule_model::NodeName;

pub use record::{EventRecord, Reporter};
#[cfg(test)]
pub use sender::SendError;
pub use sender::{EventSender, EventSink};
pub use templates::*;

use crate::health::Moment;
use ferrule_kernel::threads;

/// The capacity of kube-proxy's queue.
const QUEUE_CAPACITY: usize = 1000;

/// Records Events. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Recorder {
    node: NodeName,
    queue: SyncSender<EventRecord>,
}

/// Recorded Events that were not sent yet.
#[derive(Debug)]
pub struct Queue {
    records: Receiver<EventRecord>,
}

/// A recorder for the proxy of a node, and its queue.
pub fn channel(node: NodeName) -> (Recorder, Queue) {
    let (queue, records) = mpsc::sync_channel(QUEUE_CAPACITY);
    (Recorder { node, queue }, Queue { records })
}

impl Recorder {
    /// A recorder whose Events go nowhere.
    #[cfg(test)]
    pub fn disabled() -> Self {
        channel(NodeName::new("")).0
    }

    /// The node that most Events are about.
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// Records an Event that happens now.
    pub fn record(&self, template: EventTemplate) {
        // A full queue drops it, as kube-proxy's does; a closed one means that there is no API server.
        let _ = self.queue.try_send(template.at(Moment::now()));
    }
}

impl Queue {
    /// Sends the Events from a thread that ends with the process.
    pub fn spawn_sender(self, sink: impl EventSink + 'static, reporter: Reporter) -> io::Result<()> {
        let log = tracing::dispatcher::get_default(Clone::clone);
        let work = move || EventSender::new(sink, reporter).run(&self.records);
        threads::spawn("events", move || tracing::dispatcher::with_default(&log, work)).map(drop)
    }
}

#[cfg(test)]
mod tests;
