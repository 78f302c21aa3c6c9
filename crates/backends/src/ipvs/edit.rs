//! What has to be written to get from what the kernel holds to what is wanted, in an order in which no address leads anywhere
//! before it is protected, and no protection goes before what it protects.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use ferrule_kernel::ipset::SetEntry;
use ferrule_kernel::ipvs::{IpvsChange, RealServer, VirtualServerId};
use ipnet::IpNet;

use super::drain::Draining;
use super::kernel::{Held, HeldServer, HeldService};
use super::sets::AddressSet;
use super::wanted::{Touched, Wanted, WantedService};

/// The weight of a real server in use.
pub(super) const IN_USE: u32 = 1;
/// The weight of one that gets no new connections.
pub(super) const UNUSED: u32 = 0;

/// Changes, in the order in which they are written.
#[derive(Debug, Default)]
pub(super) struct Edit {
    pub add_entries: Vec<(AddressSet, SetEntry)>,
    /// Virtual servers that are new or changed, each with its new real servers.
    pub services: Vec<IpvsChange>,
    /// Real servers that are to go once their connections have ended.
    pub retire: Vec<(VirtualServerId, SocketAddr)>,
    pub bind: Vec<IpAddr>,
    pub unbind: Vec<IpAddr>,
    /// Entries that must go before their virtual servers: see [`AddressSet::admits`].
    pub delete_admitting: Vec<(AddressSet, SetEntry)>,
    pub delete_services: Vec<VirtualServerId>,
    pub delete_entries: Vec<(AddressSet, SetEntry)>,
    /// Others' virtual servers where ours should be.
    pub taken: Vec<VirtualServerId>,
}

/// What is compared with what.
pub(super) struct Comparison<'a> {
    pub wanted: &'a Wanted,
    pub held: &'a Held,
    pub draining: &'a Draining,
    /// Blocks whose virtual servers are never removed.
    pub excluded: &'a [IpNet],
    /// Virtual servers that must not be there, since what restricts them was refused.
    pub blocked: &'a BTreeSet<VirtualServerId>,
}

impl Edit {
    /// The differences in what a change touched.
    pub(super) fn of_touched(compare: &Comparison<'_>, touched: &Touched) -> Self {
        let mut edit = Self::default();
        for (set, entry) in &touched.entries {
            edit.entry(compare, *set, *entry);
        }
        edit.services(compare, touched.services.iter());
        for address in &touched.addresses {
            edit.address(compare, *address);
        }
        edit
    }

    /// All differences.
    pub(super) fn of_everything(compare: &Comparison<'_>) -> Self {
        let mut edit = Self::default();
        for set in AddressSet::ALL {
            let held = &compare.held.sets[set.index()];
            let all = compare
                .wanted
                .entries(set)
                .chain(held.iter().filter(|entry| !compare.wanted.has_entry(set, entry)));
            all.for_each(|entry| edit.entry(compare, set, *entry));
        }
        let ids: BTreeSet<VirtualServerId> = compare
            .wanted
            .services()
            .map(|(id, _)| *id)
            .chain(compare.held.services.keys().copied())
            .collect();
        edit.services(compare, ids.iter());
        for address in compare.wanted.addresses().union(&compare.held.addresses) {
            edit.address(compare, *address);
        }
        edit
    }

    fn entry(&mut self, compare: &Comparison<'_>, set: AddressSet, entry: SetEntry) {
        let is_held = compare.held.sets[set.index()].contains(&entry);
        match (compare.wanted.has_entry(set, &entry), is_held) {
            (true, false) => self.add_entries.push((set, entry)),
            (false, true) if set.admits() && stays_bound(compare, &entry) => {
                self.delete_admitting.push((set, entry));
            }
            (false, true) => self.delete_entries.push((set, entry)),
            (true, true) | (false, false) => {}
        }
    }

    fn services<'a>(&mut self, compare: &Comparison<'_>, ids: impl Iterator<Item = &'a VirtualServerId>) {
        let mut later = Vec::new();
        for id in ids {
            let wanted = compare.wanted.service(id).filter(|_| !compare.blocked.contains(id));
            match (wanted, compare.held.services.get(id)) {
                (Some(_), _) if compare.held.foreign.contains_key(id) => self.taken.push(*id),
                (Some(wanted), held) => {
                    let changes = self.service(compare.draining, wanted, held);
                    if wanted.is_urgent() { &mut self.services } else { &mut later }.extend(changes);
                }
                (None, Some(_)) if is_excluded(compare.excluded, id) => {}
                (None, Some(_)) => self.delete_services.push(*id),
                (None, None) => {}
            }
        }
        self.services.append(&mut later);
    }

    /// What makes a virtual server and its real servers as they should be. Those that are too many retire.
    fn service(
        &mut self,
        draining: &Draining,
        wanted: &WantedService,
        held: Option<&HeldService>,
    ) -> Vec<IpvsChange> {
        let mut changes = Vec::new();
        let service = wanted.server.id;
        match held {
            None => changes.push(IpvsChange::AddService(wanted.server.clone())),
            Some(held) if held.server != wanted.server => {
                changes.push(IpvsChange::SetService(wanted.server.clone()));
            }
            Some(_) => {}
        }
        let there = |address: SocketAddr| held.and_then(|held| held.servers.get(&address));
        for address in wanted.real_servers() {
            let server = RealServer { address, weight: IN_USE };
            match there(address) {
                None => changes.push(IpvsChange::AddServer { service, server }),
                // One that was about to go is taken back in place, and keeps its connections.
                Some(is) if *is != HeldServer::with_weight(IN_USE) => {
                    changes.push(IpvsChange::SetServer { service, server });
                }
                Some(_) => {}
            }
        }
        let Some(held) = held else { return changes };
        let wanted: BTreeSet<SocketAddr> = wanted.real_servers().collect();
        let unwanted = held.servers.keys().filter(|address| !wanted.contains(address));
        let waiting = |address: &&SocketAddr| draining.has(&service, address);
        self.retire.extend(unwanted.filter(|address| !waiting(address)).map(|address| (service, *address)));
        changes
    }

    fn address(&mut self, compare: &Comparison<'_>, address: IpAddr) {
        match (compare.wanted.addresses().contains(&address), compare.held.addresses.contains(&address)) {
            (true, false) => self.bind.push(address),
            (false, true) => self.unbind.push(address),
            (true, true) | (false, false) => {}
        }
    }
}

/// Whether the address of an entry stays on the interface, so that a listener of the host could answer.
fn stays_bound(compare: &Comparison<'_>, entry: &SetEntry) -> bool {
    match entry {
        SetEntry::IpPort { ip, .. } => compare.wanted.addresses().contains(ip),
        SetEntry::Ip(_) | SetEntry::IpPortIp { .. } | SetEntry::IpPortNet { .. } | SetEntry::Port(_) => false,
    }
}

fn is_excluded(blocks: &[IpNet], id: &VirtualServerId) -> bool {
    blocks.iter().any(|block| block.contains(&id.address))
}
