//! What is in the table at a start, as far as it must be read.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ferrule_kernel::kernel::NftTables;
use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::nft::{Element, KeyBytes, Name, Value};
use ferrule_plan::{FamilyPlan, Frontend, FrontendKey, PoolId, PoolScope};

use super::skeleton::Skeleton;
use crate::nftables::frontend::mapped_scopes;
use crate::nftables::keys;
use crate::nftables::names::{PoolChain, SetName, Table, sticky_pools_map};
use crate::nftables::program::{Elements, LAYOUT, Numbers, Program};
use crate::nftables::stamp::Stamp;
use crate::nftables::sticky_ids::{StickyIds, parts_of};
use crate::nftables::way_numbers::{WayNumbers, chain_in};

/// What a table of our name says about itself.
pub(super) enum Observed {
    /// There is none.
    Nothing,
    /// It is not laid out as ours.
    Foreign,
    /// It is ours.
    Ours(Stamp),
}

impl Observed {
    /// Looks.
    pub(super) fn table(kernel: &mut impl NftTables) -> Result<Self, NetlinkError> {
        match kernel.table()? {
            None => return Ok(Self::Nothing),
            // Somebody put it to sleep, or gave it flags of a later kernel; a plain one takes its place.
            Some(table) if table.dormant || table.has_other_flags => return Ok(Self::Foreign),
            Some(_) => {}
        }
        let stamps = kernel.elements(&SetName::Stamp.name())?.unwrap_or_default().elements;
        let stamp = stamps.iter().find_map(Stamp::read).filter(|stamp| stamp.layout == LAYOUT);
        Ok(stamp.map_or(Self::Foreign, Self::Ours))
    }

    /// Whether there is a table of our name that is in force.
    pub(super) fn is_in_force(kernel: &mut impl NftTables) -> Result<bool, NetlinkError> {
        Ok(kernel.table()?.is_some_and(|table| !table.dormant && !table.has_other_flags))
    }
}

/// The numbers that a former run gave.
pub(super) fn numbers(kernel: &mut impl NftTables, plan: &FamilyPlan) -> Result<Numbers, NetlinkError> {
    let mut ways = WayNumbers::default();
    for element in kernel.elements(&SetName::Ways.name())?.unwrap_or_default().elements {
        ways.adopt(&element);
    }
    Ok(Numbers { sticky: sticky_ids(kernel, plan)?, ways })
}

/// The numbers that clients stick by, for the pools and endpoints that are still there.
fn sticky_ids(kernel: &mut impl NftTables, plan: &FamilyPlan) -> Result<StickyIds, NetlinkError> {
    let mut ids = StickyIds::default();
    let numbers = pool_numbers(kernel)?;
    let mut pools: BTreeMap<u32, PoolId> = BTreeMap::new();
    for (key, frontend) in plan.frontends() {
        for (scope, number) in numbers_of(key, frontend, &numbers) {
            let id = PoolId { owner: frontend.owner.clone(), scope };
            let sticks = plan.pool(&id.owner, scope).is_some_and(|pool| pool.affinity_seconds.is_some());
            if sticks {
                ids.adopt_pool(&id, number);
                pools.entry(number).or_insert(id);
            }
        }
    }
    for Numbered { number, serial, endpoint } in endpoint_numbers(kernel)? {
        if let Some(id) = pools.get(&number) {
            ids.adopt_serial(id, endpoint, serial);
        }
    }
    Ok(ids)
}

/// Pool numbers by map and key.
type PoolNumbers = BTreeMap<(Name, KeyBytes), u32>;

fn pool_numbers(kernel: &mut impl NftTables) -> Result<PoolNumbers, NetlinkError> {
    let mut numbers = BTreeMap::new();
    for table in [Table::Address, Table::NodePort] {
        for scope in [PoolScope::Cluster, PoolScope::Local] {
            let map = sticky_pools_map(table, scope).name();
            for element in kernel.elements(&map)?.unwrap_or_default().elements {
                if let Some((number, _)) = number_in(&element).and_then(parts_of) {
                    numbers.insert((map.clone(), element.key), number);
                }
            }
        }
    }
    Ok(numbers)
}

