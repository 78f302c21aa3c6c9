//! The parts of the kernel that ipvs mode reads and writes, and reading all of one family.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ferrule_kernel::dummy::{Link, LinkClient};
use ferrule_kernel::ipset::{IpSets, SeenSet, SetEntry, SetSpec};
use ferrule_kernel::ipvs::{
    FirewallMark, Ipvs as IpvsClient, SeenRealServer, VirtualServer, VirtualServerId,
};
use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::port::{AddressSets, ServiceInterface, VirtualServers};
use ferrule_kernel::sysctl;
use ferrule_model::IpFamily;

use super::sets::{AddressSet, SETS};
use super::wanted::Wanted;
use crate::{BackendError, ip_family};

/// The interface that holds the service addresses.
pub(super) const INTERFACE: &str = ferrule_kernel::interfaces::SERVICE_INTERFACE;
/// The way packets reach real servers: their destination is rewritten.
const MASQUERADING: u32 = 0;

/// The three parts. Clients of the real kernel, or one in memory.
pub(super) struct Kernel {
    pub servers: Box<dyn VirtualServers + Send>,
    pub sets: Box<dyn AddressSets + Send>,
    pub links: Box<dyn ServiceInterface + Send>,
    /// Whether packets of IPv6 are forwarded.
    pub forwards_ipv6: fn() -> bool,
}

impl Kernel {
    pub(super) fn of(servers: IpvsClient, sets: IpSets, links: LinkClient) -> Self {
        let forwards_ipv6 = || !sysctl::read("net/ipv6/conf/all/forwarding").is_ok_and(|value| value == "0");
        Self { servers: Box::new(servers), sets: Box::new(sets), links: Box::new(links), forwards_ipv6 }
    }

    /// The real kernel's.
    pub(super) fn open() -> Result<Self, BackendError> {
        let failed = |error: NetlinkError| BackendError::new("opening netlink sockets").caused_by(error);
        let Some(servers) = IpvsClient::open().map_err(failed)? else {
            return Err(BackendError::new(NO_IPVS));
        };
        let sets = IpSets::open().map_err(|error| BackendError::new(NO_SETS).caused_by(error))?;
        let links = LinkClient::open().map_err(failed)?;
        Ok(Self::of(servers, sets, links))
    }
}

/// What to do about a kernel without IPVS.
pub(super) const NO_IPVS: &str = "this kernel has no IPVS: load the module (modprobe ip_vs) on the node, \
                                  or use --proxy-mode=nftables";
const NO_SETS: &str = "this kernel has no address sets: load the module (modprobe ip_set) on the node, \
                       or use --proxy-mode=nftables";

/// What the kernel holds of one family.
#[derive(Debug)]
pub(super) struct Held {
    pub link: Link,
    /// Those that are ours.
    pub services: BTreeMap<VirtualServerId, HeldService>,
    /// Others' virtual servers, which are left alone.
    pub foreign: BTreeMap<VirtualServerId, HeldService>,
    pub fwmarks: Vec<FirewallMark>,
    pub sets: [BTreeSet<SetEntry>; SETS],
    pub addresses: BTreeSet<IpAddr>,
}

/// A virtual server in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeldService {
    pub server: VirtualServer,
    pub servers: BTreeMap<SocketAddr, HeldServer>,
}

/// A real server in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeldServer {
    pub weight: u32,
    /// Whether its packets are forwarded in our way.
    pub is_masquerading: bool,
}

/// What is read beside the kernel, to tell our virtual servers from others'.
pub(super) struct Known<'a> {
    pub family: IpFamily,
    pub specs: &'a [SetSpec; SETS],
    /// The virtual servers that are ours for certain: we made them.
    pub ours: BTreeSet<VirtualServerId>,
    /// Those that are another program's for certain: they were there before we wanted one in their place.
    pub foreign: BTreeSet<VirtualServerId>,
    /// The addresses of the node, where NodePorts are.
    pub host_addresses: &'a BTreeSet<IpAddr>,
    /// Whether the interface is ours for certain: we have used it.
    pub is_known_ours: bool,
    /// Of other programs' virtual servers, only those in our places have their real servers read.
    pub wanted: &'a Wanted,
    /// Whether an interface or set of ours that is another program's is skipped: nothing is to be written to it.
    pub is_lenient: bool,
}

/// The real servers of virtual servers of ours that are not read now.
pub(super) type KeptServers = BTreeMap<VirtualServerId, BTreeMap<SocketAddr, HeldServer>>;

pub(super) fn unreadable(error: NetlinkError) -> BackendError {
    BackendError::new("reading the state of ipvs mode").caused_by(error)
}

impl Held {
    /// Reads everything of one family. Makes nothing: what is missing is reported as [`Missing`].
    pub(super) fn read(kernel: &mut Kernel, known: &Known<'_>) -> Result<(Self, Missing), BackendError> {
        Self::read_but(kernel, known, KeptServers::new())
    }

