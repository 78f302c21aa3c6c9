//! A node with three pods, an outside client, and the program serving a folder on it.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use ferrule_kernel::conntrack::{Conntrack, FlowFilter, FlowQuery, UDP};
use ferrule_kernel::nft::Family;
use ferrule_model::Protocol::{self, Tcp, Udp};
use ferrule_plan::Packet;
use ferrule_testkit::Program;
use ferrule_testkit::netns::{NetSpec, NetWorld, Seen};

pub const NODE: &str = "192.0.2.10";
pub const PODS: [&str; 3] = ["10.244.1.5", "10.244.1.6", "10.244.1.7"];
pub const ASKING_POD: &str = "10.244.1.100";
pub const CLIENT: &str = "203.0.113.5";
pub const VIP: &str = "10.96.0.10";
/// Long enough for anything that should happen, on a machine that does much else.
pub const PATIENCE: Duration = Duration::from_secs(20);
const BRIEFLY: Duration = Duration::from_millis(100);

/// The world, the folder, and how the program is started.
pub struct Stand {
    pub net: NetWorld,
    folder: tempfile::TempDir,
}

impl Stand {
    /// Everybody is there, and the folder is empty.
    pub fn new() -> Self {
        let ports = [(Tcp, 8080), (Udp, 8080)];
        let mut spec = NetSpec::node([ip(NODE)]).beyond(ip(CLIENT), &[]).pod(ip(ASKING_POD), &[]);
        for pod in PODS {
            spec = spec.pod(ip(pod), &ports);
        }
        let net = NetWorld::build(spec).map_err(|error| error.with_sources()).expect("a world");
        let stand = Self { net, folder: tempfile::tempdir().expect("a folder") };
        stand.write("node.yaml", &node());
        stand
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a manifest as editors do: elsewhere first, then in one step.
    pub fn write(&self, name: &str, text: &str) {
        let elsewhere = self.folder().join(format!(".{name}.new"));
        fs::write(&elsewhere, text).expect("a manifest is written");
        fs::rename(&elsewhere, self.folder().join(name)).expect("a manifest is put in its place");
    }

    pub fn remove(&self, name: &str) {
        fs::remove_file(self.folder().join(name)).expect("a manifest is removed");
    }

    /// Starts the program and waits until its rules are in the kernel.
    pub fn serve(&self) -> Program {
        let program = self.start(&[]);
        let synced = program.wait_for("family=\"IPv6\" written=", 0, PATIENCE);
        assert!(synced.is_some(), "no first sync:\n{}", program.log().join("\n"));
        program
    }

    /// Starts the program with more arguments.
    pub fn start(&self, more: &[&str]) -> Program {
        let folder = self.folder().to_string_lossy().into_owned();
        let mut arguments = vec!["--manifests", &folder, "--hostname-override", "node-a", "-v=2"];
        arguments.extend(["--cluster-cidr", "10.244.0.0/16"]);
        arguments.extend(more);
        Program::start(self.net.node(), Path::new(BINARY), &arguments).expect("the program starts")
    }

    /// Who answers a TCP connection, or what else becomes of it.
    pub fn ask(&self, from: &str, to: &str, port: u16) -> Seen {
        let packet = Packet { from: ip(from), interface: None, to: ip(to), port: Some((Tcp, port)) };
        self.net.probe(&packet, PATIENCE).expect("a probe")
    }

    /// Asks until what is seen is as wanted.
    pub fn ask_until(&self, from: &str, to: &str, port: u16, is_wanted: impl Fn(&Seen) -> bool) -> Seen {
        until(|| Some(self.ask_briefly(from, (to, Tcp, port))).filter(&is_wanted))
    }

    pub fn ask_briefly(&self, from: &str, (to, protocol, port): (&str, Protocol, u16)) -> Seen {
        let packet = Packet { from: ip(from), interface: None, to: ip(to), port: Some((protocol, port)) };
        self.net.probe(&packet, BRIEFLY).expect("a probe")
    }

    /// How many UDP flows to an address the node's kernel knows.
    pub fn flows_to(&self, to: &str, port: u16) -> usize {
        self.flows_of(UDP, to, port)
    }

    /// How many flows of a protocol.
    pub fn flows_of(&self, protocol: u8, to: &str, port: u16) -> usize {
        let filter = FlowFilter::Destination(SocketAddr::new(ip(to), port));
        let query = FlowQuery { family: Family::Ip, protocol, filter };
        let listed = self.net.node().run(|| Conntrack::open()?.some_flows(query, |_| true));
        listed.expect("the node").expect("a list of flows").items.len()
    }

    /// Runs `nft` on the node.
    pub fn nft(&self, arguments: &[&str]) -> String {
        let output = self.net.node().feed("nft", arguments, "").map_err(|error| error.with_sources());
        String::from_utf8(output.expect("nft succeeds").stdout).expect("text")
    }
}

pub const BINARY: &str = env!("CARGO_BIN_EXE_ferrule");

/// A client with one UDP socket, so that all it sends is one flow.
pub struct Talker(UdpSocket);

impl Talker {
    pub fn new(stand: &Stand, from: &str, to: &str, port: u16) -> Self {
        let namespace = stand.net.namespace_of(ip(from)).expect("somebody with this address");
        let socket = namespace.run(|| {
            let socket = UdpSocket::bind((ip(from), 0))?;
            socket.set_read_timeout(Some(BRIEFLY))?;
            socket.connect((ip(to), port))?;
            io::Result::Ok(socket)
        });
        Self(socket.expect("the namespace").expect("a socket"))
    }

