//! What has to be written to get from what the kernel holds to what is wanted, in an order in which no address leads anywhere
//! before it is protected, and no protection goes before what it protects.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use ferrule_kernel::ipset::SetEntry;
use ferrule_kernel::ipvs::{IpvsChange, RealServer, VirtualServerId};
use ipnet::IpNet;

use super::drain::{Draining, Fate, waits_for_connections};
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
}

/// What is compared with what.
pub(super) struct Comparison<'a> {
    pub wanted: &'a Wanted,
    pub held: &'a Held,
    pub draining: &'a Draining,
    /// Blocks whose virtual servers are never removed.
    pub excluded: &'a [IpNet],
    /// Virtual servers that are wanted and cannot be there: another program has one in their place, or what restricts them, or
    /// they themselves, were rejected. Nothing must lead to them.
    pub withheld: &'a BTreeSet<VirtualServerId>,
}

impl Comparison<'_> {
    fn wants_entry(&self, set: AddressSet, entry: &SetEntry) -> bool {
        self.wanted.has_entry(set, entry) && !self.is_withheld(set, entry)
    }

    fn wants_address(&self, address: IpAddr) -> bool {
        self.wanted.addresses().contains(&address) && !self.is_unused(address)
    }

    /// Whether an entry is about virtual servers that are withheld, and leads to them.
    fn is_withheld(&self, set: AddressSet, entry: &SetEntry) -> bool {
        if self.withheld.is_empty() {
            return false;
        }
        match *entry {
            SetEntry::IpPort { ip, protocol, port } => {
                set.leads_to_servers()
                    && self.withheld.contains(&VirtualServerId { address: ip, protocol, port })
            }
            SetEntry::Port(port) => set.node_port_protocol().is_some_and(|protocol| {
                let mut servers = self.wanted.node_port_servers(protocol, port).iter().peekable();
                servers.peek().is_some() && servers.all(|id| self.withheld.contains(id))
            }),
            SetEntry::Ip(address) => self.is_unused(address),
            SetEntry::IpPortIp { .. } | SetEntry::IpPortNet { .. } => false,
        }
    }

    /// Whether every virtual server at an address is withheld.
    fn is_unused(&self, address: IpAddr) -> bool {
        let mut services = self.wanted.services_at(address).peekable();
        services.peek().is_some() && services.all(|id| self.withheld.contains(id))
    }
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
        match (compare.wants_entry(set, &entry), is_held) {
            (true, false) => self.add_entries.push((set, entry)),
            (false, true) if set.admits() && stays_bound(compare, &entry) => {
                self.delete_admitting.push((set, entry));
            }
            (false, true) => self.delete_entries.push((set, entry)),
            (true, true) | (false, false) => {}
        }
    }

    fn services<'a>(&mut self, compare: &Comparison<'_>, ids: impl Iterator<Item = &'a VirtualServerId>) {
        for id in ids {
            let wanted = compare.wanted.service(id).filter(|_| !compare.withheld.contains(id));
            match (wanted, compare.held.services.get(id)) {
                (Some(wanted), held) => {
                    let changes = self.service(compare.draining, wanted, held);
                    self.services.extend(changes);
                }
                (None, Some(_)) if is_excluded(compare.excluded, id) => {}
                (None, Some(_)) => self.delete_services.push(*id),
                (None, None) => {}
            }
        }
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
        let is_drained =
            |address: &SocketAddr| held.servers.get(address) == Some(&HeldServer::with_weight(UNUSED));
        let waiting = |address: &&SocketAddr| draining.has(&service, address) && is_drained(address);
        self.retire.extend(unwanted.filter(|address| !waiting(address)).map(|address| (service, *address)));
        changes
    }

    /// What really becomes of the real servers that are to retire: one that has drained to nothing goes, one that still has
    /// connections gets no new ones, which it may be without already.
    pub(super) fn settle(&mut self, held: &Held, fates: &[Fate]) {
        let is_quiet = |service: &VirtualServerId, address: &SocketAddr| {
            let server = held.services.get(service).and_then(|held| held.servers.get(address));
            server == Some(&HeldServer::with_weight(UNUSED))
        };
        let all = std::mem::take(&mut self.retire);
        for ((service, address), fate) in all.into_iter().zip(fates) {
            match fate {
                // Those at rest go at the next count, a minute later at most.
                Fate::Delete | Fate::Drain
                    if waits_for_connections(&service) && is_quiet(&service, &address) => {}
                Fate::Delete => self.retire.push((service, address)),
                Fate::Drain => {
                    let server = RealServer { address, weight: UNUSED };
                    self.services.push(IpvsChange::SetServer { service, server });
                }
                Fate::Gone => {}
            }
        }
    }

    fn address(&mut self, compare: &Comparison<'_>, address: IpAddr) {
        match (compare.wants_address(address), compare.held.addresses.contains(&address)) {
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
