//! What is in the table, as far as it must be read.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::nft::{Element, KeyBytes, Name, Value};
use ferrule_kernel::port::NftTables;
use ferrule_plan::{FamilyPlan, Frontend, FrontendKey, PoolId, PoolScope};

use super::Lingering;
use super::skeleton::Skeleton;
use crate::Stamp;
use crate::nftables::chain_ids::{ChainIds, goto_target};
use crate::nftables::frontend::mapped_scopes;
use crate::nftables::keys;
use crate::nftables::names::{LAYOUT_3_DISPATCH, PoolChain, PoolRef, SetName, Table, sticky_pools_map};
use crate::nftables::rule_set::{Elements, LAYOUT, RuleSet, StableIds};
use crate::nftables::sticky_ids::{EndpointAddress, StickyIds, parts_of};

/// Layouts whose sets can stay. A start rewrites such a table in place: packets under way still find their elements, and clients
/// keep their endpoints. Replacing a table as a whole may lose a connect that is under way at that moment.
const REWRITABLE_LAYOUTS: [u8; 2] = [3, LAYOUT];

/// A table of our name, by its stamp.
pub(super) enum Observed {
    /// No table.
    Nothing,
    /// Not laid out as ours.
    Foreign,
    /// Ours; the layout may be an older one that can be rewritten in place.
    Ours(Stamp),
}

impl Observed {
    pub(super) fn read(kernel: &mut impl NftTables) -> Result<Self, NetlinkError> {
        match kernel.table()? {
            None => return Ok(Self::Nothing),
            // Another program made it dormant, or gave it flags of a later kernel: it is replaced by a plain one.
            Some(table) if table.dormant || table.has_other_flags => return Ok(Self::Foreign),
            Some(_) => {}
        }
        let stamps = kernel.elements(&SetName::Stamp.name())?.unwrap_or_default().elements;
        let is_rewritable = |stamp: &Stamp| REWRITABLE_LAYOUTS.contains(&stamp.layout);
        let stamp = stamps.iter().find_map(|stamp| Stamp::from_bytes(&stamp.key)).filter(is_rewritable);
        Ok(stamp.map_or(Self::Foreign, Self::Ours))
    }

    /// Whether there is a table of our name, and packets pass through it.
    pub(super) fn is_in_force(kernel: &mut impl NftTables) -> Result<bool, NetlinkError> {
        Ok(kernel.table()?.is_some_and(|table| !table.dormant && !table.has_other_flags))
    }
}

/// The ids that an earlier run assigned.
pub(super) fn read_ids(kernel: &mut impl NftTables, plan: &FamilyPlan) -> Result<StableIds, NetlinkError> {
    let mut chains = ChainIds::default();
    let dispatch = match kernel.elements(&SetName::Dispatch.name())? {
        Some(seen) => seen,
        None => kernel.elements(&Name::new(LAYOUT_3_DISPATCH))?.unwrap_or_default(),
    };
    for element in dispatch.elements {
        chains.adopt(&element);
    }
    Ok(StableIds { sticky: sticky_ids(kernel, plan)?, chains })
}

/// The ids of session affinity, for the pools and endpoints that still exist.
fn sticky_ids(kernel: &mut impl NftTables, plan: &FamilyPlan) -> Result<StickyIds, NetlinkError> {
    let mut ids = StickyIds::default();
    let numbers = pool_numbers(kernel)?;
    let mut pools: BTreeMap<u32, PoolId> = BTreeMap::new();
    for (key, frontend) in plan.frontends() {
        for (scope, number) in numbers_of_frontend(key, frontend, &numbers) {
            let id = PoolId { owner: frontend.owner.clone(), scope };
            let has_affinity =
                plan.pool(&id.owner, scope).is_some_and(|pool| pool.affinity_seconds.is_some());
            if has_affinity {
                ids.adopt_pool(&id, number);
                pools.entry(number).or_insert(id);
            }
        }
    }
    for StickyEndpoint { number, serial, endpoint } in sticky_endpoints(kernel)? {
        if let Some(id) = pools.get(&number) {
            ids.adopt_serial(id, endpoint, serial);
        }
    }
    Ok(ids)
}

/// Pool numbers by map and key.
type StickyPoolIds = BTreeMap<(Name, KeyBytes), u32>;

fn pool_numbers(kernel: &mut impl NftTables) -> Result<StickyPoolIds, NetlinkError> {
    let mut numbers = BTreeMap::new();
    for table in [Table::Address, Table::NodePort] {
        for scope in [PoolScope::Cluster, PoolScope::Local] {
            let map = sticky_pools_map(PoolRef { table, scope }).name();
            for element in kernel.elements(&map)?.unwrap_or_default().elements {
                if let Some((number, _)) = number_in(&element).and_then(parts_of) {
                    numbers.insert((map.clone(), element.key), number);
                }
            }
        }
    }
    Ok(numbers)
}

