//! `-j DNAT`, `-j REDIRECT` and `-j MASQUERADE`: other addresses and ports.
//!
//! The kernel keeps a range of addresses and ports for each.

mod kept;

use std::fmt::Write as _;
use std::net::IpAddr;

use super::{Extension, PortRange, range};
use crate::iptables::direct::expressions::{ExtensionName, target};
use crate::iptables::direct::option::OptionCall;
use crate::iptables::direct::print::{address_bytes, address_of};
use crate::iptables::direct::{Context, RuleError};
use crate::netlink::Writer;
use crate::nft::Family;
use kept::{Kept, flag};

/// Addresses from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "said above")]
pub struct AddressRange {
    pub first: IpAddr,
    pub last: IpAddr,
}

/// `-j DNAT --to-destination`: the packet goes elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DestinationNat {
    /// The addresses.
    pub addresses: Option<AddressRange>,
    /// The ports, if they change.
    pub ports: Option<PortRange>,
    /// `--random`
    pub random: bool,
    /// `--persistent`
    pub persistent: bool,
}

/// `-j REDIRECT`: the packet goes to this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Redirect {
    /// `--to-ports`
    pub ports: Option<PortRange>,
    /// `--random`
    pub random: bool,
}

/// `-j MASQUERADE`: the packet comes from this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Masquerade {
    /// `--to-ports`
    pub ports: Option<PortRange>,
    /// `--random`
    pub random: bool,
    /// `--random-fully`
    pub fully_random: bool,
}

impl DestinationNat {
    /// Older versions of iptables write older revisions, as far as the kernel has them.
    pub(super) fn decode(info: &[u8], revision: u32, family: Family) -> Option<Self> {
        let kept = match (revision, family) {
            (0, Family::Ip) => Kept::decode_ipv4(info)?,
            (1 | 2, _) => Kept::decode(info)?,
            _ => return None,
        };
        let known = flag::ADDRESSES | flag::PORTS | flag::RANDOM | flag::PERSISTENT;
        let [first, last] = kept.addresses.map(|bytes| address_of(&bytes, family));
        (kept.flags & !known == 0).then_some(Self {
            addresses: kept.has(flag::ADDRESSES).then_some(AddressRange { first, last }),
            ports: kept.ports(),
            random: kept.has(flag::RANDOM),
            persistent: kept.has(flag::PERSISTENT),
        })
    }

    /// `10.0.0.1`, `10.0.0.1-10.0.0.9:80-90`, `[fd00::1]:80` or `:80`.
    fn parse(text: &str, family: Family) -> Option<(Option<AddressRange>, Option<PortRange>)> {
        let (addresses, ports) = match text.strip_prefix('[') {
            Some(rest) => {
                let (addresses, after) = rest.split_once(']')?;
                let ports = if after.is_empty() { None } else { Some(after.strip_prefix(':')?) };
                (addresses, ports)
            }
            None if family == Family::Ip6 => (text, None),
            None => text.split_once(':').map_or((text, None), |(addresses, ports)| (addresses, Some(ports))),
        };
        let ports = match ports {
            Some(ports) => Some(port_range(ports)?),
            None => None,
        };
        let addresses = match addresses {
            "" => None,
            addresses => {
                let (first, last): (IpAddr, IpAddr) = range(addresses, '-')?;
                let is_of_family = |address: IpAddr| address.is_ipv4() == (family == Family::Ip);
                if !is_of_family(first) || !is_of_family(last) {
                    return None;
                }
                Some(AddressRange { first, last })
            }
        };
        (addresses.is_some() || ports.is_some()).then_some((addresses, ports))
    }
}

impl<'a> Extension<'a> for DestinationNat {
    fn required(&self) -> &'static [&'static [&'static str]] {
        &[&["--to-destination"]]
    }

    fn take(&mut self, call: &mut OptionCall<'_, 'a>) -> Result<bool, RuleError> {
        match call.name {
            "--to-destination" => {
                let family = call.family;
                (self.addresses, self.ports) = call.parsed(|text| Self::parse(text, family))?;
            }
            "--random" => self.random = true,
            "--persistent" => self.persistent = true,
            _ => return Ok(false),
        }
        call.plain()?;
        Ok(true)
    }

