//! The three structures in which the kernel keeps a range of addresses and ports.

use std::net::Ipv4Addr;

use super::super::PortRange;
use crate::iptables::direct::expressions::{ExtensionName, target};
use crate::iptables::direct::print::address_bytes;
use crate::iptables::direct::structure::{Structure, field, number};
use crate::netlink::Writer;
use crate::nft::Family;

/// Flags of a range (`NF_NAT_RANGE_*`).
pub(super) mod flag {
    pub(in super::super) const ADDRESSES: u32 = 1;
    pub(in super::super) const PORTS: u32 = 2;
    pub(in super::super) const RANDOM: u32 = 4;
    pub(in super::super) const PERSISTENT: u32 = 8;
    pub(in super::super) const FULLY_RANDOM: u32 = 16;
}

/// What the kernel keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    pub flags: u32,
    pub addresses: [[u8; 16]; 2],
    ports: [u16; 2],
}

impl Kept {
    pub(super) fn new(ports: Option<PortRange>) -> Self {
        let flags = if ports.is_some() { flag::PORTS } else { 0 };
        Self {
            flags,
            addresses: [[0; 16]; 2],
            ports: ports.map_or([0; 2], |ports| [ports.first, ports.last]),
        }
    }

    pub(super) fn with(mut self, is_set: bool, flag: u32) -> Self {
        self.flags |= if is_set { flag } else { 0 };
        self
    }

    pub(super) fn has(self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn ports(self) -> Option<PortRange> {
        let [first, last] = self.ports;
        self.has(flag::PORTS).then_some(PortRange { first, last })
    }

    /// `nf_nat_range` and `nf_nat_range2`, which has another field behind it.
    pub(super) fn put<const N: usize>(self) -> Structure<N> {
        let [first, last] = self.addresses;
        let [lowest, highest] = self.ports.map(u16::to_be_bytes);
        Structure::new()
            .with(0, &self.flags.to_ne_bytes())
            .with(4, &first)
            .with(20, &last)
            .with(36, &lowest)
            .with(38, &highest)
    }

    pub(super) fn decode(info: &[u8]) -> Option<Self> {
        let port = |at| field(info, at).map(u16::from_be_bytes);
        Some(Self {
            flags: number(info, 0)?,
            addresses: [field(info, 4)?, field(info, 20)?],
            ports: [port(36)?, port(38)?],
        })
    }

    /// `nf_nat_ipv4_multi_range_compat`: a list of ranges, always of one.
    fn put_ipv4(self) -> Structure<24> {
        let [lowest, highest] = self.ports.map(u16::to_be_bytes);
        let [first, last] = &self.addresses;
        Structure::new()
            .with(0, &1_u32.to_ne_bytes())
            .with(4, &self.flags.to_ne_bytes())
            .with(8, &first[..4])
            .with(12, &last[..4])
            .with(16, &lowest)
            .with(18, &highest)
    }

    pub(super) fn decode_ipv4(info: &[u8]) -> Option<Self> {
        let port = |at| field(info, at).map(u16::from_be_bytes);
        let address = |at| field(info, at).map(|bytes: [u8; 4]| address_bytes(Ipv4Addr::from(bytes).into()));
        let kept = Self {
            flags: number(info, 4)?,
            addresses: [address(8)?, address(12)?],
            ports: [port(16)?, port(18)?],
        };
        (number(info, 0)? == 1).then_some(kept)
    }

    /// The structure of `REDIRECT` and `MASQUERADE`.
    pub(super) fn put_target(self, writer: &mut Writer, name: &'static str, family: Family) {
        let name = ExtensionName { name, revision: 0 };
        match family {
            Family::Ip => target(writer, name, self.put_ipv4().as_bytes()),
            Family::Ip6 => target(writer, name, self.put::<40>().as_bytes()),
        }
    }

    pub(super) fn decode_target(info: &[u8], family: Family, known: u32) -> Option<Self> {
        let kept = match family {
            Family::Ip => Self::decode_ipv4(info)?,
            Family::Ip6 => Self::decode(info)?,
        };
        (kept.flags & !known == 0).then_some(kept)
    }
}
