//! A transaction as one batch of netlink messages.
//!
//! Pure. Remembers which message belongs to which operation, so that an error names the right one.

use std::ops::Range;

use super::constants::{
    BATCH_BEGIN, BATCH_END, BATCH_GENERATION, SUBSYSTEM, chain, element, flowtable, message, object, rule,
    set, table,
};
use super::encode::{self, ObjectMessage, TableName};
use super::{Chain, Element, Name, Operation, OtherKind, OtherObject, Transaction};
use crate::netlink::{MessageHeader, Writer, flags};

/// The comment that `nft list` shows for the table.
const TABLE_COMMENT: &str = "rules for kube-proxy";
/// An attribute holds at most 64 KiB, and so a list of elements.
const MAX_ELEMENT_BYTES: usize = 60_000;

/// A batch, ready to be sent.
#[derive(Debug)]
pub struct Batch {
    writer: Writer,
    first_sequence: u32,
    /// What each message behind the opening one does.
    steps: Vec<Step>,
}

/// One message of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The index of the operation that it belongs to.
    pub operation: usize,
    /// What it does for the operation.
    pub part: Part,
}

/// What one message does for its operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it, or the object itself.
    Object,
    /// Flushes the chain.
    Flush,
    /// The rule with this index.
    Rule(usize),
    /// The elements with these indices.
    Elements(Range<usize>),
}

impl Step {
    fn object(operation: usize) -> Self {
        Self { operation, part: Part::Object }
    }
}

impl Batch {
    /// Encodes a transaction; sequence numbers start at `first_sequence`.
    pub fn new(table: &TableName, transaction: &Transaction, first_sequence: u32) -> Self {
        let mut batch = Self { writer: Writer::new(), first_sequence, steps: Vec::new() };
        batch.frame(BATCH_BEGIN, transaction.expected_generation());
        Encoder { batch: &mut batch, table, operations: transaction.operations(), sets: 0 }.encode();
        batch.request_acknowledgement();
        batch.frame(BATCH_END, None);
        batch
    }

    /// The encoded messages.
    pub fn as_bytes(&self) -> &[u8] {
        self.writer.as_bytes()
    }

    /// The number of messages, and so of sequence numbers.
    pub fn messages(&self) -> u32 {
        u32::try_from(self.steps.len()).unwrap_or(u32::MAX).saturating_add(2)
    }

    /// The sequence number of the message that is acknowledged after success.
    pub fn last_sequence(&self) -> u32 {
        self.first_sequence.wrapping_add(self.messages() - 2)
    }

    /// The message with this sequence number.
    pub fn step(&self, sequence: u32) -> Option<&Step> {
        let number = sequence.wrapping_sub(self.first_sequence).checked_sub(1)?;
        self.steps.get(usize::try_from(number).ok()?)
    }

    fn frame(&mut self, kind: u16, generation: Option<u32>) {
        let behind = if kind == BATCH_BEGIN { 0 } else { self.messages() - 1 };
        let sequence = self.first_sequence.wrapping_add(behind);
        let [high, low] = SUBSYSTEM.to_be_bytes();
        self.writer.message(MessageHeader { kind, flags: flags::REQUEST, sequence }, |writer| {
            writer.raw(&[0, 0, high, low]);
            if let Some(generation) = generation {
                writer.number(BATCH_GENERATION, generation);
            }
        });
    }

    /// Only the last message is acknowledged: acknowledging each would cost more than a typical batch. Not the end of the
    /// batch, which kernels before 6.10 do not acknowledge.
    fn request_acknowledgement(&mut self) {
        if !self.steps.is_empty() {
            self.writer.add_flags_to_last_message(flags::ACK);
        }
    }
}

struct Encoder<'a> {
    batch: &'a mut Batch,
    table: &'a TableName,
    operations: &'a [Operation],
    sets: u32,
}

