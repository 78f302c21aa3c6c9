//! Writes changes to the kernel, batch by batch, and notes in [`Held`] what it took.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use ferrule_kernel::ipset::{SetChange, SetEntry};
use ferrule_kernel::ipvs::{IpvsChange, RealServer, VirtualServerId};
use ferrule_kernel::netlink::{NetlinkError, Rejection};

use super::dataplane::IpvsDataplane;
use super::drain::Fate;
use super::edit::{Edit, UNUSED};
use super::findings::Findings;
use super::kernel::{Held, HeldServer, HeldService};
use super::rules::RuleInput;
use super::sets::AddressSet;
use super::wanted::Wanted;
use crate::static_rules::StaticRules;
use crate::{BackendError, Rejected};

/// What a sync wrote.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub made: usize,
    pub removed: usize,
    pub commits: usize,
    /// What the kernel rejected, and why.
    pub rejected: Vec<(String, String)>,
    /// What a read found to differ.
    pub found: Findings,
}

/// Set entries that the kernel rejected.
#[derive(Debug, Default)]
pub(super) struct Refused(BTreeSet<(AddressSet, SetEntry)>);

impl Written {
    pub(super) fn is_nothing(&self) -> bool {
        self.made == 0 && self.removed == 0
    }

    /// With what had to be made first.
    pub(super) fn with_made(mut self, made: usize, mut found: Findings) -> Self {
        self.count(made, 0);
        found.append(self.found);
        Self { found, ..self }
    }

    fn count(&mut self, made: usize, removed: usize) {
        self.made += made;
        self.removed += removed;
        self.commits += usize::from(made + removed > 0);
    }

    fn reject(&mut self, what: String, rejection: &Rejection) {
        self.rejected.push((what, rejection.to_string()));
    }
}

impl Refused {
    /// Virtual servers that would be open to everyone, because what restricts them was rejected.
    pub(super) fn restricted_services(&self, wanted: &Wanted) -> BTreeSet<VirtualServerId> {
        let restricted = self.0.iter().filter(|(set, _)| *set == AddressSet::LoadBalancerFw);
        let ids = restricted.filter_map(|(_, entry)| match *entry {
            SetEntry::IpPort { ip, protocol, port } => Some(VirtualServerId { address: ip, protocol, port }),
            _ => None,
        });
        ids.filter(|id| wanted.service(id).is_some()).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Addresses on which every listener of the host would answer.
    fn is_unprotected(&self, address: IpAddr) -> bool {
        self.0.contains(&(AddressSet::IpvsIps, SetEntry::Ip(address)))
    }
}

fn failed(error: NetlinkError) -> BackendError {
    BackendError::new("writing the state of ipvs mode").caused_by(error)
}

fn failed_by(rejection: Rejection) -> BackendError {
    BackendError::new("writing the state of ipvs mode").caused_by(rejection)
}

/// A rejection that is not about the object is a failure of the sync.
fn general<'a>(mut rejections: impl Iterator<Item = &'a Rejection>) -> Result<(), BackendError> {
    let found = rejections.find(|rejection| rejection.is_general()).cloned();
    found.map_or(Ok(()), |rejection| Err(failed_by(rejection)))
}

/// Whether a rejection shows that the kernel does not hold what we take it to hold.
fn is_out_of_step(held: &Held, change: &IpvsChange, rejection: &Rejection) -> bool {
    match change {
        IpvsChange::AddService(_) => rejection.is_there(),
        IpvsChange::AddServer { service, .. } => {
            held.services.contains_key(service) && (rejection.is_there() || rejection.is_not_found())
        }
        IpvsChange::SetService(server) => held.services.contains_key(&server.id) && rejection.is_not_found(),
        IpvsChange::SetServer { service, .. } => {
            held.services.contains_key(service) && rejection.is_not_found()
        }
        IpvsChange::DeleteService(_) | IpvsChange::DeleteServer { .. } => false,
    }
}

