//! What is encoded decodes to the same, and no bytes make a decoder panic.

mod generated;

use proptest::prelude::*;

use self::generated::{chain_header, counted_element, element, rule, set, transaction};
use super::encode::{self, TableName};
use super::{Batch, Family, Name, Operation, SeenElement, Transaction, decode, notification};
use crate::conntrack;
use crate::interfaces;
use crate::netlink::{Attributes, Message, Messages, Writer};

const FAMILIES: [Family; 2] = [Family::Ip, Family::Ip6];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn a_set_survives(set in set()) {
        let bytes = written(|writer| encode::put_set(writer, &table(Family::Ip), &set, 1));
        prop_assert_eq!(decode::set(Attributes::new(&bytes)), Some(set));
    }

    #[test]
    fn a_chain_survives(chain in chain_header()) {
        let bytes = written(|writer| encode::put_chain(writer, &table(Family::Ip), &chain));
        prop_assert_eq!(decode::chain(Attributes::new(&bytes)), Some(chain));
    }

    #[test]
    fn a_rule_survives(rule in rule(), family in family()) {
        let chain = Name::new("c");
        let bytes = written(|writer| encode::put_rule(writer, &table(family), &chain, &rule));
        let seen = decode::seen_rule(Attributes::new(&bytes), family).unwrap();
        prop_assert_eq!((seen.chain, seen.rule), (chain, Some(rule)));
    }

    #[test]
    fn an_element_survives(element in element()) {
        let bytes = written(|writer| encode::put_element(writer, &element));
        let seen = decode::seen_element(Attributes::new(&bytes), &element.set);
        prop_assert_eq!(seen, Some(SeenElement::Known(element)));
    }

    #[test]
    fn an_element_with_a_counter_survives(element in counted_element()) {
        let bytes = written(|writer| encode::put_counted_element(writer, &element));
        let seen = decode::counted_element(Attributes::new(&bytes), &element.set);
        prop_assert_eq!(seen, Some(element));
    }

    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        decode_everything(&bytes);
    }

    /// Random bytes rarely get far; a batch with some bytes changed does.
    #[test]
    fn broken_messages_are_taken(
        transaction in transaction(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = Batch::new(&table(Family::Ip6), &transaction, 7).as_bytes().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        Messages::new(&bytes).for_each(|message| decode_everything(message.body));
        decode_everything(&bytes);
    }

    #[test]
    fn every_message_of_a_batch_belongs_to_an_operation(transaction in transaction(), first in any::<u32>()) {
        let batch = Batch::new(&table(Family::Ip), &transaction, first);
        let messages: Vec<_> = Messages::new(batch.as_bytes()).collect();
        prop_assert_eq!(messages.len(), usize::try_from(batch.messages()).unwrap());
        for (number, message) in (0_u32..).zip(&messages) {
            prop_assert_eq!(message.sequence, first.wrapping_add(number));
            prop_assert!(message.body.len() < 65_536);
        }
        for message in messages.iter().skip(1).rev().skip(1) {
            prop_assert!(batch.step(message.sequence).is_some());
        }
        let answered: Vec<_> = messages.iter().filter(|message| message.flags & 4 != 0).collect();
        prop_assert!(answered.iter().all(|message| message.sequence == batch.last_sequence()));
        prop_assert_eq!(answered.len(), usize::from(!transaction.is_empty()));
    }
}

#[test]
fn many_elements_are_split_and_none_is_lost() {
    let many = (0_u32..5000).map(|number| super::Element {
        set: Name::new("s"),
        key: [&number.to_be_bytes()[..], &[7; 36]].concat()[..].into(),
        value: None,
    });
    let mut transaction = Transaction::new();
    transaction.add_elements(many);
    let [Operation::AddElements(wanted)] = transaction.operations() else { panic!("one operation") };
    let batch = Batch::new(&table(Family::Ip), &transaction, 0);
    let messages: Vec<_> =
        Messages::new(batch.as_bytes()).filter(|message| message.kind >> 8 == 10).collect();
    assert!(messages.len() > 3);
    let set = Name::new("s");
    let seen = messages
        .iter()
        .filter_map(|message| message.attributes(4).nested(3))
        .flat_map(|list| list.into_iter().filter_map(|item| decode::seen_element(item.nested(), &set)));
    assert!(seen.eq(wanted.iter().cloned().map(SeenElement::Known)));
}

#[test]
fn a_comment_that_is_too_long_is_cut_between_letters() {
    let long = "ü".repeat(200);
    let bytes = super::user_data::with_comment(Some(&long));
    assert_eq!(super::user_data::comment(&bytes), Some("ü".repeat(63)));
}

fn decode_everything(bytes: &[u8]) {
    let attributes = Attributes::new(bytes);
    let name = Name::new("s");
    decode::seen_table(attributes);
    decode::set(attributes);
    decode::chain(attributes);
    decode::counter(attributes);
    decode::seen_element(attributes, &name);
    decode::counted_element(attributes, &name);
    for family in FAMILIES {
        decode::seen_rule(attributes, family);
        decode::expression(attributes, family);
    }
    for kind in [16, 20, 256, 2560, 2563, 2566, 2569, 2572, 2575, 2] {
        let message = Message { kind, flags: 0x200, sequence: 0, portid: 0, body: bytes };
        notification(&message);
        conntrack::flow(&message);
        interfaces::address(&message);
        message.acknowledgement();
    }
    Messages::new(bytes).for_each(|message| _ = message.acknowledgement());
}

fn written(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::new();
    write(&mut writer);
    writer.as_bytes().to_vec()
}

fn table(family: Family) -> TableName {
    TableName { family, name: Name::new("kube-proxy") }
}

fn family() -> impl Strategy<Value = Family> {
    proptest::sample::select(&FAMILIES[..])
}
