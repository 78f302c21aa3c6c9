//! userspace mode: the program relays, on a real kernel with real packets.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use ferrule_model::Protocol::Udp;
use ferrule_testkit::Program;
use ferrule_testkit::netns::{Namespace, Seen, or_skip};

use crate::stand::{
    ASKING_POD, CLIENT, NODE, PATIENCE, PODS, Stand, Talker, VIP, ip, is_answered_by, service, slice,
};

pub const MODE: [&str; 2] = ["--proxy-mode", "userspace"];

/// Starts the program and waits until it serves.
pub fn serve(stand: &Stand, more: &[&str]) -> Program {
    let program = stand.start(&[&MODE[..], more].concat());
    let synced = program.wait_for("family=\"IPv6\" written=", 0, PATIENCE);
    assert!(synced.is_some(), "no first sync:\n{}", program.log().join("\n"));
    program
}

fn web(stand: &Stand, pods: &[&str]) {
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(pods)));
}

pub fn run(stand: &Stand, program: &str, arguments: &[&str]) -> String {
    let output = stand.net.node().feed(program, arguments, "").map_err(|error| error.with_sources());
    String::from_utf8(output.expect("it succeeds").stdout).expect("text")
}

pub fn saved(stand: &Stand) -> String {
    run(stand, "iptables-nft-save", &[])
}

pub fn namespace<'a>(stand: &'a Stand, address: &str) -> &'a Namespace {
    stand.net.namespace_of(ip(address)).expect("somebody with this address")
}

/// Row: userspace R4-R8, R17, R23
#[test]
fn services_are_relayed_and_edits_picked_up() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    web(&stand, &PODS[..1]);
    let program = serve(&stand, &[]);
    for (from, to, port) in
        [(ASKING_POD, VIP, 80), (CLIENT, NODE, 30080), (NODE, NODE, 30080), ("127.0.0.1", "127.0.0.1", 30080)]
    {
        assert!(is_answered_by(&stand.ask(from, to, port), &PODS[..1]), "{from} → {to}:{port}");
    }
    let talker = Talker::new(&stand, ASKING_POD, VIP, 53);
    talker.ask_until(&PODS[..1]);
    let other = stand.net.node().run(|| TcpListener::bind((ip(NODE), 30080))).expect("the node");
    assert_eq!(other.expect_err("the node port is claimed").kind(), ErrorKind::AddrInUse);

    web(&stand, &PODS[1..2]);
    stand.ask_until(ASKING_POD, VIP, 80, |seen| is_answered_by(seen, &PODS[1..2]));
    talker.ask_until(&PODS[1..2]);

    // Another port of the Service leads to the same endpoints.
    let other = service("").replace("port: 80,", "port: 81,");
    stand.write("web.yaml", &format!("{other}---\n{}", slice(&PODS[1..2])));
    stand.ask_until(ASKING_POD, VIP, 81, |seen| is_answered_by(seen, &PODS[1..2]));
    assert_eq!(stand.ask_briefly(ASKING_POD, (VIP, ferrule_model::Protocol::Tcp, 80)), Seen::Silent);

    // Without the Service nobody answers, and no flow is remembered.
    let said = program.said();
    stand.remove("web.yaml");
    stand.ask_until(ASKING_POD, VIP, 81, |seen| *seen == Seen::Silent);
    program.wait_for("deleted=1", said, PATIENCE).expect("the flow of the UDP client is deleted");
    talker.ask_until_error(&[ErrorKind::WouldBlock]);
    assert_eq!(stand.ask(NODE, NODE, 30080), Seen::Refused);

    web(&stand, &PODS[2..]);
    stand.ask_until(ASKING_POD, VIP, 80, |seen| is_answered_by(seen, &PODS[2..]));
    assert!(program.terminate().expect("it ends").success());
}

/// Row: userspace R24
#[test]
fn without_endpoints_a_client_is_accepted_and_closed_and_a_datagram_is_lost() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    web(&stand, &[]);
    let _program = serve(&stand, &[]);
    for (from, to, port) in [(ASKING_POD, VIP, 80), (CLIENT, NODE, 30080), (NODE, NODE, 30080)] {
        assert_eq!(stand.ask(from, to, port), Seen::AcceptedThenReset, "{from} → {to}:{port}");
    }
    assert_eq!(stand.ask_briefly(ASKING_POD, (VIP, Udp, 53)), Seen::Silent);
}

