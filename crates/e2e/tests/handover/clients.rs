//! Clients that connect to a Service on and on, others that stay connected, and a count of what fails.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use crate::node::{ASKING_POD, EVERY, Node, ip};

/// Where the ports of each client begin.
const FIRST_PORTS: [u16; 4] = [10_000, 20_000, 30_000, 40_000];
/// Where the connections that are kept come from, and how often something is said on each.
const KEPT_PORTS: [u16; 8] = [9_001, 9_002, 9_003, 9_004, 9_005, 9_006, 9_007, 9_008];
const SAYS_EVERY: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(10);

/// Running clients.
pub struct Clients {
    stop: Arc<AtomicBool>,
    tried: Arc<AtomicUsize>,
    since: Instant,
    threads: Vec<JoinHandle<Vec<String>>>,
}

impl Clients {
    /// Starts them in a pod of the node.
    pub fn connecting_to(node: &Node) -> Self {
        let (stop, tried) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut threads = Vec::new();
        for first in FIRST_PORTS {
            let (stop, tried, to) = (Arc::clone(&stop), Arc::clone(&tried), node.service());
            let from = SocketAddr::new(ip(ASKING_POD), first);
            threads.push(node.in_asking_pod(move || connect_on_and_on((from, to), &stop, &tried)));
        }
        for port in KEPT_PORTS {
            let (stop, to) = (Arc::clone(&stop), node.echo());
            let from = SocketAddr::new(ip(ASKING_POD), port);
            threads.push(node.in_asking_pod(move || stay_connected((from, to), &stop)));
        }
        Self { stop, tried, since: Instant::now(), threads }
    }

    /// Lets them go on until they have tried as often as they do in this time.
    pub fn go_on(&self, time: Duration) {
        let from = self.tried.load(Ordering::Relaxed);
        let due = FIRST_PORTS.len() * usize::try_from(time.as_millis() / EVERY.as_millis()).unwrap_or(0);
        let give_up = Instant::now() + time * 20;
        while self.tried.load(Ordering::Relaxed) < from + due && Instant::now() < give_up {
            std::thread::park_timeout(EVERY);
        }
    }

    /// How often they try in a second, all together.
    pub fn rate(&self) -> f64 {
        let tried = u32::try_from(self.tried.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
        f64::from(tried) / self.since.elapsed().as_secs_f64()
    }

    /// Ends them: how often they tried, and what went wrong.
    pub fn stop(mut self) -> (usize, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        let threads = std::mem::take(&mut self.threads);
        let failed = threads.into_iter().flat_map(|thread| thread.join().expect("a client")).collect();
        (self.tried.load(Ordering::Relaxed), failed)
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn connect_on_and_on(
    (mut from, to): (SocketAddr, SocketAddr),
    stop: &AtomicBool,
    tried: &AtomicUsize,
) -> Vec<String> {
    let mut failed = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let (began, next) = (jiff::Timestamp::now(), Instant::now() + EVERY);
        from.set_port(from.port() + 1);
        if let Err(error) = connect_once(from, to) {
            failed.push(format!("connect from {from} at {began}: {error}"));
        }
        tried.fetch_add(1, Ordering::Relaxed);
        std::thread::park_timeout(next.saturating_duration_since(Instant::now()));
    }
    failed
}

/// A connection over which the endpoint says who it is.
fn connect_once(from: SocketAddr, to: SocketAddr) -> io::Result<()> {
    let mut line = String::new();
    connected(from, to)?.read_to_string(&mut line)?;
    if line.is_empty() { Err(io::Error::other("an empty answer")) } else { Ok(()) }
}

/// A connection over which the endpoint says everything back, until it is time to stop.
fn stay_connected((from, to): (SocketAddr, SocketAddr), stop: &AtomicBool) -> Vec<String> {
    let mut said = 0_u32;
    let mut talk = || -> io::Result<()> {
        let mut stream = connected(from, to)?;
        while !stop.load(Ordering::Relaxed) {
            said += 1;
            let mut answer = [0; 4];
            stream.write_all(&said.to_be_bytes())?;
            stream.read_exact(&mut answer)?;
            if answer != said.to_be_bytes() {
                return Err(io::Error::other("another answer"));
            }
            std::thread::park_timeout(SAYS_EVERY);
        }
        Ok(())
    };
    let cut = talk().err();
    let told = |error| format!("kept connection from {from} at {}: {error}", jiff::Timestamp::now());
    cut.map(told).into_iter().collect()
}

/// Connects, from a port of this side that was not used before: the endpoint closes first, so the client's own ports are free
/// at once while the rest of the way still remembers them.
fn connected(from: SocketAddr, to: SocketAddr) -> io::Result<TcpStream> {
    connect((from, to), PATIENCE)
}

/// The same, with less patience.
pub fn connect((from, to): (SocketAddr, SocketAddr), patience: Duration) -> io::Result<TcpStream> {
    let socket = net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(patience))?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(patience))?;
    net::bind(&socket, &from)?;
    net::connect(&socket, &to)?;
    Ok(TcpStream::from(socket))
}
