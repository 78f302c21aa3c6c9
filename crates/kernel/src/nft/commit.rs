//! What became of a transaction.

use rustix::io::Errno;

use super::Family;
use crate::netlink::{NetlinkError, Refusal};

/// A transaction that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The generation of all rules that it made.
    pub generation: u32,
    /// How many objects were written.
    pub written: usize,
    /// How many objects were removed by name or key.
    pub removed: usize,
}

/// A transaction that did not happen, or of which we do not know.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Another program changed some rules since the transaction was made; nothing happened.
    #[error(
        "committing to table {family} {table}: another program has changed rules since generation {expected}"
    )]
    GenerationChanged {
        /// The table's family.
        family: Family,
        /// The table.
        table: String,
        /// The generation it was made for.
        expected: u32,
    },
    /// The kernel refused one operation; nothing happened.
    #[error("{operation} in table {family} {table}")]
    Refused {
        /// What was refused.
        operation: String,
        /// The table's family.
        family: Family,
        /// The table.
        table: String,
        /// What the kernel says.
        #[source]
        refusal: Refusal,
    },
    /// The table belongs to another program, which alone may change it; nothing happened.
    #[error(
        "table {family} {table} is owned by another program (netlink portid {owner}, mostly its process id) and only \
         that one may change it (flags owner); stop that program, the table goes with it"
    )]
    Owned {
        /// The table's family.
        family: Family,
        /// The table.
        table: String,
        /// The owner's netlink address.
        owner: u32,
    },
    /// Whether anything happened is not known.
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
    /// A failure that a test asked for.
    #[error("a failure on purpose ({0:?})")]
    OnPurpose(OnPurpose),
    /// What would have been done could not be printed.
    #[error("printing what would be committed")]
    Print(#[source] std::io::Error),
}

/// When a failure on purpose strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnPurpose {
    /// Before anything happened.
    Before,
    /// After all of it happened.
    After,
}

impl CommitError {
    /// Whether what is in the table already is what the kernel refused to change.
    pub fn is_about_existing_objects(&self) -> bool {
        let about_existing = [Errno::EXIST, Errno::OPNOTSUPP, Errno::BUSY, Errno::INVAL, Errno::NOENT];
        match self {
            Self::Refused { refusal, .. } => about_existing.iter().any(|errno| refusal.is(*errno)),
            Self::GenerationChanged { .. }
            | Self::Owned { .. }
            | Self::Unknown { .. }
            | Self::OnPurpose(_)
            | Self::Print(_) => false,
        }
    }
}
