//! The parts of the kernel that ipvs mode reads and writes, and reading all of one family.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ferrule_kernel::dummy::{Link, LinkClient};
use ferrule_kernel::ipset::{IpSets, SetEntry, SetSpec};
use ferrule_kernel::ipvs::{Ipvs as IpvsClient, SeenRealServer, VirtualServer, VirtualServerId};
use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::port::{AddressSets, ServiceInterface, VirtualServers};
use ferrule_model::IpFamily;

use super::sets::{AddressSet, SETS};
use crate::BackendError;

/// The interface that holds the service addresses.
pub(super) const INTERFACE: &str = ferrule_kernel::interfaces::SERVICE_INTERFACE;
/// The way packets reach real servers: their destination is rewritten.
const MASQUERADING: u32 = 0;

/// The three parts. Clients of the real kernel, or one in memory.
pub(super) struct Kernel {
    pub servers: Box<dyn VirtualServers + Send>,
    pub sets: Box<dyn AddressSets + Send>,
    pub links: Box<dyn ServiceInterface + Send>,
}

impl Kernel {
    /// The real kernel's.
    pub(super) fn open() -> Result<Self, BackendError> {
        let failed = |error: NetlinkError| BackendError::new("opening netlink sockets").caused_by(error);
        let Some(servers) = IpvsClient::open().map_err(failed)? else {
            return Err(BackendError::new(NO_IPVS));
        };
        let sets = IpSets::open().map_err(|error| BackendError::new(NO_SETS).caused_by(error))?;
        let links = LinkClient::open().map_err(failed)?;
        Ok(Self { servers: Box::new(servers), sets: Box::new(sets), links: Box::new(links) })
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
    pub fwmarks: Vec<u32>,
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
    /// Whether an interface or set of ours that is another program's is skipped: nothing is to be written to it.
    pub is_lenient: bool,
}

impl Held {
    /// Reads everything of one family. Makes nothing: what is missing is reported as [`Missing`].
    pub(super) fn read(kernel: &mut Kernel, known: &Known<'_>) -> Result<(Self, Missing), BackendError> {
        let failed =
            |error: NetlinkError| BackendError::new("reading the state of ipvs mode").caused_by(error);
        let link = kernel.links.find(INTERFACE).map_err(failed)?;
        let link = link.filter(|link| link.is_dummy() || !known.is_lenient);
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
        let seen = kernel.sets.sets().map_err(failed)?;
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
        held.read_services(kernel, known).map_err(failed)?;
        Ok((held, missing))
    }

    fn read_services(&mut self, kernel: &mut Kernel, known: &Known<'_>) -> Result<(), NetlinkError> {
        let seen = kernel.servers.list()?;
        self.fwmarks = seen.fwmarks;
        let servers = seen.servers.into_iter().map(|seen| seen.server);
        let servers: Vec<VirtualServer> =
            servers.filter(|server| IpFamily::of(server.id.address) == known.family).collect();
        let ids: Vec<VirtualServerId> = servers.iter().map(|server| server.id).collect();
        let real_servers = kernel.servers.all_real_servers(&ids)?;
        for (server, real) in servers.into_iter().zip(real_servers) {
            let id = server.id;
            let service = HeldService { server, servers: real.into_iter().map(held_server).collect() };
            let is_ours = known.ours.contains(&id) || !known.foreign.contains(&id) && self.names(&id, known);
            let place = if is_ours { &mut self.services } else { &mut self.foreign };
            place.insert(id, service);
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
                BackendError::new(format!("making the address set {}", spec.name)).caused_by(error)
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

fn held_server(seen: SeenRealServer) -> (SocketAddr, HeldServer) {
    let is_masquerading = seen.forwarding == MASQUERADING;
    (seen.server.address, HeldServer { weight: seen.server.weight, is_masquerading })
}

fn of_family(addresses: Vec<IpAddr>, family: IpFamily) -> BTreeSet<IpAddr> {
    addresses.into_iter().filter(|ip| IpFamily::of(*ip) == family).collect()
}

fn other_set(spec: &SetSpec, is: &str) -> BackendError {
    let SetSpec { name, set_type, .. } = spec;
    BackendError::new(format!(
        "the address set {name} exists as {is}, not as {} with the family and size that are needed: it is another \
         program's, destroy or rename it (ipset rename {name} …)",
        set_type.name()
    ))
}

/// A name that is shared by every virtual server.
pub(super) fn scheduler(name: &str) -> Arc<str> {
    if name.is_empty() { Arc::from("rr") } else { Arc::from(name) }
}
