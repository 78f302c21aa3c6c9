//! Limits, floods and peers that do not read.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferrule_relay::{Note, Pool, PoolLimits, RelayOptions};

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
    assert_eq!(*notes.lock().unwrap(), [Note::LimitReached { portal: world.address(), limit: 3 }]);
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
