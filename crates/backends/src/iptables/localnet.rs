//! `route_localnet`: what lets NodePorts be served on 127.0.0.1, and would let the network in to whatever listens there.
//!
//! With the setting on, a neighbour can send packets to 127.0.0.1 of this host. kube-proxy's rule in `KUBE-FIREWALL` drops those
//! that nothing redirected, but not those to a NodePort: they were redirected before. So before the setting is
//! switched on there is a chain of ours in table mangle, which sees packets before anything is done to them:
//!
//! ```text
//!   PREROUTING (mangle)  ! -i lo -d 127.0.0.0/8 ─► FERRULE-LOCALNET  DROP  "route_localnet was 0"
//! ```
//!
//! Its comment also records the former value, for a clean-up. A file would not do: the setting and the rules belong to one network
//! namespace and go with it, and both outlive a container, whose files do not. Without a record, kube-proxy's rules are evidence:
//! a proxy that serves NodePorts on loopback has switched the setting on. If there is neither, an administrator did, and it stays.

use ferrule_kernel::iptables::{
    CanonicalRule, ChainName, IptablesError, RestoreText, RuleText, Saved, TableAccess, Variant, if_present,
};
use ferrule_kernel::port::XTables as _;
use ferrule_kernel::sysctl::{self, SysctlError};

use super::base::{Jump, Table};
use super::leftovers::installed;

/// kube-proxy has no such chain.
pub(super) const LOCALNET: &str = "FERRULE-LOCALNET";

/// The jump to it.
pub(super) const JUMP: Jump = Jump {
    table: Table::Mangle,
    from: "PREROUTING",
    rule: r#"-d 127.0.0.0/8 ! -i lo -m comment --comment "packets from the network to loopback" -j FERRULE-LOCALNET"#,
};

const SETTING: &str = "net/ipv4/conf/all/route_localnet";

/// What the setting was before any service proxy needed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LocalnetBefore {
    /// Off, as the kernel has it.
    #[default]
    Off,
    /// On: another program or the administrator wants it.
    On,
}

