//! Edits add up: a table changed step by step holds what a table written afresh would hold.

use std::collections::BTreeMap;

use ferrule_backends::nftables::{Edit, Elements, RuleSet, StableIds};
use ferrule_kernel::nft::{Chain, Element, KeyBytes, Name, Value, Verdict};
use ferrule_model::{Change, Cluster, IpFamily};
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

    /// One commit, the one before it that makes what it needs, and the later one that takes away what lingered.
    fn apply(&mut self, edit: &Edit) {
        for element in &edit.dispatch {
            let before = self.0.insert((element.set.clone(), element.key.clone()), element.value.clone());
            assert!(
                before.is_none_or(|before| before == element.value),
                "{element:?} stood for something else"
            );
        }
        edit.delete.iter().for_each(|element| self.delete(element));
        edit.add.iter().for_each(|element| self.add(element));
        edit.linger.iter().for_each(|element| self.delete(element));
    }

    /// Without the elements that lead to chains of pool sizes that went out of use.
    fn without_unused_dispatch(&self, chains: &[Chain]) -> Self {
        let is_used = |value: &Option<Value>| match value {
            Some(Value::Verdict(Verdict::Goto(target))) => chains.iter().any(|chain| chain.name == *target),
            _ => true,
        };
        Self(
            self.0
                .iter()
                .filter(|(_, value)| is_used(value))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
        )
    }

    /// What the numbers of frontends stand for; none where one stands for nothing.
    fn outcomes(&self) -> Vec<Option<&Option<Value>>> {
        let is_frontend = |set: &Name| ["services", "nodeports"].contains(&set.as_str());
        let number = |value: &Option<Value>| match value {
            Some(Value::Data(number)) => KeyBytes::from_slice(number),
            _ => KeyBytes::new(),
        };
        let frontends = self.0.iter().filter(|((set, _), _)| is_frontend(set));
        frontends.map(|(_, value)| self.0.get(&(Name::new("dispatch"), number(value)))).collect()
    }
}

fn check_steps(changes: &[Change], view: &NodeView, family: IpFamily) -> Result<(), TestCaseError> {
    let mut cluster = Cluster::default();
    let (mut current, _) = plan(&cluster, view);
    let Some(family_plan) = current.families.get(family) else { return Ok(()) };
    let (mut rule_set, elements) = RuleSet::from_plan(family_plan, StableIds::default());
    let mut table = Table::of(&elements);
    for change in changes {
        let touched = cluster.apply(change.clone()).touched;
        if touched.node || touched.service_cidrs {
            replan(&mut current, &cluster, &touched, view);
            let now = current.families.get(family).expect("a family that was there");
            let (fresh, elements) = RuleSet::from_plan(now, rule_set.ids().clone());
            (rule_set, table) = (fresh, Table::of(&elements));
            continue;
        }
        let (deltas, _) = replan(&mut current, &cluster, &touched, view);
        let now = current.families.get(family).expect("a family that was there");
        let delta = deltas.get(family).expect("a family that was there");
        table.apply(&rule_set.apply_delta(now, delta));
        check_equal(&rule_set, &table, now)?;
    }
    Ok(())
}

/// The table, the hash and the skeleton are those of a program made afresh with the same numbers.
fn check_equal(
    rule_set: &RuleSet,
    table: &Table,
    plan: &ferrule_plan::FamilyPlan,
) -> Result<(), TestCaseError> {
    let (fresh, elements) = RuleSet::from_plan(plan, rule_set.ids().clone());
    prop_assert_eq!(rule_set.hash(), fresh.hash());
    prop_assert_eq!(rule_set.sets(), fresh.sets());
    let chains = rule_set.chains();
    prop_assert_eq!(&chains, &fresh.chains());
    let used = table.without_unused_dispatch(&chains);
    prop_assert_eq!(&used, &Table::of(&elements));
    prop_assert!(used.outcomes().iter().all(Option::is_some), "a number stands for nothing");
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