    /// The same without the real servers that are kept.
    pub(super) fn read_but(
        kernel: &mut Kernel,
        known: &Known<'_>,
        kept: KeptServers,
    ) -> Result<(Self, Missing), BackendError> {
        let failed = unreadable;
        let link = kernel.links.find(INTERFACE).map_err(failed)?;
        let seen = kernel.sets.sets().map_err(failed)?;
        let is_anothers = match &link {
            Some(link) => {
                !known.is_known_ours && is_anothers(&mut *kernel.links, link, &seen).map_err(failed)?
            }
            None => false,
        };
        let link = link.filter(|link| !known.is_lenient || link.is_dummy() && !is_anothers);
        if is_anothers && link.as_ref().is_some_and(Link::is_dummy) {
            return Err(BackendError::new(format!(
                "the dummy device {INTERFACE} exists and has addresses that are not of Services: it is another program's, \
                 remove or rename it (ip link set {INTERFACE} name …)"
            )));
        }
        if let Some(link) = link.as_ref().filter(|link| !link.is_dummy()) {
            let kind = link.kind.as_deref().unwrap_or("a device");
            return Err(BackendError::new(format!(
                "the interface {INTERFACE} exists and is no dummy device but {kind}: \
                 it is another program's, remove or rename it (ip link set {INTERFACE} name …)"
            )));
        }
        let mut missing = Missing { link: link.is_none(), sets: Vec::new() };
        let addresses = match &link {
            Some(link) => of_family(kernel.links.addresses(link).map_err(failed)?, known.family),
            None => BTreeSet::new(),
        };
        let mut sets: [BTreeSet<SetEntry>; SETS] = Default::default();
        for set in AddressSet::ALL {
            let spec = &known.specs[set.index()];
            match seen.iter().find(|seen| seen.name == *spec.name) {
                None => missing.sets.push(set),
                Some(seen) if !seen.is_as(spec) && known.is_lenient => {}
                Some(seen) if !seen.is_as(spec) => return Err(other_set(spec, &seen.type_name)),
                Some(_) => {
                    sets[set.index()] = kernel.sets.entries(spec).map_err(failed)?.into_iter().collect();
                }
            }
        }
        let link = link.unwrap_or(Link { index: 0, kind: None });
        let (services, foreign) = (BTreeMap::new(), BTreeMap::new());
        let mut held = Self { link, services, foreign, fwmarks: Vec::new(), sets, addresses };
        held.read_services(kernel, known, kept).map_err(failed)?;
        Ok((held, missing))
    }

    fn read_services(
        &mut self,
        kernel: &mut Kernel,
        known: &Known<'_>,
        mut kept: KeptServers,
    ) -> Result<(), NetlinkError> {
        let seen = kernel.servers.list()?;
        self.fwmarks =
            seen.fwmarks.into_iter().filter(|seen| ip_family(seen.family) == known.family).collect();
        let mut unread = Vec::new();
        for server in seen.servers.into_iter().map(|seen| seen.server) {
            let id = server.id;
            if IpFamily::of(id.address) != known.family {
                continue;
            }
            let is_ours = known.ours.contains(&id) || !known.foreign.contains(&id) && self.names(&id, known);
            let servers = kept.remove(&id);
            if servers.is_none() && (is_ours || known.wanted.service(&id).is_some()) {
                unread.push(id);
            }
            let place = if is_ours { &mut self.services } else { &mut self.foreign };
            place.insert(id, HeldService { server, servers: servers.unwrap_or_default() });
        }
        for (id, servers) in unread.iter().zip(kernel.servers.all_real_servers(&unread)?) {
            if let Some(service) = self.services.get_mut(id).or_else(|| self.foreign.get_mut(id)) {
                service.servers = servers.into_iter().map(held_server).collect();
            }
        }
        Ok(())
    }

    /// Whether our sets or our interface name this virtual server: then an earlier run, or kube-proxy, made it.
    fn names(&self, id: &VirtualServerId, known: &Known<'_>) -> bool {
        let VirtualServerId { address, protocol, port } = *id;
        let has = |set: AddressSet, entry| self.sets[set.index()].contains(&entry);
        let entry = SetEntry::IpPort { ip: address, protocol, port };
        let on_node = |set| known.host_addresses.contains(&address) && has(set, SetEntry::Port(port));
        let of_services = [
            AddressSet::ClusterIp,
            AddressSet::LoadBalancer,
            AddressSet::ExternalIp,
            AddressSet::ExternalIpLocal,
            AddressSet::NodePortSctp,
        ];
        let is_named = of_services.into_iter().any(|set| has(set, entry))
            || protocol == ferrule_model::Protocol::Tcp.number() && on_node(AddressSet::NodePortTcp)
            || protocol == ferrule_model::Protocol::Udp.number() && on_node(AddressSet::NodePortUdp);
        let is_bound = self.addresses.contains(&address) || has(AddressSet::IpvsIps, SetEntry::Ip(address));
        // Where the sets know other ports of the address, this one is not ours. Where they know none, they were emptied.
        is_named || is_bound && !of_services.into_iter().any(|set| self.has_port_of(set, address))
    }

