//! Address sets (`ip_set`) over netlink: made, filled, listed and destroyed.
//!
//! Knows the five types that kube-proxy's ipvs mode uses and no extension (timeouts, counters, comments); sets of other types
//! are listed without their entries. [`IpSets`] is the client; backends use it as [`AddressSets`](crate::port::AddressSets).

mod client;
mod entry;
mod errors;
mod wire;

use std::sync::Arc;

pub use client::IpSets;
pub use entry::SetEntry;
pub use errors::{BUSY, FULL, PROTOCOL_ERROR, describe};

use crate::nft::Family;

/// How many entries a hash of ours may have.
pub const MAX_ENTRIES: u32 = 65536;
/// How many buckets a hash of ours starts with.
const HASH_SIZE: u32 = 1024;

/// What the entries of a set are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SetType {
    /// `hash:ip`
    HashIp,
    /// `hash:ip,port`
    HashIpPort,
    /// `hash:ip,port,ip`
    HashIpPortIp,
    /// `hash:ip,port,net`
    HashIpPortNet,
    /// `bitmap:port`
    BitmapPort,
}

impl SetType {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::HashIp, Self::HashIpPort, Self::HashIpPortIp, Self::HashIpPortNet, Self::BitmapPort];

    /// The kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::HashIp => "hash:ip",
            Self::HashIpPort => "hash:ip,port",
            Self::HashIpPortIp => "hash:ip,port,ip",
            Self::HashIpPortNet => "hash:ip,port,net",
            Self::BitmapPort => "bitmap:port",
        }
    }

    /// The newest revision whose attributes are known here, the same as that of the `ipset` program: with the kernel's newest
    /// a hash shows the size of its buckets.
    fn known_revision(self) -> u8 {
        match self {
            Self::BitmapPort => 3,
            Self::HashIp | Self::HashIpPortIp => 6,
            Self::HashIpPort => 7,
            Self::HashIpPortNet => 8,
        }
    }
}

/// A set as it is made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetSpec {
    /// Its name, at most 31 bytes.
    pub name: Arc<str>,
    /// What its entries are.
    pub set_type: SetType,
    /// The family of its addresses. The kernel does not hear of it for a set of ports.
    pub family: Family,
}

impl SetSpec {
    /// The number of the family that the kernel has for such a set: 0 if there are no addresses in it.
    pub fn family_number(&self) -> u8 {
        if self.set_type == SetType::BitmapPort { 0 } else { self.family.number() }
    }
}

/// A set as the kernel has it, without its entries.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeenSet {
    /// Its name.
    pub name: String,
    /// The name of its type.
    pub type_name: String,
    /// The number of its family: 2 is IPv4, 10 IPv6, 0 none.
    pub family: u8,
    /// How many entries it may have, if it is a hash.
    pub maxelem: Option<u32>,
    /// Whether its entries expire, count, carry comments or are cut to networks.
    pub has_extensions: bool,
    /// How many rules and other sets use it.
    pub references: u32,
    /// How many entries it has. Kernels before 4.8 do not say, and it is 0.
    pub elements: u32,
}

impl SeenSet {
    /// Whether making this set would find it and leave it as it is.
    pub fn is_as(&self, spec: &SetSpec) -> bool {
        let maxelem = (spec.set_type != SetType::BitmapPort).then_some(MAX_ENTRIES);
        self.name == *spec.name
            && self.type_name == spec.set_type.name()
            && self.family == spec.family_number()
            && self.maxelem == maxelem
            && !self.has_extensions
    }
}

/// An entry that is added or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetChange<'a> {
    /// The set.
    pub set: &'a SetSpec,
    /// The entry.
    pub entry: SetEntry,
    /// Whether it is added.
    pub add: bool,
}

#[cfg(test)]
mod tests;
