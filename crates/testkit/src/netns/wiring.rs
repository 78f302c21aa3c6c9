//! Connects the namespaces of a world, and sets their addresses, routes and sysctls.
//!
//! ```text
//!   pod (own namespace)  eth0 ──── cali1  ┌──────┐  eth0 ──── eth0  ┌────────┐
//!   pod (own namespace)  eth0 ──── cali2  │ node │                  │ beyond │  remote pods, clients, the rest:
//!                                         └──────┘                  └────────┘  one address each on its lo
//! ```
//!
//! All traffic passes the node, even between two addresses beyond the uplink, so a reply to a packet the node has
//! translated always returns to it. Neighbour entries are static: nothing waits for ARP or duplicate address detection.
//! [`super::servers`] answers.

mod ready;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;

use ipnet::IpNet;

use super::{Namespace, NetError, NetSpec, Place};

/// The node's interface to all hosts but its pods.
pub const UPLINK: &str = "eth0";

/// The node's address on each link; never that of a host.
const GATEWAY_V4: &str = "169.254.1.1";
const GATEWAY_V6: &str = "fe80::1";
const NODE_MAC: &str = "02:fe:00:00:00:01";
const BEYOND_MAC: &str = "02:fe:00:00:00:02";

/// Nothing is delayed, filtered or rate-limited, and echo requests need no privilege. ICMP errors are exempt from limits by
/// their mask: a high limit alone still loses one of the first two in the same instant.
const EVERYWHERE: [(&str, &str); 16] = [
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    ("net/ipv4/conf/all/send_redirects", "0"),
    ("net/ipv4/conf/default/send_redirects", "0"),
    ("net/ipv6/conf/all/disable_ipv6", "0"),
    ("net/ipv6/conf/default/disable_ipv6", "0"),
    ("net/ipv6/conf/all/accept_dad", "0"),
    ("net/ipv6/conf/default/accept_dad", "0"),
    ("net/ipv6/conf/default/accept_ra", "0"),
    ("net/ipv6/conf/default/addr_gen_mode", "1"),
    ("net/ipv4/icmp_ratelimit", "0"),
    ("net/ipv4/icmp_ratemask", "0"),
    ("net/ipv6/icmp/ratelimit", "0"),
    ("net/ipv6/icmp/ratemask", "0"),
    ("net/ipv4/ping_group_range", "0 0"),
    ("net/ipv4/ip_unprivileged_port_start", "0"),
];

const ON_THE_NODE: [(&str, &str); 2] = [("net/ipv4/ip_forward", "1"), ("net/ipv6/conf/all/forwarding", "1")];

/// Beyond the uplink, a packet may arrive with the source address of another host there.
const BEYOND: [(&str, &str); 2] =
    [("net/ipv4/conf/all/accept_local", "1"), ("net/ipv4/conf/default/accept_local", "1")];

/// The connected namespaces of a world.
#[derive(Debug)]
pub(super) struct Wired {
    pub node: Namespace,
    pub beyond: Namespace,
    pub pods: BTreeMap<IpAddr, Namespace>,
    /// The node's interface to each pod.
    pub interfaces: BTreeMap<IpAddr, String>,
}

/// Creates and connects the namespaces.
pub(super) fn wire(spec: &NetSpec) -> Result<Wired, NetError> {
    let interfaces = interfaces(spec)?;
    let wired = Wired {
        node: namespace("node", &ON_THE_NODE)?,
        beyond: namespace("beyond", &BEYOND)?,
        pods: spec
            .hosts
            .iter()
            .filter(|(_, host)| matches!(host.place, Place::Pod(_)))
            .map(|(address, _)| Ok((*address, namespace(&format!("pod {address}"), &[])?)))
            .collect::<Result<_, NetError>>()?,
        interfaces,
    };
    ip(&wired.node, &[], &node_commands(spec, &wired))?;
    for (nth, (address, pod)) in wired.pods.iter().enumerate() {
        ip(pod, &[], &pod_commands(nth, *address))?;
    }
    ip(&wired.beyond, &[], &beyond_commands(spec))?;
    for family in ["-4", "-6"] {
        ip(&wired.beyond, &[family], ALWAYS_THROUGH_THE_NODE)?;
    }
    ready::wait(spec, &wired)?;
    Ok(wired)
}

