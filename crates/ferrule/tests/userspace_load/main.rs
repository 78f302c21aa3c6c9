//! Tens of thousands of open connections through the program in userspace mode, while others come and go.
//!
//! `make test` does some seconds of it, `make tour-userspace` a minute. Servers, clients and the program are processes of their own,
//! since descriptors are limited for a process.

#![allow(clippy::panic, reason = "a test, and its helpers, stop at the first surprise")]

mod roles;

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use ferrule_testkit::Program;
use ferrule_testkit::netns::{Namespace, NetSpec, NetWorld, or_skip};
use roles::Role;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const NODE: &str = "192.0.2.10";
const CLIENT: &str = "203.0.113.5";
/// Several, so that the node has ports enough towards each of them.
const PODS: [&str; 4] = ["10.244.1.5", "10.244.1.6", "10.244.1.7", "10.244.1.8"];
const NODE_PORT: u16 = 30080;
const HEALTH_PORT: u16 = 10256;
/// Long enough for anything that should happen, on a machine that does much else.
const PATIENCE: Duration = Duration::from_mins(10);
/// What 20,000 connections need, two descriptors each, and everything else.
const DESCRIPTORS: u64 = 64_000;
/// What the program keeps for everything else, and the part that connections leave to UDP.
const RESERVED: u64 = 4096;

/// A number from the environment.
fn setting(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn thousands_of_connections_live_while_a_thousand_a_second_come_and_go() {
    if Role::play() || !or_skip() {
        return;
    }
    let connections = open_connections(setting("LOAD_CONNECTIONS", 20_000));
    let (rate, seconds) = (setting("LOAD_RATE", 1_000), setting("LOAD_SECONDS", 5));
    let load = Load::start();
    let rest = load.measure();
    let began = Instant::now();
    let mut clients =
        Role::start(load.namespace(CLIENT), &format!("clients {NODE}:{NODE_PORT} {connections}"));
    assert_eq!(clients.line(), format!("{connections} served"));
    let opened_in = began.elapsed();
    let open = load.measure();
    assert_eq!(open.connections, connections);

    clients.say(&format!("load {rate} {seconds}"));
    let mut peak = open;
    let result = loop {
        if let Some(line) = clients.line_within(Duration::from_secs(1)) {
            break line;
        }
        peak.update(load.measure());
    };
    assert_eq!(result, format!("{} served, 0 failed []", rate * seconds));
    assert_eq!(clients.ask("again"), format!("{connections} alive"));
    let after_load = load.measure();
    clients.end();
    load.wait_until_idle();
    let end = load.wait_for_memory(&rest);
    report(&Report {
        connections,
        rate,
        seconds,
        opened_in,
        rest: &rest,
        open: &open,
        peak: &peak,
        end: &end,
    });
    for seen in [&rest, &open, &peak, &after_load, &end] {
        assert_eq!(seen.health, 200, "{seen:?}");
    }
    let log = load.program.log().join("\n");
    assert!(!log.contains("Relaying connections"), "no limit was reached:\n{log}");
    // An open connection costs less than half a kilobyte; the rest is what a thousand more a second need.
    let grown = (peak.resident - rest.resident) * f64::from(1 << 20);
    let each = grown / f64::from(u32::try_from(connections).expect("few enough"));
    assert!(each < 2048.0, "{each:.0} bytes of resident memory for each of {connections} connections");
    assert!(end.resident < rest.resident + 4.0, "{rest:?} before, {end:?} after all have ended");
}

/// As many as asked for, or as this machine permits descriptors for.
fn open_connections(wanted: usize) -> usize {
    let raised =
        setrlimit(Resource::Nofile, Rlimit { current: Some(DESCRIPTORS), maximum: Some(DESCRIPTORS) });
    let permitted = getrlimit(Resource::Nofile).maximum.unwrap_or(DESCRIPTORS);
    let usable = permitted.saturating_sub(RESERVED.min(permitted / 2)) * 15 / 16;
    // What comes and goes needs some, too.
    let most = usize::try_from(usable / 2).unwrap_or(usize::MAX).saturating_sub(300);
    if most >= wanted {
        return wanted;
    }
    let is_ci = std::env::var("CI").as_deref() == Ok("true");
    assert!(!(is_ci && may_raise_limits()), "this process may raise its limits, but: {raised:?}");
    #[expect(clippy::print_stderr, reason = "a test that does less must say so")]
    {
        eprintln!(
            "{most} connections instead of {wanted}: this machine permits {permitted} descriptors for a process, and raising \
             the limit needs CAP_SYS_RESOURCE"
        );
    }
    most
}

fn may_raise_limits() -> bool {
    const CAP_SYS_RESOURCE: u32 = 24;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    effective & (1 << CAP_SYS_RESOURCE) != 0
}

/// The world, its servers, and the program.
struct Load {
    net: NetWorld,
    program: Program,
    _servers: Vec<Role>,
    _folder: tempfile::TempDir,
}

/// What the program is like at a moment.
#[derive(Clone, Copy, Debug)]
struct Measured {
    connections: usize,
    resident: f64,
    health: u16,
}

impl Measured {
    /// The worst of both.
    fn update(&mut self, other: Self) {
        self.resident = self.resident.max(other.resident);
        self.connections = self.connections.max(other.connections);
        if other.health != 200 {
            self.health = other.health;
        }
    }
}

impl Load {
    fn start() -> Self {
        let mut spec = NetSpec::node([ip(NODE)]).beyond(ip(CLIENT), &[]);
        for pod in PODS {
            spec = spec.pod(ip(pod), &[]);
        }
        let net = NetWorld::build(spec).map_err(|error| error.with_sources()).expect("a world");
        let of = |address: &str| net.namespace_of(ip(address)).expect("somebody with this address");
        // The clients are this test's: all of them come from one address, which has ports for all of them then.
        let settings = [("net/ipv4/ip_local_port_range", "1024 65000"), ("net/ipv4/tcp_tw_reuse", "1")];
        of(CLIENT).set_all(&settings).map_err(|error| error.with_sources()).expect("settings");
        let servers = PODS.map(|pod| {
            let mut server = Role::start(of(pod), &format!("server {pod}:8080"));
            assert_eq!(server.line(), "listening");
            server
        });
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("all.yaml"), manifests()).expect("manifests are written");
        let path = folder.path().to_string_lossy().into_owned();
        let arguments =
            ["--manifests", &path, "--hostname-override", "node-a", "-v=2", "--proxy-mode", "userspace"];
        let program = Program::start(net.node(), Path::new(env!("CARGO_BIN_EXE_ferrule")), &arguments);
        let program = program.expect("the program starts");
        let synced = program.wait_for("family=\"IPv6\" written=", 0, PATIENCE);
        assert!(synced.is_some(), "no first sync:\n{}", program.log().join("\n"));
        Self { net, program, _servers: servers.into(), _folder: folder }
    }

    fn namespace(&self, address: &str) -> &Namespace {
        self.net.namespace_of(ip(address)).expect("somebody with this address")
    }

    fn measure(&self) -> Measured {
        let metrics = self.net.node().page(10249, "/metrics").expect("metrics");
        let open = metrics.lines().find_map(|line| line.strip_prefix("ferrule_relay_open_connections "));
        let connections = open.and_then(|number| number.parse().ok()).expect("the number of connections");
        let health = self.net.node().page_status(HEALTH_PORT, "/healthz").expect("an answer");
        Measured { connections, resident: self.program.resident().0, health }
    }

    fn wait_until_idle(&self) {
        let give_up = Instant::now() + PATIENCE;
        while self.measure().connections > 0 {
            assert!(Instant::now() < give_up, "connections stay open: {:?}", self.measure());
            std::thread::park_timeout(Duration::from_millis(100));
        }
    }

    /// Freed memory goes back to the system a moment later.
    fn wait_for_memory(&self, rest: &Measured) -> Measured {
        let give_up = Instant::now() + Duration::from_secs(20);
        loop {
            let now = self.measure();
            if now.resident < rest.resident + 4.0 || Instant::now() > give_up {
                return now;
            }
            std::thread::park_timeout(Duration::from_millis(200));
        }
    }
}

