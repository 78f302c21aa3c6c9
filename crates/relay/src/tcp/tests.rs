//! Directions between real sockets, and the schedule of dials.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use super::TcpSide;
use super::dial::Dial;
use super::direction::{Broken, Direction, Ends, Tools};
use crate::pool::Attempt;
use crate::stats::Counters;
use crate::worker::Context;
use crate::worker::poller::Readiness;
use crate::worker::shared::{PortalState, Shared};
use crate::{Pool, PoolLimits, RelayOptions};

/// A writer, the two sockets of a direction, and a reader.
struct Line {
    writer: UnixStream,
    source: UnixStream,
    destination: UnixStream,
    reader: UnixStream,
    direction: Direction,
    tools: Tools,
    portal: Arc<PortalState>,
}

impl Line {
    fn new() -> Self {
        Self::with_limits(PoolLimits::default())
    }

    fn with_limits(limits: PoolLimits) -> Self {
        let portal = Arc::new(PortalState {
            id: 0,
            address: SocketAddr::from(([127, 0, 0, 1], 1)),
            pool: Pool::new(limits),
            counters: Counters::default(),
            relay: Arc::new(Shared::new(RelayOptions::default())),
        });
        let (writer, source) = UnixStream::pair().unwrap();
        let (destination, reader) = UnixStream::pair().unwrap();
        for socket in [&writer, &source, &destination, &reader] {
            socket.set_nonblocking(true).unwrap();
        }
        Self {
            writer,
            source,
            destination,
            reader,
            direction: Direction::default(),
            tools: Tools::new(Arc::clone(&portal.relay)),
            portal,
        }
    }

    fn advance(&mut self) -> Result<bool, Broken> {
        self.direction.assume_ready();
        let ends =
            Ends { source: self.source.as_fd(), destination: self.destination.as_fd(), portal: &self.portal };
        self.direction.advance(ends, &mut self.tools)
    }

    /// Writes as much as goes in.
    fn fill(&mut self) -> usize {
        let mut written = 0;
        while let Ok(count) = self.writer.write(&[7; 4096]) {
            written += count;
        }
        written
    }

    fn read(&mut self) -> usize {
        let mut buffer = vec![0; 1 << 20];
        let mut total = 0;
        while let Ok(count @ 1..) = self.reader.read(&mut buffer) {
            total += count;
        }
        total
    }
}

#[test]
fn a_slow_reader_stops_its_sender_and_loses_nothing() {
    let mut line = Line::new();
    let mut written = 0;
    for _ in 0..100 {
        written += line.fill();
        line.advance().unwrap();
    }
    // Two sockets' queues and what is held between them.
    assert!(written < 2 << 20, "{written} bytes are on their way to a reader that does not read");
    let mut read = 0;
    while read < written {
        read += line.read();
        line.advance().unwrap();
    }
    assert_eq!((read, line.direction.delivered()), (written, written as u64));
}

#[test]
fn what_waits_for_a_slow_reader_is_counted_until_it_is_read() {
    let mut line = Line::new();
    let mut written = 0;
    for _ in 0..100 {
        written += line.fill();
        line.advance().unwrap();
    }
    let held = line.portal.pool.stats().held_bytes;
    assert!((1..1 << 20).contains(&held), "{held} bytes are held");
    assert_eq!(line.portal.relay.counters.relay_stats().held_bytes, held as u64);
    let mut read = 0;
    while read < written {
        read += line.read();
        line.advance().unwrap();
    }
    assert_eq!(line.portal.pool.stats().held_bytes, 0);
    assert_eq!(line.portal.relay.counters.relay_stats().held_bytes, 0);
}

#[test]
fn what_a_connection_held_is_not_counted_after_its_end() {
    let mut line = Line::new();
    for _ in 0..100 {
        line.fill();
        line.advance().unwrap();
    }
    assert!(line.portal.pool.stats().held_bytes > 0);
    line.direction.abandon();
    assert_eq!(line.portal.pool.stats().held_bytes, 0);
}

