//! A text as one batch of netlink messages, which the kernel carries out as a whole or not at all.
//!
//! Pure. Remembers the line of every message, so that an error names the right one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::lines::{BadLine, Change, Line, RuleOf, lines};
use super::tables::{BuiltInChain, BuiltInTable};
use super::{Context, RuleError, XtRule};
use crate::netlink::{MessageHeader, Position, Writer, flags};
use crate::nft::constants::{
    BATCH_BEGIN, BATCH_END, BATCH_GENERATION, SUBSYSTEM, chain, kind, message, rule, table,
};

/// Deletes a chain only if it is empty.
const NOT_RECURSIVE: u16 = 0x100;

/// Rules that can be deleted: for each chain the handles of the rules of a text, the first one first.
pub(super) type Handles = BTreeMap<(String, String), BTreeMap<String, VecDeque<u64>>>;

/// What was read before, of one generation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Known {
    /// Built-in chains that do not exist yet.
    pub missing: Vec<(&'static str, &'static BuiltInChain)>,
    /// The rules of the chains that rules are deleted from.
    pub handles: Handles,
    /// The lines that would remove chains which rules of other programs still use: those chains stay, emptied.
    pub kept: BTreeSet<usize>,
}

/// User data of a chain, which is replaced for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChainData<'a> {
    pub table: &'a str,
    pub chain: &'a str,
    pub data: &'a [u8],
}

/// Whether a batch is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Commit,
    /// The kernel checks everything and changes nothing.
    Abort,
}

/// A batch, ready to be sent.
#[derive(Debug)]
pub(super) struct Batch {
    writer: Writer,
    first_sequence: u32,
    /// The line of each message behind the opening one; zero if it has none.
    lines: Vec<u32>,
    family: u8,
    /// Where the stamp and the end begin, and how many messages are before them.
    body_end: Position,
    body_messages: usize,
}

/// A rule is encoded in some two or three times as many bytes as its text has.
const ENCODED_LENGTH: usize = 3;

/// Where the opening message has the generation: behind its header, the header of nfnetlink and that of the attribute.
const GENERATION_OFFSET: usize = 16 + 4 + 4;

