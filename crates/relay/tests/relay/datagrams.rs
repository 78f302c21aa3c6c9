//! UDP: associations, their ends, and datagrams of every size.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrule_relay::{Admission, Pool, PoolLimits, Relay, RelayOptions};

use crate::servers::*;

fn ask(client: &UdpSocket, payload: &[u8]) -> Vec<u8> {
    client.send(payload).unwrap();
    let mut buffer = vec![0; 1 << 16];
    let length = client.recv(&mut buffer).unwrap();
    buffer.truncate(length);
    buffer
}

/// Row: userspace R2, R3
#[test]
fn a_datagram_is_echoed_and_its_association_expires() {
    let world = World::udp(&[udp_echo_server()]);
    let client = world.client();
    let begin = Instant::now();
    // A connected socket takes nothing from other addresses.
    assert_eq!(ask(&client, b"hello"), b"hello");
    let stats = world.relay.stats();
    assert!(stats.open_associations == 1 || begin.elapsed() > Duration::from_millis(200), "{stats:?}");
    wait_until("the association expires", || world.relay.stats().open_associations == 0);
    assert!(begin.elapsed() >= Duration::from_millis(250), "{:?}", begin.elapsed());
    assert_eq!((world.portal.stats().bytes_in, world.portal.stats().bytes_out), (5, 5));
}

/// Row: userspace R45
#[test]
fn datagrams_of_any_size_are_passed_on_whole() {
    let world = World::udp(&[udp_echo_server()]);
    let client = world.client();
    for length in [0, 1, 1_472, 4_096, 6_000, 65_507] {
        let payload: Vec<u8> = (0..length).map(|at: usize| (at % 251) as u8).collect();
        assert!(ask(&client, &payload) == payload, "{length} bytes");
    }
}

/// Row: userspace R46
#[test]
fn a_closed_endpoint_ends_the_association_and_the_next_datagram_goes_elsewhere() {
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let options = RelayOptions { udp_idle_timeout: LIMIT, ..options() };
    let world = World::udp_with(options, pool_of(&[closed]));
    let client = world.client();
    client.send(b"lost").unwrap();
    wait_until("the ICMP error ends the association", || {
        let stats = world.relay.stats();
        stats.associated == 1 && stats.open_associations == 0
    });
    world.pool.set_endpoints(vec![udp_echo_server()]);
    assert_eq!(ask(&client, b"found"), b"found");
}

/// Row: userspace R47
#[test]
fn clients_of_one_host_have_associations_of_their_own_and_share_an_endpoint_with_affinity() {
    let world = World::udp(&[udp_naming_server(), udp_naming_server()]);
    let (one, other) = (world.client(), world.client());
    assert_ne!(ask(&one, b"?"), ask(&other, b"?"));
    assert_eq!(world.relay.stats().associated, 2);

    let world = World::udp(&[udp_naming_server(), udp_naming_server()]);
    world.pool.set_affinity(Some(Duration::from_secs(60)));
    let (one, other) = (world.client(), world.client());
    assert_eq!(ask(&one, b"?"), ask(&other, b"?"));
    assert_eq!(world.relay.stats().associated, 2);
}

#[test]
fn without_endpoints_datagrams_are_dropped() {
    let world = World::udp(&[]);
    world.client().send(b"lost").unwrap();
    wait_until("the datagram is dropped", || world.portal.stats().dropped_datagrams == 1);
    assert_eq!(world.relay.stats().associated, 0);
}

#[test]
fn associations_to_vanished_endpoints_end_at_once() {
    let (first, second) = (udp_naming_server(), udp_naming_server());
    let options = RelayOptions { udp_idle_timeout: LIMIT, ..options() };
    let world = World::udp_with(options, pool_of(&[first]));
    let client = world.client();
    assert_eq!(ask(&client, b"?"), first.port().to_string().as_bytes());
    world.pool.set_endpoints(vec![second]);
    wait_until("the association ends", || world.relay.stats().open_associations == 0);
    assert_eq!(ask(&client, b"?"), second.port().to_string().as_bytes());
    world.portal.end_associations_to(&[second]);
    wait_until("the association ends", || world.relay.stats().open_associations == 0);
}