/// The numbers that a frontend's pools had.
fn numbers_of_frontend(
    key: &FrontendKey,
    frontend: &Frontend,
    numbers: &StickyPoolIds,
) -> Vec<(PoolScope, u32)> {
    let (table, key) = match *key {
        FrontendKey::Address(ip, protocol, port) => (Table::Address, keys::service(ip, protocol, port)),
        FrontendKey::NodePort(protocol, port) => (Table::NodePort, keys::node_port(protocol, port)),
        FrontendKey::UnmatchedPorts(_) | FrontendKey::LoopbackNodePort(..) => return Vec::new(),
    };
    // A frontend's only pool is in the maps of the cluster pool, whichever it is.
    let maps = [PoolScope::Cluster, PoolScope::Local];
    let in_map =
        |map| numbers.get(&(sticky_pools_map(PoolRef { table, scope: map }).name(), key.clone())).copied();
    let scopes = mapped_scopes(frontend).into_iter().zip(maps);
    scopes.filter_map(|(scope, map)| Some((scope?, in_map(map)?))).collect()
}

/// An endpoint with an id.
struct StickyEndpoint {
    /// Of its pool.
    number: u32,
    serial: u32,
    endpoint: EndpointAddress,
}

fn sticky_endpoints(kernel: &mut impl NftTables) -> Result<Vec<StickyEndpoint>, NetlinkError> {
    let seen = kernel.elements(&SetName::StickyEndpoints.name())?.unwrap_or_default().elements;
    let read = |element: &Element| {
        let id = element.key.get(4..8)?.try_into().ok().map(u32::from_ne_bytes)?;
        let (number, serial) = parts_of(id)?;
        Some(StickyEndpoint { number, serial, endpoint: endpoint_in(element)? })
    };
    Ok(seen.iter().filter_map(read).collect())
}

fn number_in(element: &Element) -> Option<u32> {
    let Some(Value::Data(data)) = &element.value else { return None };
    data.as_slice().try_into().ok().map(u32::from_ne_bytes)
}

fn endpoint_in(element: &Element) -> Option<EndpointAddress> {
    let Some(Value::Data(data)) = &element.value else { return None };
    let (address, port) = data.split_at_checked(data.len().checked_sub(4)?)?;
    let ip = match address.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(address).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(address).ok()?),
        _ => return None,
    };
    Some(EndpointAddress { ip, port: u16::from_be_bytes([*port.first()?, *port.get(1)?]) })
}

/// Whether the table holds exactly this rule set, except the stamp and the clients' affinity.
pub(super) fn holds(
    kernel: &mut impl NftTables,
    rule_set: &RuleSet,
    elements: &Elements,
) -> Result<bool, NetlinkError> {
    let skeleton = Skeleton::read(kernel)?;
    if skeleton.difference(rule_set, &Lingering::default()).is_some() {
        return Ok(false);
    }
    Ok(differing_elements(kernel, rule_set, elements, &skeleton)?.is_empty())
}

/// Elements by which the table differs from a rule set.
#[derive(Default)]
pub(super) struct DifferingElements {
    pub missing: Vec<Element>,
    pub surplus: Vec<Element>,
    /// Sets with elements that are not ours and cannot be read.
    pub unreadable: Vec<Name>,
}

impl DifferingElements {
    fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.surplus.is_empty() && self.unreadable.is_empty()
    }
}

/// Compares all elements except the stamp and the clients' affinity.
pub(super) fn differing_elements(
    kernel: &mut impl NftTables,
    rule_set: &RuleSet,
    elements: &Elements,
    skeleton: &Skeleton,
) -> Result<DifferingElements, NetlinkError> {
    let mut wanted: BTreeMap<&Name, BTreeMap<&KeyBytes, &Element>> = BTreeMap::new();
    for element in elements.iter() {
        wanted.entry(&element.set).or_default().insert(&element.key, element);
    }
    let unread = [SetName::Affinity.name(), SetName::Stamp.name()];
    let sets = rule_set.sets().into_iter().map(|set| set.name).filter(|name| !unread.contains(name));
    let mut differing = DifferingElements::default();
    // An element in a set that is out of use would take effect with the next Service that uses the set.
    for set in sets.chain(skeleton.spare_sets(rule_set)) {
        let seen = kernel.elements(&set)?.unwrap_or_default();
        let mut wanted = wanted.remove(&set).unwrap_or_default();
        for element in seen.elements {
            match wanted.remove(&element.key) {
                Some(wanted) if wanted.value == element.value => {}
                Some(wanted) => {
                    differing.missing.push(wanted.clone());
                    differing.surplus.push(element);
                }
                None if is_unused_dispatch(&element) => {}
                None => differing.surplus.push(element),
            }
        }
        differing.missing.extend(wanted.into_values().cloned());
        if !seen.foreign.is_empty() {
            differing.unreadable.push(set);
        }
    }
    Ok(differing)
}

/// Chains of pool sizes that went out of use stay, and so do the elements that lead to them.
fn is_unused_dispatch(element: &Element) -> bool {
    element.set == SetName::Dispatch.name() && goto_target(element).and_then(PoolChain::from_name).is_some()
}
