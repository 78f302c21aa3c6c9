//! The rules of iptables' `nft` variant, written and read over netlink, without running a program.
//!
//! That variant keeps its rules in nf_tables: tables of fixed names, with expressions of nf_tables and, where it has none, the
//! structures of x_tables inside the expressions `match` and `target`. [`XtRule`] is one rule as data; it is parsed from text,
//! printed as `iptables-save` prints it, encoded exactly as iptables 1.8.9 encodes it, and decoded from what any version wrote.
//! All of that is pure. [`NetlinkTables`] does the reading and writing.
//!
//! Rules of other programs may have parts that are not known here. They are printed with an option that no program
//! parses, so that they can be compared and deleted, but never written.

mod batch;
mod client;
mod commit;
mod decode;
mod encode;
mod error;
mod expressions;
mod extensions;
mod lines;
mod option;
mod outline;
mod parse;
mod print;
mod probe;
mod reading;
mod rule;
mod sets;
mod structure;
mod tables;
#[cfg(test)]
mod tests;
mod words;

pub use client::NetlinkTables;
pub use commit::StampedChain;
pub use error::RuleError;
pub use extensions::{
    Accounting, AddressRange, AddressTypes, Comment, ConnectionState, DestinationNat, Ipvs, MarkMatch,
    MarkTarget, MaskedMark, Masquerade, PhysicalDevice, PortProtocol, PortRange, Ports, Recent, RecentAction,
    Redirect, Reject, SetDirections, SetMatch, Side, Spelling, Statistic,
};
pub use rule::{Match, Negatable, Target, Unknown, UnknownKind, XtRule};
pub use sets::SetNames;

use super::{Token, tokens};
use crate::nft::Family;

/// Whether a rule was read from one that is only known in part. What a comment says does not count.
pub(super) fn is_opaque(text: &str) -> bool {
    let is_mark = |token: &Token| *token == Token::Bare(print::NOT_UNDERSTOOD.to_owned());
    text.contains(print::NOT_UNDERSTOOD) && tokens(text).iter().any(is_mark)
}

/// What a rule's encoding depends on beside the rule.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The tables' family.
    pub family: Family,
    /// The ipsets there are.
    pub sets: &'a SetNames,
}
