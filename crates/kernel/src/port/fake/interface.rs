//! Interfaces in memory.

use std::collections::BTreeSet;
use std::net::IpAddr;

use rustix::io::Errno;

use super::{FakeIpvsKernel, State, rejected};
use crate::dummy::{DUMMY, Link};
use crate::netlink::{NetlinkError, Rejection};
use crate::port::ServiceInterface;

#[derive(Debug)]
pub(super) struct FakeLink {
    link: Link,
    pub addresses: BTreeSet<IpAddr>,
    /// Whether it has an address with a network behind it.
    pub has_networks: bool,
}

impl ServiceInterface for FakeIpvsKernel {
    fn find(&mut self, name: &str) -> Result<Option<Link>, NetlinkError> {
        let mut state = self.state();
        state.read(&format!("link find {name}"))?;
        Ok(state.links.get(name).map(|found| found.link.clone()))
    }

    fn create_dummy(&mut self, name: &str) -> Result<Link, NetlinkError> {
        let mut state = self.state();
        let mut made = None;
        let outcome = state.write(format!("link create {name}"), |state| {
            if state.links.contains_key(name) {
                return Err(Errno::EXIST.raw_os_error());
            }
            made = Some(state.add_link(name, Some(DUMMY)));
            Ok(())
        });
        outcome.map_err(rejected)?;
        made.ok_or(NetlinkError::Unreadable { operation: "making a dummy interface" })
    }

    fn delete(&mut self, link: &Link) -> Result<(), NetlinkError> {
        let mut state = self.state();
        let Some(name) = state.name_of(link) else { return Ok(()) };
        let outcome = state.write(format!("link delete {name}"), |state| {
            state.links.remove(&name);
            Ok(())
        });
        outcome.map_err(rejected)
    }

    fn addresses(&mut self, link: &Link) -> Result<Vec<IpAddr>, NetlinkError> {
        let mut state = self.state();
        state.read("addr list")?;
        let found = state.links.values().find(|found| found.link.index == link.index);
        Ok(found.map(|found| found.addresses.iter().copied().collect()).unwrap_or_default())
    }

    fn has_networks(&mut self, link: &Link) -> Result<bool, NetlinkError> {
        let state = self.state();
        let found = state.links.values().find(|found| found.link.index == link.index);
        Ok(found.is_some_and(|found| found.has_networks))
    }

    fn change(
        &mut self,
        link: &Link,
        add: &[IpAddr],
        remove: &[IpAddr],
    ) -> Result<Vec<(IpAddr, Rejection)>, NetlinkError> {
        let mut state = self.state();
        let mut refused = Vec::new();
        let changes = add.iter().map(|address| ("add", address));
        for (verb, address) in changes.chain(remove.iter().map(|address| ("delete", address))) {
            let outcome = state.write(format!("addr {verb} {address}"), |state| {
                let found = state.links.values_mut().find(|found| found.link.index == link.index);
                let addresses = &mut found.ok_or(Errno::NODEV.raw_os_error())?.addresses;
                if verb == "add" {
                    addresses.insert(*address)
                } else {
                    addresses.remove(address)
                };
                Ok(())
            });
            refused.extend(outcome.err().map(|rejection| (*address, rejection)));
        }
        Ok(refused)
    }
}

impl State {
    pub(super) fn add_link(&mut self, name: &str, kind: Option<&str>) -> Link {
        self.last_index += 1;
        let link = Link { index: self.last_index, kind: kind.map(str::to_owned) };
        let made = FakeLink { link: link.clone(), addresses: BTreeSet::new(), has_networks: false };
        self.links.insert(name.to_owned(), made);
        link
    }

    fn name_of(&self, link: &Link) -> Option<String> {
        let mut names = self.links.iter().filter(|(_, found)| found.link.index == link.index);
        names.next().map(|(name, _)| name.clone())
    }
}
