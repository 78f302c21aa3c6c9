//! A node of a real cluster with two pods behind one Service, in a kernel that has IPVS.

use std::io::Read as _;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ferrule_kernel::ipvs::{Ipvs, RealServer, VirtualServerId};
use ferrule_kernel::port::VirtualServers as _;
use ferrule_model::Protocol::{Tcp, Udp};
use ferrule_testkit::Program;
use ferrule_testkit::api_server::{self, ApiServer, User, program};
use ferrule_testkit::netns::{self, NetSpec, NetWorld};
use serde_json::{Value, json};

use crate::kernel::SeenNode;

/// The processor of the virtual machine is imitated.
pub const PATIENCE: Duration = Duration::from_mins(4);
const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
pub const PAUSE: Duration = Duration::from_millis(100);
const NODE: &str = "192.0.2.10";
pub const PODS: [&str; 2] = ["10.244.1.5", "10.244.1.6"];
pub const ASKING_POD: &str = "10.244.1.100";
/// How often each of four clients connects.
pub const EVERY: Duration = Duration::from_millis(20);

/// The node.
pub struct Node {
    net: NetWorld,
    name: &'static str,
    service: SocketAddr,
}

impl Node {
    /// The node, its object, and a Service of its own.
    pub fn new(name: &'static str) -> Self {
        static NODES: AtomicU8 = AtomicU8::new(1);
        let number = NODES.fetch_add(1, Ordering::Relaxed);
        let cluster_ip = ip(&format!("10.96.71.{number}"));
        let mut spec = NetSpec::node([ip(NODE)]).pod(ip(ASKING_POD), &[]);
        for pod in PODS {
            spec = spec.pod(ip(pod), &[(Tcp, 8080), (Udp, 9090)]);
        }
        let net = NetWorld::build(spec).map_err(|error| error.with_sources()).expect("a world");
        let server = ApiServer::shared();
        server.join(net.node(), [172, 31, 72, number].into()).expect("a way to the API server");
        let create = |path: &str, object: Value| {
            server.create(path, &object).map_err(|error| error.with_sources()).expect("an object");
        };
        create("/api/v1/nodes", json!({ "metadata": { "name": name } }));
        let status = json!({ "status": { "addresses": [{ "type": "InternalIP", "address": NODE }] } });
        server.patch(&format!("/api/v1/nodes/{name}/status"), &status).expect("the node's address");
        create(SERVICES, service(name, cluster_ip));
        create(SLICES, slice(name, &PODS));
        for pod in PODS {
            let namespace = net.namespace_of(ip(pod)).expect("the pod");
            let said_back = namespace.run(|| say_back(SocketAddr::new(ip(pod), 8081)));
            said_back.expect("the namespace").expect("a server");
        }
        Self { net, name, service: SocketAddr::new(cluster_ip, 80) }
    }

    /// Where the Service is.
    pub fn service(&self) -> SocketAddr {
        self.service
    }

    /// Where what is said comes back.
    pub fn echo(&self) -> SocketAddr {
        SocketAddr::new(self.service.ip(), 81)
    }

    /// Has these pods alone be endpoints of the Service.
    pub fn set_endpoints(&self, pods: &[&str]) {
        let path = format!("{SLICES}/{}-1", self.name);
        ApiServer::shared().replace(&path, &slice(self.name, pods)).expect("other endpoints");
    }

    /// A load balancer in front of the same pods, for clients in these ranges.
    pub fn add_load_balancer(&self, at: SocketAddr, ranges: &[&str]) {
        let server = ApiServer::shared();
        let name = format!("{}-balancer", self.name);
        let cluster_ip = SocketAddr::new(ip("10.96.70.1"), at.port());
        let object = json!({
            "metadata": { "name": name },
            "spec": {
                "type": "LoadBalancer", "clusterIP": cluster_ip.ip(), "loadBalancerSourceRanges": ranges,
                "ports": [{ "name": "http", "port": at.port(), "targetPort": 8080 }],
            },
        });
        server.create(SERVICES, &object).map_err(|error| error.with_sources()).expect("a Service");
        let status = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": at.ip() }] } } });
        server.patch(&format!("{SERVICES}/{name}/status"), &status).expect("its address");
        let mut endpoints = slice(&name, &PODS);
        for endpoint in endpoints["endpoints"].as_array_mut().into_iter().flatten() {
            endpoint["nodeName"] = json!(self.name);
        }
        server.create(SLICES, &endpoints).map_err(|error| error.with_sources()).expect("its endpoints");
    }

