//! Where the objects come from: an API server, or a folder in its place.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender as Sender};
use std::time::{Duration, Instant};

use ferrule_model::{Change, Node, NodeName, ObjectKind};
use ferrule_watch::file::ManifestFolder;
use ferrule_watch::server::{self, Encoding, ServerConfig, ServerSource, SourceEvent, Traffic, user_agent};
use tracing::{error, info};

use super::start::StartError;
use super::{Event, News, manifests};
use crate::cli::version::KUBERNETES;
use crate::events::{Queue, Reporter};
use crate::resolve::{NodeFacts, NodeStart, NodeStartError, NodeWait};
use crate::settings::{ApiAccess, RequestRate, Settings};
use crate::status::Status;

/// How often the wait for the Node is looked at without news.
const LOOK: Duration = Duration::from_secs(1);

/// Where the objects come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A folder of manifests.
    Manifests(PathBuf),
    /// The API server that the settings name, asked under this program's name.
    Server {
        /// What the program was called as.
        program: String,
    },
}

/// A source that tells. It stops when this is dropped.
pub enum Running {
    /// The folder's thread ends by itself when nobody reads any more.
    Manifests,
    /// The API server's watches.
    Server(ServerSource),
}

/// What is told, and who tells it. The order counts when it is dropped, also after a failed start: a source that waits for room
/// in the inbox must see that nobody reads it any more, before anybody waits for the source to end.
pub struct Intake<S = Running> {
    /// What is told.
    pub inbox: Receiver<Event>,
    /// Who tells it.
    pub source: S,
}

impl Running {
    /// Sends Events from now on, if there is anybody to send them to.
    pub fn send_events(&self, queue: Queue, host: &str) -> io::Result<()> {
        match self {
            Self::Manifests => Ok(()),
            Self::Server(source) => queue.send_by(source.client(), Reporter::on(host)),
        }
    }
}

impl Source {
    /// Begins to tell.
    pub fn open(
        &self,
        settings: &Settings,
        name: &NodeName,
        (events, status): (&Sender<Event>, &Arc<Status>),
    ) -> Result<Running, StartError> {
        match self {
            Self::Manifests(path) => {
                let mut folder = ManifestFolder::open(path, name.clone())?;
                let first = manifests::read(&mut folder);
                let kinds = KINDS.map(Event::InSync);
                let told =
                    [Event::News(first)].into_iter().chain(kinds).all(|event| events.send(event).is_ok());
                debug_assert!(told, "the inbox is there and has room");
                manifests::watch(folder, events.clone(), Arc::clone(status)).map_err(StartError::Threads)?;
                Ok(Running::Manifests)
            }
            Self::Server { program } => {
                let events = events.clone();
                let counted = Arc::clone(status);
                let sink = move |event| {
                    // Nobody reads any more: the program is ending.
                    let _ = told(event, &counted).map(|event| events.send(event));
                };
                let counting = Arc::clone(status);
                let count = move |traffic: &Traffic| counting.metrics.api_asked(traffic);
                let configuration = configuration(settings, program);
                Ok(Running::Server(ServerSource::start_counted(&configuration, name, sink, count)?))
            }
        }
    }
}

const KINDS: [ObjectKind; 4] =
    [ObjectKind::Node, ObjectKind::ServiceCidr, ObjectKind::Service, ObjectKind::EndpointSlice];

/// What the loop is to know of it.
fn told(event: SourceEvent, status: &Status) -> Option<Event> {
    Some(match event {
        SourceEvent::Changes(batch) => {
            Event::News(News { changes: batch.changes, diagnostics: batch.diagnostics })
        }
        SourceEvent::InSync(kind) => Event::InSync(kind),
        SourceEvent::Trouble { kind, .. } => Event::Trouble(kind),
        SourceEvent::Recovered { kind } => Event::Recovered(kind),
        SourceEvent::MassRemoval(mass) => {
            status.metrics.mass_removal(mass.kind);
            return None;
        }
    })
}

impl Source {
    /// The files and folders that are read for it.
    pub fn files(&self, settings: &Settings) -> Vec<PathBuf> {
        match self {
            Self::Manifests(folder) => vec![folder.clone()],
            Self::Server { .. } => access(settings).files(),
        }
    }
}

