//! The same node twice, with the same pods and clients around it: the real kube-proxy on one, Ferrule on the other.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use ferrule_kernel::dummy::LinkClient;
use ferrule_kernel::port::ServiceInterface as _;
use ferrule_plan::Packet;
use ferrule_testkit::api_server::{ApiServer, Objects, User, objects_of, program};
use ferrule_testkit::netns::{NetSpec, NetWorld, Probe, Seen};
use ferrule_testkit::{Program, World};
use ferrule_watch::api;
use serde_json::{Value, json};

use crate::configuration::configuration;
use crate::dump::Dump;
use crate::marker::Marker;
use crate::shadow::Shadow;

const BRIEFLY: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(3);
/// kube-proxy does not try a failed first sync again, and may start without its Node's zone: another start makes it good.
const NUDGES: usize = 4;
/// Enough to see both endpoints of a marker, if both are used.
const MARKER_TRIES: usize = 16;
/// Flows are forgotten quickly, so that a port used again is a new flow.
const SHORT_MEMORY: [(&str, &str); 6] = [
    // A connection that was tried before there were rules for it would stay without them.
    ("net/netfilter/nf_conntrack_tcp_timeout_syn_sent", "1"),
    ("net/netfilter/nf_conntrack_udp_timeout", "1"),
    ("net/netfilter/nf_conntrack_udp_timeout_stream", "1"),
    ("net/netfilter/nf_conntrack_tcp_timeout_time_wait", "1"),
    ("net/netfilter/nf_conntrack_tcp_timeout_close", "1"),
    ("net/netfilter/nf_conntrack_icmp_timeout", "1"),
];

/// How long a proxy may take. Where the kernel has IPVS the processor is an imitated one, and kube-proxy runs a program for each
/// entry of a set.
fn patience() -> Duration {
    if std::env::var_os("FERRULE_TEST_IPVS").is_some() {
        Duration::from_mins(6)
    } else {
        Duration::from_mins(1)
    }
}

/// One of the two nodes.
pub struct Side {
    pub net: NetWorld,
    api_address: Ipv4Addr,
    program: PathBuf,
    /// Flags that only this one has.
    flags: Vec<String>,
    running: Option<Program>,
    /// What looks on.
    shadow: Option<Shadow>,
}

/// Both nodes, and what the API server was told for them.
pub struct Pair {
    server: &'static ApiServer,
    pub theirs: Side,
    pub ours: Side,
    there: Objects,
    node: api::Node,
    running: Value,
    /// The Service that was written last.
    marker: String,
}

/// What differs in what an operator sees.
pub struct Unequal {
    pub differences: String,
    /// Whether kube-proxy has real servers that we do not have, and all else is equal.
    pub is_kube_proxys_stale_server: bool,
}

impl Unequal {
    pub fn because(problem: String) -> Self {
        Self { differences: problem, is_kube_proxys_stale_server: false }
    }
}

impl Side {
    fn new(server: &ApiServer, program: PathBuf, spec: NetSpec) -> Self {
        let net = NetWorld::build(spec).map_err(|error| error.with_sources()).expect("a world");
        net.node().set_all(&SHORT_MEMORY).expect("the node's settings");
        let api_address = unused_address();
        let joined = server.join(net.node(), api_address);
        joined.map_err(|error| error.with_sources()).expect("a cable to the API server");
        Self { net, api_address, program, flags: Vec::new(), running: None, shadow: None }
    }

    fn start(&mut self, file: &Path) {
        self.running = None;
        let mut arguments = vec![format!("--config={}", file.display())];
        arguments.extend(self.flags.iter().cloned());
        self.running = Some(Program::start(self.net.node(), &self.program, &arguments).expect("it starts"));
    }

    /// Waits until it answers as one that has seen everything.
    fn wait_for(&self, marker: &Marker, patience: Duration) -> Result<(), String> {
        let give_up = Instant::now() + patience;
        let packets = marker.packets(self.net.spec());
        while Instant::now() < give_up {
            // Asking takes processor time, too.
            std::thread::park_timeout(BRIEFLY);
            let seen = self.net.probe_all(&probes(&packets, 1, BRIEFLY)).expect("probes");
            if seen.iter().all(|seen| marker.is_answered(seen)) {
                let seen = self.net.probe_all(&probes(&packets, MARKER_TRIES, LONG)).expect("probes");
                if seen.iter().all(|seen| marker.is_answered(seen)) {
                    return Ok(());
                }
            }
        }
        Err(format!("{} never came to serve the marker:\n{}", self.program.display(), self.log()))
    }

