//! The clients: some connect, ask and close, on and on; others stay connected. Every failure is counted, the first ones are told.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::report;

/// Threads that connect. One alone would fall behind when a connection hangs.
const CONNECTING: u32 = 25;
/// A client gives up after this time. Longer than the first three retransmissions of a SYN, which count as slow.
const TIMEOUT: Duration = Duration::from_secs(10);
/// A connect that took as long lost at least its first packet.
const SLOW: Duration = Duration::from_millis(900);
/// How often something is said on connections that stay.
const SAYS_EVERY: Duration = Duration::from_millis(50);
/// Failures that are told one by one.
const TOLD: usize = 20;

#[derive(Default)]
struct Seen {
    stop: AtomicBool,
    tried: AtomicU64,
    slow: AtomicU64,
    failed: AtomicU64,
    cut: AtomicU64,
    told: Mutex<Vec<String>>,
}

/// Runs all clients until the file exists, and reports.
pub fn connect(to: SocketAddr, rate: u32, kept: u32, stop: &Path) {
    let seen = Seen::default();
    let began = Instant::now();
    let pause = Duration::from_secs(1) * CONNECTING / rate.max(1);
    std::thread::scope(|scope| {
        for _ in 0..CONNECTING {
            scope.spawn(|| connect_repeatedly(to, pause, &seen));
        }
        for _ in 0..kept {
            scope.spawn(|| stay_connected(to, &seen));
        }
        while !stop.exists() {
            std::thread::park_timeout(Duration::from_millis(100));
        }
        seen.stop.store(true, Ordering::Relaxed);
    });
    seen.print(kept, began.elapsed());
}

fn connect_repeatedly(to: SocketAddr, pause: Duration, seen: &Seen) {
    let mut due = Instant::now();
    while !seen.stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        // A connection that took long is made up for: the rate holds.
        due += pause;
        seen.tried.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = ask_once(to) {
            seen.failed.fetch_add(1, Ordering::Relaxed);
            seen.tell(&format!("connect: {error}"));
        } else if began.elapsed() >= SLOW {
            seen.slow.fetch_add(1, Ordering::Relaxed);
            seen.tell(&format!("connect: took {} ms", began.elapsed().as_millis()));
        }
        std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
    }
}

fn stay_connected(to: SocketAddr, seen: &Seen) {
    let talk = || -> io::Result<()> {
        let mut stream = open(to)?;
        while !seen.stop.load(Ordering::Relaxed) {
            ask(&mut stream)?;
            std::thread::park_timeout(SAYS_EVERY);
        }
        Ok(())
    };
    if let Err(error) = talk() {
        seen.cut.fetch_add(1, Ordering::Relaxed);
        seen.tell(&format!("kept connection: {error}"));
    }
}

fn ask_once(to: SocketAddr) -> io::Result<()> {
    ask(&mut open(to)?)
}

fn open(to: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

fn ask(stream: &mut TcpStream) -> io::Result<()> {
    let mut answer = [0; 4];
    stream.write_all(b"ping")?;
    stream.read_exact(&mut answer)?;
    if &answer == b"ping" { Ok(()) } else { Err(io::Error::other("another answer")) }
}

impl Seen {
    fn tell(&self, what: &str) {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        if let Ok(mut told) = self.told.lock()
            && told.len() < TOLD
        {
            told.push(format!("at {at} ms: {what}"));
        }
    }

    fn print(&self, kept: u32, time: Duration) {
        for line in self.told.lock().map(|told| told.clone()).unwrap_or_default() {
            report(&line);
        }
        let [tried, slow, failed, cut] =
            [&self.tried, &self.slow, &self.failed, &self.cut].map(|count| count.load(Ordering::Relaxed));
        let seconds = time.as_secs();
        report(&format!(
            r#"{{"seconds":{seconds},"tried":{tried},"failed":{failed},"slow":{slow},"kept":{kept},"cut":{cut}}}"#
        ));
    }
}
