//! A cluster of any size, and the hosts around the node: a pod that connects, and somebody who answers for every endpoint.

use std::fmt;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};

use ferrule_testkit::api_server::{ApiServer, Options, objects_path};
use ferrule_testkit::netns::{NetSpec, NetWorld};
use ferrule_watch::server::{ApiClient, ServerSource};
use serde_json::{Value, json};

use crate::source::source;
use crate::store::Store;
use crate::stored;

pub const NODE: &str = "bench-node";
pub const POD: Ipv4Addr = Ipv4Addr::new(10, 243, 0, 5);
const NODE_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
const BEYOND: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 5);
/// All endpoints, wherever they are.
const ENDPOINTS: &str = "10.244.0.0/14";
/// All cluster IPs.
const CLUSTER_IPS: &str = "10.96.0.0/12";
pub const PORT: u16 = 8080;
const HANDS: usize = 16;
/// Services that tests of changes make up, beyond those of the size.
const FIRST_EXTRA: usize = 100_000;

/// So many Services with so many endpoints each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub services: usize,
    pub endpoints: usize,
}

impl Size {
    pub const fn of(services: usize, endpoints: usize) -> Self {
        Self { services, endpoints }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.services, self.endpoints)
    }
}

pub struct Cluster {
    pub server: ApiServer,
    /// Its client is the fastest way to create and change things.
    source: ServerSource,
    pub size: Size,
    extra: AtomicUsize,
}

impl Cluster {
    /// An empty one.
    pub fn new(size: Size) -> Self {
        let server =
            ApiServer::start(Options::default()).map_err(|error| error.with_sources()).expect("a server");
        server.create("/api/v1/nodes", &json!({ "metadata": { "name": NODE } })).expect("a Node");
        let status =
            json!({ "status": { "addresses": [{ "type": "InternalIP", "address": NODE_ADDRESS }] } });
        server.patch(&format!("/api/v1/nodes/{NODE}/status"), &status).expect("an address");
        let source = source(&server);
        let size = Size { services: 0, ..size };
        Self { server, source, size, extra: AtomicUsize::new(FIRST_EXTRA) }
    }

    /// Adds Services up to a size of as many endpoints each. They are put into the API server's store: through itself each takes
    /// the longer the more there are, a quarter of an hour for the largest size.
    pub fn grow(&mut self, size: Size) {
        let next = AtomicUsize::new(self.size.services);
        std::thread::scope(|scope| {
            for _ in 0..HANDS {
                scope.spawn(|| {
                    let store = self.server.namespace().run(Store::connect);
                    let mut store = store.expect("the namespace").expect("etcd");
                    let mut put = |(key, value): (String, Value)| store.put(&key, &value).expect("an object");
                    loop {
                        let nth = next.fetch_add(1, Ordering::Relaxed);
                        if nth >= size.services {
                            return;
                        }
                        put(stored::ip_address(nth));
                        put(stored::service(nth));
                        let endpoints: Vec<Ipv4Addr> =
                            (0..size.endpoints).map(|at| endpoint(nth * 10 + at)).collect();
                        put(stored::slice(nth, &endpoints));
                    }
                });
            }
        });
        self.size = size;
    }

    pub fn client(&self) -> ApiClient {
        self.source.client()
    }

    /// The number of a Service that is not there yet.
    pub fn unused(&self) -> usize {
        self.extra.fetch_add(1, Ordering::Relaxed)
    }
}

/// The path of a Service's slice.
pub fn slice_path(nth: usize) -> String {
    format!("{}/service-{nth}-a", objects_path("default", "endpointslices"))
}

pub fn make_service(client: &ApiClient, nth: usize) {
    let service = json!({
        "metadata": { "name": format!("service-{nth}") },
        "spec": { "clusterIP": cluster_ip(nth).ip(), "ports": [{ "name": "http", "port": 80, "targetPort": PORT }] },
    });
    client.create(&objects_path("default", "services"), &service).expect("a Service");
}

pub fn make_slice(client: &ApiClient, nth: usize, endpoints: &[Ipv4Addr]) {
    let slice = slice(nth, endpoints);
    client.create(&objects_path("default", "endpointslices"), &slice).expect("a slice");
}

/// The endpoints of a Service.
pub fn slice(nth: usize, endpoints: &[Ipv4Addr]) -> Value {
    json!({
        "metadata": {
            "name": format!("service-{nth}-a"),
            "labels": { "kubernetes.io/service-name": format!("service-{nth}") },
        },
        "addressType": "IPv4", "ports": [{ "name": "http", "port": PORT, "protocol": "TCP" }],
        "endpoints": endpoints_json(endpoints),
    })
}

pub fn endpoints_json(endpoints: &[Ipv4Addr]) -> Value {
    let one = |address: &Ipv4Addr| json!({ "addresses": [address], "conditions": { "ready": true }, "nodeName": "elsewhere" });
    endpoints.iter().map(one).collect()
}

/// Where a Service is reached.
pub fn cluster_ip(nth: usize) -> SocketAddr {
    // From 10.97.0.0 on, so that none meets one the API server gave out itself.
    SocketAddr::new(from_bits(10 << 24 | 97 << 16, nth), 80)
}

/// An endpoint's address.
pub fn endpoint(nth: usize) -> Ipv4Addr {
    match from_bits(10 << 24 | 244 << 16, 1 + nth % 250_000) {
        IpAddr::V4(address) => address,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    }
}

/// An endpoint as who is connected to.
pub fn endpoint_port(nth: usize) -> SocketAddr {
    SocketAddr::new(endpoint(nth).into(), PORT)
}

fn from_bits(block: u32, nth: usize) -> IpAddr {
    Ipv4Addr::from_bits(block + u32::try_from(nth).expect("fewer than that")).into()
}

/// A node with a pod, and somebody beyond it who has all endpoints' addresses.
pub fn world() -> NetWorld {
    let spec = NetSpec::node([NODE_ADDRESS.into()]).pod(POD.into(), &[]).beyond(BEYOND.into(), &[]);
    let net = NetWorld::build(spec).map_err(|error| error.with_sources()).expect("a world");
    let beyond = net.namespace_of(BEYOND.into()).expect("somebody beyond");
    // A packet to a cluster IP that nobody translated would be sent back, and go round until its time to live is over.
    let routes = format!("route add local {ENDPOINTS} dev lo\nroute add blackhole {CLUSTER_IPS}\n");
    beyond.feed("ip", &["-batch", "-"], &routes).expect("routes");
    let listener = beyond.run(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)));
    let listener = listener.expect("the namespace").expect("a listener");
    // Ends with the process: a benchmark has no other end.
    for _ in 0..2 {
        let listener = listener.try_clone().expect("a second handle");
        std::thread::spawn(move || serve(&listener));
    }
    net
}

/// Tells everybody whom they reached, in one packet: a client takes what comes first for all of it.
fn serve(listener: &TcpListener) {
    for mut stream in listener.incoming().flatten() {
        if let Ok(address) = stream.local_addr() {
            let _ = stream.write_all(format!("{address}\n").as_bytes());
        }
    }
}
