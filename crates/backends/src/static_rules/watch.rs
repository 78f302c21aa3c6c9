//! Which changes of nf_tables are changes of such rules.
//!
//! Other programs change the same tables all the time. Rules of our chains count, and a jump of ours that is gone; whether it is
//! gone is read before the loop is bothered.

use std::collections::BTreeSet;

use ferrule_kernel::nft::{Name, NftChange, NftNotification};
use ferrule_kernel::port::XTables;
use ferrule_model::IpFamily;

use super::{Jump, canonical};
use crate::family::ip_family;
use crate::foreign_commits::{ForeignCommit, Interpreter, done, shortened};
use crate::{Drift, RuleEvent};

/// A table and a chain of it.
pub(crate) type ChainAt = (&'static str, &'static str);

/// Watches the chains of one mode.
pub(crate) struct StaticWatch<K> {
    pub families: Vec<WatchedTables<K>>,
    /// Our chains, by table.
    pub chains: BTreeSet<ChainAt>,
    pub jumps: &'static [Jump],
}

/// One family's tables.
pub(crate) struct WatchedTables<K> {
    pub family: IpFamily,
    /// Reads the chains that jump to ours.
    pub reader: K,
}

impl<K: XTables + Send + 'static> Interpreter for StaticWatch<K> {
    /// Rules may have been changed since they were written.
    fn on_start(&mut self) -> Vec<RuleEvent> {
        self.verify_all()
    }

    fn on_commit(&mut self, commit: &ForeignCommit) -> Vec<RuleEvent> {
        let Self { families, chains, jumps } = self;
        let drift = |watched: &mut WatchedTables<K>| watched.drift(commit, chains, jumps);
        families.iter_mut().filter_map(drift).collect()
    }

    fn on_gap(&mut self, _: Option<&str>) -> Vec<RuleEvent> {
        self.verify_all()
    }
}

impl<K> StaticWatch<K> {
    fn verify_all(&self) -> Vec<RuleEvent> {
        self.families.iter().map(|watched| RuleEvent::Verify(Some(watched.family))).collect()
    }
}

/// What a commit touched in one family.
#[derive(Debug, Default)]
struct TouchedRules {
    what: Vec<String>,
    /// Chains that jump to ours and lost rules.
    entries: BTreeSet<(&'static str, &'static str)>,
    /// Tables in which a chain may have got another name.
    renamed: BTreeSet<&'static str>,
}

impl TouchedRules {
    fn add(&mut self, change: &NftNotification, chains: &BTreeSet<ChainAt>, jumps: &[Jump]) {
        let Some(name) = change.table.as_ref().map(Name::as_str) else { return };
        let Some((table, _)) = chains.iter().find(|(table, _)| *table == name) else { return };
        let is_ours = |chain: &Name| chains.iter().any(|ours| *ours == (*table, chain.as_str()));
        match &change.change {
            NftChange::Table => self.what.push(format!("table {table} {}", done(change))),
            NftChange::Chain(chain) | NftChange::ExistingChain(chain) if is_ours(chain) => {
                self.what.push(format!("chain {chain} {}", done(change)));
            }
            NftChange::Rule(chain) if is_ours(chain) => {
                self.what.push(format!("rule of {chain} {}", done(change)));
            }
            NftChange::Rule(chain) if change.removed => {
                let leads_here = |jump: &&Jump| (jump.table, jump.from) == (*table, chain.as_str());
                self.entries.extend(jumps.iter().filter(leads_here).map(|jump| (jump.table, jump.from)));
            }
            NftChange::ExistingChain(_) => drop(self.renamed.insert(table)),
            NftChange::Chain(_)
            | NftChange::Rule(_)
            | NftChange::Set(_)
            | NftChange::Elements(_)
            | NftChange::Other
            | NftChange::Generation { .. } => {}
        }
    }
}

impl<K: XTables> WatchedTables<K> {
    fn drift(
        &mut self,
        commit: &ForeignCommit,
        chains: &BTreeSet<ChainAt>,
        jumps: &[Jump],
    ) -> Option<RuleEvent> {
        let family = self.family;
        let of_family = |change: &&NftNotification| change.family.map(ip_family) == Some(family);
        let mut touched = TouchedRules::default();
        for change in commit.changes.iter().filter(of_family) {
            touched.add(change, chains, jumps);
        }
        let TouchedRules { mut what, entries, renamed } = touched;
        for (table, from) in entries {
            if self.lost_a_jump(table, from, jumps) {
                what.push(format!("jump of {from} removed"));
            }
        }
        for (table, chain) in chains.iter().filter(|(table, _)| renamed.contains(table)) {
            if !matches!(self.reader.chain_rules(table, chain), Ok(Some(_))) {
                what.push(format!("chain {chain} renamed"));
            }
        }
        let by = commit.by.clone();
        (!what.is_empty()).then(|| RuleEvent::Drift(Drift { family, what: shortened(what), by }))
    }

    /// Whether a jump of ours is not there, as far as it can be known.
    fn lost_a_jump(&mut self, table: &str, from: &str, jumps: &[Jump]) -> bool {
        let Ok(Some(rules)) = self.reader.chain_rules(table, from) else { return true };
        let rules = canonical(&rules);
        let mut wanted = jumps.iter().filter(|jump| (jump.table, jump.from) == (table, from));
        wanted.any(|jump| !jump.is_in(&rules))
    }
}
