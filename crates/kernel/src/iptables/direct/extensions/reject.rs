//! `-j REJECT`: answers with an error.

use super::Extension;
use crate::iptables::direct::expressions::{ExtensionName, target};
use crate::iptables::direct::option::OptionCall;
use crate::iptables::direct::structure::{Structure, number};
use crate::iptables::direct::{Context, RuleError};
use crate::netlink::Writer;
use crate::nft::Family;

/// The kernel's numbers (`IPT_*`), with iptables' names.
const OF_IPV4: [(u32, &str); 8] = [
    (3, "icmp-port-unreachable"),
    (0, "icmp-net-unreachable"),
    (1, "icmp-host-unreachable"),
    (2, "icmp-proto-unreachable"),
    (5, "icmp-net-prohibited"),
    (6, "icmp-host-prohibited"),
    (7, "tcp-reset"),
    (8, "icmp-admin-prohibited"),
];
/// The same for IPv6 (`IP6T_*`).
const OF_IPV6: [(u32, &str); 7] = [
    (4, "icmp6-port-unreachable"),
    (0, "icmp6-no-route"),
    (1, "icmp6-adm-prohibited"),
    (3, "icmp6-addr-unreachable"),
    (6, "tcp-reset"),
    (7, "icmp6-policy-fail"),
    (8, "icmp6-reject-route"),
];

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject {
    /// The kernel's number, which differs between the families.
    with: u32,
    name: &'static str,
}

impl Reject {
    /// "Port unreachable".
    pub fn default_of(family: Family) -> Self {
        let (with, name) = answers(family)[0];
        Self { with, name }
    }

    /// The answer of a name, such as `tcp-reset`.
    pub fn named(name: &str, family: Family) -> Option<Self> {
        Self::find(family, |(_, known)| known == name)
    }

    pub(super) fn decode(info: &[u8], family: Family) -> Option<Self> {
        let with = number(info, 0)?;
        Self::find(family, |(number, _)| number == with)
    }

    fn find(family: Family, is_it: impl Fn((u32, &str)) -> bool) -> Option<Self> {
        let (with, name) = *answers(family).iter().find(|answer| is_it(**answer))?;
        Some(Self { with, name })
    }
}

fn answers(family: Family) -> &'static [(u32, &'static str)] {
    match family {
        Family::Ip => &OF_IPV4,
        Family::Ip6 => &OF_IPV6,
    }
}

impl<'a> Extension<'a> for Reject {
    fn take(&mut self, call: &mut OptionCall<'_, 'a>) -> Result<bool, RuleError> {
        if call.name != "--reject-with" {
            return Ok(false);
        }
        call.plain()?;
        let family = call.family;
        *self = call.parsed(|name| Self::named(name, family))?;
        Ok(true)
    }

    fn print(&self, _: Family, out: &mut String) {
        out.push_str("-j REJECT --reject-with ");
        out.push_str(self.name);
    }

    fn put(&self, writer: &mut Writer, _: &Context<'_>) -> Result<(), RuleError> {
        let info = Structure::<8>::new().with(0, &self.with.to_ne_bytes());
        target(writer, ExtensionName { name: "REJECT", revision: 0 }, info.as_bytes());
        Ok(())
    }
}
