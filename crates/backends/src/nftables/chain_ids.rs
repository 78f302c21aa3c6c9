//! Ids for the chains that frontends dispatch to.
//!
//! A frontend's element holds an id, and the small map `dispatch` leads from ids to chains. The kernel checks all jumps
//! whenever one is added; if the elements of frontends held jumps, each change would cost more the more Services there are. A
//! chain keeps its id while it exists, also over a restart.

use std::collections::{BTreeMap, BTreeSet};

use ferrule_kernel::nft::{Element, Name, Value, Verdict};

use super::keys;
use super::names::{PoolChain, SetName};

/// Ids are carried in the packet's priority, which is reset if it begins like this.
const PREFIX: u32 = 0x7000_0000;
const MAX_ID: u32 = 0x0fff_ffff;

/// What packets to a frontend are dispatched to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DispatchTarget {
    /// A chain for the pool's size.
    Chain(PoolChain),
    /// Nothing: they are dropped.
    Drop,
}

/// The ids in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainIds {
    chains: BTreeMap<PoolChain, u32>,
    /// Ids that an earlier run assigned to chains this one has not used yet, by the chain's name.
    adopted: BTreeMap<Name, u32>,
    taken: BTreeSet<u32>,
}

impl ChainIds {
    /// The id of a target, if it has one.
    pub fn get(&self, target: DispatchTarget) -> Option<u32> {
        match target {
            DispatchTarget::Chain(chain) => self.chains.get(&chain).copied(),
            DispatchTarget::Drop => Some(PREFIX),
        }
    }

    /// Assigns an id to a chain that has none.
    pub fn assign(&mut self, chain: PoolChain) {
        if !self.chains.contains_key(&chain) {
            let adopted = self.adopted.remove(&chain.name());
            if let Some(id) = adopted.or_else(|| self.first_free()) {
                self.taken.insert(id);
                self.chains.insert(chain, id);
            }
        }
    }

    fn first_free(&self) -> Option<u32> {
        (1..=MAX_ID).map(|number| PREFIX | number).find(|id| !self.taken.contains(id))
    }

    /// The elements of `dispatch` that lead to these chains, in use or not.
    pub fn elements_to(&self, names: &[Name]) -> Vec<Element> {
        let in_use = self.chains.iter().map(|(chain, id)| (chain.name(), *id));
        let adopted = self.adopted.iter().map(|(name, id)| (name.clone(), *id));
        let wanted = in_use.chain(adopted).filter(|(name, _)| names.contains(name));
        wanted.map(|(name, id)| element(id, Verdict::Goto(name))).collect()
    }

    /// Takes over an element of `dispatch` that an earlier run left.
    pub fn adopt(&mut self, element: &Element) {
        if let (Some(chain), Some(id)) = (goto_target(element), id_in(element))
            && self.taken.insert(id)
        {
            self.adopted.insert(chain.clone(), id);
        }
    }

    /// The element of `dispatch` for a target that has an id.
    pub fn element(&self, target: DispatchTarget) -> Option<Element> {
        let verdict = match target {
            DispatchTarget::Chain(chain) => Verdict::Goto(chain.name()),
            DispatchTarget::Drop => Verdict::Drop,
        };
        Some(element(self.get(target)?, verdict))
    }
}

fn element(id: u32, verdict: Verdict) -> Element {
    keys::element(SetName::Dispatch.name(), keys::number(id), Some(Value::Verdict(verdict)))
}

/// The chain that an element of `dispatch` leads to.
pub fn goto_target(element: &Element) -> Option<&Name> {
    match &element.value {
        Some(Value::Verdict(Verdict::Goto(chain))) => Some(chain),
        _ => None,
    }
}

/// The id that an element of `dispatch` is for, unless another program put it there.
fn id_in(element: &Element) -> Option<u32> {
    let id = element.key.as_slice().try_into().ok().map(u32::from_ne_bytes)?;
    (id > PREFIX && id <= PREFIX | MAX_ID).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nftables::names::{Entry, Table};
    use ferrule_plan::Masquerade;

    fn chain(size: u32) -> PoolChain {
        let entry = Entry { table: Table::Address, masquerade: Masquerade::AsClusterIps };
        PoolChain::Enter { entry, size }
    }

    #[test]
    fn a_chain_keeps_its_id_over_a_restart_and_no_other_gets_it() {
        let mut before = ChainIds::default();
        for size in [3, 1, 2] {
            before.assign(chain(size));
        }
        let mut after = ChainIds::default();
        for size in [1, 2] {
            after.adopt(&before.element(DispatchTarget::Chain(chain(size))).expect("an id"));
        }
        for size in [9, 2, 1] {
            after.assign(chain(size));
        }
        for size in [1, 2] {
            let target = DispatchTarget::Chain(chain(size));
            assert_eq!(after.get(target), before.get(target));
        }
        assert_eq!(after.get(DispatchTarget::Chain(chain(9))), Some(PREFIX | 1), "the first free one");
    }

    #[test]
    fn elements_of_other_programs_are_not_adopted() {
        let mut ids = ChainIds::default();
        for number in [0, PREFIX, 0x8000_0001] {
            ids.adopt(&element(number, Verdict::Goto(Name::new("cluster-1"))));
        }
        ids.assign(chain(1));
        assert_eq!(ids.get(DispatchTarget::Chain(chain(1))), Some(PREFIX | 1));
    }
}
