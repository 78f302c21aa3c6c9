//! Address sets in memory.

use std::collections::BTreeSet;
use std::net::IpAddr;

use rustix::io::Errno;

use super::{FakeIpvsKernel, State, rejected};
use crate::ipset::{BUSY, FULL, MAX_ENTRIES, PROTOCOL_ERROR, SeenSet, SetChange, SetEntry, SetSpec, SetType};
use crate::netlink::{NetlinkError, Rejection};
use crate::nft::Family;
use crate::port::AddressSets;

#[derive(Debug)]
pub(super) struct FakeSet {
    spec: SetSpec,
    entries: BTreeSet<SetEntry>,
    pub references: u32,
    pub maxelem: u32,
    pub has_extensions: bool,
}

impl AddressSets for FakeIpvsKernel {
    fn sets(&mut self) -> Result<Vec<SeenSet>, NetlinkError> {
        let mut state = self.state();
        state.read("set list")?;
        Ok(state.sets.values().map(FakeSet::seen).collect())
    }

    fn entries(&mut self, set: &SetSpec) -> Result<Vec<SetEntry>, NetlinkError> {
        let mut state = self.state();
        state.read(&format!("set list {}", set.name))?;
        let found = state.sets.get(&*set.name);
        Ok(found.map(|set| set.entries.iter().copied().collect()).unwrap_or_default())
    }

    fn create(&mut self, set: &SetSpec) -> Result<(), NetlinkError> {
        let line = format!("set create {} {}", set.name, set.set_type.name());
        self.state().write(line, |state| state.create_set(set)).map_err(rejected)
    }

    fn destroy(&mut self, name: &str) -> Result<(), NetlinkError> {
        self.state().write(format!("set destroy {name}"), |state| state.destroy_set(name)).map_err(rejected)
    }

    fn apply(&mut self, changes: &[SetChange<'_>]) -> Result<Vec<Result<(), Rejection>>, NetlinkError> {
        let mut state = self.state();
        let outcome = |change: &SetChange<'_>| {
            let verb = if change.add { "add" } else { "delete" };
            let line = format!("set {verb} {} {}", change.set.name, change.entry);
            state.write(line, |state| state.change_set(change))
        };
        Ok(changes.iter().map(outcome).collect())
    }
}

impl State {
    fn create_set(&mut self, set: &SetSpec) -> Result<(), i32> {
        if let Some(found) = self.sets.get(&*set.name) {
            return if found.seen().is_as(set) { Ok(()) } else { Err(Errno::EXIST.raw_os_error()) };
        }
        let (spec, entries) = (set.clone(), BTreeSet::new());
        let made = FakeSet { spec, entries, references: 0, maxelem: MAX_ENTRIES, has_extensions: false };
        self.sets.insert(set.name.to_string(), made);
        Ok(())
    }

    fn destroy_set(&mut self, name: &str) -> Result<(), i32> {
        if self.sets.get(name).is_some_and(|set| set.references > 0) {
            return Err(BUSY);
        }
        self.sets.remove(name);
        Ok(())
    }

    fn change_set(&mut self, change: &SetChange<'_>) -> Result<(), i32> {
        let set = self.sets.get_mut(&*change.set.name).ok_or(Errno::NOENT.raw_os_error())?;
        if !set.can_have(&change.entry) {
            return Err(PROTOCOL_ERROR);
        }
        if !change.add {
            set.entries.remove(&change.entry);
            return Ok(());
        }
        if set.is_full() && !set.entries.contains(&change.entry) {
            return Err(FULL);
        }
        set.entries.insert(change.entry);
        Ok(())
    }
}

impl FakeSet {
    fn seen(&self) -> SeenSet {
        SeenSet {
            name: self.spec.name.to_string(),
            type_name: self.spec.set_type.name().to_owned(),
            family: self.spec.family_number(),
            maxelem: self.is_hash().then_some(self.maxelem),
            has_extensions: self.has_extensions,
            references: self.references,
            elements: u32::try_from(self.entries.len()).unwrap_or(u32::MAX),
        }
    }

    fn is_hash(&self) -> bool {
        self.spec.set_type != SetType::BitmapPort
    }

    fn is_full(&self) -> bool {
        self.is_hash() && self.entries.len() >= self.maxelem as usize
    }

    /// Whether the entry is of the set's type and family.
    fn can_have(&self, entry: &SetEntry) -> bool {
        let is_of_family = |address: &IpAddr| address.is_ipv4() == (self.spec.family == Family::Ip);
        let is_family_right = match entry {
            SetEntry::Ip(ip) | SetEntry::IpPort { ip, .. } => is_of_family(ip),
            SetEntry::IpPortIp { ip, ip2, .. } => is_of_family(ip) && is_of_family(ip2),
            SetEntry::IpPortNet { ip, net, .. } => is_of_family(ip) && is_of_family(&net.addr()),
            SetEntry::Port(_) => true,
        };
        entry.set_type() == self.spec.set_type && is_family_right
    }
}