impl Batch {
    /// Encodes a text. Sequence numbers start at `first_sequence`.
    pub(super) fn new<'t>(
        text: &'t str,
        known: Known,
        context: Context<'_>,
        first_sequence: u32,
    ) -> Result<Self, BadLine<'t>> {
        let family = context.family.number();
        let mut batch = Self {
            writer: Writer::with_capacity(text.len().saturating_mul(ENCODED_LENGTH)),
            first_sequence,
            lines: Vec::new(),
            family,
            body_end: Position::default(),
            body_messages: 0,
        };
        // Made for a generation of its own later: see `finish`.
        batch.frame(BATCH_BEGIN, Some(0));
        let Known { missing, handles, kept } = known;
        let mut encoder = Encoder { batch: &mut batch, context, handles, kept, removed: BTreeSet::new() };
        encoder.chains_first(text, missing)?;
        for line in lines(text) {
            let line = line?;
            let bad = |error| BadLine { number: line.number, text: line.text, error };
            encoder.line(&line).map_err(bad)?;
        }
        (batch.body_end, batch.body_messages) = (batch.writer.position(), batch.lines.len());
        Ok(batch)
    }

    /// Makes the batch ready to be sent for a generation, or for any if it is zero. It can be finished again for another one: a
    /// hundred thousand rules are not encoded again because another program committed meanwhile.
    pub(super) fn finish(&mut self, generation: u32, stamp: Option<ChainData<'_>>, ending: Ending) {
        self.writer.rewind(self.body_end);
        self.lines.truncate(self.body_messages);
        self.writer.overwrite(GENERATION_OFFSET, &generation.to_be_bytes());
        if let Some(stamp) = stamp {
            self.replace_chain(stamp);
        }
        self.end(ending);
    }

    /// Replaces a chain by an empty one with user data.
    fn replace_chain(&mut self, with: ChainData<'_>) {
        let ChainData { table, chain, data } = with;
        self.put_table(0, table);
        self.create_chain(0, table, chain);
        self.flush(0, table, chain);
        self.remove_chain(0, table, chain);
        self.put(0, (message::NEW_CHAIN, flags::CREATE), |writer| {
            put_names(writer, table, chain);
            writer.bytes(chain::USER_DATA, data);
        });
    }

    /// Closes the batch.
    fn end(&mut self, ending: Ending) {
        // Only the last message is acknowledged. Not the end of the batch, which kernels before 6.10 do not acknowledge.
        if !self.lines.is_empty() {
            self.writer.add_flags_to_last_message(flags::ACK);
        }
        match ending {
            Ending::Commit => self.frame(BATCH_END, None),
            Ending::Abort => {}
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.writer.as_bytes()
    }

    /// The number of sequence numbers.
    pub(super) fn messages(&self) -> u32 {
        u32::try_from(self.lines.len()).unwrap_or(u32::MAX).saturating_add(2)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The sequence number of the message that is acknowledged after success.
    pub(super) fn last_sequence(&self) -> u32 {
        self.first_sequence.wrapping_add(self.messages() - 2)
    }

    /// The line that the message with this sequence number belongs to.
    pub(super) fn line(&self, sequence: u32) -> Option<usize> {
        let index = sequence.wrapping_sub(self.first_sequence).checked_sub(1)?;
        let line = *self.lines.get(usize::try_from(index).ok()?)?;
        usize::try_from(line).ok().filter(|line| *line > 0)
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

    fn put(&mut self, line: usize, message: (u16, u16), body: impl FnOnce(&mut Writer)) {
        self.lines.push(u32::try_from(line).unwrap_or(0));
        let behind = u32::try_from(self.lines.len()).unwrap_or(u32::MAX);
        let sequence = self.first_sequence.wrapping_add(behind);
        let (message, more) = message;
        let family = self.family;
        let header = MessageHeader { kind: kind(message), flags: flags::REQUEST | more, sequence };
        self.writer.message(header, |writer| {
            writer.raw(&[family, 0, 0, 0]);
            body(writer);
        });
    }

    /// Creates a table. One that another program switched off (`flags dormant`) is in effect again.
    fn put_table(&mut self, line: usize, name: &str) {
        self.put(line, (message::NEW_TABLE, flags::CREATE), |writer| {
            writer.text(table::NAME, name);
            writer.number(table::FLAGS, 0);
        });
    }

    fn create_chain(&mut self, line: usize, table: &str, name: &str) {
        self.put(line, (message::NEW_CHAIN, flags::CREATE), |writer| put_names(writer, table, name));
    }

    fn create_built_in(&mut self, table: &str, built_in: &BuiltInChain) {
        self.put(0, (message::NEW_CHAIN, flags::CREATE), |writer| {
            put_names(writer, table, built_in.name);
            writer.nest(chain::HOOK, |writer| {
                writer.number(chain::HOOK_NUMBER, built_in.hook);
                writer.number(chain::HOOK_PRIORITY, built_in.priority.cast_unsigned());
            });
            writer.number(chain::POLICY, chain::ACCEPT);
            writer.text(chain::TYPE, built_in.kind);
        });
    }

    fn remove_chain(&mut self, line: usize, table: &str, name: &str) {
        self.put(line, (message::DELETE_CHAIN, NOT_RECURSIVE), |writer| put_names(writer, table, name));
    }

    /// Deletes all rules of a chain.
    fn flush(&mut self, line: usize, table: &str, chain: &str) {
        self.put(line, (message::DELETE_RULE, 0), |writer| {
            writer.text(rule::TABLE, table);
            writer.text(rule::CHAIN, chain);
        });
    }
}

/// The first two attributes of a chain.
fn put_names(writer: &mut Writer, table: &str, name: &str) {
    writer.text(chain::TABLE, table);
    writer.text(chain::NAME, name);
}

struct Encoder<'b, 'c, 't> {
    batch: &'b mut Batch,
    context: Context<'c>,
    handles: Handles,
    kept: BTreeSet<usize>,
    /// Chains that were removed earlier in the text.
    removed: BTreeSet<(&'static str, &'t str)>,
}

impl<'t> Encoder<'_, '_, 't> {
    /// Rules may jump to chains that are declared later, so all chains come first.
    fn chains_first(
        &mut self,
        text: &'t str,
        mut missing: Vec<(&'static str, &'static BuiltInChain)>,
    ) -> Result<(), BadLine<'t>> {
        for line in lines(text) {
            let line = line?;
            match line.change {
                Change::Begin => {
                    self.batch.put_table(line.number, line.table.name);
                    for (table, chain) in missing.extract_if(.., |(table, _)| *table == line.table.name) {
                        self.batch.create_built_in(table, chain);
                    }
                }
                Change::Declare(chain) => self.batch.create_chain(line.number, line.table.name, chain),
                Change::Append(_) | Change::Insert(_) | Change::Delete(_) | Change::Remove(_) => {}
            }
        }
        Ok(())
    }

    fn line(&mut self, line: &Line<'t>) -> Result<(), RuleError> {
        let (number, table) = (line.number, line.table);
        match line.change {
            Change::Begin => {}
            Change::Declare(chain) if self.removed.remove(&(table.name, chain)) => {
                self.batch.create_chain(number, table.name, chain);
            }
            Change::Declare(chain) => {
                self.batch.flush(number, table.name, chain);
                // Its rules can no longer be deleted one by one.
                if !self.handles.is_empty() {
                    self.handles.remove(&(table.name.to_owned(), chain.to_owned()));
                }
            }
            Change::Append(rule) => self.rule(line, rule, flags::APPEND)?,
            Change::Insert(rule) => self.rule(line, rule, 0)?,
            Change::Delete(rule) => self.delete(number, table, rule)?,
            Change::Remove(_) if self.kept.contains(&number) => {}
            Change::Remove(chain) => {
                self.removed.insert((table.name, chain));
                self.batch.remove_chain(number, table.name, chain);
            }
        }
        Ok(())
    }

    fn rule(&mut self, line: &Line<'t>, rule: RuleOf<'t>, more: u16) -> Result<(), RuleError> {
        if rule.is_opaque() {
            return Err(RuleError::NotUnderstood);
        }
        let parsed = XtRule::parse(rule.text, self.context.family)?;
        let (context, mut result) = (self.context, Ok(()));
        self.batch.put(line.number, (message::NEW_RULE, flags::CREATE | more), |writer| {
            writer.text(rule::TABLE, line.table.name);
            writer.text(rule::CHAIN, rule.chain);
            result = parsed.encode(writer, &context);
        });
        result
    }

    /// Deletes the first rule that means the same and was not deleted before.
    fn delete(&mut self, line: usize, table: &BuiltInTable, rule: RuleOf<'t>) -> Result<(), RuleError> {
        let mut text = String::new();
        if rule.is_opaque() {
            text.push_str(rule.text);
        } else {
            XtRule::parse(rule.text, self.context.family)?.print(self.context.family, &mut text);
        }
        let rules = self.handles.get_mut(&(table.name.to_owned(), rule.chain.to_owned()));
        let handle = rules.and_then(|rules| rules.get_mut(&text)?.pop_front());
        let handle = handle.ok_or_else(|| RuleError::MissingRule(rule.chain.to_owned()))?;
        self.batch.put(line, (message::DELETE_RULE, 0), |writer| {
            writer.text(rule::TABLE, table.name);
            writer.text(rule::CHAIN, rule.chain);
            writer.long(rule::HANDLE, handle);
        });
        Ok(())
    }
}
