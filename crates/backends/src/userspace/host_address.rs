//! The address of the node that the host's own packets are sent to.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ferrule_kernel::sockets::default_source;
use ferrule_model::IpFamily;

/// Chosen once and kept as long as the node has it, so that rules stay as they are.
#[derive(Debug)]
pub(super) struct HostAddress {
    family: IpFamily,
    chosen: Option<IpAddr>,
}

impl HostAddress {
    pub(super) fn new(family: IpFamily) -> Self {
        Self { family, chosen: None }
    }

    /// That of the default route; any other that is not link-local; a loopback address if there is none.
    pub(super) fn among(&mut self, addresses: &BTreeSet<IpAddr>) -> IpAddr {
        if let Some(chosen) = self.chosen.filter(|ip| addresses.contains(ip)) {
            return chosen;
        }
        let by_route = default_source(self.family == IpFamily::V6).filter(|ip| addresses.contains(ip));
        self.chosen = by_route.or_else(|| addresses.iter().copied().find(|ip| is_global(*ip)));
        self.chosen.unwrap_or_else(|| self.family.loopback())
    }
}

fn is_global(ip: IpAddr) -> bool {
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !ip.is_loopback() && !is_link_local && !ip.is_multicast()
}