    /// The end of its log.
    fn log(&self) -> String {
        let log = self.running.as_ref().map(Program::log).unwrap_or_default();
        let end: Vec<&str> = log.iter().rev().take(8).rev().map(String::as_str).collect();
        end.join("\n")
    }

    /// What an operator sees of ipvs mode.
    fn dump(&self) -> Dump {
        Dump::read(self.net.node(), &self.api_address.to_string()).without_drained()
    }

    /// What is seen of each packet in so many tries.
    pub fn ask(&self, packets: &[Packet], tries: usize, patience: Duration) -> Vec<BTreeSet<Seen>> {
        let seen = self.net.probe_all(&probes(packets, tries, patience)).expect("probes");
        let bound = self.net.node().run(bound_addresses).expect("the node");
        let seen: Vec<Seen> = seen.into_iter().map(|seen| with_any_bound_source(seen, &bound)).collect();
        seen.chunks(tries).map(|chunk| chunk.iter().cloned().collect()).collect()
    }
}

/// The service addresses of IPv6 that a node has: in ipvs mode all of them.
fn bound_addresses() -> Vec<IpAddr> {
    let mut links = LinkClient::open().expect("a netlink socket");
    let link = links.find("kube-ipvs0").expect("the kernel's answer");
    let addresses = link.map(|link| links.addresses(&link).expect("its addresses")).unwrap_or_default();
    addresses.into_iter().filter(IpAddr::is_ipv6).collect()
}

/// In ipvs mode the kernel masquerades over IPv6 with any of the service addresses that the node has: which one depends on the order
/// in which they were bound, and kube-proxy's is random.
fn with_any_bound_source(seen: Seen, bound: &[IpAddr]) -> Seen {
    match seen {
        Seen::Answered { by, source_seen } if bound.contains(&source_seen) => {
            Seen::Answered { by, source_seen: IpAddr::V6(Ipv6Addr::UNSPECIFIED) }
        }
        other => other,
    }
}

impl Pair {
    /// Two worlds of these hosts; nothing runs yet.
    pub fn build(spec: NetSpec) -> Self {
        let server = ApiServer::shared();
        let spec = Marker::inhabit(spec);
        Self {
            server,
            theirs: Side::new(server, program("kube-proxy"), spec.clone()),
            ours: Side::new(server, env!("CARGO_BIN_EXE_ferrule-under-test").into(), spec),
            there: Objects::new(),
            node: api::Node::default(),
            running: Value::Null,
            marker: String::new(),
        }
    }

    /// Whether Ferrule in shadow mode finds on kube-proxy's node what the plan says, once it has seen everything.
    pub fn shadow_agrees(&self) -> Result<(), String> {
        match &self.theirs.shadow {
            Some(shadow) => shadow.wait_until_it_agrees(&self.marker, patience() / 3),
            None => Err("nothing looks on".to_owned()),
        }
    }

    /// What Ferrule in shadow mode finds to differ on kube-proxy's node, once it finds something.
    pub fn shadow_differences(&self, patience: Duration) -> Vec<String> {
        self.theirs.shadow.as_ref().map(|shadow| shadow.wait_for_differences(patience)).unwrap_or_default()
    }

    /// Ends kube-proxy; its rules stay.
    pub fn end_theirs(&mut self) {
        self.theirs.running = None;
        self.running = Value::Null;
    }

    /// Ends what looks on, and starts it again.
    pub fn start_shadow_again(&mut self) {
        self.theirs.shadow = None;
        self.theirs.shadow = Some(Shadow::start(self.theirs.net.node(), &self.file(), &[]));
    }

    /// Runs Ferrule with this flag.
    pub fn with_flag(mut self, flag: &str) -> Self {
        self.ours.flags.push(flag.to_owned());
        self
    }

