//! Tests that need processes of their own, since descriptors are limited for a process: thousands of connections, and too few
//! descriptors.
//!
//! The test program starts itself again as the endpoint and as the clients. Its own descriptors are the relay's.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::duration_suboptimal_units,
    clippy::wildcard_imports,
    reason = "a test stops at the first surprise, and its clients say what they saw"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ferrule_relay::{Note, Pool, PoolLimits, Relay, RelayOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const ROLE: &str = "FERRULE_RELAY_ROLE";
const LIMIT: Duration = Duration::from_secs(120);

/// One after the other: they change what this process may open.
#[test]
fn thousands_of_connections_then_too_few_descriptors() {
    match std::env::var(ROLE).as_deref() {
        Ok("endpoint") => return serve_echo(),
        Ok(role) if role.starts_with("datagrams ") => return send_datagrams(role),
        Ok(role) => return run_clients(role),
        Err(_) => {}
    }
    let mut endpoint = Process::start("endpoint");
    let endpoint: SocketAddr = endpoint.line().parse().unwrap();
    thousands_of_connections_live_while_others_come_and_go(endpoint);
    without_descriptors_clients_wait_and_open_connections_live(endpoint);
    a_flood_of_datagrams_leaves_descriptors_to_connections(endpoint);
}

/// 20,000, or as many as the limit of this machine permits.
fn thousands_of_connections_live_while_others_come_and_go(endpoint: SocketAddr) {
    let hard = raise_descriptor_limit();
    let permitted = hard.and_then(|hard| usize::try_from(hard).ok()).unwrap_or(usize::MAX);
    let count = 20_000.min((permitted - 500) / 2);
    let (relay, portal, pool, notes) = start_relay(endpoint);
    let before = resident();
    // A process of clients has a descriptor for each, and so has the endpoint.
    let mut clients: Vec<Process> = Vec::new();
    for share in shares(count, permitted / 2) {
        let mut process = Process::start(&format!("{} {share}", portal.local_addr()));
        assert_eq!(process.line(), format!("{share} served"));
        clients.push(process);
    }
    assert_eq!(relay.stats().open_connections, count as u64);
    let peak = resident();
    let each = (peak - before) / count as u64;
    assert!(each < 4 << 10, "{each} bytes of resident memory for each of {count} connections");
    for round in 0..5 {
        let mut others = Process::start(&format!("{} 200", portal.local_addr()));
        assert_eq!(others.line(), "200 served", "in round {round}");
        others.end();
    }
    for process in &mut clients {
        let served = process.ask("again");
        assert!(served.ends_with(" alive"), "{served}");
    }
    assert_eq!(portal.stats().unserved, 0);
    for process in clients {
        process.end();
    }
    wait_until("all have ended", || relay.stats().open_connections == 0);
    assert_eq!(pool.stats().open_connections, 0);
    assert!(resident() <= peak, "memory must not grow while connections end");
    assert_eq!(*notes.lock().unwrap(), []);
}

fn without_descriptors_clients_wait_and_open_connections_live(endpoint: SocketAddr) {
    let (relay, portal, _pool, notes) = start_relay(endpoint);
    let hard = getrlimit(Resource::Nofile).maximum;
    let mut first = Process::start(&format!("{} 3", portal.local_addr()));
    assert_eq!(first.line(), "3 served");
    let mut waiting = Process::spawn(&format!("{} 40", portal.local_addr()));
    // Six connections, a spare descriptor for each worker is there already, and one descriptor is left over.
    setrlimit(Resource::Nofile, Rlimit { current: Some(limit_with_room_for(13)), maximum: hard }).unwrap();
    waiting.begin();
    wait_until("accepting pauses", || relay.stats().accept_pauses > 0);
    // Open connections live.
    assert_eq!(first.ask("again"), "3 alive");
    let before = relay.stats();
    std::thread::park_timeout(Duration::from_secs(1));
    let after = relay.stats();
    assert!(after.wakeups - before.wakeups < 200, "{} wake-ups", after.wakeups - before.wakeups);
    assert_eq!(after.unserved, 0, "no client is turned away");
    assert!(after.open_connections < 40);
    // One clear report, whatever the number of clients.
    let reported = notes.lock().unwrap().clone();
    assert!(matches!(reported.as_slice(), [Note::DescriptorsExhausted { .. }]), "{reported:?}");
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard }).unwrap();
    assert_eq!(waiting.line(), "40 served");
    assert_eq!(first.ask("again"), "3 alive");
    assert_eq!(relay.stats().unserved, 0);
    first.end();
    waiting.end();
}

