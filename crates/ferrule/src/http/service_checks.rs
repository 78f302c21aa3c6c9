//! Load balancers' health checks: for each Service with a `healthCheckNodePort` a listener that tells how many of its
//! endpoints are on this node.
//!
//! The proxy's loop says which checks there are and goes on; sockets are opened and closed on the thread that serves health, in
//! `listeners`. Each family binds sockets of its own alone.

mod listeners;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ferrule_model::{IpFamily, PerFamily, ServiceName};
use hyper::body::Bytes;
use tokio::sync::watch;

use super::connections::PortKind;
use super::hosting::Hosting;
use super::{Answer, Pages, Question};
use crate::health::{Moment, ServiceHealth};
use crate::status::Status;
use listeners::Listeners;

/// The addresses that checks are answered on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddresses {
    /// Every address of the family.
    All,
    /// These.
    Only(Vec<IpAddr>),
}

/// What is to be listened on in one family.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    addresses: ListenAddresses,
    ports: Arc<BTreeMap<ServiceName, u16>>,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { addresses: ListenAddresses::Only(Vec::new()), ports: Arc::default() }
    }
}

/// The health checks of Services. None of its functions waits.
pub struct ServiceChecks {
    wanted: watch::Sender<PerFamily<Wanted>>,
    status: Arc<Status>,
}

impl ServiceChecks {
    /// None yet.
    pub fn start(status: Arc<Status>, hosting: &Hosting) -> Self {
        let (wanted, changes) = watch::channel(PerFamily::default());
        let listeners = Listeners::new(Arc::clone(&status), hosting.clone());
        hosting.thread_of(PortKind::ServiceChecks).spawn(listeners.keep_open(changes));
        Self { wanted, status }
    }

    /// Takes over other addresses; all listeners are opened anew.
    pub fn set_addresses(&self, family: IpFamily, addresses: ListenAddresses) {
        self.change(family, |wanted| wanted.addresses = addresses);
    }

    /// Has the Services listened for that are checked now, and no others.
    pub fn sync(&self, family: IpFamily) {
        let ports = {
            let services = self.status.services();
            let checked = services.get(family).into_iter().flat_map(ServiceHealth::ports);
            checked.map(|(name, port)| (name.clone(), port)).collect()
        };
        self.change(family, |wanted| wanted.ports = Arc::new(ports));
    }

    fn change(&self, family: IpFamily, change: impl FnOnce(&mut Wanted)) {
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
            None => Answer { status: 200, headers: Vec::new(), body: Bytes::new() },
        }
    }
}

#[cfg(test)]
mod tests;
