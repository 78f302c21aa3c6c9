//! A frontend → elements: what the maps hold for one service address or node port.
//!
//! The endpoints of a pool are listed under each of its frontends, which saves every packet a lookup.

use ferrule_kernel::nft::{Element, KeyBytes};
use ferrule_plan::{
    Frontend, FrontendKey, FrontendKind, Masquerade, Outsiders, Pool, PoolId, PoolScope, Refusal, Shape,
};
use ipnet::IpNet;

use super::chain_ids::{ChainIds, DispatchTarget};
use super::keys::{self, endpoint_data, number_data};
use super::names::{
    Entry, PoolChain, PoolRef, SetName, Table, endpoints_map, source_ranges, sticky_pools_map,
};
use super::sticky_ids::StickyIds;

/// A frontend's elements, and what else it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compiled {
    /// Its elements. The one that holds the id of its target is added by [`Self::with_ids`].
    pub elements: Vec<Element>,
    entry: Option<DispatchEntry>,
    /// The prefix lengths of its source ranges.
    pub prefix_lengths: Vec<u8>,
}

/// A frontend's element in `services` or `nodeports`, as long as its target may have no id yet.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DispatchEntry {
    map: SetName,
    key: KeyBytes,
    target: DispatchTarget,
}

impl Compiled {
    /// The chain that its packets are dispatched to.
    pub fn chain(&self) -> Option<PoolChain> {
        match self.entry.as_ref()?.target {
            DispatchTarget::Chain(chain) => Some(chain),
            DispatchTarget::Drop => None,
        }
    }

    /// Adds the element that holds the target's id, once it has one.
    #[must_use]
    pub fn with_ids(mut self, ids: &ChainIds) -> Self {
        if let Some(DispatchEntry { map, key, target }) = &self.entry
            && let Some(id) = ids.get(*target)
        {
            self.elements.push(keys::element(map.name(), key.clone(), Some(number_data(id))));
        }
        self
    }

    /// Sources outside the ranges are dropped before anything else.
    fn add_source_ranges(&mut self, ranges: &[IpNet], key: &KeyBytes) {
        self.elements.push(keys::element(SetName::Firewalled.name(), key.clone(), None));
        for range in ranges {
            let length = range.prefix_len();
            let key = keys::with_address(key.clone(), range.network());
            let element = keys::element(source_ranges(length), key, None);
            if !self.elements.contains(&element) {
                self.elements.push(element);
            }
            if !self.prefix_lengths.contains(&length) {
                self.prefix_lengths.push(length);
            }
        }
    }

    /// Lists the endpoints of a pool, slot by slot.
    fn add_slots(&mut self, place: PoolRef, key: &KeyBytes, pool: &Pool) {
        let map = endpoints_map(place).name();
        for (slot, endpoint) in (0_u32..).zip(&pool.endpoints) {
            let key = keys::with_number(key.clone(), slot);
            self.elements.push(keys::element(map.clone(), key, Some(endpoint_data(endpoint))));
        }
    }

    /// Names the pool by which clients are remembered.
    fn add_affinity(&mut self, place: PoolRef, key: &KeyBytes, id: u32) {
        let map = sticky_pools_map(place).name();
        self.elements.push(keys::element(map, key.clone(), Some(number_data(id))));
    }

    fn set_target(&mut self, table: Table, key: &KeyBytes, target: DispatchTarget) {
        let map = match table {
            Table::Address => SetName::Services,
            Table::NodePort => SetName::NodePorts,
        };
        self.entry = Some(DispatchEntry { map, key: key.clone(), target });
    }
}

/// The pools of a plan, or of the plan before a change.
pub trait Pools {
    /// The pool with this id, if there is one.
    fn pool(&self, id: &PoolId) -> Option<&Pool>;
}

/// Compiles frontends.
pub struct Compiler<'a> {
    pub(super) pools: &'a dyn Pools,
    pub(super) ids: &'a StickyIds,
}

/// A frontend being compiled, and the key of its elements.
struct Keyed<'a> {
    frontend: &'a Frontend,
    table: Table,
    key: KeyBytes,
}