/// Whoever sends them: addresses of senders can be forged.
fn a_flood_of_datagrams_leaves_descriptors_to_connections(endpoint: SocketAddr) {
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(400), maximum: hard }).unwrap();
    // Half of the limit is for clients, and half of that for those of UDP.
    let (relay, portal, _pool, notes) = start_relay_reserving(endpoint, u64::MAX);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let pool = Pool::new(PoolLimits::default());
    // Nobody answers there, which is no error.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    pool.set_endpoints(vec![silent.local_addr().unwrap()]);
    let datagrams = relay.serve_udp(socket, pool).unwrap();
    relay.set_udp_idle_timeout(LIMIT);
    let mut flood = Process::start(&format!("datagrams {} 300", datagrams.local_addr()));
    assert_eq!(flood.line(), "300 sent");
    wait_until("all had an association", || relay.stats().associated == 300);
    assert_eq!(relay.stats().open_associations, 100);
    let mut clients = Process::start(&format!("{} 40", portal.local_addr()));
    assert_eq!(clients.line(), "40 served");
    assert_eq!(relay.stats().accept_pauses, 0);
    let reported = notes.lock().unwrap().clone();
    assert!(matches!(reported.as_slice(), [Note::DescriptorsExhausted { .. }]), "{reported:?}");
    clients.end();
    flood.end();
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard }).unwrap();
}

/// The limit is for the number of a descriptor, and lower numbers may be free.
fn limit_with_room_for(more: usize) -> u64 {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let taken: Vec<u64> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    // The listing has a descriptor of its own, which is free again.
    (0..).filter(|number| !taken.contains(number)).nth(more - 1).unwrap()
}

/// As many descriptors as 20,000 connections need, or as this process may have.
fn raise_descriptor_limit() -> Option<u64> {
    let wanted = Rlimit { current: Some(64_000), maximum: Some(64_000) };
    let hard = getrlimit(Resource::Nofile).maximum;
    if hard.is_some_and(|hard| hard < 64_000) && setrlimit(Resource::Nofile, wanted).is_ok() {
        return Some(64_000);
    }
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard }).unwrap();
    hard
}

type Notes = Arc<Mutex<Vec<Note>>>;

fn start_relay(endpoint: SocketAddr) -> (Relay, ferrule_relay::Portal, Arc<Pool>, Notes) {
    start_relay_reserving(endpoint, 0)
}

fn start_relay_reserving(
    endpoint: SocketAddr,
    reserved_descriptors: u64,
) -> (Relay, ferrule_relay::Portal, Arc<Pool>, Notes) {
    let notes: Notes = Arc::default();
    let sink = Arc::clone(&notes);
    let options = RelayOptions {
        threads: Some(2),
        reserved_descriptors,
        notes: Some(Arc::new(move |note| sink.lock().unwrap().push(note))),
        ..RelayOptions::default()
    };
    let relay = Relay::start(options).unwrap();
    let pool = Pool::new(PoolLimits::default());
    pool.set_endpoints(vec![endpoint]);
    let portal = relay.serve_tcp(TcpListener::bind("127.0.0.1:0").unwrap(), Arc::clone(&pool)).unwrap();
    (relay, portal, pool, notes)
}