    fn print(&self, family: Family, out: &mut String) {
        out.push_str("-j DNAT --to-destination ");
        // Writing to memory does not fail.
        if let Some(AddressRange { first, last }) = self.addresses {
            let in_brackets = family == Family::Ip6 && self.ports.is_some();
            out.push_str(if in_brackets { "[" } else { "" });
            let _ = write!(out, "{first}");
            if first != last {
                let _ = write!(out, "-{last}");
            }
            out.push_str(if in_brackets { "]" } else { "" });
        }
        if let Some(ports) = self.ports {
            out.push(':');
            print_ports(ports, out);
        }
        print_flag(self.random, " --random", out);
        print_flag(self.persistent, " --persistent", out);
    }

    fn put(&self, writer: &mut Writer, _: &Context<'_>) -> Result<(), RuleError> {
        let mut kept = Kept::new(self.ports)
            .with(self.addresses.is_some(), flag::ADDRESSES)
            .with(self.random, flag::RANDOM)
            .with(self.persistent, flag::PERSISTENT);
        if let Some(AddressRange { first, last }) = self.addresses {
            kept.addresses = [address_bytes(first), address_bytes(last)];
        }
        target(writer, ExtensionName { name: "DNAT", revision: 2 }, kept.put::<48>().as_bytes());
        Ok(())
    }
}

impl Redirect {
    pub(super) fn decode(info: &[u8], family: Family) -> Option<Self> {
        let kept = Kept::decode_target(info, family, flag::PORTS | flag::RANDOM)?;
        Some(Self { ports: kept.ports(), random: kept.has(flag::RANDOM) })
    }
}

impl<'a> Extension<'a> for Redirect {
    fn take(&mut self, call: &mut OptionCall<'_, 'a>) -> Result<bool, RuleError> {
        match call.name {
            "--to-ports" => self.ports = Some(call.parsed(port_range)?),
            "--random" => self.random = true,
            _ => return Ok(false),
        }
        call.plain()?;
        Ok(true)
    }

    fn print(&self, _: Family, out: &mut String) {
        out.push_str("-j REDIRECT");
        print_to_ports(self.ports, out);
        print_flag(self.random, " --random", out);
    }

    fn put(&self, writer: &mut Writer, context: &Context<'_>) -> Result<(), RuleError> {
        let kept = Kept::new(self.ports).with(self.random, flag::RANDOM);
        kept.put_target(writer, "REDIRECT", context.family);
        Ok(())
    }
}

impl Masquerade {
    pub(super) fn decode(info: &[u8], family: Family) -> Option<Self> {
        let kept = Kept::decode_target(info, family, flag::PORTS | flag::RANDOM | flag::FULLY_RANDOM)?;
        Some(Self {
            ports: kept.ports(),
            random: kept.has(flag::RANDOM),
            fully_random: kept.has(flag::FULLY_RANDOM),
        })
    }
}

impl<'a> Extension<'a> for Masquerade {
    fn take(&mut self, call: &mut OptionCall<'_, 'a>) -> Result<bool, RuleError> {
        match call.name {
            "--to-ports" => self.ports = Some(call.parsed(port_range)?),
            "--random" => self.random = true,
            "--random-fully" => self.fully_random = true,
            _ => return Ok(false),
        }
        call.plain()?;
        Ok(true)
    }

    fn print(&self, _: Family, out: &mut String) {
        out.push_str("-j MASQUERADE");
        print_to_ports(self.ports, out);
        print_flag(self.random, " --random", out);
        print_flag(self.fully_random, " --random-fully", out);
    }

    fn put(&self, writer: &mut Writer, context: &Context<'_>) -> Result<(), RuleError> {
        let kept =
            Kept::new(self.ports).with(self.random, flag::RANDOM).with(self.fully_random, flag::FULLY_RANDOM);
        kept.put_target(writer, "MASQUERADE", context.family);
        Ok(())
    }
}

fn port_range(text: &str) -> Option<PortRange> {
    let (first, last) = range(text, '-')?;
    (first <= last && first > 0).then_some(PortRange { first, last })
}

fn print_ports(ports: PortRange, out: &mut String) {
    // Writing to memory does not fail.
    let _ = write!(out, "{}", ports.first);
    if ports.first != ports.last {
        let _ = write!(out, "-{}", ports.last);
    }
}

fn print_to_ports(ports: Option<PortRange>, out: &mut String) {
    if let Some(ports) = ports {
        out.push_str(" --to-ports ");
        print_ports(ports, out);
    }
}

fn print_flag(is_set: bool, option: &str, out: &mut String) {
    if is_set {
        out.push_str(option);
    }
}