impl Compiler<'_> {
    /// All elements of one frontend.
    pub fn frontend(&self, key: &FrontendKey, frontend: &Frontend) -> Compiled {
        match *key {
            FrontendKey::Address(ip, protocol, port) => {
                self.keyed(frontend, Table::Address, keys::service(ip, protocol, port))
            }
            FrontendKey::NodePort(protocol, port) => {
                self.keyed(frontend, Table::NodePort, keys::node_port(protocol, port))
            }
            FrontendKey::UnmatchedPorts(ip) => {
                let element = keys::element(SetName::ClusterIps.name(), keys::address(ip), None);
                Compiled { elements: vec![element], ..Compiled::default() }
            }
            // Not served by rules of this mode.
            FrontendKey::LoopbackNodePort(..) => Compiled::default(),
        }
    }

    fn keyed(&self, frontend: &Frontend, table: Table, key: KeyBytes) -> Compiled {
        let keyed = Keyed { frontend, table, key };
        let mut compiled = Compiled::default();
        if let Some(ranges) = frontend.source_ranges() {
            compiled.add_source_ranges(ranges, &keyed.key);
        }
        match frontend.shape {
            Shape::Refuse(refusal) => refuse(&mut compiled, &keyed, refusal),
            Shape::OnePool { pool, masquerade } => self.one_pool(&mut compiled, &keyed, pool, masquerade),
            Shape::ShortCircuit { outsiders } => self.short_circuit(&mut compiled, &keyed, outsiders),
        }
        compiled
    }

    /// All clients share one pool. Whichever it is, its elements are in the maps of the cluster pool.
    fn one_pool(&self, compiled: &mut Compiled, keyed: &Keyed<'_>, scope: PoolScope, masquerade: Masquerade) {
        let Keyed { frontend, table, ref key } = *keyed;
        let place = PoolRef { table, scope: PoolScope::Cluster };
        let Some(pool) = self.pool(frontend, scope) else { return };
        let entry = Entry { table, masquerade };
        let size = size_of(pool);
        let chain = if let Some((id, seconds)) = self.sticky(frontend, scope, pool) {
            compiled.add_affinity(place, key, id);
            PoolChain::EnterSticky { entry, size, seconds }
        } else {
            compiled.add_slots(place, key, pool);
            PoolChain::Enter { entry, size }
        };
        compiled.set_target(table, key, DispatchTarget::Chain(chain));
    }

    /// Pods and this host to the cluster pool, the others to the local one or nowhere.
    fn short_circuit(&self, compiled: &mut Compiled, keyed: &Keyed<'_>, outsiders: Outsiders) {
        let Keyed { frontend, table, ref key } = *keyed;
        let place = |scope| PoolRef { table, scope };
        let Some(cluster) = self.pool(frontend, PoolScope::Cluster) else { return };
        let local = match outsiders {
            Outsiders::LocalPool => self.pool(frontend, PoolScope::Local),
            Outsiders::Dropped => None,
        };
        let (cluster_size, local_size) = (size_of(cluster), local.map_or(0, size_of));
        let sticky = self.sticky(frontend, PoolScope::Cluster, cluster);
        let sticky_local = local.and_then(|local| self.sticky(frontend, PoolScope::Local, local));
        let chain = match sticky {
            Some((id, seconds)) if sticky_local.is_some() || local.is_none() => {
                compiled.add_affinity(place(PoolScope::Cluster), key, id);
                if let Some((id, _)) = sticky_local {
                    compiled.add_affinity(place(PoolScope::Local), key, id);
                }
                PoolChain::LocalSticky { table, cluster: cluster_size, local: local_size, seconds }
            }
            Some(_) | None => {
                compiled.add_slots(place(PoolScope::Cluster), key, cluster);
                if let Some(local) = local {
                    compiled.add_slots(place(PoolScope::Local), key, local);
                }
                PoolChain::Local { table, cluster: cluster_size, local: local_size }
            }
        };
        compiled.set_target(table, key, DispatchTarget::Chain(chain));
    }

    fn pool(&self, frontend: &Frontend, scope: PoolScope) -> Option<&Pool> {
        self.pools.pool(&PoolId { owner: frontend.owner.clone(), scope })
    }

    /// The pool's id and timeout, if it has session affinity and ids.
    fn sticky(&self, frontend: &Frontend, scope: PoolScope, pool: &Pool) -> Option<(u32, u32)> {
        let seconds = pool.affinity_seconds?;
        let id = PoolId { owner: frontend.owner.clone(), scope };
        Some((self.ids.get(&id, pool)?.pool, seconds))
    }
}

/// Which of a frontend's pools is in the maps of the cluster pool, and which in those of the local pool.
pub(super) fn mapped_scopes(frontend: &Frontend) -> [Option<PoolScope>; 2] {
    match frontend.shape {
        Shape::Refuse(_) => [None, None],
        Shape::OnePool { pool, .. } => [Some(pool), None],
        Shape::ShortCircuit { outsiders: Outsiders::LocalPool } => {
            [Some(PoolScope::Cluster), Some(PoolScope::Local)]
        }
        Shape::ShortCircuit { outsiders: Outsiders::Dropped } => [Some(PoolScope::Cluster), None],
    }
}

fn refuse(compiled: &mut Compiled, keyed: &Keyed<'_>, refusal: Refusal) {
    let set = match (refusal, &keyed.frontend.kind, keyed.table) {
        (Refusal::Drop, ..) => {
            compiled.set_target(keyed.table, &keyed.key, DispatchTarget::Drop);
            return;
        }
        // A cluster IP without endpoints is rejected with its unused ports.
        (Refusal::Reject, FrontendKind::ClusterIp, _) => return,
        (Refusal::Reject, _, Table::Address) => SetName::NoEndpointServices,
        (Refusal::Reject, _, Table::NodePort) => SetName::NoEndpointNodePorts,
    };
    compiled.elements.push(keys::element(set.name(), keyed.key.clone(), None));
}

fn size_of(pool: &Pool) -> u32 {
    u32::try_from(pool.endpoints.len()).unwrap_or(u32::MAX)
}