/// The numbers a frontend's pools had.
fn numbers_of(key: &FrontendKey, frontend: &Frontend, numbers: &PoolNumbers) -> Vec<(PoolScope, u32)> {
    let (table, key) = match *key {
        FrontendKey::Address(ip, protocol, port) => (Table::Address, keys::service(ip, protocol, port)),
        FrontendKey::NodePort(protocol, port) => (Table::NodePort, keys::node_port(protocol, port)),
        FrontendKey::OtherPorts(_) | FrontendKey::LoopbackNodePort(..) => return Vec::new(),
    };
    // The first of the maps holds whichever pool is a frontend's only one.
    let maps = [PoolScope::Cluster, PoolScope::Local];
    let in_map = |map| numbers.get(&(sticky_pools_map(table, map).name(), key.clone())).copied();
    let scopes = mapped_scopes(frontend).into_iter().zip(maps);
    scopes.filter_map(|(scope, map)| Some((scope?, in_map(map)?))).collect()
}

/// An endpoint that clients stick to.
struct Numbered {
    number: u32,
    serial: u32,
    endpoint: (IpAddr, u16),
}

fn endpoint_numbers(kernel: &mut impl NftTables) -> Result<Vec<Numbered>, NetlinkError> {
    let seen = kernel.elements(&SetName::StickyEndpoints.name())?.unwrap_or_default().elements;
    let read = |element: &Element| {
        let id = element.key.get(4..8)?.try_into().ok().map(u32::from_ne_bytes)?;
        let (number, serial) = parts_of(id)?;
        Some(Numbered { number, serial, endpoint: endpoint_in(element)? })
    };
    Ok(seen.iter().filter_map(read).collect())
}

fn number_in(element: &Element) -> Option<u32> {
    let Some(Value::Data(data)) = &element.value else { return None };
    data.as_slice().try_into().ok().map(u32::from_ne_bytes)
}

fn endpoint_in(element: &Element) -> Option<(IpAddr, u16)> {
    let Some(Value::Data(data)) = &element.value else { return None };
    let (address, port) = data.split_at_checked(data.len().checked_sub(4)?)?;
    let ip = match address.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(address).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(address).ok()?),
        _ => return None,
    };
    Some((ip, u16::from_be_bytes([*port.first()?, *port.get(1)?])))
}

/// Whether the table holds a program to the letter. What clients stick to, and the stamp, are not looked at.
pub(super) fn holds(
    kernel: &mut impl NftTables,
    program: &Program,
    elements: &Elements,
) -> Result<bool, NetlinkError> {
    let skeleton = Skeleton::read(kernel)?;
    if skeleton.difference(program, &[]).is_some() {
        return Ok(false);
    }
    let mut wanted: BTreeMap<&Name, BTreeMap<&KeyBytes, &Option<Value>>> = BTreeMap::new();
    for element in elements.iter() {
        wanted.entry(&element.set).or_default().insert(&element.key, &element.value);
    }
    let unread = [SetName::Affinity.name(), SetName::Stamp.name()];
    let sets = program.sets().into_iter().map(|set| set.name).filter(|name| !unread.contains(name));
    // What is left in a set that is out of use would count again with the next Service that uses it.
    for set in sets.chain(skeleton.spare_sets(program)) {
        let seen = kernel.elements(&set)?.unwrap_or_default();
        let wanted = wanted.remove(&set).unwrap_or_default();
        let have: BTreeMap<&KeyBytes, &Option<Value>> = seen
            .elements
            .iter()
            .filter(|element| wanted.contains_key(&element.key) || !is_way_out_of_use(element))
            .map(|element| (&element.key, &element.value))
            .collect();
        if !seen.foreign.is_empty() || have != wanted {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Chains of pool sizes that went out of use stay, and so does what leads to them.
fn is_way_out_of_use(element: &Element) -> bool {
    element.set == SetName::Ways.name() && chain_in(element).and_then(PoolChain::from_name).is_some()
}
