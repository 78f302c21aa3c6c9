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

/// Watches the chains of one mode.
pub(crate) struct StaticWatch<K> {
    pub families: Vec<WatchedTables<K>>,
    /// Our chains, by table.
    pub chains: BTreeSet<(&'static str, &'static str)>,
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

    fn on_gap(&mut self) -> Vec<RuleEvent> {
        self.verify_all()
    }
}

impl<K> StaticWatch<K> {
    fn verify_all(&self) -> Vec<RuleEvent> {
        self.families.iter().map(|watched| RuleEvent::Verify(Some(watched.family))).collect()
    }
}

impl<K: XTables> WatchedTables<K> {
    fn drift(
        &mut self,
        commit: &ForeignCommit,
        chains: &BTreeSet<(&'static str, &'static str)>,
        jumps: &[Jump],
    ) -> Option<RuleEvent> {
        let family = self.family;
        let of_family = |change: &&NftNotification| change.family.map(ip_family) == Some(family);
        let (mut what, mut entries) = (Vec::new(), BTreeSet::new());
        for change in commit.changes.iter().filter(of_family) {
            let Some(table) = change.table.as_ref().map(Name::as_str) else { continue };
            match &change.change {
                NftChange::Table if chains.iter().any(|(of, _)| *of == table) => {
                    what.push(format!("table {table} {}", done(change)));
                }
                NftChange::Chain(chain) | NftChange::Rule(chain)
                    if chains.iter().any(|ours| *ours == (table, chain.as_str())) =>
                {
                    what.push(format!("chain {chain} {}", done(change)));
                }
                NftChange::Rule(chain) if change.removed => {
                    entries.extend(
                        jumps
                            .iter()
                            .filter(|jump| (jump.table, jump.from) == (table, chain.as_str()))
                            .map(|jump| (jump.table, jump.from)),
                    );
                }
                NftChange::Table
                | NftChange::Chain(_)
                | NftChange::Rule(_)
                | NftChange::Set(_)
                | NftChange::Elements(_)
                | NftChange::Other
                | NftChange::Generation { .. } => {}
            }
        }
        for (table, from) in entries {
            if self.lost_a_jump(table, from, jumps) {
                what.push(format!("jump of {from} removed"));
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