/// Row: userspace R10, R18
#[test]
fn a_service_that_becomes_headless_is_removed_and_comes_back() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    let hostname = "status: {loadBalancer: {ingress: [{hostname: lb.example}]}}\n";
    stand.write("web.yaml", &format!("{}{hostname}---\n{}", service(""), slice(&PODS[..1])));
    let _program = serve(&stand, &[]);
    assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS[..1]));
    assert!(!saved(&stand).contains("lb.example"));
    let headless = service("").replace(VIP, "None").replace("type: LoadBalancer", "type: ClusterIP");
    stand.write("web.yaml", &format!("{headless}---\n{}", slice(&PODS[..1])));
    stand.ask_until(ASKING_POD, VIP, 80, |seen| *seen == Seen::Silent);
    assert!(!saved(&stand).contains("default/web"));
    web(&stand, &PODS[..1]);
    stand.ask_until(ASKING_POD, VIP, 80, |seen| is_answered_by(seen, &PODS[..1]));
}

/// Row: userspace R13
#[test]
fn a_loopback_bind_address_is_refused_at_start() {
    if !or_skip() {
        return;
    }
    for address in ["127.0.0.1", "::1"] {
        let stand = Stand::new();
        web(&stand, &PODS);
        let program = stand.start(&[&MODE[..], &["--bind-address", address]].concat());
        let told = program.wait_for("cannot proxy on localhost", 0, PATIENCE);
        assert!(told.is_some(), "{}", program.log().join("\n"));
        let status = program.wait().expect("it ends");
        assert_eq!(status.code(), Some(1));
        assert!(!saved(&stand).contains("KUBE-PORTALS"), "nothing was written");
    }
}

/// Row: userspace R14
#[test]
fn what_an_earlier_process_left_in_the_chains_is_replaced() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    for chain in
        ["KUBE-PORTALS-CONTAINER", "KUBE-PORTALS-HOST", "KUBE-NODEPORT-CONTAINER", "KUBE-NODEPORT-HOST"]
    {
        run(&stand, "iptables-nft", &["-t", "nat", "-N", chain]);
        let stale = ["-t", "nat", "-A", chain, "-p", "tcp", "--dport", "99", "-j", "RETURN"];
        run(&stand, "iptables-nft", &stale);
    }
    let _program = serve(&stand, &[]);
    let rules = saved(&stand);
    assert!(!rules.contains("--dport 99"), "{rules}");
    let jumps = |from: &str| {
        let jumps = rules.lines().filter(|line| line.starts_with(&format!("-A {from} ")));
        jumps.filter_map(|line| line.rsplit(' ').next()).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(jumps("PREROUTING"), ["KUBE-PORTALS-CONTAINER", "KUBE-NODEPORT-CONTAINER"]);
    assert_eq!(jumps("OUTPUT"), ["KUBE-PORTALS-HOST", "KUBE-NODEPORT-HOST"]);
}

/// Row: userspace R20
#[test]
fn a_node_port_that_another_process_has_is_served_once_it_is_free() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    let other =
        stand.net.node().run(|| TcpListener::bind((ip(NODE), 30080))).expect("the node").expect("a port");
    web(&stand, &PODS);
    let program = serve(&stand, &["--iptables-sync-period", "1s"]);
    let told = program.wait_for("default/web:http port 30080", 0, PATIENCE).expect("it complains");
    assert!(told.contains("in use"), "{told}");
    assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS), "the cluster IP is served");
    assert!(!saved(&stand).contains("--dport 30080"));
    drop(other);
    stand.ask_until(CLIENT, NODE, 30080, |seen| is_answered_by(seen, &PODS));
}

