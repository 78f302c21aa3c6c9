//! A node of a real cluster with three pods behind one Service, and the proxies that can serve it.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ferrule_model::Protocol::Tcp;
use ferrule_testkit::Program;
use ferrule_testkit::api_server::{ApiServer, User, program};
use ferrule_testkit::netns::{NetSpec, NetWorld};
use serde_json::{Value, json};

use crate::clients::connect;

pub const PATIENCE: Duration = Duration::from_mins(1);
const NODE: &str = "192.0.2.10";
const PODS: [&str; 3] = ["10.244.1.5", "10.244.1.6", "10.244.1.7"];
pub const ASKING_POD: &str = "10.244.1.100";
/// How often each of four clients connects.
pub const EVERY: Duration = Duration::from_millis(4);

/// Who serves, and in which mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proxy {
    KubeProxy(&'static str),
    Ferrule(&'static str),
}

impl Proxy {
    pub fn mode(self) -> &'static str {
        match self {
            Self::KubeProxy(mode) | Self::Ferrule(mode) => mode,
        }
    }
}

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
        let cluster_ip = &format!("10.96.71.{number}");
        let mut spec = NetSpec::node([ip(NODE)]).pod(ip(ASKING_POD), &[]);
        for pod in PODS {
            spec = spec.pod(ip(pod), &[(Tcp, 8080)]);
        }
        let net = NetWorld::build(spec).map_err(|error| error.with_sources()).expect("a world");
        let server = ApiServer::shared();
        server.join(net.node(), [172, 31, 71, number].into()).expect("a way to the API server");
        let create = |path: &str, object: Value| {
            server.create(path, &object).map_err(|error| error.with_sources()).expect("an object");
        };
        create("/api/v1/nodes", json!({ "metadata": { "name": name } }));
        let status = json!({ "status": { "addresses": [{ "type": "InternalIP", "address": NODE }] } });
        server.patch(&format!("/api/v1/nodes/{name}/status"), &status).expect("the node's address");
        create("/api/v1/namespaces/default/services", service(name, cluster_ip));
        create("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice(name));
        for pod in PODS {
            let namespace = net.namespace_of(ip(pod)).expect("the pod");
            namespace
                .run(|| say_back(SocketAddr::new(ip(pod), 8081)))
                .expect("the namespace")
                .expect("a server");
        }
        Self { net, name, service: SocketAddr::new(ip(cluster_ip), 80) }
    }

    /// Where what is said comes back.
    pub fn echo(&self) -> SocketAddr {
        SocketAddr::new(self.service.ip(), 81)
    }

    /// Where the Service is.
    pub fn service(&self) -> SocketAddr {
        self.service
    }

    /// Starts a proxy.
    pub fn run(&self, proxy: Proxy) -> Program {
        match proxy {
            Proxy::KubeProxy(mode) => self.start_kube_proxy(mode),
            Proxy::Ferrule(mode) => {
                let mode = format!("--proxy-mode={mode}");
                self.start(Path::new(env!("CARGO_BIN_EXE_ferrule-under-test")), &["-v=2", &mode])
            }
        }
    }

    fn start_kube_proxy(&self, mode: &str) -> Program {
        let mode = format!("--proxy-mode={mode}");
        // A namespace may not write these settings, and kube-proxy dies of that.
        let unwritten = [
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
        ];
        let mut arguments = vec!["-v=2", mode.as_str()];
        arguments.extend(unwritten);
        self.start(&program("kube-proxy"), &arguments)
    }

    fn start(&self, program: &Path, more: &[&str]) -> Program {
        let kubeconfig = ApiServer::shared().kubeconfig(User::KubeProxy).expect("a kubeconfig");
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let name = format!("--hostname-override={}", self.name);
        let mut arguments = vec![kubeconfig.as_str(), &name, "--cluster-cidr=10.244.0.0/16"];
        arguments.extend(more);
        Program::start(self.net.node(), program, &arguments).expect("it starts")
    }

    /// Waits until connections are answered.
    ///
    /// Each try has a port of its own, which is none of the clients': the node remembers where a connection went that nobody
    /// served yet, and what comes from the same port later goes there too.
    pub fn wait_until_served(&self) {
        let give_up = Instant::now() + PATIENCE;
        let mut from = SocketAddr::new(ip(ASKING_POD), 1024);
        for to in [self.service, self.echo()] {
            let connects = move |from| connect((from, to), Duration::from_millis(200)).is_ok();
            while !self.in_asking_pod(move || connects(from)).join().expect("a client") {
                assert!(Instant::now() < give_up, "nobody serves");
                from.set_port(from.port() + 1);
                std::thread::park_timeout(Duration::from_millis(10));
            }
        }
    }

    /// Runs something in the pod that asks, on a thread of its own.
    pub fn in_asking_pod<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let namespace = self.net.namespace_of(ip(ASKING_POD)).expect("the pod");
        namespace.run(|| std::thread::spawn(work)).expect("the pod's namespace")
    }

    /// The rules of iptables.
    pub fn iptables(&self) -> String {
        self.output("iptables-save", &[])
    }

    /// The rules and chains of proxies in iptables, in both families and both variants.
    pub fn rules_in_iptables(&self) -> Vec<String> {
        let programs =
            ["iptables-nft-save", "ip6tables-nft-save", "iptables-legacy-save", "ip6tables-legacy-save"];
        let saved: String = programs.iter().map(|program| self.output(program, &[])).collect();
        saved.lines().filter(|line| is_of_a_proxy(line)).map(str::to_owned).collect()
    }

    /// The tables of proxies in nftables.
    pub fn tables_of_proxies(&self) -> Vec<String> {
        let tables = self.output("nft", &["list", "tables"]);
        tables.lines().filter(|line| line.contains("kube-proxy")).map(str::to_owned).collect()
    }

    /// Has everything of proxies removed.
    pub fn clean_up(&self) {
        let cleanup = self.start(Path::new(env!("CARGO_BIN_EXE_ferrule-under-test")), &["--cleanup"]);
        let said = cleanup.wait_for("Cleaned up", 0, PATIENCE);
        assert!(said.is_some(), "{}", cleanup.log().join("\n"));
        assert!(cleanup.wait().expect("it ends").success());
    }

    /// The chains of the table.
    pub fn chains(&self) -> String {
        self.output("nft", &["list", "chains", "ip"])
    }

    fn output(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.net.node().feed(program, arguments, "").map_err(|error| error.with_sources());
        String::from_utf8(output.expect("a program that succeeds").stdout).expect("text")
    }
}

/// Whether a line of `iptables-save` is a proxy's; `KUBE-FIREWALL` and its jumps are the kubelet's as well.
fn is_of_a_proxy(line: &str) -> bool {
    line.contains("KUBE-") && !line.contains("KUBE-FIREWALL")
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

pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn service(name: &str, cluster_ip: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "clusterIP": cluster_ip, "ports": [
            { "name": "http", "port": 80, "targetPort": 8080 },
            { "name": "echo", "port": 81, "targetPort": 8081 },
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
            { "name": "echo", "port": 8081, "protocol": "TCP" },
        ],
        "endpoints": PODS.iter().map(endpoint).collect::<Vec<_>>(),
    })
}
