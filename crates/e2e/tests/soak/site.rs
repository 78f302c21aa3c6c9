//! The node, its pods and clients, and an API server of its own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use ferrule_model::Protocol::Tcp;
use ferrule_plan::Packet;
use ferrule_testkit::Program;
use ferrule_testkit::api_server::{ApiServer, Options, User, objects_path};
use ferrule_testkit::netns::{NetSpec, NetWorld, Seen};
use serde_json::json;

pub const NODE_NAME: &str = "soak-node";
pub const NODE: &str = "192.0.2.10";
pub const POD: &str = "10.244.1.100";
pub const CLIENT: &str = "203.0.113.5";
pub const VIP: &str = "198.51.100.20";
pub const NODE_PORT: u16 = 30_080;
/// The Services that clients connect to, by what they are reached at; all of them have endpoints all the time.
pub const WEB: &str = "10.96.70.1";
pub const API: &str = "10.96.70.2";
/// One that comes at the very end.
const LAST: &str = "10.96.70.3";
/// Endpoints on this node and on others. All of them answer, whether a slice names them or not.
pub const LOCAL: [&str; 4] = ["10.244.1.1", "10.244.1.2", "10.244.1.3", "10.244.1.4"];
pub const REMOTE: [&str; 4] = ["10.244.2.1", "10.244.2.2", "10.244.2.3", "10.244.2.4"];
const PATIENCE: Duration = Duration::from_mins(1);
const BRIEFLY: Duration = Duration::from_millis(200);

pub struct Site {
    pub server: ApiServer,
    pub net: NetWorld,
}

impl Site {
    pub fn new() -> Self {
        let mut spec = NetSpec::node([ip(NODE)]).pod(ip(POD), &[]).beyond(ip(CLIENT), &[]);
        for pod in LOCAL {
            spec = spec.pod(ip(pod), &[(Tcp, 8080)]);
        }
        for pod in REMOTE {
            spec = spec.beyond(ip(pod), &[(Tcp, 8080)]);
        }
        let net = NetWorld::build(spec).map_err(|error| error.with_sources()).expect("a world");
        let server =
            ApiServer::start(Options::default()).map_err(|error| error.with_sources()).expect("a server");
        server.join(net.node(), Ipv4Addr::new(172, 31, 60, 1)).expect("a cable");
        server.create("/api/v1/nodes", &json!({ "metadata": { "name": NODE_NAME } })).expect("a Node");
        let status = json!({ "status": { "addresses": [{ "type": "InternalIP", "address": NODE }] } });
        server.patch(&format!("/api/v1/nodes/{NODE_NAME}/status"), &status).expect("an address");
        Self { server, net }
    }

    /// Starts the program and waits until its rules are in the kernel.
    pub fn serve(&self) -> Program {
        let kubeconfig = self.server.kubeconfig(User::KubeProxy).expect("a kubeconfig");
        let arguments = [
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--hostname-override={NODE_NAME}"),
            "--proxy-mode=nftables".into(),
            "--cluster-cidr=10.244.0.0/16".into(),
        ];
        let binary = Path::new(env!("CARGO_BIN_EXE_ferrule-under-test"));
        let program = Program::start(self.net.node(), binary, &arguments).expect("the program starts");
        let give_up = Instant::now() + PATIENCE;
        while self.net.node().page_status(10256, "/readyz") != Some(200) {
            assert!(Instant::now() < give_up, "never ready:\n{}", program.log().join("\n"));
            std::thread::park_timeout(Duration::from_millis(20));
        }
        program
    }

    /// Waits until everything that clients will use answers.
    pub fn until_served(&self) {
        for (from, to) in targets() {
            self.until_answered(from, to);
        }
    }

    /// Waits until the proxy has seen all that was written: a Service that is written now comes after everything else.
    pub fn until_all_is_seen(&self) {
        let service = json!({
            "metadata": { "name": "last" },
            "spec": { "clusterIP": LAST, "ports": [{ "name": "http", "port": 80 }] },
        });
        self.server.create(&objects_path("default", "services"), &service).expect("the last Service");
        let slice = json!({
            "metadata": { "name": "last-a", "labels": { "kubernetes.io/service-name": "last" } },
            "addressType": "IPv4", "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
            "endpoints": [{ "addresses": [LOCAL[0]], "nodeName": NODE_NAME, "conditions": { "ready": true } }],
        });
        self.server.create(&objects_path("default", "endpointslices"), &slice).expect("its endpoint");
        self.until_answered(POD, SocketAddr::new(ip(LAST), 80));
    }

    fn until_answered(&self, from: &str, to: SocketAddr) {
        let give_up = Instant::now() + PATIENCE;
        let packet = Packet { from: ip(from), interface: None, to: to.ip(), port: Some((Tcp, to.port())) };
        while !matches!(self.net.probe(&packet, BRIEFLY), Ok(Seen::Answered { .. })) {
            assert!(Instant::now() < give_up, "{to} was never served");
        }
    }

    /// The sum of all series of a metric.
    pub fn metric(&self, name: &str) -> f64 {
        let page = self.net.node().page(10249, "/metrics").expect("the metrics");
        let of_name = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        let values =
            page.lines().filter(of_name).filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
        values.reduce(|sum, value| sum + value).expect("the metric")
    }
}

/// Who connects to what.
pub fn targets() -> [(&'static str, SocketAddr); 4] {
    let to = |address: &str, port| SocketAddr::new(ip(address), port);
    [(POD, to(API, 80)), (CLIENT, to(NODE, NODE_PORT)), (CLIENT, to(VIP, 80)), (NODE, to(WEB, 80))]
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}