    /// Tells the API server of a world and waits until both proxies know.
    pub fn settle(&mut self, world: &World) -> Result<(), String> {
        let told = |error: ferrule_testkit::api_server::ApiServerError| error.with_sources();
        self.put_node(world.stated_node());
        let wanted = objects_of(world);
        self.server.make_namespaces_of(&wanted).map_err(told)?;
        // After all others: a marker that is seen says that they were.
        self.server.bring_about(&mut self.there, wanted.clone()).map_err(told)?;
        let mut seen = Ok(());
        for _ in 0..NUDGES {
            let marker = Marker::new(next_marker(), world.stated_node().metadata.labels.zone.clone());
            let mut with_marker = wanted.clone();
            marker.add_to(&mut with_marker);
            self.marker = marker.name();
            self.server.bring_about(&mut self.there, with_marker).map_err(told)?;
            self.run(world);
            self.ours.wait_for(&marker, patience())?;
            seen = self.theirs.wait_for(&marker, patience() / 3);
            if seen.is_ok() {
                break;
            }
            let file = self.file();
            self.theirs.start(&file);
        }
        seen
    }

    /// Waits until an operator sees the same of ipvs mode on both nodes: how many lines, or what differs.
    pub fn wait_until_equal(&self) -> Result<usize, Unequal> {
        let give_up = Instant::now() + patience() / 3;
        loop {
            let (theirs, ours) = (self.theirs.dump(), self.ours.dump());
            if theirs == ours {
                return Ok(ours.len());
            }
            if Instant::now() > give_up {
                let differences = Dump::differences(&theirs, &ours);
                let (our_log, their_log) = (self.ours.log(), self.theirs.log());
                return Err(Unequal {
                    is_kube_proxys_stale_server: theirs.has_more_real_servers_than(&ours),
                    differences: format!("{differences}\nours:\n{our_log}\ntheirs:\n{their_log}"),
                });
            }
            std::thread::park_timeout(LONG / 6);
        }
    }

    fn put_node(&mut self, node: &api::Node) {
        if *node == self.node {
            return;
        }
        let mut with_other_zone = self.node.clone();
        with_other_zone.metadata.labels.zone.clone_from(&node.metadata.labels.zone);
        if with_other_zone == *node {
            let labels = json!({ "topology.kubernetes.io/zone": node.metadata.labels.zone });
            let patch = json!({ "metadata": { "labels": labels } });
            let patched = self.server.patch(&format!("/api/v1/nodes/{}", node.metadata.name), &patch);
            patched.map_err(|error| error.with_sources()).expect("a zone");
        } else {
            // It would be another node: both start again.
            self.running = Value::Null;
            self.server.put_node(node).map_err(|error| error.with_sources()).expect("a node");
        }
        self.node = node.clone();
    }

    /// The configuration file of both.
    fn file(&self) -> PathBuf {
        self.server.folder().join("proxies.json")
    }

    /// Starts both proxies, unless they run this way already.
    fn run(&mut self, world: &World) {
        let kubeconfig = self.server.kubeconfig(User::KubeProxy).expect("a kubeconfig");
        let wanted = configuration(&world.view, &kubeconfig);
        if wanted == self.running {
            return;
        }
        let file = self.file();
        std::fs::write(&file, wanted.to_string()).expect("a configuration file");
        self.theirs.start(&file);
        self.theirs.shadow = Some(Shadow::start(self.theirs.net.node(), &file, &[]));
        self.ours.start(&file);
        self.running = wanted;
    }
}

impl Drop for Pair {
    /// The next pair starts on an empty cluster.
    fn drop(&mut self) {
        let _ = self.server.bring_about(&mut self.there, Objects::new());
    }
}

fn probes(packets: &[Packet], tries: usize, patience: Duration) -> Vec<Probe> {
    let each = packets.iter().flat_map(|packet| std::iter::repeat_n(packet, tries));
    each.map(|packet| Probe { packet: packet.clone(), timeout: patience }).collect()
}

fn next_marker() -> u16 {
    static NEXT: std::sync::atomic::AtomicU16 = std::sync::atomic::AtomicU16::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn unused_address() -> Ipv4Addr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    static BLOCK: AtomicU8 = AtomicU8::new(82);
    let last = NEXT.fetch_add(1, Ordering::Relaxed);
    if last == 250 {
        BLOCK.fetch_add(1, Ordering::Relaxed);
    }
    Ipv4Addr::new(172, 31, BLOCK.load(Ordering::Relaxed), last.max(1))
}
