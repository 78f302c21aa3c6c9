//! Tables, sets, chains, rules and elements, as plain comparable data.
//!
//! Their encoding is in [`super::encode`]; what they mean is up to the backends.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use super::Expression;

/// The family of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// `ip`
    Ip,
    /// `ip6`
    Ip6,
}

impl Family {
    /// The length of an address in bits.
    pub fn address_bits(self) -> u8 {
        match self {
            Self::Ip => 32,
            Self::Ip6 => 128,
        }
    }
}

/// The name of a set, map or chain.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// Copies the text, unchecked.
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// A named set, or a map if it has data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// Its name.
    pub name: Name,
    /// The fields of its keys; more than one make a concatenation.
    pub key: Vec<Field>,
    /// What its keys map to, if it is a map.
    pub data: Option<SetData>,
    /// Packets write elements, and they expire: `flags dynamic,timeout`.
    pub dynamic: bool,
    /// Each element has a counter. With [`Self::dynamic`], elements do not expire: `flags dynamic`.
    pub counted: bool,
    /// The maximum number of elements, if there is one.
    pub size: Option<u32>,
    /// Shown by `nft list`.
    pub comment: Option<String>,
}

/// The values of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetData {
    /// A verdict.
    Verdict,
    /// A value of these fields.
    Fields(Vec<Field>),
}

/// One field of a key or value. The kernel pads each to four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `ipv4_addr` or `ip daddr`, by how the set is declared.
    Ipv4Addr,
    /// `ipv6_addr` or `ip6 daddr`.
    Ipv6Addr,
    /// `inet_proto` or `meta l4proto`.
    Protocol,
    /// `inet_service` or `th dport`.
    Port,
    /// Any 32-bit number in host order, declared as `numgen random mod 2`.
    Slot,
    /// A 32-bit number kept in `meta priority`.
    Priority,
}

/// Bytes of a key.
pub type KeyBytes = SmallVec<[u8; 40]>;
/// Bytes of a value.
pub type DataBytes = SmallVec<[u8; 24]>;

/// One element of a set or map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// The set it is in.
    pub set: Name,
    /// Its key as the kernel has it: each field padded to four bytes, addresses and ports big-endian, slots and
    /// priorities in host order.
    pub key: KeyBytes,
    /// The value, in a map.
    pub value: Option<Value>,
}

/// One element of a set whose elements have counters ([`Set::counted`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedElement {
    /// The set it is in.
    pub set: Name,
    /// Its key, as in [`Element`].
    pub key: KeyBytes,
    /// Shown by `nft list`.
    pub comment: Option<String>,
    /// How many packets met it; where it is written, how many count already.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The value of a map's element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Bytes of the map's data fields, padded like keys.
    Data(DataBytes),
    /// A verdict.
    Verdict(Verdict),
}

/// The verdict on a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Continue in another chain without returning.
    Goto(Name),
    /// Continue in another chain and return.
    Jump(Name),
    /// Return to the calling chain.
    Return,
    /// Drop it silently.
    Drop,
    /// Accept it.
    Accept,
}

/// An object of a kind that we never create, but that another program may add to the table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OtherObject {
    /// Its name, unique among objects of its kind.
    pub name: Name,
    /// The kind of object.
    pub kind: OtherKind,
}

/// A kind of object that we never create.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OtherKind {
    /// A named counter, quota, limit, helper or the like, by the kernel's number for its type.
    Stateful(u32),
    /// A flowtable.
    Flowtable,
}

impl fmt::Display for OtherObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            OtherKind::Stateful(kind) => write!(f, "object {} of type {kind}", self.name),
            OtherKind::Flowtable => write!(f, "flowtable {}", self.name),
        }
    }
}

/// A chain with all its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Its name.
    pub name: Name,
    /// Where packets enter it, if it is a base chain.
    pub hook: Option<Hook>,
    /// Its rules, in order.
    pub rules: Vec<Rule>,
    /// Shown by `nft list`.
    pub comment: Option<String>,
}

/// Where packets enter a base chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hook {
    /// `filter` or `nat`.
    pub kind: ChainKind,
    /// The hook.
    pub point: HookPoint,
    /// The order among the chains of one hook, ascending.
    pub priority: i32,
}

/// The type of a base chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainKind {
    /// `filter`
    Filter,
    /// `nat`
    Nat,
}

/// A netfilter hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookPoint {
    /// Before routing.
    Prerouting,
    /// To this host.
    Input,
    /// Through this host.
    Forward,
    /// From this host.
    Output,
    /// After routing.
    Postrouting,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Evaluated in order.
    pub expressions: Vec<Expression>,
    /// Shown by `nft list`.
    pub comment: Option<String>,
}
