//! One socket that is served.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc;
use std::sync::{Arc, Weak};

use crate::PortalStats;
use crate::pool::EndpointObserver;
use crate::worker::shared::PortalState;
use crate::worker::{Command, WorkerHandle};

/// One served socket. Dropping it closes the socket before `drop` returns: its TCP connections go on until they end by
/// themselves, its UDP associations end at once.
#[derive(Debug)]
pub struct Portal {
    state: Arc<PortalState>,
    socket: Arc<OwnedFd>,
    link: Arc<Link>,
}

/// The workers that serve a portal.
#[derive(Debug)]
struct Link {
    portal: u64,
    workers: Vec<WorkerHandle>,
}

impl Portal {
    pub(crate) fn new(state: Arc<PortalState>, socket: Arc<OwnedFd>, workers: Vec<WorkerHandle>) -> Self {
        let link = Arc::new(Link { portal: state.id, workers });
        Self { state, socket, link }
    }

    /// Lets the pool end associations to endpoints that vanish.
    pub(crate) fn ending_vanished_associations(self) -> Self {
        let observer: Weak<Link> = Arc::downgrade(&self.link);
        self.state.pool.observe(observer);
        self
    }

    /// The address that clients reach it at, as the socket is bound.
    pub fn local_addr(&self) -> SocketAddr {
        self.state.address
    }

    /// What it has done so far.
    pub fn stats(&self) -> PortalStats {
        self.state.counters.portal_stats()
    }

    /// Ends UDP associations to these endpoints at once. [`Pool::set_endpoints`](crate::Pool::set_endpoints) does the same for
    /// endpoints that vanish from the pool.
    pub fn end_associations_to(&self, endpoints: &[SocketAddr]) {
        self.link.vanished(endpoints);
    }

    /// Accepts clients again after [`Relay::drain`](crate::Relay::drain), beginning with those that wait.
    pub fn accept_again(&self) {
        for worker in &self.link.workers {
            worker.send(Command::AcceptAgain { portal: self.link.portal });
        }
    }
}

/// The listening socket, for a process that takes it over. It listens as long as one descriptor of it is open.
impl AsFd for Portal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl EndpointObserver for Link {
    fn vanished(&self, endpoints: &[SocketAddr]) {
        for worker in &self.workers {
            worker.send(Command::EndAssociations { portal: self.portal, endpoints: endpoints.to_vec() });
        }
    }
}

impl Drop for Portal {
    fn drop(&mut self) {
        let (done, closed) = mpsc::channel();
        for worker in &self.link.workers {
            worker.send(Command::Close { portal: self.link.portal, done: done.clone() });
        }
        drop(done);
        // Returns when every worker has dropped its sender. A worker that has ended has done so, too.
        let _ = closed.recv();
    }
}
