//! Sends packets into a world, and observes their outcome.
//!
//! Many are in flight at once and one thread waits for all of them, so hundreds take milliseconds and any number of
//! unanswered ones takes one timeout. [`super::questions`] decides which outcome is right.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use ferrule_plan::Packet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags};

use super::sockets::{is_unsupported, open};

/// The outcome of a probe.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    /// A server answered.
    Answered {
        /// The server.
        by: SocketAddr,
        /// The source address the server saw.
        source_seen: IpAddr,
    },
    /// A reset, or an ICMP port unreachable.
    Refused,
    /// The connection was accepted, then reset before an answer.
    AcceptedThenReset,
    /// No response within the timeout.
    Silent,
    /// It could not be sent, or the response is another one.
    Otherwise(String),
    /// This kernel or this world cannot send it.
    Unsupported(String),
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered { by, source_seen } => write!(f, "answered by {by}, which saw {source_seen}"),
            Self::Refused => f.write_str("refused"),
            Self::AcceptedThenReset => f.write_str("accepted, then reset"),
            Self::Silent => f.write_str("silence"),
            Self::Otherwise(what) => f.write_str(what),
            Self::Unsupported(why) => write!(f, "not sent: {why}"),
        }
    }
}

/// A packet to send, and how long to wait for a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Sent by the host with its source address; by the node for loopback and unspecified addresses. With an unspecified
    /// one, the kernel chooses the address.
    pub packet: Packet,
    /// No response within this time counts as [`Seen::Silent`].
    pub timeout: Duration,
}

/// The state of a probe.
pub(super) enum Flight {
    Landed(Seen),
    Aloft(Aloft),
}

/// A socket that waits for a response.
pub(super) struct Aloft {
    socket: OwnedFd,
    packet: Packet,
    received: Vec<u8>,
    deadline: Instant,
}

impl Flight {
    /// Sends a probe from the namespace this thread is in.
    pub(super) fn start(probe: &Probe) -> Self {
        let packet = &probe.packet;
        match sent(packet) {
            Ok(socket) => {
                let deadline = Instant::now() + probe.timeout;
                let mut aloft = Aloft { socket, packet: packet.clone(), received: Vec::new(), deadline };
                aloft.poll().map_or(Self::Aloft(aloft), Self::Landed)
            }
            Err(error) if is_unsupported(&error) => {
                Self::Landed(Seen::Unsupported(format!("this kernel has no {}", protocol_word(packet))))
            }
            Err(error) => Self::Landed(failed(&error)),
        }
    }
}

/// Waits until every probe has landed; returns their outcomes.
pub(super) fn landed(mut flights: Vec<Flight>) -> Vec<Seen> {
    while let Some(ready) = wait_for_ready(&flights) {
        for at in ready {
            if let Flight::Aloft(aloft) = &mut flights[at]
                && let Some(seen) = aloft.poll()
            {
                flights[at] = Flight::Landed(seen);
            }
        }
    }
    let seen = flights.into_iter().map(|flight| match flight {
        Flight::Landed(seen) => seen,
        Flight::Aloft(_) => Seen::Silent,
    });
    seen.collect()
}

/// Waits until a probe is readable or past its deadline; returns those probes. `None` once all have landed.
fn wait_for_ready(flights: &[Flight]) -> Option<Vec<usize>> {
    let aloft = flights.iter().enumerate().filter_map(|(at, flight)| match flight {
        Flight::Aloft(aloft) => Some((at, aloft)),
        Flight::Landed(_) => None,
    });
    let aloft: Vec<(usize, &Aloft)> = aloft.collect();
    let first = aloft.iter().map(|(_, aloft)| aloft.deadline).min()?;
    let sockets = aloft.iter().map(|(_, aloft)| aloft.socket.as_fd());
    let mut waiting: Vec<PollFd<'_>> =
        sockets.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)).collect();
    let left = first.saturating_duration_since(Instant::now());
    // A timeout beyond the kernel's range means no timeout.
    let timeout = Timespec::try_from(left).ok();
    // After an interruption no socket is marked, and the caller waits again.
    let _ = poll(&mut waiting, timeout.as_ref());
    let now = Instant::now();
    let marked = aloft.iter().zip(&waiting);
    let ready = marked.filter(|((_, aloft), waits)| !waits.revents().is_empty() || now >= aloft.deadline);
    Some(ready.map(|((at, _), _)| *at).collect())
}

