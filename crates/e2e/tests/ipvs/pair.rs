//! The same node twice, in two namespaces: the real kube-proxy on one, Ferrule on the other.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use ferrule_testkit::api_server::{ApiServer, Objects, User, objects_of, program};
use ferrule_testkit::netns::Namespace;
use ferrule_testkit::{Program, World};
use serde_json::json;

use crate::dump::Dump;
use crate::kernel::SeenNode;

/// kube-proxy runs a program for each entry of a set, on a processor that is imitated.
const PATIENCE: Duration = Duration::from_mins(3);
const PAUSE: Duration = Duration::from_millis(500);
const NODE: &str = "node-a";
const ADDRESSES: [&str; 4] = ["192.0.2.10/32", "192.0.2.77/32", "2001:db8::10/128", "2001:db8::77/128"];

/// One of them.
pub struct Side {
    namespace: Namespace,
    api_address: Ipv4Addr,
    running: Option<Program>,
}

/// Both nodes, and what the API server was told.
pub struct Pair {
    server: &'static ApiServer,
    theirs: Side,
    ours: Side,
    there: Objects,
    markers: u16,
}

impl Side {
    /// A node that reaches the API server from an address with this last number, of three digits: the text of one is then not
    /// a part of that of another.
    pub fn new(server: &ApiServer, name: &str, last: u8) -> Self {
        let namespace = Namespace::new(name).expect("a namespace");
        let api_address = Ipv4Addr::new(172, 31, 73, last);
        server.join(&namespace, api_address).expect("a way to the API server");
        let commands = ADDRESSES.map(|address| format!("address add {address} dev lo\n")).concat();
        namespace.feed("ip", &["-batch", "-"], &commands).expect("the node's addresses");
        Self { namespace, api_address, running: None }
    }

    fn start(&mut self, program: &Path, more: &[&str]) {
        let kubeconfig = ApiServer::shared().kubeconfig(User::KubeProxy).expect("a kubeconfig");
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let name = format!("--hostname-override={NODE}");
        let mut arguments = vec![kubeconfig.as_str(), &name];
        arguments.extend(["-v=2", "--proxy-mode=ipvs", "--cluster-cidr=10.244.0.0/16,fd44::/32"]);
        arguments.extend(more);
        self.running = Some(Program::start(&self.namespace, program, &arguments).expect("it starts"));
    }

    /// What an operator sees.
    pub fn dump(&self) -> Dump {
        Dump::read(&self.namespace, &self.api_address.to_string())
    }

    /// Runs something on the node.
    pub fn run<T: Send>(&self, code: impl FnOnce() -> T + Send) -> T {
        self.namespace.run(code).expect("the node")
    }

