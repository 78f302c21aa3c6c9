//! Who is in a world of namespaces: the node, its pods, and everybody beyond its uplink.
//!
//! Only says what is wanted; [`super::wiring`] lays the cables. Worlds and scenes of stories can be added up, so that one
//! world of namespaces serves all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use ferrule_model::{IpFamily, Protocol};
use ferrule_plan::Packet;
use ipnet::IpNet;

use super::UPLINK;
use crate::{Scene, World};

/// Who is there, by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetSpec {
    /// The node's own addresses; the first of each family is its primary one.
    pub node: Vec<IpAddr>,
    /// Everybody else.
    pub hosts: BTreeMap<IpAddr, Host>,
    /// What listens on the node itself.
    pub node_servers: BTreeSet<(Protocol, SocketAddr)>,
}

/// One address that is not the node's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Where it is.
    pub place: Place,
    /// The ports it answers on.
    pub serves: BTreeSet<(Protocol, u16)>,
}

/// Where an address is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the node, in a namespace of its own, behind this interface of the node (one is made up if not told).
    Pod(Option<String>),
    /// Beyond the node's uplink: pods of other nodes, clients outside, and whatever is not in the cluster.
    Beyond,
}

impl NetSpec {
    /// A node with these addresses, and nobody else.
    pub fn node(addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        Self { node: addresses.into_iter().collect(), ..Self::default() }
    }

    /// With a pod on the node that answers on these ports.
    #[must_use]
    pub fn pod(mut self, address: IpAddr, serves: &[(Protocol, u16)]) -> Self {
        self.put(address, Place::Pod(None), serves.iter().copied());
        self
    }

    /// With somebody beyond the uplink, who answers on these ports.
    #[must_use]
    pub fn beyond(mut self, address: IpAddr, serves: &[(Protocol, u16)]) -> Self {
        self.put(address, Place::Beyond, serves.iter().copied());
        self
    }

    /// What the scenes of a story need: their nodes, endpoints, clients and destinations.
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

    /// Adds who sends a packet, and who would get it if no rule were about it, answering there: so a packet that is left
    /// alone is told from one that vanishes.
    pub fn add_packet(&mut self, world: &World, packet: &Packet) {
        let place = match &packet.interface {
            Some(interface) if interface == UPLINK => Place::Beyond,
            Some(interface) => Place::Pod(Some(interface.clone())),
            None if self.looks_local(world, packet.from) => Place::Pod(None),
            None => Place::Beyond,
        };
        self.put(packet.from, place, []);
        if !self.is_of_node(packet.to) {
            self.put(packet.to, Place::Beyond, packet.port);
        }
    }

    /// Whether an address is the node's own.
    pub fn is_of_node(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.node.contains(&address)
    }

    /// Whether somebody answers on this port.
    pub fn serves(&self, protocol: Protocol, to: SocketAddr) -> bool {
        self.node_servers.contains(&(protocol, to))
            || self.hosts.get(&to.ip()).is_some_and(|host| host.serves.contains(&(protocol, to.port())))
    }

    /// Puts somebody, or adds to what is known: who was once a pod of this node stays one.
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

    /// A source in the node's pod range, or next to one of its endpoints, is taken for one of its pods.
    fn looks_local(&self, world: &World, address: IpAddr) -> bool {
        let in_pod_cidr = world
            .cluster
            .node()
            .is_some_and(|node| node.pod_cidrs.iter().any(|block| block.contains(&address)));
        let next_to = |(other, host): (&IpAddr, &Host)| {
            matches!(host.place, Place::Pod(_))
                && neighbourhood(*other).is_some_and(|block| block.contains(&address))
        };
        in_pod_cidr || self.hosts.iter().any(next_to)
    }
}

/// The block a node's pods usually share.
fn neighbourhood(address: IpAddr) -> Option<IpNet> {
    let length = if address.is_ipv4() { 24 } else { 64 };
    IpNet::new(address, length).ok()
}
