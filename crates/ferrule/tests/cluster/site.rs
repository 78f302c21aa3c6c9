//! A node with three pods and an outside client, joined to the API server, and the words in which tests speak of it.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use ferrule_model::Protocol::Tcp;
use ferrule_plan::Packet;
use ferrule_testkit::Program;
use ferrule_testkit::api_server::{ApiServer, User, kubeconfig_text};
use ferrule_testkit::netns::{NetSpec, NetWorld, Seen};
use serde_json::{Value, json};

pub const BINARY: &str = env!("CARGO_BIN_EXE_ferrule");
pub const NODE: &str = "192.0.2.10";
pub const PODS: [&str; 3] = ["10.244.1.5", "10.244.1.6", "10.244.1.7"];
pub const ASKING_POD: &str = "10.244.1.100";
pub const CLIENT: &str = "203.0.113.5";
/// Beyond the node, with a server, at an address that a ServiceCIDR can cover.
pub const COVERED: &str = "10.200.7.9";
/// Long enough for anything that should happen, on a machine that does much else.
pub const PATIENCE: Duration = Duration::from_mins(1);
const FIRST_NODE_PORT: u16 = 30_000;
const BRIEFLY: Duration = Duration::from_millis(100);

/// A node of the cluster. Its name is also that of the Kubernetes namespace its test uses.
pub struct Site<'a> {
    pub name: &'static str,
    pub server: &'a ApiServer,
    pub net: NetWorld,
    folder: tempfile::TempDir,
}

/// A Service as the API server made it.
pub struct Made {
    pub cluster_ip: String,
    pub node_port: u16,
    pub check_port: u16,
}

impl<'a> Site<'a> {
    /// A node that the cluster knows.
    pub fn new(server: &'a ApiServer, name: &'static str) -> Self {
        let site = Self::unknown(server, name);
        let address = json!([{ "type": "InternalIP", "address": NODE }]);
        site.put("/api/v1/nodes", &json!({ "metadata": { "name": name } }));
        let status = json!({ "status": { "addresses": address } });
        server.patch(&format!("/api/v1/nodes/{name}/status"), &status).expect("the Node has an address");
        site
    }

    /// A node that the cluster does not know.
    pub fn unknown(server: &'a ApiServer, name: &'static str) -> Self {
        let mut spec = NetSpec::node([ip(NODE)]).beyond(ip(CLIENT), &[]).pod(ip(ASKING_POD), &[]);
        spec = spec.beyond(ip(COVERED), &[(Tcp, 80)]);
        for pod in PODS {
            spec = spec.pod(ip(pod), &[(Tcp, 8080)]);
        }
        let net = NetWorld::build(spec).map_err(|error| error.with_sources()).expect("a world");
        let joined = server.join(net.node(), unused_address());
        joined.map_err(|error| error.with_sources()).expect("a cable to the API server");
        let site = Self { name, server, net, folder: tempfile::tempdir().expect("a folder") };
        site.put("/api/v1/namespaces", &json!({ "metadata": { "name": name } }));
        site
    }

    pub fn put(&self, collection: &str, object: &Value) -> Value {
        self.server.create(collection, object).map_err(|error| error.with_sources()).expect("it is created")
    }

