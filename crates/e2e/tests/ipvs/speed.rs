//! How long both take for the same cluster, one after the other in the same boot. Only ratios mean anything, and none is asserted:
//! what else the machine does is unknown.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ferrule_testkit::World;
use ferrule_testkit::api_server::{ApiServer, Objects, objects_of};

use crate::kernel::SeenNode;
use crate::node::{ip, sleep};
use crate::pair::{Side, kube_proxy, ours};
use crate::{beside_others, count};

const PATIENCE: Duration = Duration::from_mins(20);
/// The endpoint that comes, and those that were there.
const NEW: &str = "10.244.2.200";
const ENDPOINTS: u64 = 5;

#[test]
fn how_long_both_take() {
    let Some(_turn) = beside_others() else { return };
    let services = count("FERRULE_SERVICES", 10);
    let server = ApiServer::shared();
    let mut there = Objects::new();
    let mut world = World::default();
    world.say(&cluster(services)).expect("a cluster");
    server.put_node(world.stated_node()).expect("a node");
    server.bring_about(&mut there, objects_of(&world)).expect("objects");
    let with_one_more = || {
        let mut world = World::default();
        let new = format!("{}endpoint default/s1 {NEW}  node node-b  ready\n", cluster(services));
        world.say(&new).expect("a cluster");
        objects_of(&world)
    };
    println!("{services} Services with {ENDPOINTS} endpoints each:");
    for (name, last) in [("ferrule", 201), ("kube-proxy", 202)] {
        let mut side = Side::new(server, name, last);
        let began = Instant::now();
        if name == "ferrule" {
            ours(&mut side);
        } else {
            kube_proxy(&mut side);
        }
        let wanted = usize::try_from(services).unwrap_or_default();
        wait(&side, |seen| seen.has_cluster_ips(wanted));
        let programmed = began.elapsed();
        // What it has still to do is not counted as the change's.
        sleep(Duration::from_secs(3));
        let used = side.processor_time();
        let began = Instant::now();
        server.bring_about(&mut there, with_one_more()).expect("one more endpoint");
        let (first, new) = (SocketAddr::new(ip("10.98.0.1"), 80), SocketAddr::new(ip(NEW), 8080));
        wait(&side, |seen| seen.real_servers_of(first).iter().any(|server| server.address == new));
        let changed = began.elapsed();
        sleep(Duration::from_secs(3));
        let used = side.processor_time().saturating_sub(used);
        let (resident, peak) = side.resident();
        println!(
            "  {name:<10} start to programmed {programmed:.2?}, one endpoint {changed:.2?} and {used:.2?} of processor time \
             with what follows, {resident:.0} MiB resident (peak {peak:.0})"
        );
        server.bring_about(&mut there, objects_of(&world)).expect("as before");
    }
    server.bring_about(&mut there, Objects::new()).expect("nothing left");
}

fn wait(side: &Side, is_reached: impl Fn(&SeenNode) -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !is_reached(&side.run(SeenNode::read).expect("the kernel's answer")) {
        assert!(Instant::now() < give_up, "{}", side.log());
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

fn cluster(services: u64) -> String {
    let mut lines =
        String::from("node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  podCIDR 10.244.1.0/24\n");
    for number in 1..=services {
        let (block, last) = (number / 250, number % 250);
        let _ = writeln!(
            lines,
            "service default/s{number}  ClusterIP  clusterIP 10.98.{block}.{last}  port http 80→8080/tcp"
        );
        for endpoint in 1..=ENDPOINTS {
            let pod = number * ENDPOINTS + endpoint;
            let _ = writeln!(
                lines,
                "endpoint default/s{number} 10.244.{}.{}  node node-b  ready",
                3 + pod / 250,
                1 + pod % 250
            );
        }
    }
    lines
}
