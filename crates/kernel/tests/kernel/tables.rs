//! Our objects in the real kernel, and what it and `nft` say about them.

use std::collections::BTreeSet;

use crate::support::namespace::{elsewhere, in_namespace};
use crate::support::nft_program;
use crate::support::rules::{chain, goto, name};
use crate::support::skeleton::Skeleton;
use ferrule_kernel::nft::{
    Chain, CommitError, Element, Expression, Family, KeyBytes, NftClient, Rule, Transaction, Value, Verdict,
};
use ferrule_kernel::port::{NftReader as _, NftTables as _};

const FAMILIES: [Family; 2] = [Family::Ip, Family::Ip6];

#[test]
fn what_is_read_is_what_was_written() {
    in_namespace(|| {
        for family in FAMILIES {
            let skeleton = Skeleton::new(family);
            let mut client = loaded(family, &skeleton);
            assert_same_sets(&mut client, &skeleton);
            assert_same_chains(&mut client, &skeleton.chains);
            assert_same_elements(&mut client, &skeleton);
            assert!(client.has_set(&name("services")).unwrap());
            assert!(!client.has_set(&name("nothing")).unwrap());
            assert_eq!(client.elements(&name("nothing")).unwrap(), None);
            assert_eq!(client.counters().unwrap().len(), 1);
            assert_eq!(client.table().unwrap().unwrap().owner, None);
        }
    });
}

#[test]
fn nft_lists_what_we_wrote_and_loads_its_own_listing() {
    in_namespace(|| {
        for family in FAMILIES {
            loaded(family, &Skeleton::new(family));
        }
        let text = nft_program::list();
        println!("{text}");
        assert!(nft_program::list_json().starts_with('{'));
        let again = elsewhere({
            let text = text.clone();
            move || {
                nft_program::load(&text);
                nft_program::list()
            }
        });
        assert_eq!(text, again);
        for line in [
            "typeof ip daddr . meta l4proto . th dport . numgen random mod 2 : ip daddr . th dport",
            "type ipv6_addr . inet_proto . inet_service : verdict",
            "iifname != \"veth*\"",
            "comment \"rules for kube-proxy\"",
            "update @affinity { ip saddr . meta priority & ffff:f000 timeout 3h : meta priority }",
        ] {
            assert!(text.contains(line), "no {line} in the listing");
        }
    });
}

#[test]
fn what_nft_makes_of_our_listing_reads_as_ours() {
    in_namespace(|| {
        for family in FAMILIES {
            loaded(family, &Skeleton::new(family));
        }
        let text = nft_program::list();
        elsewhere(move || {
            nft_program::load(&text);
            for family in FAMILIES {
                let skeleton = Skeleton::new(family);
                let mut client = NftClient::open(family).unwrap();
                assert_same_sets(&mut client, &skeleton);
                assert_same_chains(&mut client, &skeleton.chains);
                assert_same_elements(&mut client, &skeleton);
            }
        });
    });
}

#[test]
fn a_transaction_for_an_old_generation_is_refused() {
    in_namespace(|| {
        let mut client = loaded(Family::Ip, &Skeleton::new(Family::Ip));
        let old = client.generation().unwrap();
        let mut change = Transaction::new();
        change.expect_generation(old).flush_set(name("services"));
        let committed = client.commit(&change).unwrap();
        assert_eq!(committed.generation, old + 1);
        let error = client.commit(&change).unwrap_err();
        assert!(
            matches!(error, CommitError::GenerationChanged { expected, .. } if expected == old),
            "{error}"
        );
        assert_eq!(client.generation().unwrap(), old + 1);
        change.expect_generation(old + 1);
        client.commit(&change).unwrap();
    });
}

#[test]
fn an_error_names_the_operation() {
    in_namespace(|| {
        let skeleton = Skeleton::new(Family::Ip);
        let mut client = loaded(Family::Ip, &skeleton);
        let refused = |client: &mut NftClient, transaction: &Transaction| match client.commit(transaction) {
            Err(CommitError::Rejected { operation, rejection, .. }) => (operation, rejection.errno),
            other => panic!("{other:?}"),
        };
        let mut missing_set = Transaction::new();
        let lookup = Expression::Lookup { set: name("nowhere"), from: 1, to: None };
        let rule = Rule { expressions: vec![lookup], comment: None };
        missing_set.add_table().add_chain(chain("good", vec![])).add_chain(chain("bad", vec![rule]));
        assert_eq!(refused(&mut client, &missing_set), ("adding chain bad, rule 1".to_owned(), libc::ENOENT));
        let mut missing_element = Transaction::new();
        missing_element.delete_element(&name("services"), KeyBytes::from_elem(0, 12));
        let said = refused(&mut client, &missing_element);
        assert_eq!(said, ("deleting 1 elements of services, elements 1 to 1".to_owned(), libc::ENOENT));
        let mut used = Transaction::new();
        used.delete_chain(name("pool-3"));
        assert_eq!(refused(&mut client, &used).1, libc::EBUSY);
        assert_same_chains(&mut client, &skeleton.chains);
    });
}

#[test]
fn chains_may_point_at_each_other_in_any_order() {
    in_namespace(|| {
        let to = |target: &str| Rule { expressions: vec![Expression::Verdict(goto(target))], comment: None };
        let mut made = Transaction::new();
        made.add_table().add_chain(chain("first", vec![to("second")])).add_chain(chain("second", vec![]));
        let mut client = NftClient::open(Family::Ip).unwrap();
        client.commit(&made).unwrap();
        let mut turned = Transaction::new();
        let both = [chain("second", vec![to("first")]), chain("first", vec![])];
        for chain in &both {
            turned.refill_chain(chain.clone());
        }
        client.commit(&turned).unwrap();
        assert_same_chains(&mut client, &both);
        let mut gone = Transaction::new();
        gone.delete_chain(name("first")).delete_chain(name("second"));
        client.commit(&gone).unwrap();
        assert_same_chains(&mut client, &[]);
    });
}

