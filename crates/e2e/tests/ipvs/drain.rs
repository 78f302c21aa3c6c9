//! Endpoints that leave while they have connections.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use ferrule_kernel::conntrack::TCP;
use ferrule_kernel::ipvs::{Ipvs, SeenRealServer, VirtualServerId};
use ferrule_kernel::port::VirtualServers as _;
use ferrule_testkit::Program;
use rustix::net::sockopt;

use crate::beside_others;
use crate::node::{Node, PATIENCE, PAUSE, PODS};

#[test]
fn a_connection_outlives_its_endpoint_and_a_restart_of_the_proxy() {
    let Some(_turn) = beside_others() else { return };
    let node = Node::new("leaves");
    let (ferrule, _) = node.run_ferrule(&[]);
    node.wait_until_served(&ferrule);
    let mut open = node.connect_to_echo();
    say("hello", &mut open);
    let leaving = server_of(&node);
    node.set_endpoints(&others_than(leaving));
    wait_until(&node, &ferrule, |server| server.is_some_and(|server| server.server.weight == 0), leaving);
    say("still there", &mut open);

    for _ in 0..4 {
        say("elsewhere", &mut node.connect_to_echo());
    }
    assert_eq!(connections(&node, leaving), 1, "new connections go elsewhere");

    ferrule.kill().expect("it is killed");
    let (ferrule, said) = node.run_ferrule(&[]);
    assert!(said.contains("written=0"), "{said}");
    assert_eq!(real_server(&node, leaving).map(|server| server.server.weight), Some(0));
    say("after a restart", &mut open);

    // The kernel forgets a connection that was reset after ten seconds, and one that was closed after two minutes.
    sockopt::set_socket_linger(&open, Some(Duration::ZERO)).expect("an option");
    drop(open);
    let closed = Instant::now();
    wait_until(&node, &ferrule, |server| server.is_none(), leaving);
    println!("the server of a connection that ended went after {:?}", closed.elapsed());
}

#[test]
fn an_endpoint_that_left_goes_after_the_limit_whatever_its_connections() {
    let Some(_turn) = beside_others() else { return };
    let limit = Duration::from_secs(5);
    let node = Node::new("limited");
    let (ferrule, _) = node.run_ferrule(&["--ipvs-drain-limit=5s"]);
    node.wait_until_served(&ferrule);
    let mut open = node.connect_to_echo();
    say("hello", &mut open);
    let leaving = server_of(&node);
    let left = Instant::now();
    node.set_endpoints(&others_than(leaving));
    wait_until(&node, &ferrule, |server| server.is_some_and(|server| server.server.weight == 0), leaving);
    say("still there", &mut open);
    wait_until(&node, &ferrule, |server| server.is_none(), leaving);
    println!("the server of an open connection went after {:?}, with a limit of {limit:?}", left.elapsed());
    assert!(left.elapsed() >= limit);
    assert!(left.elapsed() < Duration::from_secs(40), "the count of once a minute is not waited for");
}

/// Says something, which comes back.
fn say(text: &str, stream: &mut TcpStream) {
    let mut answer = vec![0; text.len()];
    stream.write_all(text.as_bytes()).expect("it is heard");
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer, text.as_bytes());
}

/// The real server that has the one connection there is.
fn server_of(node: &Node) -> SocketAddr {
    let with_connections = real_servers(node).into_iter().find(|server| server.active == 1);
    with_connections.expect("a server with a connection").server.address
}

fn others_than(leaving: SocketAddr) -> Vec<&'static str> {
    PODS.into_iter().filter(|pod| *pod != leaving.ip().to_string()).collect()
}

fn connections(node: &Node, server: SocketAddr) -> u32 {
    real_server(node, server).map_or(0, |server| server.active + server.inactive)
}

fn real_server(node: &Node, server: SocketAddr) -> Option<SeenRealServer> {
    real_servers(node).into_iter().find(|seen| seen.server.address == server)
}

fn real_servers(node: &Node) -> Vec<SeenRealServer> {
    let echo = node.echo();
    let id = VirtualServerId { address: echo.ip(), protocol: TCP, port: echo.port() };
    let read = move || Ipvs::open_loaded()?.map(|mut ipvs| ipvs.real_servers(&id)).transpose();
    node.run(read).expect("the kernel's answer").unwrap_or_default()
}

fn wait_until(
    node: &Node,
    ferrule: &Program,
    is_reached: impl Fn(Option<&SeenRealServer>) -> bool,
    server: SocketAddr,
) {
    let give_up = Instant::now() + PATIENCE;
    loop {
        let seen = real_server(node, server);
        if is_reached(seen.as_ref()) {
            return;
        }
        assert!(Instant::now() < give_up, "{seen:?}\n{}", ferrule.log().join("\n"));
        std::thread::park_timeout(PAUSE);
    }
}
