//! The result of a transaction.

use rustix::io::Errno;

use super::Family;
use crate::netlink::{NetlinkError, Rejection};

/// A transaction that was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The ruleset generation that it created.
    pub generation: u32,
    /// Objects written.
    pub written: usize,
    /// Objects removed by name or key.
    pub removed: usize,
}

/// A transaction that failed, or whose outcome is unknown.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Another program has committed since the expected generation; nothing was written.
    #[error(
        "committing to table {family} {table}: another program has changed rules since generation {expected}"
    )]
    GenerationChanged {
        /// The table's family.
        family: Family,
        /// The table.
        table: String,
        /// The generation the transaction was made for.
        expected: u32,
    },
    /// The kernel rejected one operation; nothing was written.
    #[error("{operation} in table {family} {table}")]
    Rejected {
        /// The rejected operation.
        operation: String,
        /// The table's family.
        family: Family,
        /// The table.
        table: String,
        /// The kernel's reply.
        #[source]
        rejection: Rejection,
    },
    /// The table belongs to another program, which alone may change it; nothing was written.
    #[error(
        "table {family} {table} is owned by another program (netlink portid {owner}, mostly its process id) and only \
         that one may change it (flags owner); stop that program, the table goes with it"
    )]
    Owned {
        /// The table's family.
        family: Family,
        /// The table.
        table: String,
        /// The owner's netlink portid.
        owner: u32,
    },
    /// Whether anything was written is not known.
    #[error("committing to table {family} {table}; it is not known whether anything was written")]
    Unknown {
        /// The table's family.
        family: Family,
        /// The table.
        table: String,
        /// Why.
        #[source]
        source: NetlinkError,
    },
    /// A failure that a test injected.
    #[error("injected fault ({0:?})")]
    Injected(InjectedFault),
    /// A dry run could not print what would be committed.
    #[error("printing what would be committed")]
    Print(#[source] std::io::Error),
}

/// When an injected failure strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// Before anything was written.
    Before,
    /// After everything was written.
    After,
}

impl CommitError {
    /// Whether the kernel rejected a change of objects that are in the table already.
    pub fn is_about_existing_objects(&self) -> bool {
        let about_existing = [Errno::EXIST, Errno::OPNOTSUPP, Errno::BUSY, Errno::INVAL, Errno::NOENT];
        match self {
            Self::Rejected { rejection, .. } => about_existing.iter().any(|errno| rejection.is(*errno)),
            Self::GenerationChanged { .. }
            | Self::Owned { .. }
            | Self::Unknown { .. }
            | Self::Injected(_)
            | Self::Print(_) => false,
        }
    }
}
