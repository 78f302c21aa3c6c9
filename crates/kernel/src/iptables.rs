//! The iptables programs: saving and restoring x_tables rules, and reading what was saved.
//!
//! There is no kernel interface to use instead: what the `nft` variant writes into nf_tables is its own affair, and the
//! `legacy` variant takes a lock that all users of iptables share.
//! [`RestoreText`], [`Saved`] and [`RuleWords`] are pure; [`Programs`] runs `iptables-save` and `iptables-restore`. Which
//! rules there should be is not known here.

mod error;
mod lock;
mod programs;
mod restore_text;
mod rule_text;
mod saved;
mod words;

pub use error::IptablesError;
pub use programs::{LOCK_PATIENCE_SECONDS, Programs, Variant};
pub use restore_text::{IsChain, RestoreText, TableText};
pub use rule_text::{
    Block, ChainName, Comment, Mark, Probability, Quoted, RuleArgument, RuleBuilder, RuleText,
};
pub use saved::{Saved, SavedChain, SavedRule, SavedTable};
pub use words::{RuleWords, Word, words};
