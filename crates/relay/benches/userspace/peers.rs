//! The proxies that are compared.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ferrule_relay::{Pool, PoolLimits, Relay, RelayOptions};
use ferrule_testkit::api_server::ApiServer;

use crate::endpoints::{self, Endpoints};
use crate::process::{self, Running};
use crate::{THREADS, direct, kube_proxy};

/// One proxy, and where it serves each kind of endpoint.
#[derive(Debug)]
pub struct Peer {
    pub name: String,
    pub echo: SocketAddr,
    pub source: SocketAddr,
    /// Echo, with one endpoint of five that does not answer.
    pub degraded: Option<SocketAddr>,
    /// Not every proxy relays datagrams.
    pub datagrams: Option<SocketAddr>,
    /// Descriptors that it has for an open connection.
    pub descriptors: usize,
    pub process: Option<Running>,
    pub _endpoints: Endpoints,
    pub _files: Option<tempfile::TempDir>,
    pub _server: Option<ApiServer>,
}

impl Peer {
    pub fn cpu(&self) -> Duration {
        self.process.as_ref().map(|running| process::cpu(running.id())).unwrap_or_default()
    }

    pub fn resident(&self) -> u64 {
        self.process.as_ref().map(|running| process::resident(running.id())).unwrap_or_default()
    }
}

/// All that this machine has; the first is no proxy at all, the second the relay.
pub fn start(namespace: &Running) -> Vec<Peer> {
    let mut peers = vec![direct::peer(endpoints::start(1001)), ferrule(endpoints::start(1011))];
    peers.extend(haproxy(endpoints::start(1021)));
    peers.extend(spikes());
    if std::env::var_os("WITHOUT_KUBE_PROXY").is_none() {
        peers.extend(kube_proxy::start(endpoints::start(1031), namespace));
    }
    peers
}

fn listed(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn ferrule(endpoints: Endpoints) -> Peer {
    let lists = [&endpoints.echo, &endpoints.source, &endpoints.datagrams, &endpoints.degraded];
    let [echo, source, datagrams, degraded] = lists.map(|all| listed(all));
    let process = process::again(&["relay", &echo, &source, &datagrams, &degraded]);
    let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    Peer {
        name: "Ferrule".to_owned(),
        echo: at(1101),
        source: at(1102),
        degraded: Some(at(1104)),
        datagrams: Some(at(1103)),
        descriptors: 2,
        process: Some(process),
        _endpoints: endpoints,
        _files: None,
        _server: None,
    }
}

/// The relay's own process.
pub fn run_relay(arguments: &[String]) {
    let pool = |list: &String| {
        let pool = Pool::new(PoolLimits::default());
        pool.set_endpoints(list.split(',').map(|address| address.parse().unwrap()).collect());
        pool
    };
    let options = RelayOptions {
        threads: Some(THREADS),
        udp_idle_timeout: Duration::from_secs(10),
        ..RelayOptions::default()
    };
    let relay = Relay::start(options).unwrap();
    let listener = |port: u16| TcpListener::bind(("127.0.0.1", port)).unwrap();
    let _echo = relay.serve_tcp(listener(1101), pool(&arguments[0])).unwrap();
    let _source = relay.serve_tcp(listener(1102), pool(&arguments[1])).unwrap();
    let _datagrams =
        relay.serve_udp(UdpSocket::bind("127.0.0.1:1103").unwrap(), pool(&arguments[2])).unwrap();
    let _degraded = relay.serve_tcp(listener(1104), pool(&arguments[3])).unwrap();
    println!("ready");
    loop {
        std::thread::park();
    }
}

/// Other programs to compare with: `SPIKES` has paths of programs that take four lists of endpoints and the port of the first
/// listening socket, say that they are ready, and serve echo and source there and at the next port.
fn spikes() -> Vec<Peer> {
    let paths = std::env::var("SPIKES").unwrap_or_default();
    let started = paths.split_whitespace().enumerate().map(|(number, path)| {
        let number = u16::try_from(number).unwrap();
        let (endpoints, port) = (endpoints::start(1041 + 10 * number), 1301 + 10 * number);
        let mut child = Command::new(path)
            .args([listed(&endpoints.echo), listed(&endpoints.source), port.to_string(), THREADS.to_string()])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        wait_for(at(port + 1));
        assert!(child.try_wait().unwrap().is_none(), "{path} has ended");
        Peer {
            name: path.rsplit('/').next().unwrap_or(path).to_owned(),
            echo: at(port),
            source: at(port + 1),
            degraded: None,
            datagrams: None,
            descriptors: 2,
            process: Some(Running(child)),
            _endpoints: endpoints,
            _files: None,
            _server: None,
        }
    });
    started.collect()
}

fn haproxy(endpoints: Endpoints) -> Option<Peer> {
    let files = tempfile::tempdir().unwrap();
    let servers = |addresses: &[SocketAddr]| {
        let lines = addresses.iter().enumerate().map(|(at, address)| format!("  server s{at} {address}\n"));
        lines.collect::<String>()
    };
    let text = format!(
        "global\n  nbthread {THREADS}\n  maxconn {}\n  maxpipes 100\ndefaults\n  mode tcp\n  option splice-auto\n  option tcpka\n  balance roundrobin\n  \
         timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n\
         listen echo\n  bind 127.0.0.1:1201\n{}listen source\n  bind 127.0.0.1:1202\n{}\
         listen degraded\n  bind 127.0.0.1:1203\n  timeout connect 250ms\n  retries 3\n  option redispatch 1\n{}",
        (process::descriptor_limit() - 800) / 2,
        servers(&endpoints.echo),
        servers(&endpoints.source),
        servers(&endpoints.degraded)
    );
    let path = files.path().join("haproxy.cfg");
    std::fs::write(&path, text).unwrap();
    let program = ["/usr/sbin/haproxy", "haproxy"]
        .into_iter()
        .find(|name| Command::new(name).arg("-v").stdout(Stdio::null()).status().is_ok());
    let Some(program) = program else {
        eprintln!("HAProxy is not installed; going on without it");
        return None;
    };
    let process = Command::new(program).arg("-db").arg("-f").arg(&path).spawn().unwrap();
    let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    wait_for(at(1202));
    Some(Peer {
        name: "HAProxy".to_owned(),
        echo: at(1201),
        source: at(1202),
        degraded: Some(at(1203)),
        datagrams: None,
        descriptors: 2,
        process: Some(Running(process)),
        _endpoints: endpoints,
        _files: Some(files),
        _server: None,
    })
}

/// Waits until a proxy listens.
pub fn wait_for(address: SocketAddr) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while TcpStream::connect(address).is_err() {
        assert!(Instant::now() < deadline, "nothing listens at {address}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}
