//! Makes the kernel hold what is wanted, in an order in which no address leads anywhere unprotected: see [`super::edit`].

use std::collections::BTreeSet;
use std::time::Instant;

use ferrule_kernel::ipset::SetEntry;
use ferrule_kernel::ipvs::VirtualServerId;
use ferrule_plan::FamilyPlan;

use super::dataplane::IpvsDataplane;
use super::edit::{Comparison, Edit};
use super::kernel::Held;
use super::rules::rules;
use super::sets::AddressSet;
use super::wanted::Touched;
use super::write::Written;
use crate::BackendError;

/// When the rules are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Before anything can be reached.
    RulesFirst,
    /// Table nat last, since its chains are those of another mode that still serves.
    NatLast,
}

impl IpvsDataplane {
    /// Brings what a change touched in line, or everything.
    pub(super) fn bring_in_line(
        &mut self,
        held: &mut Held,
        plan: &FamilyPlan,
        touched: Option<&Touched>,
        order: Order,
    ) -> Result<Written, BackendError> {
        let wanted = self.wanted.rule_input();
        let interim = self.rule_input.as_ref().map_or_else(|| wanted.clone(), |was| was.or(&wanted));
        let mut written = Written::default();
        // There are as many rules as restricted load balancers, so a change that is not about them makes none.
        if touched.is_none() || self.rule_input.as_ref() != Some(&interim) {
            let before = rules(&plan.node, &interim);
            match order {
                Order::RulesFirst => self.write_rules(&before, interim.clone(), &mut written)?,
                Order::NatLast => {
                    self.write_rules(&before.of_tables(&["filter"]), interim.clone(), &mut written)?;
                }
            }
        }
        let withheld = self.taken(held, touched, &mut written);
        if touched.is_none() {
            written.found.edit(&self.compare(held, None, &withheld), &self.specs);
            let urgent = self.wanted.urgent();
            self.write(held, Some(&urgent), withheld.clone(), &mut written)?;
        }
        self.write(held, touched, withheld, &mut written)?;
        if order == Order::NatLast || interim != wanted {
            self.write_rules(&rules(&plan.node, &wanted), wanted, &mut written)?;
        }
        self.count_connections(held, Instant::now(), &mut written)?;
        Ok(written)
    }

    /// Writes set entries, virtual servers and addresses.
    pub(super) fn write(
        &mut self,
        held: &mut Held,
        touched: Option<&Touched>,
        mut withheld: BTreeSet<VirtualServerId>,
        written: &mut Written,
    ) -> Result<(), BackendError> {
        let edit = self.compare(held, touched, &withheld);
        let (later, first): (Vec<_>, Vec<_>) =
            edit.add_entries.iter().copied().partition(|(set, entry)| leads_to_bound(held, *set, entry));
        let refused = self.add_entries(held, &first, written)?;
        withheld.extend(refused.restricted_services(&self.wanted));
        let edit = if refused.is_empty() { edit } else { self.compare(held, touched, &withheld) };
        self.change_services(held, &edit.services, written)?;
        let unserved = self.unserved(held, touched);
        let edit = if unserved.is_subset(&withheld) && later.is_empty() {
            edit
        } else {
            withheld.extend(unserved);
            self.compare(held, touched, &withheld)
        };
        // What was rejected before is among them again.
        let late = edit.add_entries.iter().filter(|(set, entry)| leads_to_bound(held, *set, entry));
        let late: Vec<_> = late.copied().collect();
        self.add_entries(held, &late, written)?;
        self.open(held, &edit, &refused, written)?;
        self.close(held, &edit, written)
    }

    /// Virtual servers of other programs where ours should be, and what cannot be served without them.
    fn taken(
        &self,
        held: &Held,
        touched: Option<&Touched>,
        written: &mut Written,
    ) -> BTreeSet<VirtualServerId> {
        let is_touched = |id: &VirtualServerId| touched.is_none_or(|touched| touched.services.contains(id));
        let taken = self.places_of_others(held);
        for id in taken.iter().filter(|id| is_touched(id)) {
            let reason =
                "another program has a virtual server there: remove it (ipvsadm -D) or change the Service";
            written.rejected.push((format!("virtual server {id}"), reason.to_owned()));
        }
        let withheld = self.wanted.with_siblings(taken.clone());
        for id in withheld.difference(&taken).filter(|id| is_touched(id)) {
            let reason = "another program has a virtual server on this NodePort at another address of the node: remove it \
                          (ipvsadm -D) or change the Service";
            written.rejected.push((format!("virtual server {id}"), reason.to_owned()));
        }
        withheld
    }

    /// What cannot be served because of other programs' virtual servers.
    pub(super) fn withheld(&self, held: &Held) -> BTreeSet<VirtualServerId> {
        self.wanted.with_siblings(self.places_of_others(held))
    }

    /// Virtual servers of other programs where ours should be.
    fn places_of_others(&self, held: &Held) -> BTreeSet<VirtualServerId> {
        held.foreign.keys().filter(|id| self.wanted.service(id).is_some()).copied().collect()
    }

    /// Virtual servers that are wanted and are not there.
    fn unserved(&self, held: &Held, touched: Option<&Touched>) -> BTreeSet<VirtualServerId> {
        let is_missing = |id: &&VirtualServerId| !held.services.contains_key(id);
        match touched {
            Some(touched) => {
                let wanted = touched.services.iter().filter(|id| self.wanted.service(id).is_some());
                wanted.filter(is_missing).copied().collect()
            }
            None => self.wanted.services().map(|(id, _)| id).filter(is_missing).copied().collect(),
        }
    }

    fn compare(&self, held: &Held, touched: Option<&Touched>, withheld: &BTreeSet<VirtualServerId>) -> Edit {
        let comparison = Comparison {
            wanted: &self.wanted,
            held,
            draining: &self.draining,
            excluded: &self.excluded,
            withheld,
        };
        match touched {
            Some(touched) => Edit::of_touched(&comparison, touched),
            None => Edit::of_everything(&comparison),
        }
    }
}

/// Whether an entry admits packets to an address that is bound: a listener of the host would answer them until there is a virtual
/// server.
fn leads_to_bound(held: &Held, set: AddressSet, entry: &SetEntry) -> bool {
    match entry {
        SetEntry::IpPort { ip, .. } => set.admits() && held.addresses.contains(ip),
        SetEntry::Ip(_) | SetEntry::IpPortIp { .. } | SetEntry::IpPortNet { .. } | SetEntry::Port(_) => false,
    }
}
