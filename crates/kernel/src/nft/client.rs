//! The client for one table: the socket, and commits.
//!
//! Batches are encoded in [`super::batch`]; reads are in [`super::listings`], notifications in [`super::watch`].

use rustix::io::Errno;

use super::batch::{Batch, Part, Step};
use super::encode::TableName;
use super::{CommitError, Committed, Family, Name, Operation, Transaction};
use crate::netlink::{Incoming, NetlinkError, Protocol, Rejection, Socket};
use crate::port::{NftReader as _, NftTables};

/// The table's name, the same as kube-proxy's.
pub const TABLE: &str = "kube-proxy";

/// The kernel's error code for a batch whose expected generation is outdated.
const ERESTART: i32 = 85;

/// A client for one family's table.
#[derive(Debug)]
pub struct NftClient {
    pub(super) socket: Socket,
    pub(super) table: TableName,
}

impl NftClient {
    /// Opens a socket. The table need not exist.
    pub fn open(family: Family) -> Result<Self, NetlinkError> {
        Self::open_table(family, TABLE)
    }

    /// Like [`Self::open`], for a table of another name.
    pub fn open_table(family: Family, table: &str) -> Result<Self, NetlinkError> {
        let socket = Socket::open(Protocol::Netfilter, &[])?;
        Ok(Self { socket, table: TableName { family, name: Name::new(table) } })
    }

    /// The kernel processes a batch while it is being sent: when that returns, every reply has arrived.
    fn read_replies(&mut self, transaction: &Transaction, batch: &Batch) -> Result<(), CommitError> {
        let mut first_rejection: Option<(u32, Rejection)> = None;
        let mut accepted = false;
        loop {
            let incoming = self.socket.receive_now(|message| match message.acknowledgement() {
                Some(Ok(())) => accepted |= message.sequence == batch.last_sequence(),
                Some(Err(rejection)) if first_rejection.is_none() => {
                    first_rejection = Some((message.sequence, rejection));
                }
                Some(Err(_)) | None => {}
            });
            // After one failure every later message fails as well, and not all of those errors may fit.
            match incoming.map_err(|error| self.unknown(error))? {
                Incoming::Messages | Incoming::Overrun => {}
                Incoming::Nothing => break,
            }
        }
        match first_rejection {
            Some((sequence, rejection)) => {
                let owner = self.foreign_owner(rejection.errno);
                let error = self.rejected(transaction, batch.step(sequence), rejection);
                Err(owner.unwrap_or(error))
            }
            None if accepted => Ok(()),
            None => Err(self.unknown(NetlinkError::Unreadable { operation: "committing to nf_tables" })),
        }
    }

    /// The kernel rejects with EPERM what only the owner of a table may do, without naming the owner.
    fn foreign_owner(&mut self, errno: i32) -> Option<CommitError> {
        if Errno::from_raw_os_error(errno) != Errno::PERM {
            return None;
        }
        let owner = self.table().ok()??.owner?;
        Some(CommitError::Owned { family: self.table.family, table: self.table.name.to_string(), owner })
    }

    fn rejected(&self, transaction: &Transaction, step: Option<&Step>, rejection: Rejection) -> CommitError {
        let (family, table) = (self.table.family, self.table.name.to_string());
        if let Some(expected) = transaction.expected_generation()
            && rejection.errno == ERESTART
        {
            return CommitError::GenerationChanged { family, table, expected };
        }
        let of_step = |step: &Step| Some(describe(transaction.operations().get(step.operation)?, &step.part));
        let operation = step.and_then(of_step).unwrap_or_else(|| {
            format!("committing {} objects", transaction.written() + transaction.removed())
        });
        CommitError::Rejected { operation, family, table, rejection }
    }

    fn unknown(&self, source: NetlinkError) -> CommitError {
        CommitError::Unknown { family: self.table.family, table: self.table.name.to_string(), source }
    }
}

impl NftTables for NftClient {
    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        let first = self.socket.reserve_sequences(0);
        let batch = Batch::new(&self.table, transaction, first);
        self.socket.reserve_sequences(batch.messages());
        if !transaction.is_empty() {
            self.socket
                .send("committing to nf_tables", batch.as_bytes())
                .map_err(|error| self.unknown(error))?;
            self.read_replies(transaction, &batch)?;
        }
        let generation = self.generation().map_err(|error| self.unknown(error))?;
        let generation = own_generation(transaction.expected_generation(), generation);
        Ok(Committed { generation, written: transaction.written(), removed: transaction.removed() })
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
