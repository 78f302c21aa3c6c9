//! Which changes of nf_tables are changes of our rules, where the kernel announces them.
//!
//! The tables are shared with other programs, so only chains of ours count, and rules removed from the chains that jump to ours.
//! CNI plugins do that all the time: whether a jump of ours is gone is read before the loop is bothered.

use std::collections::BTreeSet;
use std::sync::Arc;

use ferrule_kernel::iptables::RuleText;
use ferrule_kernel::nft::{Name, NftChange, NftNotification};
use ferrule_kernel::port::XTables;
use ferrule_model::IpFamily;

use super::base::{Table, jumps};
use super::known::KnownRules;
use super::leftovers::Whose;
use super::names::FIREWALL;
use super::observed::has_jump;
use super::suspected::{Suspected, TableChain};
use crate::family::ip_family;
use crate::foreign_commits::{ForeignCommit, Interpreter, done, shortened};
use crate::{Drift, RuleEvent};

/// Reports changes of our chains, and jumps to them that are gone.
pub(super) struct OurChains<K> {
    pub families: Vec<WatchedFamily<K>>,
}

/// What was changed, if notifications were lost.
const TOO_MUCH: &str = "more than the kernel could announce";

/// What is needed to judge changes of one family's rules.
pub(super) struct WatchedFamily<K> {
    pub family: IpFamily,
    pub suspected: Arc<Suspected>,
    pub known: Arc<KnownRules>,
    /// Reads the chains that jump to ours.
    pub reader: K,
}

/// What a commit touched in one family.
#[derive(Debug, Default, PartialEq, Eq)]
struct Touched {
    everything: bool,
    chains: BTreeSet<TableChain>,
    /// Chains that jump to ours and lost rules.
    entries: BTreeSet<TableChain>,
    /// Tables in which a chain that is not ours may have been one of ours before.
    renamed_in: BTreeSet<Table>,
    what: Vec<String>,
}

impl<K: XTables + Send + 'static> Interpreter for OurChains<K> {
    /// Rules may have been changed since they were written. A verification on the loop would delay changes: the one in the
    /// background begins with this.
    fn on_start(&mut self) -> Vec<RuleEvent> {
        for watched in &self.families {
            watched.suspected.begin();
        }
        Vec::new()
    }

    fn on_commit(&mut self, commit: &ForeignCommit) -> Vec<RuleEvent> {
        let by = commit.by.as_ref();
        self.families.iter_mut().filter_map(|watched| watched.drift(commit, by)).collect()
    }

    fn on_gap(&mut self, by: Option<&str>) -> Vec<RuleEvent> {
        let event = |watched: &WatchedFamily<K>| {
            // A repair that comes first must not stop at the chains that were announced.
            watched.suspected.add_everything();
            let family = watched.family;
            match by {
                Some(by) => RuleEvent::Drift(Drift { family, what: TOO_MUCH.into(), by: Some(by.into()) }),
                None => RuleEvent::Verify(Some(family)),
            }
        };
        self.families.iter().map(event).collect()
    }
}

impl<K: XTables> WatchedFamily<K> {
    fn drift(&mut self, commit: &ForeignCommit, by: Option<&String>) -> Option<RuleEvent> {
        let family = self.family;
        let of_family = |change: &&NftNotification| change.family.map(ip_family) == Some(family);
        let mut touched = Touched::default();
        commit.changes.iter().filter(of_family).for_each(|change| touched.add(change));
        let entries = std::mem::take(&mut touched.entries);
        for entry in entries.into_iter().filter(|entry| self.lost_a_jump(entry)) {
            touched.what.push(format!("jump of {} removed", entry.chain));
            touched.chains.insert(entry);
        }
        for table in std::mem::take(&mut touched.renamed_in) {
            self.add_renamed(table, &mut touched);
        }
        if touched.everything {
            self.suspected.add_everything();
        } else if touched.chains.is_empty() {
            return None;
        } else {
            self.suspected.add(touched.chains);
        }
        Some(RuleEvent::Drift(Drift { family, what: shortened(touched.what), by: by.cloned() }))
    }

    /// Adds the chains of ours that a table lacks. A renamed chain is announced under its new name alone.
    fn add_renamed(&mut self, table: Table, touched: &mut Touched) {
        let names = self.reader.chain_names(table.name()).ok().flatten();
        let Some(missing) = names.and_then(|names| self.known.missing_chains(table, &names)) else {
            touched.everything = true;
            return;
        };
        for chain in missing {
            touched.what.push(format!("chain {chain} renamed"));
            touched.chains.insert(TableChain { table, chain });
        }
    }

