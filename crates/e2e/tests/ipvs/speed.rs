//! How long both take for the same clusters, one after the other in the same boot. Only ratios mean anything, and none is asserted:
//! what else the machine does is unknown.
//!
//! `FERRULE_SIZES=100x5,1000x5,5000x2` names clusters by their Services and the endpoints of each, `FERRULE_SPEED_MINUTES` how long
//! kube-proxy is waited for.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ferrule_kernel::dummy::LinkClient;
use ferrule_kernel::ipset::IpSets;
use ferrule_kernel::ipvs::Ipvs;
use ferrule_kernel::port::{AddressSets as _, ServiceInterface as _, VirtualServers as _};
use ferrule_testkit::World;
use ferrule_testkit::api_server::{ApiServer, Objects, objects_of};

use crate::kernel::{RULES, SeenNode};
use crate::node::{ip, sleep};
use crate::pair::{Side, kube_proxy, ours};
use crate::{beside_others, count};

/// The endpoint that comes and goes.
const NEW: &str = "10.244.2.200";
/// How often it does. Processor time is told in hundredths of a second, so ours takes more.
const CHANGES: u32 = 40;
const CHANGES_OF_KUBE_PROXY: u32 = 4;
const PAUSE: Duration = Duration::from_millis(50);
/// Two periods of looking at the kernel.
const IDLE: Duration = Duration::from_mins(1);

/// A cluster of equal Services.
#[derive(Clone, Copy)]
struct Size {
    services: u64,
    endpoints: u64,
}

/// What was measured of one proxy; nothing where it took too long.
#[derive(Default)]
struct Figures {
    programmed: Option<Duration>,
    /// For one change, the time and the processor time.
    changed: Option<(Duration, Duration)>,
    /// At rest, in MiB.
    resident: f64,
    /// Milliseconds of processor time a second while nothing changes: both look at the kernel every 30 s.
    idle: f64,
    /// What a restart with nothing changed said.
    restarted: Option<String>,
}

#[test]
fn how_long_both_take() {
    let Some(_turn) = beside_others() else { return };
    let sizes = std::env::var("FERRULE_SIZES").unwrap_or_else(|_| "10x5".to_owned());
    let sizes: Vec<Size> = sizes.split(',').filter_map(Size::parse).collect();
    assert!(!sizes.is_empty(), "FERRULE_SIZES names clusters: 1000x5,5000x2");
    let patience = Duration::from_secs(60 * count("FERRULE_SPEED_MINUTES", 10));
    let (server, mut there) = (ApiServer::shared(), Objects::new());
    for (at, size) in (0_u8..).zip(sizes) {
        let (with, without) = (objects(&size.cluster(true)), objects(&size.cluster(false)));
        server.put_node(world(&size.cluster(false)).stated_node()).expect("a node");
        server.bring_about(&mut there, without.clone()).expect("objects");
        // One object alone: to compare thousands takes this processor longer than the change.
        let (with, without) = (only_in(&with, &without), only_in(&without, &with));
        let mut changed = without.clone();
        let mut change = |is_more: bool| {
            let wanted = if is_more { with.clone() } else { without.clone() };
            server.bring_about(&mut changed, wanted).expect("another endpoint");
        };
        println!("{} Services with {} endpoints each:", size.services, size.endpoints);
        if at == 0 {
            // The first start of a machine waits until the kernel has loaded its modules.
            let mut side = Side::new(server, "ferrule", 200);
            ours(&mut side);
            wait(&side, patience, |side| side.run(|| seems_programmed(1)));
        }
        let mut side = Side::new(server, "ferrule", 201 + 2 * at);
        let mut mine =
            measure(&mut side, &size, Steps { start: ours, changes: CHANGES, change: &mut change, patience });
        side.stop();
        ours(&mut side);
        mine.restarted = side.wait_for("family=\"IPv4\" written=", patience);
        mine.show("ferrule", patience);
        drop(side);
        let mut side = Side::new(server, "kube-proxy", 202 + 2 * at);
        let steps =
            Steps { start: kube_proxy, changes: CHANGES_OF_KUBE_PROXY, change: &mut change, patience };
        let theirs = measure(&mut side, &size, steps);
        theirs.show("kube-proxy", patience);
        mine.compare(&theirs, patience);
    }
    server.bring_about(&mut there, Objects::new()).expect("nothing left");
}

