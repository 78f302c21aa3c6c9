//! Load balancers' health checks: for each Service with a `healthCheckNodePort`, a listener that reports how many of its
//! endpoints are on this node.
//!
//! The proxy's loop sets which checks there are and continues; `listeners` opens and closes sockets on the health thread. Each
//! family has its own sockets.

mod listeners;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ferrule_model::{IpFamily, PerFamily, ServiceName};
use hyper::body::Bytes;
use tokio::sync::watch;

use super::connections::PortKind;
use super::runtime::HttpRuntime;
use super::{Handler, Request, Response};
use crate::health::{Moment, ServiceHealth};
use crate::status::Status;
use listeners::Listeners;

/// The addresses that checks listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddresses {
    /// Every address of the family.
    All,
    /// Only these.
    Only(Vec<IpAddr>),
}

/// The listeners that there should be in one family.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DesiredListeners {
    addresses: ListenAddresses,
    ports: Arc<BTreeMap<ServiceName, u16>>,
}

impl Default for DesiredListeners {
    fn default() -> Self {
        Self { addresses: ListenAddresses::Only(Vec::new()), ports: Arc::default() }
    }
}

/// The health checks of Services. No function blocks.
pub struct ServiceChecks {
    wanted: watch::Sender<PerFamily<DesiredListeners>>,
    status: Arc<Status>,
}

impl ServiceChecks {
    /// Starts without any check.
    pub fn start(status: Arc<Status>, runtime: &HttpRuntime) -> Self {
        let (wanted, changes) = watch::channel(PerFamily::default());
        let listeners = Listeners::new(Arc::clone(&status), runtime.clone());
        runtime.handle(PortKind::ServiceChecks).spawn(listeners.run(changes));
        Self { wanted, status }
    }

    /// Changes the addresses; all listeners are reopened.
    pub fn set_addresses(&self, family: IpFamily, addresses: ListenAddresses) {
        self.change(family, |wanted| wanted.addresses = addresses);
    }

    /// Listens for the Services that have a check now, and no others.
    pub fn sync(&self, family: IpFamily) {
        let ports = {
            let services = self.status.services();
            let checked = services.get(family).into_iter().flat_map(ServiceHealth::ports);
            checked.map(|(name, port)| (name.clone(), port)).collect()
        };
        self.change(family, |wanted| wanted.ports = Arc::new(ports));
    }

    fn change(&self, family: IpFamily, change: impl FnOnce(&mut DesiredListeners)) {
        self.wanted.send_if_modified(|all| {
            let before = all.get(family).cloned().unwrap_or_default();
            let mut now = before.clone();
            change(&mut now);
            let is_modified = now != before;
            all.set(family, now);
            is_modified
        });
    }
}

/// Handles requests to one Service's listener, whatever the path.
pub struct ServiceCheckHandler {
    family: IpFamily,
    service: ServiceName,
    status: Arc<Status>,
}

impl Handler for ServiceCheckHandler {
    fn handle(&self, _: &Request) -> Response {
        let is_proxy_healthy = self.status.health().is_healthy(Moment::now());
        let services = self.status.services();
        let report =
            services.get(self.family).and_then(|health| health.report(&self.service, is_proxy_healthy));
        match report {
            Some(report) => Response::json(if report.is_healthy { 200 } else { 503 }, report.body)
                .with("x-load-balancing-endpoint-weight", report.weight.to_string()),
            // The Service was deleted during the request.
            None => Response { status: 200, headers: Vec::new(), body: Bytes::new() },
        }
    }
}

#[cfg(test)]
mod tests;