    /// Asks once: who answered, if anybody did.
    pub fn ask(&self) -> io::Result<IpAddr> {
        self.0.send(b"who?")?;
        let mut buffer = [0; 128];
        let length = self.0.recv(&mut buffer)?;
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        let who = text.split_whitespace().next().and_then(|word| word.parse::<SocketAddr>().ok());
        who.map(|who| who.ip()).ok_or_else(|| io::Error::other(text))
    }

    /// Asks until somebody answers who may.
    pub fn ask_until(&self, may_answer: &[&str]) -> IpAddr {
        until(|| self.ask().ok().filter(|who| may_answer.iter().any(|one| ip(one) == *who)))
    }

    /// Asks until nobody answers any more, with this kind of error.
    pub fn ask_until_error(&self, kinds: &[io::ErrorKind]) {
        until(|| self.ask().err().filter(|error| kinds.contains(&error.kind())).map(drop));
    }
}

/// Tries until there is something. What is tried takes a moment when there is nothing.
pub fn until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let give_up = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(Instant::now() < give_up, "nothing came of it");
    }
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

pub fn is_answered_by(seen: &Seen, pods: &[&str]) -> bool {
    matches!(seen, Seen::Answered { by, .. } if pods.iter().any(|pod| ip(pod) == by.ip()))
}

fn node() -> String {
    format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: node-a}}\n\
         status: {{addresses: [{{type: InternalIP, address: {NODE}}}]}}\n"
    )
}

/// A Service `web` with TCP 80 and UDP 53, also on node ports 30080 and 30053; more fields of its spec can be given.
pub fn service(more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: web, namespace: default}}\nspec:\n  clusterIP: {VIP}\n  \
         type: LoadBalancer\n{more}  ports:\n  - {{name: http, port: 80, targetPort: 8080, nodePort: 30080}}\n  \
         - {{name: dns, port: 53, targetPort: 8080, nodePort: 30053, protocol: UDP}}\n"
    )
}

/// Its endpoints.
pub fn slice(pods: &[&str]) -> String {
    let endpoint = |pod: &&str| {
        format!("- {{addresses: [{pod}], nodeName: node-a, conditions: {{ready: true, serving: true}}}}\n")
    };
    let endpoints: String = pods.iter().map(endpoint).collect();
    let endpoints =
        if endpoints.is_empty() { "endpoints: []\n".to_owned() } else { format!("endpoints:\n{endpoints}") };
    format!(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: web-1\n  namespace: default\n  \
         labels: {{kubernetes.io/service-name: web}}\naddressType: IPv4\nports:\n- {{name: http, port: 8080}}\n\
         - {{name: dns, port: 8080, protocol: UDP}}\n{endpoints}"
    )
}