    /// A file of this test's own.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("a file is written");
        path
    }

    /// A kubeconfig with this user in it.
    pub fn kubeconfig(&self, user: &Value) -> PathBuf {
        self.file("kubeconfig", &kubeconfig_text(&self.server.url(), &self.server.ca_file(), user))
    }

    /// The usual arguments, as kube-proxy's own user.
    pub fn arguments(&self) -> Vec<String> {
        let kubeconfig = self.kubeconfig(&json!({ "token": User::KubeProxy.token() }));
        vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--hostname-override={}", self.name),
            "--proxy-mode=nftables".into(),
            "--cluster-cidr=10.244.0.0/16".into(),
            "-v=2".into(),
        ]
    }

    /// Starts the program with more arguments.
    pub fn start(&self, more: &[&str]) -> Program {
        let mut arguments = self.arguments();
        arguments.extend(more.iter().map(|&argument| argument.to_owned()));
        Program::start(self.net.node(), Path::new(BINARY), &arguments).expect("the program starts")
    }

    /// Starts the program and waits until its rules are in the kernel.
    pub fn serve(&self) -> Program {
        let program = self.start(&[]);
        self.until_ready(&program);
        program
    }

    /// Waits until all rules are in the kernel.
    pub fn until_ready(&self, program: &Program) {
        let ready = within(PATIENCE, || (self.get(10256, "/readyz")?.status == 200).then_some(()));
        assert!(ready.is_some(), "never ready:\n{}", program.log().join("\n"));
    }

    /// Creates a Service `web`, with what its spec is to have beside a port.
    pub fn service(&self, name: &str, more: Value) -> Made {
        let mut object = json!({
            "metadata": { "name": name },
            "spec": { "type": "NodePort", "ports": [{ "name": "http", "port": 80, "targetPort": 8080 }] },
        });
        merge(&mut object["spec"], more);
        let made = self.put(&self.services(), &object);
        let port = |value: &Value| value.as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(0);
        Made {
            cluster_ip: made["spec"]["clusterIP"].as_str().unwrap_or_default().to_owned(),
            node_port: port(&made["spec"]["ports"][0]["nodePort"]),
            check_port: port(&made["spec"]["healthCheckNodePort"]),
        }
    }

    pub fn services(&self) -> String {
        format!("/api/v1/namespaces/{}/services", self.name)
    }

    pub fn slices(&self) -> String {
        format!("/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices", self.name)
    }

    /// Creates the endpoints of a Service.
    pub fn slice(&self, service: &str, pods: &[&str]) {
        let object = json!({
            "metadata": { "name": format!("{service}-1"), "labels": { "kubernetes.io/service-name": service } },
            "addressType": "IPv4", "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
            "endpoints": self.endpoints(pods),
        });
        self.put(&self.slices(), &object);
    }

    /// Gives a Service other endpoints.
    pub fn change_slice(&self, service: &str, pods: &[&str]) {
        let change = json!({ "endpoints": self.endpoints(pods) });
        self.server.patch(&format!("{}/{service}-1", self.slices()), &change).expect("the slice is changed");
    }

    pub fn delete(&self, path: &str) {
        self.server.delete(path).map_err(|error| error.with_sources()).expect("it is deleted");
    }

    fn endpoints(&self, pods: &[&str]) -> Value {
        let endpoint = |pod: &&str| json!({ "addresses": [pod], "nodeName": self.name, "conditions": { "ready": true, "serving": true } });
        pods.iter().map(endpoint).collect()
    }

    /// Asks until the answer is one of these pods'.
    pub fn answered(&self, from: &str, to: &str, port: u16, pods: &[&str]) {
        self.ask_until(
            from,
            (to, port),
            &format!("an answer of {pods:?}"),
            |seen| matches!(seen, Seen::Answered { by, .. } if pods.iter().any(|pod| ip(pod) == by.ip())),
        );
    }

    pub fn ask_until(
        &self,
        from: &str,
        (to, port): (&str, u16),
        what: &str,
        is_wanted: impl Fn(&Seen) -> bool,
    ) {
        let mut last = None;
        let found = within(PATIENCE, || {
            let seen = self.ask(from, to, port);
            let wanted = is_wanted(&seen).then_some(());
            last = Some(seen);
            wanted
        });
        assert!(found.is_some(), "{from} to {to}:{port} was to see {what}, but saw {last:?}");
    }

    /// What becomes of a connection.
    pub fn ask(&self, from: &str, to: &str, port: u16) -> Seen {
        let packet = Packet { from: ip(from), interface: None, to: ip(to), port: Some((Tcp, port)) };
        self.net.probe(&packet, BRIEFLY).expect("a probe")
    }

    /// Asks a page on the node: where node ports are for health checks of Services, else on its loopback address.
    pub fn get(&self, port: u16, path: &str) -> Option<Page> {
        let address = if port >= FIRST_NODE_PORT { ip(NODE) } else { Ipv4Addr::LOCALHOST.into() };
        self.get_at(SocketAddr::new(address, port), path)
    }

    /// Asks a page at an address of the node.
    pub fn get_at(&self, address: SocketAddr, path: &str) -> Option<Page> {
        self.net.node().run(|| page(address, path)).expect("the node")
    }

    /// Asks a page until it is as wanted.
    pub fn page_until(&self, port: u16, path: &str, is_wanted: impl Fn(&Page) -> bool) -> Page {
        let mut last = None;
        let found = within(PATIENCE, || {
            let page = self.get(port, path);
            last.clone_from(&page);
            page.filter(&is_wanted)
        });
        assert!(found.is_some(), "{path} on {port} last answered {last:?}");
        found.expect("just looked at")
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Page {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

fn page(address: SocketAddr, path: &str) -> Option<Page> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8(answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let is_chunked = headers.contains(&("transfer-encoding".to_owned(), "chunked".to_owned()));
    let body = if is_chunked { unchunked(body)? } else { body.to_owned() };
    Some(Page { status, headers, body })
}

fn unchunked(mut rest: &str) -> Option<String> {
    let mut body = String::new();
    loop {
        let (length, after) = rest.split_once("\r\n")?;
        let length = usize::from_str_radix(length.trim(), 16).ok()?;
        if length == 0 {
            return Some(body);
        }
        body.push_str(after.get(..length)?);
        rest = after.get(length + 2..)?;
    }
}

/// Tries until there is something; `None` if it does not come in this time.
#[expect(clippy::disallowed_methods, reason = "a pause between looks at another program")]
pub fn within<T>(patience: Duration, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let give_up = Instant::now() + patience;
    loop {
        let found = attempt();
        if found.is_some() || Instant::now() > give_up {
            return found;
        }
        // What is asked is on this machine, and answers at once.
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn merge(into: &mut Value, more: Value) {
    if let (Some(into), Value::Object(more)) = (into.as_object_mut(), more) {
        into.extend(more);
    }
}

fn unused_address() -> Ipv4Addr {
    static LAST: AtomicU8 = AtomicU8::new(1);
    Ipv4Addr::new(172, 31, 2, LAST.fetch_add(1, Ordering::Relaxed))
}
