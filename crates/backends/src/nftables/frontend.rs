//! A frontend → elements: what the maps say about one service address or node port.
//!
//! A frontend's pool is written out with it, once for each address, which saves every packet a look-up.

use ferrule_kernel::nft::{Element, KeyBytes};
use ferrule_plan::{Frontend, FrontendKey, FrontendKind, Pool, PoolId, PoolScope, TrafficSource, Verdict};
use ipnet::IpNet;

use super::keys::{self, endpoint_data, number_data};
use super::names::{Entry, PoolChain, SetName, Table, endpoints_map, source_ranges, sticky_pools_map};
use super::sticky_ids::StickyIds;
use super::way_numbers::{Outcome, WayNumbers};

/// What a frontend comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compiled {
    /// The elements it needs, but for the one that says where packets go until that has a number: see [`Self::numbered`].
    pub elements: Vec<Element>,
    signpost: Option<Signpost>,
    /// The prefix lengths of its source ranges.
    pub prefix_lengths: Vec<u8>,
}

/// Where a frontend leads.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Signpost {
    map: SetName,
    key: KeyBytes,
    outcome: Outcome,
}

impl Compiled {
    /// The chain it leads to, if it does.
    pub fn chain(&self) -> Option<PoolChain> {
        match self.signpost.as_ref()?.outcome {
            Outcome::Chain(chain) => Some(chain),
            Outcome::Drop => None,
        }
    }

    /// With all its elements, now that the way it leads has a number.
    #[must_use]
    pub fn numbered(mut self, numbers: &WayNumbers) -> Self {
        if let Some(Signpost { map, key, outcome }) = &self.signpost
            && let Some(number) = numbers.of(*outcome)
        {
            self.elements.push(keys::element(map.name(), key.clone(), Some(number_data(number))));
        }
        self
    }

    /// Sources outside the ranges are dropped before anything else.
    fn firewall(&mut self, ranges: &[IpNet], key: &KeyBytes) {
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

    /// Slot after slot, the endpoints of a pool.
    fn slots(&mut self, (table, scope): (Table, PoolScope), key: &KeyBytes, pool: &Pool) {
        let map = endpoints_map(table, scope).name();
        for (slot, endpoint) in (0_u32..).zip(&pool.endpoints) {
            let key = keys::with_number(key.clone(), slot);
            self.elements.push(keys::element(map.clone(), key, Some(endpoint_data(endpoint))));
        }
    }

    /// The pool whose clients stick.
    fn stick(&mut self, (table, scope): (Table, PoolScope), key: &KeyBytes, id: u32) {
        let map = sticky_pools_map(table, scope).name();
        self.elements.push(keys::element(map, key.clone(), Some(number_data(id))));
    }

    fn lead(&mut self, table: Table, key: &KeyBytes, outcome: Outcome) {
        let map = match table {
            Table::Address => SetName::Services,
            Table::NodePort => SetName::NodePorts,
        };
        self.signpost = Some(Signpost { map, key: key.clone(), outcome });
    }
}

/// Where a frontend's pools are looked up: in the plan, or in the plan as it was before a change.
pub trait Pools {
    /// One pool.
    fn pool(&self, id: &PoolId) -> Option<&Pool>;
}

/// What compiling one frontend needs beside it.
pub struct Compiler<'a> {
    pub(super) pools: &'a dyn Pools,
    pub(super) ids: &'a StickyIds,
}

/// The parts of a rule list that matter here.
struct Route<'a> {
    ranges: Option<&'a [IpNet]>,
    /// Pods and this host go to the cluster pool past a Local policy.
    short_circuited: bool,
    otherwise: Verdict,
}