#[test]
fn without_memory_to_hold_bytes_nothing_is_held_and_nothing_is_lost() {
    let mut line = Line::with_limits(PoolLimits { max_held_bytes: 0, ..PoolLimits::default() });
    let pattern: Vec<u8> = (0..4096_u32).map(|at| (at % 251) as u8).collect();
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    let mut buffer = vec![0; 10_000];
    for _ in 0..200 {
        while let Ok(count) = line.writer.write(&pattern) {
            sent.extend_from_slice(&pattern[..count]);
        }
        line.advance().unwrap();
        assert_eq!(line.portal.pool.stats().held_bytes, 0);
        // Slower than the writer.
        let count = line.reader.read(&mut buffer).unwrap();
        received.extend_from_slice(&buffer[..count]);
    }
    let (writer, _) = UnixStream::pair().unwrap();
    drop(std::mem::replace(&mut line.writer, writer));
    while !line.direction.is_finished() || received.len() < sent.len() {
        line.advance().unwrap();
        while let Ok(count @ 1..) = line.reader.read(&mut buffer) {
            received.extend_from_slice(&buffer[..count]);
        }
    }
    assert!(received == sent, "{} bytes of {}", received.len(), sent.len());
    assert!(line.portal.relay.counters.relay_stats().unbuffered_reads > 0);
    assert_eq!(line.portal.relay.counters.relay_stats().open_pipes, 0);
}

#[test]
fn the_end_is_passed_on_after_the_last_byte() {
    let mut line = Line::new();
    let written = line.fill();
    let (writer, _) = UnixStream::pair().unwrap();
    drop(std::mem::replace(&mut line.writer, writer));
    let mut read = 0;
    for _ in 0..100 {
        line.advance().unwrap();
        assert!(!line.direction.is_finished() || line.direction.delivered() == written as u64);
        read += line.read();
    }
    assert!(line.direction.is_finished());
    assert_eq!(read, written);
}

#[test]
fn a_turn_is_limited() {
    let mut line = Line::new();
    // The reader keeps up, so only the limit of a turn ends it.
    let (writer, reader) = (line.writer.try_clone().unwrap(), line.reader.try_clone().unwrap());
    for socket in [&writer, &reader] {
        socket.set_nonblocking(false).unwrap();
    }
    let total = 8 << 20;
    let writing = std::thread::spawn(move || (&writer).write_all(&vec![1; total]).unwrap());
    let reading = std::thread::spawn(move || (&reader).read_exact(&mut vec![0; total]).unwrap());
    while line.direction.delivered() < total as u64 {
        let before = line.direction.delivered();
        line.advance().unwrap();
        assert!(line.direction.delivered() - before <= 3 << 20, "a turn moved more than its limit");
    }
    writing.join().unwrap();
    reading.join().unwrap();
}

#[test]
fn a_destination_that_fails_leaves_the_bytes_for_another() {
    let mut line = Line::new();
    line.writer.write_all(b"request").unwrap();
    let (lost, _) = UnixStream::pair().unwrap();
    drop(std::mem::replace(&mut line.reader, lost));
    assert_eq!(line.advance(), Err(Broken::Destination(Errno::PIPE)));
    assert_eq!(line.direction.delivered(), 0);
    let (destination, mut reader) = UnixStream::pair().unwrap();
    line.destination = destination;
    line.direction.destination_replaced();
    line.advance().unwrap();
    let mut bytes = [0; 7];
    reader.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"request");
}

#[test]
fn four_dials_take_three_and_three_quarters_of_a_second_at_most() {
    let endpoint: SocketAddr = "192.0.2.1:80".parse().unwrap();
    let mut dial = Dial::default();
    assert_eq!(dial.attempt(), Attempt::First);
    let mut timeouts = Vec::new();
    while let Some(timeout) = dial.next_timeout() {
        timeouts.push(timeout);
        dial.begun(endpoint);
        assert_eq!(dial.attempt(), Attempt::Again);
    }
    assert_eq!(timeouts, [250, 500, 1000, 2000].map(Duration::from_millis));
    assert_eq!(dial.tried(), [endpoint; 4]);
}

/// One batch of events may be about a socket that has been replaced while the batch was worked off.
#[test]
fn an_event_about_an_earlier_dial_does_not_end_the_next_one() {
    let endpoint = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let line = Line::new();
    line.portal.pool.set_endpoints(vec![endpoint.local_addr().unwrap()]);
    let mut side = TcpSide::new(Arc::clone(&line.portal.relay)).unwrap();
    let mut context = Context::for_test(Arc::clone(&line.portal.relay));
    let (client, _other) = UnixStream::pair().unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], 9));
    side.accepted(Arc::clone(&line.portal), client.into(), Some(address.into()), &mut context);
    let failed = Readiness { readable: true, writable: true, hangup: true, failed: true };
    let failures = || line.portal.relay.counters.relay_stats().dial_failures;
    side.endpoint_ready((0, 0), failed, &mut context);
    assert_eq!(failures(), 0);
    side.endpoint_ready((0, 1), failed, &mut context);
    assert_eq!(failures(), 1);
}
