//! The static program in a root file system that holds nothing else: no library, no `/proc`, no `/etc`.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use ferrule_model::Protocol::Tcp;
use ferrule_plan::Packet;
use ferrule_testkit::Program;
use ferrule_testkit::netns::{NetSpec, NetWorld, Seen, or_skip};

use crate::tools::static_program;

pub const NODE: &str = "192.0.2.10";
pub const POD: &str = "10.244.1.5";
const ASKING_POD: &str = "10.244.1.100";
const VIP: &str = "10.96.0.10";
pub const TIMEOUT: Duration = Duration::from_mins(1);
/// The line of the first sync. Without `/proc` there is no IPv6: that is how its addresses are known.
pub const SYNCED: &str = "family=\"IPv4\" written=";

const MANIFESTS: &str = "\
apiVersion: v1
kind: Node
metadata: {name: node-a}
status: {addresses: [{type: InternalIP, address: 192.0.2.10}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {clusterIP: 10.96.0.10, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.244.1.5], nodeName: node-a, conditions: {ready: true, serving: true}}]
";

/// A node with a pod that serves and one that asks.
pub fn world() -> NetWorld {
    let spec = NetSpec::node([ip(NODE)]).pod(ip(ASKING_POD), &[]).pod(ip(POD), &[(Tcp, 8080)]);
    NetWorld::build(spec).map_err(|error| error.with_sources()).expect("a world")
}

/// A folder with the program as `/ferrule`, to be the root of a process.
pub fn root_with(program: &Path) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    fs::copy(program, root.path().join("ferrule")).expect("the program is copied");
    root
}

/// Starts `/ferrule` in this root, on the node.
pub fn start_in(root: &Path, net: &NetWorld, arguments: &[&str]) -> Program {
    let mut words = vec![root.to_str().expect("a path"), "/ferrule", "-v=2", "--hostname-override=node-a"];
    words.extend(["--proxy-mode=nftables", "--cluster-cidr=10.244.0.0/16"]);
    words.extend(arguments);
    Program::start(net.node(), Path::new("chroot"), &words).expect("chroot starts")
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn it_serves_in_nftables_mode() {
    let Some(program) = static_program().filter(|_| or_skip()) else { return };
    let (net, root) = (world(), root_with(&program));
    fs::create_dir(root.path().join("manifests")).expect("a folder");
    fs::write(root.path().join("manifests/web.yaml"), MANIFESTS).expect("a manifest");
    let program = start_in(root.path(), &net, &["--manifests=/manifests"]);
    assert!(program.wait_for(SYNCED, 0, TIMEOUT).is_some(), "no first sync:\n{}", program.log().join("\n"));
    let packet = Packet { from: ip(ASKING_POD), interface: None, to: ip(VIP), port: Some((Tcp, 80)) };
    let seen = net.probe(&packet, TIMEOUT).expect("a probe");
    assert!(matches!(&seen, Seen::Answered { by, .. } if by.ip() == ip(POD)), "{seen:?}");
    // That is said a moment after the sync.
    let give_up = Instant::now() + TIMEOUT;
    while net.node().page_status(10256, "/readyz") != Some(200) {
        assert!(Instant::now() < give_up, "never ready:\n{}", program.log().join("\n"));
        std::thread::park_timeout(Duration::from_millis(10));
    }
    assert!(program.terminate().expect("it ends").success());
    let mut left: Vec<_> =
        fs::read_dir(root.path()).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    left.sort();
    assert_eq!(left, ["ferrule", "manifests"], "it writes no file");
}
