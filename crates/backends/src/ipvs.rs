//! ipvs mode: not built yet; what kube-proxy's left is removed.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::{interfaces, ipset, ipvs};
use ferrule_model::IpFamily;
use ferrule_plan::{ProxyMode, Quirks};

use crate::backend::not_built;
use crate::iptables;
use crate::{
    Advice, Backend, BackendError, InUse, Leftover, ModeChoice, ModeOptions, Opened, Probe, RuleEventSink,
};

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

/// ipvs mode.
#[derive(Debug)]
pub struct Ipvs;

impl Backend for Ipvs {
    fn mode(&self) -> ProxyMode {
        ProxyMode::Ipvs
    }

    fn quirks(&self) -> Quirks {
        Quirks::IPVS
    }

    fn advice(&self, _: ModeChoice) -> Option<Advice> {
        let text = "the ipvs proxy mode is deprecated, off by default from Kubernetes 1.40 and gone in 1.43; use nftables";
        Some(Advice { reason: "IPVSDeprecation", text })
    }

    fn unavailable(&self) -> Option<BackendError> {
        Some(not_built(ProxyMode::Ipvs))
    }

    fn probe(&mut self) -> Probe {
        Probe::nothing_works(|| not_built(ProxyMode::Ipvs))
    }

    fn open(&mut self, _: &[IpFamily], _: &ModeOptions) -> Result<Opened, BackendError> {
        Err(not_built(ProxyMode::Ipvs))
    }

    fn watch(&mut self, _: Arc<dyn RuleEventSink>) -> Result<(), BackendError> {
        Err(not_built(ProxyMode::Ipvs))
    }

    fn remove_leftovers(&self, in_use: Option<&InUse>) -> Result<Vec<Leftover>, BackendError> {
        let chains = match in_use.map(|in_use| in_use.mode) {
            Some(ProxyMode::Ipvs | ProxyMode::Userspace) => return Ok(Vec::new()),
            Some(ProxyMode::Iptables) => iptables::remove_ipvs_leftovers().map(|removed| removed.chains),
            // Its chains went with those of iptables mode: many are used by both.
            Some(ProxyMode::Nftables) | None => Ok(0),
        };
        let objects = remove_leftovers();
        let objects =
            objects.map_err(|error| BackendError::new("removing what ipvs mode left").caused_by(error))?;
        let leftover = |what, objects| Leftover { mode: ProxyMode::Ipvs, what, objects };
        Ok(vec![leftover("chains", chains?), leftover("virtual servers, sets and interfaces", objects)])
    }
}

/// Removes the virtual servers, the interface and the sets that ipvs mode left; returns how many objects that were.
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
    let Some(mut ipvs) = ipvs::Ipvs::open()? else { return Ok(0) };
    let addresses = interfaces::addresses()?.into_iter().filter(|found| found.interface == interface);
    let addresses: BTreeSet<IpAddr> = addresses.map(|found| found.address).collect();
    let servers = ipvs.virtual_servers()?;
    let ours: Vec<_> = servers.iter().filter(|server| addresses.contains(&server.address)).collect();
    for server in &ours {
        ipvs.delete(server)?;
    }
    Ok(ours.len())
}