    /// The real servers of the Service that get new connections.
    pub fn in_use(&self) -> Vec<SocketAddr> {
        let id = VirtualServerId { address: self.service.ip(), protocol: 6, port: self.service.port() };
        let read = move || Ipvs::open_loaded()?.map(|mut ipvs| ipvs.real_servers(&id)).transpose();
        let servers = self.run(read).expect("the kernel's answer").unwrap_or_default();
        servers.iter().filter(|seen| seen.server.weight > 0).map(|seen| seen.server.address).collect()
    }

    /// Starts the real kube-proxy in ipvs mode.
    pub fn start_kube_proxy(&self) -> Program {
        // A namespace may not write these settings, and kube-proxy dies of that.
        let unwritten = [
            "--proxy-mode=ipvs",
            // It says when it has synced.
            "-v=4",
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
        ];
        self.start(&program("kube-proxy"), &unwritten)
    }

    /// Starts Ferrule in ipvs mode and waits until it has synced both families; what it said of IPv4.
    pub fn run_ferrule(&self, more: &[&str]) -> (Program, String) {
        self.run_ferrule_in("ipvs", more)
    }

    /// The same in another mode.
    pub fn run_ferrule_in(&self, mode: &str, flags: &[&str]) -> (Program, String) {
        let mode = format!("--proxy-mode={mode}");
        let mut arguments = vec![mode.as_str()];
        arguments.extend(flags);
        let ferrule = self.start(Path::new(env!("CARGO_BIN_EXE_ferrule-under-test")), &arguments);
        let said = ["IPv4", "IPv6"].map(|family| {
            let said = ferrule.wait_for(&format!("family=\"{family}\" written="), 0, PATIENCE);
            assert!(said.is_some(), "no first sync\n{}", ferrule.log().join("\n"));
            said
        });
        let [said, _] = said;
        (ferrule, said.unwrap_or_default())
    }

    /// Runs a program on the node.
    pub fn command(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.net.node().feed(program, arguments, "").map_err(|error| error.with_sources());
        String::from_utf8(output.expect("a program that succeeds").stdout).expect("text")
    }

