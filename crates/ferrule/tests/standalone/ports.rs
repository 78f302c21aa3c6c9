//! Whoever reaches the ports of a node can keep neither its health from being seen nor its rules from being written.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ferrule::descriptors;
use ferrule_testkit::Program;
use ferrule_testkit::netns::or_skip;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::failures::page;
use crate::stand::{
    ASKING_POD, BINARY, NODE, PATIENCE, PODS, Stand, VIP, ip, is_answered_by, service, slice, until,
};

const HEALTH: (&str, u16) = (NODE, 10256);
const METRICS: (&str, u16) = ("127.0.0.1", 10249);
const CHECK: (&str, u16) = (NODE, 31001);
const CHECKED: &str = "  externalTrafficPolicy: Local\n  healthCheckNodePort: 31001\n";

/// Starts the program where it may have only so many descriptors.
fn start_with(stand: &Stand, descriptors: u32) -> Program {
    let folder = stand.folder().to_string_lossy().into_owned();
    let script = format!("ulimit -n {descriptors} && exec \"$0\" \"$@\"");
    let arguments = [
        "-c",
        &script,
        BINARY,
        "--manifests",
        &folder,
        "--hostname-override=node-a",
        "--cluster-cidr=10.244.0.0/16",
    ];
    Program::start(stand.net.node(), Path::new("/bin/sh"), &arguments).expect("the program starts")
}

fn serving(stand: &Stand, descriptors: u32) -> Program {
    stand.write("web.yaml", &format!("{}---\n{}", service(CHECKED), slice(&PODS[..1])));
    let program = start_with(stand, descriptors);
    until(|| is_well(stand, HEALTH, "/healthz").then_some(()));
    program
}

fn is_well(stand: &Stand, port: (&str, u16), path: &str) -> bool {
    page(stand, port, path).is_some_and(|answer| answer.starts_with("HTTP/1.0 200 "))
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(&address, Duration::from_secs(1))
}

fn at((address, port): (&str, u16)) -> SocketAddr {
    (ip(address), port).into()
}

/// Everything that must go on while somebody attacks the ports.
fn assert_unharmed(stand: &Stand, program: &Program) {
    for (round, pod) in PODS.iter().enumerate() {
        stand.write("web.yaml", &format!("{}---\n{}", service(CHECKED), slice(&[pod])));
        stand.ask_until(ASKING_POD, VIP, 80, |seen| is_answered_by(seen, &[pod]));
        for (port, path) in [(HEALTH, "/healthz"), (HEALTH, "/livez"), (METRICS, "/metrics"), (CHECK, "/")] {
            assert!(is_well(stand, port, path), "{round}: {port:?}{path}\n{}", program.log().join("\n"));
        }
    }
}

#[test]
fn idle_connections_to_every_port_stop_nothing_though_descriptors_are_few() {
    if !or_skip() {
        return;
    }
    // The attacker has to open them, too.
    descriptors::raise_limit();
    for limit in [1024, 256] {
        let stand = Stand::new();
        let program = serving(&stand, limit);
        let attack = stand.net.node().run(|| {
            let ports = [HEALTH, METRICS, CHECK].into_iter().cycle().take(3000);
            ports.filter_map(|port| connect(at(port)).ok()).collect::<Vec<_>>()
        });
        let attack = attack.expect("the node");
        assert!(attack.len() > 2000, "only {} connections", attack.len());
        assert_unharmed(&stand, &program);
        let open = std::fs::read_dir(format!("/proc/{}/fd", program.id())).expect("its descriptors").count();
        assert!(open < limit as usize - 20, "{open} of {limit} descriptors are in use");
        drop(attack);
    }
}

/// Somebody lowers the limit while it runs: less than is in use is left.
#[test]
fn descriptors_that_vanish_cost_idle_connections_and_nothing_else() {
    if !or_skip() {
        return;
    }
    descriptors::raise_limit();
    let stand = Stand::new();
    let program = serving(&stand, 4096);
    let connections = |count: usize| {
        let connected = || (0..count).filter_map(|_| connect(at(METRICS)).ok()).collect::<Vec<_>>();
        stand.net.node().run(connected).expect("the node")
    };
    let mut attack = connections(400);
    let limit = Rlimit { current: Some(100), maximum: Some(100) };
    let process = i32::try_from(program.id()).ok().and_then(Pid::from_raw);
    prlimit(process, Resource::Nofile, limit).expect("another limit");
    until(|| {
        attack.extend(connections(1));
        program.wait_for("Cannot accept connections", 0, Duration::from_millis(100))
    });
    until(|| is_well(&stand, HEALTH, "/healthz").then_some(()));
    assert_unharmed(&stand, &program);
}

