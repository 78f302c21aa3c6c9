//! The table without its elements: what is there, and how it differs from a rule set.
//!
//! A rewrite flushes all elements, so none can survive it. Of everything else the kernel keeps parts when an object is written
//! again: policies, flags, sizes, timeouts, and objects that another program added.

use std::collections::{BTreeMap, BTreeSet};

use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::nft::{Chain, Name, OtherObject, Seen, Set, Transaction};
use ferrule_kernel::port::NftTables;

use super::Lingering;
use super::rewrite::remove_strays;
use crate::nftables::names::{LAYOUT_3_DISPATCH, PoolChain};
use crate::nftables::rule_set::RuleSet;

/// The sets, chains and other objects of a table.
pub(super) struct Skeleton {
    sets: BTreeMap<Name, Option<Set>>,
    chains: BTreeMap<Name, Option<Chain>>,
    others: Vec<OtherObject>,
}

/// Objects that a rule set does not have.
pub(super) struct Strays {
    /// Chains of pool sizes that packets under way may still be sent to.
    pub pool_chains: Vec<Name>,
    /// All other chains.
    pub chains: Vec<Name>,
    /// Maps of an older layout that packets under way may still look up.
    pub older_maps: Vec<Name>,
    /// All other sets and maps.
    pub sets: Vec<Name>,
    /// Flowtables, named counters and so on.
    pub others: Vec<OtherObject>,
}

/// Objects to write, and objects to remove.
pub(super) struct Corrections {
    sets: Vec<Set>,
    chains: Vec<Chain>,
    strays: Strays,
}

/// A set or chain that is not as it should be.
pub(super) enum Piece {
    Missing(String),
    Differing(String),
}

fn piece<T: PartialEq>(seen: Option<&Option<T>>, wanted: &T, what: String) -> Option<Piece> {
    match seen {
        None => Some(Piece::Missing(what)),
        Some(Some(seen)) if seen == wanted => None,
        Some(_) => Some(Piece::Differing(what)),
    }
}

impl Corrections {
    pub(super) fn write_to(self, transaction: &mut Transaction) {
        for set in self.sets {
            transaction.add_set(set);
        }
        for chain in self.chains {
            transaction.refill_chain(chain);
        }
        remove_strays(transaction, &self.strays);
    }
}

impl Skeleton {
    /// Takes as long with ten Services as with ten thousand.
    pub(super) fn read(kernel: &mut impl NftTables) -> Result<Self, NetlinkError> {
        Ok(Self {
            sets: by_name(kernel.sets()?),
            chains: by_name(kernel.chains()?),
            others: kernel.other_objects()?,
        })
    }

    /// Whether the sets that have our names can stay: the kernel does not change a set that exists.
    pub(super) fn can_keep_sets(&self, rule_set: &RuleSet) -> bool {
        let is_kept = |set: &Set| self.sets.get(&set.name).is_none_or(|seen| seen.as_ref() == Some(set));
        rule_set.sets().iter().all(is_kept)
    }

    /// The chains of pool sizes that do not exist yet.
    pub(super) fn missing_pool_chains(&self, rule_set: &RuleSet) -> Vec<Chain> {
        let is_missing = |chain: &Chain| {
            PoolChain::from_name(&chain.name).is_some() && !self.chains.contains_key(&chain.name)
        };
        rule_set.chains().into_iter().filter(is_missing).collect()
    }

    /// Objects that the rule set does not have. An anonymous set, which nft calls `__map0` or the like, goes with its rule.
    pub(super) fn strays(&self, rule_set: &RuleSet) -> Strays {
        let wanted: BTreeSet<Name> = rule_set.chains().into_iter().map(|chain| chain.name).collect();
        let unwanted = self.chains.iter().filter(|(name, _)| !wanted.contains(*name));
        let is_for_pool = |(name, chain): &(&Name, &Option<Chain>)| {
            PoolChain::from_name(name).is_some() && chain.as_ref().is_some_and(|chain| chain.hook.is_none())
        };
        let (pool_chains, chains): (Vec<_>, Vec<_>) = unwanted.partition(is_for_pool);
        let names =
            |chains: Vec<(&Name, &Option<Chain>)>| chains.into_iter().map(|(name, _)| name.clone()).collect();
        let wanted: BTreeSet<Name> = rule_set.sets().into_iter().map(|set| set.name).collect();
        let is_stray = |name: &&Name| !wanted.contains(*name) && !name.as_str().starts_with("__");
        let strays = self.sets.keys().filter(is_stray).cloned();
        let (older_maps, sets) = strays.partition(|name| name.as_str() == LAYOUT_3_DISPATCH);
        Strays {
            pool_chains: names(pool_chains),
            chains: names(chains),
            older_maps,
            sets,
            others: self.others.clone(),
        }
    }

