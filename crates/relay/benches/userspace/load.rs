//! The clients: one thread with an epoll loop for each kind of load, so that they cost less than what they measure.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use ferrule_kernel::datagrams::{self, DatagramBatch, MAX_DATAGRAMS, Merging, Outgoing};
use rustix::event::{Timespec, epoll};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, recv, send, socket_with,
};

const REQUEST: [u8; 64] = [42; 64];

/// Clients come from several addresses, so that ports do not run out.
fn source(number: usize) -> SocketAddr {
    let last = u8::try_from(number % 8).unwrap() + 1;
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 1, last)), 0)
}

pub struct Poll {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poll {
    pub fn new() -> Self {
        Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC).unwrap(), events: Vec::with_capacity(512) }
    }

    pub fn add(&self, socket: &OwnedFd, number: usize) {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&self.epoll, socket, epoll::EventData::new_u64(number as u64), flags).unwrap();
    }

    /// Numbers of sockets where something happened.
    pub fn wait(&mut self) -> Vec<(usize, epoll::EventFlags)> {
        self.events.clear();
        let timeout = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&timeout)).unwrap();
        self.events.iter().map(|event| (usize::try_from(event.data.u64()).unwrap(), event.flags)).collect()
    }
}

fn dial(to: SocketAddr, number: usize) -> OwnedFd {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
    bind_without_port(&socket, number);
    match connect(&socket, &to) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => socket,
        Err(error) => panic!("connecting to {to}: {error}"),
    }
}

/// Binding chooses a port among all; without a port the kernel chooses when it knows the peer.
pub fn bind_without_port(socket: &OwnedFd, number: usize) {
    datagrams::choose_port_when_connecting(socket).unwrap();
    bind(socket, &source(number)).unwrap();
}

struct Exchange {
    socket: OwnedFd,
    asked: bool,
    received: usize,
}

/// Connections that were opened, asked, answered and closed.
pub fn connections(to: SocketAddr, concurrent: usize, duration: Duration) -> (usize, Duration) {
    let mut poll = Poll::new();
    let mut next = 0;
    let mut begin_one = |poll: &Poll, at: usize| {
        next += 1;
        let socket = dial(to, next);
        poll.add(&socket, at);
        Exchange { socket, asked: false, received: 0 }
    };
    let mut all: Vec<Exchange> = (0..concurrent).map(|at| begin_one(&poll, at)).collect();
    let begin = Instant::now();
    let mut done = 0;
    while begin.elapsed() < duration {
        for (at, flags) in poll.wait() {
            let one = &mut all[at];
            if !one.asked && flags.contains(epoll::EventFlags::OUT) {
                send(&one.socket, &REQUEST, SendFlags::NOSIGNAL).expect("the proxy takes requests");
                one.asked = true;
            }
            if flags.contains(epoll::EventFlags::IN) {
                let mut buffer = [0; 256];
                match recv(&one.socket, &mut buffer[..], RecvFlags::empty()) {
                    Ok((_, length @ 1..)) => one.received += length,
                    Err(rustix::io::Errno::AGAIN) => {}
                    other => panic!("the proxy ended a connection: {other:?}"),
                }
            }
            if one.received == REQUEST.len() {
                done += 1;
                all[at] = begin_one(&poll, at);
            }
        }
    }
    (done, begin.elapsed())
}

/// Bytes that were received.
pub fn download(from: SocketAddr, concurrent: usize, duration: Duration) -> (u64, Duration) {
    let sockets: Vec<TcpStream> = (0..concurrent).map(|_| TcpStream::connect(from).unwrap()).collect();
    let mut poll = Poll::new();
    let sockets: Vec<OwnedFd> = sockets.into_iter().map(OwnedFd::from).collect();
    for (at, socket) in sockets.iter().enumerate() {
        rustix::io::ioctl_fionbio(socket, true).unwrap();
        send(socket, b"x", SendFlags::NOSIGNAL).unwrap();
        poll.add(socket, at);
    }
    let mut buffer = vec![0; 1 << 20];
    let mut received = 0;
    let begin = Instant::now();
    while begin.elapsed() < duration {
        for (at, _) in poll.wait() {
            // Discarded in the kernel: the client is not what is measured.
            for _ in 0..64 {
                match recv(&sockets[at], &mut buffer[..], RecvFlags::TRUNC) {
                    Ok((_, 0)) => panic!("the proxy ended a connection"),
                    Ok((_, length)) => received += length as u64,
                    Err(rustix::io::Errno::AGAIN) => break,
                    Err(error) => panic!("the proxy failed: {error}"),
                }
            }
        }
    }
    let elapsed = begin.elapsed();
    (received, elapsed)
}

/// Datagrams that came back. Each client has some under way, and sends as many as it received, in one call: one by one, or merged,
/// which costs the clients less.
pub fn datagrams(to: SocketAddr, mut merging: Merging, duration: Duration) -> (usize, Duration) {
    const UNDER_WAY: usize = 16;
    let clients = 64;
    let burst =
        [Outgoing { payload: &REQUEST, segment: REQUEST.len(), peer: None, local: None }; MAX_DATAGRAMS];
    let mut poll = Poll::new();
    let sockets: Vec<OwnedFd> = (0..clients)
        .map(|number| {
            let socket = UdpSocket::bind(source(number)).unwrap();
            socket.connect(to).unwrap();
            socket.set_nonblocking(true).unwrap();
            if merging.is_on() {
                datagrams::receive_merged(&socket).unwrap();
            }
            socket.into()
        })
        .collect();
    let mut last = vec![Instant::now(); clients];
    for (at, socket) in sockets.iter().enumerate() {
        poll.add(socket, at);
        let _ = datagrams::send(socket, &burst[..UNDER_WAY], &mut merging);
    }
    let mut batch = DatagramBatch::new();
    let mut received = 0;
    let begin = Instant::now();
    while begin.elapsed() < duration {
        for (at, _) in poll.wait() {
            while let Ok(messages @ 1..) = batch.receive(&sockets[at], UNDER_WAY) {
                let count = batch.datagrams().map(|one| one.payload.len() / REQUEST.len()).sum::<usize>();
                let count = count.min(UNDER_WAY);
                received += count;
                last[at] = Instant::now();
                let _ = datagrams::send(&sockets[at], &burst[..count], &mut merging);
                if messages < UNDER_WAY {
                    break;
                }
            }
        }
        // A client whose datagrams were dropped starts over.
        for (at, last) in last.iter_mut().enumerate() {
            if last.elapsed() > Duration::from_millis(50) {
                *last = Instant::now();
                let _ = datagrams::send(&sockets[at], &burst[..UNDER_WAY], &mut merging);
            }
        }
    }
    (received, begin.elapsed())
}
