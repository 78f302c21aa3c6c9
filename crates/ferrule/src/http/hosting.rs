//! The threads that serve, and what becomes of a port that cannot be had.
//!
//! Health has a thread of its own, which makes nothing but small answers: no page of metrics, however dear, can make a node look
//! dead.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle};
use tokio::sync::Semaphore;
use tracing::{error, info};

use super::connections::{Connections, PortKind};
use super::server::Server;
use super::{Pages, sockets};
use crate::descriptors::Shares;
use crate::settings::OnBindFailure;
use crate::threads;

/// How long after a failure a port is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// Pages that take their time are made by this many threads at most; profiles come one at a time anyway.
const MAX_SLOW_PAGES: usize = 4;

/// A port that cannot be had, where that is fatal.
#[derive(Debug, thiserror::Error)]
#[error("starting the {name} server on {address}")]
pub struct BindError {
    name: &'static str,
    address: SocketAddr,
    source: io::Error,
}

impl BindError {
    /// Which server has no port.
    pub fn server(&self) -> &'static str {
        self.name
    }
}

/// The threads that serve. They end with the program.
#[derive(Clone, Debug)]
pub struct Hosting {
    health: Handle,
    metrics: Handle,
    /// The connections of all ports.
    pub connections: Arc<Connections>,
    /// Sockets that may be opened to listen.
    pub listeners: Arc<Semaphore>,
    slow_pages: Arc<Semaphore>,
}

impl Hosting {
    /// Starts the threads, which use no more descriptors than this.
    pub fn start(shares: Shares) -> io::Result<Self> {
        Ok(Self {
            health: started("health")?,
            metrics: started("metrics")?,
            connections: Arc::new(Connections::new(shares.connections)),
            listeners: Arc::new(Semaphore::new(shares.listeners.min(Semaphore::MAX_PERMITS))),
            slow_pages: Arc::new(Semaphore::new(MAX_SLOW_PAGES)),
        })
    }

    /// The thread that serves a kind of port.
    pub fn thread_of(&self, kind: PortKind) -> &Handle {
        match kind {
            PortKind::Health | PortKind::ServiceChecks => &self.health,
            PortKind::Metrics => &self.metrics,
        }
    }

    /// A server of these pages.
    pub fn server(&self, kind: PortKind, pages: Arc<dyn Pages>) -> Arc<Server> {
        let (connections, slow_pages) = (Arc::clone(&self.connections), Arc::clone(&self.slow_pages));
        Arc::new(Server { pages, kind, connections, slow_pages })
    }

    /// Serves pages on an address. A port that cannot be had is tried again every five seconds, or is fatal.
    pub fn serve(
        &self,
        port: Port,
        pages: Arc<dyn Pages>,
        on_failure: OnBindFailure,
    ) -> Result<(), BindError> {
        let Port { name, kind, address } = port;
        let socket = match sockets::listen_on(address) {
            Ok(socket) => Some(socket),
            Err(source) if on_failure == OnBindFailure::Exit => {
                return Err(BindError { name, address, source });
            }
            Err(source) => {
                error!(err = %source, server = name, %address, "Cannot listen, trying again every 5s");
                None
            }
        };
        self.thread_of(kind).spawn(keep_serving(self.server(kind, pages), port, socket));
        Ok(())
    }
}

/// A port that pages are served on.
#[derive(Clone, Copy, Debug)]
pub struct Port {
    /// What the log calls the server.
    pub name: &'static str,
    /// What the port is for.
    pub kind: PortKind,
    /// Where it listens.
    pub address: SocketAddr,
}

fn started(name: &str) -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(MAX_SLOW_PAGES).build()?;
    let handle = runtime.handle().clone();
    threads::spawn(name, move || runtime.block_on(std::future::pending::<()>()))?;
    Ok(handle)
}

/// Serves for ever: a socket that fails is opened anew.
async fn keep_serving(server: Arc<Server>, port: Port, mut socket: Option<TcpListener>) {
    let Port { name, address, .. } = port;
    let mut is_failing = socket.is_none();
    loop {
        if let Some(listener) = socket.take() {
            if is_failing {
                info!(server = name, %address, "Listening after bind retry");
            }
            let began = Instant::now();
            let Err(error) = Arc::clone(&server).serve(listener).await;
            is_failing &= began.elapsed() < RETRY;
            if !std::mem::replace(&mut is_failing, true) {
                error!(err = %error, server = name, %address, "Listening failed, trying again every 5s");
            }
        }
        tokio::time::sleep(RETRY).await;
        socket = sockets::listen_on(address).ok();
    }
}
