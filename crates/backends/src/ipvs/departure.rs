//! Leaving ipvs mode without cutting a connection: another mode serves already, and what still has connections stays for them.
//!
//! ```text
//!   new connection  ──► the new mode's DNAT, in prerouting and output, before IPVS sees it
//!   open connection ──► known to conntrack, so no DNAT ──► its address is still on kube-ipvs0 ──► IPVS ──► its real server, weight 0
//! ```
//!
//! A real server of weight 0 takes no new connections, so that a Service that is deleted meanwhile is refused, and not served by
//! endpoints of the past. `KUBE-IPVS-FILTER` and the sets stay with the addresses: listeners of the host are not reached through
//! them. UDP has no connections to wait for: its flows are forgotten, and their next packets are the new mode's.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ferrule_kernel::ipset::{SetChange, SetEntry};
use ferrule_kernel::ipvs::{IpvsChange, RealServer, SeenRealServer, VirtualServerId};
use ferrule_kernel::netlink::NetlinkError;
use ferrule_model::Protocol;

use super::edit::UNUSED;
use super::kernel::{Held, Kernel, Known};
use super::sets::AddressSet;
use crate::{BackendError, OpenConnections, StillOpen};

/// Deletes the flows to virtual servers of UDP from conntrack.
pub(super) type ForgetFlows<'a> = &'a mut dyn FnMut(&[VirtualServerId]) -> Result<(), NetlinkError>;

/// What one family's virtual servers came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Departed {
    /// How many virtual servers went.
    pub servers: usize,
    /// What stays for connections.
    pub open: StillOpen,
}

/// What is to be written, in this order.
#[derive(Debug, Default)]
struct Departure {
    /// Real servers get no new connections; those that have none go.
    quiet: Vec<IpvsChange>,
    /// Virtual servers of UDP that go.
    forgotten: Vec<VirtualServerId>,
    unbind: Vec<IpAddr>,
    /// Entries that admit packets to a port; without its virtual server a listener of the host would get them.
    shut: Vec<(AddressSet, SetEntry)>,
    gone: Vec<VirtualServerId>,
    open: StillOpen,
}

/// Removes the virtual servers of a family that have no connections, and their addresses.
pub(super) fn depart(
    kernel: &mut Kernel,
    known: &Known<'_>,
    connections: OpenConnections,
    forget: ForgetFlows<'_>,
) -> Result<Departed, BackendError> {
    let failed =
        |error: NetlinkError| BackendError::new("removing the virtual servers of ipvs mode").caused_by(error);
    let (held, _) = Held::read(kernel, known)?;
    let ids: Vec<VirtualServerId> = held.services.keys().copied().collect();
    let real = kernel.servers.all_real_servers(&ids).map_err(failed)?;
    let departure = Departure::new(&held, ids.into_iter().zip(real).collect(), connections);
    let quieted = kernel.servers.apply(&departure.quiet).map_err(failed)?;
    let mut problem = quieted.into_iter().filter_map(Result::err).find(|rejection| !rejection.is_not_found());
    // Where no mode has taken over, their next packets would find nothing either.
    if !departure.forgotten.is_empty() && connections == OpenConnections::LeftToEnd {
        forget(&departure.forgotten).map_err(failed)?;
    }
    let unbound = kernel.links.change(&held.link, &[], &departure.unbind).map_err(failed)?;
    problem = problem.or(unbound.into_iter().map(|(_, rejection)| rejection).next());
    let shut: Vec<SetChange<'_>> = departure
        .shut
        .iter()
        .map(|(set, entry)| SetChange { set: &known.specs[set.index()], entry: *entry, add: false })
        .collect();
    let outcomes = kernel.sets.apply(&shut).map_err(failed)?;
    let mut admitted = BTreeSet::new();
    for ((_, entry), outcome) in departure.shut.iter().zip(outcomes) {
        if let Err(rejection) = outcome {
            admitted.insert(*entry);
            problem = problem.or(Some(rejection));
        }
    }
    // The others go now: without their entries the next pass would not know them.
    let gone = departure.gone.iter().filter(|id| !admitted.contains(&entry_of(id)));
    let gone: Vec<IpvsChange> = gone.copied().map(IpvsChange::DeleteService).collect();
    let mut servers = 0;
    for outcome in kernel.servers.apply(&gone).map_err(failed)? {
        match outcome {
            Ok(()) => servers += 1,
            Err(rejection) if rejection.is_not_found() => {}
            Err(rejection) => problem = problem.or(Some(rejection)),
        }
    }
    match problem {
        // What says that they are ours must not go before them.
        Some(rejection) => {
            let doing = "removing the virtual servers of ipvs mode";
            Err(BackendError::new(doing).caused_by(rejection))
        }
        None => Ok(Departed { servers, open: departure.open }),
    }
}

impl Departure {
    fn new(
        held: &Held,
        services: BTreeMap<VirtualServerId, Vec<SeenRealServer>>,
        connections: OpenConnections,
    ) -> Self {
        let mut departure = Self::default();
        let mut needed = BTreeSet::new();
        for (id, servers) in services {
            let open: usize = servers.iter().map(|server| connections_of(server, connections)).sum();
            if id.protocol == Protocol::Udp.number() {
                departure.forgotten.push(id);
                departure.remove(held, id);
            } else if open == 0 {
                departure.remove(held, id);
            } else {
                departure.open.servers += 1;
                departure.open.connections += open;
                departure.quiet.extend(servers.iter().filter_map(|server| quieted(id, server)));
                needed.insert(id.address);
            }
        }
        departure.unbind = held.addresses.difference(&needed).copied().collect();
        departure
    }

    fn remove(&mut self, held: &Held, id: VirtualServerId) {
        let entry = entry_of(&id);
        let admitting = AddressSet::ALL.into_iter().filter(|set| set.admits());
        let there = admitting.filter(|set| held.sets[set.index()].contains(&entry));
        self.shut.extend(there.map(|set| (set, entry)));
        self.gone.push(id);
    }
}

/// The entry by which sets know a virtual server.
fn entry_of(id: &VirtualServerId) -> SetEntry {
    SetEntry::IpPort { ip: id.address, protocol: id.protocol, port: id.port }
}

/// How many connections are waited for. One that is closing counts: its last packets would be lost.
fn connections_of(server: &SeenRealServer, connections: OpenConnections) -> usize {
    let count = server.active.saturating_add(server.inactive);
    match connections {
        OpenConnections::LeftToEnd => usize::try_from(count).unwrap_or(usize::MAX),
        OpenConnections::Cut => 0,
    }
}

/// What makes a real server take no new connections, if it does.
fn quieted(service: VirtualServerId, seen: &SeenRealServer) -> Option<IpvsChange> {
    let address: SocketAddr = seen.server.address;
    if connections_of(seen, OpenConnections::LeftToEnd) == 0 {
        return Some(IpvsChange::DeleteServer { service, server: address });
    }
    let server = RealServer { address, weight: UNUSED };
    (seen.server.weight != UNUSED).then_some(IpvsChange::SetServer { service, server })
}