impl IpvsDataplane {
    pub(super) fn write_rules(
        &mut self,
        rules: &StaticRules,
        input: RuleInput,
        written: &mut Written,
    ) -> Result<(), BackendError> {
        let correction = self.tables.sync(rules).map_err(|error| self.restore_failed(error))?;
        self.rule_input = Some(input);
        written.found.add("rules changed", correction.chains.iter().map(|chain| (*chain).to_owned()));
        written.count(correction.objects, 0);
        Ok(())
    }

    /// Adds entries; returns those that were rejected.
    pub(super) fn add_entries(
        &mut self,
        held: &mut Held,
        entries: &[(AddressSet, SetEntry)],
        written: &mut Written,
    ) -> Result<Refused, BackendError> {
        let mut entries = entries.to_vec();
        entries.sort_by_key(|(set, _)| *set);
        let outcomes = self.change_entries(&entries, true)?;
        let mut refused = Refused::default();
        for ((set, entry), outcome) in entries.iter().zip(&outcomes) {
            match outcome {
                Ok(()) => drop(held.sets[set.index()].insert(*entry)),
                Err(rejection) => {
                    written.reject(format!("{entry} in {}", set.name(self.family)), rejection);
                    refused.0.insert((*set, *entry));
                }
            }
        }
        written.count(entries.len().saturating_sub(refused.0.len()), 0);
        general(outcomes.iter().filter_map(|outcome| outcome.as_ref().err()))?;
        Ok(refused)
    }

    /// Deletes entries, in the opposite order: an exception outlives its rule.
    fn delete_entries(
        &mut self,
        held: &mut Held,
        entries: &[(AddressSet, SetEntry)],
        written: &mut Written,
    ) -> Result<(), BackendError> {
        let mut entries = entries.to_vec();
        entries.sort_by_key(|(set, _)| *set);
        entries.reverse();
        let outcomes = self.change_entries(&entries, false)?;
        let mut deleted = 0;
        for ((set, entry), outcome) in entries.iter().zip(&outcomes) {
            match outcome {
                Ok(()) => {
                    deleted += 1;
                    held.sets[set.index()].remove(entry);
                }
                Err(rejection) => {
                    written.reject(format!("removing {entry} from {}", set.name(self.family)), rejection);
                }
            }
        }
        written.count(0, deleted);
        general(outcomes.iter().filter_map(|outcome| outcome.as_ref().err()))
    }