    /// Runs something in the pod that asks, on a thread of its own.
    pub fn in_asking_pod<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let namespace = self.net.namespace_of(ip(ASKING_POD)).expect("the pod");
        namespace.run(|| std::thread::spawn(work)).expect("the pod's namespace")
    }

    /// A connection to where what is said comes back.
    pub fn connect_to_echo(&self) -> TcpStream {
        let to = self.echo();
        let connected = self.in_asking_pod(move || TcpStream::connect_timeout(&to, ANSWERS_WITHIN));
        let stream = connected.join().expect("a client").expect("a connection");
        stream.set_read_timeout(Some(ANSWERS_WITHIN)).expect("a timeout");
        stream
    }

    /// A client of the Service's UDP port, whose flow stays the same.
    pub fn udp_client(&self) -> UdpSocket {
        let to = SocketAddr::new(self.service.ip(), 53);
        let opened = self.in_asking_pod(move || -> std::io::Result<UdpSocket> {
            let socket = UdpSocket::bind(SocketAddr::new(ip(ASKING_POD), 0))?;
            socket.connect(to)?;
            socket.set_read_timeout(Some(Duration::from_secs(2)))?;
            Ok(socket)
        });
        opened.join().expect("a client").expect("a socket")
    }

    /// What an endpoint answers to the node itself: its own address and the client's.
    pub fn ask_from_host(&self) -> String {
        let to = self.service;
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect_timeout(&to, ANSWERS_WITHIN)?;
            stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        self.run(ask).expect("an answer")
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
        self.run(SeenNode::read).expect("the kernel's answer")
    }

    /// Runs something on the node.
    pub fn run<T: Send>(&self, code: impl FnOnce() -> T + Send) -> T {
        self.net.node().run(code).expect("the node")
    }

    /// The body of a page of the metrics port.
    pub fn page(&self, path: &str) -> Option<String> {
        self.net.node().page(10249, path)
    }

    /// The rules and chains of proxies in iptables.
    pub fn rules(&self) -> Vec<String> {
        let saved = ["iptables-save", "ip6tables-save"].map(|program| self.command(program, &[]));
        let lines = saved.iter().flat_map(|saved| saved.lines());
        lines.filter(|line| line.contains("KUBE-")).map(str::to_owned).collect()
    }

    /// The nftables tables of proxies.
    pub fn tables(&self) -> Vec<String> {
        let listed = self.command("nft", &["list", "tables"]);
        listed.lines().filter(|line| line.contains("kube-proxy")).map(str::to_owned).collect()
    }

    /// Waits until connections to the Service are answered.
    pub fn wait_until_served(&self, proxy: &Program) {
        let give_up = Instant::now() + PATIENCE;
        let namespace = self.net.namespace_of(ip(ASKING_POD)).expect("the pod");
        let to = self.service;
        let connects = || TcpStream::connect_timeout(&to, Duration::from_secs(1)).is_ok();
        while !namespace.run(connects).expect("the pod's namespace") {
            assert!(Instant::now() < give_up, "nobody serves\n{}", proxy.log().join("\n"));
        }
    }

    fn start(&self, program: &Path, more: &[&str]) -> Program {
        let arguments = self.arguments(more);
        Program::start(self.net.node(), program, &arguments).expect("it starts")
    }

    /// Starts Ferrule in ipvs mode by the last line of a script, `exec … "$0" "$@"`, in a mount namespace of its own.
    pub fn start_by_script(&self, script: &str, more: &[&str]) -> Program {
        let before =
            ["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_ferrule-under-test"), "--proxy-mode=ipvs"];
        let mut arguments: Vec<String> = before.map(str::to_owned).to_vec();
        arguments.extend(self.arguments(more));
        Program::start(self.net.node(), Path::new("unshare"), &arguments).expect("it starts")
    }

    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let kubeconfig = ApiServer::shared().kubeconfig(User::KubeProxy).expect("a kubeconfig");
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let name = format!("--hostname-override={}", self.name);
        let mut arguments =
            vec!["-v=2".to_owned(), kubeconfig, name, "--cluster-cidr=10.244.0.0/16".to_owned()];
        arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
        arguments
    }
}

impl Drop for Node {
    /// Other tests begin without its Service.
    fn drop(&mut self) {
        let server = ApiServer::shared();
        for name in [self.name.to_owned(), format!("{}-balancer", self.name)] {
            for path in [format!("{SERVICES}/{name}"), format!("{SLICES}/{name}-1")] {
                // Most have no load balancer.
                let _ = server.delete(&path);
            }
        }
    }
}

/// The servers behind a Service.
pub fn servers() -> Vec<RealServer> {
    PODS.map(|pod| RealServer { address: SocketAddr::new(ip(pod), 8080), weight: 1 }).to_vec()
}

/// Whether everything is there that the tests need.
pub fn can_run() -> bool {
    netns::or_skip() && has_ipvs() && api_server::or_skip()
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

/// Serves whoever connects, until the test ends: says back what it hears.
fn say_back(address: SocketAddr) -> std::io::Result<()> {
    let listener = TcpListener::bind(address)?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || std::io::copy(&mut &stream, &mut &stream));
        }
    });
    Ok(())
}

/// Waits so long. A thread that was woken for something else parks too briefly.
pub fn sleep(time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        std::thread::park_timeout(until.saturating_duration_since(Instant::now()));
    }
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn service(name: &str, cluster_ip: IpAddr) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "clusterIP": cluster_ip, "ports": [
            { "name": "http", "port": 80, "targetPort": 8080 },
            { "name": "echo", "port": 81, "targetPort": 8081 },
            { "name": "dns", "port": 53, "targetPort": 9090, "protocol": "UDP" },
        ] },
    })
}

fn slice(name: &str, pods: &[&str]) -> Value {
    let endpoint =
        |pod: &&str| json!({ "addresses": [pod], "nodeName": name, "conditions": { "ready": true } });
    json!({
        "metadata": { "name": format!("{name}-1"), "labels": { "kubernetes.io/service-name": name } },
        "addressType": "IPv4",
        "ports": [
            { "name": "http", "port": 8080, "protocol": "TCP" },
            { "name": "echo", "port": 8081, "protocol": "TCP" },
            { "name": "dns", "port": 9090, "protocol": "UDP" },
        ],
        "endpoints": pods.iter().map(endpoint).collect::<Vec<_>>(),
    })
}
