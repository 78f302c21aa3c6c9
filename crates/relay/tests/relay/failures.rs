//! Endpoints that refuse, reset, stay silent or take their time.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use ferrule_relay::Attempt;

use crate::servers::*;

/// Row: userspace R24
#[test]
fn without_endpoints_a_client_is_accepted_and_then_reset() {
    let world = World::tcp(&[]);
    let mut client = world.connect();
    let error = client.read(&mut [0]).unwrap_err();
    assert!(is_reset(&error), "{error}");
    wait_until("the client is counted", || world.portal.stats().unserved == 1);
    assert_eq!(world.portal.stats().dial_failures, 0);
}

/// Row: userspace R38
/// Row: model L5
#[test]
fn four_refusals_end_the_client_quickly() {
    let world = World::tcp(&[refusing()]);
    let begin = Instant::now();
    let error = world.connect().read(&mut [0]).unwrap_err();
    assert!(is_reset(&error), "{error}");
    assert!(begin.elapsed() < Duration::from_millis(250), "no dial is waited for: {:?}", begin.elapsed());
    let stats = world.portal.stats();
    assert_eq!((stats.dial_failures, stats.unserved), (4, 1));
}

/// Row: userspace R37
#[test]
fn a_silent_endpoint_costs_a_quarter_of_a_second() {
    let good = naming_server();
    let world = World::tcp(&[silent()]);
    // Alone in the pool, so the first dial goes to it; then the other one comes in.
    let begin = Instant::now();
    let client = world.connect();
    wait_until("the client is accepted", || world.portal.stats().accepted == 1);
    world.pool.set_endpoints(vec![good]);
    let mut name = String::new();
    (&client).read_to_string(&mut name).unwrap();
    assert_eq!(name, good.port().to_string());
    assert!(begin.elapsed() >= Duration::from_millis(250), "{:?}", begin.elapsed());
    assert_eq!(world.portal.stats().dial_failures, 1);
}

/// Row: userspace R39
#[test]
fn silent_endpoints_only_end_the_client_after_the_whole_schedule() {
    let world = World::tcp(&[silent(), silent()]);
    let begin = Instant::now();
    let error = world.connect().read(&mut [0]).unwrap_err();
    assert!(is_reset(&error), "{error}");
    assert!(begin.elapsed() >= Duration::from_millis(3750), "{:?}", begin.elapsed());
    assert_eq!(world.portal.stats().dial_failures, 4);
}

/// Row: userspace R50
#[test]
fn clients_are_not_delayed_by_the_dials_of_others() {
    let (bad, good) = (silent(), naming_server());
    let world = World::tcp(&[bad]);
    let waiting: Vec<TcpStream> = (0..20).map(|_| world.connect()).collect();
    wait_until("all are being dialled", || world.portal.stats().accepted == 20);
    world.pool.set_endpoints(vec![good]);
    let begin = Instant::now();
    assert_eq!(named_by(world.address()).unwrap(), good.port());
    assert!(begin.elapsed() < Duration::from_millis(250), "{:?}", begin.elapsed());
    for mut client in waiting {
        let mut name = String::new();
        client.read_to_string(&mut name).unwrap();
        assert_eq!(name, good.port().to_string());
    }
}

#[test]
fn one_dead_endpoint_of_three_fails_none_of_ten_thousand_connects() {
    let world = World::tcp(&[naming_server(), refusing(), naming_server()]);
    let address = world.address();
    let clients = (0..4).map(|_| {
        std::thread::spawn(move || (0..2_500).filter_map(|_| named_by(address).err()).collect::<Vec<_>>())
    });
    let clients: Vec<_> = clients.collect();
    let failed: Vec<_> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
    assert!(failed.is_empty(), "{} failed: {:?}", failed.len(), failed.first());
    let stats = world.portal.stats();
    assert_eq!((stats.accepted, stats.unserved), (10_000, 0));
    // It is tried three times, and now and then whether it is back.
    assert!((3..200).contains(&stats.dial_failures), "{} dials of the dead endpoint", stats.dial_failures);
}

/// The relay does not write before it knows of a reset that came in with the connection.
#[test]
fn an_endpoint_that_accepts_and_resets_is_replaced_before_the_first_byte() {
    let resets = serve(|stream| {
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
        Ok(())
    });
    let good = naming_server();
    let world = World::tcp(&[resets, good]);
    for _ in 0..200 {
        // The client says nothing, so nothing is lost with the endpoint.
        assert_eq!(named_by(world.address()).unwrap(), good.port());
    }
    assert_eq!(world.pool.stats().set_aside, 1);
}