#[test]
fn an_element_is_replaced_in_one_transaction() {
    in_namespace(|| {
        let mut client = loaded(Family::Ip, &Skeleton::new(Family::Ip));
        let services = client.elements(&name("services")).unwrap().unwrap().elements;
        let mut changed = services[0].clone();
        changed.value = Some(Value::Verdict(Verdict::Accept));
        let mut change = Transaction::new();
        change.delete_elements([&services[0]]).add_element(changed.clone());
        let committed = client.commit(&change).unwrap();
        assert_eq!((committed.written, committed.removed), (1, 1));
        assert!(client.elements(&name("services")).unwrap().unwrap().elements.contains(&changed));
    });
}

#[test]
fn the_table_goes_with_all_in_it() {
    in_namespace(|| {
        let mut client = loaded(Family::Ip6, &Skeleton::new(Family::Ip6));
        let mut gone = Transaction::new();
        gone.delete_table_if_exists();
        for _ in 0..2 {
            client.commit(&gone).unwrap();
            assert_eq!(client.table().unwrap(), None);
            assert_eq!(client.sets().unwrap(), []);
            assert_eq!(client.chains().unwrap(), []);
        }
    });
}

#[test]
fn what_others_wrote_is_not_taken_for_ours() {
    in_namespace(|| {
        let mut client = loaded(Family::Ip, &Skeleton::new(Family::Ip));
        nft_program::load(
            "add rule ip kube-proxy pool-3 limit rate 1/second accept
             add chain ip kube-proxy strict { type filter hook input priority 0; policy drop; }
             add set ip kube-proxy ranges { type ipv4_addr; flags interval; }
             add element ip kube-proxy services { 10.9.9.9 . udp . 53 : continue }",
        );
        let chains = client.chains().unwrap();
        let foreign = chains.iter().filter(|seen| seen.object.is_none()).map(|seen| seen.name.as_str());
        assert_eq!(foreign.collect::<BTreeSet<_>>(), BTreeSet::from(["pool-3", "strict"]));
        let sets = client.sets().unwrap();
        let foreign = sets.iter().filter(|seen| seen.object.is_none()).map(|seen| seen.name.as_str());
        assert_eq!(foreign.collect::<Vec<_>>(), ["ranges"]);
        let services = client.elements(&name("services")).unwrap().unwrap();
        assert_eq!((services.elements.len(), services.foreign.len()), (2, 1));
    });
}

#[test]
fn a_hundred_thousand_elements_are_one_transaction() {
    in_namespace(|| {
        const MANY: u32 = 120_000;
        let skeleton = Skeleton::new(Family::Ip6);
        let mut client = loaded(Family::Ip6, &skeleton);
        let template = skeleton.elements.iter().find(|element| element.set == name("endpoints")).unwrap();
        let many = (0..MANY).map(|number| {
            let mut element = template.clone();
            element.key[4..8].copy_from_slice(&number.to_be_bytes());
            element.key[12] = 1;
            element
        });
        let mut load = Transaction::new();
        load.flush_set(name("endpoints")).add_elements(many);
        assert_eq!(client.commit(&load).unwrap().written, MANY as usize);
        let seen = client.elements(&name("endpoints")).unwrap().unwrap();
        assert_eq!(seen.elements.len(), MANY as usize);
    });
}

fn loaded(family: Family, skeleton: &Skeleton) -> NftClient {
    let mut client = NftClient::open(family).unwrap();
    let transaction = skeleton.transaction();
    let committed = client.commit(&transaction).unwrap_or_else(|error| panic!("{error}: {error:?}"));
    assert_eq!(committed.written, transaction.written());
    client
}

fn assert_same_sets(client: &mut NftClient, skeleton: &Skeleton) {
    let seen = client.sets().unwrap();
    assert_eq!(seen.len(), skeleton.sets.len());
    for (seen, wanted) in seen.iter().zip(&skeleton.sets) {
        assert_eq!(seen.object.as_ref(), Some(wanted), "set {}", seen.name);
    }
}

fn assert_same_chains(client: &mut NftClient, wanted: &[Chain]) {
    let seen = client.chains().unwrap();
    assert_eq!(seen.len(), wanted.len());
    for wanted in wanted {
        let seen = seen.iter().find(|seen| seen.name == wanted.name).unwrap();
        assert_eq!(seen.object.as_ref(), Some(wanted), "chain {}", seen.name);
    }
}

fn assert_same_elements(client: &mut NftClient, skeleton: &Skeleton) {
    for set in &skeleton.sets {
        let seen = client.elements(&set.name).unwrap().unwrap();
        assert_eq!(seen.foreign, Vec::<KeyBytes>::new());
        let wanted = skeleton.elements.iter().filter(|element| element.set == set.name);
        assert_eq!(sorted(seen.elements.iter()), sorted(wanted), "elements of {}", set.name);
    }
}

fn sorted<'a>(elements: impl Iterator<Item = &'a Element>) -> Vec<&'a Element> {
    let mut elements: Vec<_> = elements.collect();
    elements.sort_by(|left, right| left.key.cmp(&right.key));
    elements
}
