//! NodePorts on 127.0.0.1 in nftables mode: relayed by the program, for processes of the host alone.

use std::io::{ErrorKind, Read as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use ferrule_testkit::Program;
use ferrule_testkit::netns::{Seen, or_skip};

use crate::iptables_localnet::{is_reached, neighbour};
use crate::stand::{CLIENT, NODE, PATIENCE, PODS, Stand, Talker, ip, is_answered_by, service, slice, until};

const GATE: &str = "--feature-gates=KubeProxyNFTablesLocalhostNodePorts=true";
const LOCALHOST: &str = "127.0.0.1";
/// A loopback address, too, and one that no interface has.
const FORGED: &str = "127.0.0.2";

fn serve(stand: &Stand, more: &[&str]) -> Program {
    let program = stand.start(&[&["--proxy-mode=nftables"], more].concat());
    let synced = program.wait_for("family=\"IPv6\" written=", 0, PATIENCE);
    assert!(synced.is_some(), "no first sync:\n{}", program.log().join("\n"));
    program
}

fn web(stand: &Stand, pods: &[&str]) {
    stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(pods)));
}

/// What the metrics page says of listeners in IPv4.
fn listeners(stand: &Stand) -> String {
    let page = stand.net.node().feed("curl", &["-s", "http://127.0.0.1:10249/metrics"], "").expect("curl");
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    let name = "kubeproxy_nftables_localhost_nodeport_listener";
    let lines = page.lines().filter(|line| line.starts_with(name) && line.contains("IPv4"));
    lines.map(|line| line.trim_start_matches(name).to_owned()).collect::<Vec<_>>().join("; ")
}

/// Row: model L1-L3, L11, L12
#[test]
fn node_ports_are_served_on_localhost_over_tcp_and_udp() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    web(&stand, &PODS[..1]);
    let program = serve(&stand, &[GATE, "--nodeport-addresses=primary,localhost"]);
    assert!(is_answered_by(&stand.ask(LOCALHOST, LOCALHOST, 30080), &PODS[..1]));
    assert!(is_answered_by(&stand.ask(CLIENT, NODE, 30080), &PODS[..1]));
    let talker = Talker::new(&stand, LOCALHOST, LOCALHOST, 30053);
    talker.ask_until(&PODS[..1]);
    assert_eq!(stand.ask(LOCALHOST, "127.0.0.2", 30080), Seen::Refused, "only 127.0.0.1 itself");

    web(&stand, &PODS[1..]);
    stand.ask_until(LOCALHOST, LOCALHOST, 30080, |seen| is_answered_by(seen, &PODS[1..2]));
    stand.ask_until(LOCALHOST, LOCALHOST, 30080, |seen| is_answered_by(seen, &PODS[2..]));
    talker.ask_until(&PODS[1..]);
    until(|| (listeners(&stand) == "s{ip_family=\"IPv4\"} 2").then_some(()));

    // Nobody listens without endpoints.
    web(&stand, &[]);
    stand.ask_until(LOCALHOST, LOCALHOST, 30080, |seen| *seen == Seen::Refused);
    until(|| (listeners(&stand) == "s{ip_family=\"IPv4\"} 0").then_some(()));
    assert!(program.terminate().expect("it ends").success());
}

/// Row: model L4
///
/// kube-proxy relays TCP alone, and only with the gate; the rest of the table is the same.
#[test]
fn without_the_gate_or_the_address_the_host_refuses() {
    if !or_skip() {
        return;
    }
    for arguments in [
        &["--nodeport-addresses=primary,localhost"][..],
        &[GATE, "--nodeport-addresses=primary"],
        &[GATE, "--nodeport-addresses=all"],
    ] {
        let stand = Stand::new();
        web(&stand, &PODS);
        let _program = serve(&stand, arguments);
        assert!(is_answered_by(&stand.ask(CLIENT, NODE, 30080), &PODS), "{arguments:?}");
        assert_eq!(stand.ask(LOCALHOST, LOCALHOST, 30080), Seen::Refused, "{arguments:?}");
    }
}

/// Row: model L13
#[test]
fn a_port_that_another_process_has_is_told_once_and_served_when_it_is_free() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    let other = stand
        .net
        .node()
        .run(|| TcpListener::bind((ip(LOCALHOST), 30080)))
        .expect("the node")
        .expect("a port");
    web(&stand, &PODS);
    let program = serve(&stand, &[GATE, "--nodeport-addresses=primary,localhost"]);
    let told = program.wait_for("not served on localhost", 0, PATIENCE).expect("it complains");
    assert!(told.contains("default/web:http") && told.contains("127.0.0.1:30080"), "{told}");
    until(|| listeners(&stand).contains("_creation_failures_total{ip_family=\"IPv4\"}").then_some(()));
    Talker::new(&stand, LOCALHOST, LOCALHOST, 30053).ask_until(&PODS);
    drop(other);
    // Any sync tries again.
    web(&stand, &PODS[..1]);
    stand.ask_until(LOCALHOST, LOCALHOST, 30080, |seen| is_answered_by(seen, &PODS[..1]));
    let complaints = program.log().iter().filter(|line| line.contains("not served on localhost")).count();
    assert_eq!(complaints, 1);
}

