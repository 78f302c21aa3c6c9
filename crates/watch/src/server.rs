//! The API server as a source of changes: watches of Services, EndpointSlices, ServiceCIDRs and this Node.
//!
//! [`ServerSource::start`] hands every change to a sink, from a thread of its own; the rest of the program needs no async
//! code. All requests share one HTTP/2 connection. What the first list of a kind says is handed over while it comes in, with
//! a word when it is complete; what later ones say is handed over whole, so that who acts upon changes never sees half of one.
//! It keeps the names it told, never objects, and decides nothing: the loop of one watch is in `watching`.

mod access;
mod advice;
mod backoff;
mod caught;
mod client;
mod connection;
mod connector;
mod error;
mod events;
mod items;
mod known;
mod lists;
mod protobuf;
mod rate;
mod reporter;
mod resource;
mod secret_url;
mod token;
mod traffic;
mod type_name;
mod watching;

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use ferrule_model::{Change, Diagnostic, NodeName, ObjectKind};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

pub use access::{ApiAccess, user_agent};
pub use caught::is_catching_panics;
pub use client::ApiClient;
pub use error::{ApiError, StartError};
pub use events::Encoding;
pub use rate::RequestRate;
pub use secret_url::SecretUrl;
pub use traffic::{Asked, Manner, Target, Traffic};

use crate::MassRemoval;
use access::Access;
use connection::Connection;
use lists::Lists;
use reporter::Reporter;
use resource::Resource;
use watching::Watching;

/// A handful of objects come soonest as the beginning of their watch.
const FEW: Option<Lists> = Some(Lists::Streamed);
/// For many, the server is to say what is best.
const MANY: Option<Lists> = None;

/// How the API server is reached.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// Where its address and our credentials come from.
    pub access: ApiAccess,
    /// How many requests may be sent; watches do not count.
    pub rate: RequestRate,
    /// What we call ourselves: see [`user_agent`].
    pub user_agent: String,
    /// How objects are to be written.
    pub encoding: Encoding,
}

/// What a source has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceEvent {
    /// Something changed. Once all there is of a kind has been told, what a list says of it comes in one piece, deletions
    /// included.
    Changes(Batch),
    /// All there is of a kind has been told. Comes once for each kind.
    InSync(ObjectKind),
    /// A kind cannot be watched for now; tried again until it can. What was told before stays.
    Trouble {
        /// The kind.
        kind: ObjectKind,
        /// What was tried, what came of it, and what to do about it, in one line.
        message: String,
    },
    /// The list that comes next takes away most of what was known.
    MassRemoval(MassRemoval),
    /// A kind is watched again.
    Recovered {
        /// The kind.
        kind: ObjectKind,
    },
}

/// Changes of objects of one kind that came together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// What differs from what was told before.
    pub changes: Vec<Change>,
    /// What of the objects that differ could not be used.
    pub diagnostics: Vec<Diagnostic>,
}

impl Batch {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.diagnostics.is_empty()
    }
}

/// A running source. It ends, and with it its thread and its connection, when it is dropped.
#[derive(Debug)]
pub struct ServerSource {
    client: ApiClient,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ServerSource {
    /// Begins to watch. Fails only if there is nothing to try: no usable configuration. A server that does not answer is
    /// told to the sink, and asked again and again.
    ///
    /// The sink is called from the source's own thread. While it does not return nothing more is read, so a bounded
    /// channel behind it holds the server back. Who drops the source must not leave the sink waiting: the other end of
    /// such a channel goes first.
    pub fn start(
        config: &ServerConfig,
        own_node: &NodeName,
        sink: impl FnMut(SourceEvent) + Send + 'static,
    ) -> Result<Self, StartError> {
        Self::start_counted(config, own_node, sink, |_| {})
    }

    /// The same, telling of every request that was answered, or was not, so that somebody can count them.
    pub fn start_counted(
        config: &ServerConfig,
        own_node: &NodeName,
        sink: impl FnMut(SourceEvent) + Send + 'static,
        count: impl Fn(&Traffic) + Send + Sync + 'static,
    ) -> Result<Self, StartError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(StartError::Runtime)?;
        let access = Access::read(&config.access)?;
        let connection = Connection::new(access, config.rate, &config.user_agent)?.counted_by(count);
        // Whatever the configuration has wrong shows now, not in a retry that cannot help.
        runtime.block_on(connection.prepare())?;
        let connection = Arc::new(connection);
        let client = ApiClient::new(connection.clone(), runtime.handle().clone());
        let (stop, stopped) = oneshot::channel();
        let watches = Watches {
            connection,
            own_node: own_node.clone(),
            encoding: config.encoding,
            reporter: Reporter::new(sink),
        };
        // The thread logs where its maker does.
        let log = tracing::dispatcher::get_default(Clone::clone);
        let thread = thread::Builder::new()
            .name("api-server".into())
            .spawn(move || tracing::dispatcher::with_default(&log, || run(runtime, &watches, stopped)))
            .map_err(StartError::Runtime)?;
        Ok(Self { client, stop: Some(stop), thread: Some(thread) })
    }

    /// For requests beside the watches, on the same connection. Works as long as the source lives.
    pub fn client(&self) -> ApiClient {
        self.client.clone()
    }
}

impl Drop for ServerSource {
    fn drop(&mut self) {
        // Nobody listens any more if the thread has ended.
        let _ = self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) =
            self.thread.take().filter(|thread| thread.thread().id() != thread::current().id())
        {
            // A panic of the sink was reported where it happened.
            let _ = thread.join();
        }
    }
}

/// What the thread works with.
struct Watches {
    connection: Arc<Connection>,
    own_node: NodeName,
    encoding: Encoding,
    reporter: Reporter,
}

fn run(runtime: Runtime, watches: &Watches, stopped: oneshot::Receiver<()>) {
    runtime.block_on(async {
        tokio::select! {
            () = watches.run() => {}
            _ = stopped => {}
        }
    });
    // A name that is being looked up cannot be called back, and need not be waited for.
    runtime.shutdown_background();
}

impl Watches {
    /// Never ends: every watch is tried again.
    async fn run(&self) {
        let watching = |kind, lists| {
            let resource = Resource::of(kind, &self.own_node, self.encoding);
            Watching::new((resource, lists), &self.connection, &self.reporter).run()
        };
        // The Node first: nothing can be served before it is known who we are.
        tokio::join!(
            watching(ObjectKind::Node, FEW),
            watching(ObjectKind::ServiceCidr, FEW),
            watching(ObjectKind::Service, MANY),
            watching(ObjectKind::EndpointSlice, MANY),
        );
    }
}

/// The runtime could not be made; says what the operating system refused.
impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::Runtime(error)
    }
}
