//! The worker threads, as the caller sees them.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use ferrule_kernel::datagrams;
use rustix::io::Errno;
use rustix::net::sockopt;

use crate::stats::Counters;
use crate::worker::shared::{PortalState, Shared};
use crate::worker::{self, Command, WorkerHandle};
use crate::{Pool, Portal, RelayError, RelayOptions, RelayStats};

/// Peers that vanished are noticed after some multiple of this.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(15);
/// Datagrams that wait while a worker is busy, in bytes. The kernel's own limit may be lower.
const UDP_RECEIVE_BUFFER: usize = 4 << 20;

/// Worker threads that relay. Dropping it ends them, and with them all open connections.
#[derive(Debug)]
pub struct Relay {
    shared: Arc<Shared>,
    workers: Vec<WorkerHandle>,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    /// Starts the worker threads.
    pub fn start(options: RelayOptions) -> Result<Self, RelayError> {
        let available = || std::thread::available_parallelism().map_or(1, usize::from);
        let count = options.threads.unwrap_or_else(available).max(1);
        let shared = Arc::new(Shared::new(options));
        let mut relay = Self { shared, workers: Vec::new(), threads: Vec::new() };
        for worker in 0..count {
            let started = worker::start(worker, Arc::clone(&relay.shared));
            let (handle, thread) = started.map_err(|source| RelayError::Start { worker, source })?;
            relay.workers.push(handle);
            relay.threads.push(thread);
        }
        Ok(relay)
    }

    /// Relays what this socket accepts to `pool`. The socket is made non-blocking.
    pub fn serve_tcp(&self, listener: TcpListener, pool: Arc<Pool>) -> Result<Portal, RelayError> {
        let address = listener.local_addr().map_err(|source| RelayError::Address { source })?;
        let failed = |operation| move |source| RelayError::Socket { address, operation, source };
        listener.set_nonblocking(true).map_err(failed("making it non-blocking"))?;
        // The standard library asks for a queue of 128; the kernel cuts this down to its own limit.
        rustix::net::listen(&listener, i32::MAX)
            .map_err(|error| failed("making its queue longer")(error.into()))?;
        // Accepted sockets inherit these.
        set_stream_options(&listener).map_err(failed("setting keep-alives"))?;
        let state = self.portal_state(address, pool);
        let socket = Arc::new(OwnedFd::from(listener));
        for worker in &self.workers {
            let command = Command::ServeTcp(Arc::clone(&state), Arc::clone(&socket));
            if !worker.send(command) {
                return Err(RelayError::Ended { address });
            }
        }
        Ok(Portal::new(state, socket, self.workers.clone()))
    }

    /// Relays what this socket receives to `pool`, with an association for each client address. The socket is made
    /// non-blocking.
    pub fn serve_udp(&self, socket: UdpSocket, pool: Arc<Pool>) -> Result<Portal, RelayError> {
        let address = socket.local_addr().map_err(|source| RelayError::Address { source })?;
        let failed = |operation| move |source| RelayError::Socket { address, operation, source };
        socket.set_nonblocking(true).map_err(failed("making it non-blocking"))?;
        // A socket bound to one address replies from that.
        if address.ip().is_unspecified() {
            datagrams::report_local_addresses(&socket, address)
                .map_err(failed("asking for the addresses that datagrams are sent to"))?;
        }
        // Datagrams that clients send merged, and a larger buffer, are wishes.
        let _ = datagrams::receive_merged(&socket);
        let _ = sockopt::set_socket_recv_buffer_size_force(&socket, UDP_RECEIVE_BUFFER)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, UDP_RECEIVE_BUFFER));
        let state = self.portal_state(address, pool);
        let socket = Arc::new(OwnedFd::from(socket));
        let worker = self.worker_for(state.id).ok_or(RelayError::Ended { address })?;
        if !worker.send(Command::ServeUdp(Arc::clone(&state), Arc::clone(&socket))) {
            return Err(RelayError::Ended { address });
        }
        Ok(Portal::new(state, socket, vec![worker]).ending_vanished_associations())
    }

    /// What it has done so far.
    pub fn stats(&self) -> RelayStats {
        self.shared.counters.relay_stats()
    }

    /// Stops accepting and lets connections finish. Returns when all have ended, or after `grace`. Listening sockets stay
    /// open, so that clients wait in their queues for a process that takes them over.
    pub fn drain(&self, grace: Duration) {
        let (done, stopped) = mpsc::channel();
        for worker in &self.workers {
            worker.send(Command::StopAccepting { done: done.clone() });
        }
        drop(done);
        // Returns when every worker has dropped its sender.
        let _ = stopped.recv();
        self.shared.wait_until_idle(grace);
    }

    /// Returns when no connection is open, or after `grace`. New ones are accepted meanwhile.
    pub fn wait_until_idle(&self, grace: Duration) {
        self.shared.wait_until_idle(grace);
    }

    /// Changes how many descriptors of this process clients leave to others.
    pub fn reserve_descriptors(&self, reserved: u64) {
        self.shared.descriptors.reserve(reserved);
    }

    /// Changes how long UDP associations live after their last datagram, those that are open too.
    pub fn set_udp_idle_timeout(&self, timeout: Duration) {
        self.shared.set_udp_idle_timeout(timeout);
        for worker in &self.workers {
            worker.send(Command::TimeoutChanged);
        }
    }

    fn portal_state(&self, address: SocketAddr, pool: Arc<Pool>) -> Arc<PortalState> {
        let relay = Arc::clone(&self.shared);
        let id = relay.next_portal_id();
        Arc::new(PortalState { id, address, pool, counters: Counters::default(), relay })
    }

    /// UDP sockets are spread over the workers in turn.
    fn worker_for(&self, portal: u64) -> Option<WorkerHandle> {
        let count = u64::try_from(self.workers.len()).ok().filter(|count| *count > 0)?;
        self.workers.get(usize::try_from(portal % count).ok()?).cloned()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        for worker in &self.workers {
            worker.send(Command::End);
        }
        for thread in self.threads.drain(..) {
            // A worker that panicked has ended, too.
            let _ = thread.join();
        }
    }
}

/// What every connection's sockets get, on both sides.
pub(crate) fn set_stream_options(socket: impl AsFd) -> std::io::Result<()> {
    let socket = socket.as_fd();
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE)?;
    Ok(())
}

/// Errors of connecting that say nothing about the endpoint: this host lacks a port towards it, or memory.
pub(crate) fn is_about_host(error: &std::io::Error) -> bool {
    let kinds = [Errno::ADDRNOTAVAIL, Errno::ADDRINUSE, Errno::AGAIN, Errno::NOBUFS, Errno::NOMEM];
    kinds.iter().any(|kind| error.raw_os_error() == Some(kind.raw_os_error()))
}