impl Compiler<'_> {
    /// All elements of one frontend.
    pub fn frontend(&self, key: &FrontendKey, frontend: &Frontend) -> Compiled {
        match *key {
            FrontendKey::Address(ip, protocol, port) => {
                self.routed(frontend, Table::Address, keys::service(ip, protocol, port))
            }
            FrontendKey::NodePort(protocol, port) => {
                self.routed(frontend, Table::NodePort, keys::node_port(protocol, port))
            }
            FrontendKey::OtherPorts(ip) => {
                let element = keys::element(SetName::ClusterIps.name(), keys::address(ip), None);
                Compiled { elements: vec![element], ..Compiled::default() }
            }
            // Loopback is served by a process of ours, not by the kernel.
            FrontendKey::LoopbackNodePort(..) => Compiled::default(),
        }
    }

    fn routed(&self, frontend: &Frontend, table: Table, key: KeyBytes) -> Compiled {
        let route = route_of(frontend);
        let mut compiled = Compiled::default();
        if let Some(ranges) = route.ranges {
            compiled.firewall(ranges, &key);
        }
        match (route.short_circuited, route.otherwise) {
            (false, Verdict::Forward { pool, .. }) => {
                self.entered(&mut compiled, (frontend, table), pool, &key);
            }
            (true, otherwise) => self.local(&mut compiled, (frontend, table), otherwise, &key),
            (false, Verdict::Drop) => compiled.lead(table, &key, Outcome::Drop),
            // A cluster IP without endpoints is rejected with its unused ports.
            (false, Verdict::Reject) if frontend.kind == FrontendKind::ClusterIp => {}
            (false, Verdict::Reject) => {
                let set = match table {
                    Table::Address => SetName::NoEndpointServices,
                    Table::NodePort => SetName::NoEndpointNodePorts,
                };
                compiled.elements.push(keys::element(set.name(), key, None));
            }
            (false, Verdict::LeaveAlone) => {}
        }
        compiled
    }

    /// Everybody goes to one pool, which takes the place of the cluster pool in the maps whichever it is.
    fn entered(
        &self,
        compiled: &mut Compiled,
        (frontend, table): (&Frontend, Table),
        scope: PoolScope,
        key: &KeyBytes,
    ) {
        let Some(pool) = self.pool(frontend, scope) else { return };
        let entry = match (frontend.kind, table) {
            (_, Table::NodePort) => Entry::NodePort,
            (FrontendKind::ClusterIp, Table::Address) => Entry::Cluster,
            (_, Table::Address) => Entry::External,
        };
        let size = size_of(pool);
        let chain = if let Some((id, seconds)) = self.sticky(frontend, scope, pool) {
            compiled.stick((table, PoolScope::Cluster), key, id);
            PoolChain::EnterSticky { entry, size, seconds }
        } else {
            compiled.slots((table, PoolScope::Cluster), key, pool);
            PoolChain::Enter { entry, size }
        };
        compiled.lead(table, key, Outcome::Chain(chain));
    }

    /// Pods and this host to the cluster pool, the others to the local one or nowhere.
    fn local(
        &self,
        compiled: &mut Compiled,
        (frontend, table): (&Frontend, Table),
        otherwise: Verdict,
        key: &KeyBytes,
    ) {
        let Some(cluster) = self.pool(frontend, PoolScope::Cluster) else { return };
        let is_local = matches!(otherwise, Verdict::Forward { pool: PoolScope::Local, .. });
        let local = is_local.then(|| self.pool(frontend, PoolScope::Local)).flatten();
        let sizes = (size_of(cluster), local.map_or(0, size_of));
        let sticky = self.sticky(frontend, PoolScope::Cluster, cluster);
        let sticky_local = local.and_then(|local| self.sticky(frontend, PoolScope::Local, local));
        let chain = match sticky {
            Some((id, seconds)) if sticky_local.is_some() || local.is_none() => {
                compiled.stick((table, PoolScope::Cluster), key, id);
                if let Some((id, _)) = sticky_local {
                    compiled.stick((table, PoolScope::Local), key, id);
                }
                PoolChain::LocalSticky { table, cluster: sizes.0, local: sizes.1, seconds }
            }
            _ => {
                compiled.slots((table, PoolScope::Cluster), key, cluster);
                if let Some(local) = local {
                    compiled.slots((table, PoolScope::Local), key, local);
                }
                PoolChain::Local { table, cluster: sizes.0, local: sizes.1 }
            }
        };
        compiled.lead(table, key, Outcome::Chain(chain));
    }

    fn pool(&self, frontend: &Frontend, scope: PoolScope) -> Option<&Pool> {
        self.pools.pool(&PoolId { owner: frontend.owner.clone(), scope })
    }

    /// The pool's id and timeout, if its clients stick and it has numbers.
    fn sticky(&self, frontend: &Frontend, scope: PoolScope, pool: &Pool) -> Option<(u32, u32)> {
        let seconds = pool.affinity_seconds?;
        let id = PoolId { owner: frontend.owner.clone(), scope };
        Some((self.ids.of(&id, pool)?.pool, seconds))
    }
}

/// Whose pools a frontend has in the first and in the second of the maps.
pub(super) fn mapped_scopes(frontend: &Frontend) -> [Option<PoolScope>; 2] {
    let route = route_of(frontend);
    match (route.short_circuited, route.otherwise) {
        (false, Verdict::Forward { pool, .. }) => [Some(pool), None],
        (true, Verdict::Forward { pool: PoolScope::Local, .. }) => {
            [Some(PoolScope::Cluster), Some(PoolScope::Local)]
        }
        (true, _) => [Some(PoolScope::Cluster), None],
        (false, Verdict::Drop | Verdict::Reject | Verdict::LeaveAlone) => [None, None],
    }
}

fn size_of(pool: &Pool) -> u32 {
    u32::try_from(pool.endpoints.len()).unwrap_or(u32::MAX)
}

fn route_of(frontend: &Frontend) -> Route<'_> {
    let mut route = Route { ranges: None, short_circuited: false, otherwise: frontend.rules.otherwise() };
    for (source, _) in frontend.rules.iter() {
        match source {
            TrafficSource::OutsideRanges(ranges) => route.ranges = Some(ranges),
            // Only frontends with policy Local tell this host apart.
            TrafficSource::ThisHost => route.short_circuited = true,
            TrafficSource::LocalPods | TrafficSource::Anyone => {}
        }
    }
    route
}