fn access(settings: &Settings) -> server::ApiAccess {
    match settings.client.access.clone() {
        ApiAccess::InCluster => server::ApiAccess::InCluster,
        ApiAccess::Kubeconfig { path } => server::ApiAccess::Kubeconfig { path: path.into(), master: None },
        ApiAccess::KubeconfigWithMaster { path, url } => {
            server::ApiAccess::Kubeconfig { path: path.into(), master: Some(url) }
        }
        ApiAccess::Master { url } => server::ApiAccess::Master { url },
    }
}

fn configuration(settings: &Settings, program: &str) -> ServerConfig {
    let access = access(settings);
    if access == server::ApiAccess::InCluster {
        info!("Neither --kubeconfig nor --master was given, using the pod's service account");
    }
    let rate = match settings.client.rate {
        RequestRate::Unlimited => server::RequestRate::Unlimited,
        RequestRate::Limited { per_second, burst } => server::RequestRate::Limited { per_second, burst },
    };
    // Whoever lists protobuf among what they take gets it; whatever else they list, JSON is always understood.
    let wants_protobuf = settings.client.accept.contains("application/vnd.kubernetes.protobuf");
    let encoding = if wants_protobuf { Encoding::Protobuf } else { Encoding::Json };
    ServerConfig { access, rate, user_agent: user_agent(program, &KUBERNETES.tag()), encoding }
}

impl Running {
    /// How the wait for the Node stands. A folder is not waited for: it has one or not, and one that comes later is taken over.
    fn look(
        &self,
        wait: &mut NodeWait,
        waited: Duration,
        node: Option<&Node>,
    ) -> Result<NodeStart, NodeStartError> {
        match self {
            Self::Manifests => Ok(NodeStart::Ready(node.map(NodeFacts::of).unwrap_or_default())),
            Self::Server(_) => wait.look(waited, node),
        }
    }
}

/// Waits for this node's object, as long as kube-proxy does; gives what it says, and the events that came meanwhile. `None` if
/// the program is to end.
pub fn await_node(
    Intake { inbox, source }: &Intake,
    settings: &Settings,
    name: &NodeName,
) -> Result<Option<(NodeFacts, Vec<Event>)>, StartError> {
    let mut wait = NodeWait::new(name.clone(), &settings.detect_local);
    let mut listed_at: Option<Instant> = None;
    let mut node: Option<Node> = None;
    let mut told = Vec::new();
    loop {
        match inbox.recv_timeout(LOOK) {
            Ok(Event::End(_)) | Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Ok(event) => {
                look_for_node(&event, &mut node);
                if event == Event::InSync(ObjectKind::Node) {
                    listed_at = Some(Instant::now());
                }
                told.push(event);
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let Some(listed_at) = listed_at else { continue };
        if let NodeStart::Ready(facts) = source.look(&mut wait, listed_at.elapsed(), node.as_ref())? {
            log_node(name, node.is_some(), &facts);
            return Ok(Some((facts, told)));
        }
    }
}

fn look_for_node(event: &Event, node: &mut Option<Node>) {
    let Event::News(news) = event else { return };
    for change in &news.changes {
        if let Change::Node(told) = change {
            node.clone_from(told);
        }
    }
}

fn log_node(name: &NodeName, is_known: bool, facts: &NodeFacts) {
    if !facts.host_ips.is_empty() {
        let addresses: Vec<String> = facts.host_ips.iter().map(ToString::to_string).collect();
        info!(node = %name, addresses = addresses.join(", "), "Node");
    } else if is_known {
        error!(node = %name, "The Node has no addresses, going on without; --bind-address can name one");
    } else {
        error!(node = %name, "There is no such Node, going on without its addresses; is --hostname-override right?");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread::JoinHandle;

    use super::*;

    /// Like the API server's: waits for its thread when it is dropped.
    struct Joined(Option<JoinHandle<()>>);

    impl Drop for Joined {
        fn drop(&mut self) {
            self.0.take().map(JoinHandle::join);
        }
    }

    #[test]
    fn a_source_that_waits_for_room_does_not_keep_a_failed_start_from_ending() {
        let (inlet, inbox) = mpsc::sync_channel(1);
        let work = move || while inlet.send(Event::RulesUncertain).is_ok() {};
        let intake = Intake { inbox, source: Joined(Some(std::thread::spawn(work))) };
        let (done, is_done) = mpsc::channel();
        std::thread::spawn(move || {
            drop(intake);
            done.send(())
        });
        is_done.recv_timeout(Duration::from_secs(20)).expect("it ends");
    }
}
