//! A rule as typed data: what is matched, and what becomes of the packet.
//!
//! Borrows names and texts from what it was parsed or decoded from, so that hundreds of thousands of rules can pass through
//! without being copied. Matches and targets are in [`super::extensions`].

use std::borrow::Cow;

use smallvec::SmallVec;

use super::super::Block;
use super::extensions::{
    Accounting, AddressTypes, Comment, ConnectionState, DestinationNat, Extension, Ipvs, MarkMatch,
    MarkTarget, Masquerade, PhysicalDevice, Ports, Recent, Redirect, Reject, SetMatch, Statistic,
};

/// A condition that may be negated: `! -s 10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negatable<T> {
    /// Whether it stands behind an exclamation mark.
    pub is_negated: bool,
    /// What is compared with.
    pub value: T,
}

/// A rule without the name of its chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XtRule<'a> {
    /// `-s`
    pub source: Option<Negatable<Block>>,
    /// `-d`
    pub destination: Option<Negatable<Block>>,
    /// `-i`; a trailing plus sign stands for any end of the name.
    pub input: Option<Negatable<Cow<'a, str>>>,
    /// `-o`
    pub output: Option<Negatable<Cow<'a, str>>>,
    /// `-p`
    pub protocol: Option<Negatable<u8>>,
    /// `-m`, in their order.
    pub matches: SmallVec<[Match<'a>; 3]>,
    /// `-j` or `-g`
    pub target: Target<'a>,
}

/// A match.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is described by its type")]
pub enum Match<'a> {
    Ports(Ports),
    Comment(Comment<'a>),
    Statistic(Statistic),
    Recent(Recent<'a>),
    ConnectionState(ConnectionState),
    AddressTypes(AddressTypes),
    PhysicalDevice(PhysicalDevice<'a>),
    Accounting(Accounting<'a>),
    Set(SetMatch<'a>),
    Mark(MarkMatch),
    Ipvs(Ipvs),
    Unknown(Unknown<'a>),
}

/// What becomes of a packet that matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is described by its type or is iptables' own word")]
pub enum Target<'a> {
    /// Nothing: the rule only counts, or only its matches have effects.
    #[default]
    None,
    Accept,
    Drop,
    Return,
    Jump(Cow<'a, str>),
    Goto(Cow<'a, str>),
    Mark(MarkTarget),
    DestinationNat(DestinationNat),
    Redirect(Redirect),
    Masquerade(Masquerade),
    Reject(Reject),
    Unknown(Unknown<'a>),
}

/// A part of another program's rule that we cannot express. It can be compared and printed, but never written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown<'a> {
    /// The name of the match, target or expression.
    pub name: Cow<'a, str>,
    /// What has this name.
    pub kind: UnknownKind,
    /// A hash of its encoding, by which such parts are distinguished.
    pub digest: u64,
}

/// What an unknown part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownKind {
    /// A match of this revision.
    Match(u32),
    /// A target of this revision.
    Target(u32),
    /// An expression of nf_tables.
    Expression,
}

impl XtRule<'_> {
    /// Whether every part is known, so that the rule can be written.
    pub fn is_understood(&self) -> bool {
        let is_known = |part: &Match<'_>| !matches!(part, Match::Unknown(_));
        self.matches.iter().all(is_known) && !matches!(self.target, Target::Unknown(_))
    }
}

impl<'a> Match<'a> {
    /// The options of the match; `None` if it is not known.
    pub(super) fn extension(&self) -> Option<&dyn Extension<'a>> {
        Some(match self {
            Self::Ports(ports) => ports,
            Self::Comment(comment) => comment,
            Self::Statistic(statistic) => statistic,
            Self::Recent(recent) => recent,
            Self::ConnectionState(state) => state,
            Self::AddressTypes(types) => types,
            Self::PhysicalDevice(device) => device,
            Self::Accounting(counter) => counter,
            Self::Set(set) => set,
            Self::Mark(mark) => mark,
            Self::Ipvs(ipvs) => ipvs,
            Self::Unknown(_) => return None,
        })
    }

    /// The same while it is being parsed.
    pub(super) fn extension_mut(&mut self) -> Option<&mut dyn Extension<'a>> {
        Some(match self {
            Self::Ports(ports) => ports,
            Self::Comment(comment) => comment,
            Self::Statistic(statistic) => statistic,
            Self::Recent(recent) => recent,
            Self::ConnectionState(state) => state,
            Self::AddressTypes(types) => types,
            Self::PhysicalDevice(device) => device,
            Self::Accounting(counter) => counter,
            Self::Set(set) => set,
            Self::Mark(mark) => mark,
            Self::Ipvs(ipvs) => ipvs,
            Self::Unknown(_) => return None,
        })
    }
}

impl<'a> Target<'a> {
    /// The options of the target; `None` for verdicts, and if it is not known.
    pub(super) fn extension(&self) -> Option<&dyn Extension<'a>> {
        Some(match self {
            Self::Mark(mark) => mark,
            Self::DestinationNat(nat) => nat,
            Self::Redirect(redirect) => redirect,
            Self::Masquerade(masquerade) => masquerade,
            Self::Reject(reject) => reject,
            Self::None
            | Self::Accept
            | Self::Drop
            | Self::Return
            | Self::Jump(_)
            | Self::Goto(_)
            | Self::Unknown(_) => return None,
        })
    }

    /// The same while it is being parsed.
    pub(super) fn extension_mut(&mut self) -> Option<&mut dyn Extension<'a>> {
        Some(match self {
            Self::Mark(mark) => mark,
            Self::DestinationNat(nat) => nat,
            Self::Redirect(redirect) => redirect,
            Self::Masquerade(masquerade) => masquerade,
            Self::Reject(reject) => reject,
            Self::None
            | Self::Accept
            | Self::Drop
            | Self::Return
            | Self::Jump(_)
            | Self::Goto(_)
            | Self::Unknown(_) => return None,
        })
    }
}

impl<T> Negatable<T> {
    /// A condition that is not negated.
    pub fn plain(value: T) -> Self {
        Self { is_negated: false, value }
    }
}
