//! Opens and closes the sockets of Services' health checks, and tells of those that cannot be had.
//!
//! Runs on the thread that serves health. What is no longer wanted is closed first, so that a port can pass from one Service to
//! another at once. What cannot be opened is told once, in the log and in an Event, and tried again.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use ferrule_model::{IpFamily, PerFamily, ServiceName};
use rustix::io::Errno;
use tokio::sync::{Notify, OwnedSemaphorePermit, watch};
use tokio::task::JoinHandle;
use tracing::{error, info};

use super::{CheckPages, ListenAddresses, Wanted};
use crate::events;
use crate::http::connections::PortKind;
use crate::http::hosting::Hosting;
use crate::http::sockets;
use crate::status::Status;

/// What cannot be opened is tried again this much later, then after twice the time, and so on.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(30);
/// After opening so many, it is the turn of those who wait for an answer.
const OPENED_PER_TURN: usize = 16;

/// The check of a Service in one family, and the port it is asked for on.
type Check = (IpFamily, ServiceName, u16);

/// The listeners there are.
pub(super) struct Listeners {
    status: Arc<Status>,
    hosting: Hosting,
    addresses: PerFamily<ListenAddresses>,
    open: BTreeMap<Check, Vec<Listening>>,
    /// What was told of not being open.
    told: BTreeSet<Check>,
    /// Whether it was told that there are too few descriptors.
    is_shortage_told: bool,
    /// Some listener ended by itself.
    ended: Arc<Notify>,
    retry_in: Duration,
}

/// A socket that is served.
struct Listening {
    task: JoinHandle<()>,
    _descriptor: OwnedSemaphorePermit,
}

impl Listeners {
    pub(super) fn new(status: Arc<Status>, hosting: Hosting) -> Self {
        Self {
            status,
            hosting,
            addresses: PerFamily::default(),
            open: BTreeMap::new(),
            told: BTreeSet::new(),
            is_shortage_told: false,
            ended: Arc::default(),
            retry_in: FIRST_RETRY,
        }
    }

    /// Keeps open what is wanted, until nobody says any more.
    pub(super) async fn keep_open(mut self, mut changes: watch::Receiver<PerFamily<Wanted>>) {
        loop {
            let wanted = changes.borrow_and_update().clone();
            let is_complete = self.sync(&wanted).await;
            tokio::select! {
                news = changes.changed() => {
                    if news.is_err() {
                        return;
                    }
                    self.retry_in = FIRST_RETRY;
                }
                () = self.retry(is_complete) => self.retry_in = (self.retry_in * 2).min(LAST_RETRY),
            }
        }
    }

    /// Returns when it is time to try again what failed, now or later.
    async fn retry(&self, is_complete: bool) {
        if is_complete {
            self.ended.notified().await;
        }
        tokio::time::sleep(self.retry_in).await;
    }

    /// Says whether all is open that should be.
    async fn sync(&mut self, wanted: &PerFamily<Wanted>) -> bool {
        let checks: BTreeSet<Check> = wanted
            .iter()
            .flat_map(|(family, wanted)| {
                wanted.ports.iter().map(move |(service, port)| (family, service.clone(), *port))
            })
            .collect();
        self.close(|check, _| !checks.contains(check)).await;
        self.close(|_, sockets| sockets.iter().any(|listening| listening.task.is_finished())).await;
        for (family, wanted) in wanted.iter() {
            if self.addresses.get(family) != Some(&wanted.addresses) {
                self.addresses.set(family, wanted.addresses.clone());
                self.close(|check, _| check.0 == family).await;
            }
        }
        self.told.retain(|check| checks.contains(check));
        let missing: Vec<Check> = checks.into_iter().filter(|check| !self.open.contains_key(check)).collect();
        self.open_all(missing).await
    }

    /// Returns when the sockets are closed.
    async fn close(&mut self, is_meant: impl Fn(&Check, &[Listening]) -> bool) {
        let meant = self.open.extract_if(.., |check, sockets| is_meant(check, sockets));
        let closing: Vec<Listening> = meant.flat_map(|(_, sockets)| sockets).collect();
        for listening in &closing {
            listening.task.abort();
        }
        for listening in closing {
            // An ended task is an error here, as it was meant to be.
            let _ = listening.task.await;
        }
    }

    async fn open_all(&mut self, missing: Vec<Check>) -> bool {
        let mut failed = Vec::new();
        for (number, check) in missing.into_iter().enumerate() {
            if number % OPENED_PER_TURN == OPENED_PER_TURN - 1 {
                tokio::task::yield_now().await;
            }
            match self.listen(&check) {
                Ok(sockets) => {
                    if self.told.remove(&check) {
                        let (_, service, port) = &check;
                        info!(%service, port, "Listening for health checks of a Service after bind retry");
                    }
                    self.open.insert(check, sockets);
                }
                Err(error) => failed.push((check, error)),
            }
        }
        let is_complete = failed.is_empty();
        self.is_shortage_told &= !is_complete;
        self.tell(failed);
        is_complete
    }

    /// All sockets, or none.
    fn listen(&self, check: &Check) -> io::Result<Vec<Listening>> {
        let (family, service, port) = check;
        let addresses = match self.addresses.get(*family) {
            Some(ListenAddresses::All) => vec![any(*family)],
            Some(ListenAddresses::Only(addresses)) => addresses.clone(),
            None => Vec::new(),
        };
        let open = |address| {
            let descriptor = Arc::clone(&self.hosting.listeners).try_acquire_owned();
            let descriptor = descriptor.map_err(|_| io::Error::from(Errno::MFILE))?;
            let socket = sockets::listen_in_one_family(SocketAddr::new(address, *port))?;
            Ok((socket, descriptor))
        };
        let opened: io::Result<Vec<_>> = addresses.into_iter().map(open).collect();
        let pages =
            CheckPages { family: *family, service: service.clone(), status: Arc::clone(&self.status) };
        let server = self.hosting.server(PortKind::ServiceChecks, Arc::new(pages));
        let serve = |(socket, descriptor): (TcpListener, _)| {
            let (server, ended) = (Arc::clone(&server), Arc::clone(&self.ended));
            let serving = async move {
                let Err(error) = server.serve(socket).await;
                info!(v = 2, err = %error, "A listener for health checks of a Service ended");
                ended.notify_one();
            };
            Listening { task: tokio::spawn(serving), _descriptor: descriptor }
        };
        Ok(opened?.into_iter().map(serve).collect())
    }

    /// Tells of what is new among failures: one by one, but for a lack of descriptors, which is about none of them.
    fn tell(&mut self, failed: Vec<(Check, io::Error)>) {
        let mut without_descriptor = 0_usize;
        let is_shortage = |error: &io::Error| {
            let code = error.raw_os_error();
            [Errno::MFILE, Errno::NFILE].iter().any(|errno| code == Some(errno.raw_os_error()))
        };
        for (check, error) in failed {
            if !self.told.insert(check.clone()) {
                continue;
            }
            let (_, service, port) = check;
            if is_shortage(&error) {
                without_descriptor += 1;
            } else {
                error!(err = %error, %service, port, "Cannot listen for health checks of a Service");
            }
            let node = self.status.events.node();
            let event = events::failed_to_start_service_check(node, (&service, port), &error.to_string());
            self.status.events.record(event);
        }
        if without_descriptor > 0 && !std::mem::replace(&mut self.is_shortage_told, true) {
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
