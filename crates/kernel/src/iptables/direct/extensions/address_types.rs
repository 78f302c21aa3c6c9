//! `-m addrtype`: the kind of an address, as the routing table knows it.

use super::{Extension, print_sign};
use crate::iptables::direct::expressions::{ExtensionName, matching};
use crate::iptables::direct::option::OptionCall;
use crate::iptables::direct::structure::{Structure, number, short};
use crate::iptables::direct::{Context, Negatable, RuleError};
use crate::netlink::Writer;
use crate::nft::Family;

const SIZE: usize = 8;
const DESTINATION: usize = 2;
const FLAGS: usize = 4;
const NEGATED_SOURCE: u32 = 1;
const NEGATED_DESTINATION: u32 = 2;

/// The types, from the lowest bit on.
const NAMES: [&str; 12] = [
    "UNSPEC",
    "UNICAST",
    "LOCAL",
    "BROADCAST",
    "ANYCAST",
    "MULTICAST",
    "BLACKHOLE",
    "UNREACHABLE",
    "PROHIBIT",
    "THROW",
    "NAT",
    "XRESOLVE",
];

/// Types of addresses, a bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressTypes {
    /// `--src-type`
    pub source: Option<Negatable<u16>>,
    /// `--dst-type`
    pub destination: Option<Negatable<u16>>,
}

impl AddressTypes {
    pub(super) fn decode(info: &[u8]) -> Option<Self> {
        let flags = number(info, FLAGS)?;
        // Others limit the match to an interface.
        let is_known = flags & !(NEGATED_SOURCE | NEGATED_DESTINATION) == 0;
        let types = |at, flag| {
            let types = short(info, at)?;
            Some((types != 0).then_some(Negatable { is_negated: flags & flag != 0, value: types }))
        };
        let (source, destination) = (types(0, NEGATED_SOURCE)?, types(DESTINATION, NEGATED_DESTINATION)?);
        let fits = |types: Option<Negatable<u16>>| types.is_none_or(|types| types.value >> NAMES.len() == 0);
        let is_known = is_known && fits(source) && fits(destination);
        (is_known && (source.is_some() || destination.is_some())).then_some(Self { source, destination })
    }
}

impl<'a> Extension<'a> for AddressTypes {
    fn required(&self) -> &'static [&'static [&'static str]] {
        &[&["--src-type", "--dst-type"]]
    }

    fn take(&mut self, call: &mut OptionCall<'_, 'a>) -> Result<bool, RuleError> {
        let place = match call.name {
            "--src-type" => &mut self.source,
            "--dst-type" => &mut self.destination,
            _ => return Ok(false),
        };
        let types = call.parsed(parse)?;
        *place = Some(call.negatable(types));
        Ok(true)
    }

    fn print(&self, _: Family, out: &mut String) {
        out.push_str("-m addrtype");
        for (option, types) in [(" --src-type", self.source), (" --dst-type", self.destination)] {
            let Some(types) = types else { continue };
            print_sign(types.is_negated, out);
            out.push_str(option);
            let mut sign = ' ';
            for (_, name) in NAMES.iter().enumerate().filter(|(bit, _)| types.value >> bit & 1 == 1) {
                out.push(sign);
                out.push_str(name);
                sign = ',';
            }
        }
    }

    fn put(&self, writer: &mut Writer, _: &Context<'_>) -> Result<(), RuleError> {
        let types = |types: Option<Negatable<u16>>| types.map_or(0, |types| types.value).to_ne_bytes();
        let flag = |types: Option<Negatable<u16>>, flag: u32| match types {
            Some(types) if types.is_negated => flag,
            Some(_) | None => 0,
        };
        let flags = flag(self.source, NEGATED_SOURCE) | flag(self.destination, NEGATED_DESTINATION);
        let info = Structure::<SIZE>::new()
            .with(0, &types(self.source))
            .with(DESTINATION, &types(self.destination))
            .with(FLAGS, &flags.to_ne_bytes());
        matching(writer, ExtensionName { name: "addrtype", revision: 1 }, info.as_bytes());
        Ok(())
    }
}

fn parse(text: &str) -> Option<u16> {
    text.split(',').try_fold(0, |types, name| {
        let bit = NAMES.iter().position(|known| *known == name)?;
        Some(types | 1 << bit)
    })
}
