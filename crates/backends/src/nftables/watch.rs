//! Which changes of nf_tables are changes of our table.
//!
//! A foreign change is not inspected but overwritten. What happened before watching began shows in the generation, so it begins with
//! a verification.

use ferrule_kernel::nft::{self, NftChange, NftNotification};
use ferrule_model::IpFamily;

use crate::family::ip_family;
use crate::foreign_commits::{ForeignCommit, Interpreter, done, shortened};
use crate::{Drift, RuleEvent};

/// Reports changes of our table.
pub(super) struct OurTable;

impl Interpreter for OurTable {
    fn on_start(&mut self) -> Vec<RuleEvent> {
        vec![RuleEvent::Verify(None)]
    }

    fn on_commit(&mut self, commit: &ForeignCommit) -> Vec<RuleEvent> {
        let of_family = |family| {
            let changes = commit.changes.iter().filter(|change| is_ours(change, family));
            let what: Vec<String> = changes.map(described).collect();
            (!what.is_empty())
                .then(|| RuleEvent::Drift(Drift { family, what: shortened(what), by: commit.by.clone() }))
        };
        IpFamily::BOTH.into_iter().filter_map(of_family).collect()
    }

    fn on_gap(&mut self, _: Option<&str>) -> Vec<RuleEvent> {
        vec![RuleEvent::Verify(None)]
    }
}

fn is_ours(change: &NftNotification, family: IpFamily) -> bool {
    let is_family = change.family.map(ip_family) == Some(family);
    is_family && change.table.as_ref().is_some_and(|table| table.as_str() == nft::TABLE)
}

fn described(event: &NftNotification) -> String {
    let done = done(event);
    match &event.change {
        NftChange::Table => format!("table {done}"),
        NftChange::Set(name) => format!("set {name} {done}"),
        NftChange::Elements(set) => format!("elements of {set} {done}"),
        NftChange::Chain(name) | NftChange::ExistingChain(name) => format!("chain {name} {done}"),
        NftChange::Rule(chain) => format!("rule of {chain} {done}"),
        NftChange::Other | NftChange::Generation { .. } => format!("something {done}"),
    }
}

#[cfg(test)]
mod tests {
    use ferrule_kernel::nft::{Family, Name};

    use super::*;

    fn event(table: &str, change: NftChange) -> NftNotification {
        let table = Some(Name::new(table));
        NftNotification { family: Some(Family::Ip), table, portid: 9, removed: true, change }
    }

    #[test]
    fn a_commit_of_another_program_is_reported_once_with_its_name() {
        let element = event(nft::TABLE, NftChange::Elements(Name::new("services")));
        let chain = event(nft::TABLE, NftChange::Chain(Name::new("pool-1")));
        let by = Some("nft (process 42)".to_owned());
        let commit = ForeignCommit { changes: vec![element.clone(), element, chain], by: by.clone() };
        let what = "elements of services removed, chain pool-1 removed".to_owned();
        assert_eq!(OurTable.on_commit(&commit), [RuleEvent::Drift(Drift { family: IpFamily::V4, what, by })]);
    }

    #[test]
    fn other_tables_are_nothing_to_us() {
        let commit = ForeignCommit { changes: vec![event("firewall", NftChange::Table)], by: None };
        assert_eq!(OurTable.on_commit(&commit), []);
    }
}
