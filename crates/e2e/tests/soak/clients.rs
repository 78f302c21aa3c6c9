//! Clients in pods, outside and on the node itself, who connect all the time and keep count.

use std::io::{ErrorKind, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;

use crate::Run;
use crate::site::{Site, ip, targets};

const EVERY: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(5);

/// Clients that connect.
pub struct Clients<'scope>(Vec<ScopedJoinHandle<'scope, Attempts>>);

/// How often was tried, and when and how it failed.
#[derive(Default)]
pub struct Attempts {
    pub tried: usize,
    pub failed: Vec<Failure>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Somebody said no.
    Refused,
    /// It was taken, and no answer came.
    Unanswered,
    /// Nobody took it.
    Lost,
}

/// A connection that came to nothing.
pub struct Failure {
    pub at: Instant,
    pub kind: FailureKind,
    pub what: String,
}

impl<'scope> Clients<'scope> {
    pub fn start<'env>(scope: &'scope Scope<'scope, 'env>, site: &'env Site, run: &'env Run) -> Self {
        let clients = targets().map(|(from, to)| {
            scope.spawn(move || {
                let namespace = site.net.namespace_of(ip(from)).expect("somebody of that address");
                namespace.run(|| connect_on_and_on(to, run)).expect("the namespace")
            })
        });
        Self(clients.into())
    }

    /// What all of them found, once they are done.
    pub fn finished(self) -> Attempts {
        let mut all = Attempts::default();
        for client in self.0 {
            let one = client.join().expect("a client");
            all.tried += one.tried;
            all.failed.extend(one.failed);
        }
        all
    }
}

fn connect_on_and_on(to: SocketAddr, run: &Run) -> Attempts {
    let mut attempts = Attempts::default();
    while run.goes_on() {
        let began = Instant::now();
        attempts.tried += 1;
        if let Err(error) = connect(to) {
            let kind = match error.kind() {
                ErrorKind::TimedOut => FailureKind::Lost,
                ErrorKind::WouldBlock => FailureKind::Unanswered,
                _ => FailureKind::Refused,
            };
            attempts.failed.push(Failure { at: began, kind, what: format!("{to}: {error}") });
        }
        std::thread::park_timeout(EVERY.saturating_sub(began.elapsed()));
    }
    attempts
}

fn connect(to: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = stream.read(&mut [0; 64])?;
    // Ends with a reset: no port stays taken.
    set_socket_linger(&stream, Some(Duration::ZERO))?;
    if length == 0 { Err(std::io::Error::other("an empty answer")) } else { Ok(()) }
}
