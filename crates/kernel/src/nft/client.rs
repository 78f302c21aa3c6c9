//! One table of the kernel: the connection, and commits.
//!
//! What is sent is made in [`super::batch`]; reading back is in [`super::listings`], listening in [`super::watch`].

use rustix::io::Errno;

use super::batch::{Batch, Part};
use super::encode::TableName;
use super::numbers::{FIXED, generation, kind, message};
use super::{CommitError, Committed, Family, Name, Operation, Transaction};
use crate::netlink::{Incoming, NetlinkError, Protocol, Refusal, Request, Socket};

/// The name kube-proxy gives its table, and so do we.
pub const TABLE: &str = "kube-proxy";

/// What the kernel says when the generation it was told is not the one it has.
const ERESTART: i32 = 85;

/// One family's table.
#[derive(Debug)]
pub struct NftClient {
    pub(super) socket: Socket,
    pub(super) table: TableName,
}

impl NftClient {
    /// A connection to the kernel. Whether the table exists does not matter yet.
    pub fn open(family: Family) -> Result<Self, NetlinkError> {
        Self::open_table(family, TABLE)
    }

    /// The same for a table of another name.
    pub fn open_table(family: Family, table: &str) -> Result<Self, NetlinkError> {
        let socket = Socket::open(Protocol::Netfilter, &[])?;
        Ok(Self { socket, table: TableName { family, name: Name::new(table) } })
    }

    /// The table's family.
    pub fn family(&self) -> Family {
        self.table.family
    }

    /// The table's name.
    pub fn table_name(&self) -> &Name {
        &self.table.name
    }

    /// The netlink address by which events tell our own commits from others'.
    pub fn port(&self) -> u32 {
        self.socket.port()
    }

    /// The number that grows with every change of any rules by anyone.
    pub fn generation(&mut self) -> Result<u32, NetlinkError> {
        let body = self.fixed();
        let request = Request {
            operation: "asking for the generation of nf_tables",
            kind: kind(message::GET_GENERATION),
            body: &body,
        };
        self.socket.get(request, |message| message.attributes(FIXED).number(generation::ID))
    }

    /// Makes all of a transaction happen, or nothing.
    pub fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        let first = self.socket.take_sequences(0);
        let batch = Batch::new(&self.table, transaction, first);
        self.socket.take_sequences(batch.messages());
        if !transaction.is_empty() {
            self.socket
                .send("committing to nf_tables", batch.as_bytes())
                .map_err(|error| self.unknown(error))?;
            self.answer(transaction, &batch)?;
        }
        let generation = self.generation().map_err(|error| self.unknown(error))?;
        let generation = own_generation(transaction.expected_generation(), generation);
        Ok(Committed { generation, written: transaction.written(), removed: transaction.removed() })
    }

    /// The whole batch was worked through when sending it returned: every answer is here already.
    fn answer(&mut self, transaction: &Transaction, batch: &Batch) -> Result<(), CommitError> {
        let mut first_refusal: Option<(u32, Refusal)> = None;
        let mut accepted = false;
        loop {
            let incoming = self.socket.receive_now(|message| match message.answer() {
                Some(Ok(())) => accepted |= message.sequence == batch.last_sequence(),
                Some(Err(refusal)) if first_refusal.is_none() => {
                    first_refusal = Some((message.sequence, refusal));
                }
                Some(Err(_)) | None => {}
            });
            // After one failure every later message fails as well, and not all of those errors may fit.
            match incoming.map_err(|error| self.unknown(error))? {
                Incoming::Messages | Incoming::Overrun => {}
                Incoming::Nothing => break,
            }
        }
        match first_refusal {
            Some((sequence, refusal)) => {
                let owner = self.foreign_owner(refusal.errno);
                let error = self.refused(transaction, batch.part(sequence), refusal);
                Err(owner.unwrap_or(error))
            }
            None if accepted => Ok(()),
            None => Err(self.unknown(NetlinkError::Unreadable { operation: "committing to nf_tables" })),
        }
    }

    /// The kernel refuses with EPERM what only the owner of a table may do. It says so of every object, and never who that is.
    fn foreign_owner(&mut self, errno: i32) -> Option<CommitError> {
        if Errno::from_raw_os_error(errno) != Errno::PERM {
            return None;
        }
        let owner = self.table().ok()??.owner?;
        Some(CommitError::Owned { family: self.table.family, table: self.table.name.to_string(), owner })
    }

    fn refused(
        &self,
        transaction: &Transaction,
        part: Option<&(usize, Part)>,
        refusal: Refusal,
    ) -> CommitError {
        let (family, table) = (self.table.family, self.table.name.to_string());
        if let Some(expected) = transaction.expected_generation()
            && refusal.errno == ERESTART
        {
            return CommitError::GenerationChanged { family, table, expected };
        }
        let operation = match part.and_then(|(at, part)| Some((transaction.operations().get(*at)?, part))) {
            Some((operation, part)) => describe(operation, part),
            None => format!("committing {} objects", transaction.written() + transaction.removed()),
        };
        CommitError::Refused { operation, family, table, refusal }
    }

    fn unknown(&self, source: NetlinkError) -> CommitError {
        CommitError::Unknown { family: self.table.family, table: self.table.name.to_string(), source }
    }
}

/// Every commit that changes anything adds one; zero is never used.
///
/// If the expected generation was checked, ours is the next one, whatever others have done since.
fn own_generation(expected: Option<u32>, now: u32) -> u32 {
    match expected {
        Some(expected) if expected != now => expected.wrapping_add(1).max(1),
        Some(_) | None => now,
    }
}

fn describe(operation: &Operation, part: &Part) -> String {
    let what = super::show::doing(operation);
    match (part, operation) {
        (Part::Object, _) => what,
        (Part::Flush, _) => format!("{what}, emptying it"),
        (Part::Rule(number), _) => format!("{what}, rule {}", number + 1),
        (Part::Elements(range), _) => format!("{what}, elements {} to {}", range.start + 1, range.end),
    }
}
