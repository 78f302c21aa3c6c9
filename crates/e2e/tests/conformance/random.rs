//! Random clusters in the words of stories, and packets to everything in them.
//!
//! All of them live on the same hosts, so that one pair of worlds serves any number of them. No two Services ask for the
//! same address: who gets it then is a known difference.

use std::fmt::Write as _;
use std::net::IpAddr;

use ferrule_model::Protocol::{self, Tcp, Udp};
use ferrule_plan::Packet;
use ferrule_testkit::Draw;
use ferrule_testkit::netns::NetSpec;

const NODE: [&str; 4] = ["192.0.2.10", "192.0.2.77", "2001:db8::10", "2001:db8::77"];
const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
const OUTSIDE: [&str; 4] = ["203.0.113.5", "198.51.100.200", "2001:db8:f::5", "2001:db9::9"];
const REMOTE_PODS: [&str; 2] = ["10.244.2.100", "fd44:0:0:2::100"];
const LOCAL_PODS: [&str; 2] = ["10.244.1.100", "fd44:0:0:1::100"];
const RANGES: [&str; 5] = ["203.0.113.0/24", "192.0.2.0/24", "10.244.0.0/16", "2001:db8:f::/48", "fd44::/32"];
/// A port's name, its number, its endpoints' and its protocol.
const PORTS: [(&str, u16, u16, Protocol); 3] =
    [("http", 80, 8080, Tcp), ("dns", 53, 9090, Udp), ("alt", 81, 9090, Tcp)];
const SERVICES: u64 = 6;
/// Endpoints of each node that has some.
const PODS: u64 = 4;

/// A cluster, by what it is drawn from.
#[derive(Clone, Debug)]
pub struct Cluster {
    draw: Draw,
    zone: &'static str,
    services: Vec<Drawn>,
}

/// A Service and its endpoints, by the seeds of both.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    number: u64,
    shape: u64,
    endpoints: u64,
    may_be_sticky: bool,
}

impl Cluster {
    pub fn of_seed(seed: u64) -> Self {
        let mut draw = Draw::of(seed);
        let count = 1 + draw.below(SERVICES);
        let services = (1..=count)
            .map(|number| Drawn {
                number,
                shape: draw.below(u64::MAX),
                endpoints: draw.below(u64::MAX),
                may_be_sticky: true,
            })
            .collect();
        let zone = draw.one_of(&ZONES);
        Self { draw, zone, services }
    }

    /// Other endpoints, other Services, and nobody sticky: so that all endpoints of all of them are seen.
    pub fn change(&mut self) {
        for service in &mut self.services {
            service.may_be_sticky = false;
            if self.draw.chance(6) {
                service.endpoints = self.draw.below(u64::MAX);
            }
            if self.draw.chance(2) {
                service.shape = self.draw.below(u64::MAX);
            }
        }
        if self.draw.chance(3) {
            let at = usize::try_from(self.draw.below(self.services.len() as u64)).unwrap_or_default();
            self.services.remove(at);
        }
        if self.draw.chance(3) {
            self.zone = *self.draw.one_of(&ZONES);
        }
    }

    /// The lines of a story's `cluster` section.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "node node-a  addresses {},{}  alsoOn {},{}  podCIDR 10.244.1.0/24,fd44:0:0:1::/64  zone {}",
            NODE[0], NODE[2], NODE[1], NODE[3], self.zone
        )];
        for drawn in &self.services {
            let service = Service::of(*drawn);
            lines.push(service.line());
            lines.extend(service.endpoint_lines(drawn.endpoints));
        }
        lines
    }

    /// Packets to every address and port of every Service and beside them, each from some of those who could send it.
    pub fn packets(&self) -> Vec<Packet> {
        let mut draw = self.draw.clone();
        let mut packets = Vec::new();
        for service in self.services.iter().map(|drawn| Service::of(*drawn)) {
            for (to, protocol, port) in service.destinations() {
                let sources = sources(to);
                for _ in 0..2 {
                    let from = *draw.one_of(&sources);
                    packets.push(Packet { from, interface: None, to, port: Some((protocol, port)) });
                }
            }
        }
        let nobody =
            Packet { from: ip(LOCAL_PODS[0]), interface: None, to: ip("10.96.81.1"), port: Some((Tcp, 80)) };
        packets.push(nobody);
        packets.sort_by_key(|packet| (packet.to, packet.port, packet.from));
        packets.dedup();
        packets
    }
}