struct Report<'a> {
    connections: usize,
    rate: usize,
    seconds: usize,
    opened_in: Duration,
    rest: &'a Measured,
    open: &'a Measured,
    peak: &'a Measured,
    end: &'a Measured,
}

fn report(Report { connections, rate, seconds, opened_in, rest, open, peak, end }: &Report<'_>) {
    let mut text = String::new();
    let mut row = |what: &str, value: String| {
        // Writing to memory does not fail.
        let _ = writeln!(text, "| {what} | {value} |");
    };
    row("open connections", format!("{connections}, opened in {:.1} s", opened_in.as_secs_f64()));
    row("new connections meanwhile", format!("{} ({rate}/s for {seconds} s), 0 failed", rate * seconds));
    row("lost of those that were open", "0".to_owned());
    row("resident at rest", format!("{:.1} MiB", rest.resident));
    row("with all open", format!("{:.1} MiB", open.resident));
    row("most, with new ones", format!("{:.1} MiB, {} connections", peak.resident, peak.connections));
    row("after all have ended", format!("{:.1} MiB", end.resident));
    row("/healthz", peak.health.to_string());
    #[expect(clippy::print_stdout, reason = "the result of a tour")]
    {
        println!("| | |\n|---|---|\n{text}");
    }
}

fn manifests() -> String {
    let endpoint =
        |pod: &str| format!("- {{addresses: [{pod}], nodeName: node-a, conditions: {{ready: true}}}}\n");
    let endpoints: String = PODS.into_iter().map(endpoint).collect();
    format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: node-a}}\n\
         status: {{addresses: [{{type: InternalIP, address: {NODE}}}]}}\n---\n\
         apiVersion: v1\nkind: Service\nmetadata: {{name: web, namespace: default}}\nspec:\n  clusterIP: 10.96.0.10\n  \
         type: NodePort\n  ports:\n  - {{name: http, port: 80, targetPort: 8080, nodePort: {NODE_PORT}}}\n---\n\
         apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: web-1\n  namespace: default\n  \
         labels: {{kubernetes.io/service-name: web}}\naddressType: IPv4\nports:\n- {{name: http, port: 8080}}\n\
         endpoints:\n{endpoints}"
    )
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// An address with a port.
fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address and a port")
}
