//! Load balancers' health checks: for each Service with a `healthCheckNodePort` a listener that tells how many of its
//! endpoints are on this node.
//!
//! One manager for each family; each binds sockets of its own family alone.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use ferrule_model::{IpFamily, ServiceName};
use tokio::task::JoinHandle;

use super::{Answer, Pages, Question, server, sockets};
use crate::health::{Moment, ServiceHealth};
use crate::status::Status;

/// How long it may take to close a socket.
const CLOSING: Duration = Duration::from_secs(1);

/// The addresses that checks are answered on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddresses {
    /// Every address of the family.
    All,
    /// These.
    Only(Vec<IpAddr>),
}

/// The listeners of one family.
pub struct ServiceChecks {
    family: IpFamily,
    status: Arc<Status>,
    runtime: tokio::runtime::Handle,
    addresses: ListenAddresses,
    listeners: BTreeMap<ServiceName, Listening>,
    /// Whether some listener is not open that should be, or may not be.
    is_unsettled: bool,
}

struct Listening {
    port: u16,
    tasks: Vec<Task>,
}

struct Task {
    running: JoinHandle<()>,
    /// Disconnected once the socket is closed.
    is_closed: Receiver<()>,
}

impl Drop for Listening {
    /// Returns when the sockets are closed: another Service may get the port in the same moment.
    fn drop(&mut self) {
        for task in &self.tasks {
            task.running.abort();
        }
        for task in &self.tasks {
            // Nobody sends. A thread that serves and does not get to it is no reason to wait for ever.
            let _ = task.is_closed.recv_timeout(CLOSING);
        }
    }
}

/// A check that cannot be answered.
#[derive(Debug)]
pub struct CannotListen {
    /// The Service.
    pub service: ServiceName,
    /// Its port.
    pub port: u16,
    /// Why.
    pub error: std::io::Error,
}

impl ServiceChecks {
    /// None yet.
    pub fn new(
        family: IpFamily,
        status: Arc<Status>,
        runtime: tokio::runtime::Handle,
        addresses: ListenAddresses,
    ) -> Self {
        Self { family, status, runtime, addresses, listeners: BTreeMap::new(), is_unsettled: true }
    }

    /// Takes over other addresses; all listeners are opened anew.
    pub fn set_addresses(&mut self, addresses: ListenAddresses) {
        if self.addresses != addresses {
            self.addresses = addresses;
            self.listeners.clear();
            self.is_unsettled = true;
        }
    }

    /// Whether there is something to do though no check changed: at first, on other addresses, after a failure.
    pub fn is_unsettled(&self) -> bool {
        self.is_unsettled
    }

    /// Listens for the Services that are checked now, and for no others; what cannot be opened is tried again next time.
    pub fn sync(&mut self) -> Vec<CannotListen> {
        let wanted: BTreeMap<ServiceName, u16> = {
            let services = self.status.services();
            let of_family = services.get(self.family);
            of_family
                .into_iter()
                .flat_map(ServiceHealth::ports)
                .map(|(name, port)| (name.clone(), port))
                .collect()
        };
        self.listeners.retain(|name, listening| wanted.get(name) == Some(&listening.port));
        let mut failed = Vec::new();
        for (service, port) in wanted {
            if self.listeners.contains_key(&service) {
                continue;
            }
            match self.listen(&service, port) {
                Ok(listening) => drop(self.listeners.insert(service, listening)),
                Err(error) => failed.push(CannotListen { service, port, error }),
            }
        }
        self.is_unsettled = !failed.is_empty();
        failed
    }

    /// All sockets, or none.
    fn listen(&self, service: &ServiceName, port: u16) -> std::io::Result<Listening> {
        let addresses = match &self.addresses {
            ListenAddresses::All => vec![any(self.family)],
            ListenAddresses::Only(addresses) => addresses.clone(),
        };
        let opened: std::io::Result<Vec<_>> = addresses
            .into_iter()
            .map(|address| sockets::listen_in_one_family(SocketAddr::new(address, port)))
            .collect();
        let _entered = self.runtime.enter();
        let mut tasks = Vec::new();
        for socket in opened? {
            let pages = Arc::new(CheckPages {
                family: self.family,
                service: service.clone(),
                status: Arc::clone(&self.status),
            });
            let listener = tokio::net::TcpListener::from_std(socket)?;
            let (open, is_closed) = mpsc::channel();
            let running = self.runtime.spawn(async move {
                // In this order, so that the socket is closed before `open` is dropped, also if this never ran: what a task
                // takes along is dropped in the order of its use, and what is awaited before what was bound earlier.
                let serving = server::serve(listener, pages);
                let _open: Sender<()> = open;
                serving.await;
            });
            tasks.push(Task { running, is_closed });
        }
        Ok(Listening { port, tasks })
    }
}

fn any(family: IpFamily) -> IpAddr {
    match family {
        IpFamily::V4 => std::net::Ipv4Addr::UNSPECIFIED.into(),
        IpFamily::V6 => std::net::Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// What one Service's listener answers, whatever the path.
pub struct CheckPages {
    family: IpFamily,
    service: ServiceName,
    status: Arc<Status>,
}

impl Pages for CheckPages {
    fn answer(&self, _: &Question) -> Answer {
        let is_proxy_well = self.status.health().is_well(Moment::now());
        let services = self.status.services();
        let answer = services.get(self.family).and_then(|health| health.answer(&self.service, is_proxy_well));
        match answer {
            Some(answer) => Answer::json(if answer.is_well { 200 } else { 503 }, answer.body)
                .with("x-load-balancing-endpoint-weight", answer.weight.to_string()),
            // The Service went away while somebody asked.
            None => Answer { status: 200, headers: Vec::new(), body: Vec::new() },
        }
    }
}

#[cfg(test)]
mod tests;
