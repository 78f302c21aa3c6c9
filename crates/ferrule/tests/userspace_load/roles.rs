//! The servers and the clients: this program again, in another role, told what to do line by line.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ferrule_testkit::netns::Namespace;
use rustix::event::epoll;

use crate::{PATIENCE, address};

const VARIABLE: &str = "FERRULE_LOAD_ROLE";
const TEST: &str = "thousands_of_connections_live_while_a_thousand_a_second_come_and_go";
/// The test harness prints lines of its own.
const MARK: &str = "@ ";
/// New connections under way at a time.
const THREADS: usize = 16;
/// More would only repeat the same.
const MAX_FAILURES_SHOWN: usize = 3;

/// A process in a role, until it is dropped.
pub struct Role {
    child: Child,
    requests: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Role {
    /// Does what this process was started for, if that is a role.
    pub fn play() -> bool {
        let Ok(role) = std::env::var(VARIABLE) else { return false };
        let words: Vec<&str> = role.split(' ').collect();
        match words.as_slice() {
            ["server", at] => serve(address(at)),
            ["clients", to, count] => run_clients(address(to), count.parse().expect("a number")),
            other => panic!("no such role: {other:?}"),
        }
        true
    }

    pub fn start(namespace: &Namespace, role: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", TEST, "--nocapture"]).env(VARIABLE, role);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = namespace.run(move || command.spawn()).expect("the namespace").expect("a process");
        let requests = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("its output"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in answers.lines().map_while(Result::ok) {
                if let Some((_, own)) = line.split_once(MARK) {
                    let _ = sender.send(own.trim().to_owned());
                }
            }
        });
        Self { child, requests, lines }
    }

    pub fn line(&mut self) -> String {
        self.line_within(PATIENCE).expect("an answer")
    }

    /// `None` if there is none yet.
    pub fn line_within(&mut self, time: Duration) -> Option<String> {
        match self.lines.recv_timeout(time) {
            Ok(line) => Some(line),
            Err(mpsc::RecvTimeoutError::Timeout) => None,
            Err(mpsc::RecvTimeoutError::Disconnected) => panic!("the process has ended"),
        }
    }

    pub fn say(&mut self, request: &str) {
        writeln!(self.requests.as_ref().expect("it is not over"), "{request}").expect("it listens");
    }

    pub fn ask(&mut self, request: &str) -> String {
        self.say(request);
        self.line()
    }

    /// Its input ends, and so does it.
    pub fn end(mut self) {
        self.requests = None;
        self.child.wait().expect("its end");
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[expect(clippy::print_stdout, reason = "how a role answers")]
fn say(text: &str) {
    println!("{MARK}{text}");
}

/// Echoes on one thread.
fn serve(at: SocketAddr) {
    let listener = TcpListener::bind(at).expect("a listener");
    rustix::net::listen(&listener, 4096).expect("a longer queue");
    listener.set_nonblocking(true).expect("a non-blocking listener");
    say("listening");
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("epoll");
    let of_listener = u64::MAX;
    let watch = |socket: std::os::fd::BorrowedFd<'_>, number: u64| {
        epoll::add(&poll, socket, epoll::EventData::new_u64(number), epoll::EventFlags::IN).expect("epoll");
    };
    watch(listener.as_fd(), of_listener);
    let mut streams: Vec<Option<TcpStream>> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
    loop {
        events.clear();
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None).expect("epoll");
        for event in &events {
            if event.data.u64() == of_listener {
                while let Ok((stream, _)) = listener.accept() {
                    let number = free.pop().unwrap_or(streams.len());
                    watch(stream.as_fd(), number as u64);
                    if number == streams.len() {
                        streams.push(None);
                    }
                    streams[number] = Some(stream);
                }
                continue;
            }
            let number = usize::try_from(event.data.u64()).expect("a number of ours");
            let Some(stream) = streams[number].as_mut() else { continue };
            let mut buffer = [0; 64];
            match stream.read(&mut buffer) {
                Ok(length @ 1..) if stream.write_all(&buffer[..length]).is_ok() => {}
                _ => {
                    streams[number] = None;
                    free.push(number);
                }
            }
        }
    }
}

/// Opens connections, uses each, and then does what it is asked to, until its input ends.
fn run_clients(to: SocketAddr, count: usize) {
    let mut streams: Vec<TcpStream> = (0..count).map(|_| connect(to).expect("a connection")).collect();
    say(&format!("{} served", echo_all(&mut streams)));
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["again"] => say(&format!("{} alive", echo_all(&mut streams))),
            ["load", rate, seconds] => {
                let number = |text: &&str| text.parse().expect("a number");
                say(&come_and_go(to, number(rate), number(seconds)));
            }
            other => panic!("no such request: {other:?}"),
        }
    }
}

fn connect(to: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn echo(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"hello")?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer)?;
    if &answer == b"hello" { Ok(()) } else { Err(std::io::Error::other("another answer")) }
}

fn echo_all(streams: &mut [TcpStream]) -> usize {
    streams.iter_mut().filter_map(|stream| echo(stream).ok()).count()
}

/// New connections, so many a second, each used once and closed.
fn come_and_go(to: SocketAddr, rate: u32, seconds: u32) -> String {
    let (next, served) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failed: Arc<Mutex<Vec<String>>> = Arc::default();
    let (begin, total) = (Instant::now(), rate as usize * seconds as usize);
    let interval = Duration::from_secs(1) / rate;
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= total {
                        return;
                    }
                    let due = begin + interval * u32::try_from(number).expect("few enough");
                    std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
                    match connect(to).and_then(|mut stream| echo(&mut stream)) {
                        Ok(()) => drop(served.fetch_add(1, Ordering::Relaxed)),
                        Err(error) => failed.lock().expect("the failures").push(error.to_string()),
                    }
                }
            });
        }
    });
    let failed = failed.lock().expect("the failures");
    let shown = &failed[..failed.len().min(MAX_FAILURES_SHOWN)];
    format!("{} served, {} failed {shown:?}", served.into_inner(), failed.len())
}
