//! The API server as a source of changes: watches Services, EndpointSlices or Endpoints, ServiceCIDRs and this Node.
//!
//! [`ServerSource::start`] passes every change to a sink, from a thread of its own, so that the rest of the program needs
//! no async code. All requests share one HTTP/2 connection. The first list of a kind is reported while it arrives, followed
//! by [`SourceEvent::InSync`]; later lists are reported as a whole, so that the loop never acts upon half of one. Keeps
//! names and versions, never objects. The list and watch loop of one kind is in `reflector`.

mod access;
mod advice;
mod api_status;
mod client;
mod client_metrics;
mod connection;
mod connector;
mod endpoints_api;
mod error;
mod events;
mod expected_panics;
mod link;
mod list_parser;
mod list_strategy;
mod protobuf;
mod rate;
mod reflector;
mod reporter;
mod resource;
mod retry;
mod secret_url;
mod seen_versions;
mod token;
mod type_name;

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use ferrule_model::{NodeName, ObjectKind};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tracing::info;

pub use access::{ApiAccess, user_agent};
pub use client::ApiClient;
pub use client_metrics::{ClientMetric, RequestKind, RequestSample, Target};
pub use endpoints_api::EndpointsApi;
pub use error::{ApiError, StartError};
pub use events::Encoding;
pub use expected_panics::is_catching_panics;
pub use rate::RequestRate;
pub use secret_url::SecretUrl;

use crate::{ChangeBatch, MassRemoval};
use access::Access;
use connection::Connection;
use list_strategy::ListStrategy;
use reflector::Reflector;
use reporter::Reporter;
use resource::Resource;

/// For kinds with few objects: one request instead of two.
const STREAM_LIST: Option<ListStrategy> = Some(ListStrategy::Streamed);
/// For kinds with many objects: whatever is cheapest for the server.
const NEGOTIATE_LIST: Option<ListStrategy> = None;

/// Settings of the connection to the API server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// Its address and our credentials.
    pub access: ApiAccess,
    /// Rate limit; watches are exempt.
    pub rate: RequestRate,
    /// The `User-Agent` header: see [`user_agent`].
    pub user_agent: String,
    /// The format to request.
    pub encoding: Encoding,
    /// Where the endpoints of Services are read.
    pub endpoints_api: EndpointsApi,
}

/// What a source reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceEvent {
    /// Objects changed. After [`Self::InSync`], a relist is one batch, deletions included.
    Changes(ChangeBatch),
    /// The initial list of a kind is complete. Sent once for each kind.
    InSync(ObjectKind),
    /// A watch failed and is being retried. The state reported before stays valid.
    WatchFailed {
        /// The watched kind.
        kind: ObjectKind,
        /// Operation, cause and advice, in one line.
        message: String,
    },
    /// The next batch removes most of the known objects.
    MassRemoval(MassRemoval),
    /// A watch that failed works again.
    WatchRecovered {
        /// The watched kind.
        kind: ObjectKind,
    },
}

/// A running source. Dropping it ends its thread and its connection.
#[derive(Debug)]
pub struct ServerSource {
    client: ApiClient,
    stop_tx: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ServerSource {
    /// Starts watching. Fails only if the configuration cannot be used. An unreachable server is reported to the sink and
    /// retried.
    ///
    /// The sink is called on the source's own thread. Nothing more is read while it blocks, so a bounded channel behind it
    /// exerts back pressure on the server. Drop the receiver of such a channel before the source: dropping the source
    /// waits for a sink that blocks.
    pub fn start(
        config: &ServerConfig,
        own_node: &NodeName,
        sink: impl FnMut(SourceEvent) + Send + 'static,
    ) -> Result<Self, StartError> {
        Self::start_with_metrics(config, own_node, sink, |_| {})
    }

    /// Like [`Self::start`]; also reports every request to `metrics`.
    pub fn start_with_metrics(
        config: &ServerConfig,
        own_node: &NodeName,
        sink: impl FnMut(SourceEvent) + Send + 'static,
        metrics: impl Fn(&ClientMetric) + Send + Sync + 'static,
    ) -> Result<Self, StartError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(StartError::Runtime)?;
        let access = Access::read(&config.access)?;
        let connection = Connection::new(access, config.rate, &config.user_agent)?.with_metrics(metrics);
        // A configuration that cannot be used fails here and not in retries that cannot succeed.
        runtime.block_on(connection.prepare())?;
        let connection = Arc::new(connection);
        let client = ApiClient::new(connection.clone(), runtime.handle().clone());
        let (stop_tx, stop_rx) = oneshot::channel();
        let watches = Watches {
            connection,
            own_node: own_node.clone(),
            encoding: config.encoding,
            endpoints_api: config.endpoints_api,
            reporter: Reporter::new(sink),
        };
        // The thread logs to the subscriber of the thread that starts it.
        let log = tracing::dispatcher::get_default(Clone::clone);
        let thread = thread::Builder::new()
            .name("api-server".into())
            .spawn(move || tracing::dispatcher::with_default(&log, || run(runtime, &watches, stop_rx)))
            .map_err(StartError::Runtime)?;
        Ok(Self { client, stop_tx: Some(stop_tx), thread: Some(thread) })
    }

    /// A client for other requests on the same connection. Its requests fail once the source is dropped.
    pub fn client(&self) -> ApiClient {
        self.client.clone()
    }
}

impl Drop for ServerSource {
    fn drop(&mut self) {
        // Fails only if the thread has ended.
        let _ = self.stop_tx.take().map(|stop_tx| stop_tx.send(()));
        if let Some(thread) =
            self.thread.take().filter(|thread| thread.thread().id() != thread::current().id())
        {
            // A panic of the sink was reported by the panic hook.
            let _ = thread.join();
        }
    }
}

struct Watches {
    connection: Arc<Connection>,
    own_node: NodeName,
    encoding: Encoding,
    endpoints_api: EndpointsApi,
    reporter: Reporter,
}

fn run(runtime: Runtime, watches: &Watches, stop_rx: oneshot::Receiver<()>) {
    runtime.block_on(async {
        tokio::select! {
            () = watches.run() => {}
            _ = stop_rx => {}
        }
    });
    // A DNS lookup in progress cannot be cancelled, and is not waited for.
    runtime.shutdown_background();
}

impl Watches {
    /// Never returns: every watch is retried.
    async fn run(&self) {
        let reflect = |kind, strategy| self.reflector(kind, strategy).run();
        // The Node first: nothing can be served before our own addresses are known.
        tokio::join!(
            reflect(ObjectKind::Node, STREAM_LIST),
            reflect(ObjectKind::ServiceCidr, STREAM_LIST),
            reflect(ObjectKind::Service, NEGOTIATE_LIST),
            self.watch_endpoints(),
        );
    }

    async fn watch_endpoints(&self) {
        if self.endpoints_api == EndpointsApi::SlicesIfServed {
            self.reflector(ObjectKind::EndpointSlice, NEGOTIATE_LIST).run().await;
            info!(
                "The API server does not serve EndpointSlices (discovery.k8s.io/v1), watching Endpoints instead"
            );
        }
        self.reflector(ObjectKind::Endpoints, NEGOTIATE_LIST).run().await;
    }

    fn reflector(&self, kind: ObjectKind, strategy: Option<ListStrategy>) -> Reflector<'_> {
        let resource = Resource::new(kind, &self.own_node, self.encoding);
        Reflector::new(resource, strategy, &self.connection, &self.reporter)
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::Runtime(error)
    }
}