/// A Service with its fields drawn.
struct Service {
    number: u64,
    kind: &'static str,
    cluster_ips: Vec<String>,
    ports: usize,
    has_node_ports: bool,
    vips: Vec<String>,
    external_ips: Vec<String>,
    more: String,
}

impl Service {
    fn of(drawn: Drawn) -> Self {
        let (number, mut draw) = (drawn.number, Draw::of(drawn.shape));
        let kind = *draw.one_of(&["ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer"]);
        let (v4, v6) = (format!("10.96.80.{number}"), format!("fd00:96::8:{number}"));
        let cluster_ips = match draw.below(5) {
            0 => vec![v6],
            1 => vec![v4, v6],
            2 => vec![v6, v4],
            _ => vec![v4],
        };
        let is_balanced = kind == "LoadBalancer";
        let mut vips = Vec::new();
        if is_balanced {
            vips = draw.some_of(&[format!("198.51.100.{}", 20 + number), format!("2001:db8:2::{number}")], 8);
        }
        let mut external_ips = Vec::new();
        if draw.chance(3) {
            external_ips =
                draw.some_of(&[format!("198.51.100.{}", 60 + number), format!("2001:db8:1::{number}")], 7);
        }
        let has_node_ports = kind == "NodePort" || is_balanced && draw.chance(7);
        let mut service = Self {
            number,
            kind,
            cluster_ips,
            ports: 1,
            has_node_ports,
            vips,
            external_ips,
            more: String::new(),
        };
        service.ports = 1 + usize::try_from(draw.below(3)).unwrap_or_default();
        service.draw_policies(&mut draw, drawn.may_be_sticky);
        service
    }

    fn draw_policies(&mut self, draw: &mut Draw, may_be_sticky: bool) {
        let is_balanced = self.kind == "LoadBalancer";
        if draw.chance(3) {
            self.more.push_str("  internalTrafficPolicy Local");
        }
        if self.kind != "ClusterIP" && draw.chance(5) {
            self.more.push_str("  externalTrafficPolicy Local");
            if is_balanced {
                let _ = write!(self.more, "  healthCheckNodePort {}", 32_000 + self.number);
            }
        }
        let is_sticky = draw.chance(3);
        if is_sticky && may_be_sticky {
            self.more.push_str("  sessionAffinity ClientIP 3600");
        }
        if is_balanced && draw.chance(2) {
            self.more.push_str("  ipMode Proxy");
        }
        let ranges = if is_balanced && draw.chance(4) { draw.some_of(&RANGES, 5) } else { Vec::new() };
        if !ranges.is_empty() {
            let _ = write!(self.more, "  sourceRanges {}", ranges.join(","));
        }
    }

    fn line(&self) -> String {
        let mut line = format!("service default/s{}  {}", self.number, self.kind);
        for vip in &self.vips {
            let _ = write!(line, " {vip}");
        }
        let _ = write!(line, "  clusterIP {}", self.cluster_ips.join(","));
        for (at, (name, number, target, protocol)) in PORTS.into_iter().take(self.ports).enumerate() {
            let protocol = protocol.to_string().to_lowercase();
            let _ = write!(line, "  port {name} {number}→{target}/{protocol}");
            if self.has_node_ports {
                let _ = write!(line, "  nodePort {}", self.node_port(at));
            }
        }
        if !self.external_ips.is_empty() {
            let _ = write!(line, "  externalIP {}", self.external_ips.join(","));
        }
        line + &self.more
    }

    fn endpoint_lines(&self, seed: u64) -> Vec<String> {
        let mut draw = Draw::of(seed);
        let mut lines = Vec::new();
        let hinted = *draw.one_of(&["never", "never", "zones", "nodes", "mostly"]);
        let share = draw.below(7);
        for address in self.cluster_ips.iter().flat_map(|ip| pods(ip.contains(':'))) {
            if draw.chance(share) {
                lines.push(self.endpoint_line(&address, hinted, &mut draw));
            }
        }
        lines
    }