    /// Ends the proxy.
    pub fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.kill().expect("it is killed");
        }
    }

    /// Waits until the proxy says something; the line.
    pub fn wait_for(&self, text: &str, patience: Duration) -> Option<String> {
        self.running.as_ref()?.wait_for(text, 0, patience)
    }

    /// What the proxy has used so far.
    pub fn processor_time(&self) -> Duration {
        self.running.as_ref().map(Program::processor_time).unwrap_or_default()
    }

    /// Its memory in MiB: current and peak.
    pub fn resident(&self) -> (f64, f64) {
        self.running.as_ref().map(Program::resident).unwrap_or_default()
    }

    /// The end of its log.
    pub fn log(&self) -> String {
        let log = self.running.as_ref().map(Program::log).unwrap_or_default();
        log.iter().rev().take(10).rev().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

/// Starts the real kube-proxy on a node.
pub fn kube_proxy(side: &mut Side) {
    // A namespace may not write these settings, and kube-proxy dies of that.
    let unwritten = [
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0",
        "--conntrack-tcp-timeout-close-wait=0",
        "--ipvs-min-sync-period=100ms",
    ];
    side.start(&program("kube-proxy"), &unwritten);
}

/// Starts Ferrule on a node.
pub fn ours(side: &mut Side) {
    side.start(Path::new(env!("CARGO_BIN_EXE_ferrule-under-test")), &[]);
}

impl Pair {
    /// Two nodes on which nothing runs yet.
    pub fn new() -> Self {
        let server = ApiServer::shared();
        let (theirs, ours) = (Side::new(server, "kube-proxy", 101), Side::new(server, "ferrule", 102));
        Self { server, theirs, ours, there: Objects::new(), markers: 0 }
    }

    /// Tells the API server of a cluster, starts the proxies if they do not run, and waits until both have the same; how many
    /// lines, or what differs.
    pub fn settle(&mut self, lines: &str) -> Result<usize, String> {
        let told = |error: ferrule_testkit::api_server::ApiServerError| error.with_sources();
        let mut world = World::default();
        let unreadable = |error: ferrule_testkit::WorldError| error.to_string();
        world.say(lines).map_err(unreadable)?;
        if self.theirs.running.is_none() {
            self.server.put_node(world.stated_node()).map_err(told)?;
        } else {
            let labels = json!({ "topology.kubernetes.io/zone": world.stated_node().metadata.labels.zone });
            let patch = json!({ "metadata": { "labels": labels } });
            self.server.patch(&format!("/api/v1/nodes/{NODE}"), &patch).map_err(told)?;
        }
        self.markers += 1;
        let [block, last] = self.markers.to_be_bytes();
        let marker = Ipv4Addr::new(10, 99, block, last);
        let lines = format!(
            "service default/marker-{0}  ClusterIP  clusterIP {marker}  port 7→7/tcp\n\
             endpoint default/marker-{0} 10.244.9.9  node node-z  ready",
            self.markers
        );
        world.say(&lines).map_err(unreadable)?;
        self.server.bring_about(&mut self.there, objects_of(&world)).map_err(told)?;
        if self.theirs.running.is_none() {
            kube_proxy(&mut self.theirs);
            ours(&mut self.ours);
        }
        self.wait_until_equal(marker.into())
    }

    fn wait_until_equal(&self, marker: IpAddr) -> Result<usize, String> {
        let give_up = Instant::now() + PATIENCE;
        let has_marker = |side: &Side| {
            let seen = side.run(SeenNode::read).expect("the kernel's answer");
            !seen.real_servers_of(SocketAddr::new(marker, 7)).is_empty()
        };
        // An operator's programs are slow here, and would hold kube-proxy up.
        while Instant::now() < give_up && !(has_marker(&self.theirs) && has_marker(&self.ours)) {
            std::thread::park_timeout(PAUSE);
        }
        loop {
            let (theirs, ours) = (self.theirs.dump(), self.ours.dump());
            if theirs == ours {
                return Ok(ours.len());
            }
            if Instant::now() > give_up {
                let differences = Dump::differences(&theirs, &ours);
                let (ours, theirs) = (self.ours.log(), self.theirs.log());
                return Err(format!("{differences}\nours:\n{ours}\ntheirs:\n{theirs}"));
            }
            std::thread::park_timeout(PAUSE);
        }
    }

    /// Ferrule in the place of kube-proxy, which left everything: what it said of its first syncs. Nothing differs afterwards.
    pub fn hand_over(&mut self) -> Vec<String> {
        let before = self.theirs.dump();
        if let Some(kube_proxy) = self.theirs.running.take() {
            kube_proxy.kill().expect("it is killed");
        }
        ours(&mut self.theirs);
        let ferrule = self.theirs.running.as_ref().expect("it runs");
        let said = ["IPv4", "IPv6"].map(|family| {
            let line = ferrule.wait_for(&format!("family=\"{family}\" written="), 0, PATIENCE);
            line.unwrap_or_else(|| self.theirs.log())
        });
        assert_eq!(Dump::differences(&before, &self.theirs.dump()), "");
        said.to_vec()
    }
}

impl Drop for Pair {
    /// The next test begins with an empty cluster.
    fn drop(&mut self) {
        let _ = self.server.bring_about(&mut self.there, Objects::new());
    }
}
