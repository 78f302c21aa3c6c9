//! Edits add up: a table changed step by step holds what a table written afresh would hold.

use std::collections::BTreeMap;

use ferrule_backends::nftables::{Edit, Elements, Program, StickyIds};
use ferrule_kernel::nft::{Element, KeyBytes, Name, Value, Verdict};
use ferrule_model::{Change, Cluster, IpFamily, Timestamp};
use ferrule_plan::{NodeView, Quirks, plan, replan};
use ferrule_testkit::random;
use proptest::prelude::*;

/// A table in memory that holds elements, and refuses what a kernel would refuse.
#[derive(Clone, Debug, Default, PartialEq)]
struct Table(BTreeMap<(Name, KeyBytes), Option<Value>>);

impl Table {
    fn of(elements: &Elements) -> Self {
        let mut table = Self::default();
        for element in elements.iter() {
            table.add(element);
        }
        table
    }

    fn add(&mut self, element: &Element) {
        let before = self.0.insert((element.set.clone(), element.key.clone()), element.value.clone());
        assert_eq!(before, None, "{element:?} is there already");
    }

    fn delete(&mut self, element: &Element) {
        let before = self.0.remove(&(element.set.clone(), element.key.clone()));
        assert_eq!(before.as_ref(), Some(&element.value), "{element:?} is not there");
    }

    /// One commit, and the later one that takes away what lingered.
    fn apply(&mut self, edit: &Edit) {
        edit.delete.iter().for_each(|element| self.delete(element));
        edit.add.iter().for_each(|element| self.add(element));
        edit.linger.iter().for_each(|element| self.delete(element));
    }

    fn chains_pointed_at(&self) -> Vec<&Name> {
        let verdicts = self.0.values().flatten();
        verdicts
            .filter_map(|value| match value {
                Value::Verdict(Verdict::Goto(chain)) => Some(chain),
                _ => None,
            })
            .collect()
    }
}

fn check_steps(changes: &[Change], view: &NodeView, family: IpFamily) -> Result<(), TestCaseError> {
    let mut cluster = Cluster::new(Timestamp::default());
    let (mut current, _) = plan(&cluster, view);
    let Some(family_plan) = current.families.get(family) else { return Ok(()) };
    let (mut program, elements) = Program::of(family_plan, StickyIds::default());
    let mut table = Table::of(&elements);
    for change in changes {
        let touched = cluster.apply(change.clone());
        if touched.node || touched.service_cidrs {
            replan(&mut current, &cluster, &touched, view);
            let now = current.families.get(family).expect("a family that was there");
            let (fresh, elements) = Program::of(now, program.ids().clone());
            (program, table) = (fresh, Table::of(&elements));
            continue;
        }
        let (deltas, _) = replan(&mut current, &cluster, &touched, view);
        let now = current.families.get(family).expect("a family that was there");
        let delta = deltas.get(family).expect("a family that was there");
        table.apply(&program.change(now, delta));
        check_equal(&program, &table, now)?;
    }
    Ok(())
}

/// The table, the hash and the skeleton are those of a program made afresh with the same numbers.
fn check_equal(
    program: &Program,
    table: &Table,
    plan: &ferrule_plan::FamilyPlan,
) -> Result<(), TestCaseError> {
    let (fresh, elements) = Program::of(plan, program.ids().clone());
    prop_assert_eq!(table, &Table::of(&elements));
    prop_assert_eq!(program.hash(), fresh.hash());
    prop_assert_eq!(program.sets(), fresh.sets());
    let chains = program.chains();
    prop_assert_eq!(&chains, &fresh.chains());
    for target in table.chains_pointed_at() {
        prop_assert!(chains.iter().any(|chain| chain.name == *target), "{target} does not exist");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, ..ProptestConfig::default() })]

    #[test]
    fn edits_add_up_to_what_writing_afresh_would_give(
        changes in random::changes(),
        view in random::view(),
    ) {
        let view = NodeView { quirks: Quirks::NFTABLES, ..view };
        for family in IpFamily::BOTH {
            check_steps(&changes, &view, family)?;
        }
    }
}
