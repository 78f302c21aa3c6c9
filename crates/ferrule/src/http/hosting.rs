//! The thread that serves, and what becomes of a port that cannot be had.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tracing::{error, info};

use super::{Pages, server, sockets};
use crate::settings::OnBindFailure;

/// How long after a failure a port is tried again.
const RETRY: Duration = Duration::from_secs(5);

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

/// Starts the thread that serves everything. It ends with the program.
pub fn start() -> io::Result<Handle> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    std::thread::Builder::new()
        .name("http".to_owned())
        .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
    Ok(handle)
}

/// Serves pages on an address. A port that cannot be had is tried again every five seconds, or is fatal.
pub fn serve(
    runtime: &Handle,
    (name, address): (&'static str, SocketAddr),
    pages: Arc<dyn Pages>,
    on_failure: OnBindFailure,
) -> Result<(), BindError> {
    let socket = match sockets::listen_on(address) {
        Ok(socket) => Some(socket),
        Err(source) if on_failure == OnBindFailure::Exit => return Err(BindError { name, address, source }),
        Err(source) => {
            error!(err = %source, server = name, %address, "Cannot listen, trying again every 5s");
            None
        }
    };
    runtime.spawn(async move {
        let socket = match socket {
            Some(socket) => socket,
            None => patiently(name, address).await,
        };
        match tokio::net::TcpListener::from_std(socket) {
            Ok(listener) => server::serve(listener, pages).await,
            Err(error) => error!(err = %error, server = name, %address, "Cannot serve"),
        }
    });
    Ok(())
}

async fn patiently(name: &str, address: SocketAddr) -> std::net::TcpListener {
    loop {
        tokio::time::sleep(RETRY).await;
        if let Ok(socket) = sockets::listen_on(address) {
            info!(server = name, %address, "Listening at last");
            return socket;
        }
    }
}