    fn endpoint_line(&self, (address, node): &(String, &str), hinted: &str, draw: &mut Draw) -> String {
        let mut line = format!("endpoint default/s{} {address}", self.number);
        if draw.chance(9) {
            let _ = write!(line, "  node {node}");
        }
        let states = ["ready", "ready", "ready", "ready", "notReady", "serving", "terminating", "terminated"];
        let _ = write!(line, "  {}  slice {}", draw.one_of(&states), draw.one_of(&["x", "y"]));
        let is_hinted = match hinted {
            "never" => false,
            "mostly" => draw.chance(8),
            _ => true,
        };
        if is_hinted {
            let _ = write!(line, "  forZone {}", draw.one_of(&ZONES));
        }
        if is_hinted && hinted == "nodes" {
            let _ = write!(line, "  forNode {}", draw.one_of(&["node-a", "node-b"]));
        }
        line
    }

    fn node_port(&self, at: usize) -> u16 {
        u16::try_from(30_000 + self.number * 10).unwrap_or_default() + u16::try_from(at).unwrap_or_default()
    }

    fn destinations(&self) -> Vec<(IpAddr, Protocol, u16)> {
        let mut all = Vec::new();
        let addresses = self.cluster_ips.iter().chain(&self.vips).chain(&self.external_ips);
        for address in addresses.map(|text| ip(text)) {
            let ports = PORTS.into_iter().take(self.ports);
            all.extend(ports.map(|(_, number, _, protocol)| (address, protocol, number)));
            all.push((address, Tcp, 99));
        }
        for at in (0..self.ports).filter(|_| self.has_node_ports) {
            let protocol = PORTS[at].3;
            let addresses = NODE.into_iter().chain(["127.0.0.1", "::1"]);
            all.extend(addresses.map(|address| (ip(address), protocol, self.node_port(at))));
        }
        all
    }
}

/// The pods of a family that can be endpoints, with their nodes.
fn pods(is_v6: bool) -> impl Iterator<Item = (String, &'static str)> {
    let nodes = ["node-a", "node-b", "node-c"].into_iter().zip(1..);
    nodes.flat_map(move |(node, block)| {
        (1..=PODS).map(move |pod| {
            let address =
                if is_v6 { format!("fd44:0:0:{block}::{pod}") } else { format!("10.244.{block}.{pod}") };
            (address, node)
        })
    })
}

/// Who can send a packet there: clients outside, pods here and elsewhere, the node itself, an endpoint to itself.
fn sources(to: IpAddr) -> Vec<IpAddr> {
    if to.is_loopback() {
        return vec![to];
    }
    let endpoints = ["10.244.1.1", "10.244.1.2", "fd44:0:0:1::1", "fd44:0:0:1::2"];
    let all = OUTSIDE.into_iter().chain(REMOTE_PODS).chain(LOCAL_PODS).chain(endpoints);
    let all = all.chain([NODE[0], NODE[2]]).map(ip);
    all.filter(|from| from.is_ipv4() == to.is_ipv4()).collect()
}

/// The hosts all of these clusters live on. Behind addresses of load balancers there is somebody too, so that a packet
/// that is left alone is told from one that vanishes.
pub fn hosts() -> NetSpec {
    let serves = [(Tcp, 8080), (Udp, 8080), (Tcp, 9090), (Udp, 9090)];
    let mut spec = NetSpec::node(NODE.map(ip));
    for (address, node) in [false, true].into_iter().flat_map(pods) {
        let address = ip(&address);
        spec = if node == "node-a" { spec.pod(address, &serves) } else { spec.beyond(address, &serves) };
    }
    for pod in LOCAL_PODS {
        spec = spec.pod(ip(pod), &[]);
    }
    for client in OUTSIDE.into_iter().chain(REMOTE_PODS) {
        spec = spec.beyond(ip(client), &[]);
    }
    let ports: Vec<(Protocol, u16)> =
        PORTS.into_iter().map(|(_, number, _, protocol)| (protocol, number)).collect();
    for number in 1..=SERVICES {
        for address in [
            format!("198.51.100.{}", 20 + number),
            format!("198.51.100.{}", 60 + number),
            format!("2001:db8:1::{number}"),
            format!("2001:db8:2::{number}"),
        ] {
            spec = spec.beyond(ip(&address), &ports);
        }
    }
    spec.beyond(ip("10.96.81.1"), &[(Tcp, 80)])
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address in a test")
}
