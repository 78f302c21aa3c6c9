//! The names of ipsets, which rules refer to by number.

use std::collections::BTreeMap;

use crate::netlink::{NetlinkError, Request, Socket, Writer};

/// Names and numbers of ipsets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetNames {
    by_index: BTreeMap<u16, String>,
}

impl SetNames {
    /// The name of a number.
    pub fn name(&self, index: u16) -> Option<&str> {
        self.by_index.get(&index).map(String::as_str)
    }

    /// The number of a name.
    pub fn index(&self, name: &str) -> Option<u16> {
        // A host has a few dozen sets, and a handful of rules name one.
        self.by_index.iter().find(|(_, known)| *known == name).map(|(index, _)| *index)
    }
}

impl FromIterator<(u16, String)> for SetNames {
    fn from_iter<I: IntoIterator<Item = (u16, String)>>(sets: I) -> Self {
        Self { by_index: sets.into_iter().collect() }
    }
}

/// Attributes and numbers of ipset's messages (`linux/netfilter/ipset/ip_set.h`).
mod numbers {
    pub(super) const LIST: u16 = 6 << 8 | 7;
    pub(super) const PROTOCOL: u16 = 1;
    pub(super) const SET_NAME: u16 = 2;
    pub(super) const FLAGS: u16 = 6 | BIG_ENDIAN;
    pub(super) const INDEX: u16 = 11;
    const BIG_ENDIAN: u16 = 0x4000;
    /// The version that numbers sets in listings, since Linux 4.20.
    pub(super) const VERSION: u8 = 7;
    /// Flag: no elements.
    pub(super) const HEADERS_ONLY: u32 = 4;
    /// Family, version, resource.
    pub(super) const FIXED: [u8; 4] = [2, 0, 0, 0];
}

impl SetNames {
    /// Reads the names of all sets. A kernel without ipset has none.
    pub(super) fn read(socket: &mut Socket) -> Result<Self, NetlinkError> {
        let mut writer = Writer::new();
        writer.raw(&numbers::FIXED);
        writer.byte(numbers::PROTOCOL, numbers::VERSION);
        writer.number(numbers::FLAGS, numbers::HEADERS_ONLY);
        let request = Request { operation: "listing ipsets", kind: numbers::LIST, body: writer.as_bytes() };
        let listed = socket.dump(request, |message| {
            let attributes = message.attributes(numbers::FIXED.len());
            let name = attributes.text(numbers::SET_NAME)?.to_owned();
            Some((attributes.get(numbers::INDEX)?.short()?, name))
        });
        match listed {
            Ok(listed) => Ok(listed.items.into_iter().collect()),
            Err(NetlinkError::Rejected { .. }) => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }
}
