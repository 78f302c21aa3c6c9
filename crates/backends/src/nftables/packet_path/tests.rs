//! What must hold of any table: no guess, no endless run.

use std::net::IpAddr;

use ferrule_kernel::nft::ruleset::{ElementValue, Entry, Instruction, SeenChain, SeenSet};
use ferrule_kernel::nft::{
    ChainKind, Expression, Hook, HookPoint, Name, PayloadBase, Value, Verdict as NftVerdict,
};
use ferrule_model::{IpFamily, Protocol};
use ferrule_plan::FamilyPlan;
use ferrule_testkit::World;

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn plan() -> FamilyPlan {
    let mut world = World::default();
    world.run_proxy("mode nftables").expect("settings");
    world.say("node a addresses 192.0.2.1").expect("a node");
    world.settle();
    world.family(IpFamily::V4).expect("IPv4 is served").clone()
}

/// A table whose chain at the hook `prerouting` for NAT has one rule.
fn table(rule: Vec<Instruction>) -> Ruleset {
    let hook = Hook { kind: ChainKind::Nat, point: HookPoint::Prerouting, priority: -100 };
    let chain = SeenChain { entry: Entry::Hook { hook, drops: false }, rules: vec![rule] };
    Ruleset { chains: [(Name::new("nat-prerouting"), chain)].into(), ..Ruleset::default() }
}

fn follow(ruleset: &Ruleset) -> Result<Outcomes, NotFollowed> {
    let packet = Packet {
        from: ip("203.0.113.5"),
        interface: Some("eth0".to_owned()),
        to: ip("10.96.0.1"),
        port: Some((Protocol::Tcp, 80)),
    };
    outcomes(&Table::new(ruleset), &plan().node, &packet)
}

fn known(expression: Expression) -> Instruction {
    Instruction::Known(expression)
}

/// `numgen random mod 3 vmap @picked`, with so many elements.
fn random_verdicts(elements: u32) -> Ruleset {
    let mut ruleset = table(vec![
        known(Expression::RandomNumber { modulus: 3, to: 1 }),
        known(Expression::Lookup { set: Name::new("picked"), from: 1, to: Some(0) }),
    ]);
    let verdict = |number: u32| {
        let verdict = if number == 0 { NftVerdict::Drop } else { NftVerdict::Accept };
        (number.to_ne_bytes().as_slice().into(), ElementValue::To(Value::Verdict(verdict)))
    };
    let elements = (0..elements).map(verdict).collect();
    ruleset.sets.insert(Name::new("picked"), SeenSet { key_length: 4, elements, ..SeenSet::default() });
    ruleset
}

#[test]
fn without_rules_a_packet_is_left_alone() {
    let found = follow(&Ruleset::default()).expect("it is followed");
    assert!(found.is(&Outcome::Untouched), "{found:?}");
}

#[test]
fn every_number_that_may_be_drawn_is_tried() {
    let found = follow(&random_verdicts(3)).expect("it is followed");
    assert_eq!(found, Outcomes { outcome: Outcome::Dropped, sometimes: vec![Outcome::Untouched] });
}

#[test]
fn what_is_not_known_is_an_error_that_names_the_chain() {
    let error = follow(&table(vec![Instruction::Other("synproxy".to_owned())])).expect_err("not known");
    assert_eq!(error.to_string(), "chain nat-prerouting: the expression \"synproxy\" is not known");
}

#[test]
fn what_is_not_known_is_no_error_where_no_packet_meets_it() {
    let never = Expression::Compare {
        comparison: ferrule_kernel::nft::Comparison::Equal,
        from: 1,
        value: [1, 2, 3, 4].as_slice().into(),
    };
    let rule = vec![
        known(Expression::Payload { base: PayloadBase::Network, offset: 16, length: 4, to: 1 }),
        known(never),
        Instruction::Other("synproxy".to_owned()),
    ];
    assert!(follow(&table(rule)).expect("it is followed").is(&Outcome::Untouched));
}

#[test]
fn chains_that_call_each_other_without_end_are_an_error() {
    let again = NftVerdict::Jump(Name::new("nat-prerouting"));
    let error = follow(&table(vec![known(Expression::Verdict(again))])).expect_err("no end");
    assert!(error.what.contains("too often"), "{error}");
}

#[test]
fn registers_sets_and_chains_that_are_not_there_are_errors() {
    for rule in [
        known(Expression::RandomNumber { modulus: 2, to: 99 }),
        known(Expression::Load { value: vec![0; 70].into(), to: 4 }),
        known(Expression::Lookup { set: Name::new("nowhere"), from: 1, to: None }),
        known(Expression::Verdict(NftVerdict::Goto(Name::new("nowhere")))),
        known(Expression::Compare {
            comparison: ferrule_kernel::nft::Comparison::Equal,
            from: 23,
            value: vec![0; 16].into(),
        }),
    ] {
        assert!(follow(&table(vec![rule.clone()])).is_err(), "{rule:?}");
    }
}

#[test]
fn who_is_written_down_and_never_looked_up_keeps_no_endpoint() {
    let sticky = |looks_up: bool| {
        let address = known(Expression::Load { value: vec![10, 244, 0, 1].into(), to: 1 });
        let port = known(Expression::Load { value: vec![0x1f, 0x90, 0, 0].into(), to: 2 });
        let to = known(Expression::DestinationNat { address: 1, port: 2 });
        let mut ruleset = table(vec![Instruction::Remember { set: Name::new("clients") }, address, port, to]);
        let set = SeenSet { is_dynamic: true, timeout_millis: Some(600_000), ..SeenSet::default() };
        ruleset.sets.insert(Name::new("clients"), set);
        if looks_up {
            let look = known(Expression::Lookup { set: Name::new("clients"), from: 1, to: None });
            let chain = ruleset.chains.get_mut(&Name::new("nat-prerouting")).expect("the chain");
            chain.rules.insert(0, vec![look, known(Expression::Verdict(NftVerdict::Drop))]);
        }
        follow(&ruleset).expect("it is followed").outcome.to_string()
    };
    assert_eq!(sticky(true), "10.244.0.1:8080 sticky 600s");
    assert_eq!(sticky(false), "10.244.0.1:8080");
}