    fn has_port_of(&self, set: AddressSet, address: IpAddr) -> bool {
        let is_of = |entry: &SetEntry| matches!(entry, SetEntry::IpPort { ip, .. } if *ip == address);
        self.sets[set.index()].iter().any(is_of)
    }

    /// Takes a virtual server that is just as we want it for ours.
    pub(super) fn adopt_equal(&mut self, wanted: &Wanted) {
        let is_equal = |id: &VirtualServerId, foreign: &HeldService| {
            wanted.service(id).is_some_and(|wanted| {
                let servers: BTreeSet<_> = wanted.real_servers().collect();
                wanted.server == foreign.server
                    && foreign.servers.keys().all(|server| servers.contains(server))
            })
        };
        let equal: Vec<VirtualServerId> =
            self.foreign.iter().filter(|(id, service)| is_equal(id, service)).map(|(id, _)| *id).collect();
        for id in equal {
            self.services.extend(self.foreign.remove_entry(&id));
        }
    }

    /// Which sets have entries, by [`AddressSet::index`].
    pub(super) fn filled(&self) -> [bool; SETS] {
        AddressSet::ALL.map(|set| !self.sets[set.index()].is_empty())
    }
}

/// What has to be made before anything else.
#[derive(Debug)]
pub(super) struct Missing {
    pub link: bool,
    pub sets: Vec<AddressSet>,
}

impl Missing {
    /// Makes it; returns how many objects that were.
    pub(super) fn make(
        self,
        kernel: &mut Kernel,
        specs: &[SetSpec; SETS],
        held: &mut Held,
    ) -> Result<usize, BackendError> {
        for set in &self.sets {
            let spec = &specs[set.index()];
            kernel.sets.create(spec).map_err(|error| {
                BackendError::new(format!(
                    "making the address set {}; is the module there (modprobe {})?",
                    spec.name,
                    module_of(spec)
                ))
                .caused_by(error)
            })?;
        }
        if self.link {
            held.link = kernel.links.create_dummy(INTERFACE).map_err(|error| {
                let doing =
                    format!("making the dummy device {INTERFACE}; is the module there (modprobe dummy)?");
                BackendError::new(doing).caused_by(error)
            })?;
        }
        Ok(self.sets.len() + usize::from(self.link))
    }
}

impl HeldServer {
    /// One that we made.
    pub(super) fn with_weight(weight: u32) -> Self {
        Self { weight, is_masquerading: true }
    }
}

pub(super) fn held_server(seen: SeenRealServer) -> (SocketAddr, HeldServer) {
    let is_masquerading = seen.forwarding == MASQUERADING;
    (seen.server.address, HeldServer { weight: seen.server.weight, is_masquerading })
}

fn of_family(addresses: Vec<IpAddr>, family: IpFamily) -> BTreeSet<IpAddr> {
    addresses.into_iter().filter(|ip| IpFamily::of(*ip) == family).collect()
}

/// The kernel's module for a type of set: `ip_set_hash_ipport`.
fn module_of(spec: &SetSpec) -> String {
    format!("ip_set_{}", spec.set_type.name().replace(':', "_").replace(',', ""))
}

fn other_set(spec: &SetSpec, is: &str) -> BackendError {
    let SetSpec { name, set_type, .. } = spec;
    BackendError::new(format!(
        "the address set {name} exists as {is}, not as {} with the family and size that are needed: it is another \
         program's, destroy or rename it (ipset rename {name} …)",
        set_type.name()
    ))
}

/// Whether a dummy of our name is another program's. One of ours, or kube-proxy's, has addresses of single hosts, and has them only
/// beside sets.
pub(super) fn is_anothers(
    links: &mut dyn ServiceInterface,
    link: &Link,
    sets: &[SeenSet],
) -> Result<bool, NetlinkError> {
    if links.has_networks(link)? {
        return Ok(true);
    }
    let is_ours = |name: &str| {
        IpFamily::BOTH.into_iter().any(|family| AddressSet::ALL.iter().any(|set| set.name(family) == name))
    };
    let has_sets = sets.iter().any(|set| is_ours(&set.name));
    Ok(!has_sets && !links.addresses(link)?.is_empty())
}

/// A name that is shared by every virtual server.
pub(super) fn scheduler(name: &str) -> Arc<str> {
    if name.is_empty() { Arc::from("rr") } else { Arc::from(name) }
}
