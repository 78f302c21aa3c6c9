//! A cluster with many Services, and a node in it.

use std::net::Ipv4Addr;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ferrule_testkit::Program;
use ferrule_testkit::api_server::{ApiServer, Options, User};
use ferrule_testkit::netns::Namespace;
use ferrule_watch::server::ApiClient;
use serde_json::{Value, json};

use crate::process::Measured;
use crate::source::source;

pub const NODE: &str = "bench-node";
const ADDRESS: Ipv4Addr = Ipv4Addr::new(172, 31, 9, 1);
const ENDPOINTS: usize = 10;
/// How many requests are under way at a time.
const HANDS: usize = 16;

pub struct BenchCluster {
    pub server: ApiServer,
    pub node: Namespace,
    pub services: usize,
}

impl BenchCluster {
    /// Creates everything.
    pub fn create(services: usize) -> Self {
        let server =
            ApiServer::start(Options::default()).map_err(|error| error.with_sources()).expect("a server");
        let node = Namespace::new("bench node").expect("a namespace");
        server.join(&node, ADDRESS).expect("a cable");
        let object = json!({ "metadata": { "name": NODE } });
        server.create("/api/v1/nodes", &object).expect("a Node");
        let status = json!({ "status": { "addresses": [{ "type": "InternalIP", "address": ADDRESS }] } });
        server.patch(&format!("/api/v1/nodes/{NODE}/status"), &status).expect("an address");
        let mut cluster = Self { server, node, services: 0 };
        cluster.grow_to(services);
        cluster
    }

    /// Creates further Services, up to so many.
    pub fn grow_to(&mut self, services: usize) {
        // The source goes afterwards: whoever watches costs the API server something.
        let source = source(&self.server);
        fill(&source.client(), self.services..services);
        self.services = services;
    }

    /// Starts the program and measures until all rules are in the kernel.
    pub fn started(&self) -> (Program, Measured) {
        self.started_as(Path::new(env!("CARGO_BIN_EXE_ferrule-under-test")))
    }

    /// Removes all rules.
    pub fn clean_up(&self, program: &Path) {
        let started =
            Program::start(&self.node, program, &["--cleanup".to_owned()]).expect("the program starts");
        let ended = started.wait().expect("the program ends");
        assert!(ended.success(), "{} --cleanup failed", program.display());
    }

    /// The same with another build of the program.
    pub fn started_as(&self, program: &Path) -> (Program, Measured) {
        let kubeconfig = self.server.kubeconfig(User::KubeProxy).expect("a kubeconfig");
        let arguments = [
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--hostname-override={NODE}"),
            "--proxy-mode=nftables".into(),
            "--cluster-cidr=10.244.0.0/16".into(),
        ];
        let began = Instant::now();
        let program = Program::start(&self.node, program, &arguments).expect("the program starts");
        while self.node.page_status(10256, "/readyz") != Some(200) {
            assert!(began.elapsed() < Duration::from_mins(5), "never ready:\n{}", program.log().join("\n"));
            std::thread::sleep(Duration::from_millis(10));
        }
        let measured = Measured::of(&self.node, &program, began.elapsed());
        (program, measured)
    }
}

pub const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

fn fill(client: &ApiClient, numbers: Range<usize>) {
    let next = AtomicUsize::new(numbers.start);
    std::thread::scope(|scope| {
        for _ in 0..HANDS {
            scope.spawn(|| {
                let client = client.clone();
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    if nth >= numbers.end {
                        return;
                    }
                    client.create("/api/v1/namespaces/default/services", &service(nth)).expect("a Service");
                    client.create(SLICES, &slice(nth, 0)).expect("a slice");
                }
            });
        }
    });
}

/// The cluster IP of a Service.
pub fn cluster_ip(nth: usize) -> Ipv4Addr {
    // From 10.97.0.0 on, so that none meets one the API server gave out itself.
    Ipv4Addr::from_bits((10 << 24) + (97 << 16) + u32::try_from(nth).expect("fewer than that"))
}

/// The first endpoint of a Service after so many changes: it tells which change the kernel has.
pub fn first_pod(nth: usize, version: usize) -> Ipv4Addr {
    let offset = u32::try_from((nth * 7 + version) % 50_000).expect("fewer than that");
    Ipv4Addr::from_bits((10 << 24) + (244 << 16) + 1 + offset)
}

fn service(nth: usize) -> Value {
    json!({
        "metadata": { "name": format!("service-{nth}") },
        "spec": { "clusterIP": cluster_ip(nth), "ports": [{ "name": "http", "port": 80, "targetPort": 8080 }] },
    })
}

pub fn endpoints(nth: usize, version: usize) -> Value {
    let others = (1..ENDPOINTS).map(|other| Ipv4Addr::new(10, 245, byte(other), 1 + byte(nth % 250)));
    let endpoint =
        |address| json!({ "addresses": [address], "conditions": { "ready": true }, "nodeName": "elsewhere" });
    std::iter::once(first_pod(nth, version)).chain(others).map(endpoint).collect()
}

fn byte(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(0)
}

/// Where a slice is in the store, and what is there: what the API server would write, as JSON, which it reads as well.
pub fn stored_slice(nth: usize, version: usize) -> (String, Value) {
    let mut object = slice(nth, version);
    object["kind"] = "EndpointSlice".into();
    object["apiVersion"] = "discovery.k8s.io/v1".into();
    object["metadata"]["namespace"] = "default".into();
    object["metadata"]["uid"] = format!("00000000-0000-0000-0000-{nth:012}").into();
    object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    (format!("/registry/endpointslices/default/service-{nth}-a"), object)
}

fn slice(nth: usize, version: usize) -> Value {
    json!({
        "metadata": {
            "name": format!("service-{nth}-a"),
            "labels": { "kubernetes.io/service-name": format!("service-{nth}") },
        },
        "addressType": "IPv4", "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
        "endpoints": endpoints(nth, version),
    })
}
