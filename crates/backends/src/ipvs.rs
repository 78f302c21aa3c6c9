//! ipvs mode: what an earlier run of it left.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ferrule_kernel::ipvs::Ipvs;
use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::{interfaces, ipset};

/// The interface that holds the service addresses.
const INTERFACE: &str = "kube-ipvs0";

/// The sets, without what stands before: `KUBE-` for IPv4, `KUBE-6-` for IPv6.
const SETS: [&str; 17] = [
    "LOOP-BACK",
    "CLUSTER-IP",
    "EXTERNAL-IP",
    "EXTERNAL-IP-LOCAL",
    "LOAD-BALANCER",
    "LOAD-BALANCER-FW",
    "LOAD-BALANCER-LOCAL",
    "LOAD-BALANCER-SOURCE-IP",
    "LOAD-BALANCER-SOURCE-CIDR",
    "NODE-PORT-TCP",
    "NODE-PORT-LOCAL-TCP",
    "NODE-PORT-UDP",
    "NODE-PORT-LOCAL-UDP",
    "NODE-PORT-SCTP-HASH",
    "NODE-PORT-LOCAL-SCTP-HASH",
    "HEALTH-CHECK-NODE-PORT",
    "IPVS-IPS",
];
/// The kernel's longest name of a set.
const LONGEST_NAME: usize = 31;

/// Removes the virtual servers, the interface and the sets that ipvs mode left; says how many things that were.
///
/// Virtual servers are ours if their address is on our interface. Rules that use a set must be gone before:
/// see [`crate::iptables::remove_leftovers`].
pub fn remove_leftovers() -> Result<usize, NetlinkError> {
    let mut removed = 0;
    if let Some(interface) = interface()? {
        removed += remove_virtual_servers(interface)?;
        interfaces::delete(interface)?;
        removed += 1;
    }
    let ours: BTreeSet<String> =
        SETS.iter().flat_map(|set| [set_name("KUBE-", set), set_name("KUBE-6-", set)]).collect();
    let found = ipset::names().into_iter().filter(|name| ours.contains(name));
    Ok(removed + found.filter(|name| ipset::destroy(name)).count())
}

fn set_name(beginning: &str, set: &str) -> String {
    let mut name = format!("{beginning}{set}");
    name.truncate(LONGEST_NAME);
    name
}

fn interface() -> Result<Option<u32>, NetlinkError> {
    let names = interfaces::names()?;
    Ok(names.into_iter().find(|(_, name)| name == INTERFACE).map(|(number, _)| number))
}

fn remove_virtual_servers(interface: u32) -> Result<usize, NetlinkError> {
    let Some(mut ipvs) = Ipvs::open()? else { return Ok(0) };
    let addresses = interfaces::addresses()?.into_iter().filter(|found| found.interface == interface);
    let addresses: BTreeSet<IpAddr> = addresses.map(|found| found.address).collect();
    let servers = ipvs.virtual_servers()?;
    let ours: Vec<_> = servers.iter().filter(|server| addresses.contains(&server.address)).collect();
    for server in &ours {
        ipvs.delete(server)?;
    }
    Ok(ours.len())
}
