//! What differs between the elements before a change and after it, and what of it may go at once.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;

use ferrule_kernel::nft::{Element, KeyBytes, Name};
use ferrule_model::ServicePortName;
use ferrule_plan::{FrontendKey, PlanDelta, PoolId};

use super::frontend::Compiled;
use super::names::SetName;
use super::program::Edit;

/// The elements of a change before and after it.
#[derive(Default)]
pub(super) struct Diff {
    was: Vec<(Element, Leaves)>,
    pub(super) now: Vec<Element>,
    /// Elements that are certain to go or come, having been counted.
    pub(super) delete: Vec<Element>,
    pub(super) add: Vec<Element>,
}

/// When an element goes that is no longer wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaves {
    AtOnce,
    /// A packet that followed the old verdict may still look it up.
    Later,
}

/// Frontends that lead another kind of way than before, not just to another size, and who they belong to.
pub(super) struct Ways<'a> {
    frontends: BTreeSet<FrontendKey>,
    owners: BTreeSet<&'a ServicePortName>,
    delta: &'a PlanDelta,
}

impl<'a> Ways<'a> {
    pub(super) fn changed(
        delta: &'a PlanDelta,
        was: &BTreeMap<FrontendKey, Compiled>,
        now: &BTreeMap<FrontendKey, Compiled>,
    ) -> Self {
        let is_other = |(key, was): &(&FrontendKey, &Compiled)| {
            let now = now.get(*key).and_then(Compiled::chain);
            matches!((was.chain(), now), (Some(was), Some(now)) if discriminant(&was) != discriminant(&now))
        };
        let frontends: BTreeSet<FrontendKey> = was.iter().filter(is_other).map(|(key, _)| *key).collect();
        let owner = |key| Some(&delta.frontends.get(key)?.was.as_ref()?.owner);
        let owners = frontends.iter().filter_map(owner).collect();
        Self { frontends, owners, delta }
    }

    fn of_frontend(&self, key: &FrontendKey) -> Leaves {
        if self.frontends.contains(key) { Leaves::Later } else { Leaves::AtOnce }
    }

    /// A pool that clients still stick to lets an endpoint go at once: who was with it must not be sent there any more.
    fn of_pool(&self, id: &PoolId) -> Leaves {
        let now = self.delta.pools.get(id).and_then(|replaced| replaced.now.as_ref());
        let sticks = now.is_some_and(|pool| pool.affinity_seconds.is_some());
        if !sticks && self.owners.contains(&id.owner) { Leaves::Later } else { Leaves::AtOnce }
    }
}

impl Diff {
    pub(super) fn were(
        &mut self,
        pools: Vec<(&PoolId, Vec<Element>)>,
        frontends: BTreeMap<FrontendKey, Compiled>,
        ways: &Ways<'_>,
    ) {
        for (id, elements) in pools {
            let leaves = ways.of_pool(id);
            self.was.extend(elements.into_iter().map(|element| (element, leaves)));
        }
        for (key, compiled) in frontends {
            let leaves = ways.of_frontend(&key);
            self.was.extend(compiled.elements.into_iter().map(|element| (element, leaves)));
        }
    }

    /// Elements that are the same before and after drop out; of the rest, one with a new value replaces the old one.
    pub(super) fn settle(self) -> Edit {
        let mut was: BTreeMap<(Name, KeyBytes), (Element, Leaves)> = BTreeMap::new();
        was.extend(self.was.into_iter().map(|(element, leaves)| (key_of(&element), (element, leaves))));
        let mut edit = Edit::default();
        for element in self.now {
            match was.remove(&key_of(&element)) {
                Some((same, _)) if same == element => {}
                old => {
                    edit.delete.extend(old.map(|(element, _)| element));
                    edit.add.push(element);
                }
            }
        }
        for (element, leaves) in was.into_values() {
            let lingers = leaves == Leaves::Later && may_linger(&element.set);
            if lingers { edit.linger.push(element) } else { edit.delete.push(element) }
        }
        cancel_out(self.delete, self.add, &mut edit);
        edit
    }
}

/// A hairpin that one pool lets go of and another wants in the same change stays.
fn cancel_out(delete: Vec<Element>, add: Vec<Element>, edit: &mut Edit) {
    let kept: BTreeSet<KeyBytes> = {
        let added: BTreeSet<&KeyBytes> = add.iter().map(|element| &element.key).collect();
        delete.iter().map(|element| &element.key).filter(|key| added.contains(key)).cloned().collect()
    };
    edit.delete.extend(delete.into_iter().filter(|element| !kept.contains(&element.key)));
    edit.add.extend(add.into_iter().filter(|element| !kept.contains(&element.key)));
}

/// Maps that are looked up after a verdict was followed: a packet on its way may still look here.
fn may_linger(set: &Name) -> bool {
    let followed = [
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
    followed.iter().any(|name| name.as_str() == set.as_str())
}

fn key_of(element: &Element) -> (Name, KeyBytes) {
    (element.set.clone(), element.key.clone())
}
