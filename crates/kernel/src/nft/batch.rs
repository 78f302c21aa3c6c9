//! A transaction as one batch of netlink messages.
//!
//! Pure. Remembers which message came of which operation, so that an error can be laid at the right door.

use std::ops::Range;

use super::encode::{self, Place, TableName};
use super::numbers::{
    BATCH_BEGIN, BATCH_END, BATCH_GENERATION, SUBSYSTEM, chain, element, flowtable, message, object, rule,
    set, table,
};
use super::{Chain, Name, Operation, OtherKind, OtherObject, Transaction};
use crate::netlink::{MessageHeader, Writer, flags};

/// What `nft list` shows beside the table.
const TABLE_COMMENT: &str = "rules for kube-proxy";
/// An attribute holds 64 KiB; a list of elements ends before that.
const MOST_ELEMENT_BYTES: usize = 60_000;

/// A batch, ready to be sent.
#[derive(Debug)]
pub struct Batch {
    writer: Writer,
    first_sequence: u32,
    /// For each message behind the opening one, the operation it is part of and what it does there.
    parts: Vec<(usize, Part)>,
}

/// What one message does for its operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it, or the object itself.
    Object,
    /// Empties the chain.
    Flush,
    /// The rule of that number, from 0.
    Rule(usize),
    /// These elements.
    Elements(Range<usize>),
}

impl Batch {
    /// The batch of a transaction, its sequence numbers from the first on.
    pub fn new(table: &TableName, transaction: &Transaction, first_sequence: u32) -> Self {
        let mut batch = Self { writer: Writer::new(), first_sequence, parts: Vec::new() };
        batch.frame(BATCH_BEGIN, transaction.expected_generation());
        Encoder { batch: &mut batch, table, operations: transaction.operations(), sets: 0 }.encode();
        batch.ask_for_answer();
        batch.frame(BATCH_END, None);
        batch
    }

    /// What is sent.
    pub fn as_bytes(&self) -> &[u8] {
        self.writer.as_bytes()
    }

    /// How many sequence numbers it takes.
    pub fn messages(&self) -> u32 {
        u32::try_from(self.parts.len()).unwrap_or(u32::MAX).saturating_add(2)
    }

    /// The sequence number of the message that is answered when all went well.
    pub fn last_sequence(&self) -> u32 {
        self.first_sequence.wrapping_add(self.messages() - 2)
    }

    /// The operation that a sequence number belongs to, and the part of it.
    pub fn part(&self, sequence: u32) -> Option<&(usize, Part)> {
        let number = sequence.wrapping_sub(self.first_sequence).checked_sub(1)?;
        self.parts.get(usize::try_from(number).ok()?)
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

    /// Only the last message is answered: an answer to each would cost more than many a batch.
    /// The end of the batch is not answered by kernels before 6.10.
    fn ask_for_answer(&mut self) {
        if !self.parts.is_empty() {
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
                self.put((at, Part::Object), (message::NEW_TABLE, flags::CREATE), |w| {
                    encode::put_table(w, table, TABLE_COMMENT);
                });
            }
            Operation::DeleteTable => {
                self.put((at, Part::Object), (message::DELETE_TABLE, 0), |w| w.text(table::NAME, name));
            }
            Operation::AddSet(set) => {
                self.sets += 1;
                let id = self.sets;
                self.put((at, Part::Object), (message::NEW_SET, flags::CREATE), |w| {
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
            Operation::AddElements(elements) => {
                let Some(first) = elements.first() else { return };
                self.elements((at, &first.set), message::NEW_ELEMENTS, elements, encode::put_element);
            }
            Operation::DeleteElements { set, keys } => {
                self.elements((at, set), message::DELETE_ELEMENTS, keys, |w, key| encode::put_key(w, key));
            }
            Operation::AddCounter(counter) => {
                self.put((at, Part::Object), (message::NEW_OBJECT, flags::CREATE), |w| {
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

    /// All chains of a run are made before any is filled, so that their rules may point at each other.
    fn chains(&mut self, run: Range<usize>) {
        let (table, operations) = (self.table, self.operations);
        let chains = || run.clone().filter_map(|at| Some((at, chain_of(&operations[at])?)));
        for (at, chain) in chains() {
            self.put((at, Part::Object), (message::NEW_CHAIN, flags::CREATE), |w| {
                encode::put_chain(w, table, chain);
            });
            if matches!(operations[at], Operation::RefillChain(_)) {
                self.flush_chain(at, &chain.name);
            }
        }
        for (at, chain) in chains() {
            for (number, rule) in chain.rules.iter().enumerate() {
                let how = (message::NEW_RULE, flags::CREATE | flags::APPEND);
                self.put((at, Part::Rule(number)), how, |w| encode::put_rule(w, table, &chain.name, rule));
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
        self.put((at, Part::Flush), (message::DELETE_RULE, 0), |w| {
            w.text(rule::TABLE, table.name.as_str());
            w.text(rule::CHAIN, chain.as_str());
        });
    }

    fn delete_stateful(&mut self, at: usize, name: &Name, kind: u32) {
        let table = self.table;
        self.put((at, Part::Object), (message::DELETE_OBJECT, 0), |w| {
            w.text(object::TABLE, table.name.as_str());
            w.text(object::NAME, name.as_str());
            w.number(object::TYPE, kind);
        });
    }

    fn delete(&mut self, at: usize, message: u16, names: [(u16, &str); 2]) {
        self.put((at, Part::Object), (message, 0), |w| {
            for (kind, name) in names {
                w.text(kind, name);
            }
        });
    }

    /// As many messages as it takes.
    fn elements<T>(
        &mut self,
        (at, set): (usize, &Name),
        message: u16,
        all: &[T],
        each: impl Fn(&mut Writer, &T),
    ) {
        let table = self.table;
        let how = (message, if message == message::NEW_ELEMENTS { flags::CREATE } else { 0 });
        let mut next = 0;
        while next < all.len() {
            let first = next;
            let part = self.batch.parts.len();
            self.put((at, Part::Object), how, |writer| {
                writer.text(element::TABLE, table.name.as_str());
                writer.text(element::SET, set.as_str());
                writer.nest(element::LIST, |writer| {
                    let start = writer.len();
                    while next < all.len() && writer.len() - start < MOST_ELEMENT_BYTES {
                        writer.nest(element::ITEM, |writer| each(writer, &all[next]));
                        next += 1;
                    }
                });
            });
            self.batch.parts[part].1 = Part::Elements(first..next);
        }
    }

    fn put(&mut self, part: (usize, Part), (message, flags): (u16, u16), body: impl FnOnce(&mut Writer)) {
        self.batch.parts.push(part);
        let behind = u32::try_from(self.batch.parts.len()).unwrap_or(u32::MAX);
        let sequence = self.batch.first_sequence.wrapping_add(behind);
        encode::put_message(&mut self.batch.writer, self.table, (message, Place { sequence, flags }), body);
    }
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
        | Operation::DeleteElements { .. }
        | Operation::AddCounter(_)
        | Operation::DeleteCounter(_)
        | Operation::DeleteOther(_) => None,
    }
}
