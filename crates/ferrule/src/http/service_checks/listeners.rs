//! Opens and closes the sockets of Services' health checks.
//!
//! Runs on the health thread. Sockets that are no longer needed are closed first, so that a port can move from one Service to
//! another at once. A socket that cannot be opened is reported once, in the log and in an Event, and retried.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use ferrule_model::{Backoff, IpFamily, PerFamily, ReportOnce, ServiceName};
use rustix::io::Errno;
use tokio::sync::{Notify, OwnedSemaphorePermit, watch};
use tokio::task::JoinHandle;
use tracing::{error, info};

use super::{DesiredListeners, ListenAddresses, ServiceCheckHandler};
use crate::events;
use crate::http::connections::PortKind;
use crate::http::runtime::HttpRuntime;
use crate::http::sockets;
use crate::status::Status;

/// Delays between retries.
const RETRY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
/// After opening this many sockets the thread serves requests again.
const SOCKETS_PER_TURN: usize = 16;

/// The check of a Service in one family.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Check {
    family: IpFamily,
    service: ServiceName,
    port: u16,
}

/// The open listeners.
pub(super) struct Listeners {
    status: Arc<Status>,
    runtime: HttpRuntime,
    addresses: PerFamily<ListenAddresses>,
    open: BTreeMap<Check, Vec<Listening>>,
    /// Checks whose failure to listen was reported.
    reported: BTreeSet<Check>,
    /// A lack of descriptors.
    shortage: ReportOnce<()>,
    /// Notified when a listener ends by itself.
    ended: Arc<Notify>,
    backoff: Backoff,
}

/// A socket with the task that serves it.
struct Listening {
    task: JoinHandle<()>,
    _descriptor: OwnedSemaphorePermit,
}

impl Listeners {
    pub(super) fn new(status: Arc<Status>, runtime: HttpRuntime) -> Self {
        Self {
            status,
            runtime,
            addresses: PerFamily::default(),
            open: BTreeMap::new(),
            reported: BTreeSet::new(),
            shortage: ReportOnce::default(),
            ended: Arc::default(),
            backoff: RETRY,
        }
    }

    /// Reconciles the listeners until the sender is dropped.
    pub(super) async fn run(mut self, mut changes: watch::Receiver<PerFamily<DesiredListeners>>) {
        loop {
            let wanted = changes.borrow_and_update().clone();
            let is_complete = self.sync(&wanted).await;
            tokio::select! {
                result = changes.changed() => {
                    if result.is_err() {
                        return;
                    }
                    self.backoff.reset();
                }
                () = self.retry_due(is_complete) => {}
            }
        }
    }

    /// Waits until a retry is due: after a failure now, or after a listener ends.
    async fn retry_due(&mut self, is_complete: bool) {
        if is_complete {
            self.ended.notified().await;
        }
        tokio::time::sleep(self.backoff.next_delay()).await;
    }

    /// Returns whether every listener is open.
    async fn sync(&mut self, wanted: &PerFamily<DesiredListeners>) -> bool {
        let checks: BTreeSet<Check> = wanted
            .iter()
            .flat_map(|(family, wanted)| {
                let check = move |(service, port): (&ServiceName, &u16)| Check {
                    family,
                    service: service.clone(),
                    port: *port,
                };
                wanted.ports.iter().map(check)
            })
            .collect();
        self.close(|check, _| !checks.contains(check)).await;
        self.close(|_, sockets| sockets.iter().any(|listening| listening.task.is_finished())).await;
        for (family, wanted) in wanted.iter() {
            if self.addresses.get(family) != Some(&wanted.addresses) {
                self.addresses.set(family, wanted.addresses.clone());
                self.close(|check, _| check.family == family).await;
            }
        }
        self.reported.retain(|check| checks.contains(check));
        let missing: Vec<Check> = checks.into_iter().filter(|check| !self.open.contains_key(check)).collect();
        self.open_all(missing).await
    }

