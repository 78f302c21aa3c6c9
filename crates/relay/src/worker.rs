//! One worker: a thread with an epoll instance, the connections it accepted and the UDP sockets assigned to it.
//!
//! What happens to a connection is in [`crate::tcp`], to a datagram in [`crate::udp`]. This file waits, and passes events on.

mod descriptors;
pub(crate) mod limits;
pub(crate) mod poller;
pub(crate) mod shared;
pub(crate) mod timers;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ferrule_kernel::threads;
use rustix::event::{EventfdFlags, eventfd};

use crate::tcp::TcpSide;
use crate::udp::UdpSide;
use poller::{Events, Poller, Readiness, Token};
use shared::{PortalState, Shared};
use timers::{Alarm, Timers};

/// What the caller asks of a worker.
#[derive(Debug)]
pub(crate) enum Command {
    ServeTcp(Arc<PortalState>, Arc<OwnedFd>),
    ServeUdp(Arc<PortalState>, Arc<OwnedFd>),
    /// Closes a portal's socket. The sender is dropped when that is done.
    Close {
        portal: u64,
        done: Sender<()>,
    },
    EndAssociations {
        portal: u64,
        endpoints: Vec<SocketAddr>,
    },
    /// Accepts nothing any more. The sender is dropped when that is done.
    StopAccepting {
        done: Sender<()>,
    },
    /// Accepts clients of a portal again.
    AcceptAgain {
        portal: u64,
    },
    /// The idle timeout of UDP associations has changed.
    TimeoutChanged,
    End,
}

/// A worker, as others see it.
#[derive(Clone, Debug)]
pub(crate) struct WorkerHandle {
    commands: Sender<Command>,
    wake: Arc<OwnedFd>,
}

/// What a worker's parts need of it.
pub(crate) struct Context {
    pub(crate) poller: Poller,
    pub(crate) timers: Timers,
    pub(crate) now: Instant,
    pub(crate) shared: Arc<Shared>,
    next_serial: u64,
}

struct Worker {
    context: Context,
    tcp: TcpSide,
    udp: UdpSide,
    inbox: Receiver<Command>,
    wake: Arc<OwnedFd>,
    has_ended: bool,
}

/// Starts a worker.
pub(crate) fn start(number: usize, shared: Arc<Shared>) -> io::Result<(WorkerHandle, JoinHandle<()>)> {
    let poller = Poller::new()?;
    let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    poller.add_readable(&*wake, Token::Wake)?;
    let (commands, inbox) = mpsc::channel();
    let handle = WorkerHandle { commands, wake: Arc::clone(&wake) };
    let tcp = TcpSide::new(Arc::clone(&shared))?;
    let context = Context { poller, timers: Timers::default(), now: Instant::now(), shared, next_serial: 0 };
    let mut worker = Worker { context, tcp, udp: UdpSide::default(), inbox, wake, has_ended: false };
    let thread = threads::spawn(&format!("relay-{number}"), move || worker.run())?;
    Ok((handle, thread))
}

impl WorkerHandle {
    /// Whether the worker will see the command.
    pub(crate) fn send(&self, command: Command) -> bool {
        // A full counter has woken the worker already.
        self.commands.send(command).is_ok() && {
            let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
            true
        }
    }
}

impl Context {
    #[cfg(test)]
    pub(crate) fn for_test(shared: Arc<Shared>) -> Self {
        let poller = Poller::new().expect("an epoll instance");
        Self { poller, timers: Timers::default(), now: Instant::now(), shared, next_serial: 0 }
    }

    pub(crate) fn serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial
    }
}

impl Worker {
    fn run(&mut self) {
        let mut events = Events::new();
        while !self.has_ended {
            if self.context.poller.wait(&mut events, self.timeout()).is_err() {
                // Only a closed or foreign descriptor does this: nothing can be served any more.
                return;
            }
            self.context.now = Instant::now();
            self.context.shared.counters.wakeups.fetch_add(1, Ordering::Relaxed);
            for at in 0..events.len() {
                if let Some((token, readiness)) = events.get(at) {
                    self.handle(token, readiness);
                }
            }
            self.tcp.resume_unfinished(&mut self.context);
            while let Some(alarm) = self.context.timers.pop_expired(self.context.now) {
                self.ring(alarm);
            }
            // Not before: later events of the same call may be about what has just ended.
            self.tcp.free_ended();
            self.udp.free_ended();
        }
    }

    fn timeout(&self) -> Option<Duration> {
        if self.tcp.has_unfinished() {
            return Some(Duration::ZERO);
        }
        self.context.timers.next().map(|at| at.saturating_duration_since(Instant::now()))
    }

    fn handle(&mut self, token: Token, readiness: Readiness) {
        match token {
            Token::Wake => self.obey_commands(),
            Token::Listener(index) => self.tcp.accept(index, &mut self.context),
            Token::Client(index) => self.tcp.client_ready(index, readiness, &mut self.context),
            Token::Endpoint(index, dial) => {
                self.tcp.endpoint_ready((index, dial), readiness, &mut self.context);
            }
            Token::Datagrams(index) => self.udp.clients_ready(index, &mut self.context),
            Token::Association(index) => self.udp.endpoint_ready(index, &mut self.context),
        }
    }

    fn ring(&mut self, alarm: Alarm) {
        let context = &mut self.context;
        match alarm {
            Alarm::Dial { connection, serial } => self.tcp.dial_timed_out(connection, serial, context),
            Alarm::Descriptor { connection, serial } => self.tcp.dial_again(connection, serial, context),
            Alarm::HalfOpen => self.tcp.end_idle_half_open(context),
            Alarm::Accept { listener, serial } => self.tcp.resume_accepting(listener, serial, context),
            Alarm::Expiry { portal, serial } => self.udp.expire(portal, serial, context),
        }
    }

    fn obey_commands(&mut self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.wake, &mut count);
        while let Ok(command) = self.inbox.try_recv() {
            self.obey(command);
        }
    }

    fn obey(&mut self, command: Command) {
        let context = &mut self.context;
        match command {
            Command::ServeTcp(portal, socket) => self.tcp.serve(portal, socket, context),
            Command::ServeUdp(portal, socket) => self.udp.serve(portal, socket, context),
            Command::Close { portal, done } => {
                self.tcp.close_portal(portal, context);
                self.udp.close_portal(portal, context);
                drop(done);
            }
            Command::EndAssociations { portal, endpoints } => self.udp.end_associations(portal, &endpoints),
            Command::StopAccepting { done } => {
                self.tcp.stop_accepting(context);
                self.udp.stop_accepting(context);
                drop(done);
            }
            Command::AcceptAgain { portal } => {
                self.tcp.accept_again(portal, context);
                self.udp.accept_again(portal, context);
            }
            Command::TimeoutChanged => self.udp.expire_all(context),
            Command::End => self.has_ended = true,
        }
    }
}