#[test]
fn the_addresses_are_switched_while_it_runs() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    web(&stand, &PODS);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config.yaml");
    let write = |addresses: &str| {
        let text = format!(
            "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: nftables\n\
            clusterCIDR: 10.244.0.0/16\nfeatureGates: {{KubeProxyNFTablesLocalhostNodePorts: true}}\nnodePortAddresses: [{addresses}]\n"
        );
        std::fs::write(&file, text).expect("a file");
    };
    write("primary");
    let path = file.to_string_lossy().into_owned();
    let _program = serve(&stand, &["--config", &path]);
    assert_eq!(stand.ask(LOCALHOST, LOCALHOST, 30080), Seen::Refused);
    write("primary, localhost");
    stand.ask_until(LOCALHOST, LOCALHOST, 30080, |seen| is_answered_by(seen, &PODS));
    write("primary");
    stand.ask_until(LOCALHOST, LOCALHOST, 30080, |seen| *seen == Seen::Refused);
}

/// Row: model L6
#[test]
fn an_idle_connection_ends_soon_after_the_program_is_asked_to_end() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    web(&stand, &PODS);
    let program = serve(&stand, &[GATE, "--nodeport-addresses=primary,localhost"]);
    assert!(is_answered_by(&stand.ask(LOCALHOST, LOCALHOST, 30080), &PODS));
    let idle = stand.net.node().run(|| TcpStream::connect((ip(LOCALHOST), 30080)));
    let mut idle = idle.expect("the node").expect("a connection");
    idle.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let ended = std::thread::spawn(move || program.terminate());
    // The test server answers as soon as it is connected to; what follows is the end.
    let mut rest = Vec::new();
    let read = idle.read_to_end(&mut rest);
    assert!(read.is_ok() || read.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    assert!(ended.join().expect("a thread").expect("it ends").success());
    assert_eq!(stand.ask(LOCALHOST, LOCALHOST, 30080), Seen::Refused);
}

/// Neither a client beyond the node nor a neighbour that sends to 127.0.0.1 itself.
#[test]
fn only_processes_of_the_host_reach_them() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    web(&stand, &PODS);
    let _program = serve(&stand, &[GATE, "--nodeport-addresses=localhost"]);
    Talker::new(&stand, LOCALHOST, LOCALHOST, 30053).ask_until(&PODS);
    assert_eq!(stand.ask(CLIENT, NODE, 30080), Seen::Refused);
    assert!(!is_reached(neighbour(&stand), 30053, None));
}

/// A neighbour that sends to 127.0.0.1 from a loopback address gets nothing either, where an administrator lets such packets in.
/// Its datagram would be forwarded, and the reply go to the host itself.
#[test]
fn a_forged_loopback_source_reaches_nothing() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    web(&stand, &PODS);
    let all = ["net/ipv4/conf/all/route_localnet", "net/ipv4/conf/all/rp_filter"];
    stand.net.node().set_all(&[(all[0], "1"), (all[1], "0")]).expect("settings");
    let _program = serve(&stand, &[GATE, "--nodeport-addresses=localhost"]);
    Talker::new(&stand, LOCALHOST, LOCALHOST, 30053).ask_until(&PODS);

    let pod = neighbour(&stand);
    pod.feed("ip", &["address", "add", "127.0.0.2/32", "dev", "lo"], "").expect("an address");
    let forged = pod.run(|| UdpSocket::bind((FORGED, 5400))).expect("the pod").expect("a socket");
    let on_node = |address: (&'static str, u16)| {
        let bind = || {
            let socket = UdpSocket::bind(address)?;
            socket.set_read_timeout(Some(Duration::from_millis(500)))?;
            std::io::Result::Ok(socket)
        };
        stand.net.node().run(bind).expect("the node").expect("a socket")
    };
    let (other, replies) = (on_node((LOCALHOST, 5353)), on_node((FORGED, 5400)));
    let send = |port: u16| forged.send_to(b"who?", (LOCALHOST, port)).expect("it is sent");
    send(5353);
    assert!(other.recv(&mut [0; 16]).is_ok(), "such a datagram arrives on the host");
    send(30053);
    assert!(replies.recv(&mut [0; 128]).is_err(), "it was forwarded, and answered");
}
