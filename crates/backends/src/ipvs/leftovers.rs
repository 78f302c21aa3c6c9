//! Removes what ipvs mode left on the host, ours or kube-proxy's, and nothing of other programs.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ferrule_kernel::dummy::LinkClient;
use ferrule_kernel::interfaces;
use ferrule_kernel::ipset::{IpSets, SeenSet, SetSpec};
use ferrule_kernel::ipvs::{Ipvs as IpvsClient, IpvsChange, VirtualServerId};
use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::port::{AddressSets as _, ServiceInterface as _};
use ferrule_model::IpFamily;

use super::kernel::{Held, INTERFACE, Kernel, Known};
use super::sets::specs;
use crate::BackendError;

/// Removes the interface and the virtual servers that ipvs mode left; returns how many objects that were.
///
/// Before anything that protects them: rules, sets. Virtual servers are ours if our interface or our sets name them.
pub fn remove_servers() -> Result<usize, BackendError> {
    let failed = |error: NetlinkError| BackendError::new("removing what ipvs mode left").caused_by(error);
    let ours = match IpvsClient::open_loaded().map_err(failed)? {
        Some(servers) => find_servers(servers)?,
        None => None,
    };
    // Without their addresses they cannot be reached.
    let mut removed = remove_interface().map_err(failed)?;
    if let Some(OurServers { mut kernel, ids }) = ours {
        let changes: Vec<IpvsChange> = ids.into_iter().map(IpvsChange::DeleteService).collect();
        let outcomes = kernel.servers.apply(&changes).map_err(failed)?;
        removed += outcomes.into_iter().flatten().count();
    }
    Ok(removed)
}

/// Removes the sets that ipvs mode left. Rules that use them must be gone before: see [`crate::iptables::remove_leftovers`].
pub fn remove_sets() -> Result<usize, BackendError> {
    let failed =
        |error: NetlinkError| BackendError::new("removing the address sets of ipvs mode").caused_by(error);
    let Some(mut sets) = open_sets().map_err(failed)? else { return Ok(0) };
    let ours: Vec<SetSpec> = IpFamily::BOTH.into_iter().flat_map(specs).collect();
    let is_ours = |set: &SeenSet| ours.iter().any(|spec| set.name == *spec.name && set.is_as(spec));
    let found: Vec<SeenSet> = sets.sets().map_err(failed)?.into_iter().filter(is_ours).collect();
    // One that another program's rule uses stays.
    Ok(found.iter().filter(|set| sets.destroy(&set.name).is_ok()).count())
}

/// None if this kernel has no sets.
fn open_sets() -> Result<Option<IpSets>, NetlinkError> {
    match IpSets::open() {
        Err(NetlinkError::Rejected { .. }) => Ok(None),
        opened => opened.map(Some),
    }
}

fn remove_interface() -> Result<usize, NetlinkError> {
    let mut links = LinkClient::open()?;
    match links.find(INTERFACE)?.filter(ferrule_kernel::dummy::Link::is_dummy) {
        Some(link) => links.delete(&link).map(|()| 1),
        None => Ok(0),
    }
}

/// Our virtual servers, and what they can be removed with.
struct OurServers {
    kernel: Kernel,
    ids: Vec<VirtualServerId>,
}

/// None if there can be none: without sets in the kernel none was made.
fn find_servers(servers: IpvsClient) -> Result<Option<OurServers>, BackendError> {
    let failed = |error: NetlinkError| BackendError::new("reading the state of ipvs mode").caused_by(error);
    let Some(sets) = open_sets().map_err(failed)? else { return Ok(None) };
    let links = LinkClient::open().map_err(failed)?;
    let mut kernel = Kernel { servers: Box::new(servers), sets: Box::new(sets), links: Box::new(links) };
    let addresses = interfaces::node_addresses().map_err(failed)?;
    let host_addresses: BTreeSet<IpAddr> = addresses.into_iter().map(|found| found.address).collect();
    let mut ids = Vec::new();
    for family in IpFamily::BOTH {
        let known = Known {
            family,
            specs: &specs(family),
            ours: BTreeSet::new(),
            foreign: BTreeSet::new(),
            host_addresses: &host_addresses,
            is_lenient: true,
        };
        let (held, _) = Held::read(&mut kernel, &known)?;
        ids.extend(held.services.into_keys());
    }
    Ok(Some(OurServers { kernel, ids }))
}
