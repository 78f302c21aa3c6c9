//! Removes what ipvs mode left on the host, ours or kube-proxy's, and nothing of other programs.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ferrule_kernel::conntrack::{Conntrack, FlowFilter, FlowQuery, UDP};
use ferrule_kernel::dummy::{Link, LinkClient};
use ferrule_kernel::interfaces;
use ferrule_kernel::ipset::{BUSY, IpSets, SeenSet, SetSpec};
use ferrule_kernel::ipvs::{Ipvs as IpvsClient, VirtualServerId};
use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::port::{AddressSets as _, ServiceInterface as _};
use ferrule_model::IpFamily;

use super::departure::{Departed, depart};
use super::kernel::{INTERFACE, Kernel, Known, is_anothers};
use super::sets::specs;
use super::wanted::Wanted;
use crate::{BackendError, OpenConnections, table_family};

/// How long the kernel may take to free rules that used sets, after the commit that removed them: a second.
const PAUSES: usize = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// Removes the virtual servers that ipvs mode left, each with its address.
///
/// Before anything that protects them: rules, sets. Virtual servers are ours if our interface or our sets name them.
pub(super) fn remove_servers(connections: OpenConnections) -> Result<Departed, BackendError> {
    let failed = |error: NetlinkError| BackendError::new("removing what ipvs mode left").caused_by(error);
    let mut departed = Departed::default();
    if let Some(servers) = IpvsClient::open_loaded().map_err(failed)?
        && let Some(mut kernel) = open_kernel(servers).map_err(failed)?
    {
        let addresses = interfaces::node_addresses().map_err(failed)?;
        let host_addresses = addresses.into_iter().map(|found| found.address).collect();
        for family in IpFamily::BOTH {
            let here = depart_family(&mut kernel, family, &host_addresses, connections)?;
            departed.servers += here.servers;
            departed.open.add(here.open);
        }
    }
    Ok(departed)
}

fn depart_family(
    kernel: &mut Kernel,
    family: IpFamily,
    host_addresses: &BTreeSet<IpAddr>,
    connections: OpenConnections,
) -> Result<Departed, BackendError> {
    let known = Known {
        family,
        specs: &specs(family),
        ours: BTreeSet::new(),
        foreign: BTreeSet::new(),
        host_addresses,
        is_known_ours: false,
        wanted: &Wanted::default(),
        is_lenient: true,
    };
    depart(kernel, &known, connections, &mut |services| forget_flows(family, services))
}

/// Conntrack would go on sending the packets of a flow that it knows past the new mode's rules.
fn forget_flows(family: IpFamily, services: &[VirtualServerId]) -> Result<(), NetlinkError> {
    let to: BTreeSet<SocketAddr> =
        services.iter().map(|service| SocketAddr::new(service.address, service.port)).collect();
    let mut conntrack = Conntrack::open()?;
    let query = FlowQuery { family: table_family(family), protocol: UDP, filter: FlowFilter::All };
    let flows = conntrack.some_flows(query, |flow| to.contains(&flow.original.destination))?;
    flows.items.iter().try_for_each(|flow| conntrack.delete(flow))
}

/// Removes the sets that ipvs mode left. Rules that use them must be gone before: see [`crate::iptables::remove_leftovers`].
pub fn remove_sets() -> Result<usize, BackendError> {
    let failed =
        |error: NetlinkError| BackendError::new("removing the address sets of ipvs mode").caused_by(error);
    let Some(mut sets) = open_sets().map_err(failed)? else { return Ok(0) };
    let ours: Vec<SetSpec> = IpFamily::BOTH.into_iter().flat_map(specs).collect();
    let is_ours = |set: &SeenSet| ours.iter().any(|spec| set.name == *spec.name && set.is_as(spec));
    let found: Vec<SeenSet> = sets.sets().map_err(failed)?.into_iter().filter(is_ours).collect();
    let mut pauses = PAUSES;
    let mut removed = 0;
    for set in &found {
        removed += usize::from(destroy(&mut sets, &set.name, &mut pauses).map_err(failed)?);
    }
    Ok(removed)
}

/// Destroys a set, unless a rule uses it: one of another program, so that it stays, or one of ours that the kernel is about to free.
fn destroy(sets: &mut IpSets, name: &str, pauses: &mut usize) -> Result<bool, NetlinkError> {
    loop {
        match sets.destroy(name) {
            Ok(()) => return Ok(true),
            Err(error) if error.rejection().is_none_or(|rejection| rejection.errno != BUSY) => {
                return Err(error);
            }
            Err(_) if *pauses == 0 => return Ok(false),
            Err(_) => {
                *pauses -= 1;
                std::thread::park_timeout(PAUSE);
            }
        }
    }
}

/// None if this kernel has no sets.
fn open_sets() -> Result<Option<IpSets>, NetlinkError> {
    match IpSets::open() {
        Err(NetlinkError::Rejected { .. }) => Ok(None),
        opened => opened.map(Some),
    }
}

/// Removes the interface; returns how many there were.
pub(super) fn remove_interface() -> Result<usize, BackendError> {
    let seen = || open_sets()?.map_or(Ok(Vec::new()), |mut sets| sets.sets());
    let removed =
        LinkClient::open().and_then(|mut links| match links.find(INTERFACE)?.filter(Link::is_dummy) {
            Some(link) if !is_anothers(&mut links, &link, &seen()?)? => links.delete(&link).map(|()| 1),
            _ => Ok(0),
        });
    removed.map_err(|error| BackendError::new("removing the interface of ipvs mode").caused_by(error))
}

/// None if there can be no virtual servers of ours: without sets in the kernel none was made.
fn open_kernel(servers: IpvsClient) -> Result<Option<Kernel>, NetlinkError> {
    let Some(sets) = open_sets()? else { return Ok(None) };
    let links = LinkClient::open()?;
    Ok(Some(Kernel::of(servers, sets, links)))
}
