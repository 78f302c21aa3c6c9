//! `-m ipvs`: the virtual service that a packet belongs to.

use std::fmt::Write as _;
use std::net::IpAddr;

use super::{Extension, print_sign};
use crate::iptables::direct::expressions::{ExtensionName, matching};
use crate::iptables::direct::option::OptionCall;
use crate::iptables::direct::print::{address_bytes, address_of, protocol_number};
use crate::iptables::direct::structure::{Structure, byte, field};
use crate::iptables::direct::{Context, Negatable, RuleError};
use crate::netlink::Writer;
use crate::nft::Family;

pub(super) const NAME: &str = "ipvs";
const SIZE: usize = 40;
const MASK: usize = 16;
const PORT: usize = 32;
const PROTOCOL: usize = 34;
const NEGATED: usize = 38;
const MATCHED: usize = 39;
/// Flag: it belongs to one, which all others imply.
const BELONGS: u8 = 1;
const BY_PROTOCOL: u8 = 2;
const BY_ADDRESS: u8 = 4;
const BY_PORT: u8 = 8;

/// The virtual service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ipvs {
    /// `--vproto`
    pub protocol: Option<Negatable<u8>>,
    /// `--vaddr`
    pub address: Option<Negatable<IpAddr>>,
    /// `--vport`
    pub port: Option<Negatable<u16>>,
}

impl Ipvs {
    pub(super) fn decode(info: &[u8], family: Family) -> Option<Self> {
        let (matched, negated) = (byte(info, MATCHED)?, byte(info, NEGATED)?);
        let others = matched & !(BELONGS | BY_PROTOCOL | BY_ADDRESS | BY_PORT);
        if others != 0 || matched & BELONGS == 0 || matched == BELONGS || negated & BELONGS != 0 {
            return None;
        }
        let flag = |flag: u8| (matched & flag != 0).then_some(negated & flag != 0);
        let length = usize::from(family.address_bits() / 8);
        let mask: [u8; 16] = field(info, MASK)?;
        let is_one_address = mask.iter().take(length).all(|byte| *byte == 0xff);
        if flag(BY_ADDRESS).is_some() && !is_one_address {
            return None;
        }
        let address = address_of(&field::<16>(info, 0)?, family);
        let (protocol, port) = (byte(info, PROTOCOL)?, u16::from_be_bytes(field(info, PORT)?));
        Some(Self {
            protocol: flag(BY_PROTOCOL).map(|is_negated| Negatable { is_negated, value: protocol }),
            address: flag(BY_ADDRESS).map(|is_negated| Negatable { is_negated, value: address }),
            port: flag(BY_PORT).map(|is_negated| Negatable { is_negated, value: port }),
        })
    }
}

impl<'a> Extension<'a> for Ipvs {
    fn required(&self) -> &'static [&'static [&'static str]] {
        &[&["--vproto", "--vaddr", "--vport"]]
    }

    fn take(&mut self, call: &mut OptionCall<'_, 'a>) -> Result<bool, RuleError> {
        match call.name {
            "--vproto" => {
                let protocol = call.parsed(protocol_number)?;
                self.protocol = Some(call.negatable(protocol));
            }
            "--vaddr" => {
                let address: IpAddr = call.number()?;
                if address.is_ipv4() != (call.family == Family::Ip) {
                    return Err(call.bad(&address.to_string()));
                }
                self.address = Some(call.negatable(address));
            }
            "--vport" => {
                let port = call.number()?;
                self.port = Some(call.negatable(port));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn print(&self, _: Family, out: &mut String) {
        out.push_str("-m ");
        out.push_str(NAME);
        // Writing to memory does not fail.
        if let Some(Negatable { is_negated, value }) = self.protocol {
            print_sign(is_negated, out);
            let _ = write!(out, " --vproto {value}");
        }
        if let Some(Negatable { is_negated, value }) = self.address {
            print_sign(is_negated, out);
            let _ = write!(out, " --vaddr {value}");
        }
        if let Some(Negatable { is_negated, value }) = self.port {
            print_sign(is_negated, out);
            let _ = write!(out, " --vport {value}");
        }
    }

    fn put(&self, writer: &mut Writer, _: &Context<'_>) -> Result<(), RuleError> {
        let signs = [
            (self.protocol.map(|protocol| protocol.is_negated), BY_PROTOCOL),
            (self.address.map(|address| address.is_negated), BY_ADDRESS),
            (self.port.map(|port| port.is_negated), BY_PORT),
        ];
        let (mut matched, mut negated) = (BELONGS, 0);
        for (sign, flag) in signs {
            matched |= if sign.is_some() { flag } else { 0 };
            negated |= if sign == Some(true) { flag } else { 0 };
        }
        let mut info = Structure::<SIZE>::new().with(NEGATED, &[negated, matched]);
        if let Some(address) = self.address {
            info = info.with(0, &address_bytes(address.value)).with(MASK, &[0xff; 16]);
        }
        if let Some(protocol) = self.protocol {
            info = info.with(PROTOCOL, &[protocol.value]);
        }
        if let Some(port) = self.port {
            info = info.with(PORT, &port.value.to_be_bytes());
        }
        matching(writer, ExtensionName { name: NAME, revision: 0 }, info.as_bytes());
        Ok(())
    }
}
