//! Limits, floods and peers that do not read.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferrule_relay::{Limited, Note, Pool, PoolLimits, Relay, RelayOptions};

use crate::servers::*;

/// A relay that keeps its notes.
fn noting() -> (RelayOptions, Arc<Mutex<Vec<Note>>>) {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&notes);
    let options =
        RelayOptions { notes: Some(Arc::new(move |note| sink.lock().unwrap().push(note))), ..options() };
    (options, notes)
}

fn echo_once(client: &mut TcpStream) {
    client.write_all(b"hello").unwrap();
    client.read_exact(&mut [0; 5]).unwrap();
}

#[test]
fn clients_beyond_the_limit_are_reset_and_counted_and_there_is_room_afterwards() {
    let pool = Pool::new(PoolLimits { max_connections: 3, ..PoolLimits::default() });
    pool.set_endpoints(vec![echo_server()]);
    let (options, notes) = noting();
    let world = World::tcp_with(options, Arc::clone(&pool));
    let mut clients: Vec<TcpStream> = (0..3).map(|_| world.connect()).collect();
    for client in &mut clients {
        echo_once(client);
    }
    for _ in 0..5 {
        let error = world.connect().read(&mut [0]).unwrap_err();
        assert!(is_reset(&error), "{error}");
    }
    assert_eq!(pool.stats().refused_by_limit, 5);
    assert_eq!(world.portal.stats().refused_by_limit, 5);
    assert_eq!(
        *notes.lock().unwrap(),
        [Note::LimitReached { portal: world.address(), what: Limited::Connections, limit: 3 }]
    );
    clients.pop();
    wait_until("a place is free", || pool.stats().open_connections == 2);
    echo_once(&mut world.connect());
}

#[test]
fn a_relay_at_rest_sleeps() {
    let world = World::tcp(&[echo_server()]);
    let mut clients: Vec<TcpStream> = (0..50).map(|_| world.connect()).collect();
    for client in &mut clients {
        echo_once(client);
    }
    // A client that does not read, an endpoint that cannot write any more.
    let mut greedy = world.connect();
    greedy.set_nonblocking(true).unwrap();
    let bytes = vec![1; 65_536];
    let mut sent = 0;
    loop {
        match greedy.write(&bytes) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let before = world.relay.stats();
                std::thread::park_timeout(Duration::from_millis(200));
                if world.relay.stats().bytes_in == before.bytes_in {
                    break;
                }
            }
            Err(error) => panic!("{error}"),
        }
        assert!(sent < 256 << 20, "a reader that does not read must stop its sender");
    }
    // Dials that were made before leave timers, which fire once.
    std::thread::park_timeout(Duration::from_millis(300));
    let before = world.relay.stats().wakeups;
    std::thread::park_timeout(Duration::from_secs(1));
    let wakeups = world.relay.stats().wakeups - before;
    assert!(wakeups <= 5, "{wakeups} wake-ups in a second at rest");
}

#[test]
fn slow_readers_do_not_hold_others_up() {
    let source = serve(|mut stream| {
        let bytes = vec![1; 1 << 16];
        loop {
            stream.write_all(&bytes)?;
        }
    });
    let world = World::tcp(&[source]);
    let slow: Vec<TcpStream> = (0..100).map(|_| world.connect()).collect();
    wait_until("all are dialled", || world.portal.stats().accepted == 100);
    let mut quick = world.connect();
    let mut bytes = vec![0; 1 << 20];
    for _ in 0..32 {
        quick.read_exact(&mut bytes).unwrap();
    }
    drop((slow, quick));
    wait_until("all have ended", || world.relay.stats().open_connections == 0);
}