/// What is done to a proxy.
struct Steps<'a> {
    start: fn(&mut Side),
    changes: u32,
    /// Makes the endpoint come and go.
    change: &'a mut dyn FnMut(bool),
    patience: Duration,
}

fn measure(side: &mut Side, cluster: &Size, steps: Steps<'_>) -> Figures {
    let Steps { start, changes, change, patience } = steps;
    let (mut figures, began) = (Figures::default(), Instant::now());
    start(side);
    let wanted = usize::try_from(cluster.services).unwrap_or_default();
    // Looking at everything takes this processor long, so it is done once more when all seems to be there.
    if !wait(side, patience, |side| side.run(|| seems_programmed(wanted))) {
        return figures;
    }
    let mut took = began.elapsed();
    if !seen(side).has_cluster_ips(wanted) {
        if !wait(side, patience, |side| seen(side).has_cluster_ips(wanted)) {
            return figures;
        }
        took = began.elapsed();
    }
    figures.programmed = Some(took);
    // What it has still to do is not counted as the changes'.
    sleep(Duration::from_secs(5));
    let (used, began) = (side.processor_time(), Instant::now());
    sleep(IDLE);
    let seconds = began.elapsed().as_secs_f64();
    figures.idle = side.processor_time().saturating_sub(used).as_secs_f64() * 1000.0 / seconds;
    figures.resident = side.resident().0;
    let (first, new) = (SocketAddr::new(ip("10.98.0.1"), 80), SocketAddr::new(ip(NEW), 8080));
    let (used, mut took) = (side.processor_time(), Duration::ZERO);
    for number in 0..changes {
        let (is_more, began) = (number % 2 == 0, Instant::now());
        change(is_more);
        let has = |side: &Side| side.run(|| has_server(first, new)) == is_more;
        if !wait(side, patience, has) {
            return figures;
        }
        took += began.elapsed();
        sleep(Duration::from_secs(3));
    }
    let used = side.processor_time().saturating_sub(used);
    figures.changed = Some((took / changes, used / changes));
    figures
}

impl Figures {
    fn show(&self, name: &str, patience: Duration) {
        let not = || format!("not within {} minutes", patience.as_secs() / 60);
        let started = self.programmed.map_or_else(not, |took| format!("{took:.2?}"));
        let changed = self.changed.map_or_else(not, |(took, used)| {
            format!("{took:.2?} and {used:.2?} of processor time with what follows")
        });
        println!(
            "  {name:<10} start to programmed {started}, one endpoint {changed}, {:.0} MiB resident, {:.2} ms a second at rest",
            self.resident, self.idle
        );
        if let Some(said) = &self.restarted {
            println!("  {name:<10} after a restart: {said}");
        }
    }

    /// Ours in parts of theirs, where theirs took too long in parts of what was waited.
    fn compare(&self, theirs: &Self, patience: Duration) {
        let ratio = |ours: Option<Duration>, theirs: Option<Duration>| {
            let Some(ours) = ours.filter(|ours| !ours.is_zero()) else { return "unknown".to_owned() };
            let less = if theirs.is_none() { "less than " } else { "" };
            format!("{less}1/{:.1}", theirs.unwrap_or(patience).as_secs_f64() / ours.as_secs_f64())
        };
        let time = |figures: &Self| figures.changed.map(|(took, _)| took);
        let start = ratio(self.programmed, theirs.programmed);
        if theirs.programmed.is_none() {
            println!("  start {start}");
            return;
        }
        let used = self.changed.zip(theirs.changed);
        let used = used
            .map_or_else(|| "unknown".to_owned(), |((_, ours), (_, theirs))| ratio(Some(ours), Some(theirs)));
        println!(
            "  start {start}, one endpoint {}, its processor time {used}, resident 1/{:.1}",
            ratio(time(self), time(theirs)),
            theirs.resident / self.resident.max(0.1)
        );
    }
}

