//! What ipvs mode has in the kernel of the node.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use ferrule_kernel::conntrack::TCP;
use ferrule_kernel::dummy::LinkClient;
use ferrule_kernel::ipset::{IpSets, SeenSet, SetEntry, SetSpec, SetType};
use ferrule_kernel::ipvs::{Ipvs, RealServer, VirtualServerId};
use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::nft::Family;
use ferrule_kernel::port::{AddressSets as _, ServiceInterface as _, VirtualServers as _};

/// Rules about the set of cluster IPs: to masquerade, to accept, and to let pass what is for other ports of these addresses.
pub const RULES: u32 = 3;

/// Virtual servers, sets and addresses of the node.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SeenNode {
    servers: BTreeMap<VirtualServerId, Vec<RealServer>>,
    sets: Vec<SeenSet>,
    cluster_ips: Vec<SetEntry>,
    addresses: Option<Vec<IpAddr>>,
}

impl SeenNode {
    /// Reads it all, in the namespace of the calling thread. The order in which things were made does not count.
    pub fn read() -> Result<Self, NetlinkError> {
        let mut seen = Self::default();
        if let Some(mut ipvs) = Ipvs::open_loaded()? {
            let ids: Vec<_> = ipvs.list()?.servers.iter().map(|seen| seen.server.id).collect();
            let real = ipvs.all_real_servers(&ids)?;
            let real = real.into_iter().map(|servers| sorted(servers.iter().map(|seen| seen.server)));
            seen.servers = ids.into_iter().zip(real).collect();
        }
        let mut sets = IpSets::open()?;
        seen.sets = sets.sets()?;
        let set =
            SetSpec { name: "KUBE-CLUSTER-IP".into(), set_type: SetType::HashIpPort, family: Family::Ip };
        seen.cluster_ips = sorted(sets.entries(&set)?);
        let mut links = LinkClient::open()?;
        let link = links.find("kube-ipvs0")?.filter(ferrule_kernel::dummy::Link::is_dummy);
        seen.addresses = link.map(|link| links.addresses(&link)).transpose()?.map(sorted);
        Ok(seen)
    }

    /// Whether so many Services have addresses, servers and entries of sets, and rules about them.
    pub fn has_cluster_ips(&self, count: usize) -> bool {
        let is_used = |set: &SeenSet| set.name == "KUBE-CLUSTER-IP" && set.references >= RULES;
        self.servers.values().filter(|servers| !servers.is_empty()).count() >= count
            && self.cluster_ips.len() >= count
            && self.sets.iter().any(is_used)
            && self.addresses.as_ref().is_some_and(|addresses| addresses.len() >= count)
    }

    /// The sets that Ferrule would not take for kube-proxy's.
    pub fn unknown_sets(&self) -> Vec<String> {
        let is_known = |set: &&SeenSet| {
            let family = if set.name.starts_with("KUBE-6-") { Family::Ip6 } else { Family::Ip };
            SetType::ALL
                .into_iter()
                .any(|set_type| set.is_as(&SetSpec { name: set.name.as_str().into(), set_type, family }))
        };
        let others = self.sets.iter().filter(|set| !is_known(set));
        others.map(|set| format!("{set:?}")).collect()
    }

    /// The real servers of a Service.
    pub fn real_servers_of(&self, service: SocketAddr) -> Vec<RealServer> {
        let id = VirtualServerId { address: service.ip(), protocol: TCP, port: service.port() };
        self.servers.get(&id).cloned().unwrap_or_default()
    }
}

fn sorted<T: Ord>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = all.into_iter().collect();
    all.sort_unstable();
    all
}
