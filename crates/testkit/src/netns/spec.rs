//! The hosts of a world: the node, its pods, and the hosts beyond its uplink.
//!
//! Only a description; [`super::wiring`] creates them. Worlds and scenes of stories can be added up, so that one set of
//! namespaces serves all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ferrule_model::{IpFamily, Protocol};
use ferrule_plan::Packet;
use ipnet::IpNet;

use super::UPLINK;
use crate::{Scene, World};

/// The hosts of a world, by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetSpec {
    /// The node's own addresses; the first of each family is its primary one.
    pub node: Vec<IpAddr>,
    /// All other hosts.
    pub hosts: BTreeMap<IpAddr, Host>,
    /// Servers on the node itself.
    pub node_servers: BTreeSet<(Protocol, SocketAddr)>,
}

/// One address that is not the node's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Relative to the node.
    pub place: Place,
    /// The ports it answers on.
    pub serves: BTreeSet<(Protocol, u16)>,
}

/// The position of a host relative to the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A pod on the node, behind this interface of the node; `None` chooses a name.
    Pod(Option<String>),
    /// Beyond the node's uplink: pods of other nodes, and everything outside the cluster.
    Beyond,
}

impl NetSpec {
    /// A node with these addresses, and no other host.
    pub fn node(addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        Self { node: addresses.into_iter().collect(), ..Self::default() }
    }

    /// Adds a pod on the node with servers on these ports.
    #[must_use]
    pub fn pod(mut self, address: IpAddr, serves: &[(Protocol, u16)]) -> Self {
        self.put(address, Place::Pod(None), serves.iter().copied());
        self
    }

    /// Adds a host beyond the uplink with servers on these ports.
    #[must_use]
    pub fn beyond(mut self, address: IpAddr, serves: &[(Protocol, u16)]) -> Self {
        self.put(address, Place::Beyond, serves.iter().copied());
        self
    }

    /// The nodes, endpoints, clients and destinations of a story's scenes.
    pub fn of_scenes(scenes: &[Scene]) -> Self {
        let mut spec = Self::default();
        for scene in scenes {
            spec.add_world(&scene.world);
        }
        for scene in scenes {
            for packet in scene.rows.iter().flat_map(|row| &row.packets) {
                spec.add_packet(&scene.world, packet);
            }
        }
        spec
    }

    /// Adds the node of a world and its endpoints: local ones as pods, others beyond the uplink.
    pub fn add_world(&mut self, world: &World) {
        let primary = world.cluster.node().map(|node| node.host_ips.clone()).unwrap_or_default();
        let on_interfaces = world.view.interface_addresses.iter().copied();
        for address in primary.into_iter().chain(on_interfaces) {
            if !address.is_loopback() && !self.node.contains(&address) {
                self.node.push(address);
            }
        }
        for (_, state) in world.cluster.services() {
            for slice in IpFamily::BOTH.into_iter().flat_map(|family| state.slices(family)) {
                for endpoint in &slice.endpoints {
                    let place = if endpoint.is_local { Place::Pod(None) } else { Place::Beyond };
                    let ports = slice.ports.iter().map(|port| (port.protocol, port.number));
                    self.put(endpoint.ip, place, ports);
                }
            }
        }
    }

    /// Adds the sender of a packet, and a server at its destination that would answer if no rule matched: this
    /// distinguishes a packet that no rule matches from one that is dropped.
    pub fn add_packet(&mut self, world: &World, packet: &Packet) {
        let place = match &packet.interface {
            Some(interface) if interface == UPLINK => Place::Beyond,
            Some(interface) => Place::Pod(Some(interface.clone())),
            None if self.is_assumed_pod(world, packet.from) => Place::Pod(None),
            None => Place::Beyond,
        };
        self.put(packet.from, place, []);
        if !self.is_of_node(packet.to) {
            self.put(packet.to, Place::Beyond, packet.port);
        }
    }

    /// Whether an address is one of the node's, loopback included.
    pub fn is_of_node(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.node.contains(&address)
    }

    /// Whether a server answers at this address and port.
    pub fn serves(&self, protocol: Protocol, to: SocketAddr) -> bool {
        self.node_servers.contains(&(protocol, to))
            || self.hosts.get(&to.ip()).is_some_and(|host| host.serves.contains(&(protocol, to.port())))
    }

    /// Adds a host, or servers to an existing one. A host that was once a pod of this node stays one.
    pub fn put(&mut self, address: IpAddr, place: Place, serves: impl IntoIterator<Item = (Protocol, u16)>) {
        if self.is_of_node(address) {
            let on_node =
                serves.into_iter().map(|(protocol, port)| (protocol, SocketAddr::new(address, port)));
            self.node_servers.extend(on_node);
            return;
        }
        let known = self.hosts.entry(address);
        let host = known.or_insert_with(|| Host { place: place.clone(), serves: BTreeSet::new() });
        host.serves.extend(serves);
        match (&host.place, &place) {
            (Place::Beyond, Place::Pod(_)) | (Place::Pod(None), Place::Pod(Some(_))) => host.place = place,
            (Place::Beyond, Place::Beyond) | (Place::Pod(_), _) => {}
        }
    }

    /// Assumes that a source in the node's pod range, or next to one of its endpoints, is one of its pods.
    fn is_assumed_pod(&self, world: &World, address: IpAddr) -> bool {
        let in_pod_cidr = world
            .cluster
            .node()
            .is_some_and(|node| node.pod_cidrs.iter().any(|block| block.contains(&address)));
        let next_to = |(other, host): (&IpAddr, &Host)| {
            matches!(host.place, Place::Pod(_))
                && pod_range(*other).is_some_and(|block| block.contains(&address))
        };
        in_pod_cidr || self.hosts.iter().any(next_to)
    }
}

/// The usual pod range of a node.
fn pod_range(address: IpAddr) -> Option<IpNet> {
    let length = if address.is_ipv4() { 24 } else { 64 };
    IpNet::new(address, length).ok()
}