    fn change_entries(
        &mut self,
        entries: &[(AddressSet, SetEntry)],
        add: bool,
    ) -> Result<Vec<Result<(), Rejection>>, BackendError> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let changes: Vec<SetChange<'_>> = entries
            .iter()
            .map(|(set, entry)| SetChange { set: &self.specs[set.index()], entry: *entry, add })
            .collect();
        self.kernel.sets.apply(&changes).map_err(failed)
    }

    /// Has real servers retire, and binds addresses.
    pub(super) fn open(
        &mut self,
        held: &mut Held,
        edit: &Edit,
        refused: &Refused,
        written: &mut Written,
    ) -> Result<(), BackendError> {
        self.retire(held, &edit.retire, Instant::now(), written)?;
        let bind: Vec<IpAddr> =
            edit.bind.iter().copied().filter(|address| !refused.is_unprotected(*address)).collect();
        self.change_addresses(held, &bind, &[], written)
    }

    /// Removes what is not wanted any more.
    pub(super) fn close(
        &mut self,
        held: &mut Held,
        edit: &Edit,
        written: &mut Written,
    ) -> Result<(), BackendError> {
        self.change_addresses(held, &[], &edit.unbind, written)?;
        self.delete_entries(held, &edit.delete_admitting, written)?;
        let delete: Vec<IpvsChange> =
            edit.delete_services.iter().map(|id| IpvsChange::DeleteService(*id)).collect();
        self.change_services(held, &delete, written)?;
        self.delete_entries(held, &edit.delete_entries, written)
    }

    fn change_addresses(
        &mut self,
        held: &mut Held,
        add: &[IpAddr],
        remove: &[IpAddr],
        written: &mut Written,
    ) -> Result<(), BackendError> {
        if add.is_empty() && remove.is_empty() {
            return Ok(());
        }
        // What watches the interface must not take this for another program's doing.
        for address in add {
            self.bound.insert(*address);
        }
        for address in remove {
            self.bound.remove(*address);
        }
        let refused = self.kernel.links.change(&held.link, add, remove).map_err(failed)?;
        for address in add {
            held.addresses.insert(*address);
        }
        for address in remove {
            held.addresses.remove(address);
        }
        for (address, rejection) in &refused {
            written.reject(format!("address {address} on {}", super::kernel::INTERFACE), rejection);
            if add.contains(address) {
                held.addresses.remove(address)
            } else {
                held.addresses.insert(*address)
            };
        }
        let refused_adds = refused.iter().filter(|(address, _)| add.contains(address)).count();
        let refused_removals = refused.len() - refused_adds;
        written.count(add.len() - refused_adds, remove.len().saturating_sub(refused_removals));
        general(refused.iter().map(|(_, rejection)| rejection))
    }

    /// Changes virtual servers and their real servers. New virtual servers come first: where the kernel takes one for there already, it
    /// is another program's, and gets no real servers of ours.
    pub(super) fn change_services(
        &mut self,
        held: &mut Held,
        changes: &[IpvsChange],
        written: &mut Written,
    ) -> Result<(), BackendError> {
        let is_new = |change: &&IpvsChange| matches!(change, IpvsChange::AddService(_));
        let new: Vec<IpvsChange> = changes.iter().filter(is_new).cloned().collect();
        if new.is_empty() {
            return self.apply_to_services(held, changes, written);
        }
        let made = self.apply_to_services(held, &new, written);
        let is_there = |change: &&IpvsChange| match change {
            IpvsChange::AddService(_) => false,
            IpvsChange::AddServer { service, .. } => held.services.contains_key(service),
            _ => true,
        };
        let rest: Vec<IpvsChange> = changes.iter().filter(is_there).cloned().collect();
        made.and(self.apply_to_services(held, &rest, written))
    }

    fn apply_to_services(
        &mut self,
        held: &mut Held,
        changes: &[IpvsChange],
        written: &mut Written,
    ) -> Result<(), BackendError> {
        if changes.is_empty() {
            return Ok(());
        }
        let outcomes = self.kernel.servers.apply(changes).map_err(|error| {
            // The kernel may have taken them all.
            self.ours.extend(changes.iter().filter_map(new_service));
            failed(error)
        })?;
        let (mut made, mut removed, mut problem) = (0, 0, None);
        for (change, outcome) in changes.iter().zip(outcomes) {
            match outcome {
                Ok(()) if is_removal(change) => removed += 1,
                Ok(()) => made += 1,
                // It is gone already.
                Err(rejection) if is_removal(change) && rejection.is_not_found() => {}
                Err(rejection) if rejection.is_general() => {
                    problem.get_or_insert_with(|| failed_by(rejection));
                    continue;
                }
                Err(rejection) if is_out_of_step(held, change, &rejection) => {
                    self.learn_foreign(held, change);
                    let doing = format!("writing {}, which another program changed", described(change));
                    problem.get_or_insert_with(|| BackendError::new(doing).caused_by(rejection));
                    continue;
                }
                Err(rejection) => {
                    written.reject(described(change), &rejection);
                    continue;
                }
            }
            self.note(held, change);
        }
        written.count(made, removed);
        problem.map_or(Ok(()), Err)
    }

    /// What is in the place of a virtual server that we wanted to add is not ours, though our sets name that place by now.
    fn learn_foreign(&mut self, held: &Held, change: &IpvsChange) {
        if let IpvsChange::AddService(server) = change
            && !held.services.contains_key(&server.id)
            && !self.ours.contains(&server.id)
        {
            self.foreign.insert(server.id);
        }
    }

    /// The kernel took a change.
    fn note(&mut self, held: &mut Held, change: &IpvsChange) {
        match change {
            IpvsChange::AddService(server) => {
                let service = HeldService { server: server.clone(), servers: BTreeMap::default() };
                held.services.insert(server.id, service);
            }
            IpvsChange::SetService(server) => {
                if let Some(service) = held.services.get_mut(&server.id) {
                    service.server = server.clone();
                }
            }
            IpvsChange::DeleteService(id) => {
                held.services.remove(id);
                self.ours.remove(id);
                self.draining.remove_service(id);
            }
            IpvsChange::AddServer { service, server } | IpvsChange::SetServer { service, server } => {
                if let Some(held) = held.services.get_mut(service) {
                    held.servers.insert(server.address, HeldServer::with_weight(server.weight));
                }
                if server.weight != UNUSED {
                    self.draining.remove(service, &server.address);
                }
            }
            IpvsChange::DeleteServer { service, server } => {
                if let Some(held) = held.services.get_mut(service) {
                    held.servers.remove(server);
                }
                self.draining.remove(service, server);
            }
        }
    }

    /// Counts the connections of real servers that drain, if it is time.
    pub(super) fn count_connections(
        &mut self,
        held: &mut Held,
        now: Instant,
        written: &mut Written,
    ) -> Result<(), BackendError> {
        if !self.draining.is_due(now) {
            return Ok(());
        }
        let wanted = &self.wanted;
        self.draining.retain(|service, server| {
            !wanted.service(service).is_some_and(|wanted| wanted.has_server(server))
        });
        let draining = self.draining.begin_count(now);
        self.retire(held, &draining, now, written)
    }

    /// Removes real servers without connections; those that have some get no new ones.
    fn retire(
        &mut self,
        held: &mut Held,
        servers: &[(VirtualServerId, SocketAddr)],
        now: Instant,
        written: &mut Written,
    ) -> Result<(), BackendError> {
        let fates = self.draining.fates(&mut self.kernel, servers, now).map_err(failed)?;
        let mut changes = Vec::new();
        for ((service, address), fate) in servers.iter().zip(fates) {
            let (service, address) = (*service, *address);
            match fate {
                Fate::Delete => changes.push(IpvsChange::DeleteServer { service, server: address }),
                Fate::Drain => {
                    self.draining.insert(service, address, now);
                    let is_drained = held.services.get(&service).and_then(|held| held.servers.get(&address))
                        == Some(&HeldServer::with_weight(UNUSED));
                    if !is_drained {
                        let server = RealServer { address, weight: UNUSED };
                        changes.push(IpvsChange::SetServer { service, server });
                    }
                }
                Fate::Gone => {
                    self.note(held, &IpvsChange::DeleteServer { service, server: address });
                }
            }
        }
        self.change_services(held, &changes, written)
    }

    /// What was rejected, for the report. A sync of a change tries only what changed: what was rejected before still is.
    pub(super) fn report_rejected(
        &mut self,
        rejected: Vec<(String, String)>,
        is_change: bool,
    ) -> Vec<Rejected> {
        let before = std::mem::take(&mut self.rejected);
        self.rejected = rejected.iter().map(|(what, _)| what.clone()).collect();
        if is_change {
            self.rejected.extend(before.iter().cloned());
        }
        let report = |(what, reason): (String, String)| {
            let is_repeated = before.contains(&what);
            Rejected { what, reason, is_repeated }
        };
        rejected.into_iter().map(report).collect()
    }
}

fn is_removal(change: &IpvsChange) -> bool {
    matches!(change, IpvsChange::DeleteService(_) | IpvsChange::DeleteServer { .. })
}

fn new_service(change: &IpvsChange) -> Option<VirtualServerId> {
    match change {
        IpvsChange::AddService(server) => Some(server.id),
        _ => None,
    }
}

fn described(change: &IpvsChange) -> String {
    match change {
        IpvsChange::AddService(server) | IpvsChange::SetService(server) => {
            format!("virtual server {} ({})", server.id, server.scheduler)
        }
        IpvsChange::DeleteService(id) => format!("removing virtual server {id}"),
        IpvsChange::AddServer { service, server } | IpvsChange::SetServer { service, server } => {
            format!("real server {} of {service}", server.address)
        }
        IpvsChange::DeleteServer { service, server } => format!("removing real server {server} of {service}"),
    }
}
