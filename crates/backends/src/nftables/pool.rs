//! A pool → the elements that belong to it and not to a frontend: hairpins, and the ids of session affinity.

use ferrule_kernel::nft::Element;
use ferrule_plan::{Pool, PoolId};

use super::keys::{self, endpoint_data, number_data};
use super::names::SetName;
use super::sticky_ids::StickyIds;

/// Endpoints of this node may reach themselves through a Service. Several pools may have the same endpoint.
pub(super) fn hairpins(id: &PoolId, pool: &Pool) -> Vec<Element> {
    let here = pool.endpoints.iter().filter(|endpoint| endpoint.is_local);
    let key = |endpoint| keys::hairpin(endpoint, id.owner.protocol);
    here.map(|endpoint| keys::element(SetName::HairpinConnections.name(), key(endpoint), None)).collect()
}

/// Slot → endpoint id → endpoint, for pools with session affinity.
pub(super) fn sticky(id: &PoolId, pool: &Pool, ids: &StickyIds) -> Vec<Element> {
    let Some(assigned) = pool.affinity_seconds.and_then(|_| ids.get(id, pool)) else { return Vec::new() };
    let mut elements = Vec::with_capacity(pool.endpoints.len() * 2);
    for ((slot, endpoint), endpoint_id) in (0_u32..).zip(&pool.endpoints).zip(assigned.endpoints) {
        let slot = keys::with_number(keys::number(assigned.pool), slot);
        elements.push(keys::element(SetName::StickySlots.name(), slot, Some(number_data(endpoint_id))));
        let key = keys::protocol_and_number(id.owner.protocol, endpoint_id);
        elements.push(keys::element(SetName::StickyEndpoints.name(), key, Some(endpoint_data(endpoint))));
    }
    elements
}
