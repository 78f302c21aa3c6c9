//! The threads of the HTTP servers, and retries for a port that cannot be bound.
//!
//! Health has a thread of its own, which serves only small responses: no metrics request, however expensive, can make a node look
//! dead.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrule_config::settings::OnBindFailure;
use tokio::runtime::{Builder, Handle};
use tokio::sync::Semaphore;
use tracing::{error, info};

use super::connections::{Connections, PortKind};
use super::server::Server;
use super::{Handler, sockets};
use crate::descriptors::Shares;
use ferrule_kernel::threads;

/// How long after a failure binding a port is retried.
const BIND_RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// The maximum number of concurrent blocking responses; profiles come one at a time anyway.
const MAX_BLOCKING_RESPONSES: usize = 4;

/// A port that cannot be bound, where that is fatal.
#[derive(Debug, thiserror::Error)]
#[error("starting the {name} server on {address}")]
pub struct BindError {
    name: &'static str,
    address: SocketAddr,
    source: io::Error,
}

impl BindError {
    /// The name of the server.
    pub fn server(&self) -> &'static str {
        self.name
    }
}

/// The threads of all servers. They end with the process.
#[derive(Clone, Debug)]
pub struct HttpRuntime {
    health: Handle,
    metrics: Handle,
    /// The connections of all ports.
    pub connections: Arc<Connections>,
    /// Limits the number of listening sockets.
    pub listeners: Arc<Semaphore>,
    blocking_permits: Arc<Semaphore>,
}

impl HttpRuntime {
    /// Starts the threads, which use no more descriptors than their shares.
    pub fn start(shares: Shares) -> io::Result<Self> {
        Ok(Self {
            health: start_thread("health")?,
            metrics: start_thread("metrics")?,
            connections: Arc::new(Connections::new(shares.connections)),
            listeners: Arc::new(Semaphore::new(shares.listeners.min(Semaphore::MAX_PERMITS))),
            blocking_permits: Arc::new(Semaphore::new(MAX_BLOCKING_RESPONSES)),
        })
    }

    /// Spawns on the thread that serves a kind of port.
    pub fn handle(&self, kind: PortKind) -> &Handle {
        match kind {
            PortKind::Health | PortKind::ServiceChecks => &self.health,
            PortKind::Metrics | PortKind::Inspect => &self.metrics,
        }
    }

    /// A server for this handler.
    pub fn server(&self, kind: PortKind, handler: Arc<dyn Handler>) -> Arc<Server> {
        let (connections, blocking_permits) =
            (Arc::clone(&self.connections), Arc::clone(&self.blocking_permits));
        Arc::new(Server { handler, kind, connections, blocking_permits })
    }

    /// Serves a handler on a port. If it cannot be bound, that is retried every five seconds, or fatal.
    pub fn serve(
        &self,
        port: Port,
        handler: Arc<dyn Handler>,
        on_failure: OnBindFailure,
    ) -> Result<(), BindError> {
        let Port { name, kind, address } = port;
        let socket = match sockets::listen_on(address) {
            Ok(socket) => Some(socket),
            Err(source) if on_failure == OnBindFailure::Exit => {
                return Err(BindError { name, address, source });
            }
            Err(source) => {
                error!(err = %source, server = name, %address, "Cannot listen, retrying every 5s");
                None
            }
        };
        self.handle(kind).spawn(keep_serving(self.server(kind, handler), port, socket));
        Ok(())
    }
}

/// Serves on a socket that is open already, until it fails.
pub async fn serve_opened(server: Arc<Server>, socket: OwnedFd) -> io::Error {
    let Err(error) = server.serve(socket).await;
    error
}

/// A port of a server.
#[derive(Clone, Copy, Debug)]
pub struct Port {
    /// The server's name in the log.
    pub name: &'static str,
    /// The kind, which has a share of the connections.
    pub kind: PortKind,
    /// The address to listen on.
    pub address: SocketAddr,
}

fn start_thread(name: &str) -> io::Result<Handle> {
    let runtime =
        Builder::new_current_thread().enable_all().max_blocking_threads(MAX_BLOCKING_RESPONSES).build()?;
    let handle = runtime.handle().clone();
    threads::spawn(name, move || runtime.block_on(std::future::pending::<()>()))?;
    Ok(handle)
}

/// Serves for ever: reopens a socket that fails.
async fn keep_serving(server: Arc<Server>, port: Port, mut socket: Option<TcpListener>) {
    let Port { name, address, .. } = port;
    let mut is_failing = socket.is_none();
    loop {
        if let Some(listener) = socket.take() {
            if is_failing {
                info!(server = name, %address, "Listening after bind retry");
            }
            let began = Instant::now();
            let Err(error) = Arc::clone(&server).serve(listener.into()).await;
            is_failing &= began.elapsed() < BIND_RETRY_INTERVAL;
            if !std::mem::replace(&mut is_failing, true) {
                error!(err = %error, server = name, %address, "Listening failed, retrying every 5s");
            }
        }
        tokio::time::sleep(BIND_RETRY_INTERVAL).await;
        socket = sockets::listen_on(address).ok();
    }
}