/// Slow readers hold no more than the limit of their pool; who reads is served meanwhile, and the limit is reported once.
#[test]
fn slow_readers_hold_no_more_bytes_than_the_limit() {
    const LIMIT_OF_POOL: usize = 256 << 10;
    let source = serve(|mut stream| {
        let bytes = vec![1; 1 << 16];
        loop {
            stream.write_all(&bytes)?;
        }
    });
    let pool = Pool::new(PoolLimits { max_held_bytes: LIMIT_OF_POOL, ..PoolLimits::default() });
    pool.set_endpoints(vec![source]);
    let (options, notes) = noting();
    let world = World::tcp_with(options, Arc::clone(&pool));
    let slow: Vec<TcpStream> = (0..100).map(|_| world.connect()).collect();
    wait_until("the limit is reached", || world.relay.stats().unbuffered_reads > 0);
    wait_until("all of them are full", || {
        let before = world.relay.stats().bytes_out;
        std::thread::park_timeout(Duration::from_millis(100));
        world.relay.stats().bytes_out == before
    });
    // Each of two workers may have been in a read of a megabyte when the limit was reached.
    let held = pool.stats().held_bytes;
    assert!(held <= LIMIT_OF_POOL + (2 << 20), "{held} bytes are held");
    let mut quick = world.connect();
    let mut bytes = vec![0; 1 << 20];
    for _ in 0..16 {
        quick.read_exact(&mut bytes).unwrap();
    }
    assert!(bytes.iter().all(|byte| *byte == 1));
    let limit =
        Note::LimitReached { portal: world.address(), what: Limited::HeldBytes, limit: LIMIT_OF_POOL };
    assert_eq!(*notes.lock().unwrap(), [limit]);
    drop((slow, quick));
    wait_until("all have ended", || world.relay.stats().open_connections == 0);
    assert_eq!((pool.stats().held_bytes, world.relay.stats().held_bytes), (0, 0));
}

#[test]
fn a_flood_of_connections_that_say_nothing_leaves_nothing_behind() {
    let world = World::tcp(&[echo_server()]);
    for round in 1..=20 {
        let flood: Vec<TcpStream> = (0..100).map(|_| world.connect()).collect();
        wait_until("all are accepted", || world.portal.stats().accepted == round * 101 - 1);
        for client in &flood {
            rustix::net::sockopt::set_socket_linger(client, Some(Duration::ZERO)).unwrap();
        }
        drop(flood);
        echo_once(&mut world.connect());
    }
    wait_until("all have ended", || world.relay.stats().open_connections == 0);
    assert_eq!(world.pool.stats().open_connections, 0);
}

#[test]
fn a_flood_of_datagrams_keeps_to_the_limit() {
    let pool = Pool::new(PoolLimits { max_associations: 10, ..PoolLimits::default() });
    pool.set_endpoints(vec![udp_echo_server()]);
    let world = World::udp_with(RelayOptions { udp_idle_timeout: LIMIT, ..options() }, Arc::clone(&pool));
    let clients: Vec<UdpSocket> = (0..300).map(|_| world.client()).collect();
    let large = vec![0; 60_000];
    for (before, client) in clients.iter().enumerate() {
        client.send(&large).unwrap();
        client.send(&[]).unwrap();
        // One after the other: a queue that is full would drop datagrams before the relay sees them.
        wait_until("the client has an association", || world.relay.stats().associated > before as u64);
        assert!(pool.stats().open_associations <= 10);
    }
    assert_eq!(pool.stats().open_associations, 10);
    assert!(pool.stats().refused_by_limit >= 290);
}

/// Addresses of senders can be forged, so there is no end to the clients of one socket.
#[test]
fn a_flood_of_one_socket_leaves_places_to_the_clients_of_another() {
    let options = RelayOptions {
        threads: Some(1),
        max_associations: 40,
        udp_idle_timeout: Duration::from_mins(10),
        ..options()
    };
    let relay = Relay::start(options).unwrap();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let serve = |endpoint| {
        let pool = Pool::new(PoolLimits::default());
        pool.set_endpoints(vec![endpoint]);
        relay.serve_udp(UdpSocket::bind("127.0.0.1:0").unwrap(), pool).unwrap()
    };
    let (flooded, quiet) = (serve(silent.local_addr().unwrap()), serve(udp_echo_server()));
    let flood = |clients: u64| {
        let before = flooded.stats().associated;
        let socket = |_| UdpSocket::bind("127.0.0.1:0").unwrap();
        let sockets: Vec<UdpSocket> = (0..clients).map(socket).collect();
        for socket in &sockets {
            socket.send_to(b"hello", flooded.local_addr()).unwrap();
        }
        wait_until("all had a place", || flooded.stats().associated == before + clients);
    };
    flood(100);
    let clients: Vec<UdpSocket> = (0..18)
        .map(|_| {
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            client.send_to(b"hello", quiet.local_addr()).unwrap();
            client.recv(&mut [0; 8]).expect("a client of the other socket is served");
            client
        })
        .collect();
    flood(100);
    assert_eq!(quiet.stats().open_associations, clients.len() as u64, "none of them has given way");
}
