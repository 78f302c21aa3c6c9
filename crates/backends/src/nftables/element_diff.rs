//! The difference between the elements before a change and after it, and which of the old ones must stay for a moment.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;

use ferrule_kernel::nft::{Element, KeyBytes, Name};
use ferrule_model::ServicePortName;
use ferrule_plan::{FrontendKey, PlanDelta, PoolId};

use super::frontend::Compiled;
use super::names::SetName;
use super::rule_set::Edit;

/// The elements that a change touches, before and after it.
#[derive(Default)]
pub(super) struct ElementDiff {
    before: Vec<(Element, Removal)>,
    pub(super) after: Vec<Element>,
    /// Refcounted elements whose last reference went, and whose first one came.
    pub(super) released: Vec<Element>,
    pub(super) acquired: Vec<Element>,
}

/// When an element goes that is no longer wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Removal {
    Now,
    /// A packet that followed the old verdict may still look the element up.
    Deferred,
}

/// Frontends that lead to another kind of chain than before, not just to another size, and the Service ports that own them.
pub(super) struct ReroutedFrontends<'a> {
    frontends: BTreeSet<FrontendKey>,
    owners: BTreeSet<&'a ServicePortName>,
    delta: &'a PlanDelta,
}

impl<'a> ReroutedFrontends<'a> {
    pub(super) fn new(
        delta: &'a PlanDelta,
        before: &BTreeMap<FrontendKey, Compiled>,
        after: &BTreeMap<FrontendKey, Compiled>,
    ) -> Self {
        let is_rerouted = |(key, before): &(&FrontendKey, &Compiled)| {
            let chains = (before.chain(), after.get(*key).and_then(Compiled::chain));
            matches!(chains, (Some(before), Some(after)) if discriminant(&before) != discriminant(&after))
        };
        let frontends: BTreeSet<FrontendKey> =
            before.iter().filter(is_rerouted).map(|(key, _)| *key).collect();
        let owner = |key| Some(&delta.frontends.get(key)?.was.as_ref()?.owner);
        let owners = frontends.iter().filter_map(owner).collect();
        Self { frontends, owners, delta }
    }

    fn removal_from_frontend(&self, key: &FrontendKey) -> Removal {
        if self.frontends.contains(key) { Removal::Deferred } else { Removal::Now }
    }

    /// A pool that keeps session affinity drops an endpoint at once: its clients must not be sent there any more.
    fn removal_from_pool(&self, id: &PoolId) -> Removal {
        let now = self.delta.pools.get(id).and_then(|replaced| replaced.now.as_ref());
        let keeps_affinity = now.is_some_and(|pool| pool.affinity_seconds.is_some());
        if !keeps_affinity && self.owners.contains(&id.owner) { Removal::Deferred } else { Removal::Now }
    }
}

impl ElementDiff {
    /// Adds the elements before the change.
    pub(super) fn add_before(
        &mut self,
        pools: Vec<(&PoolId, Vec<Element>)>,
        frontends: BTreeMap<FrontendKey, Compiled>,
        rerouted: &ReroutedFrontends<'_>,
    ) {
        for (id, elements) in pools {
            let removal = rerouted.removal_from_pool(id);
            self.before.extend(elements.into_iter().map(|element| (element, removal)));
        }
        for (key, compiled) in frontends {
            let removal = rerouted.removal_from_frontend(&key);
            self.before.extend(compiled.elements.into_iter().map(|element| (element, removal)));
        }
    }

    /// Elements that are the same before and after drop out. One with a new value replaces the old one.
    pub(super) fn into_edit(self) -> Edit {
        let mut before: BTreeMap<(Name, KeyBytes), (Element, Removal)> = BTreeMap::new();
        before
            .extend(self.before.into_iter().map(|(element, removal)| (key_of(&element), (element, removal))));
        let mut edit = Edit::default();
        for element in self.after {
            match before.remove(&key_of(&element)) {
                Some((same, _)) if same == element => {}
                old => {
                    edit.delete.extend(old.map(|(element, _)| element));
                    edit.add.push(element);
                }
            }
        }
        for (element, removal) in before.into_values() {
            let lingers = removal == Removal::Deferred && may_linger(&element.set);
            if lingers { edit.linger.push(element) } else { edit.delete.push(element) }
        }
        cancel_out(self.released, self.acquired, &mut edit);
        edit
    }
}

/// A hairpin that one pool releases and another acquires in the same change stays.
fn cancel_out(released: Vec<Element>, acquired: Vec<Element>, edit: &mut Edit) {
    let kept: BTreeSet<KeyBytes> = {
        let acquired: BTreeSet<&KeyBytes> = acquired.iter().map(|element| &element.key).collect();
        released.iter().map(|element| &element.key).filter(|key| acquired.contains(key)).cloned().collect()
    };
    edit.delete.extend(released.into_iter().filter(|element| !kept.contains(&element.key)));
    edit.add.extend(acquired.into_iter().filter(|element| !kept.contains(&element.key)));
}

/// Whether a map is looked up after a verdict was followed: only there may a packet under way still need an element.
fn may_linger(set: &Name) -> bool {
    let after_verdict = [
        SetName::Endpoints,
        SetName::LocalEndpoints,
        SetName::NodePortEndpoints,
        SetName::NodePortLocalEndpoints,
        SetName::StickyPools,
        SetName::StickyLocalPools,
        SetName::StickyNodePortPools,
        SetName::StickyNodePortLocalPools,
        SetName::StickySlots,
        SetName::StickyEndpoints,
    ];
    after_verdict.iter().any(|name| name.as_str() == set.as_str())
}

fn key_of(element: &Element) -> (Name, KeyBytes) {
    (element.set.clone(), element.key.clone())
}
