//! Connections are counted as clients make them: over endpoints that leave and a restart.

use std::io::Read as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::beside_others;
use crate::node::{Node, PATIENCE, PAUSE, PODS, ip};

const WAIT: Duration = Duration::from_secs(10);
const FLAGS: [&str; 1] = ["--service-counters=all"];

/// A pod connects so many times, and is answered.
fn connect(node: &Node, times: usize) {
    let to = node.service();
    let asked = node.in_asking_pod(move || {
        (0..times).all(|_| {
            let mut answer = String::new();
            let stream = TcpStream::connect_timeout(&to, WAIT);
            stream.is_ok_and(|mut stream| stream.read_to_string(&mut answer).is_ok())
        })
    });
    assert!(asked.join().expect("a client"), "{times} connections");
}

/// The counters of the Service that is connected to.
fn counted(node: &Node, name: &str) -> Option<Value> {
    let text = node.page(&format!("/ferrule/v1/counters?namespace=default&service={name}"))?;
    let answer: Value = serde_json::from_str(&text).ok()?;
    let services = answer["services"].as_array()?;
    services.iter().find(|service| service["service"] == format!("default/{name}:http")).cloned()
}

/// Connections, and the sum over the endpoints.
fn numbers(service: &Value) -> (u64, u64) {
    let of = |value: &Value| value["connections"].as_u64().unwrap_or_default();
    let endpoints = service["endpoints"].as_array().into_iter().flatten();
    (of(service), endpoints.map(of).sum())
}

fn wait_for_connections(node: &Node, name: &str, wanted: u64) -> Value {
    let give_up = Instant::now() + PATIENCE;
    loop {
        let service = counted(node, name);
        let connections = service.as_ref().map(|service| numbers(service).0);
        if let Some(service) = service.as_ref().filter(|_| connections == Some(wanted)) {
            return service.clone();
        }
        assert!(Instant::now() < give_up, "{wanted} connections: {service:?}");
        std::thread::park_timeout(PAUSE);
    }
}

#[test]
fn counters_are_what_clients_did_also_when_an_endpoint_leaves_and_over_a_restart() {
    let Some(_turn) = beside_others() else { return };
    let name = "counted";
    let node = Node::new(name);
    let (ferrule, _) = node.run_ferrule(&FLAGS);
    node.wait_until_served(&ferrule);
    // Those that waited until it is served count as well; an answer is at most a second old.
    let give_up = Instant::now() + PATIENCE;
    let mut before = None;
    let base = loop {
        let now = counted(&node, name).map(|service| numbers(&service));
        if let Some((connections, _)) = now.filter(|_| now == before) {
            break connections;
        }
        before = now;
        assert!(Instant::now() < give_up, "no counters: {now:?}\n{}", ferrule.log().join("\n"));
        std::thread::park_timeout(Duration::from_secs(2));
    };
    connect(&node, 8);
    let service = wait_for_connections(&node, name, base + 8);
    assert_eq!(numbers(&service).1, base + 8, "{service}");
    assert!(service["packets"].as_u64() > Some(8) && service["bytes"].as_u64() > Some(8), "{service}");

    node.set_endpoints(&PODS[..1]);
    while node.in_use().iter().any(|server| server.ip() == ip(PODS[1])) {
        assert!(Instant::now() < give_up, "{} is still in use", PODS[1]);
        std::thread::park_timeout(PAUSE);
    }
    connect(&node, 4);
    let service = wait_for_connections(&node, name, base + 12);
    assert_eq!(numbers(&service).1, base + 12, "{service}");

    ferrule.terminate().expect("it ends");
    connect(&node, 2);
    let (ferrule, _) = node.run_ferrule(&FLAGS);
    connect(&node, 3);
    wait_for_connections(&node, name, base + 17);
    drop(ferrule);
}