/// Whether that is so in time. Looking takes processor time, too, and is not to hold up what is looked at.
fn wait(side: &Side, patience: Duration, is_reached: impl Fn(&Side) -> bool) -> bool {
    let give_up = Instant::now() + patience;
    loop {
        let began = Instant::now();
        if is_reached(side) {
            return true;
        }
        if Instant::now() > give_up {
            println!("{}", side.log());
            return false;
        }
        sleep(PAUSE.max(4 * began.elapsed()));
    }
}

/// What of these objects the others do not have, or have in another state.
fn only_in(objects: &Objects, others: &Objects) -> Objects {
    let is_other = |(path, object): &(&String, &serde_json::Value)| others.get(*path) != Some(*object);
    objects.iter().filter(is_other).map(|(path, object)| (path.clone(), object.clone())).collect()
}

fn seen(side: &Side) -> SeenNode {
    side.run(SeenNode::read).expect("the kernel's answer")
}

/// Whether there are so many virtual servers and addresses, and rules about sets, which kube-proxy writes last. Asked often, so it
/// lists nothing else.
fn seems_programmed(wanted: usize) -> bool {
    let ipvs = Ipvs::open_loaded().expect("a netlink socket");
    if ipvs.is_none_or(|mut ipvs| ipvs.list().expect("virtual servers").servers.len() < wanted) {
        return false;
    }
    let mut links = LinkClient::open().expect("a netlink socket");
    let link = links.find("kube-ipvs0").expect("the kernel's answer");
    let addresses = link.map(|link| links.addresses(&link).expect("addresses")).unwrap_or_default();
    let sets = IpSets::open().and_then(|mut sets| sets.sets()).expect("sets");
    let rules = sets.iter().find(|set| set.name == "KUBE-CLUSTER-IP").map_or(0, |set| set.references);
    addresses.len() >= wanted && rules >= RULES
}

/// Whether a real server is in use.
fn has_server(service: SocketAddr, server: SocketAddr) -> bool {
    use ferrule_kernel::conntrack::TCP;
    use ferrule_kernel::ipvs::VirtualServerId;
    let id = VirtualServerId { address: service.ip(), protocol: TCP, port: service.port() };
    let ipvs = Ipvs::open_loaded().expect("a netlink socket");
    let servers = ipvs.map(|mut ipvs| ipvs.real_servers(&id).expect("real servers")).unwrap_or_default();
    servers.iter().any(|seen| seen.server.address == server)
}

fn world(lines: &str) -> World {
    let mut world = World::default();
    world.say(lines).expect("a cluster");
    world
}

fn objects(lines: &str) -> Objects {
    objects_of(&world(lines))
}

impl Size {
    fn parse(text: &str) -> Option<Self> {
        let (services, endpoints) = text.trim().split_once('x')?;
        Some(Self { services: services.parse().ok()?, endpoints: endpoints.parse().ok()? })
    }

    /// In the words of stories, with or without the endpoint that comes and goes.
    fn cluster(&self, with_new: bool) -> String {
        let mut lines =
            String::from("node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  podCIDR 10.244.1.0/24\n");
        for number in 1..=self.services {
            let (block, last) = (number / 250, number % 250);
            let _ = writeln!(
                lines,
                "service default/s{number}  ClusterIP  clusterIP 10.98.{block}.{last}  port http 80→8080/tcp"
            );
            for endpoint in 1..=self.endpoints {
                let pod = number * self.endpoints + endpoint;
                let (block, last) = (3 + pod / 250, 1 + pod % 250);
                let _ =
                    writeln!(lines, "endpoint default/s{number} 10.244.{block}.{last}  node node-b  ready");
            }
        }
        if with_new {
            let _ = writeln!(lines, "endpoint default/s1 {NEW}  node node-b  ready");
        }
        lines
    }
}
