//! A node of a real cluster with three pods behind one Service, and the proxies that can serve it.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ferrule_model::Protocol::Tcp;
use ferrule_testkit::Program;
use ferrule_testkit::api_server::{ApiServer, User, program};
use ferrule_testkit::netns::{NetSpec, NetWorld};
use serde_json::{Value, json};

pub const PATIENCE: Duration = Duration::from_mins(1);
const NODE: &str = "192.0.2.10";
const PODS: [&str; 3] = ["10.244.1.5", "10.244.1.6", "10.244.1.7"];
pub const ASKING_POD: &str = "10.244.1.100";

/// The node.
pub struct Node {
    net: NetWorld,
    name: &'static str,
    service: SocketAddr,
}

impl Node {
    /// The node, its object, and a Service of its own with this cluster IP.
    pub fn new(name: &'static str, cluster_ip: &str) -> Self {
        let mut spec = NetSpec::node([ip(NODE)]).pod(ip(ASKING_POD), &[]);
        for pod in PODS {
            spec = spec.pod(ip(pod), &[(Tcp, 8080)]);
        }
        let net = NetWorld::build(spec).map_err(|error| error.with_sources()).expect("a world");
        let server = ApiServer::shared();
        server.join(net.node(), way_in(cluster_ip).into()).expect("a way to the API server");
        let create = |path: &str, object: Value| {
            server.create(path, &object).map_err(|error| error.with_sources()).expect("an object");
        };
        create("/api/v1/nodes", json!({ "metadata": { "name": name } }));
        let status = json!({ "status": { "addresses": [{ "type": "InternalIP", "address": NODE }] } });
        server.patch(&format!("/api/v1/nodes/{name}/status"), &status).expect("the node's address");
        create("/api/v1/namespaces/default/services", service(name, cluster_ip));
        create("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice(name));
        Self { net, name, service: SocketAddr::new(ip(cluster_ip), 80) }
    }

    /// Where the Service is.
    pub fn service(&self) -> SocketAddr {
        self.service
    }

    /// The real kube-proxy, in this mode.
    pub fn start_kube_proxy(&self, mode: &str) -> Program {
        let mode = format!("--proxy-mode={mode}");
        // A namespace may not write these settings, and kube-proxy dies of that.
        let unwritten = [
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
        ];
        let mut arguments = vec![mode.as_str()];
        arguments.extend(unwritten);
        self.start(&program("kube-proxy"), &arguments)
    }

    /// Ferrule.
    pub fn start_ferrule(&self, arguments: &[&str]) -> Program {
        let mut all = vec!["-v=2"];
        all.extend(arguments);
        self.start(Path::new(env!("CARGO_BIN_EXE_ferrule")), &all)
    }

    fn start(&self, program: &Path, more: &[&str]) -> Program {
        let kubeconfig = ApiServer::shared().kubeconfig(User::KubeProxy).expect("a kubeconfig");
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let name = format!("--hostname-override={}", self.name);
        let mut arguments = vec![kubeconfig.as_str(), &name, "--cluster-cidr=10.244.0.0/16"];
        arguments.extend(more);
        Program::start(self.net.node(), program, &arguments).expect("it starts")
    }

    /// Waits until a connection is answered.
    pub fn wait_until_served(&self) {
        let give_up = Instant::now() + PATIENCE;
        let to = self.service;
        let connects = move || TcpStream::connect_timeout(&to, Duration::from_millis(200)).is_ok();
        while !self.in_asking_pod(connects).join().expect("a client") {
            assert!(Instant::now() < give_up, "nobody serves");
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

    /// The chains of the table.
    pub fn chains(&self) -> String {
        let listed =
            self.net.node().feed("nft", &["list", "chains"], "").map_err(|error| error.with_sources());
        String::from_utf8(listed.expect("nft succeeds").stdout).expect("text")
    }
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// An address on the way to the API server, for the node of this Service alone.
fn way_in(cluster_ip: &str) -> [u8; 4] {
    let last = cluster_ip.rsplit('.').next().and_then(|octet| octet.parse().ok());
    [172, 31, 71, last.expect("an IPv4 address")]
}

fn service(name: &str, cluster_ip: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "clusterIP": cluster_ip, "ports": [{ "name": "http", "port": 80, "targetPort": 8080 }] },
    })
}

fn slice(name: &str) -> Value {
    let endpoint =
        |pod: &&str| json!({ "addresses": [pod], "nodeName": name, "conditions": { "ready": true } });
    json!({
        "metadata": { "name": format!("{name}-1"), "labels": { "kubernetes.io/service-name": name } },
        "addressType": "IPv4",
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
        "endpoints": PODS.iter().map(endpoint).collect::<Vec<_>>(),
    })
}