impl Aloft {
    /// The outcome, if it is known by now.
    fn poll(&mut self) -> Option<Seen> {
        let mut buffer = [0; 512];
        match net::recv(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
            Ok((length, _)) if length > 0 => {
                self.received.extend_from_slice(&buffer[..length]);
                answer(&self.packet, &self.received)
            }
            Ok(_) => Some(Seen::Otherwise("closed without an answer".into())),
            Err(Errno::AGAIN | Errno::INTR | Errno::NOTCONN) => self.soft_error().or_else(|| self.silence()),
            Err(error) => Some(failed(&error.into())),
        }
    }

    /// An ICMP error that arrived during `connect`. TCP only records it, and would fail a second later, when its next
    /// attempt gets the same error.
    fn soft_error(&self) -> Option<Seen> {
        match net::sockopt::socket_error(&self.socket) {
            Ok(Err(error)) => Some(failed(&error.into())),
            Ok(Ok(())) | Err(_) => None,
        }
    }

    fn silence(&self) -> Option<Seen> {
        (Instant::now() >= self.deadline).then_some(Seen::Silent)
    }
}

/// Opens a socket, binds it to the packet's source, and sends the first packet.
fn sent(packet: &Packet) -> io::Result<OwnedFd> {
    let socket = open(packet.from, packet.port.map(|(protocol, _)| protocol))?;
    net::bind(&socket, &SocketAddr::new(packet.from, 0))?;
    let to = SocketAddr::new(packet.to, packet.port.map_or(0, |(_, port)| port));
    match net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    if let Some(message) = first_message(packet) {
        match net::send(&socket, message, SendFlags::NOSIGNAL) {
            // A rule on the sender's own host dropped it. It may also have answered, which shows later.
            Ok(_) | Err(Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(socket)
}

/// The first message of a connectionless protocol. The kernel completes an echo request.
fn first_message(packet: &Packet) -> Option<&'static [u8]> {
    use ferrule_model::Protocol;
    match packet.port {
        Some((Protocol::Tcp | Protocol::Sctp, _)) => None,
        Some((Protocol::Udp, _)) => Some(b"who are you?"),
        None if packet.to.is_ipv4() => Some(&[8, 0, 0, 0, 0, 0, 0, 1]),
        None => Some(&[128, 0, 0, 0, 0, 0, 0, 1]),
    }
}

/// The answer in the received bytes, once it is complete.
fn answer(packet: &Packet, received: &[u8]) -> Option<Seen> {
    if packet.port.is_none() {
        return Some(Seen::Answered { by: SocketAddr::new(packet.to, 0), source_seen: packet.from });
    }
    let line = std::str::from_utf8(received).ok()?.strip_suffix('\n')?;
    let read = || {
        let (by, peer) = line.split_once(' ')?;
        Some((by.parse().ok()?, peer.parse::<SocketAddr>().ok()?.ip()))
    };
    Some(match read() {
        Some((by, source_seen)) => Seen::Answered { by, source_seen },
        None => Seen::Otherwise(format!("not an answer of a test server: {line:?}")),
    })
}

fn failed(error: &io::Error) -> Seen {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Seen::Refused,
        io::ErrorKind::ConnectionReset => Seen::AcceptedThenReset,
        _ => Seen::Otherwise(error.to_string()),
    }
}

fn protocol_word(packet: &Packet) -> String {
    packet.port.map_or("ICMP sockets".into(), |(protocol, _)| protocol.to_string())
}