    /// Closes some listeners and waits until their sockets are closed.
    async fn close(&mut self, is_selected: impl Fn(&Check, &[Listening]) -> bool) {
        let selected = self.open.extract_if(.., |check, sockets| is_selected(check, sockets));
        let closing: Vec<Listening> = selected.flat_map(|(_, sockets)| sockets).collect();
        for listening in &closing {
            listening.task.abort();
        }
        for listening in closing {
            // An aborted task gives an error, as intended.
            let _ = listening.task.await;
        }
    }

    async fn open_all(&mut self, missing: Vec<Check>) -> bool {
        let mut failed = Vec::new();
        for (number, check) in missing.into_iter().enumerate() {
            if number % SOCKETS_PER_TURN == SOCKETS_PER_TURN - 1 {
                tokio::task::yield_now().await;
            }
            match self.listen(&check) {
                Ok(sockets) => {
                    if self.reported.remove(&check) {
                        let Check { service, port, .. } = &check;
                        info!(%service, port, "Listening for health checks of a Service after bind retry");
                    }
                    self.open.insert(check, sockets);
                }
                Err(error) => failed.push((check, error)),
            }
        }
        let is_complete = failed.is_empty();
        if is_complete {
            self.shortage.is_over();
        }
        self.report(failed);
        is_complete
    }

    /// Opens all sockets of a check, or none.
    fn listen(&self, check: &Check) -> io::Result<Vec<Listening>> {
        let Check { family, service, port } = check;
        let addresses = match self.addresses.get(*family) {
            Some(ListenAddresses::All) => vec![any(*family)],
            Some(ListenAddresses::Only(addresses)) => addresses.clone(),
            None => Vec::new(),
        };
        let open = |address| {
            let descriptor = Arc::clone(&self.runtime.listeners).try_acquire_owned();
            let descriptor = descriptor.map_err(|_| io::Error::from(Errno::MFILE))?;
            let socket = sockets::listen_in_one_family(SocketAddr::new(address, *port))?;
            Ok((socket, descriptor))
        };
        let opened: io::Result<Vec<_>> = addresses.into_iter().map(open).collect();
        let handler = ServiceCheckHandler {
            family: *family,
            service: service.clone(),
            status: Arc::clone(&self.status),
        };
        let server = self.runtime.server(PortKind::ServiceChecks, Arc::new(handler));
        let serve = |(socket, descriptor): (TcpListener, _)| {
            let (server, ended) = (Arc::clone(&server), Arc::clone(&self.ended));
            let serving = async move {
                let Err(error) = server.serve(socket.into()).await;
                info!(v = 2, err = %error, "Listener for health checks of a Service ended");
                ended.notify_one();
            };
            Listening { task: tokio::spawn(serving), _descriptor: descriptor }
        };
        Ok(opened?.into_iter().map(serve).collect())
    }

    /// Reports new failures: one by one, but a lack of descriptors only once.
    fn report(&mut self, failed: Vec<(Check, io::Error)>) {
        let mut without_descriptor = 0_usize;
        let is_shortage = |error: &io::Error| {
            let code = error.raw_os_error();
            [Errno::MFILE, Errno::NFILE].iter().any(|errno| code == Some(errno.raw_os_error()))
        };
        for (check, error) in failed {
            if !self.reported.insert(check.clone()) {
                continue;
            }
            let Check { service, port, .. } = check;
            if is_shortage(&error) {
                without_descriptor += 1;
            } else {
                error!(err = %error, %service, port, "Cannot listen for health checks of a Service");
            }
            let node = self.status.events.node();
            let event = events::failed_to_start_service_check(node, &service, port, &error.to_string());
            self.status.events.record(event);
        }
        if without_descriptor > 0 && self.shortage.is_new(()) {
            error!(
                checks = without_descriptor,
                "Too few file descriptors to listen for all health checks of Services; raise the hard limit (RLIMIT_NOFILE)"
            );
        }
    }
}

fn any(family: IpFamily) -> IpAddr {
    match family {
        IpFamily::V4 => Ipv4Addr::UNSPECIFIED.into(),
        IpFamily::V6 => Ipv6Addr::UNSPECIFIED.into(),
    }
}