#[test]
fn replies_come_from_the_address_that_the_client_used() {
    let relay = Relay::start(options()).unwrap();
    let endpoint = udp_echo_server();
    for (wildcard, addresses) in [("0.0.0.0:0", ["127.0.0.5", "127.0.0.6"]), ("[::]:0", ["127.0.0.7", "::1"])]
    {
        let portal = relay.serve_udp(UdpSocket::bind(wildcard).unwrap(), pool_of(&[endpoint])).unwrap();
        for address in addresses {
            let address = SocketAddr::new(address.parse().unwrap(), portal.local_addr().port());
            let client = UdpSocket::bind(if address.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" }).unwrap();
            client.set_read_timeout(Some(LIMIT)).unwrap();
            client.send_to(b"who", address).unwrap();
            let (_, from) = client.recv_from(&mut [0; 8]).unwrap();
            assert_eq!(from, address);
        }
    }
}

#[test]
fn the_association_that_was_idle_longest_gives_way() {
    let pool = Pool::new(PoolLimits { max_associations: 2, ..PoolLimits::default() });
    pool.set_endpoints(vec![udp_echo_server()]);
    let world = World::udp_with(RelayOptions { udp_idle_timeout: LIMIT, ..options() }, Arc::clone(&pool));
    let clients = [world.client(), world.client(), world.client()];
    ask(&clients[0], b"a");
    ask(&clients[1], b"b");
    ask(&clients[0], b"a");
    ask(&clients[2], b"c");
    assert_eq!(pool.stats().open_associations, 2);
    assert_eq!(pool.stats().refused_by_limit, 1);
    // The first is still there, the second had to go.
    ask(&clients[0], b"a");
    assert_eq!(world.relay.stats().associated, 3);
    ask(&clients[1], b"b");
    assert_eq!(world.relay.stats().associated, 4);
}

#[test]
fn a_shorter_timeout_applies_to_open_associations() {
    let world =
        World::udp_with(RelayOptions { udp_idle_timeout: LIMIT, ..options() }, pool_of(&[udp_echo_server()]));
    ask(&world.client(), b"a");
    world.relay.set_udp_idle_timeout(Duration::from_millis(1));
    wait_until("the association expires", || world.relay.stats().open_associations == 0);
}

#[test]
fn a_portal_that_is_dropped_ends_its_associations() {
    let world =
        World::udp_with(RelayOptions { udp_idle_timeout: LIMIT, ..options() }, pool_of(&[udp_echo_server()]));
    let client = world.client();
    ask(&client, b"a");
    drop(world.portal);
    assert_eq!(world.relay.stats().open_associations, 0);
    client.send(b"b").unwrap();
    let error = client.recv(&mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn datagrams_of_clients_that_are_not_admitted_are_dropped() {
    let world = World::udp(&[udp_echo_server()]);
    world.pool.set_admitted(Admission::Ranges(Vec::new()));
    world.client().send(b"lost").unwrap();
    wait_until("the datagram is counted", || world.portal.stats().not_admitted == 1);
    assert_eq!(world.relay.stats().associated, 0);
}

#[test]
fn bursts_of_many_clients_are_answered_completely() {
    let world =
        World::udp_with(RelayOptions { udp_idle_timeout: LIMIT, ..options() }, pool_of(&[udp_echo_server()]));
    let clients: Vec<UdpSocket> = (0..50).map(|_| world.client()).collect();
    for round in 0..20_u8 {
        for client in &clients {
            client.send(&[round]).unwrap();
            client.send(&[round, round]).unwrap();
        }
        for client in &clients {
            let mut buffer = [0; 8];
            assert_eq!(client.recv(&mut buffer).unwrap(), 1);
            assert_eq!(client.recv(&mut buffer).unwrap(), 2);
        }
    }
}