    /// The first difference, in words. What is still to be removed does not count.
    pub(super) fn difference(&self, rule_set: &RuleSet, lingering: &Lingering) -> Option<String> {
        let wrong_set =
            rule_set.sets().into_iter().find(|set| self.sets.get(&set.name) != Some(&Some(set.clone())));
        let wrong_chain = rule_set
            .chains()
            .into_iter()
            .find(|chain| self.chains.get(&chain.name) != Some(&Some(chain.clone())));
        let strays = self.strays(rule_set);
        let mut stray_sets = strays.sets.iter().chain(&strays.older_maps);
        let stray_set =
            stray_sets.find(|name| !lingering.sets.contains(name) && !self.is_spare_set(name, rule_set));
        let mut stray_chains = strays.chains.iter().chain(&strays.pool_chains);
        let stray_chain = stray_chains
            .find(|name| !lingering.chains.contains(name) && !self.is_spare_chain(name, rule_set));
        wrong_set
            .map(|set| format!("set {} is not as written", set.name))
            .or_else(|| wrong_chain.map(|chain| format!("chain {} is not as written", chain.name)))
            .or_else(|| stray_set.map(|name| format!("set {name} is not ours")))
            .or_else(|| stray_chain.map(|name| format!("chain {name} is not ours")))
            .or_else(|| strays.others.first().map(|object| format!("{object} is not ours")))
    }

    /// What has to be written and removed to get the rule set.
    pub(super) fn corrections(&self, rule_set: &RuleSet) -> Corrections {
        let mut strays = self.strays(rule_set);
        strays.sets.append(&mut strays.older_maps);
        strays.sets.retain(|name| !self.is_spare_set(name, rule_set));
        strays.chains.append(&mut strays.pool_chains);
        strays.chains.retain(|name| !self.is_spare_chain(name, rule_set));
        let is_wrong_set = |set: &Set| self.sets.get(&set.name) != Some(&Some(set.clone()));
        let is_wrong_chain = |chain: &Chain| self.chains.get(&chain.name) != Some(&Some(chain.clone()));
        Corrections {
            sets: rule_set.sets().into_iter().filter(is_wrong_set).collect(),
            chains: rule_set.chains().into_iter().filter(is_wrong_chain).collect(),
            strays,
        }
    }

    /// Sets and chains of a rule set that are not in the table as they should be.
    pub(super) fn wrong_pieces(&self, rule_set: &RuleSet) -> Vec<Piece> {
        let sets = rule_set.sets().into_iter().filter_map(|set| {
            let what = format!("set {}", set.name);
            piece(self.sets.get(&set.name), &set, what)
        });
        let chains = rule_set.chains().into_iter().filter_map(|chain| {
            let what = format!("chain {}", chain.name);
            piece(self.chains.get(&chain.name), &chain, what)
        });
        sets.chain(chains).collect()
    }

    /// Sets of source ranges that went out of use and stay.
    pub(super) fn spare_sets(&self, rule_set: &RuleSet) -> Vec<Name> {
        let Strays { sets, older_maps, .. } = self.strays(rule_set);
        sets.into_iter().chain(older_maps).collect()
    }

    fn is_spare_set(&self, name: &Name, rule_set: &RuleSet) -> bool {
        let wanted = rule_set.source_ranges_set(name);
        wanted.is_some() && self.sets.get(name) == Some(&wanted)
    }

    /// Chains of pool sizes that went out of use stay, as they were written.
    fn is_spare_chain(&self, name: &Name, rule_set: &RuleSet) -> bool {
        let wanted = rule_set.pool_chain(name);
        wanted.is_some() && self.chains.get(name) == Some(&wanted)
    }
}

fn by_name<T>(seen: Vec<Seen<T>>) -> BTreeMap<Name, Option<T>> {
    seen.into_iter().map(|seen| (seen.name, seen.object)).collect()
}