    /// Whether a jump of ours is not there, as far as it can be known.
    fn lost_a_jump(&mut self, TableChain { table, chain }: &TableChain) -> bool {
        let Ok(Some(rules)) = self.reader.chain_rules(table.name(), chain) else { return true };
        let rules: Vec<&str> = rules.iter().map(RuleText::as_str).collect();
        let guard = self.known.loopback_guard();
        let mut wanted = jumps(guard).filter(|jump| (jump.table, jump.from) == (*table, chain.as_str()));
        wanted.any(|jump| !has_jump(&rules, jump))
    }
}

impl Touched {
    fn add(&mut self, change: &NftNotification) {
        let name = change.table.as_ref().map(Name::as_str);
        let Some(table) = Table::ALL.into_iter().find(|table| Some(table.name()) == name) else { return };
        let chain = match &change.change {
            // A table that is not removed was created, or switched off or on.
            NftChange::Table => {
                self.everything = true;
                self.what.push(format!("table {} {}", table.name(), done(change)));
                return;
            }
            NftChange::Chain(chain) | NftChange::ExistingChain(chain) | NftChange::Rule(chain) => {
                chain.as_str()
            }
            NftChange::Set(_) | NftChange::Elements(_) | NftChange::Other | NftChange::Generation { .. } => {
                return;
            }
        };
        let named = TableChain { table, chain: chain.to_owned() };
        let is_rule = matches!(change.change, NftChange::Rule(_));
        if is_ours(table, chain) {
            let kind = if is_rule { "rule of" } else { "chain" };
            self.what.push(format!("{kind} {chain} {}", done(change)));
            self.chains.insert(named);
        } else if is_rule
            && change.removed
            && jumps(true).any(|jump| (jump.table, jump.from) == (table, chain))
        {
            self.entries.insert(named);
        } else if matches!(change.change, NftChange::ExistingChain(_)) {
            self.renamed_in.insert(table);
        }
    }
}

fn is_ours(table: Table, chain: &str) -> bool {
    Whose::Both.has(table.name(), chain) || (table, chain) == (Table::Filter, FIREWALL)
}

#[cfg(test)]
mod tests {
    use ferrule_kernel::nft::{Family, Name};

    use super::*;

    fn touched(changes: &[(&str, NftChange, bool)]) -> Touched {
        let mut touched = Touched::default();
        for (table, change, removed) in changes.iter().cloned() {
            let table = Some(Name::new(table));
            let family = Some(Family::Ip);
            touched.add(&NftNotification { family, table, portid: 9, removed, change });
        }
        touched
    }

    fn rule(chain: &str) -> NftChange {
        NftChange::Rule(Name::new(chain))
    }

    #[test]
    fn chains_of_ours_count_and_those_of_others_do_not() {
        let found = touched(&[
            ("nat", rule("KUBE-SVC-X"), false),
            ("nat", NftChange::Chain(Name::new("KUBE-SEP-X")), true),
            ("filter", rule("KUBE-ROUTER-INPUT"), true),
            ("nat", rule("CNI-HOSTPORT-DNAT"), true),
            ("kube-proxy", NftChange::Table, true),
        ]);
        let chains: Vec<&str> = found.chains.iter().map(|touched| touched.chain.as_str()).collect();
        assert_eq!(chains, ["KUBE-SEP-X", "KUBE-SVC-X"]);
        assert_eq!(found.what, ["rule of KUBE-SVC-X added or changed", "chain KUBE-SEP-X removed"]);
        assert!(!found.everything && found.entries.is_empty());
    }

    #[test]
    fn chains_that_jump_to_ours_count_where_they_lose_rules() {
        let found = touched(&[
            ("nat", rule("POSTROUTING"), false),
            ("nat", rule("PREROUTING"), true),
            ("mangle", rule("FORWARD"), true),
        ]);
        let entries: Vec<&str> = found.entries.iter().map(|touched| touched.chain.as_str()).collect();
        assert_eq!((entries, found.chains.len()), (vec!["PREROUTING"], 0));
    }

    #[test]
    fn a_chain_of_others_that_was_there_before_may_have_been_ours() {
        let existing = |name: &str| NftChange::ExistingChain(Name::new(name));
        assert_eq!(touched(&[("nat", existing("X"), false)]).renamed_in, [Table::Nat].into());
        assert!(touched(&[("nat", existing("KUBE-SVC-X"), false)]).renamed_in.is_empty(), "it is ours now");
        assert!(touched(&[("nat", NftChange::Chain(Name::new("X")), false)]).renamed_in.is_empty());
    }

    #[test]
    fn a_table_that_goes_takes_everything_along() {
        assert!(touched(&[("nat", NftChange::Table, true)]).everything);
        assert!(touched(&[("nat", NftChange::Table, false)]).everything, "it may have been switched off");
        assert_eq!(touched(&[("raw", NftChange::Table, true)]), Touched::default());
    }
}
