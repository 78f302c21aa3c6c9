//! The iptables commands: saving and restoring x_tables rules, and parsing what was saved.
//!
//! There is no kernel interface to use instead: what the `nft` variant writes into nf_tables is private to it, and the
//! `legacy` variant takes a lock that all users of iptables share.
//! [`RestoreText`], [`Saved`] and [`CanonicalRule`] are pure; [`IptablesCommands`] runs `iptables-save` and
//! `iptables-restore`. Which rules there should be is decided by the backends.

mod canonical_rule;
mod commands;
mod error;
pub mod legacy;
mod lock;
mod restore_text;
mod rule_text;
mod saved;

pub use canonical_rule::{CanonicalRule, Token, tokens};
pub use commands::{IptablesCommands, LOCK_TIMEOUT_SECONDS, Variant};
pub use error::IptablesError;
pub use restore_text::{IsChain, RestoreText, TableText};
pub use rule_text::{
    Block, ChainName, Comment, Mark, Probability, Quoted, RuleArgument, RuleBuilder, RuleText,
};
pub use saved::{Saved, SavedChain, SavedRule, SavedTable};
