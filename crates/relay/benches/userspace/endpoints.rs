//! Endpoints: echo over TCP, a source of bytes, echo over UDP. One process with a thread for each kind.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::thread;

use ferrule_kernel::datagrams::{self, DatagramBatch, MAX_DATAGRAMS, Merging, Outgoing};
use rustix::event::epoll;
use slab::Slab;

use crate::process::{self, Running};

/// Several addresses, so that a proxy does not run out of ports towards one of them.
/// Not in 127.0.0.0/8, which an API server does not accept.
pub const HOSTS: [&str; 4] = ["10.1.0.11", "10.1.0.12", "10.1.0.13", "10.1.0.14"];

/// Where the endpoints are.
#[derive(Debug)]
pub struct Endpoints {
    pub echo: Vec<SocketAddr>,
    pub source: Vec<SocketAddr>,
    pub datagrams: Vec<SocketAddr>,
    /// Echo, and one more endpoint that does not answer.
    pub degraded: Vec<SocketAddr>,
    _silent: Vec<std::os::fd::OwnedFd>,
    _process: Running,
}

/// A process for each proxy, since the number of descriptors of a process is limited.
pub fn start(port: u16) -> Endpoints {
    let process = process::again(&["endpoint", &port.to_string()]);
    let all = |port: u16| -> Vec<SocketAddr> {
        HOSTS.iter().map(|host| SocketAddr::new(host.parse().unwrap(), port)).collect()
    };
    let (silent, held) = silent(port + 3);
    let degraded = all(port).into_iter().chain([silent]).collect();
    Endpoints {
        echo: all(port),
        source: all(port + 1),
        datagrams: all(port + 2),
        degraded,
        _silent: held,
        _process: process,
    }
}

pub fn serve(arguments: &[String]) {
    let port: u16 = arguments[0].parse().unwrap();
    let mut echo: Vec<TcpListener> = Vec::new();
    for host in HOSTS {
        let listener = TcpListener::bind((host, port)).unwrap();
        rustix::net::listen(&listener, 8192).unwrap();
        echo.push(listener);
        let source = TcpListener::bind((host, port + 1)).unwrap();
        thread::spawn(move || serve_source(&source));
        let socket = UdpSocket::bind((host, port + 2)).unwrap();
        thread::spawn(move || echo_datagrams(&socket));
    }
    println!("ready");
    echo_streams(&echo);
}

/// An address that never answers: the kernel drops what comes in, since the queue is full.
pub fn silent(port: u16) -> (SocketAddr, Vec<std::os::fd::OwnedFd>) {
    let address = SocketAddr::new(HOSTS[0].parse().unwrap(), port);
    let family = rustix::net::AddressFamily::INET;
    let listener = rustix::net::socket(family, rustix::net::SocketType::STREAM, None).unwrap();
    rustix::net::bind(&listener, &address).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let mut held = vec![listener];
    while let Ok(stream) =
        std::net::TcpStream::connect_timeout(&address, std::time::Duration::from_millis(300))
    {
        held.push(stream.into());
    }
    (address, held)
}

/// Sends until the client goes.
fn serve_source(listener: &TcpListener) {
    for mut stream in listener.incoming().flatten() {
        thread::spawn(move || {
            let bytes = vec![7; 256 << 10];
            let mut first = [0; 1];
            if stream.read_exact(&mut first).is_ok() {
                while stream.write_all(&bytes).is_ok() {}
            }
        });
    }
}

fn echo_datagrams(socket: &UdpSocket) {
    let mut batch = DatagramBatch::new();
    let mut first = vec![0; 1 << 16];
    loop {
        // Waits for the first one, then takes what else is there.
        let Ok((length, peer)) = socket.recv_from(&mut first) else { return };
        let _ = socket.send_to(&first[..length], peer);
        while let Ok(count) = batch.receive(socket, MAX_DATAGRAMS) {
            let replies: Vec<Outgoing<'_>> = batch
                .datagrams()
                .map(|datagram| Outgoing {
                    payload: datagram.payload,
                    segment: datagram.segment,
                    peer: datagram.peer,
                    local: None,
                })
                .collect();
            let _ = datagrams::send(socket, &replies, &mut Merging::default());
            if count < MAX_DATAGRAMS {
                break;
            }
        }
    }
}

/// One epoll loop for all connections.
fn echo_streams(listeners: &[TcpListener]) {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    for (at, listener) in listeners.iter().enumerate() {
        listener.set_nonblocking(true).unwrap();
        epoll::add(&poll, listener, epoll::EventData::new_u64(at as u64), epoll::EventFlags::IN).unwrap();
    }
    let mut streams = Slab::new();
    let mut events: Vec<epoll::Event> = Vec::with_capacity(512);
    let mut buffer = vec![0; 64 << 10];
    loop {
        events.clear();
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None).unwrap();
        for event in &events {
            let token = usize::try_from(event.data.u64()).unwrap();
            if let Some(listener) = listeners.get(token) {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true).unwrap();
                    stream.set_nodelay(true).unwrap();
                    let entry = streams.vacant_entry();
                    let token = (entry.key() + listeners.len()) as u64;
                    epoll::add(&poll, &stream, epoll::EventData::new_u64(token), epoll::EventFlags::IN)
                        .unwrap();
                    entry.insert(stream);
                }
                continue;
            }
            let key = token - listeners.len();
            let Some(mut stream) = streams.get(key) else { continue };
            match stream.read(&mut buffer) {
                Ok(length @ 1..) if stream.write_all(&buffer[..length]).is_ok() => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                _ => drop(streams.try_remove(key)),
            }
        }
    }
}
