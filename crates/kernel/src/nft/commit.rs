//! What became of a transaction.

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