impl Encoder<'_> {
    fn encode(mut self) {
        let operations = self.operations;
        let mut at = 0;
        while let Some(operation) = operations.get(at) {
            let together = run_length(&operations[at..]);
            match operation {
                Operation::AddChain(_) | Operation::RefillChain(_) => self.chains(at..at + together),
                Operation::DeleteChain(_) => self.chain_deletions(at..at + together),
                Operation::AddTable
                | Operation::DeleteTable
                | Operation::AddSet(_)
                | Operation::DeleteSet(_)
                | Operation::FlushSet(_)
                | Operation::AddElements(_)
                | Operation::AddCounted(_)
                | Operation::DeleteElements { .. }
                | Operation::AddCounter(_)
                | Operation::DeleteCounter(_)
                | Operation::DeleteOther(_) => self.single(at, operation),
            }
            at += together;
        }
    }

    fn single(&mut self, at: usize, operation: &Operation) {
        let table = self.table;
        let name = table.name.as_str();
        match operation {
            Operation::AddTable => {
                self.put(Step::object(at), ObjectMessage::create(message::NEW_TABLE), |w| {
                    encode::put_table(w, table, TABLE_COMMENT);
                });
            }
            Operation::DeleteTable => {
                self.put(Step::object(at), ObjectMessage::delete(message::DELETE_TABLE), |w| {
                    w.text(table::NAME, name);
                });
            }
            Operation::AddSet(set) => {
                self.sets += 1;
                let id = self.sets;
                self.put(Step::object(at), ObjectMessage::create(message::NEW_SET), |w| {
                    encode::put_set(w, table, set, id);
                });
            }
            Operation::DeleteSet(set) => {
                self.delete(at, message::DELETE_SET, [(set::TABLE, name), (set::NAME, set.as_str())]);
            }
            Operation::FlushSet(set) => {
                self.delete(
                    at,
                    message::DELETE_ELEMENTS,
                    [(element::TABLE, name), (element::SET, set.as_str())],
                );
            }
            Operation::AddElements(elements) => self.add_elements(at, elements),
            Operation::AddCounted(elements) => {
                let Some(first) = elements.first() else { return };
                let message = ObjectMessage::create(message::NEW_ELEMENTS);
                let list = ElementList { operation: at, set: &first.set, message, items: elements };
                self.elements(&list, encode::put_counted_element);
            }
            Operation::DeleteElements { set, keys } => {
                let message = ObjectMessage::delete(message::DELETE_ELEMENTS);
                let list = ElementList { operation: at, set, message, items: keys };
                self.elements(&list, |w, key| encode::put_key(w, key));
            }
            Operation::AddCounter(counter) => {
                self.put(Step::object(at), ObjectMessage::create(message::NEW_OBJECT), |w| {
                    encode::put_counter(w, table, counter);
                });
            }
            Operation::DeleteCounter(counter) => self.delete_stateful(at, counter, object::COUNTER),
            Operation::DeleteOther(OtherObject { name, kind: OtherKind::Stateful(kind) }) => {
                self.delete_stateful(at, name, *kind);
            }
            Operation::DeleteOther(OtherObject { name: flowtable, kind: OtherKind::Flowtable }) => {
                let names = [(flowtable::TABLE, name), (flowtable::NAME, flowtable.as_str())];
                self.delete(at, message::DELETE_FLOWTABLE, names);
            }
            Operation::AddChain(_) | Operation::RefillChain(_) | Operation::DeleteChain(_) => {}
        }
    }

    fn add_elements(&mut self, at: usize, elements: &[Element]) {
        let Some(first) = elements.first() else { return };
        let message = ObjectMessage::create(message::NEW_ELEMENTS);
        let list = ElementList { operation: at, set: &first.set, message, items: elements };
        self.elements(&list, encode::put_element);
    }

    /// All chains of a run are made before any is filled, so that their rules may point at each other.
    fn chains(&mut self, run: Range<usize>) {
        let (table, operations) = (self.table, self.operations);
        let chains = || run.clone().filter_map(|at| Some((at, chain_of(&operations[at])?)));
        for (at, chain) in chains() {
            self.put(Step::object(at), ObjectMessage::create(message::NEW_CHAIN), |w| {
                encode::put_chain(w, table, chain);
            });
            if matches!(operations[at], Operation::RefillChain(_)) {
                self.flush_chain(at, &chain.name);
            }
        }
        for (at, chain) in chains() {
            for (number, rule) in chain.rules.iter().enumerate() {
                let step = Step { operation: at, part: Part::Rule(number) };
                let how = ObjectMessage { message: message::NEW_RULE, flags: flags::CREATE | flags::APPEND };
                self.put(step, how, |w| encode::put_rule(w, table, &chain.name, rule));
            }
        }
    }

    /// All chains of a run are emptied before any goes, so that they may have pointed at each other.
    fn chain_deletions(&mut self, run: Range<usize>) {
        let (table, operations) = (self.table, self.operations);
        let names = || {
            run.clone().filter_map(|at| match &operations[at] {
                Operation::DeleteChain(name) => Some((at, name)),
                _ => None,
            })
        };
        for (at, name) in names() {
            self.flush_chain(at, name);
        }
        for (at, name) in names() {
            self.delete(
                at,
                message::DELETE_CHAIN,
                [(chain::TABLE, table.name.as_str()), (chain::NAME, name.as_str())],
            );
        }
    }

    fn flush_chain(&mut self, at: usize, chain: &Name) {
        let table = self.table;
        self.put(
            Step { operation: at, part: Part::Flush },
            ObjectMessage::delete(message::DELETE_RULE),
            |w| {
                w.text(rule::TABLE, table.name.as_str());
                w.text(rule::CHAIN, chain.as_str());
            },
        );
    }

    fn delete_stateful(&mut self, at: usize, name: &Name, kind: u32) {
        let table = self.table;
        self.put(Step::object(at), ObjectMessage::delete(message::DELETE_OBJECT), |w| {
            w.text(object::TABLE, table.name.as_str());
            w.text(object::NAME, name.as_str());
            w.number(object::TYPE, kind);
        });
    }

    fn delete(&mut self, at: usize, message: u16, names: [(u16, &str); 2]) {
        self.put(Step::object(at), ObjectMessage::delete(message), |w| {
            for (kind, name) in names {
                w.text(kind, name);
            }
        });
    }

    /// Encodes the elements of one operation, as many messages as it takes.
    fn elements<T>(&mut self, list: &ElementList<'_, T>, each: impl Fn(&mut Writer, &T)) {
        let table = self.table;
        let &ElementList { operation, set, message, items } = list;
        let mut next = 0;
        while next < items.len() {
            let first = next;
            let step = self.batch.steps.len();
            self.put(Step::object(operation), message, |writer| {
                writer.text(element::TABLE, table.name.as_str());
                writer.text(element::SET, set.as_str());
                writer.nest(element::LIST, |writer| {
                    let start = writer.len();
                    while next < items.len() && writer.len() - start < MAX_ELEMENT_BYTES {
                        writer.nest(element::ITEM, |writer| each(writer, &items[next]));
                        next += 1;
                    }
                });
            });
            self.batch.steps[step].part = Part::Elements(first..next);
        }
    }

    fn put(&mut self, step: Step, message: ObjectMessage, body: impl FnOnce(&mut Writer)) {
        self.batch.steps.push(step);
        let behind = u32::try_from(self.batch.steps.len()).unwrap_or(u32::MAX);
        let sequence = self.batch.first_sequence.wrapping_add(behind);
        self.batch.writer.message(message.header(sequence), |writer| {
            writer.raw(&[self.table.family.number(), 0, 0, 0]);
            body(writer);
        });
    }
}

/// Elements that one operation adds to or deletes from a set.
struct ElementList<'a, T> {
    operation: usize,
    set: &'a Name,
    message: ObjectMessage,
    items: &'a [T],
}

/// How many operations from the first on are encoded together.
fn run_length(operations: &[Operation]) -> usize {
    let fills = |operation: &Operation| chain_of(operation).is_some();
    let deletes = |operation: &Operation| matches!(operation, Operation::DeleteChain(_));
    let alike =
        |test: &dyn Fn(&Operation) -> bool| operations.iter().take_while(|operation| test(operation)).count();
    alike(&fills).max(alike(&deletes)).max(1)
}

fn chain_of(operation: &Operation) -> Option<&Chain> {
    match operation {
        Operation::AddChain(chain) | Operation::RefillChain(chain) => Some(chain),
        Operation::AddTable
        | Operation::DeleteTable
        | Operation::AddSet(_)
        | Operation::DeleteSet(_)
        | Operation::FlushSet(_)
        | Operation::DeleteChain(_)
        | Operation::AddElements(_)
        | Operation::AddCounted(_)
        | Operation::DeleteElements { .. }
        | Operation::AddCounter(_)
        | Operation::DeleteCounter(_)
        | Operation::DeleteOther(_) => None,
    }
}
