//! Packets sent into a world, and what is seen of them.
//!
//! Many are in flight at once and one thread waits for all of them, so hundreds cost milliseconds and any number of
//! silent ones costs one timeout. What *should* be seen is [`super::questions`]' matter.

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

/// What became of a probe.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    /// Somebody answered.
    Answered {
        /// Who.
        by: SocketAddr,
        /// The address they saw it come from.
        source_seen: IpAddr,
    },
    /// It was refused: a reset, or an ICMP port unreachable.
    Refused,
    /// Nothing came back in time.
    Silent,
    /// It could not be sent, or something else came back.
    Otherwise(String),
    /// This kernel or this world cannot send it.
    Unsupported(String),
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered { by, source_seen } => write!(f, "answered by {by}, which saw {source_seen}"),
            Self::Refused => f.write_str("refused"),
            Self::Silent => f.write_str("silence"),
            Self::Otherwise(what) => f.write_str(what),
            Self::Unsupported(why) => write!(f, "not sent: {why}"),
        }
    }
}

/// A packet to send, and how long to wait for what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The packet. Its source is the node for the node's own and loopback addresses, and for unspecified ones, which
    /// leave the choice of an address to the kernel; or else whoever has that address.
    pub packet: Packet,
    /// For how long no answer is not yet silence.
    pub patience: Duration,
}

/// A probe under way.
pub(super) enum Flight {
    Landed(Seen),
    Aloft(Aloft),
}

/// A socket that waits for an answer.
pub(super) struct Aloft {
    socket: OwnedFd,
    packet: Packet,
    heard: Vec<u8>,
    until: Instant,
}

impl Flight {
    /// Sends a probe from the namespace this thread is in.
    pub(super) fn start(probe: &Probe) -> Self {
        let packet = &probe.packet;
        match sent(packet) {
            Ok(socket) => {
                let until = Instant::now() + probe.patience;
                let mut aloft = Aloft { socket, packet: packet.clone(), heard: Vec::new(), until };
                aloft.look().map_or(Self::Aloft(aloft), Self::Landed)
            }
            Err(error) if is_unsupported(&error) => {
                Self::Landed(Seen::Unsupported(format!("this kernel has no {}", protocol_word(packet))))
            }
            Err(error) => Self::Landed(failed(&error)),
        }
    }
}

/// Waits until every probe has landed, and tells what was seen of each.
pub(super) fn landed(mut flights: Vec<Flight>) -> Vec<Seen> {
    while let Some(news) = wait_for_news(&flights) {
        for at in news {
            if let Flight::Aloft(aloft) = &mut flights[at]
                && let Some(seen) = aloft.look()
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

/// Waits for news of those aloft or for the first one's time to run out, and tells whom to look at; `None` once all
/// have landed.
fn wait_for_news(flights: &[Flight]) -> Option<Vec<usize>> {
    let aloft = flights.iter().enumerate().filter_map(|(at, flight)| match flight {
        Flight::Aloft(aloft) => Some((at, aloft)),
        Flight::Landed(_) => None,
    });
    let aloft: Vec<(usize, &Aloft)> = aloft.collect();
    let first = aloft.iter().map(|(_, aloft)| aloft.until).min()?;
    let sockets = aloft.iter().map(|(_, aloft)| aloft.socket.as_fd());
    let mut waiting: Vec<PollFd<'_>> =
        sockets.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)).collect();
    let left = first.saturating_duration_since(Instant::now());
    // A time-out beyond the kernel's range would be a mistake in the test; waiting for news alone is then right.
    let timeout = Timespec::try_from(left).ok();
    // After an interruption nobody is marked, and whoever has time left is waited for again.
    let _ = poll(&mut waiting, timeout.as_ref());
    let now = Instant::now();
    let marked = aloft.iter().zip(&waiting);
    let news = marked.filter(|((_, aloft), waits)| !waits.revents().is_empty() || now >= aloft.until);
    Some(news.map(|((at, _), _)| *at).collect())
}

impl Aloft {
    /// What has become of it, if that is known by now.
    fn look(&mut self) -> Option<Seen> {
        let mut buffer = [0; 512];
        match net::recv(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
            Ok((length, _)) if length > 0 => {
                self.heard.extend_from_slice(&buffer[..length]);
                answer(&self.packet, &self.heard)
            }
            Ok(_) => Some(Seen::Otherwise("closed without an answer".into())),
            Err(Errno::AGAIN | Errno::INTR | Errno::NOTCONN) => self.soft_error().or_else(|| self.silence()),
            Err(error) => Some(failed(&error.into())),
        }
    }

    /// An ICMP error that came while `connect` was still at work. TCP only notes it, and would fail a second later,
    /// when its next attempt meets the same fate.
    fn soft_error(&self) -> Option<Seen> {
        match net::sockopt::socket_error(&self.socket) {
            Ok(Err(error)) => Some(failed(&error.into())),
            Ok(Ok(())) | Err(_) => None,
        }
    }

    fn silence(&self) -> Option<Seen> {
        (Instant::now() >= self.until).then_some(Seen::Silent)
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
            // A rule of the sender's own host let it not pass. Whether it also answered will be seen.
            Ok(_) | Err(Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(socket)
}

/// What a protocol without connections needs to be said first. The kernel fills in what an echo request lacks.
fn first_message(packet: &Packet) -> Option<&'static [u8]> {
    use ferrule_model::Protocol;
    match packet.port {
        Some((Protocol::Tcp | Protocol::Sctp, _)) => None,
        Some((Protocol::Udp, _)) => Some(b"who are you?"),
        None if packet.to.is_ipv4() => Some(&[8, 0, 0, 0, 0, 0, 0, 1]),
        None => Some(&[128, 0, 0, 0, 0, 0, 0, 1]),
    }
}

/// The answer in what was heard, once it is complete.
fn answer(packet: &Packet, heard: &[u8]) -> Option<Seen> {
    if packet.port.is_none() {
        return Some(Seen::Answered { by: SocketAddr::new(packet.to, 0), source_seen: packet.from });
    }
    let line = std::str::from_utf8(heard).ok()?.strip_suffix('\n')?;
    let read = || {
        let (by, peer) = line.split_once(' ')?;
        Some((by.parse().ok()?, peer.parse::<SocketAddr>().ok()?.ip()))
    };
    Some(match read() {
        Some((by, source_seen)) => Seen::Answered { by, source_seen },
        None => Seen::Otherwise(format!("an answer that is none: {line:?}")),
    })
}

fn failed(error: &io::Error) -> Seen {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Seen::Refused,
        _ => Seen::Otherwise(error.to_string()),
    }
}

fn protocol_word(packet: &Packet) -> String {
    packet.port.map_or("ICMP sockets".into(), |(protocol, _)| protocol.to_string())
}
