//! Numbers for the ways that packets to a frontend may go: into a chain of a pool size, or nowhere.
//!
//! A frontend's element holds a number, and one small map says where each leads. Whenever a jump is added the kernel checks all
//! jumps there are; were they in the elements, every change would cost more the more Services there are. A number stays with
//! its chain while that is there, also over a restart.

use std::collections::{BTreeMap, BTreeSet};

use ferrule_kernel::nft::{Element, Name, Value, Verdict};

use super::keys;
use super::names::{PoolChain, SetName};

/// Numbers go through the packet's priority, and are set back with everything that begins like this.
const MARK: u32 = 0x7000_0000;
const MOST: u32 = 0x0fff_ffff;

/// What becomes of packets to a frontend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// They go on in this chain.
    Chain(PoolChain),
    /// They are dropped.
    Drop,
}

/// The numbers given so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WayNumbers {
    chains: BTreeMap<PoolChain, u32>,
    /// Those that a former run gave, by the chain's name.
    former: BTreeMap<Name, u32>,
    taken: BTreeSet<u32>,
}

impl WayNumbers {
    /// The number of an outcome, if it has one.
    pub fn of(&self, outcome: Outcome) -> Option<u32> {
        match outcome {
            Outcome::Chain(chain) => self.chains.get(&chain).copied(),
            Outcome::Drop => Some(MARK),
        }
    }

    /// Gives a chain a number, unless it has one.
    pub fn assign(&mut self, chain: PoolChain) {
        if !self.chains.contains_key(&chain) {
            let former = self.former.remove(&chain.name());
            if let Some(number) = former.or_else(|| self.free()) {
                self.taken.insert(number);
                self.chains.insert(chain, number);
            }
        }
    }

    /// The first that nobody has.
    fn free(&self) -> Option<u32> {
        (1..=MOST).map(|number| MARK | number).find(|number| !self.taken.contains(number))
    }

    /// The elements that lead to some chains, in use or not.
    pub fn elements_to(&self, names: &[Name]) -> Vec<Element> {
        let numbered = self.chains.iter().map(|(chain, number)| (chain.name(), *number));
        let former = self.former.iter().map(|(name, number)| (name.clone(), *number));
        let wanted = numbered.chain(former).filter(|(name, _)| names.contains(name));
        wanted.map(|(name, number)| element(number, Verdict::Goto(name))).collect()
    }

    /// Takes over what a former run left.
    pub fn adopt(&mut self, element: &Element) {
        if let (Some(chain), Some(number)) = (chain_in(element), number_in(element))
            && self.taken.insert(number)
        {
            self.former.insert(chain.clone(), number);
        }
    }

    /// The element that says what a number stands for, if there is one.
    pub fn element(&self, outcome: Outcome) -> Option<Element> {
        let verdict = match outcome {
            Outcome::Chain(chain) => Verdict::Goto(chain.name()),
            Outcome::Drop => Verdict::Drop,
        };
        Some(element(self.of(outcome)?, verdict))
    }
}

fn element(number: u32, verdict: Verdict) -> Element {
    keys::element(SetName::Ways.name(), keys::number(number), Some(Value::Verdict(verdict)))
}

/// The chain that an element of the ways leads to.
pub fn chain_in(element: &Element) -> Option<&Name> {
    match &element.value {
        Some(Value::Verdict(Verdict::Goto(chain))) => Some(chain),
        _ => None,
    }
}

fn number_in(element: &Element) -> Option<u32> {
    let number = element.key.as_slice().try_into().ok().map(u32::from_ne_bytes)?;
    (number > MARK && number <= MARK | MOST).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nftables::names::Entry;

    fn chain(size: u32) -> PoolChain {
        PoolChain::Enter { entry: Entry::Cluster, size }
    }

    #[test]
    fn a_chain_keeps_its_number_over_a_restart_and_nobody_else_gets_it() {
        let mut before = WayNumbers::default();
        for size in [3, 1, 2] {
            before.assign(chain(size));
        }
        let mut after = WayNumbers::default();
        for size in [1, 2] {
            after.adopt(&before.element(Outcome::Chain(chain(size))).expect("a number"));
        }
        for size in [9, 2, 1] {
            after.assign(chain(size));
        }
        for size in [1, 2] {
            assert_eq!(after.of(Outcome::Chain(chain(size))), before.of(Outcome::Chain(chain(size))));
        }
        assert_eq!(after.of(Outcome::Chain(chain(9))), Some(MARK | 1), "the first free one");
    }

    #[test]
    fn what_somebody_else_put_there_is_no_number_of_ours() {
        let mut numbers = WayNumbers::default();
        for number in [0, MARK, 0x8000_0001] {
            numbers.adopt(&element(number, Verdict::Goto(Name::new("cluster-1"))));
        }
        numbers.assign(chain(1));
        assert_eq!(numbers.of(Outcome::Chain(chain(1))), Some(MARK | 1));
    }
}
