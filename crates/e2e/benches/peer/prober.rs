//! Connects again and again until somebody certain answers: a new attempt every few milliseconds, each from a port of its own,
//! so that a lost one costs no more than that.

use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use ferrule_testkit::netns::Namespace;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SocketFlags, SocketType};

/// Attempts older than these are given up.
const IN_FLIGHT: usize = 64;

/// How long until a connection to an address is answered by one of whom `is_wanted` holds; none if it takes too long.
pub fn time_until(
    from: &Namespace,
    to: SocketAddr,
    since: Instant,
    times: Times,
    is_wanted: impl Fn(SocketAddr) -> bool + Send + Sync,
) -> Option<Duration> {
    from.run(|| probe(to, since, times, &is_wanted)).expect("the namespace")
}

/// How often and how long it is tried.
#[derive(Clone, Copy)]
pub struct Times {
    pub every: Duration,
    pub patience: Duration,
}

fn probe(
    to: SocketAddr,
    since: Instant,
    times: Times,
    is_wanted: &dyn Fn(SocketAddr) -> bool,
) -> Option<Duration> {
    let mut attempts: Vec<OwnedFd> = Vec::new();
    let mut next = Instant::now();
    while since.elapsed() < times.patience {
        if Instant::now() >= next {
            attempts.extend(attempt(to));
            if attempts.len() > IN_FLIGHT {
                attempts.remove(0);
            }
            next = Instant::now() + times.every;
        }
        wait(&attempts, next.saturating_duration_since(Instant::now()));
        let mut is_over = false;
        attempts.retain(|socket| match answer(socket) {
            Answer::Nothing => true,
            Answer::Ended => false,
            Answer::By(address) => {
                is_over |= is_wanted(address);
                false
            }
        });
        if is_over {
            return Some(since.elapsed());
        }
    }
    None
}

enum Answer {
    Nothing,
    Ended,
    By(SocketAddr),
}

fn attempt(to: SocketAddr) -> Option<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).ok()?;
    match net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Some(socket),
        Err(_) => None,
    }
}

fn wait(attempts: &[OwnedFd], time: Duration) {
    let mut sockets: Vec<PollFd<'_>> =
        attempts.iter().map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)).collect();
    let timeout = Timespec::try_from(time).ok();
    let _ = poll(&mut sockets, timeout.as_ref());
}

fn answer(socket: &OwnedFd) -> Answer {
    let mut buffer = [0; 64];
    match net::recv(socket, &mut buffer[..], RecvFlags::DONTWAIT) {
        Ok((length, _)) => {
            let line = std::str::from_utf8(&buffer[..length]).unwrap_or_default();
            line.trim().parse().map_or(Answer::Ended, Answer::By)
        }
        Err(Errno::AGAIN | Errno::NOTCONN) => Answer::Nothing,
        Err(_) => Answer::Ended,
    }
}
