//! kube-proxy 1.25 in userspace mode, on a real API server with three Services.
//!
//! Clients connect to its own sockets, past its iptables rules: the proxies are compared, not the rules.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ferrule_testkit::api_server::{self, ApiServer, Options, User};
use serde_json::{Value, json};

use crate::endpoints::Endpoints;
use crate::peers::{Peer, wait_for};
use crate::process::{Running, ip};

/// The node's address on the wire to the API server.
const ADDRESS: &str = "172.31.90.1";

/// `None` where the programs are not built.
pub fn start(endpoints: Endpoints, namespace: &Running) -> Option<Peer> {
    let program = api_server::program("kube-proxy-userspace");
    if !program.exists() {
        eprintln!(
            "kube-proxy 1.25 is not built (scripts/peer-build kube-proxy-userspace); going on without it"
        );
        return None;
    }
    if !api_server::or_skip() {
        return None;
    }
    let server = ApiServer::start(Options::default()).expect("an API server");
    connect(&server, namespace);
    for (name, protocol, addresses) in [
        ("echo", "TCP", &endpoints.echo),
        ("source", "TCP", &endpoints.source),
        ("datagrams", "UDP", &endpoints.datagrams),
        ("degraded", "TCP", &endpoints.degraded),
    ] {
        create_service(&server, name, protocol, addresses);
    }
    let process = run(&program, &server, namespace);
    let at = |name: &str| SocketAddr::from(([127, 0, 0, 1], proxy_port(name)));
    let (echo, source, datagrams) = (at("echo"), at("source"), at("datagrams"));
    wait_for(echo);
    wait_for(source);
    Some(Peer {
        name: "kube-proxy 1.25".to_owned(),
        echo,
        source,
        degraded: Some(at("degraded")),
        datagrams: Some(datagrams),
        // Go keeps a pipe for each direction that waits for bytes.
        descriptors: 6,
        process: Some(process),
        _endpoints: endpoints,
        _files: None,
        _server: Some(server),
    })
}

/// A wire from this namespace to the API server's, and a default route, by which kube-proxy finds its own address.
fn connect(server: &ApiServer, namespace: &Running) {
    let commands = format!(
        "link add bench type veth peer name api0 netns {}\nlink set bench master cluster up\n",
        namespace.id()
    );
    server.namespace().feed("ip", &["-batch", "-"], &commands).expect("a wire to the API server");
    ip(&["address", "add", &format!("{ADDRESS}/16"), "dev", "api0"]);
    ip(&["link", "set", "api0", "up"]);
    ip(&["route", "add", "default", "via", "172.31.0.1"]);
}

fn create_service(server: &ApiServer, name: &str, protocol: &str, addresses: &[SocketAddr]) {
    let port = addresses[0].port();
    let service = json!({
        "metadata": { "name": name },
        "spec": { "ports": [{ "name": "p", "protocol": protocol, "port": port, "targetPort": port }] },
    });
    let subsets: Vec<Value> = addresses
        .iter()
        .map(|address| {
            let ports = json!([{ "name": "p", "protocol": protocol, "port": address.port() }]);
            json!({ "addresses": [{ "ip": address.ip().to_string() }], "ports": ports })
        })
        .collect();
    let endpoints = json!({ "metadata": { "name": name }, "subsets": subsets });
    server.create("/api/v1/namespaces/default/services", &service).expect("a Service");
    server.create("/api/v1/namespaces/default/endpoints", &endpoints).expect("its Endpoints");
}

fn run(program: &Path, server: &ApiServer, namespace: &Running) -> Running {
    let kubeconfig = server.kubeconfig(User::Admin).expect("a kubeconfig");
    let log = std::fs::File::create(server.folder().join("kube-proxy.log")).expect("a log");
    let mut command = Command::new("nsenter");
    command
        .args(["--user", "--preserve-credentials", "--target", &namespace.id().to_string()])
        .arg(program)
        .args([
            format!("--kubeconfig={}", kubeconfig.display()),
            "--proxy-mode=userspace".into(),
            "--feature-gates=KubeletInUserNamespace=true".into(),
            "--hostname-override=bench".into(),
            "--udp-timeout=10s".into(),
            "--conntrack-max-per-core=0".into(),
            "--conntrack-tcp-timeout-established=0".into(),
            "--conntrack-tcp-timeout-close-wait=0".into(),
        ]);
    let output = log.try_clone().expect("the log again");
    // nsenter becomes the program, so the process is kube-proxy's own.
    let child = command.stdin(Stdio::null()).stdout(output).stderr(log).spawn().expect("running nsenter");
    Running(child)
}

/// The port of a Service's socket, from the rule that leads there.
fn proxy_port(service: &str) -> u16 {
    let deadline = Instant::now() + Duration::from_mins(1);
    let comment = format!("default/{service}:p");
    loop {
        let rules =
            Command::new("iptables-save").args(["-t", "nat"]).output().expect("running iptables-save");
        let rules = String::from_utf8_lossy(&rules.stdout).into_owned();
        let rule =
            rules.lines().find(|line| line.contains("KUBE-PORTALS-CONTAINER") && line.contains(&comment));
        let port = rule.and_then(|rule| rule.rsplit(' ').next()?.parse().ok());
        if let Some(port) = port {
            return port;
        }
        assert!(Instant::now() < deadline, "kube-proxy 1.25 did not write its rules:\n{rules}");
        std::thread::park_timeout(Duration::from_millis(100));
    }
}