/// Ends with a reset when its client has sent something, or has ended its half.
fn resetting_when_provoked() -> SocketAddr {
    serve(|mut stream| {
        // Whatever it is, or its end.
        let _ = stream.read(&mut [0; 3])?;
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
        Ok(())
    })
}

#[test]
fn a_client_that_makes_an_endpoint_reset_gets_the_reset_and_does_not_set_it_aside() {
    let world = World::tcp(&[resetting_when_provoked(), echo_server()]);
    let provoke_with_bytes = || {
        let mut client = world.connect();
        client.write_all(b"ask")?;
        client.read_exact(&mut [0; 3])
    };
    let failed = (0..40).filter(|_| provoke_with_bytes().is_err()).count();
    assert_eq!(failed, 20, "every other connection goes to the endpoint that resets");
    let provoke_with_end = || {
        let mut client = world.connect();
        client.shutdown(std::net::Shutdown::Write)?;
        client.read_to_end(&mut Vec::new())
    };
    let failed = (0..40).filter(|_| provoke_with_end().is_err()).count();
    assert_eq!(failed, 20, "every other connection goes to the endpoint that resets");
    assert_eq!((world.pool.stats().set_aside, world.relay.stats().set_aside), (0, 0));
}

/// A client that says nothing until the endpoint loses patience has done nothing wrong, and neither has the endpoint.
#[test]
fn an_endpoint_that_resets_idle_clients_is_not_set_aside() {
    let impatient = serve(|stream| {
        std::thread::park_timeout(Duration::from_millis(1200));
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
        Ok(())
    });
    let world = World::tcp(&[impatient, echo_server()]);
    let idle: Vec<TcpStream> = (0..12).map(|_| world.connect()).collect();
    wait_until("the idle ones were reset and went elsewhere", || world.relay.stats().dial_failures >= 6);
    assert_eq!((world.pool.stats().set_aside, world.relay.stats().set_aside), (0, 0));
    drop(idle);
}

#[test]
fn endpoints_that_are_all_set_aside_are_all_used() {
    let endpoints = [naming_server(), naming_server()];
    let world = World::tcp(&endpoints);
    for endpoint in endpoints {
        let set_aside = (0..3).filter(|_| world.pool.report_failure(endpoint)).count();
        assert_eq!(set_aside, 1, "by the third failure");
    }
    assert_eq!(world.pool.stats().set_aside, 2);
    let client = [127, 0, 0, 1].into();
    let picked: BTreeSet<SocketAddr> =
        (0..2).map(|_| world.pool.pick(client, Attempt::First).unwrap()).collect();
    assert_eq!(picked, endpoints.into());
    // One that serves is usable again, and preferred to one that has not yet.
    let served: BTreeSet<u16> = (0..4).map(|_| named_by(world.address()).unwrap()).collect();
    assert_eq!(served.len(), 1);
    wait_until("it is usable again", || world.pool.stats().set_aside == 1);
}

#[test]
fn the_last_endpoint_serves_however_often_it_failed() {
    let good = naming_server();
    let world = World::tcp(&[refusing(), good, refusing()]);
    for _ in 0..30 {
        world.pool.report_failure(good);
        assert_eq!(named_by(world.address()).unwrap(), good.port());
    }
    assert_eq!(world.portal.stats().unserved, 0);
}

#[test]
fn an_endpoint_that_answers_after_two_seconds_is_waited_for() {
    let slow = serve(|mut stream| {
        std::thread::park_timeout(Duration::from_secs(2));
        stream.write_all(b"late")
    });
    let world = World::tcp(&[slow]);
    let mut answer = String::new();
    world.connect().read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "late");
    assert_eq!(world.portal.stats().dial_failures, 0);
}

/// The request is held while another endpoint is dialled.
#[test]
fn a_request_sent_at_once_survives_refusing_endpoints() {
    let world = World::tcp(&[refusing(), refusing(), echo_server()]);
    for _ in 0..6 {
        let mut client = world.connect();
        client.write_all(b"request").unwrap();
        let mut answer = [0; 7];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"request");
    }
}