/// Parts of `count` that are not larger than `most`.
fn shares(count: usize, most: usize) -> Vec<usize> {
    let parts = count.div_ceil(most.max(1)).max(1);
    (0..parts).map(|part| count / parts + usize::from(part < count % parts)).collect()
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

fn wait_until(what: &str, mut reached: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !reached() {
        assert!(Instant::now() < deadline, "waited {LIMIT:?} for: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// This program again, in another role, until it is dropped.
struct Process {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Process {
    fn start(role: &str) -> Self {
        let mut process = Self::spawn(role);
        process.begin();
        process
    }

    fn spawn(role: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "thousands_of_connections_then_too_few_descriptors", "--nocapture"])
            .env(ROLE, role);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let requests = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, requests, answers }
    }

    fn begin(&mut self) {
        writeln!(self.requests.as_ref().unwrap(), "begin").unwrap();
    }

    /// The next line of its own; the test harness prints others.
    fn line(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.answers.read_line(&mut line).unwrap() > 0, "the process has ended");
            if let Some((_, own)) = line.split_once("@ ") {
                return own.trim().to_owned();
            }
        }
    }

    fn ask(&mut self, request: &str) -> String {
        writeln!(self.requests.as_ref().unwrap(), "{request}").unwrap();
        self.line()
    }

    fn end(mut self) {
        self.requests = None;
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(text: &str) {
    println!("@ {text}");
}

/// Echoes on one thread, with as many connections as the system permits.
fn serve_echo() {
    use rustix::event::epoll;
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard }).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 4096).unwrap();
    say(&listener.local_addr().unwrap().to_string());
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let of_listener = u64::MAX;
    epoll::add(&poll, &listener, epoll::EventData::new_u64(of_listener), epoll::EventFlags::IN).unwrap();
    let mut streams = slab::Slab::new();
    let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
    loop {
        events.clear();
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None).unwrap();
        for event in &events {
            if event.data.u64() == of_listener {
                let (stream, _) = listener.accept().unwrap();
                let entry = streams.vacant_entry();
                let data = epoll::EventData::new_u64(entry.key() as u64);
                epoll::add(&poll, &stream, data, epoll::EventFlags::IN).unwrap();
                entry.insert(stream);
                continue;
            }
            let key = usize::try_from(event.data.u64()).unwrap();
            let Some(mut stream): Option<&TcpStream> = streams.get(key) else { continue };
            let mut buffer = [0; 64];
            match stream.read(&mut buffer) {
                Ok(length @ 1..) if stream.write_all(&buffer[..length]).is_ok() => {}
                _ => drop(streams.try_remove(key)),
            }
        }
    }
}

/// Opens connections, uses each, and again on request, until its input ends. The role is an address and a number.
fn run_clients(role: &str) {
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard }).unwrap();
    let (address, count) = role.split_once(' ').unwrap();
    let (address, count): (SocketAddr, usize) = (address.parse().unwrap(), count.parse().unwrap());
    let mut lines = std::io::stdin().lines();
    lines.next();
    let mut streams: Vec<TcpStream> = (0..count)
        .map(|_| {
            let stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            stream
        })
        .collect();
    let echo = |streams: &mut Vec<TcpStream>| {
        let served = |stream: &mut TcpStream| {
            stream.write_all(b"hello")?;
            stream.read_exact(&mut [0; 5])
        };
        streams.iter_mut().flat_map(served).count()
    };
    say(&format!("{} served", echo(&mut streams)));
    while let Some(Ok(_)) = lines.next() {
        say(&format!("{} alive", echo(&mut streams)));
    }
}

/// Sends a datagram from each of so many sockets, and keeps them. The role is a word, an address and a number.
fn send_datagrams(role: &str) {
    let (address, count) = role.trim_start_matches("datagrams ").split_once(' ').unwrap();
    let (address, count): (SocketAddr, usize) = (address.parse().unwrap(), count.parse().unwrap());
    let mut lines = std::io::stdin().lines();
    lines.next();
    let sockets: Vec<UdpSocket> = (0..count).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let sent = sockets.iter().filter(|socket| socket.send_to(b"hello", address).is_ok()).count();
    say(&format!("{sent} sent"));
    lines.next();
}