/// The setting could not be changed, or its former value not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum LocalnetError {
    /// The setting.
    #[error(transparent)]
    Sysctl(#[from] SysctlError),
    /// The record.
    #[error("protecting loopback addresses, to serve NodePorts on them")]
    Iptables(#[from] IptablesError),
}

impl LocalnetBefore {
    /// The only rule of the chain.
    pub(super) fn rule(self) -> RuleText {
        RuleText::literal(match self {
            Self::Off => r#"-m comment --comment "route_localnet was 0" -j DROP"#,
            Self::On => r#"-m comment --comment "route_localnet was 1" -j DROP"#,
        })
    }

    /// What rules say it was, if they say so.
    pub(super) fn recorded(saved: &Saved) -> Option<Self> {
        let of = |table: &str, chain: &str| {
            let rules = saved.table(table).into_iter().flat_map(|table| &table.rules);
            rules
                .filter(|rule| rule.chain.as_str() == chain)
                .map(|rule| rule.text.clone())
                .collect::<Vec<_>>()
        };
        Self::in_chain(&of("mangle", LOCALNET)).or_else(|| Self::by_node_ports(&of("nat", "KUBE-SERVICES")))
    }

    fn in_chain(rules: &[RuleText]) -> Option<Self> {
        let is_there = |before: &Self| {
            let wanted = CanonicalRule::parse(&before.rule());
            rules.iter().any(|rule| CanonicalRule::parse(rule) == wanted)
        };
        [Self::Off, Self::On].into_iter().find(is_there)
    }

    /// A proxy that serves NodePorts on loopback addresses has switched it on.
    fn by_node_ports(rules: &[RuleText]) -> Option<Self> {
        let covers_loopback = |rule: &&RuleText| {
            let covers = rule.contains("--dst-type LOCAL") || rule.contains("-d 127.");
            rule.ends_with("-j KUBE-NODEPORTS") && covers && !rule.contains("! -d 127.")
        };
        rules.iter().find(covers_loopback).map(|_| Self::Off)
    }
}

/// What the setting was before any service proxy switched it on, as far as it is known.
///
/// The variant that will be used comes first; an earlier run may have used the other one.
pub fn before(used: TableAccess) -> Result<LocalnetBefore, LocalnetError> {
    if !is_on()? {
        return Ok(LocalnetBefore::Off);
    }
    let others = installed(used.family()).into_iter().filter(|access| *access != used);
    for access in std::iter::once(used).chain(others) {
        if let Some(before) = recorded_by(access)? {
            return Ok(before);
        }
    }
    Ok(LocalnetBefore::On)
}

/// All rules of a large cluster take the programs of the `nft` variant a minute to show. The `legacy` variant is faster, and asking
/// it for a chain would load its tables.
fn recorded_by(access: TableAccess) -> Result<Option<LocalnetBefore>, IptablesError> {
    let mut tables = access.open()?;
    if access.variant() == Some(Variant::Legacy) {
        return Ok(if_present(tables.save())?.as_ref().and_then(LocalnetBefore::recorded));
    }
    let mut of =
        |table, chain| Ok(if_present(tables.chain_rules(table, chain))?.flatten().unwrap_or_default());
    let in_chain = LocalnetBefore::in_chain(&of("mangle", LOCALNET)?);
    Ok::<_, IptablesError>(match in_chain {
        None => LocalnetBefore::by_node_ports(&of("nat", "KUBE-SERVICES")?),
        found => found,
    })
}

/// Switches the setting on, after closing loopback addresses to the network.
pub fn switch_on(access: TableAccess, before: LocalnetBefore) -> Result<(), LocalnetError> {
    let mut tables = access.open()?;
    let there = tables.chain_rules(Table::Mangle.name(), LOCALNET)?.unwrap_or_default();
    let jumps = tables.chain_rules(Table::Mangle.name(), JUMP.from)?.unwrap_or_default();
    let (rule, jump) = (before.rule(), RuleText::literal(JUMP.rule));
    let mut text = RestoreText::default();
    text.table(Table::Mangle.name(), |lines| {
        if !matches!(&there[..], [one] if CanonicalRule::parse(one) == CanonicalRule::parse(&rule)) {
            lines.chain(LOCALNET);
            lines.append(LOCALNET, &rule);
        }
        if !jumps.iter().any(|rule| CanonicalRule::parse(rule) == CanonicalRule::parse(&jump)) {
            lines.insert(JUMP.from, &jump);
        }
    });
    if !text.is_empty() {
        tables.restore(&text)?;
    }
    Ok(set_on()?)
}

/// The same where the protecting rules exist already.
pub fn set_on() -> Result<(), SysctlError> {
    sysctl::ensure(SETTING, "1")
}

/// Makes the setting what it was; says whether it was something else.
pub fn restore(before: LocalnetBefore) -> Result<bool, SysctlError> {
    if before == LocalnetBefore::On || !is_on()? {
        return Ok(false);
    }
    sysctl::ensure(SETTING, "0").map(|()| true)
}

fn is_on() -> Result<bool, SysctlError> {
    Ok(sysctl::read(SETTING)? != "0")
}

/// The chain, where it is named as others are.
pub(super) fn chain() -> ChainName {
    ChainName::fixed(LOCALNET)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(text: &str) -> Option<LocalnetBefore> {
        LocalnetBefore::recorded(&Saved::parse(text))
    }

    #[test]
    fn what_it_was_is_in_our_chain() {
        let chain = |value: u8| {
            format!(
                "*mangle\n:FERRULE-LOCALNET - [0:0]\n\
                 -A FERRULE-LOCALNET -m comment --comment \"route_localnet was {value}\" -j DROP\nCOMMIT\n"
            )
        };
        assert_eq!(recorded(&chain(0)), Some(LocalnetBefore::Off));
        assert_eq!(recorded(&chain(1)), Some(LocalnetBefore::On));
        let kube_proxys = "*nat\n-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS\nCOMMIT\n";
        assert_eq!(recorded(&(kube_proxys.to_owned() + &chain(1))), Some(LocalnetBefore::On), "ours counts");
    }

    #[test]
    fn without_it_node_ports_on_loopback_tell_that_a_proxy_switched_it_on() {
        for (rule, expected) in [
            ("-m addrtype --dst-type LOCAL -j KUBE-NODEPORTS", Some(LocalnetBefore::Off)),
            ("-d 127.0.0.1/32 -j KUBE-NODEPORTS", Some(LocalnetBefore::Off)),
            ("! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS", None),
            ("-d 192.0.2.1/32 -j KUBE-NODEPORTS", None),
            ("-m addrtype --dst-type LOCAL -j KUBE-NODE-PORT", None),
        ] {
            assert_eq!(recorded(&format!("*nat\n-A KUBE-SERVICES {rule}\nCOMMIT\n")), expected, "{rule}");
        }
        assert_eq!(recorded(""), None);
    }
}
