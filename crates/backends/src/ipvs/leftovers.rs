//! Removes what ipvs mode left on the host, ours or kube-proxy's, and nothing of other programs.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ferrule_kernel::dummy::LinkClient;
use ferrule_kernel::interfaces;
use ferrule_kernel::ipset::IpSets;
use ferrule_kernel::ipvs::{Ipvs as IpvsClient, IpvsChange, VirtualServerId};
use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::port::{AddressSets as _, ServiceInterface as _};
use ferrule_model::IpFamily;

use super::kernel::{Held, INTERFACE, Kernel, Known};
use super::sets::{AddressSet, specs};
use crate::BackendError;

/// Removes the virtual servers, the interface and the sets that ipvs mode left; returns how many objects that were.
///
/// Virtual servers are ours if our interface or our sets name them. Rules that use a set must be gone before: see
/// [`crate::iptables::remove_leftovers`].
pub fn remove_leftovers() -> Result<usize, BackendError> {
    let failed = |error: NetlinkError| BackendError::new("removing what ipvs mode left").caused_by(error);
    // Without sets there is nothing of ours, and nothing that says which virtual servers are ours.
    let mut sets = match IpSets::open() {
        Err(NetlinkError::Rejected { .. }) => return remove_interface().map_err(failed),
        opened => opened.map_err(failed)?,
    };
    let mut removed = match IpvsClient::open_loaded().map_err(failed)? {
        Some(servers) => remove_virtual_servers(servers)?,
        None => 0,
    };
    removed += remove_interface().map_err(failed)?;
    let ours: BTreeSet<&str> =
        IpFamily::BOTH.into_iter().flat_map(|family| AddressSet::ALL.map(|set| set.name(family))).collect();
    let found = sets.sets().map_err(failed)?.into_iter().filter(|set| ours.contains(set.name.as_str()));
    // One that another program's rule uses stays.
    removed += found.filter(|set| sets.destroy(&set.name).is_ok()).count();
    Ok(removed)
}

fn remove_interface() -> Result<usize, NetlinkError> {
    let mut links = LinkClient::open()?;
    match links.find(INTERFACE)?.filter(ferrule_kernel::dummy::Link::is_dummy) {
        Some(link) => links.delete(&link).map(|()| 1),
        None => Ok(0),
    }
}

fn remove_virtual_servers(servers: IpvsClient) -> Result<usize, BackendError> {
    let failed = |error: NetlinkError| BackendError::new("removing virtual servers").caused_by(error);
    let sets = IpSets::open().map_err(failed)?;
    let links = LinkClient::open().map_err(failed)?;
    let mut kernel = Kernel { servers: Box::new(servers), sets: Box::new(sets), links: Box::new(links) };
    let addresses = interfaces::node_addresses().map_err(failed)?;
    let host_addresses: BTreeSet<IpAddr> = addresses.into_iter().map(|found| found.address).collect();
    let mut removed = 0;
    for family in IpFamily::BOTH {
        let specs = specs(family);
        let known = Known { family, specs: &specs, ours: BTreeSet::new(), host_addresses: &host_addresses };
        let (held, _) = Held::read(&mut kernel, &known)?;
        let ids: Vec<VirtualServerId> = held.services.into_keys().collect();
        let changes: Vec<IpvsChange> = ids.into_iter().map(IpvsChange::DeleteService).collect();
        let outcomes = kernel.servers.apply(&changes).map_err(failed)?;
        removed += outcomes.into_iter().flatten().count();
    }
    Ok(removed)
}
