//! Clients that connect to a Service a thousand times a second, and keep count.

use std::io::Read as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use crate::node::{ASKING_POD, Node, ip};

/// Where the ports of each client begin, and how often each connects.
const FIRST_PORTS: [u16; 4] = [10_000, 20_000, 30_000, 40_000];
const EVERY: Duration = Duration::from_millis(4);
const PATIENCE: Duration = Duration::from_secs(10);

/// Running clients.
pub struct Clients {
    stop: Arc<AtomicBool>,
    tried: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<Vec<String>>>,
}

impl Clients {
    /// Starts them in a pod of the node.
    pub fn connecting_to(node: &Node) -> Self {
        let (stop, tried) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let to = node.service();
        let threads = FIRST_PORTS
            .into_iter()
            .map(|first| {
                let (stop, tried) = (Arc::clone(&stop), Arc::clone(&tried));
                let from = SocketAddr::new(ip(ASKING_POD), first);
                node.in_asking_pod(move || connect_on_and_on((from, to), &stop, &tried))
            })
            .collect();
        Self { stop, tried, threads }
    }

    /// Lets them go on until they have tried as often as they do in this time.
    pub fn go_on(&self, time: Duration) {
        let from = self.tried.load(Ordering::Relaxed);
        let due = usize::try_from(time.as_millis()).unwrap_or(0);
        let give_up = Instant::now() + time * 20;
        while self.tried.load(Ordering::Relaxed) < from + due && Instant::now() < give_up {
            std::thread::park_timeout(EVERY);
        }
    }

    /// Ends them: how often they tried, and what went wrong.
    pub fn stop(self) -> (usize, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        let failed = self.threads.into_iter().flat_map(|thread| thread.join().expect("a client")).collect();
        (self.tried.load(Ordering::Relaxed), failed)
    }
}

fn connect_on_and_on(
    (mut from, to): (SocketAddr, SocketAddr),
    stop: &AtomicBool,
    tried: &AtomicUsize,
) -> Vec<String> {
    let mut failed = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let next = Instant::now() + EVERY;
        from.set_port(from.port() + 1);
        if let Err(error) = connect_once(from, to) {
            failed.push(format!("connect {}: {error}", tried.load(Ordering::Relaxed)));
        }
        tried.fetch_add(1, Ordering::Relaxed);
        std::thread::park_timeout(next.saturating_duration_since(Instant::now()));
    }
    failed
}

/// A connection over which the endpoint says who it is.
///
/// From a port that was not used before: the endpoint closes first, so the client's own ports are free at once while the rest of
/// the way still remembers them.
fn connect_once(from: SocketAddr, to: SocketAddr) -> std::io::Result<()> {
    let socket = net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(PATIENCE))?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
    net::bind(&socket, &from)?;
    net::connect(&socket, &to)?;
    let mut stream = TcpStream::from(socket);
    let mut line = String::new();
    stream.read_to_string(&mut line)?;
    if line.is_empty() { Err(std::io::Error::other("an empty answer")) } else { Ok(()) }
}
