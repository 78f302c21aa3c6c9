//! The rules of iptables: saved, restored and compared, with its commands or without.
//!
//! [`IptablesCommands`] runs `iptables-save` and `iptables-restore`. What the `nft` variant keeps in nf_tables can also be written
//! and read over netlink, much faster: [`direct`]. The `legacy` variant has no such interface, and takes a lock that all users of
//! iptables share. [`RestoreText`], [`Saved`] and [`CanonicalRule`] are pure. Which rules there should be is decided by the
//! backends.

mod access;
mod canonical_rule;
mod commands;
pub mod direct;
mod error;
pub mod legacy;
mod lock;
mod restore_text;
mod rule_text;
mod saved;

pub use access::{AccessPolicy, ChosenAccess, TableAccess, if_present};
pub use canonical_rule::{CanonicalRule, Token, tokens};
pub use commands::{IptablesCommands, LOCK_TIMEOUT_SECONDS, Variant};
pub use direct::{NetlinkTables, RuleError, StampedChain};
pub use error::IptablesError;
pub use restore_text::{IsChain, RestoreText, TableText};
pub use rule_text::{
    Block, ChainName, Comment, Mark, Probability, Quoted, RuleArgument, RuleBuilder, RuleText,
};
pub use saved::{Saved, SavedChain, SavedRule, SavedTable};
