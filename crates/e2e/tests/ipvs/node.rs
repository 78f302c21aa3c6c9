//! A node of a real cluster with two pods behind one Service, in a kernel that has IPVS.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use ferrule_kernel::ipvs::{Ipvs, RealServer};
use ferrule_model::Protocol::Tcp;
use ferrule_testkit::Program;
use ferrule_testkit::api_server::{self, ApiServer, User, program};
use ferrule_testkit::netns::{self, NetSpec, NetWorld};
use serde_json::{Value, json};

use crate::kernel::SeenNode;

/// The processor of the virtual machine is imitated.
const PATIENCE: Duration = Duration::from_mins(4);
const PAUSE: Duration = Duration::from_millis(100);
const NODE: &str = "192.0.2.10";
const PODS: [&str; 2] = ["10.244.1.5", "10.244.1.6"];
const ASKING_POD: &str = "10.244.1.100";
const CLUSTER_IP: &str = "10.96.71.1";

/// The node.
pub struct Node {
    net: NetWorld,
    name: &'static str,
}

impl Node {
    /// The node, its object, and a Service; `None` where something is lacking.
    pub fn new(name: &'static str) -> Option<Self> {
        if !netns::or_skip() || !has_ipvs() || !api_server::or_skip() {
            return None;
        }
        let mut spec = NetSpec::node([ip(NODE)]).pod(ip(ASKING_POD), &[]);
        for pod in PODS {
            spec = spec.pod(ip(pod), &[(Tcp, 8080), (Tcp, 8081)]);
        }
        let net = NetWorld::build(spec).map_err(|error| error.with_sources()).expect("a world");
        let server = ApiServer::shared();
        server.join(net.node(), [172, 31, 72, 1].into()).expect("a way to the API server");
        let create = |path: &str, object: Value| {
            server.create(path, &object).map_err(|error| error.with_sources()).expect("an object");
        };
        create("/api/v1/nodes", json!({ "metadata": { "name": name } }));
        let status = json!({ "status": { "addresses": [{ "type": "InternalIP", "address": NODE }] } });
        server.patch(&format!("/api/v1/nodes/{name}/status"), &status).expect("the node's address");
        create("/api/v1/namespaces/default/services", service(name));
        create("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice(name));
        Some(Self { net, name })
    }

    /// Starts the real kube-proxy in ipvs mode.
    pub fn start_kube_proxy(&self) -> Program {
        // A namespace may not write these settings, and kube-proxy dies of that.
        let unwritten = [
            "--proxy-mode=ipvs",
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
        ];
        self.start(&program("kube-proxy"), &unwritten)
    }

    /// Has everything of proxies removed.
    pub fn clean_up(&self) {
        let cleanup = self.start(Path::new(env!("CARGO_BIN_EXE_ferrule-under-test")), &["--cleanup"]);
        let said = cleanup.wait_for("Cleaned up", 0, PATIENCE);
        assert!(said.is_some(), "{}", cleanup.log().join("\n"));
        assert!(cleanup.wait().expect("it ends").success());
    }

    /// What there is now.
    pub fn seen(&self) -> SeenNode {
        self.net.node().run(SeenNode::read).expect("the node").expect("the kernel's answer")
    }

    /// The rules and chains of proxies in iptables.
    pub fn rules(&self) -> Vec<String> {
        let saved = ["iptables-save", "ip6tables-save"].map(|program| {
            let output = self.net.node().feed(program, &[], "").map_err(|error| error.with_sources());
            String::from_utf8(output.expect("a program that succeeds").stdout).expect("text")
        });
        let lines = saved.iter().flat_map(|saved| saved.lines());
        lines.filter(|line| line.contains("KUBE-")).map(str::to_owned).collect()
    }

    /// Waits for a state.
    pub fn wait_until(&self, is_reached: impl Fn(&SeenNode) -> bool, proxy: &Program) -> SeenNode {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let seen = self.seen();
            if is_reached(&seen) {
                return seen;
            }
            assert!(Instant::now() < give_up, "{seen:#?}\n{}", proxy.log().join("\n"));
            std::thread::park_timeout(PAUSE);
        }
    }

    /// Waits until connections to the Service are answered.
    pub fn wait_until_served(&self, proxy: &Program) {
        let give_up = Instant::now() + PATIENCE;
        let namespace = self.net.namespace_of(ip(ASKING_POD)).expect("the pod");
        let to = service_address();
        let connects = || TcpStream::connect_timeout(&to, Duration::from_secs(1)).is_ok();
        while !namespace.run(connects).expect("the pod's namespace") {
            assert!(Instant::now() < give_up, "nobody serves\n{}", proxy.log().join("\n"));
        }
    }

    fn start(&self, program: &Path, more: &[&str]) -> Program {
        let kubeconfig = ApiServer::shared().kubeconfig(User::KubeProxy).expect("a kubeconfig");
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let name = format!("--hostname-override={}", self.name);
        let mut arguments = vec!["-v=2", kubeconfig.as_str(), &name, "--cluster-cidr=10.244.0.0/16"];
        arguments.extend(more);
        Program::start(self.net.node(), program, &arguments).expect("it starts")
    }
}

/// Where the Service is.
pub fn service_address() -> SocketAddr {
    SocketAddr::new(ip(CLUSTER_IP), 80)
}

/// The servers behind it.
pub fn servers() -> Vec<RealServer> {
    PODS.map(|pod| RealServer { address: SocketAddr::new(ip(pod), 8080), weight: 1 }).to_vec()
}

/// Whether the kernel has IPVS; where it must have it, in the virtual machine, it has.
fn has_ipvs() -> bool {
    let has = Ipvs::open_loaded().expect("a netlink socket").is_some();
    assert!(has || std::env::var_os("FERRULE_TEST_IPVS").is_none(), "this kernel has no IPVS");
    if !has {
        println!("skipped: this kernel has no IPVS; scripts/vm-ipvs runs one that has");
    }
    has
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn service(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "clusterIP": CLUSTER_IP, "ports": [
            { "name": "http", "port": 80, "targetPort": 8080 },
            { "name": "other", "port": 81, "targetPort": 8081 },
        ] },
    })
}

fn slice(name: &str) -> Value {
    let endpoint =
        |pod: &&str| json!({ "addresses": [pod], "nodeName": name, "conditions": { "ready": true } });
    json!({
        "metadata": { "name": format!("{name}-1"), "labels": { "kubernetes.io/service-name": name } },
        "addressType": "IPv4",
        "ports": [
            { "name": "http", "port": 8080, "protocol": "TCP" },
            { "name": "other", "port": 8081, "protocol": "TCP" },
        ],
        "endpoints": PODS.iter().map(endpoint).collect::<Vec<_>>(),
    })
}