/// Whatever is sent from here leaves by the cable, even to an address of our own; only what comes in by it is delivered.
const ALWAYS_THROUGH_THE_NODE: &str = "\
    rule add pref 100 iif lo lookup 100\n\
    rule add pref 200 lookup local\n\
    rule del pref 0\n";

fn namespace(name: &str, settings: &[(&str, &str)]) -> Result<Namespace, NetError> {
    let namespace = Namespace::new(name)?;
    namespace.set_all(&EVERYWHERE)?;
    namespace.set_all(settings)?;
    Ok(namespace)
}

fn ip(namespace: &Namespace, options: &[&str], commands: &str) -> Result<(), NetError> {
    let arguments = [options, &["-batch", "-"]].concat();
    namespace.feed("ip", &arguments, commands).map(drop)
}

/// The node's interface to each pod: the one the spec names, or `cali` and a number.
fn interfaces(spec: &NetSpec) -> Result<BTreeMap<IpAddr, String>, NetError> {
    let mut taken = BTreeSet::from([UPLINK.to_string(), "lo".to_string()]);
    let mut interfaces = BTreeMap::new();
    let mut unnamed = Vec::new();
    for (address, host) in &spec.hosts {
        match &host.place {
            Place::Beyond => {}
            Place::Pod(None) => unnamed.push(*address),
            Place::Pod(Some(name)) if taken.insert(name.clone()) => {
                interfaces.insert(*address, name.clone());
            }
            Place::Pod(Some(name)) => {
                return Err(NetError::InterfaceTaken { interface: name.clone(), pod: *address });
            }
        }
    }
    let mut free = (1..).map(|number| format!("cali{number}")).filter(|name| !taken.contains(name));
    interfaces.extend(unnamed.into_iter().filter_map(|address| Some((address, free.next()?))));
    Ok(interfaces)
}

fn node_commands(spec: &NetSpec, wired: &Wired) -> String {
    let mut text = format!(
        "link set lo up\n\
         link add {UPLINK} address {NODE_MAC} type veth peer name eth0 address {BEYOND_MAC} netns {}\n\
         link set {UPLINK} up\n",
        wired.beyond.path()
    );
    for address in &spec.node {
        add_address(&mut text, *address, UPLINK);
    }
    add_gateway(&mut text, UPLINK, BEYOND_MAC, "");
    for (nth, (address, pod)) in wired.pods.iter().enumerate() {
        let (mac, path, interface) = (pod_mac(nth), pod.path(), &wired.interfaces[address]);
        let _ = write!(
            text,
            "link add {interface} address {NODE_MAC} type veth peer name eth0 address {mac} netns {path}\n\
             link set {interface} up\n\
             neigh add {address} lladdr {mac} dev {interface} nud permanent\n\
             route add {} dev {interface}\n",
            IpNet::from(*address)
        );
    }
    text
}

fn pod_commands(nth: usize, address: IpAddr) -> String {
    let mut text = format!("link set lo up\nlink set eth0 address {} up\n", pod_mac(nth));
    add_address(&mut text, address, "eth0");
    add_gateway(&mut text, "eth0", NODE_MAC, "");
    text
}

fn beyond_commands(spec: &NetSpec) -> String {
    let mut text = "link set lo up\nlink set eth0 up\n".to_string();
    for (address, _) in spec.hosts.iter().filter(|(_, host)| host.place == Place::Beyond) {
        add_address(&mut text, *address, "lo");
    }
    add_gateway(&mut text, "eth0", NODE_MAC, "table 100");
    // IPv4 is silent about unused addresses; IPv6 would answer with an error.
    text + "route add blackhole ::/0\n"
}

fn add_address(text: &mut String, address: IpAddr, interface: &str) {
    let nodad = if address.is_ipv6() { " nodad" } else { "" };
    let _ = writeln!(text, "address add {} dev {interface}{nodad}", IpNet::from(address));
}

fn add_gateway(text: &mut String, interface: &str, mac: &str, table: &str) {
    for (gateway, all) in [(GATEWAY_V4, "0.0.0.0/0"), (GATEWAY_V6, "::/0")] {
        let _ = write!(
            text,
            "neigh add {gateway} lladdr {mac} dev {interface} nud permanent\n\
             route add {all} via {gateway} dev {interface} onlink {table}\n"
        );
    }
}

fn pod_mac(nth: usize) -> String {
    format!("02:00:00:00:{:02x}:{:02x}", nth >> 8 & 0xff, nth & 0xff)
}
