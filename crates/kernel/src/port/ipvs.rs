//! The three parts of the kernel that ipvs mode writes to.
//!
//! In each, one change that the kernel rejects does not stop the others.

use std::net::IpAddr;

use crate::dummy::Link;
use crate::ipset::{SeenSet, SetChange, SetEntry, SetSpec};
use crate::ipvs::{IpvsChange, SeenRealServer, SeenVirtualServers, VirtualServerId};
use crate::netlink::{NetlinkError, Rejection};

/// Virtual servers and their real servers.
pub trait VirtualServers {
    /// All virtual servers of both families.
    fn list(&mut self) -> Result<SeenVirtualServers, NetlinkError>;

    /// The real servers of a virtual server; none if there is no such virtual server.
    fn real_servers(&mut self, service: &VirtualServerId) -> Result<Vec<SeenRealServer>, NetlinkError>;

    /// The real servers of several virtual servers, in their order.
    fn all_real_servers(
        &mut self,
        services: &[VirtualServerId],
    ) -> Result<Vec<Vec<SeenRealServer>>, NetlinkError> {
        services.iter().map(|service| self.real_servers(service)).collect()
    }

    /// Applies the changes in order and returns the outcome of each.
    fn apply(&mut self, changes: &[IpvsChange]) -> Result<Vec<Result<(), Rejection>>, NetlinkError>;
}

/// Address sets.
pub trait AddressSets {
    /// All sets, without their entries.
    fn sets(&mut self) -> Result<Vec<SeenSet>, NetlinkError>;

    /// The entries of a set; none if there is no such set.
    fn entries(&mut self, set: &SetSpec) -> Result<Vec<SetEntry>, NetlinkError>;

    /// Makes a set. Succeeds if there is an equal one; one of another type, family or size is left alone, and it fails (EEXIST).
    fn create(&mut self, set: &SetSpec) -> Result<(), NetlinkError>;

    /// Destroys a set that no rule uses; succeeds if there is none.
    fn destroy(&mut self, name: &str) -> Result<(), NetlinkError>;

    /// Adds and deletes entries in order and returns the outcome of each. Adding one that is there, and deleting one that is
    /// not, succeeds.
    fn apply(&mut self, changes: &[SetChange<'_>]) -> Result<Vec<Result<(), Rejection>>, NetlinkError>;
}

/// The interface that holds the addresses of services.
pub trait ServiceInterface {
    /// The interface of this name, if there is one.
    fn find(&mut self, name: &str) -> Result<Option<Link>, NetlinkError>;

    /// Makes a dummy interface, which stays down.
    fn create_dummy(&mut self, name: &str) -> Result<Link, NetlinkError>;

    /// Deletes an interface with its addresses; succeeds if there is none.
    fn delete(&mut self, link: &Link) -> Result<(), NetlinkError>;

    /// Its addresses of both families, but for loopback and link-local ones.
    fn addresses(&mut self, link: &Link) -> Result<Vec<IpAddr>, NetlinkError>;

    /// Whether it has addresses with networks behind them, link-local ones aside: kube-proxy and Ferrule add single ones only.
    fn has_networks(&mut self, link: &Link) -> Result<bool, NetlinkError>;

    /// Adds addresses, then removes others, and returns those that the kernel refused. Adding one that is there, and removing
    /// one that is not, succeeds.
    fn change(
        &mut self,
        link: &Link,
        add: &[IpAddr],
        remove: &[IpAddr],
    ) -> Result<Vec<(IpAddr, Rejection)>, NetlinkError>;
}