/// Row: userspace R21
#[test]
fn flushed_rules_come_back_at_once_with_the_name_of_who_did_it() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    web(&stand, &PODS);
    let program = serve(&stand, &[]);
    // Rules are verified once when watching begins. Until then a change is repaired without the name of who made it.
    let verified = program.wait_for("family=\"IPv4\" written=0", 0, PATIENCE);
    assert!(verified.is_some(), "not verified:\n{}", program.log().join("\n"));
    assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS));
    for command in [
        &["-t", "nat", "-F"][..],
        &["-t", "nat", "-F", "KUBE-PORTALS-CONTAINER"],
        &["-t", "nat", "-D", "PREROUTING", "1"],
        &["-F", "FERRULE-PORTALS"],
    ] {
        let (before, said) = (saved(&stand), program.said());
        run(&stand, "iptables-nft", command);
        let told = program
            .wait_for("repaired", said, PATIENCE)
            .unwrap_or_else(|| panic!("{command:?}: {}", program.log().join("\n")));
        assert!(told.contains("iptables"), "{command:?}: {told}");
        let without_counts = |text: String| {
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            lines.map(|line| line.split(" [").next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(without_counts(saved(&stand)), without_counts(before), "{command:?}");
        assert!(is_answered_by(&stand.ask(ASKING_POD, VIP, 80), &PODS), "{command:?}");
    }
}

/// Row: userspace R43, R5
#[test]
fn an_open_connection_outlives_its_service() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    let echo = echo(namespace(&stand, PODS[0]), PODS[0]);
    let text = format!("{}---\n{}", service(""), slice(&PODS[..1])).replace("port: 8080}", "port: 9090}");
    stand.write("web.yaml", &text);
    let _program = serve(&stand, &[]);
    let mut open = connect(namespace(&stand, ASKING_POD), VIP);
    said_back(&mut open);
    stand.remove("web.yaml");
    stand.ask_until(ASKING_POD, VIP, 80, |seen| *seen == Seen::Silent);
    said_back(&mut open);
    drop(open);
    drop(echo);
}

/// Row: userspace R49
#[test]
fn a_clean_up_removes_everything_of_the_mode_and_nothing_else() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    run(
        &stand,
        "iptables-nft",
        &["-t", "nat", "-A", "PREROUTING", "-p", "tcp", "--dport", "7", "-j", "RETURN"],
    );
    run(
        &stand,
        "ip6tables-nft",
        &["-t", "nat", "-A", "PREROUTING", "-p", "tcp", "--dport", "7", "-j", "RETURN"],
    );
    web(&stand, &PODS);
    serve(&stand, &[]).terminate().expect("it ends");
    assert!(saved(&stand).contains("KUBE-PORTALS-CONTAINER"), "rules stay");
    for _ in 0..2 {
        let program = stand.start(&["--cleanup"]);
        let status = program.wait().expect("it ends");
        assert!(status.success(), "{}", saved(&stand));
        for program in ["iptables-nft-save", "ip6tables-nft-save"] {
            let rules = run(&stand, program, &[]);
            for word in ["KUBE-", "FERRULE-"] {
                assert!(!rules.contains(word), "{rules}");
            }
            assert!(rules.contains("--dport 7 -j RETURN"), "{rules}");
        }
    }
}

/// A socket of the proxy is no way round source ranges.
#[test]
fn nobody_reaches_a_socket_but_through_a_rule() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    web(&stand, &PODS);
    let _program = serve(&stand, &["--proxy-port-range", "41000-41010"]);
    assert!(is_answered_by(&stand.ask(CLIENT, NODE, 30080), &PODS));
    let rules = saved(&stand);
    // Sockets of the two protocols may have the same port.
    let guarded = |protocol: &str| -> Vec<u16> {
        let guard = |port: &u16| {
            format!("-A FERRULE-PORTALS -p {protocol} -m {protocol} --dport {port} -m conntrack")
        };
        (41000..=41010).filter(|port| rules.contains(&guard(port))).collect()
    };
    let (tcp, udp) = (guarded("tcp"), guarded("udp"));
    assert_eq!((tcp.len(), udp.len()), (1, 1), "one for TCP, one for UDP: {rules}");
    for port in tcp {
        for from in [CLIENT, ASKING_POD, NODE] {
            assert_eq!(stand.ask(from, NODE, port), Seen::Refused, "{from} → {port}");
        }
    }
    for port in udp {
        for from in [CLIENT, ASKING_POD, NODE] {
            assert_eq!(stand.ask_briefly(from, (NODE, Udp, port)), Seen::Refused, "{from} → {port}/udp");
        }
    }
}

pub fn connect(from: &Namespace, to: &str) -> TcpStream {
    let stream = from.run(|| TcpStream::connect((ip(to), 80))).expect("the namespace").expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

pub fn said_back(stream: &mut TcpStream) {
    stream.write_all(b"hello").expect("it is sent");
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"hello");
}

/// A server on port 9090 that says back what it is told, for as long as the result lives.
pub fn echo(namespace: &Namespace, address: &str) -> TcpListener {
    let listener =
        namespace.run(|| TcpListener::bind((ip(address), 9090))).expect("the namespace").expect("a listener");
    let accepting = listener.try_clone().expect("a descriptor");
    std::thread::spawn(move || {
        for stream in accepting.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut buffer = [0; 512];
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    if stream.write_all(&buffer[..length]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    listener
}
