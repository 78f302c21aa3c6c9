//! Where the objects come from: an API server, or a folder in its place.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender as Sender};

use ferrule_model::{NodeName, ObjectKind};
use ferrule_watch::file::ManifestFolder;
use ferrule_watch::server::{
    self, ClientMetric, Encoding, EndpointsApi, SecretUrl, ServerConfig, ServerSource, SourceEvent,
    user_agent,
};
use tracing::info;

use super::start::StartError;
use super::{Event, manifests};
use crate::events::{Queue, Reporter};
use crate::status::Status;
use ferrule_config::cli::version::KUBERNETES;
use ferrule_config::gates::ENDPOINT_SLICES;
use ferrule_config::settings::{ApiAccess, RequestRate, Settings};

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

/// A source that sends events. It stops when this is dropped.
pub(super) enum ActiveSource {
    /// The folder's thread ends by itself once the queue is closed.
    Manifests,
    /// The API server's watches.
    Server(ServerSource),
}

/// The events, and the source that sends them. The order of the fields counts when it is dropped, also after a failed start: a
/// source that waits for room in the queue must see that the queue is closed, before its end is waited for.
pub(super) struct EventQueue<S = ActiveSource, E = Event> {
    pub events_rx: Receiver<E>,
    pub source: S,
}

impl ActiveSource {
    /// Sends Events from now on, if there is an API server.
    pub fn send_events(&self, queue: Queue, host: &str) -> io::Result<()> {
        match self {
            Self::Manifests => Ok(()),
            Self::Server(source) => queue.spawn_sender(source.client(), Reporter::on_host(host)),
        }
    }
}

impl Source {
    /// Begins to send.
    pub(super) fn open(
        &self,
        settings: &Settings,
        name: &NodeName,
        events: &Sender<Event>,
        status: &Arc<Status>,
    ) -> Result<ActiveSource, StartError> {
        match self {
            Self::Manifests(path) => {
                let mut folder = ManifestFolder::open(path, name.clone())?;
                let first = manifests::read(&mut folder);
                let kinds = KINDS.map(Event::InSync);
                let first = [Event::Changes(first)].into_iter().chain(kinds);
                let is_sent = first.map(|event| events.send(event)).all(|sent| sent.is_ok());
                debug_assert!(is_sent, "the queue is open and has room");
                manifests::watch(folder, events.clone(), Arc::clone(status)).map_err(StartError::Threads)?;
                Ok(ActiveSource::Manifests)
            }
            Self::Server { program } => {
                let events = events.clone();
                let counted = Arc::clone(status);
                let sink = move |event| {
                    // A closed queue means that the program is ending.
                    let _ = loop_event(event, &counted).map(|event| events.send(event));
                };
                let counting = Arc::clone(status);
                let count = move |metric: &ClientMetric| counting.metrics.api_asked(metric);
                let configuration = server_configuration(settings, program);
                Ok(ActiveSource::Server(ServerSource::start_with_metrics(&configuration, name, sink, count)?))
            }
        }
    }
}

const KINDS: [ObjectKind; 4] =
    [ObjectKind::Node, ObjectKind::ServiceCidr, ObjectKind::Service, ObjectKind::EndpointSlice];

/// The event for the loop, if it is for the loop.
fn loop_event(event: SourceEvent, status: &Status) -> Option<Event> {
    Some(match event {
        SourceEvent::Changes(batch) => Event::Changes(batch),
        SourceEvent::InSync(kind) => Event::InSync(kind),
        SourceEvent::WatchFailed { kind, .. } => Event::Trouble(kind),
        SourceEvent::WatchRecovered { kind } => Event::Recovered(kind),
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
            server::ApiAccess::Kubeconfig { path: path.into(), master: Some(SecretUrl::new(url.exposed())) }
        }
        ApiAccess::Master { url } => server::ApiAccess::Master { url: SecretUrl::new(url.exposed()) },
    }
}

fn endpoints_api(settings: &Settings) -> EndpointsApi {
    if settings.gates.is_on(ENDPOINT_SLICES) { EndpointsApi::SlicesIfServed } else { EndpointsApi::Endpoints }
}

/// How the API server is asked.
pub(super) fn server_configuration(settings: &Settings, program: &str) -> ServerConfig {
    let access = access(settings);
    if access == server::ApiAccess::InCluster {
        info!("Neither --kubeconfig nor --master was given, using the pod's service account");
    }
    let rate = match settings.client.rate {
        RequestRate::Unlimited => server::RequestRate::Unlimited,
        RequestRate::Limited { per_second, burst } => server::RequestRate::Limited { per_second, burst },
    };
    // Protobuf is used if the configured content types list it; JSON is always understood.
    let wants_protobuf = settings.client.accept.contains("application/vnd.kubernetes.protobuf");
    let encoding = if wants_protobuf { Encoding::Protobuf } else { Encoding::Json };
    let user_agent = user_agent(program, &KUBERNETES.tag());
    ServerConfig { access, rate, user_agent, encoding, endpoints_api: endpoints_api(settings) }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread::JoinHandle;
    use std::time::Duration;

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
        let (events_tx, events_rx) = mpsc::sync_channel(1);
        let work = move || while events_tx.send(Event::AddressesChanged).is_ok() {};
        let queue = EventQueue { events_rx, source: Joined(Some(std::thread::spawn(work))) };
        let (done, is_done) = mpsc::channel();
        std::thread::spawn(move || {
            drop(queue);
            done.send(())
        });
        is_done.recv_timeout(Duration::from_secs(20)).expect("it ends");
    }
}
