//! Matches and targets: for each one file with its options, how they are printed, and how the kernel keeps them.
//!
//! Options that no rule of ours has are not parsed, and structures that use them are not decoded: the part is unknown then.

mod accounting;
mod address_types;
mod comment;
mod connection_state;
mod ipvs;
mod mark;
mod nat;
mod physical_device;
mod ports;
mod recent;
mod reject;
mod set;
mod statistic;

pub use accounting::Accounting;
pub use address_types::AddressTypes;
pub use comment::Comment;
pub use connection_state::{ConnectionState, Spelling};
pub use ipvs::Ipvs;
pub use mark::{MarkMatch, MarkTarget, MaskedMark};
pub use nat::{AddressRange, DestinationNat, Masquerade, Redirect};
pub use physical_device::PhysicalDevice;
pub use ports::{PortProtocol, PortRange, Ports};
pub use recent::{Recent, RecentAction, Side};
pub use reject::Reject;
pub use set::{SetDirections, SetMatch};
pub use statistic::Statistic;

use std::str::FromStr;

use super::option::OptionCall;
use super::{Context, Match, RuleError, Target};
use crate::netlink::Writer;
use crate::nft::Family;

/// A match or target with options of its own.
pub(super) trait Extension<'a> {
    /// Groups of options; at least one of each group must be there.
    fn required(&self) -> &'static [&'static [&'static str]] {
        &[]
    }

    /// Takes an option; `false` if it is not one of this extension's.
    fn take(&mut self, call: &mut OptionCall<'_, 'a>) -> Result<bool, RuleError>;

    /// Appends it as `iptables-save` prints it, with `-m` or `-j`.
    fn print(&self, family: Family, out: &mut String);

    /// Writes its expressions.
    fn put(&self, writer: &mut Writer, context: &Context<'_>) -> Result<(), RuleError>;
}

/// The match of a name, with no options yet.
pub(super) fn empty_match<'a>(name: &str) -> Option<Match<'a>> {
    Some(match name {
        "tcp" => Match::Ports(Ports::of(PortProtocol::Tcp)),
        "udp" => Match::Ports(Ports::of(PortProtocol::Udp)),
        "sctp" => Match::Ports(Ports::of(PortProtocol::Sctp)),
        "comment" => Match::Comment(Comment::default()),
        "statistic" => Match::Statistic(Statistic::default()),
        "recent" => Match::Recent(Recent::default()),
        "conntrack" => Match::ConnectionState(ConnectionState::spelled(Spelling::Conntrack)),
        "state" => Match::ConnectionState(ConnectionState::spelled(Spelling::State)),
        "addrtype" => Match::AddressTypes(AddressTypes::default()),
        "physdev" => Match::PhysicalDevice(PhysicalDevice::default()),
        "nfacct" => Match::Accounting(Accounting::default()),
        "set" => Match::Set(SetMatch::default()),
        "mark" => Match::Mark(MarkMatch::default()),
        ipvs::NAME => Match::Ipvs(Ipvs::default()),
        _ => return None,
    })
}

/// The target of a name, with no options yet; `None` if it can only be a chain.
pub(super) fn empty_target<'a>(name: &str, family: Family) -> Option<Target<'a>> {
    Some(match name {
        "ACCEPT" => Target::Accept,
        "DROP" => Target::Drop,
        "RETURN" => Target::Return,
        "MARK" => Target::Mark(MarkTarget::default()),
        "DNAT" => Target::DestinationNat(DestinationNat::default()),
        "REDIRECT" => Target::Redirect(Redirect::default()),
        "MASQUERADE" => Target::Masquerade(Masquerade::default()),
        "REJECT" => Target::Reject(Reject::default_of(family)),
        _ => return None,
    })
}

/// The match that the kernel keeps under a name and revision; `None` if it uses anything we do not know.
pub(super) fn decoded_match<'a>(kept: &Kept<'a>, context: &Context<'a>) -> Option<Match<'a>> {
    let info = kept.info;
    Some(match (kept.name, kept.revision) {
        ("tcp", 0) => Match::Ports(Ports::decode_tcp(info)?),
        ("udp", 0) => Match::Ports(Ports::decode_udp(info)?),
        ("sctp", 0) => Match::Ports(Ports::decode_sctp(info)?),
        ("comment", 0) => Match::Comment(Comment::decode(info)?),
        ("statistic", 0) => Match::Statistic(Statistic::decode(info)?),
        ("recent", 1) => Match::Recent(Recent::decode(info, context.family)?),
        ("conntrack", 3) => Match::ConnectionState(ConnectionState::decode(info)?),
        ("addrtype", 1) => Match::AddressTypes(AddressTypes::decode(info)?),
        ("physdev", 0) => Match::PhysicalDevice(PhysicalDevice::decode(info)?),
        ("nfacct", 0 | 1) => Match::Accounting(Accounting::decode(info)?),
        ("set", 1..=4) => Match::Set(SetMatch::decode(info, context.sets)?),
        ("mark", 1) => Match::Mark(MarkMatch::decode(info)?),
        (ipvs::NAME, 0) => Match::Ipvs(Ipvs::decode(info, context.family)?),
        _ => return None,
    })
}

/// The same for targets.
pub(super) fn decoded_target<'a>(kept: &Kept<'a>, context: &Context<'a>) -> Option<Target<'a>> {
    let (info, family) = (kept.info, context.family);
    Some(match (kept.name, kept.revision) {
        ("MARK", 2) => Target::Mark(MarkTarget::decode(info)?),
        ("DNAT", revision) => Target::DestinationNat(DestinationNat::decode(info, revision, family)?),
        ("REDIRECT", 0) => Target::Redirect(Redirect::decode(info, family)?),
        ("MASQUERADE", 0) => Target::Masquerade(Masquerade::decode(info, family)?),
        ("REJECT", 0) => Target::Reject(Reject::decode(info, family)?),
        // Verdicts as targets, which iptables reads but does not write.
        ("ACCEPT", _) => Target::Accept,
        ("DROP", _) => Target::Drop,
        _ => return None,
    })
}

/// An extension as the kernel keeps it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept<'a> {
    pub name: &'a str,
    pub revision: u32,
    pub info: &'a [u8],
}

/// A number, or a range of two with a sign in between.
fn range<T: FromStr + Copy>(text: &str, sign: char) -> Option<(T, T)> {
    match text.split_once(sign) {
        Some((first, last)) => Some((first.parse().ok()?, last.parse().ok()?)),
        None => text.parse().ok().map(|one| (one, one)),
    }
}

/// An exclamation mark in front of a negated option.
fn print_sign(is_negated: bool, out: &mut String) {
    if is_negated {
        out.push_str(" !");
    }
}
