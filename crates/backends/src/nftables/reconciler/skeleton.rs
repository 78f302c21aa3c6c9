//! The table without its elements: what is there, and how it differs from what a program wants.
//!
//! Elements are flushed and written anew by every rewrite, so none can survive one. Everything here the kernel keeps where an
//! object is written again: policies, flags, sizes, timeouts, and whatever another program added.

use std::collections::{BTreeMap, BTreeSet};

use ferrule_kernel::kernel::NftTables;
use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::nft::{Chain, Name, OtherObject, Seen, Set};

use crate::nftables::names::PoolChain;
use crate::nftables::program::Program;

/// The sets, chains and other objects of a table.
pub(super) struct Skeleton {
    sets: BTreeMap<Name, Option<Set>>,
    chains: BTreeMap<Name, Option<Chain>>,
    others: Vec<OtherObject>,
}

/// Objects that a program does not want.
pub(super) struct Strays {
    /// Chains of pool sizes that packets of a moment ago may still be sent to.
    pub pool_chains: Vec<Name>,
    /// All other chains.
    pub chains: Vec<Name>,
    /// Sets and maps.
    pub sets: Vec<Name>,
    /// Flowtables, named counters and so on.
    pub others: Vec<OtherObject>,
}

impl Skeleton {
    /// Reads it. That takes as long with ten Services as with ten thousand.
    pub(super) fn read(kernel: &mut impl NftTables) -> Result<Self, NetlinkError> {
        Ok(Self {
            sets: by_name(kernel.sets()?),
            chains: by_name(kernel.chains()?),
            others: kernel.other_objects()?,
        })
    }

    /// Whether the sets that are there under names of ours can stay: the kernel does not change a set that is there.
    pub(super) fn can_keep_sets(&self, program: &Program) -> bool {
        let is_kept = |set: &Set| self.sets.get(&set.name).is_none_or(|seen| seen.as_ref() == Some(set));
        program.sets().iter().all(is_kept)
    }

    /// The chains of pool sizes that are wanted and not there.
    pub(super) fn missing_pool_chains(&self, program: &Program) -> Vec<Chain> {
        let is_missing = |chain: &Chain| {
            PoolChain::from_name(&chain.name).is_some() && !self.chains.contains_key(&chain.name)
        };
        program.chains().into_iter().filter(is_missing).collect()
    }

    /// What the program does not want. A set that belongs to a rule, which nft calls `__map0` or the like, goes with it.
    pub(super) fn strays(&self, program: &Program) -> Strays {
        let wanted: BTreeSet<Name> = program.chains().into_iter().map(|chain| chain.name).collect();
        let unwanted = self.chains.iter().filter(|(name, _)| !wanted.contains(*name));
        let is_for_pool = |(name, chain): &(&Name, &Option<Chain>)| {
            PoolChain::from_name(name).is_some() && chain.as_ref().is_some_and(|chain| chain.hook.is_none())
        };
        let (pool_chains, chains): (Vec<_>, Vec<_>) = unwanted.partition(is_for_pool);
        let names =
            |chains: Vec<(&Name, &Option<Chain>)>| chains.into_iter().map(|(name, _)| name.clone()).collect();
        let wanted: BTreeSet<Name> = program.sets().into_iter().map(|set| set.name).collect();
        let is_stray = |name: &&Name| !wanted.contains(*name) && !name.as_str().starts_with("__");
        Strays {
            pool_chains: names(pool_chains),
            chains: names(chains),
            sets: self.sets.keys().filter(is_stray).cloned().collect(),
            others: self.others.clone(),
        }
    }

    /// The first thing that is not as the program wants it, in words; chains that are still to go do not count.
    pub(super) fn difference(&self, program: &Program, still_to_go: &[Name]) -> Option<String> {
        let wrong_set =
            program.sets().into_iter().find(|set| self.sets.get(&set.name) != Some(&Some(set.clone())));
        let wrong_chain = program
            .chains()
            .into_iter()
            .find(|chain| self.chains.get(&chain.name) != Some(&Some(chain.clone())));
        let strays = self.strays(program);
        let stray_set = strays.sets.iter().find(|name| !self.is_spare_set(name, program));
        let mut stray_chains = strays.chains.iter().chain(&strays.pool_chains);
        let stray_chain =
            stray_chains.find(|name| !still_to_go.contains(name) && !self.is_spare_chain(name, program));
        wrong_set
            .map(|set| format!("set {} is not as written", set.name))
            .or_else(|| wrong_chain.map(|chain| format!("chain {} is not as written", chain.name)))
            .or_else(|| stray_set.map(|name| format!("set {name} is not ours")))
            .or_else(|| stray_chain.map(|name| format!("chain {name} is not ours")))
            .or_else(|| strays.others.first().map(|object| format!("{object} is not ours")))
    }

    /// Sets of source ranges that went out of use and stay.
    pub(super) fn spare_sets(&self, program: &Program) -> Vec<Name> {
        self.strays(program).sets
    }

    fn is_spare_set(&self, name: &Name, program: &Program) -> bool {
        let wanted = program.source_ranges_set(name);
        wanted.is_some() && self.sets.get(name) == Some(&wanted)
    }

    /// Chains of pool sizes that went out of use stay, as they were written.
    fn is_spare_chain(&self, name: &Name, program: &Program) -> bool {
        let wanted = program.pool_chain(name);
        wanted.is_some() && self.chains.get(name) == Some(&wanted)
    }
}

fn by_name<T>(seen: Vec<Seen<T>>) -> BTreeMap<Name, Option<T>> {
    seen.into_iter().map(|seen| (seen.name, seen.object)).collect()
}
