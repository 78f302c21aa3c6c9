//! ipvs mode: not built yet; what kube-proxy's left is removed.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use ferrule_kernel::dummy::{Link, LinkClient};
use ferrule_kernel::ipset::IpSets;
use ferrule_kernel::ipvs::{self, IpvsChange};
use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::port::{AddressSets as _, ServiceInterface as _, VirtualServers as _};
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
    let mut links = LinkClient::open()?;
    if let Some(link) = links.find(INTERFACE)? {
        removed += remove_virtual_servers(&mut links, &link)?;
        links.delete(&link)?;
        removed += 1;
    }
    Ok(removed + remove_sets()?)
}

/// A set that a rule uses stays.
fn remove_sets() -> Result<usize, NetlinkError> {
    let mut sets = match IpSets::open() {
        // The kernel has no sets, or we may not ask.
        Err(NetlinkError::Rejected { .. }) => return Ok(0),
        opened => opened?,
    };
    let ours: BTreeSet<String> =
        SETS.iter().flat_map(|set| [set_name("KUBE-", set), set_name("KUBE-6-", set)]).collect();
    let found = sets.sets()?.into_iter().filter(|set| ours.contains(&set.name));
    Ok(found.filter(|set| sets.destroy(&set.name).is_ok()).count())
}

fn set_name(beginning: &str, set: &str) -> String {
    let mut name = format!("{beginning}{set}");
    name.truncate(LONGEST_NAME);
    name
}

fn remove_virtual_servers(links: &mut LinkClient, link: &Link) -> Result<usize, NetlinkError> {
    let Some(mut ipvs) = ipvs::Ipvs::open_loaded()? else { return Ok(0) };
    let addresses: BTreeSet<IpAddr> = links.addresses(link)?.into_iter().collect();
    let servers = ipvs.list()?.servers.into_iter().map(|seen| seen.server.id);
    let ours = servers.filter(|id| addresses.contains(&id.address)).map(IpvsChange::DeleteService);
    let outcomes = ipvs.apply(&ours.collect::<Vec<_>>())?;
    let count = outcomes.len();
    let operation = "removing a virtual server";
    let rejected = outcomes.into_iter().find_map(Result::err);
    rejected.map_or(Ok(count), |rejection| Err(NetlinkError::Rejected { operation, rejection }))
}
