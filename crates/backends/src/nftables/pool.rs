//! A pool → elements that belong to it and not to a frontend: hairpins, and the numbers clients stick by.

use ferrule_kernel::nft::Element;
use ferrule_plan::{Pool, PoolId};

use super::keys::{self, endpoint_data, number_data};
use super::names::SetName;
use super::sticky_ids::StickyIds;

/// Endpoints of this node may reach themselves through a Service; several pools may say so of one endpoint.
pub(super) fn hairpins(id: &PoolId, pool: &Pool) -> Vec<Element> {
    let here = pool.endpoints.iter().filter(|endpoint| endpoint.is_local);
    let key = |endpoint| keys::hairpin(endpoint, id.owner.protocol);
    here.map(|endpoint| keys::element(SetName::HairpinConnections.name(), key(endpoint), None)).collect()
}

/// Slot → endpoint id → endpoint, for pools whose clients stick.
pub(super) fn sticky(id: &PoolId, pool: &Pool, ids: &StickyIds) -> Vec<Element> {
    let Some(numbers) = pool.affinity_seconds.and_then(|_| ids.of(id, pool)) else { return Vec::new() };
    let mut elements = Vec::with_capacity(pool.endpoints.len() * 2);
    for ((slot, endpoint), number) in (0_u32..).zip(&pool.endpoints).zip(numbers.endpoints) {
        let slot = keys::with_number(keys::number(numbers.pool), slot);
        elements.push(keys::element(SetName::StickySlots.name(), slot, Some(number_data(number))));
        let id = keys::protocol_and_number(id.owner.protocol, number);
        elements.push(keys::element(SetName::StickyEndpoints.name(), id, Some(endpoint_data(endpoint))));
    }
    elements
}
