//! NodePorts on 127.0.0.1 and ::1: relayed by the program, for processes of the host alone.

use std::net::{IpAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use ferrule_model::Protocol::{self, Tcp, Udp};
use ferrule_plan::Packet;
use ferrule_testkit::Program;
use ferrule_testkit::api_server::{ApiServer, User};
use ferrule_testkit::netns::{Namespace, NetSpec, NetWorld, Seen};
use serde_json::{Value, json};

use crate::beside_others;
use crate::node::{PATIENCE, ip};

const NODE: [&str; 2] = ["192.0.2.10", "2001:db8::10"];
const PODS: [&str; 2] = ["10.244.1.5", "fd44:0:0:1::5"];
const NEIGHBOUR: &str = "10.244.1.100";
const OUTSIDE: [&str; 2] = ["198.51.100.9", "2001:db8:f::9"];
const LOCALHOST: [&str; 2] = ["127.0.0.1", "::1"];
/// NodePorts, and what the endpoints listen on.
const PORTS: [(Protocol, u16, u16); 2] = [(Tcp, 30880, 8080), (Udp, 30853, 9090)];
const SERVICE: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const BRIEFLY: Duration = Duration::from_secs(2);
/// Where this is on, packets of others arrive at loopback addresses.
const ROUTE_LOCALNET: [(&str, &str); 2] =
    [("net/ipv4/conf/all/route_localnet", "1"), ("net/ipv4/conf/all/rp_filter", "0")];

fn world() -> NetWorld {
    let mut spec = NetSpec::node(NODE.map(ip)).pod(ip(NEIGHBOUR), &[]);
    for pod in PODS {
        spec = spec.pod(ip(pod), &PORTS.map(|(protocol, _, port)| (protocol, port)));
    }
    for host in OUTSIDE {
        spec = spec.beyond(ip(host), &[]);
    }
    NetWorld::build(spec).map_err(|error| error.with_sources()).expect("a world")
}

fn service() -> Value {
    let ports = PORTS.map(|(protocol, node_port, port)| {
        json!({
            "name": protocol.to_string().to_lowercase(), "protocol": protocol.to_string().to_uppercase(),
            "port": port, "targetPort": port, "nodePort": node_port,
        })
    });
    json!({
        "metadata": { "name": "localhost" },
        "spec": { "type": "NodePort", "ipFamilyPolicy": "RequireDualStack", "ports": ports },
    })
}

fn slice(pod: &str, family: &str) -> Value {
    let ports = PORTS.map(|(protocol, _, port)| {
        json!({ "name": protocol.to_string().to_lowercase(), "protocol": protocol.to_string().to_uppercase(), "port": port })
    });
    json!({
        "metadata": {
            "name": format!("localhost-{}", family.to_lowercase()),
            "labels": { "kubernetes.io/service-name": "localhost" },
        },
        "addressType": family, "ports": ports,
        "endpoints": [{ "addresses": [pod], "nodeName": "localhost", "conditions": { "ready": true } }],
    })
}

/// The objects, which go with it.
struct Objects(&'static ApiServer);

impl Objects {
    fn create() -> Self {
        let server = ApiServer::shared();
        let create = |path: &str, object: &Value| {
            server.create(path, object).map_err(|error| error.with_sources()).expect("an object");
        };
        create("/api/v1/nodes", &json!({ "metadata": { "name": "localhost" } }));
        let addresses = NODE.map(|address| json!({ "type": "InternalIP", "address": address }));
        let status = json!({ "status": { "addresses": addresses } });
        server.patch("/api/v1/nodes/localhost/status", &status).expect("the node's addresses");
        create(SERVICE, &service());
        create(SLICES, &slice(PODS[0], "IPv4"));
        create(SLICES, &slice(PODS[1], "IPv6"));
        Self(server)
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        for path in [
            format!("{SERVICE}/localhost"),
            format!("{SLICES}/localhost-ipv4"),
            format!("{SLICES}/localhost-ipv6"),
        ] {
            let _ = self.0.delete(&path);
        }
    }
}

fn start(net: &NetWorld, server: &ApiServer, node_port_addresses: &str) -> Program {
    let kubeconfig = server.kubeconfig(User::KubeProxy).expect("a kubeconfig");
    let arguments = [
        "-v=2".to_owned(),
        "--proxy-mode=ipvs".to_owned(),
        "--hostname-override=localhost".to_owned(),
        "--cluster-cidr=10.244.0.0/16,fd44::/32".to_owned(),
        "--feature-gates=KubeProxyNFTablesLocalhostNodePorts=true".to_owned(),
        format!("--nodeport-addresses={node_port_addresses}"),
        format!("--kubeconfig={}", kubeconfig.display()),
    ];
    let program = Path::new(env!("CARGO_BIN_EXE_ferrule-under-test"));
    let ferrule = Program::start(net.node(), program, &arguments).expect("it starts");
    for family in ["IPv4", "IPv6"] {
        let synced = ferrule.wait_for(&format!("family=\"{family}\" written="), 0, PATIENCE);
        assert!(synced.is_some(), "no first sync:\n{}", ferrule.log().join("\n"));
    }
    ferrule
}

/// What becomes of a packet to each NodePort of an address.
fn ask(net: &NetWorld, from: &str, to: &str) -> [Seen; 2] {
    PORTS.map(|(protocol, port, _)| {
        let packet = Packet { from: ip(from), interface: None, to: ip(to), port: Some((protocol, port)) };
        net.probe(&packet, BRIEFLY).expect("a probe")
    })
}

fn is_answered_by(seen: &Seen, pod: &str) -> bool {
    matches!(seen, Seen::Answered { by, .. } if by.ip() == ip(pod))
}

/// A neighbour of the node that sends what is for 127.0.0.1 to the node.
fn neighbour(net: &NetWorld) -> &Namespace {
    let pod = net.namespace_of(ip(NEIGHBOUR)).expect("the pod");
    pod.set_all(&ROUTE_LOCALNET).expect("settings");
    pod.feed("ip", &["address", "del", "127.0.0.1/8", "dev", "lo"], "").expect("no loopback address");
    let way = pod.feed("ip", &["-4", "-o", "route", "show", "default"], "").expect("routes").stdout;
    let way = String::from_utf8_lossy(&way).trim().trim_start_matches("default").to_owned();
    pod.feed("ip", &["-batch", "-"], &format!("route add 127.0.0.1/32 {way}\n")).expect("a route");
    pod
}

fn is_heard(from: &Namespace, port: u16, listener: Option<&UdpSocket>) -> bool {
    let answered = from.run(|| {
        let socket = UdpSocket::bind((ip(NEIGHBOUR), 0))?;
        socket.set_read_timeout(Some(BRIEFLY))?;
        socket.send_to(b"who?", (IpAddr::from([127, 0, 0, 1]), port))?;
        socket.recv(&mut [0; 128])
    });
    answered.expect("the pod").is_ok() || listener.is_some_and(|socket| socket.recv(&mut [0; 16]).is_ok())
}

#[test]
fn node_ports_on_localhost_are_served_to_the_host_alone() {
    let Some(_turn) = beside_others() else { return };
    let net = world();
    let server = ApiServer::shared();
    server.join(net.node(), [172, 31, 74, 1].into()).expect("a way to the API server");
    let _objects = Objects::create();
    let ferrule = start(&net, server, "localhost");
    for (localhost, pod) in LOCALHOST.into_iter().zip(PODS) {
        let seen = ask(&net, localhost, localhost);
        assert!(
            seen.iter().all(|seen| is_answered_by(seen, pod)),
            "{localhost}: {seen:?}\n{}",
            ferrule.log().join("\n")
        );
    }
    for (host, node) in OUTSIDE.into_iter().zip(NODE) {
        assert_eq!(ask(&net, host, node), [Seen::Refused, Seen::Refused], "{host} → {node}");
    }
    // An administrator has it on.
    net.node().set_all(&ROUTE_LOCALNET).expect("settings");
    let other = net.node().run(|| UdpSocket::bind("127.0.0.1:5353")).expect("the node").expect("a socket");
    other.set_read_timeout(Some(BRIEFLY)).expect("a time limit");
    let neighbour = neighbour(&net);
    assert!(is_heard(neighbour, 5353, Some(&other)), "another's socket is reached so");
    assert!(!is_heard(neighbour, PORTS[1].1, None), "a NodePort is not");
    assert!(ferrule.terminate().expect("it ends").success());

    // Where localhost is not listed, the host refuses there and the others are served.
    let ferrule = start(&net, server, "192.0.2.0/24,2001:db8::/64");
    for (localhost, pod) in LOCALHOST.into_iter().zip(PODS) {
        assert_eq!(ask(&net, localhost, localhost), [Seen::Refused, Seen::Refused], "{localhost}");
        let at = usize::from(localhost.contains(':'));
        let seen = ask(&net, OUTSIDE[at], NODE[at]);
        assert!(seen.iter().all(|seen| is_answered_by(seen, pod)), "{seen:?}\n{}", ferrule.log().join("\n"));
    }
}
