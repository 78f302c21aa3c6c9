//! TCP connections between peers that behave.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrule_relay::{Admission, Relay};

use crate::servers::*;

/// Row: userspace R1
#[test]
fn a_request_is_echoed() {
    let world = World::tcp(&[echo_server()]);
    let mut client = world.connect();
    client.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = [0; 18];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"GET / HTTP/1.0\r\n\r\n");
    drop(client);
    wait_until("the connection ends", || world.relay.stats().open_connections == 0);
    let stats = world.portal.stats();
    assert_eq!((stats.accepted, stats.bytes_in, stats.bytes_out), (1, 18, 18));
}

#[test]
fn both_families_are_relayed_to_either_family() {
    let (four, six) = (echo_server(), TcpListener::bind("[::1]:0").unwrap());
    let pool = pool_of(&[four]);
    let relay = Relay::start(options()).unwrap();
    let portal = relay.serve_tcp(six, pool).unwrap();
    let mut client = connect(portal.local_addr());
    client.write_all(b"hello").unwrap();
    let mut answer = [0; 5];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"hello");
}

/// Row: userspace R44
#[test]
fn a_client_that_has_sent_everything_still_gets_the_whole_answer() {
    let answer_at_end = serve(|mut stream| {
        let mut request = Vec::new();
        stream.read_to_end(&mut request)?;
        // Longer than any buffer on the path.
        stream.write_all(&request.repeat(4 << 10))
    });
    let world = World::tcp(&[answer_at_end]);
    let mut client = world.connect();
    let request = vec![b'x'; 1 << 10];
    client.write_all(&request).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert_eq!(answer.len(), 4 << 20);
    wait_until("the connection ends", || world.relay.stats().open_connections == 0);
}

#[test]
fn an_endpoint_that_has_answered_still_gets_the_whole_request() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let answers_first = serve(move |mut stream| {
        stream.write_all(b"go on")?;
        stream.shutdown(Shutdown::Write)?;
        let mut request = Vec::new();
        stream.read_to_end(&mut request)?;
        sender.lock().unwrap().send(request.len()).unwrap();
        Ok(())
    });
    let world = World::tcp(&[answers_first]);
    let mut client = world.connect();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"go on");
    client.write_all(&vec![0; 3 << 20]).unwrap();
    drop(client);
    assert_eq!(receiver.recv_timeout(LIMIT).unwrap(), 3 << 20);
}

#[test]
fn bytes_are_the_same_on_both_sides_whatever_their_number() {
    let world = World::tcp(&[echo_server()]);
    for length in [1, 1 << 10, (16 << 10) - 1, 16 << 10, (16 << 10) + 1, 100_000, 5_000_000] {
        let sent: Vec<u8> = (0..length).map(|at: usize| (at * 31 % 251) as u8).collect();
        let mut client = world.connect();
        let mut writer = client.try_clone().unwrap();
        let copy = sent.clone();
        let writing = std::thread::spawn(move || {
            writer.write_all(&copy).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut received = Vec::new();
        client.read_to_end(&mut received).unwrap();
        writing.join().unwrap();
        assert!(received == sent, "{length} bytes came back as {}", received.len());
    }
}

#[test]
fn a_reset_of_either_peer_reaches_the_other() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let reports_its_end = serve(move |mut stream| {
        stream.write_all(b"ready")?;
        let mut byte = [0];
        let end = stream.read(&mut byte).map_err(|error| error.kind());
        sender.lock().unwrap().send(end).unwrap();
        Ok(())
    });
    let world = World::tcp(&[reports_its_end]);
    let mut client = world.connect();
    client.read_exact(&mut [0; 5]).unwrap();
    rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop(client);
    assert_eq!(receiver.recv_timeout(LIMIT).unwrap(), Err(ErrorKind::ConnectionReset));

    let resets = serve(|mut stream| {
        stream.read_exact(&mut [0; 2])?;
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
        Ok(())
    });
    let world = World::tcp(&[resets]);
    let mut client = world.connect();
    client.write_all(b"hi").unwrap();
    let error = client.read(&mut [0]).unwrap_err();
    assert!(is_reset(&error), "{error}");
}

/// Row: userspace R43
#[test]
fn open_connections_outlive_their_portal_and_new_ones_are_refused() {
    let world = World::tcp(&[echo_server()]);
    let mut client = world.connect();
    client.write_all(b"one").unwrap();
    client.read_exact(&mut [0; 3]).unwrap();
    let address = world.address();
    drop(world.portal);
    let refused = TcpStream::connect(address).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    client.write_all(b"two").unwrap();
    let mut answer = [0; 3];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"two");
}