/// A check on each of two families for 300 Services wants 600 sockets, and nobody attacks.
#[test]
fn more_health_checks_than_descriptors_are_told_once_and_the_rest_is_served() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    let many: Vec<String> = (0..300).map(checked_in_both_families).collect();
    stand.write("many.yaml", &many.join("---\n"));
    let program = serving(&stand, 512);
    let told = "Too few file descriptors to listen for all health checks of Services";
    assert!(program.wait_for(told, 0, PATIENCE).is_some(), "{}", program.log().join("\n"));
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&PODS[1..2])));
    stand.ask_until(ASKING_POD, VIP, 80, |seen| is_answered_by(seen, &PODS[1..2]));
    assert!(is_well(&stand, HEALTH, "/healthz") && is_well(&stand, METRICS, "/metrics"));
    assert_eq!(program.log().iter().filter(|line| line.contains("Too few")).count(), 1);
}

fn checked_in_both_families(number: usize) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: many-{number}, namespace: default}}\nspec:\n  \
         type: LoadBalancer\n  clusterIPs: [10.98.{}.{low}, \"fd00:98::{number:x}\"]\n  clusterIP: 10.98.{}.{low}\n  \
         ipFamilies: [IPv4, IPv6]\n  externalTrafficPolicy: Local\n  healthCheckNodePort: {}\n  \
         ports: [{{name: http, port: 80, nodePort: {}}}]\n",
        number / 250,
        number / 250,
        31100 + number,
        30100 + number,
        low = number % 250 + 1,
    )
}

/// Asks again and again, on one connection after another, without waiting for answers.
fn pipeline(stop: &AtomicBool) {
    let request = b"GET /metrics HTTP/1.1\r\nHost: node\r\nAccept-Encoding: gzip\r\n\r\n";
    let requests = request.repeat(512 * 1024 / request.len());
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut stream) = connect(at(METRICS)) else { continue };
        let Ok(mut sending) = stream.try_clone() else { continue };
        thread::scope(|scope| {
            scope.spawn(|| sending.write_all(&requests));
            let _ = stream.set_read_timeout(Some(Duration::from_millis(100)));
            let mut buffer = vec![0; 1 << 16];
            while !stop.load(Ordering::Relaxed) {
                match stream.read(&mut buffer) {
                    Ok(0) => break,
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => break,
                    _ => {}
                }
            }
            let _ = stream.shutdown(std::net::Shutdown::Both);
        });
    }
}

#[test]
fn pages_asked_for_without_end_hold_up_neither_health_nor_rules() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    let moving = |from: usize| -> String {
        let with_port = |number: usize| {
            checked_in_both_families(number)
                .replace(&format!("{}\n", 31100 + number), &format!("{}\n", from + number))
        };
        (0..40).map(with_port).collect::<Vec<_>>().join("---\n")
    };
    stand.write("many.yaml", &moving(31100));
    let program = serving(&stand, 4096);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| stand.net.node().run(|| pipeline(&stop)).expect("the node"));
        }
        let _stopping = StopAtEnd(&stop);
        // Ports of health checks are closed and opened all the while.
        for from in [31200, 31300, 31100] {
            stand.write("many.yaml", &moving(from));
            assert_unharmed(&stand, &program);
        }
    });
}

/// Ends the attack, also if the test fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A client that asks for much and reads nothing is cut, and what it was to read is not kept.
#[test]
fn clients_that_never_read_take_up_little_memory() {
    if !or_skip() {
        return;
    }
    descriptors::raise_limit();
    let stand = Stand::new();
    let program = serving(&stand, 4096);
    let (before, _) = program.resident();
    let request = b"GET /metrics HTTP/1.1\r\nHost: node\r\n\r\n".repeat(200);
    let stalled = stand.net.node().run(|| {
        let stalled = (0..900).filter_map(|_| {
            let mut stream = connect(at(METRICS)).ok()?;
            let _ = stream.write_all(&request);
            Some(stream)
        });
        stalled.collect::<Vec<_>>()
    });
    let stalled = stalled.expect("the node");
    assert_unharmed(&stand, &program);
    let (_, most) = program.resident();
    assert!(most < before + 80.0, "from {before} MiB to {most} MiB with {} clients", stalled.len());
}
