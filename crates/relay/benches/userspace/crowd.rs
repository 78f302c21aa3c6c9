//! Many open connections, of which a few are used at a time: a process of its own for each proxy.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with, sockopt,
};

use crate::load::{Poll, bind_without_port};
use crate::process::Running;

const MESSAGE: [u8; 1024] = [42; 1024];
/// Echoes under way at a time.
const CONCURRENT: usize = 8;

/// The process, as the comparison sees it.
pub struct Crowd {
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    _process: Running,
}

impl Crowd {
    /// Opens connections and uses each once.
    pub fn open(to: SocketAddr, count: usize) -> Self {
        let program = std::env::current_exe().expect("the path of this program");
        let mut command = Command::new(program);
        command.args(["crowd", &to.to_string(), &count.to_string()]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starting this program again");
        let requests = child.stdin.take().expect("stdin is a pipe");
        let answers = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let mut crowd = Self { requests, answers, _process: Running(child) };
        assert_eq!(crowd.answer(), "open");
        crowd
    }

    /// How long each echo took.
    pub fn echo(&mut self, duration: Duration) -> Vec<Duration> {
        writeln!(self.requests, "{}", duration.as_millis()).unwrap();
        self.answer().split_whitespace().map(|nanos| Duration::from_nanos(nanos.parse().unwrap())).collect()
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

/// The process itself: one line of durations for each line with a number of milliseconds.
pub fn run(arguments: &[String]) {
    let mut clients = Clients::open(arguments[0].parse().unwrap(), arguments[1].parse().unwrap());
    clients.visit_all();
    println!("open");
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let samples = clients.echo(CONCURRENT, Duration::from_millis(line.parse().unwrap()));
        let nanos: Vec<String> = samples.iter().map(|sample| sample.as_nanos().to_string()).collect();
        println!("{}", nanos.join(" "));
    }
}

struct Clients {
    sockets: Vec<OwnedFd>,
    poll: Poll,
    next: usize,
}

impl Clients {
    fn open(to: SocketAddr, count: usize) -> Self {
        let (mut sockets, poll) = (Vec::new(), Poll::new());
        for number in 0..count {
            let flags = SocketFlags::CLOEXEC;
            let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
            bind_without_port(&socket, number);
            connect(&socket, &to).unwrap();
            sockopt::set_tcp_nodelay(&socket, true).unwrap();
            poll.add(&socket, number);
            sockets.push(socket);
        }
        Self { sockets, poll, next: 0 }
    }

    /// One echo on every connection.
    fn visit_all(&mut self) {
        let mut buffer = [0; 2048];
        for socket in &self.sockets {
            send(socket, &MESSAGE, SendFlags::NOSIGNAL).unwrap();
            let mut received = 0;
            while received < MESSAGE.len() {
                received += recv(socket, &mut buffer[..], RecvFlags::empty()).unwrap().1;
            }
        }
        while !self.poll.wait().is_empty() {}
    }

    /// Echoes on one connection after another, so many at a time; returns how long each took.
    fn echo(&mut self, concurrent: usize, duration: Duration) -> Vec<Duration> {
        let mut samples = Vec::new();
        let mut asked: Vec<(Instant, usize)> = vec![(Instant::now(), 0); self.sockets.len()];
        let begin = Instant::now();
        let mut outstanding = 0;
        let mut buffer = [0; 2048];
        loop {
            let is_over = begin.elapsed() >= duration;
            while !is_over && outstanding < concurrent {
                // A step that visits all, in an order that caches do not foresee.
                self.next = (self.next + 3_571) % self.sockets.len();
                asked[self.next] = (Instant::now(), 0);
                send(&self.sockets[self.next], &MESSAGE, SendFlags::NOSIGNAL).unwrap();
                outstanding += 1;
            }
            if outstanding == 0 {
                return samples;
            }
            for (at, flags) in self.poll.wait() {
                if !flags.contains(epoll::EventFlags::IN) {
                    continue;
                }
                if let Ok((_, length)) = recv(&self.sockets[at], &mut buffer[..], RecvFlags::DONTWAIT) {
                    assert!(length > 0, "the proxy ended a connection");
                    asked[at].1 += length;
                    if asked[at].1 == MESSAGE.len() {
                        samples.push(asked[at].0.elapsed());
                        outstanding -= 1;
                    }
                }
            }
        }
    }
}