/// Row: userspace R26
#[test]
fn connections_go_round_all_endpoints() {
    let endpoints = [naming_server(), naming_server(), naming_server()];
    let world = World::tcp(&endpoints);
    let order: Vec<u16> = (0..6).map(|_| named_by(world.address()).unwrap()).collect();
    let expected: BTreeSet<u16> = endpoints.iter().map(SocketAddr::port).collect();
    assert_eq!(order[..3].iter().copied().collect::<BTreeSet<u16>>(), expected);
    assert_eq!(order[..3], order[3..]);
}

#[test]
fn a_client_that_is_not_admitted_is_reset() {
    let world = World::tcp(&[naming_server()]);
    world.pool.set_admitted(Admission::Ranges(vec!["127.0.0.9/32".parse().unwrap()]));
    let error = named_by(world.address()).unwrap_err();
    assert!(is_reset(&error), "{error}");
    assert_eq!(world.portal.stats().not_admitted, 1);
    world.pool.set_admitted(Admission::Ranges(vec!["127.0.0.0/8".parse().unwrap()]));
    named_by(world.address()).unwrap();
}

#[test]
fn a_half_open_connection_that_is_idle_for_too_long_ends() {
    let never_ends = serve(|mut stream| {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        loop {
            std::thread::park();
        }
    });
    let half_open_timeout = Duration::from_millis(100);
    let world = World::tcp_with(
        ferrule_relay::RelayOptions { half_open_timeout, ..options() },
        pool_of(&[never_ends]),
    );
    let mut client = world.connect();
    client.shutdown(Shutdown::Write).unwrap();
    let error = client.read(&mut [0]).unwrap_err();
    assert!(is_reset(&error), "{error}");
}

#[test]
fn draining_stops_accepting_and_waits_for_the_rest() {
    let world = World::tcp(&[echo_server()]);
    let mut client = world.connect();
    client.write_all(b"one").unwrap();
    client.read_exact(&mut [0; 3]).unwrap();
    let taken_over = TcpListener::from(world.portal.as_fd().try_clone_to_owned().unwrap());
    taken_over.set_nonblocking(true).unwrap();
    let begin = Instant::now();
    world.relay.drain(Duration::from_millis(50));
    assert!(begin.elapsed() >= Duration::from_millis(50), "there is a connection left");
    assert_eq!(world.relay.stats().open_connections, 1);
    // New clients wait for the process that takes the socket over.
    let _waiting = connect(world.address());
    wait_until("the new process can accept", || taken_over.accept().is_ok());
    client.write_all(b"two").unwrap();
    client.read_exact(&mut [0; 3]).unwrap();
    let relay = Arc::new(world.relay);
    let draining = std::thread::spawn({
        let relay = Arc::clone(&relay);
        move || relay.drain(LIMIT)
    });
    drop(client);
    draining.join().unwrap();
    assert_eq!(relay.stats().open_connections, 0);
}

#[test]
fn a_relay_that_is_dropped_ends_its_connections() {
    let World { portal, pool: _pool, relay } = World::tcp(&[echo_server()]);
    let mut client = connect(portal.local_addr());
    client.write_all(b"one").unwrap();
    client.read_exact(&mut [0; 3]).unwrap();
    drop(relay);
    assert_eq!(client.read(&mut [0]).unwrap_or(0), 0);
    drop(portal);
}
